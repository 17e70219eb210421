//! Extended attributes: each namespace has rules of its own.

use xfs_buffer::{BufferCache, PosixError, Result};
use xfs_format::attr::Namespace;
use xfs_format::inode::FileType;
use xfs_inode::Inode;

use super::bits::STICKY;
use super::{Access, Who};
use crate::credentials::Capabilities;

/// What programs gain by executing the file, among the attributes of security.
pub(crate) const CAPABILITIES: &[u8] = b"capability";

/// What is to be done with an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttributeUse {
    Read,
    Change,
}

impl Who<'_> {
    /// Whether an attribute, under its name on disk, may be used so.
    #[doc(alias = "xattr_permission")]
    pub(crate) fn check_attribute(
        self,
        (cache, inode): (&BufferCache, &Inode),
        (namespace, name): (Namespace, &[u8]),
        wanted: AttributeUse,
    ) -> Result<()> {
        if self.somebody().is_none() {
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

    /// Whether trusted attributes are there for somebody.
    pub(crate) fn sees_trusted(self) -> bool {
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
