//! The open files of a mount.
//!
//! The library may buffer written data until the [`File`] is dropped, and frees an unlinked file
//! only then. So `Handles` keeps a `File` from OPEN to RELEASE. FORGET does not drop the `File`,
//! because a FORGET may come late and mean an earlier inode with the same number.

use std::collections::HashMap;
use std::sync::Arc;

use ferroxfs::{File, InodeNumber};

use super::shards::{SHARDS, Shards};

/// The open files of a mount, by handle.
#[derive(Default)]
pub(super) struct Handles(Shards<HandleShard>);

#[derive(Default)]
struct HandleShard {
    files: HashMap<u64, Arc<File>>,
    /// Number of files that were opened in this shard since the mount began. This number determines
    /// the next handle.
    count: u64,
}

impl Handles {
    /// Stores a file and returns its new handle.
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

    /// Returns the file of a handle, or `None` if there is no such handle.
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

    /// Removes a handle and returns its file, or `None` if there is no such handle.
    pub(super) fn close(&self, handle: u64) -> Option<Arc<File>> {
        self.0.of(handle).lock().files.remove(&handle)
    }
}
