//! Files without a name that the kernel still knows.
//!
//! Programs may have them open, or refer to them without opening them (`O_PATH`). The kernel
//! forgets a node when no program uses it. The FORGET drops the reference kept here, and the
//! library frees the file once it is not open either.

use std::collections::HashMap;

use ferroxfs::Node;

use super::shards::Shards;

/// Most extents of a small file. A file with more extents takes many transactions to free.
const FEW_EXTENTS: u64 = 8;

/// The nodes without a name.
#[derive(Default)]
pub(super) struct UnlinkedNodes(Shards<HashMap<u64, Node>>);

impl UnlinkedNodes {
    /// Keeps a file until its node is forgotten.
    pub(super) fn keep(&self, id: u64, node: Node) {
        self.0.of(id).lock().insert(id, node);
    }

    /// Drops the reference, because the kernel has forgotten the node or the file has a name again.
    /// The kernel forgets a node as a whole, however often it was looked up.
    ///
    /// A FORGET may also be for a lookup whose result the kernel dropped at once, or be late, for
    /// an earlier incarnation of its inode. Such a FORGET affects only a file that was looked up
    /// just before it lost its last name. A program that refers to this file without having it open
    /// then loses it.
    ///
    /// A small file is freed before this function returns, if `room` is above 0. Each such file
    /// takes one from `room`.
    pub(super) fn forget(&self, id: u64, room: &mut usize) {
        // Freeing the file takes a transaction, so not under the lock.
        let Some(node) = self.0.of(id).lock().remove(&id) else { return };
        // No program waits for a FORGET. Freeing a small file here takes hardly longer than waking
        // a thread for it.
        let metadata = node.metadata();
        let is_small = metadata.extents + u64::from(metadata.attr_extents) <= FEW_EXTENTS;
        if is_small && *room > 0 {
            *room -= 1;
            node.finish();
        }
    }
}
