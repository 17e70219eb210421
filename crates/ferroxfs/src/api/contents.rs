//! Contents of a file beyond reading and writing: ranges, extents, loans, direct access.

pub use crate::extents::{FileExtent, FileExtents};
pub use crate::file::{AllocateMode, DirectAlignment, ExtentLoan, RangeMode};
pub use xfs_format::FsBlock;
pub use xfs_format::inode::ForkKind;
pub use xfs_vfs::LateTimes;
