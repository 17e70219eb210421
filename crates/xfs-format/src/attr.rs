//! Extended attributes: names with values, stored in one of three forms.
//!
//! Owns: namespaces and flags, and the three forms, each in a module of its own. Does **not** own:
//! the nodes of larger attribute forks ([`dabtree`](crate::dabtree)), the meaning of values
//! ([`acl`](crate::acl), [`parent`](crate::parent)), or the names that Linux gives to attributes.
//!
//! A few attributes fit into the inode ([`short_form`]). More attributes lie in leaves ([`leaf`]).
//! Block 0 of the fork is the only leaf, or the root node of a tree of leaves. A value that is too
//! long for a leaf has its own blocks ([`remote`]).

pub mod leaf;
pub mod remote;
pub mod short_form;

use bitflags::bitflags;

use crate::addr::FileBlock;
pub use crate::checks::attr::AttrCheck;

pub use leaf::AttrLeaf;
pub use remote::RemoteBlock;
pub use short_form::{AttrShortForm, AttrShortFormEntries};

/// Length of the longest value, in bytes.
#[doc(alias = "XFS_XATTR_SIZE_MAX")]
pub const MAX_VALUE: u32 = 64 << 10;

/// The alignment, in bytes, of the name of an attribute in a leaf, whether its value is local or
/// remote.
pub const ALIGNMENT: usize = 4;

bitflags! {
    /// Flags of an attribute on disk.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AttrFlags: u8 {
        /// The value is stored next to the name (leaves only).
        const LOCAL = 1 << 0;
        /// The attribute is in the namespace "trusted".
        const ROOT = 1 << 1;
        /// The attribute is in the namespace "security".
        const SECURE = 1 << 2;
        /// The attribute is a parent pointer.
        const PARENT = 1 << 3;
        /// The attribute is being created or removed. Readers ignore such an attribute (leaves
        /// only).
        const INCOMPLETE = 1 << 7;
    }
}

/// The namespace of an attribute. The same name can exist once in each namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespace {
    /// Attributes that Linux shows with the prefix `user.`.
    User,
    /// Attributes with the prefix `trusted.`, and attributes that Linux shows under other names,
    /// such as ACLs.
    #[doc(alias = "XFS_ATTR_ROOT")]
    Trusted,
    /// Attributes that Linux shows with the prefix `security.`.
    #[doc(alias = "XFS_ATTR_SECURE")]
    Security,
    /// Parent pointers, which Linux does not show as attributes.
    #[doc(alias = "XFS_ATTR_PARENT")]
    Parent,
}

impl Namespace {
    /// Returns the namespace in these flags, or `None` if they name more than one.
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

    /// Returns the namespace's flag on disk.
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

/// An attribute. Its name is borrowed from the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttrEntry<'a> {
    /// The namespace.
    pub namespace: Namespace,
    /// The name without a prefix: 1 to 255 bytes, of any encoding.
    pub name: &'a [u8],
    /// The value, or its location in the attribute fork.
    pub value: AttrValue<'a>,
}

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrValue<'a> {
    /// A value that is stored next to the name.
    Local(&'a [u8]),
    /// A value in blocks of its own in the attribute fork.
    Remote {
        /// The first of the value's blocks.
        first_block: FileBlock,
        /// The length of the value, in bytes.
        length_bytes: u32,
    },
}

impl AttrValue<'_> {
    /// Returns the length of the value, in bytes.
    #[must_use]
    pub fn length_bytes(&self) -> u32 {
        match self {
            // A local value lies in one block, so its length fits.
            Self::Local(value) => value.len() as u32,
            Self::Remote { length_bytes, .. } => *length_bytes,
        }
    }
}
