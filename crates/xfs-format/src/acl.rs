//! Access control list (`xfs_acl`): the value of two extended attributes in the trusted namespace.
//!
//! Owns: the disk form of a list, and the form in which Linux shows the list to programs: the value
//! of `system.posix_acl_access` or `system.posix_acl_default`. Does **not** own: reading the
//! attribute, or the permissions that a list grants.
//!
//! ```text
//! 0       4        8       12      14    16
//! | count | tag    | id    | permissions | pad |  tag ...
//! ```

use alloc::vec::Vec;
use core::mem::size_of;

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, little_endian};

use crate::addr::InodeNumber;
pub use crate::checks::acl::AclCheck;
use crate::corruption::{Check, Corruption, Structure, StructureAddress};

/// Name of the attribute with the access control list of a file, in the trusted namespace.
#[doc(alias = "SGI_ACL_FILE")]
pub const ACCESS_NAME: &[u8] = b"SGI_ACL_FILE";
/// Name of the attribute with the access control list that new files in a directory inherit.
#[doc(alias = "SGI_ACL_DEFAULT")]
pub const DEFAULT_NAME: &[u8] = b"SGI_ACL_DEFAULT";
/// The largest number of entries of a list: those that fit into the longest attribute value.
#[doc(alias = "XFS_ACL_MAX_ENTRIES")]
pub const MAX_ACL_ENTRIES: u32 =
    ((MAX_VALUE_BYTES - size_of::<U32>()) / size_of::<EntryDisk>()) as u32;

const MAX_VALUE_BYTES: usize = 1 << 16;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct EntryDisk {
    tag: U32,
    id: U32,
    permissions: U16,
    pad: U16,
}

const _: () = assert!(size_of::<EntryDisk>() == 12);

/// One entry of a list in the Linux form, which is little-endian on every machine.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PosixEntry {
    tag: little_endian::U16,
    permissions: little_endian::U16,
    id: little_endian::U32,
}

/// Version of the Linux form.
const POSIX_ACL_XATTR_VERSION: u32 = 2;
/// The first bytes of a list in the Linux form: the version.
pub const POSIX_XATTR_HEADER: [u8; 4] = [POSIX_ACL_XATTR_VERSION as u8, 0, 0, 0];
/// The identifier that the Linux form stores in entries that name no user or group.
const POSIX_ACL_UNDEFINED_ID: u32 = u32::MAX;

/// The users that an entry applies to, or the mask.
///
/// Not `#[non_exhaustive]`: POSIX has no other tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AclTag {
    /// The owner of the file.
    Owner,
    /// The user with this user ID.
    User(u32),
    /// The group that owns the file.
    OwningGroup,
    /// The group with this group ID.
    Group(u32),
    /// The upper bound of the rights of named users, named groups and the group of the file.
    Mask,
    /// All other users.
    Other,
}

impl AclTag {
    const fn decode(raw: u32, id: u32) -> Option<Self> {
        match raw {
            0x01 => Some(Self::Owner),
            0x02 => Some(Self::User(id)),
            0x04 => Some(Self::OwningGroup),
            0x08 => Some(Self::Group(id)),
            0x10 => Some(Self::Mask),
            0x20 => Some(Self::Other),
            _ => None,
        }
    }

    /// Returns the rank of the tag. The entries of a list are sorted by rank.
    const fn rank(self) -> u8 {
        match self {
            Self::Owner => 0,
            Self::User(_) => 1,
            Self::OwningGroup => 2,
            Self::Group(_) => 3,
            Self::Mask => 4,
            Self::Other => 5,
        }
    }

    const fn encode(self) -> (u16, u32) {
        match self {
            Self::Owner => (0x01, POSIX_ACL_UNDEFINED_ID),
            Self::User(id) => (0x02, id),
            Self::OwningGroup => (0x04, POSIX_ACL_UNDEFINED_ID),
            Self::Group(id) => (0x08, id),
            Self::Mask => (0x10, POSIX_ACL_UNDEFINED_ID),
            Self::Other => (0x20, POSIX_ACL_UNDEFINED_ID),
        }
    }
}

/// One entry of an access control list.
///
/// Not `#[non_exhaustive]`: POSIX has no other fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AclEntry {
    /// The users that the entry applies to.
    pub tag: AclTag,
    /// The rights of the users that the entry applies to: the sum of 4 for read, 2 for write and 1
    /// for execute.
    pub permissions: u16,
}

/// Checks that the entries form a valid list (acl(5), "Valid ACLs").
///
/// A list has entries for the owner, named users, the group of the file, named groups, the mask and
/// others, in this order. Named users and groups are optional, and without them the mask is
/// optional too.
///
/// # Errors
///
/// Returns the check that failed.
#[doc(alias = "posix_acl_valid")]
pub fn verify(entries: &[AclEntry]) -> Result<(), AclCheck> {
    let ranks = || entries.iter().map(|entry| entry.tag.rank());
    let count = |rank: u8| ranks().filter(|other| *other == rank).count();
    if [AclTag::Owner, AclTag::OwningGroup, AclTag::Other].iter().any(|tag| count(tag.rank()) == 0)
    {
        return Err(AclCheck::Incomplete);
    }
    let is_named = |tag: AclTag| matches!(tag, AclTag::User(_) | AclTag::Group(_));
    let is_twice = |entry: &AclEntry| !is_named(entry.tag) && count(entry.tag.rank()) > 1;
    if !ranks().is_sorted() || entries.iter().any(is_twice) {
        return Err(AclCheck::Order);
    }
    if entries.iter().any(|entry| is_named(entry.tag)) && count(AclTag::Mask.rank()) == 0 {
        return Err(AclCheck::NoMask);
    }
    let nobody = [AclTag::User(POSIX_ACL_UNDEFINED_ID), AclTag::Group(POSIX_ACL_UNDEFINED_ID)];
    if entries.iter().any(|entry| nobody.contains(&entry.tag)) {
        return Err(AclCheck::ReservedId);
    }
    Ok(())
}

/// Decodes the value of the attribute `SGI_ACL_FILE` or `SGI_ACL_DEFAULT`. `inode` is the inode
/// number of the file, for messages.
///
/// # Errors
///
/// Returns a [`Corruption`] if the count of entries does not match the length, or a tag is unknown.
pub fn decode(value: &[u8], inode: InodeNumber) -> Result<Vec<AclEntry>, Corruption> {
    decode_entries(value)
        .map_err(|check| Corruption::new(Structure::Acl, StructureAddress::Inode(inode), check))
}

fn decode_entries(value: &[u8]) -> Result<Vec<AclEntry>, Check> {
    let truncated = Check::Truncated { available: value.len(), needed: size_of::<U32>() };
    let (count, rest) = U32::ref_from_prefix(value).map_err(|_| truncated)?;
    let count = count.get();
    let entries = <[EntryDisk]>::ref_from_bytes(rest)
        .ok()
        .filter(|entries| entries.len() == count as usize && count <= MAX_ACL_ENTRIES)
        .ok_or(AclCheck::Count { count, bytes: value.len() })?;
    let decoded = entries.iter().map(decode_entry).collect::<Result<_, _>>()?;
    Ok(decoded)
}

fn decode_entry(disk: &EntryDisk) -> Result<AclEntry, AclCheck> {
    let (tag, permissions) = (disk.tag.get(), disk.permissions.get());
    if permissions > 0o7 {
        return Err(AclCheck::Permissions { permissions });
    }
    let tag = AclTag::decode(tag, disk.id.get()).ok_or(AclCheck::Tag { tag })?;
    Ok(AclEntry { tag, permissions })
}

/// Encodes a list as the value of `system.posix_acl_access` or `system.posix_acl_default`.
#[must_use]
pub fn encode_posix_xattr(entries: &[AclEntry]) -> Vec<u8> {
    let mut value = POSIX_XATTR_HEADER.to_vec();
    for entry in entries {
        let (tag, id) = entry.tag.encode();
        let posix =
            PosixEntry { tag: tag.into(), permissions: entry.permissions.into(), id: id.into() };
        value.extend_from_slice(posix.as_bytes());
    }
    value
}

/// Decodes a value that a program sets as `system.posix_acl_access` or `system.posix_acl_default`.
/// Returns `None` if the value is not a list.
#[must_use]
pub fn decode_posix_xattr(value: &[u8]) -> Option<Vec<AclEntry>> {
    let entries = value.strip_prefix(&POSIX_XATTR_HEADER)?;
    let entries = <[PosixEntry]>::ref_from_bytes(entries).ok()?;
    let decode = |entry: &PosixEntry| {
        let tag = AclTag::decode(entry.tag.get().into(), entry.id.get())?;
        let permissions = entry.permissions.get();
        (permissions <= 0o7).then_some(AclEntry { tag, permissions })
    };
    entries.iter().map(decode).collect()
}

/// Encodes a list as the value of the attribute `SGI_ACL_FILE` or `SGI_ACL_DEFAULT`.
#[must_use]
pub fn encode(entries: &[AclEntry]) -> Vec<u8> {
    let mut value = U32::new(entries.len() as u32).as_bytes().to_vec();
    for entry in entries {
        let (tag, id) = entry.tag.encode();
        let disk = EntryDisk {
            tag: u32::from(tag).into(),
            id: id.into(),
            permissions: entry.permissions.into(),
            pad: 0.into(),
        };
        value.extend_from_slice(disk.as_bytes());
    }
    value
}

#[cfg(test)]
mod tests;
