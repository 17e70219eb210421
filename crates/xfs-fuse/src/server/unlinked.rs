//! Files that have no name any more, or never had one, and that the kernel still knows.
//!
//! Programs may be in them, or know them without having opened them (`O_PATH`). The kernel forgets a node
//! once nobody does, which ends the use that is kept here, and the library frees the file once it is not
//! open either.

use std::collections::HashMap;

use ferroxfs::Node;

use super::shards::Shards;

/// With more extents a file takes many transactions to be freed.
const FEW_EXTENTS: u64 = 8;

/// The nodes without a name.
#[derive(Default)]
pub(super) struct UnlinkedNodes(Shards<HashMap<u64, Node>>);

impl UnlinkedNodes {
    /// Keeps a file until its node is forgotten.
    pub(super) fn keep(&self, id: u64, node: Node) {
        self.0.of(id).lock().insert(id, node);
    }

    /// The kernel knows the node no more, or the file has a name again. It forgets a node as a whole,
    /// however often it was looked up. What it looks up and drops at once it forgets on its own, and it
    /// may tell late of an inode that it has made anew since; that can only meet a file without a name
    /// that somebody has looked up just before it lost its last one, and takes it from who has not
    /// opened it.
    ///
    /// A small file is freed before this returns, as long as there is any `room` for that; each takes one of it.
    pub(super) fn forget(&self, id: u64, room: &mut usize) {
        // Freeing the file takes a transaction, so not under the lock.
        let Some(node) = self.0.of(id).lock().remove(&id) else { return };
        // Nobody waits for the answer to a FORGET: what takes hardly longer than to wake a thread for it is done here.
        let metadata = node.metadata();
        let is_small = metadata.extents + u64::from(metadata.attr_extents) <= FEW_EXTENTS;
        if is_small && *room > 0 {
            *room -= 1;
            node.finish();
        }
    }
}
