//! Access control lists: who may do what with a file beyond its permission bits.
//!
//! Owns: how a list and the permission bits of a mode say one thing, and what a new file gets of
//! the list of its directory. Does **not** own: their form ([`xfs_format::acl`]), writing them, or whether
//! somebody may do something.
//!
//! The rules are those of acl(5), after the withdrawn POSIX 1003.1e, draft 17. A file has at most one
//! list for access and a directory one more for what is made in it ([`AclKind`]). A list for access that
//! says no more than the permission bits is not kept: the bits say it.

use xfs_buffer::{PosixError, Result};
use xfs_dir::Attributes;
use xfs_format::InodeNumber;
use xfs_format::acl::{self, AclCheck, AclEntry, AclTag};
use xfs_format::attr::Namespace;
use xfs_format::{Corruption, Structure, StructureAddress};
use xfs_inode::Inode;

use crate::permission::bits;

/// Read, write and execute, of one class.
const CLASS_BITS: u16 = 0o7;

/// Which list of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AclKind {
    /// Who may do what with the file.
    Access,
    /// Of a directory: what files get that are made in it.
    Default,
}

impl AclKind {
    /// The name in the trusted namespace under which it is kept.
    pub(crate) const fn name(self) -> &'static [u8] {
        match self {
            Self::Access => acl::ACCESS_NAME,
            Self::Default => acl::DEFAULT_NAME,
        }
    }

    /// The list that Linux knows under this attribute name, if that means one.
    pub(crate) fn of_linux_name(full: &[u8]) -> Option<Self> {
        match full {
            b"system.posix_acl_access" => Some(Self::Access),
            b"system.posix_acl_default" => Some(Self::Default),
            _ => None,
        }
    }
}

/// An access control list that is valid, as acl(5) has it: [`new`](Self::new) sees to that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl(Vec<AclEntry>);

impl Acl {
    /// A list of these entries.
    ///
    /// # Errors
    ///
    /// What makes it invalid.
    pub fn new(entries: Vec<AclEntry>) -> Result<Self, AclCheck> {
        acl::verify(&entries)?;
        Ok(Self(entries))
    }

    /// The list that says as much as the permission bits.
    #[must_use]
    pub fn of_mode(mode: u16) -> Self {
        let entry = |tag, shift| AclEntry { tag, permissions: mode >> shift & CLASS_BITS };
        let (owner, group) = (entry(AclTag::Owner, 6), entry(AclTag::OwningGroup, 3));
        Self(vec![owner, group, entry(AclTag::Other, 0)])
    }

    /// The entries: owner, users, group of the file, groups, mask, others.
    #[must_use]
    pub fn entries(&self) -> &[AclEntry] {
        &self.0
    }

    /// Whether it says no more than permission bits can.
    #[must_use]
    #[doc(alias = "posix_acl_equiv_mode")]
    pub fn is_minimal(&self) -> bool {
        let is_base =
            |tag: AclTag| matches!(tag, AclTag::Owner | AclTag::OwningGroup | AclTag::Other);
        self.0.iter().all(|entry| is_base(entry.tag))
    }

    /// The permission bits that go with it, 0 to 0o777: those of the group are the mask, if it has one.
    #[must_use]
    pub fn mode_bits(&self) -> u16 {
        self.classes().fold(0, |mode, (entry, shift)| mode | entry.permissions << shift)
    }

    /// The list when the permission bits become those of `mode`.
    #[must_use]
    #[doc(alias = "posix_acl_chmod")]
    pub fn with_mode(&self, mode: u16) -> Self {
        self.with_classes(|_, shift| mode >> shift & CLASS_BITS)
    }

    /// What a file that is made with `mode` in a directory with this default list gets: its list,
    /// and its mode. It has no permission that `mode` does not have.
    #[must_use]
    #[doc(alias = "posix_acl_create")]
    pub fn inherited(&self, mode: u16) -> (Self, u16) {
        let list = self.with_classes(|entry, shift| entry.permissions & mode >> shift);
        let mode = mode & !bits::CLASSES | list.mode_bits();
        (list, mode)
    }

    /// The entries that the permission bits show, each with its place among them.
    fn classes(&self) -> impl Iterator<Item = (AclEntry, u16)> {
        let has_mask = self.0.iter().any(|entry| entry.tag == AclTag::Mask);
        self.0.iter().filter_map(move |entry| Some((*entry, place(entry.tag, has_mask)?)))
    }

    fn with_classes(&self, permissions: impl Fn(AclEntry, u16) -> u16) -> Self {
        let has_mask = self.0.iter().any(|entry| entry.tag == AclTag::Mask);
        let change = |entry: &AclEntry| match place(entry.tag, has_mask) {
            Some(shift) => AclEntry { permissions: permissions(*entry, shift), ..*entry },
            None => *entry,
        };
        Self(self.0.iter().map(change).collect())
    }

    /// Reads the form in which programs give a list to Linux; `None` for one without entries.
    ///
    /// # Errors
    ///
    /// EINVAL for what is no list, EOPNOTSUPP for one of another version.
    pub(crate) fn of_linux_value(value: &[u8]) -> Result<Option<Self>> {
        if value.is_empty() {
            return Ok(None);
        }
        let is_other = |version: &[u8; 4]| *version != acl::POSIX_XATTR_HEADER;
        if value.first_chunk().is_some_and(is_other) {
            return Err(PosixError::NotSupported.into());
        }
        let entries = acl::decode_posix_xattr(value).ok_or(PosixError::InvalidArgument)?;
        if entries.is_empty() {
            return Ok(None);
        }
        Self::new(entries).map(Some).map_err(|_| PosixError::InvalidArgument.into())
    }

    /// The value of the attribute that keeps it.
    ///
    /// # Errors
    ///
    /// E2BIG for more entries than an attribute can hold.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        if self.0.len() > acl::MAX_ACL_ENTRIES as usize {
            return Err(PosixError::ValueTooLong.into());
        }
        Ok(acl::encode(&self.0))
    }

    fn decode(value: &[u8], inode: InodeNumber) -> Result<Self> {
        let entries = acl::decode(value, inode)?;
        let corrupt =
            |check| Corruption::new(Structure::Acl, StructureAddress::Inode(inode), check);
        Ok(Self::new(entries).map_err(corrupt)?)
    }

    /// The list of an inode; `None` if it has none. Nobody changes the inode meanwhile.
    pub(crate) fn read(
        cache: &xfs_buffer::BufferCache,
        inode: &Inode,
        kind: AclKind,
    ) -> Result<Option<Self>> {
        if !inode.core().has_attr_fork() {
            return Ok(None);
        }
        let value = Attributes::new(cache, inode).find(Namespace::Trusted, kind.name())?;
        value.map(|value| Self::decode(&value, inode.number())).transpose()
    }
}

/// Where the permission bits show an entry, if they do: as far to the left as is returned.
const fn place(tag: AclTag, has_mask: bool) -> Option<u16> {
    match tag {
        AclTag::Owner => Some(6),
        AclTag::Mask => Some(3),
        AclTag::OwningGroup if !has_mask => Some(3),
        AclTag::Other => Some(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
