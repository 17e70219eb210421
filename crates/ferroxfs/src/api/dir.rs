//! Listings in parts, and the way from an inode back to its names.
//!
//! [`Volume::read_dir`](crate::Volume::read_dir) lists a whole directory. A listing in parts, as a
//! server needs it, continues after a [`Cookie`]:
//!
//! ```
//! # let device = xfs_trans::testing::make();
//! # let volume = ferroxfs::OpenOptions::new().write(true).open_device(device)?;
//! use ferroxfs::dir::Cookie;
//!
//! for name in ["/a", "/b", "/c"] {
//!     volume.create_dir(name)?;
//! }
//! let root = volume.root()?;
//! let (mut from, mut names) = (Cookie::START, Vec::new());
//! while let Some(entry) = root.entries_from(from)?.next() {
//!     let entry = entry?;
//!     from = entry.cookie().after();
//!     names.push(entry.name().to_owned());
//! }
//! assert_eq!(names, ["a", "b", "c"]);
//!
//! let number = volume.lookup("/b")?.number();
//! assert_eq!(volume.inode_paths(number)?.paths, [std::path::Path::new("/b")]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use crate::directory::{ListingProgress, ReadDirPlus};
pub use crate::inode_paths::{InodePaths, Parent};
pub use xfs_dir::Cookie;
