//! Files without a name that the kernel still knows.
//!
//! Programs may have such a file open, or refer to it without opening it (`O_PATH`). The kernel
//! forgets a node when no program uses it. The FORGET that it then sends drops the reference in
//! `UnlinkedNodes`, and the library frees the file when it is not open any more.

use std::collections::HashMap;

use ferroxfs::Node;

use super::shards::Shards;

/// The most extents of a small file. Freeing a file with more extents takes many transactions.
const FEW_EXTENTS: u64 = 8;

/// The nodes that have no name any more, by node number.
#[derive(Default)]
pub(super) struct UnlinkedNodes(Shards<HashMap<u64, Node>>);

impl UnlinkedNodes {
    /// Keeps a file without a name until the kernel forgets its node.
    pub(super) fn keep(&self, id: u64, node: Node) {
        self.0.of(id).lock().insert(id, node);
    }

    /// Drops the reference to a file, because the kernel has forgotten the file's node, or because
    /// the file has a name again. A FORGET states a number of lookups, but here it ends all lookups
    /// of its node.
    ///
    /// A FORGET may also be for a lookup whose result the kernel dropped at once, or it may be
    /// late, for an earlier inode with the same number. Such a FORGET affects only a file that was
    /// looked up just before it lost its last name. A program that refers to this file without
    /// having it open then loses it.
    ///
    /// `room` is the number of files that the caller still lets this function free. If it is
    /// greater than 0, a small file is freed before this function returns, and `room` decreases by
    /// 1.
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
