//! Administration of a volume: label and UUID, growing, freezing, shutdown, upkeep, inventories.
//!
//! The operations on an open volume are methods of [`Volume`](crate::Volume). The operations on a
//! volume that is not open are methods of [`Devices`](crate::device::Devices). This module has the
//! types that they take and return.
//!
//! | to | call | types |
//! |---|---|---|
//! | set label, UUID | [`set_label`], [`set_uuid`] | [`Label`], [`Uuid`], [`UuidChange`] |
//! | grow | [`grow`] | [`GrowError`] |
//! | grow a realtime section | [`grow_realtime`] | [`RealtimeGrowthError`] |
//! | shrink | [`shrink`] | [`Shrunk`], [`ShrinkError`], [`ShrinkLimit`] |
//! | make free space read as zeros | [`zero_free_space`] | [`FreeSpaceZeros`] |
//! | copy the device of an open volume | [`freeze`], [`thaw`] | |
//! | stop at once | [`shut_down`] | [`Shutdown`] |
//! | choose how soon changes are durable | [`OpenOptions::upkeep`] | [`Upkeep`] |
//! | see every inode | [`bulkstat`], [`inumbers`] | [`BulkPath`], [`InodeChunkUse`] |
//! | see cached inodes | [`iter_inodes`], [`cache_counts`] | [`WalkFilter`], [`CacheCounts`] |
//! | drop cached inodes | [`drop_caches`] | |
//!
//! ```
//! # let device = xfs_trans::testing::make();
//! # let volume = ferroxfs::OpenOptions::new().write(true).open_device(device)?;
//! use ferroxfs::admin::Label;
//!
//! volume.set_label(&Label::new(b"backup").ok_or("too long")?)?;
//! assert_eq!(volume.label()?, Label::new(b"backup").ok_or("too long")?);
//!
//! // A copy of the device that is taken while the volume is frozen is consistent.
//! volume.freeze()?;
//! volume.thaw()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`set_label`]: crate::Volume::set_label
//! [`set_uuid`]: crate::Volume::set_uuid
//! [`grow`]: crate::Volume::grow
//! [`grow_realtime`]: crate::device::Devices::grow_realtime
//! [`shrink`]: crate::device::Devices::shrink
//! [`zero_free_space`]: crate::Volume::zero_free_space
//! [`freeze`]: crate::Volume::freeze
//! [`thaw`]: crate::Volume::thaw
//! [`shut_down`]: crate::Volume::shut_down
//! [`OpenOptions::upkeep`]: crate::OpenOptions::upkeep
//! [`bulkstat`]: crate::Volume::bulkstat
//! [`inumbers`]: crate::Volume::inumbers
//! [`iter_inodes`]: crate::Volume::iter_inodes
//! [`cache_counts`]: crate::Volume::cache_counts
//! [`drop_caches`]: crate::Volume::drop_caches

pub use crate::open::{RealtimeGrowthError, ShrinkError, ShrinkLimit, Shrunk};
pub use crate::space::FreeSpaceZeros;
pub use crate::volume::GrowError;
pub use crate::volume_ref::Staleness;
pub use xfs_format::superblock::Label;
pub use xfs_format::{AgInode, AgNumber, Uuid};
pub use xfs_icache::{CacheCounts, WalkFilter};
pub use xfs_log::{Shutdown, Summary as RecoverySummary};
pub use xfs_trans::Upkeep;
pub use xfs_vfs::{BulkPath, InodeChunkUse, UuidChange};
