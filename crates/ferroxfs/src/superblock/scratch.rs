//! A filesystem without a disk, without an index of its own: what has only the generic walk.

use std::sync::Arc;

use xfs_format::InodeNumber;
use xfs_format::inode::FileType;
use xfs_sync::{AtomicBool, AtomicU32, Object, Ordering, Volume};

use super::{Filesystem, InodeList};
use crate::table::{Entry, Inode, Keep, Phase, Release};

/// A file of it.
pub(crate) struct ScratchInode {
    number: InodeNumber,
    nlink: AtomicU32<Object>,
}

impl ScratchInode {
    /// Takes its name away.
    pub(crate) fn unlink(&self) {
        self.nlink.store(0, Ordering::Release);
    }
}

impl Inode for ScratchInode {
    fn file_type(&self) -> FileType {
        FileType::Regular
    }

    fn number(&self) -> InodeNumber {
        self.number
    }

    fn has_name(&self) -> bool {
        self.nlink.load(Ordering::Acquire) > 0
    }
}

/// A filesystem that lives in its list of inodes. As there is nothing behind it, only names keep a file:
/// what is evicted is lost.
pub(crate) struct Scratch {
    list: InodeList<ScratchInode>,
    active: AtomicBool<Volume>,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self { list: InodeList::new(), active: AtomicBool::new(true) }
    }

    /// Makes a file, with one user.
    pub(crate) fn create(&self, number: u64) -> Arc<Entry<ScratchInode>> {
        let inode = ScratchInode { number: InodeNumber(number), nlink: AtomicU32::new(1) };
        let entry = Arc::new(Entry::new(Arc::new(inode), Phase::New, Keep::Cached, None));
        self.list.insert(number, Arc::clone(&entry));
        entry.set_ready();
        entry
    }

    pub(crate) fn deactivate(&self) {
        self.active.store(false, Ordering::SeqCst);
    }
}

impl Filesystem for Scratch {
    type Inode = ScratchInode;

    fn list(&self) -> Option<&InodeList<ScratchInode>> {
        Some(&self.list)
    }

    fn is_active(&self) -> bool {
        self.active.load(Ordering::SeqCst)
    }

    fn release(&self, entry: Arc<Entry<ScratchInode>>) {
        match entry.release(self.is_active()) {
            Release::InUse | Release::Idle => {}
            // It is freed by letting go of it.
            Release::Evicted | Release::Doomed => self.remove(&entry),
        }
    }

    fn remove(&self, entry: &Arc<Entry<ScratchInode>>) {
        self.list.remove(entry.number().0, entry);
    }
}
