//! A per-thread cache of the memory of a transaction's lists, so that the thread's next transaction
//! need not allocate it.
//!
//! Owns: the empty lists. Does **not** own what a transaction puts into them.

use std::cell::Cell;
use std::sync::Arc;

use xfs_log::LogItem;

use super::buffers::JoinedBuffers;
use super::inodes::JoinedInodes;
use super::quota::QuotaLists;

/// The greatest capacity with which a thread keeps a list for its next transaction. Few operations
/// need more, and every thread has lists of its own.
const MAX_KEPT: usize = 64;

/// The lists of a transaction: the buffers, inodes and other objects that it holds.
#[derive(Default)]
pub(super) struct TransactionLists {
    pub(super) buffers: JoinedBuffers,
    pub(super) inodes: JoinedInodes,
    pub(super) items: Vec<Arc<dyn LogItem>>,
    /// The lists of quota. `None` if no transaction of the thread has counted any usage.
    pub(super) quota: Option<Box<QuotaLists>>,
}

thread_local! {
    static KEPT: Cell<Option<TransactionLists>> = const { Cell::new(None) };
}

impl TransactionLists {
    /// Returns empty lists, with the memory that this thread has kept. A transaction that begins
    /// while another one of this thread runs gets lists without memory. So does a transaction in
    /// the destructor of a thread-local variable.
    #[inline]
    pub(super) fn take() -> Self {
        KEPT.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }

    /// Keeps the memory of these lists, which are empty, for the thread's next transaction.
    #[inline]
    pub(super) fn keep(self) {
        debug_assert!(self.buffers.len() + self.inodes.len() + self.items.len() == 0);
        debug_assert!(self.quota.as_ref().is_none_or(|quota| quota.is_empty()));
        let longest = self.buffers.capacity().max(self.inodes.capacity());
        let of_quota = self.quota.as_ref().map_or(0, |quota| quota.capacity());
        if longest.max(self.items.capacity()).max(of_quota) <= MAX_KEPT {
            let _ = KEPT.try_with(|kept| kept.set(Some(self)));
        }
    }
}
