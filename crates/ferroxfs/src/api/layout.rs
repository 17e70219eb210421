//! The layout of a volume: its addresses, features and sizes. A [`Geometry`] has the features and
//! sizes, and converts addresses.
//!
//! ```
//! # let device = xfs_trans::testing::make();
//! # let volume = ferroxfs::OpenOptions::new().open_device(device)?;
//! use ferroxfs::layout::{AgBlock, FormatVersion, IncompatFeatures};
//!
//! let geometry = volume.geometry();
//! assert_eq!(geometry.version, FormatVersion::V5);
//! assert!(geometry.has_incompat(IncompatFeatures::FTYPE));
//!
//! // Each allocation group begins with the superblock or a copy of it.
//! let starts = geometry.groups().map(|group| geometry.ag_block_disk_addr(group, AgBlock(0)));
//! assert_eq!(starts.count() as u32, geometry.ag_count);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Numbers of groups and inodes are in the module [`admin`](crate::admin), blocks of the volume in
//! [`contents`](crate::contents), and disk addresses in [`error`](crate::error).
//!
//! [`Geometry`]: crate::Geometry

pub use xfs_format::directory::{DirectoryForm, EntryTypes, NameComparison};
pub use xfs_format::features::ProjectIds;
pub use xfs_format::geometry::{InodeLocation, RealtimeBlock, RealtimeGeometry};
pub use xfs_format::{AgBlock, FileBlock, FormatVersion, IncompatFeatures, RoCompatFeatures};
