//! Allocation groups: headers, free space, inode chunks, reverse map, reference counts.
//!
//! Owns: reading and changing the btrees of a group; the choice of blocks and inodes; the reserves
//! of each group for its btrees; and the counters. Does **not** own btrees as such ([`xfs_btree`]),
//! transactions ([`xfs_trans`]), or the inodes themselves.
//!
//! | task | items |
//! |---|---|
//! | reading headers and their btrees | [`AgHeaders`], [`sharing_run`], [`inode_state`] |
//! | opening for writing | [`open_journal`], [`AllocatorState`] |
//! | allocating blocks | [`allocate_extent`] |
//! | freeing, mapping, counting references | [`defer_free`], [`defer_map`], [`defer_share`] |
//! | realtime extents of files | [`allocate_realtime`], [`free_realtime`] |
//! | growing and shrinking the volume | [`grow()`], [`withhold`], [`shorten_last_group`] |
//! | after a crash | [`resume`], [`recover_leftovers`] |
//!
//! Each record is verified when it is decoded, and each block against its neighbours when a cursor
//! reaches it. Comparing a header's counters with the records takes a walk over whole btrees;
//! [`AgHeaders::verify_counters`] does it on request.
//!
//! The design of the writing side is in docs/internals/space.md.

mod allocate;
mod counters;
mod deferred;
mod discard;
mod extent;
mod group;
mod grow;
mod headers;
mod inode_chunks;
mod inodes;
mod leftovers;
mod mappings;
mod open;
mod owner;
mod realtime;
mod reference_counts;
mod sharing;
mod shrink;
mod space;

pub use allocate::{AllocationTarget, SpaceRequest, allocate_extent};
pub use counters::VolumeCounters;
pub use deferred::{
    FileMapping, defer_convert, defer_free, defer_free_realtime, defer_map, defer_share,
    defer_stage, defer_unmap, defer_unshare, defer_unstage, resume,
};
pub use discard::{FreeSpaceClearing, discard_free_space, discard_remaining, enable_discard};
pub use extent::BlockExtent;
pub use grow::grow;
pub use headers::{AgHeaders, read_agf, read_agi, read_free_list};
pub use inode_chunks::{InodeState, find_chunk, inode_chunks, inode_state};
pub use inodes::{
    AllocatedInode, FreedInode, InodePurpose, LinkState, UnlinkedList, add_unlinked,
    allocate_inode, chunks_freed, clear_unlinked_list, free_inode, inode_blocks,
    latched_inode_chunks, latched_inode_state, remove_unlinked, unlinked_lists,
};
pub use leftovers::recover_leftovers;
pub use open::{available_blocks, open_journal};
pub use owner::{BlockPurpose, ExtentOwner, Section};
pub use realtime::{
    CollectionGuard, FreeExtentCount, NewSpaceFile, RealtimeFileSizes, RealtimeFiles,
    RealtimeGroupFiles, RealtimeSpace, ZoneCollection, ZoneRecord, ZoneSpace, ZoneUse,
    allocate_realtime, free_realtime, give_up_zone_blocks, grow_realtime, lock_realtime,
    log_realtime_sizes, next_realtime_size, realtime_sharing_run, take_zone_blocks,
    use_zone_blocks, write_group_blocks,
};
pub use sharing::{SharingRun, overwritable_run, sharing_run};
pub use shrink::{
    ShrinkSpace, cut_groups, move_group_blocks, shorten_last_group, shrink_space,
    update_superblock_copies, withhold,
};
pub use space::{AllocatorState, GroupSummary};

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
