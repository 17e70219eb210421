//! Access control lists: permissions of a file beyond its mode bits.
//!
//! Owns: how a list and the permission bits agree, and what a new file inherits from the list of
//! its directory. Does **not** own: the on-disk form of lists ([`xfs_format::acl`]), writing them,
//! or permission checks.
//!
//! The rules are those of acl(5), after the withdrawn POSIX 1003.1e, draft 17. A file has at most
//! one access list. A directory also has at most one default list, for files made in it
//! ([`AclKind`]). An access list that grants exactly what the permission bits grant is not stored.

use xfs_buffer::{PosixError, Result};
use xfs_dir::Attributes;
use xfs_format::InodeNumber;
use xfs_format::acl::{self, AclCheck, AclEntry, AclTag};
use xfs_format::attr::Namespace;
use xfs_format::{Corruption, Structure, StructureAddress};
use xfs_inode::Inode;

use crate::mode_bits;

/// Read, write and execute bits of one class: owner, group or others.
const CLASS_BITS: u16 = 0o7;

/// The two kinds of lists that a file can have.
///
/// Closed: POSIX has no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AclKind {
    /// The access list: the permissions on the file itself.
    Access,
    /// The default list of a directory: files made in it inherit this list.
    Default,
}

impl AclKind {
    /// Returns the name of the attribute in the trusted namespace that stores a list of this kind.
    pub(crate) const fn name(self) -> &'static [u8] {
        match self {
            Self::Access => acl::ACCESS_NAME,
            Self::Default => acl::DEFAULT_NAME,
        }
    }

    /// Returns the kind of list that Linux shows as the attribute with the name `full`. Returns
    /// `None` for the name of any other attribute.
    pub fn of_linux_name(full: &[u8]) -> Option<Self> {
        match full {
            b"system.posix_acl_access" => Some(Self::Access),
            b"system.posix_acl_default" => Some(Self::Default),
            _ => None,
        }
    }
}

/// An access control list that is valid by acl(5): see [`new`](Self::new).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl(Vec<AclEntry>);

impl Acl {
    /// Makes an access control list of these entries.
    ///
    /// # Errors
    ///
    /// Returns the check that failed for the entries.
    pub fn new(entries: Vec<AclEntry>) -> Result<Self, AclCheck> {
        acl::verify(&entries)?;
        Ok(Self(entries))
    }

    /// Returns the list that grants the same as the permission bits of `mode`.
    #[must_use]
    pub fn from_mode(mode: u16) -> Self {
        let entry = |tag, shift| AclEntry { tag, permissions: mode >> shift & CLASS_BITS };
        let (owner, group) = (entry(AclTag::Owner, 6), entry(AclTag::OwningGroup, 3));
        Self(vec![owner, group, entry(AclTag::Other, 0)])
    }

    /// Returns the entries in the order owner, users, owning group, groups, mask, others.
    #[must_use]
    pub fn entries(&self) -> &[AclEntry] {
        &self.0
    }

    /// Returns whether permission bits alone can express what the list grants.
    #[must_use]
    #[doc(alias = "posix_acl_equiv_mode")]
    pub fn is_minimal(&self) -> bool {
        let is_base =
            |tag: AclTag| matches!(tag, AclTag::Owner | AclTag::OwningGroup | AclTag::Other);
        self.0.iter().all(|entry| is_base(entry.tag))
    }

    /// Returns the permission bits that agree with this list, 0 to 0o777. The bits of the group are
    /// those of the mask, if the list has one.
    #[must_use]
    pub fn mode_bits(&self) -> u16 {
        self.classes().fold(0, |mode, (entry, shift)| mode | entry.permissions << shift)
    }

    /// Returns this list with the permissions that a chmod of its file to `mode` gives it.
    #[must_use]
    #[doc(alias = "posix_acl_chmod")]
    pub fn with_mode(&self, mode: u16) -> Self {
        self.with_classes(|_, shift| mode >> shift & CLASS_BITS)
    }

    /// Returns the list and the mode of a file that is created with `mode` in a directory with this
    /// default list. The file gets no permission that `mode` does not have.
    #[must_use]
    #[doc(alias = "posix_acl_create")]
    pub fn inherited(&self, mode: u16) -> (Self, u16) {
        let list = self.with_classes(|entry, shift| entry.permissions & mode >> shift);
        let mode = mode & !mode_bits::CLASSES | list.mode_bits();
        (list, mode)
    }

    /// Returns the entries whose permissions also appear in the mode. Each comes with the number of
    /// bits by which they are shifted left there.
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

    /// Decodes the form in which programs pass a list to Linux. `value` is the value of an
    /// attribute. Returns `None` for a list without entries.
    ///
    /// # Errors
    ///
    /// Returns EINVAL for a malformed list, EOPNOTSUPP for one of another version.
    pub fn from_linux_value(value: &[u8]) -> Result<Option<Self>> {
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

    /// Encodes the list as the value of the attribute that stores it.
    ///
    /// # Errors
    ///
    /// Returns E2BIG if the list has more entries than the attribute can hold.
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
}

/// Reads the access control list of one kind of an inode. Returns `None` if the inode has no list
/// of this kind. The caller keeps the inode from changing meanwhile.
pub fn read_acl(
    cache: &xfs_buffer::BufferCache,
    inode: &Inode,
    kind: AclKind,
) -> Result<Option<Acl>> {
    if !inode.core().has_attr_fork() {
        return Ok(None);
    }
    let value = Attributes::new(cache, inode).find(Namespace::Trusted, kind.name())?;
    value.map(|value| Acl::decode(&value, inode.number())).transpose()
}

/// Returns the number of bits by which the permissions of an entry are shifted left in the mode.
/// Returns `None` for an entry whose permissions do not appear in the mode.
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
