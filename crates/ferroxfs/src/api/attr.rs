//! Extended attributes, access control lists and flags of a file.

pub use crate::attributes::Attribute;
pub use xfs_dir::SetMode;
pub use xfs_format::acl::{AclCheck, AclEntry, AclTag};
pub use xfs_format::inode::ExtendedFlags;
pub use xfs_vfs::{Acl, AclKind};
