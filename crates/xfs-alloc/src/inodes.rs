//! Inodes: allocating and freeing them, their chunks, and the unlinked lists.
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
//! - **I5** The path in each btree that a group keeps ([`state`]) is that of the last editor which
//!   may have changed the btree. An operation on a btree takes its path away, under the latch of
//!   the AGI, and puts it back only if nothing has failed. So the blocks on the path are those of
//!   the btree. They were checked against each other on the first descent, and need no second one.
//! - **I6** A step that has changed something latches an AGI only if it may wait for it: the AGIs
//!   come in the order of the groups, and before any AGF. Operations that change two unlinked lists
//!   begin with the lower inode number.
//!
//! # What is shared
//!
//! Nothing of the whole volume. New directories go to the groups in turn, by a counter of each
//! slot; files go to the group of their directory. The state of a group in memory belongs to the
//! group.
//!
//! # Lock order
//!
//! Inodes, then AGIs in the order of the groups, then the buffers of inode clusters, then AGFs in
//! the order of the groups. A lower header than the highest that the step keeps is only tried
//! ([`GroupHeader`](xfs_trans::GroupHeader)). So a step that keeps an AGI may wait for the AGF of
//! any group.

mod allocate;
mod bulk;
mod chunk;
mod free;
mod group;
mod lookup;
mod state;
mod unlinked;

pub use allocate::{AllocatedInode, InodePurpose, allocate_inode, inode_blocks};
pub use bulk::latched_inode_chunks;
pub use free::{FreedInode, LinkState, free_inode};
pub use lookup::{chunks_freed, latched_inode_state};
pub(crate) use state::extend_groups;
pub use unlinked::{
    UnlinkedList, add_unlinked, clear_unlinked_list, remove_unlinked, unlinked_lists,
};

#[cfg(test)]
mod tests;
