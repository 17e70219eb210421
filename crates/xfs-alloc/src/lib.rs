//! Allocation groups: headers, free space, inode chunks, reverse map, reference counts.
//!
//! Owns: finding the btrees of a group through its headers, what they say of blocks and inode
//! numbers, and the counters that follow from them. Does **not** own the walk along a btree
//! ([`xfs_btree`]), the inodes themselves, or the choice of where to allocate.
//!
//! Records and blocks are checked where they are decoded and joined. What takes a whole walk, the
//! comparison of a header's counters with the records that they count, is
//! [`AgHeaders::verify_counters`] and is done only when asked for.

mod counters;
mod headers;
mod inode_chunks;
mod sharing;

pub use counters::VolumeCounters;
pub use headers::{AgHeaders, read_agf, read_agi, read_free_list};
pub use inode_chunks::{InodeState, find_chunk, inode_chunks, inode_state};
pub use sharing::{SharingRun, sharing_run};

#[cfg(test)]
mod tests;
