//! Switches and figures that only benchmarks use. **No stability is promised.**
//!
//! This module needs the feature `bench`, which also adds methods to
//! [`OpenOptions`] and [`Node`].

pub use xfs_dir::ParentPath;
pub use xfs_icache::InodeIndex;
pub use xfs_vfs::LockCheck;

use crate::node::Node;
use crate::open::OpenOptions;
use crate::volume_ref::InodeRef;

impl Node {
    /// Returns the address in memory of the inode's cache line that each open and close reads.
    /// Benchmarks of opens report it, because another thread that writes a neighbouring line may
    /// slow an open down. `None` on a volume that is open for reading, because opens of such a
    /// volume write to no inode.
    #[must_use]
    pub fn memory_address(&self) -> Option<usize> {
        let line =
            |inode_ref: &InodeRef| std::ptr::from_ref(inode_ref.inode().marks()).addr() & !63;
        self.inode_ref().map(line)
    }
}

impl OpenOptions {
    /// Sets how parent pointers are changed: directly in the inode where possible, or always by
    /// intents.
    #[must_use]
    pub fn parent_path(mut self, path: ParentPath) -> Self {
        self.options.parents = path;
        self
    }

    /// Sets how the mount finds its cached inodes: by an index for each allocation group alone, or
    /// also by one list of all cached inodes.
    #[must_use]
    pub fn inode_index(mut self, index: InodeIndex) -> Self {
        self.inode_index = index;
        self
    }

    /// Sets the number of lists (slots) in which the log gathers commits until it writes them: by
    /// default two for each processor. With 1, all threads share one list. With a
    /// [`fixed_time`](Self::fixed_time) there is always one list.
    ///
    /// # Panics
    ///
    /// With 0 slots.
    #[must_use]
    pub fn log_slots(mut self, slots: usize) -> Self {
        assert!(slots > 0, "a log has at least one slot");
        self.log_slots = Some(slots);
        self
    }

    /// Sets how an open and a close find out whether a file has locks: by a flag alone, or by also
    /// reading the pointer to the locks.
    #[must_use]
    pub fn lock_check(mut self, check: LockCheck) -> Self {
        self.options.lock_check = check;
        self
    }
}
