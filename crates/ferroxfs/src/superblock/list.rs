//! One list of all inodes, for a filesystem without an index that can be walked.
//!
//! Every inode that comes or goes takes the one lock: good enough for a small filesystem, and what a
//! large one is measured against.

use std::collections::BTreeMap;
use std::sync::Arc;

use xfs_sync::{Mutex, Volume};

use super::{Existing, Step, Visit};
use crate::table::Entry;

/// Inodes of one step.
const STEP_INODES: usize = 64;

/// All inodes of a filesystem that are in memory.
pub(crate) struct InodeList<I>(Mutex<BTreeMap<u64, Arc<Entry<I>>>, Volume>);

impl<I> InodeList<I> {
    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }

    pub(crate) fn insert(&self, number: u64, entry: Arc<Entry<I>>) {
        self.0.lock().insert(number, entry);
    }

    /// Takes an inode out, unless another has its place already.
    pub(crate) fn remove(&self, number: u64, entry: &Arc<Entry<I>>) {
        let mut list = self.0.lock();
        if list.get(&number).is_some_and(|found| Arc::ptr_eq(found, entry)) {
            list.remove(&number);
        }
    }

    /// One step of a walk. The inodes are shown without the lock: references keep them.
    pub(crate) fn visit(&self, cursor: u64, visit: &mut Visit<'_, I>) -> Step {
        let found: Vec<_> = {
            let list = self.0.lock();
            let rest = list.range(cursor..).take(STEP_INODES);
            rest.map(|(number, entry)| (*number, Arc::clone(entry))).collect()
        };
        let Some((last, _)) = found.last() else { return Step::End };
        let next = last.checked_add(1).map_or(Step::End, Step::On);
        for (_, entry) in &found {
            if visit(Existing(entry)).is_break() {
                return Step::Stopped;
            }
        }
        next
    }
}
