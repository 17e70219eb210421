//! Allocating and freeing inodes, their chunks, and the unlinked lists.
//!
//! Owns: the choice of a group and of an inode in it, the two inode btrees and the AGI, full and
//! sparse chunks, and the unlinked lists. Does **not** own the contents of an inode (`xfs-inode`),
//! nor the space for chunks and btrees ([`allocate_extent`](crate::allocate_extent)).
//!
//! # Invariants
//!
//! - **I1** The holder of the latch of an AGI may read both inode btrees of the group and follow
//!   its unlinked lists. Only that holder changes them.
//! - **I2** A chunk is in the free-inode btree if and only if it has a free inode, and its record
//!   is the same in both btrees.
//! - **I3** A new chunk is committed, as free inodes, before one of them is taken. If the creation
//!   of the file fails later, the chunk is still whole.
//! - **I4** An inode is on an unlinked list from the transaction that removes its last name to the
//!   transaction that frees it. A crash in between therefore leaks no space.
//! - **I5** For each inode btree a group keeps a saved path ([`state`]): the path of the last
//!   editor that may have changed the btree. Under the latch of the AGI, an operation on a btree
//!   takes the path out, and puts a path back only if nothing has failed. So the blocks on a saved
//!   path always belong to the btree. They were checked against each other on the first descent,
//!   and need no second check.
//! - **I6** A step that has changed something latches an AGI only if it may wait for it: the AGIs
//!   come in the order of the groups, and before any AGF. Operations that change two unlinked lists
//!   begin with the lower inode number.
//!
//! # What is shared
//!
//! There is no state that all groups share. New directories go to the groups in turn, by a counter
//! in each per-CPU slot; files go to the group of their directory. Each group has its own state in
//! memory.
//!
//! # Lock order
//!
//! Inodes, then AGIs in the order of the groups, then the buffers of inode clusters, then AGFs in
//! the order of the groups. A header that comes before the highest header that the step keeps is
//! only tried, not waited for ([`GroupHeader`](xfs_trans::GroupHeader)). So a step that keeps an
//! AGI may wait for the AGF of any group.

mod allocate;
mod bulk;
mod chunk;
mod free;
mod group;
mod lookup;
mod relocate;
mod state;
mod unlinked;

pub use allocate::{AllocatedInode, InodePurpose, allocate_inode, inode_blocks};
pub use bulk::latched_inode_chunks;
pub use free::{FreedInode, LinkState, free_inode};
pub use lookup::{chunks_freed, latched_inode_state};
pub(crate) use relocate::move_inode_btree_block;
pub(crate) use state::extend_groups;
pub use unlinked::{
    UnlinkedList, add_unlinked, clear_unlinked_list, remove_unlinked, unlinked_lists,
};

#[cfg(test)]
mod tests;
