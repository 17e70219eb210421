//! In-core inodes, forks and extent maps: from an inode number to the bytes of a file.
//!
//! Owns: [`Inode`], its two [`Fork`]s, and the map from file blocks to blocks of the volume. Owns
//! reading file data, link targets and metadata blocks in a fork, changing them through
//! [`LiveInode`], and freeing a file. Does **not** own the meaning of those metadata blocks
//! (directories and attributes are in the layer above), names, or a cache of inodes. The changes of
//! files are described in docs/internals/files.md.
//!
//! Inodes share no state of the volume: an inode holds no reference to the buffer cache, but
//! receives one with each call. References in all inodes would share one counter, which all CPUs
//! would write whenever an inode is loaded or dropped.
//!
//! # Invariants
//!
//! - **I1** An [`Inode`] was verified, and is not free.
//! - **I2** The extents of an [`ExtentMap`] are in file order, do not overlap, and lie inside the
//!   volume, so that reading through it needs no further checks.
//! - **I3** The work to load a map is bounded by the number of btree blocks. The keys of a level
//!   rise strictly, so no block is visited twice, and no more records are kept than the inode
//!   counts.

#[cfg(test)]
mod check;
mod contents;
mod edit;
mod extent_map;
mod extent_walk;
mod fork;
mod fork_block;
mod fork_room;
mod inode;
mod live;
mod map_counts;
mod symlink;
#[cfg(test)]
mod testing;

pub use contents::extent_address;
pub use edit::BlockRange;
pub use extent_map::{ExtentMap, Mapping};
pub use extent_walk::ForkExtents;
pub use fork::{BtreeFork, Fork};
pub use fork_block::BlockShape;
pub use inode::Inode;
pub use live::{
    CachedInodes, ExchangedRange, InitialInode, InodeGuard, KeepSize, LiveInode, MapRequest,
    RealtimeGroupInodes, RecentBuffers, Relocation, SharedRange, WriteOptions, grow_realtime_group,
    grow_realtime_section, map_blocks, map_blocks_at_worst, new_attribute_room, realtime_files,
    realtime_group_files, resume, set_collector_inodes, zone_record,
};
pub use map_counts::{MapCounts, MapUse};
