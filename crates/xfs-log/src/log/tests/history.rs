//! A workload whose log shows whether the order of its transactions was kept.
//!
//! Each transaction takes the next number of a shared item, and logs new items that carry it. Other
//! transactions only look at the shared item, and log its number in an item of their own thread.
//! So:
//!
//! - new items are in the log in the order of their numbers, and those of one transaction in the
//!   order in which they were given;
//! - after every checkpoint, the shared item has the number of the newest new items, and no thread
//!   has seen a later number;
//! - checkpoints start and end in the order of their sequences.

use std::collections::BTreeMap;
use std::sync::Arc;

use xfs_buffer::Result;

use super::rig::commit;
use crate::cil::Committed;
use crate::log::Log;
use crate::testing::decode::Transaction;
use crate::testing::item::{TestItem, number_at};

/// The block number of the shared item. The item of each thread follows.
const SHARED: u64 = 8;
/// Factor of the block numbers of new items. A new item has the block number `NEW` times the number
/// that the item carries, plus the index of the item in its transaction.
const NEW: u64 = 1 << 20;

/// Number of new items that each transaction logs.
const FAN: u64 = 3;

/// The items of the workload that are changed again and again: the shared item, and one item of
/// each thread.
pub(super) struct History {
    shared: Arc<TestItem>,
    own: Vec<Arc<TestItem>>,
}

impl History {
    pub(super) fn new(threads: u64) -> Self {
        let own = (1..=threads).map(|thread| TestItem::new(SHARED + 8 * thread)).collect();
        Self { shared: TestItem::new(SHARED), own }
    }

    /// Raises the number of the shared item by one, and commits the item together with new items
    /// that carry this number.
    pub(super) fn advance(&self, log: &Log) -> Result<Committed> {
        let lock = self.shared.lock();
        let number = self.shared.number(0) + 1;
        self.shared.set(0, number);
        let new: Vec<_> = (0..FAN).map(|index| TestItem::new(NEW * number + index)).collect();
        let mut items = vec![&self.shared];
        items.extend(&new);
        let committed = commit(log, &items);
        drop(lock);
        committed
    }

    /// Returns whether no checkpoint pins the shared item or an item of a thread.
    #[cfg(shuttle)]
    pub(super) fn is_unpinned(&self) -> bool {
        self.shared.pins() == 0 && self.own.iter().all(|own| own.pins() == 0)
    }

    /// Copies the present number of the shared item into the item that belongs to the thread with
    /// the index `thread`, and commits that item.
    pub(super) fn look(&self, log: &Log, thread: usize) -> Result<Committed> {
        let lock = self.shared.lock();
        let own = &self.own[thread];
        let own_lock = own.lock();
        own.set(0, self.shared.number(0));
        let committed = commit(log, &[own]);
        drop(own_lock);
        drop(lock);
        committed
    }
}

/// Checks that the transactions in a log kept the order that the module describes. Transactions
/// before the tail are no longer in the log, so the check also accepts a history whose beginning is
/// missing. Returns an error that names the first violation.
pub(super) fn check(transactions: &[Transaction]) -> std::result::Result<(), String> {
    let mut last_new = 0;
    let mut now = BTreeMap::new();
    let mut last = None;
    for transaction in transactions {
        let place = (transaction.started, transaction.number);
        if last.is_some_and(|last| last > place) {
            return Err(format!("{place:?} comes after {last:?}"));
        }
        last = Some(place);
        for (at, bytes) in transaction.buffers() {
            if at >= NEW {
                if at <= last_new {
                    return Err(format!("{at:#x} comes after {last_new:#x}"));
                }
                last_new = at;
            } else {
                now.insert(at, number_at(&bytes, 0));
            }
        }
        let Some(shared) = now.get(&SHARED).copied() else { continue };
        let newest = last_new / NEW;
        if newest != shared {
            return Err(format!("the shared item has {shared}, the newest {newest}"));
        }
        if let Some(seen) = now.values().find(|seen| **seen > shared) {
            return Err(format!("a thread has seen {seen} while the newest is {shared}"));
        }
    }
    Ok(())
}
