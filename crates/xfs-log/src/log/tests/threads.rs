//! Tests of the log's threads: the log runs with fewer threads if the operating system refuses to
//! start more.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use xfs_device::MemoryDevice;

use super::rig::{Rig, check_settled};
use crate::item::LogItem;
use crate::log::threads::{Threads, spawn};
use crate::log::{Log, LogConfig, LogInner};
use crate::mutant::ActiveMutant;
use crate::testing::item::TestItem;

/// Opens a log for which the operating system starts `granted` threads and refuses all further
/// threads.
fn open_refused(rig: &Rig, config: &LogConfig, granted: usize) -> Log {
    let (log, state) = (rig.log_device(), rig.state());
    let inner = Arc::new(LogInner::new(log, None, &state, config, ActiveMutant::default()));
    let started = Cell::new(0);
    let threads = Threads::start(&inner, config.threads, &move |name, work| {
        if started.get() == granted {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        started.set(started.get() + 1);
        spawn(name, work)
    });
    Log { inner, threads }
}

#[test]
fn log_runs_with_the_threads_that_the_system_grants() {
    for granted in 0..=3 {
        let rig = Rig::new(2048);
        let config = LogConfig { threads: 2, ..rig.config() };
        let log = open_refused(&rig, &config, granted);
        // At least one thread of each kind, or none.
        assert_eq!(log.inner.has_threads(), granted >= 2);
        let place = Arc::new(MemoryDevice::new(1 << 20));
        let item = TestItem::large_in_place(0, 64 << 10, place);
        // Several times around the log, so that commits have to wait for space.
        for number in 1..=100 {
            let mut ticket = log.reserve(80 << 10, 1).unwrap();
            let lock = item.lock();
            item.set(0, number);
            let items = [Arc::clone(&item) as Arc<dyn LogItem>];
            let committed = log.commit(&mut ticket, &items).unwrap();
            drop(lock);
            log.settle(committed).unwrap();
            log.release(ticket);
        }
        check_settled(&log);
        log.unmount().unwrap();
        assert!(rig.state().clean);
    }
}
