//! Contents of a file beyond reading and writing: ranges, extents, loans, direct access.
//!
//! ```
//! # let device = xfs_trans::testing::make();
//! # let volume = ferroxfs::OpenOptions::new().write(true).open_device(device)?;
//! use ferroxfs::contents::{ForkKind, RangeMode};
//!
//! let file = volume.create_file("/sparse")?;
//! file.write_at(&[1; 12288], 0)?;
//! file.change_range(4096..8192, RangeMode::Punch)?;
//! assert_eq!(file.seek_hole(0)?, Some(4096));
//! assert_eq!(file.seek_data(4096)?, Some(8192));
//!
//! let extents: Vec<_> = file.node().extents(ForkKind::Data).collect::<Result<_, _>>()?;
//! assert_eq!(extents.iter().map(|extent| extent.offset_bytes).collect::<Vec<_>>(), [0, 8192]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use crate::extents::{FileExtent, FileExtents};
pub use crate::file::{AllocateMode, DirectAlignment, ExtentLoan, RangeMode};
pub use xfs_format::FsBlock;
pub use xfs_format::inode::ForkKind;
pub use xfs_vfs::LateTimes;
