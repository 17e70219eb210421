//! Inodes: taking one, giving one back, the chunks that they lie in, and the lists of unlinked ones.
//!
//! Owns: the choice of a group and of an inode in it, the two inode btrees and the AGI, chunks in
//! full and sparse, and the unlinked lists. Does **not** own what is in an inode (`xfs-inode`), nor
//! the space that chunks and btrees are made of ([`allocate_extent`](crate::allocate_extent)).
//!
//! # Invariants
//!
//! - **I1** Whoever holds the latch of an AGI may read both inode btrees of the group and follow its
//!   unlinked lists; both change only by them.
//! - **I2** A chunk is in the free-inode btree if and only if it has a free inode, and its record is
//!   the same in both.
//! - **I3** A new chunk is committed, as free inodes, before one of them is taken: whatever happens
//!   to the file that it is made for, the chunk is whole.
//! - **I4** An inode is on an unlinked list from the transaction that takes its last name away to
//!   the one that frees it, so that a crash in between leaves nobody's space behind.
//! - **I5** The place in each btree that a group keeps ([`state`]) is that of the last editor which may have
//!   changed the btree. Whoever works on a btree takes its place away, under the latch of the AGI, and
//!   puts it back only if nothing has failed: so the blocks on the way to it are those of the btree,
//!   checked against each other when they were walked through, and need no second walk.
//!
//! # What is shared
//!
//! Nothing of the whole volume. New directories go from group to group by a number of each slot;
//! files go where their directory is; what is known of a group in memory is the group's.
//!
//! # Lock order
//!
//! Inodes, then the AGI of a group, then the buffers of inode clusters, then its AGF. The AGI of a
//! group below the highest that the step has latched is only tried.

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
