//! Open files.
//!
//! What is written through a [`File`] is gathered by the library until that is stale_contents, and a file that
//! loses its last name is not freed before, so one lives here from OPEN to RELEASE. That does not hang on
//! when the kernel forgets the node: it may tell that late, of the inode that it had before this one.

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
    /// How many there were.
    count: u64,
}

impl Handles {
    /// Keeps a file under a new handle.
    pub(super) fn open(&self, file: File) -> u64 {
        let number = file.node().number().0;
        let mut shard = self.0.of(number).lock();
        shard.count += 1;
        // None of them is 0, which is what the kernel says where nothing is opened, and each leads back to its shard.
        let handle = shard.count * SHARDS + number % SHARDS;
        shard.files.insert(handle, Arc::new(file));
        handle
    }

    /// The file of a handle.
    pub(super) fn file(&self, handle: u64) -> Option<Arc<File>> {
        self.0.of(handle).lock().files.get(&handle).cloned()
    }

    /// The numbers of the inodes that are open for writing.
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

    /// Gives up a handle.
    pub(super) fn close(&self, handle: u64) -> Option<Arc<File>> {
        self.0.of(handle).lock().files.remove(&handle)
    }
}
