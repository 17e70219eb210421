//! Planted bugs that need no particular schedule.

use std::thread;

use super::history::{History, check};
use super::rig::Rig;
use crate::plant::{Plant, Plants};

/// One checkpoint, to which threads commit one after the other.
fn history(plants: Plants) -> Result<(), String> {
    let rig = Rig::new(4096);
    let log = rig.open_with(&rig.config(), plants);
    let history = History::new(1);
    for _ in 0..16 {
        thread::scope(|scope| scope.spawn(|| drop(history.advance(&log))).join().unwrap());
    }
    log.force_all().unwrap();
    check(&rig.transactions())
}

#[test]
fn sorted() {
    history(Plants::default()).unwrap();
}

#[test]
fn no_sort() {
    history(Plants::with(Plant::NoSort)).unwrap_err();
}

#[test]
fn unstable_sort() {
    history(Plants::with(Plant::UnstableSort)).unwrap_err();
}
