//! Listings in parts, and the way from an inode back to its names.

pub use crate::directory::{ListingProgress, ReadDirPlus};
pub use crate::inode_paths::{InodePaths, Parent};
pub use xfs_dir::Cookie;
