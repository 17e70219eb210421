//! Open files.
//!
//! The library may buffer written data until the [`File`] is dropped, and frees an unlinked file
//! only then. So a `File` lives here from OPEN to RELEASE. Its lifetime does not depend on FORGET:
//! the kernel may send a late FORGET, for an earlier incarnation of the inode.

use std::collections::HashMap;
use std::sync::Arc;

use ferroxfs::{File, InodeNumber};

use super::shards::{SHARDS, Shards};

/// The open files.
#[derive(Default)]
pub(super) struct Handles(Shards<Shard>);

#[derive(Default)]
struct Shard {
    files: HashMap<u64, Arc<File>>,
    /// Number of files that were opened so far.
    count: u64,
}

impl Handles {
    /// Stores a file under a new handle.
    pub(super) fn open(&self, file: File) -> u64 {
        let number = file.node().number().0;
        let mut shard = self.0.of(number).lock();
        shard.count += 1;
        // No handle is 0, which the kernel sends if nothing was opened. Each handle identifies its
        // shard.
        let handle = shard.count * SHARDS + number % SHARDS;
        shard.files.insert(handle, Arc::new(file));
        handle
    }

    /// Returns the file of a handle.
    pub(super) fn file(&self, handle: u64) -> Option<Arc<File>> {
        self.0.of(handle).lock().files.get(&handle).cloned()
    }

    /// Returns the numbers of the inodes that are open for writing.
    pub(super) fn written(&self) -> Vec<InodeNumber> {
        let mut numbers = Vec::new();
        for shard in self.0.iter() {
            let shard = shard.lock();
            let written = shard.files.values().filter(|file| file.is_writable());
            numbers.extend(written.map(|file| file.node().number()));
        }
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Removes a handle.
    pub(super) fn close(&self, handle: u64) -> Option<Arc<File>> {
        self.0.of(handle).lock().files.remove(&handle)
    }
}
