//! Extended attributes: names to values, in three forms that share their entries' meaning.
//!
//! Owns: namespaces, flags, and in the modules below each form. Does **not** own: the nodes of
//! larger attribute forks ([`dabtree`](crate::dabtree)), what a value means
//! ([`acl`](crate::acl), [`parent`](crate::parent)) and what Linux calls an attribute.
//!
//! A few attributes lie in the inode ([`short_form`]). More lie in leaves ([`leaf`]), block 0 of
//! the fork being the only leaf or the root node of a tree of them. A value too long for a leaf
//! lies in blocks of its own ([`remote`]).

pub mod leaf;
pub mod remote;
pub mod short_form;

use bitflags::bitflags;
use thiserror::Error;

use crate::addr::FileBlock;

pub use leaf::AttrLeaf;
pub use remote::RemoteBlock;
pub use short_form::{AttrShortForm, AttrShortFormEntries};

/// Bytes in the longest value.
#[doc(alias = "XFS_XATTR_SIZE_MAX")]
pub const MAX_VALUE: u32 = 64 << 10;

/// Names and remote values in a leaf start at multiples of this many bytes.
pub const ALIGNMENT: usize = 4;

bitflags! {
    /// Flags of an attribute as they stand on disk.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AttrFlags: u8 {
        /// The value lies beside the name (leaves only).
        const LOCAL = 1 << 0;
        /// Namespace "trusted".
        const ROOT = 1 << 1;
        /// Namespace "security".
        const SECURE = 1 << 2;
        /// Parent pointer.
        const PARENT = 1 << 3;
        /// Being made or removed: not there for anybody (leaves only).
        const INCOMPLETE = 1 << 7;
    }
}

/// The namespace of an attribute: the same name may stand in each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespace {
    /// `user.`
    User,
    /// `trusted.`, and the names that Linux shows elsewhere, as ACLs.
    #[doc(alias = "XFS_ATTR_ROOT")]
    Trusted,
    /// `security.`
    #[doc(alias = "XFS_ATTR_SECURE")]
    Security,
    /// Parent pointers, which no user sees as attributes.
    #[doc(alias = "XFS_ATTR_PARENT")]
    Parent,
}

impl Namespace {
    /// The namespace that these flags name, or `None` for more than one.
    #[must_use]
    pub const fn from_flags(flags: AttrFlags) -> Option<Self> {
        const ROOT: u8 = AttrFlags::ROOT.bits();
        const SECURE: u8 = AttrFlags::SECURE.bits();
        const PARENT: u8 = AttrFlags::PARENT.bits();
        match flags.bits() & (ROOT | SECURE | PARENT) {
            0 => Some(Self::User),
            ROOT => Some(Self::Trusted),
            SECURE => Some(Self::Security),
            PARENT => Some(Self::Parent),
            _ => None,
        }
    }

    /// The flag on disk.
    #[must_use]
    pub const fn flags(self) -> AttrFlags {
        match self {
            Self::User => AttrFlags::empty(),
            Self::Trusted => AttrFlags::ROOT,
            Self::Security => AttrFlags::SECURE,
            Self::Parent => AttrFlags::PARENT,
        }
    }
}

/// An attribute, its name borrowed from the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttrEntry<'a> {
    /// The namespace.
    pub namespace: Namespace,
    /// The name without a prefix: 1 to 255 bytes, of any encoding.
    pub name: &'a [u8],
    /// The value, or where it lies.
    pub value: AttrValue<'a>,
}

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrValue<'a> {
    /// It lies beside the name.
    Local(&'a [u8]),
    /// It lies in blocks of the attribute fork.
    Remote {
        /// The first of them.
        first_block: FileBlock,
        /// The length of the value.
        length_bytes: u32,
    },
}

impl AttrValue<'_> {
    /// The length of the value.
    #[must_use]
    pub fn length_bytes(&self) -> u32 {
        match self {
            // A local value is inside one block, so its length fits.
            Self::Local(value) => value.len() as u32,
            Self::Remote { length_bytes, .. } => *length_bytes,
        }
    }
}

/// A check of this structure that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum AttrCheck {
    #[error("the short form says it is {size} bytes long where {available} are")]
    ShortFormSize { size: u16, available: usize },
    #[error("the entry at offset {offset} does not end inside the {end} bytes of the short form")]
    EntryEnd { offset: usize, end: usize },
    #[error("entry {index} has no name")]
    NameEmpty { index: usize },
    #[error("the name of entry {index} holds a NUL")]
    NameBytes { index: usize },
    #[error("entry {index} has flags {flags:#04x}")]
    Flags { index: usize, flags: u8 },
    #[error("{count} entries do not fit before the first name, at {first_used}")]
    Count { count: u16, first_used: u32 },
    #[error("the first name is at {first_used} in a block of {block_size}")]
    FirstUsed { first_used: u32, block_size: usize },
    #[error("entry {index} has hash {hash:#010x}, below {previous:#010x} before it")]
    HashOrder { index: usize, hash: u32, previous: u32 },
    #[error("entry {index} has hash {hash:#010x}, its name gives {computed:#010x}")]
    Hash { index: usize, hash: u32, computed: u32 },
    #[error("the name of entry {index} at offset {offset} does not lie inside the names")]
    NamePlace { index: usize, offset: u16 },
    #[error("the name of entry {index} at offset {offset} overlaps another")]
    NameOverlap { index: usize, offset: u16 },
    #[error("the names take {found} bytes, the header says {used}")]
    UsedBytes { used: u16, found: usize },
    #[error("free range {index}: {size} bytes at {base}")]
    FreeRange { index: usize, base: u16, size: u16 },
    #[error("entry {index} has a value of {length} bytes at fork block {block}")]
    RemoteValue { index: usize, block: u32, length: u32 },
    #[error("the block holds {bytes} bytes of a value from {offset}, which cannot be")]
    RemoteRange { offset: u32, bytes: u32 },
    #[error(
        "the block holds {bytes} bytes from {offset} where {expected} bytes from {wanted} are due"
    )]
    RemotePiece { offset: u32, bytes: u32, wanted: u32, expected: u32 },
}
