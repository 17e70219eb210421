//! Tests that find mutants (deliberate bugs) without a particular schedule of threads.

use std::thread;

use super::history::{History, check};
use super::rig::Rig;
use crate::mutant::{ActiveMutant, Mutant};

/// Commits to the same checkpoint from several threads, one after another, and writes the
/// checkpoint. Returns an error if the items are in the wrong order in the log.
fn history(mutant: ActiveMutant) -> Result<(), String> {
    let rig = Rig::new(4096);
    let log = rig.open_with(&rig.config(), mutant);
    let history = History::new(1);
    for _ in 0..16 {
        thread::scope(|scope| scope.spawn(|| drop(history.advance(&log))).join().unwrap());
    }
    log.force_all().unwrap();
    check(&rig.transactions())
}

#[test]
fn members_are_written_in_order() {
    history(ActiveMutant::default()).unwrap();
}

#[test]
fn no_sort_is_found() {
    history(ActiveMutant::with(Mutant::NoSort)).unwrap_err();
}

#[test]
fn unstable_sort_is_found() {
    history(ActiveMutant::with(Mutant::UnstableSort)).unwrap_err();
}
