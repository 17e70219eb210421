//! Permissions to read and change extended attributes. Each namespace has its own rules.

use xfs_buffer::{BufferCache, PosixError, Result};
use xfs_format::attr::Namespace;
use xfs_format::inode::FileType;
use xfs_inode::Inode;

use super::{Access, Caller};
use crate::credentials::Capabilities;
use crate::mode_bits::STICKY;

/// Name of the security attribute that gives capabilities to a process executing the file.
pub(crate) const CAPABILITIES: &[u8] = b"capability";

/// The name of an attribute on disk, with its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QualifiedName<'a> {
    /// The namespace.
    pub namespace: Namespace,
    /// The name within the namespace.
    pub name: &'a [u8],
}

/// The access to an attribute that a caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeUse {
    /// The caller reads the value of the attribute.
    Read,
    /// The caller sets or removes the attribute.
    Change,
}

impl Caller<'_> {
    /// Checks that the caller may access an attribute, given by its name on disk.
    #[doc(alias = "xattr_permission")]
    pub fn check_attribute(
        self,
        cache: &BufferCache,
        inode: &Inode,
        QualifiedName { namespace, name }: QualifiedName<'_>,
        wanted: AttributeUse,
    ) -> Result<()> {
        if self.credentials().is_none() {
            return Ok(());
        }
        match (namespace, wanted) {
            (Namespace::User, _) => self.check_user_attribute(cache, inode, wanted),
            (Namespace::Security, AttributeUse::Read) => Ok(()),
            (Namespace::Security, AttributeUse::Change) if name == CAPABILITIES => {
                self.require(Capabilities::SETFCAP)
            }
            (Namespace::Security, AttributeUse::Change) => self.require(Capabilities::SYS_ADMIN),
            (_, AttributeUse::Change) => self.require(Capabilities::SYS_ADMIN),
            (_, AttributeUse::Read) if self.sees_trusted() => Ok(()),
            (_, AttributeUse::Read) => Err(PosixError::NoAttribute.into()),
        }
    }

    /// Returns whether the caller may read attributes of the `trusted` namespace.
    pub fn sees_trusted(self) -> bool {
        self.has(Capabilities::SYS_ADMIN)
    }

    fn check_user_attribute(
        self,
        cache: &BufferCache,
        inode: &Inode,
        wanted: AttributeUse,
    ) -> Result<()> {
        let is_directory = inode.file_type() == FileType::Directory;
        if wanted == AttributeUse::Read {
            return match inode.file_type() {
                FileType::Regular | FileType::Directory => self.check(cache, inode, Access::READ),
                _ => Err(PosixError::NoAttribute.into()),
            };
        }
        if is_directory && inode.core().mode & STICKY != 0 {
            self.check_owner(inode.core())?;
        }
        self.check(cache, inode, Access::WRITE)
    }
}
