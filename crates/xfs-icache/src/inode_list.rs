//! One list of all inodes, for a filesystem without an index by groups.
//!
//! Every insertion and every removal takes one lock. One lock suffices for a small filesystem. For
//! a large filesystem, the list is the baseline of benchmarks.

use std::collections::BTreeMap;
use std::sync::Arc;

use xfs_sync::{Mutex, Volume};

use crate::cached_inode::CachedInode;
use crate::kind::InodeKind;
use crate::walk_step::{Existing, WalkStep, WalkVisitor};

/// The most inodes that one step of a walk shows.
const STEP_INODES: usize = 64;

/// All cached inodes of a filesystem.
pub struct InodeList<K: InodeKind>(Mutex<Listed<K>, Volume>);

struct Listed<K: InodeKind> {
    inodes: BTreeMap<u64, Arc<CachedInode<K>>>,
    /// The inode number at which reclaim continues.
    hand: u64,
}

impl<K: InodeKind> Listed<K> {
    /// Returns the inodes that one step of a walk shows: the first `STEP_INODES` from inode number
    /// `cursor` on.
    fn from(&self, cursor: u64) -> Vec<(u64, Arc<CachedInode<K>>)> {
        let rest = self.inodes.range(cursor..).take(STEP_INODES);
        rest.map(|(number, entry)| (*number, Arc::clone(entry))).collect()
    }
}

/// Returns where the walk continues after the inodes in `found`, or the end of the walk if `found`
/// is empty.
fn after<K: InodeKind>(found: &[(u64, Arc<CachedInode<K>>)]) -> WalkStep {
    found.last().and_then(|(last, _)| last.checked_add(1)).map_or(WalkStep::End, WalkStep::Next)
}

impl<K: InodeKind> InodeList<K> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Listed { inodes: BTreeMap::new(), hand: 0 }))
    }

    pub(crate) fn insert(&self, number: u64, entry: Arc<CachedInode<K>>) {
        self.0.lock().inodes.insert(number, entry);
    }

    /// Removes an inode, unless another inode has its number in the list already.
    pub(crate) fn remove(&self, number: u64, entry: &Arc<CachedInode<K>>) {
        let list = &mut self.0.lock().inodes;
        if list.get(&number).is_some_and(|found| Arc::ptr_eq(found, entry)) {
            list.remove(&number);
        }
    }

    /// Makes one step of a walk: calls `visit` with the inodes of the list from `cursor` on, at
    /// most `STEP_INODES`. The list is not locked meanwhile, because references keep the inodes in
    /// memory.
    pub(crate) fn visit(&self, cursor: u64, visit: &mut WalkVisitor<'_, K>) -> WalkStep {
        let found = self.0.lock().from(cursor);
        Self::show(&found, visit)
    }

    /// Makes one step of reclaim's clock hand: calls `visit` with the next inodes of the list. At
    /// the end of the list the hand returns to the start.
    pub(crate) fn visit_at_hand(&self, visit: &mut WalkVisitor<'_, K>) -> WalkStep {
        let found = {
            let mut list = self.0.lock();
            let found = list.from(list.hand);
            list.hand = if let WalkStep::Next(next) = after(&found) { next } else { 0 };
            found
        };
        Self::show(&found, visit)
    }

    fn show(found: &[(u64, Arc<CachedInode<K>>)], visit: &mut WalkVisitor<'_, K>) -> WalkStep {
        for (_, entry) in found {
            if visit(Existing(entry)).is_break() {
                return WalkStep::Stopped;
            }
        }
        after(found)
    }
}
