//! Extended attributes, access control lists and flags of a file.
//!
//! ```
//! # let device = xfs_trans::testing::make();
//! # let volume = ferroxfs::OpenOptions::new().write(true).open_device(device)?;
//! use std::ffi::OsStr;
//!
//! use ferroxfs::attr::{Acl, AclEntry, AclKind, AclTag, SetMode};
//!
//! volume.write("/page", b"text")?;
//! let page = volume.lookup("/page")?;
//! page.set_attribute("user.mime_type", b"text/plain", SetMode::Either)?;
//! assert_eq!(page.attribute(OsStr::new("user.mime_type"))?, b"text/plain");
//!
//! // The owner, user 1000, the group, and others.
//! let entry = |tag, permissions| AclEntry { tag, permissions };
//! let list = Acl::new(vec![
//!     entry(AclTag::Owner, 6),
//!     entry(AclTag::User(1000), 4),
//!     entry(AclTag::OwningGroup, 0),
//!     entry(AclTag::Mask, 4),
//!     entry(AclTag::Other, 0),
//! ])?;
//! page.set_acl(AclKind::Access, Some(&list))?;
//! assert_eq!(page.acl(AclKind::Access)?, Some(list));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use crate::attributes::Attribute;
pub use xfs_dir::SetMode;
pub use xfs_format::acl::{AclCheck, AclEntry, AclTag};
pub use xfs_format::inode::ExtendedFlags;
pub use xfs_vfs::{Acl, AclKind};
