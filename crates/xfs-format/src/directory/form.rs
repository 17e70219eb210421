//! The form in which a volume stores the entries of directories, and the comparison of names.
//!
//! Owns: the lengths that depend on the version of the volume and on the type byte, and the folding
//! of names on volumes that ignore case. Does **not** own: the blocks themselves.

use super::hash;
use super::position::{ALIGNMENT, Cookie};
use crate::features::FormatVersion;

/// Length of the header before the first record, in bytes, on a v5 volume.
pub const DATA_HEADER: usize = 64;

/// Length of the header before the first record, in bytes, on a v4 volume.
pub(super) const DATA_HEADER_V4: usize = 16;

/// Number of bytes of an entry before its name: inode number and name length. The type and the tag
/// follow the name; `ENTRY_TAIL` is their number of bytes.
const ENTRY_HEAD: usize = 9;
const ENTRY_TAIL: usize = 3;

/// Returns the length in bytes of an entry whose name has `name_length` bytes, with a type byte.
#[doc(alias = "xfs_dir2_data_entsize")]
#[must_use]
pub const fn entry_length(name_length: usize) -> usize {
    (ENTRY_HEAD + name_length + ENTRY_TAIL).next_multiple_of(ALIGNMENT)
}

/// Whether directory entries have a byte with the type of their inode.
///
/// Not `#[non_exhaustive]`: entries have the byte or not.
#[doc(alias = "ftype")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryTypes {
    /// Each entry has a type byte after its name.
    Stored,
    /// Entries have no type byte. Only the inode itself stores its type. Such volumes have version
    /// 4.
    Absent,
}

/// How a volume compares the names of directory entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NameComparison {
    /// Names are equal if their bytes are.
    Exact,
    /// Names are compared without case (`mkfs.xfs -n version=ci`). Names are stored as given. Their
    /// hashes are computed from the names in lower case.
    #[doc(alias = "ASCII_CI")]
    #[doc(alias = "XFS_SB_VERSION_BORGBIT")]
    AsciiCi,
}

impl NameComparison {
    /// Returns the hash that the index of a directory stores for a name.
    #[doc(alias = "xfs_ascii_ci_hashname")]
    #[inline]
    #[must_use]
    pub fn hash(self, name: &[u8]) -> u32 {
        match self {
            Self::Exact => hash::name_hash(name),
            Self::AsciiCi => hash::folded_name_hash(name),
        }
    }

    /// Returns whether a lookup of the name `wanted` finds an entry with the name `stored`.
    #[doc(alias = "xfs_ascii_ci_compname")]
    #[inline]
    #[must_use]
    pub fn matches(self, stored: &[u8], wanted: &[u8]) -> bool {
        match self {
            Self::Exact => stored == wanted,
            Self::AsciiCi => {
                stored.len() == wanted.len()
                    && stored.iter().zip(wanted).all(|(a, b)| hash::fold(*a) == hash::fold(*b))
            }
        }
    }
}

/// The form of directory entries on one volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct DirectoryForm {
    /// The version of the volume, which decides the headers of blocks.
    pub version: FormatVersion,
    /// Whether entries have a type byte.
    pub types: EntryTypes,
    /// How names are compared.
    pub names: NameComparison,
}

impl DirectoryForm {
    /// The form of every v5 volume that does not ignore case. ferroxfs writes only this form.
    pub const V5: Self = Self {
        version: FormatVersion::V5,
        types: EntryTypes::Stored,
        names: NameComparison::Exact,
    };

    /// Returns the length of a data block's header, in bytes. The first record follows.
    #[inline]
    #[must_use]
    pub const fn data_header_bytes(self) -> usize {
        match self.version {
            FormatVersion::V4 => DATA_HEADER_V4,
            FormatVersion::V5 => DATA_HEADER,
        }
    }

    /// Returns the length in bytes of an entry whose name has `name_length` bytes.
    #[doc(alias = "xfs_dir2_data_entsize")]
    #[inline]
    #[must_use]
    pub const fn entry_length(self, name_length: usize) -> usize {
        let length = entry_length(name_length);
        match self.types {
            EntryTypes::Stored => length,
            EntryTypes::Absent => {
                (ENTRY_HEAD + name_length + size_of::<u16>()).next_multiple_of(ALIGNMENT)
            }
        }
    }

    /// Returns the cookie of `.` in a directory in short form, which stores no entry for `.`.
    #[must_use]
    pub const fn dot_cookie(self) -> Cookie {
        Cookie((self.data_header_bytes() >> 3) as u32)
    }

    /// Returns the cookie of `..` in a directory in short form, which stores no entry for `..`.
    #[must_use]
    pub const fn parent_cookie(self) -> Cookie {
        Cookie((self.parent_offset() >> 3) as u32)
    }

    /// Returns the offset that `..` has in the first data block.
    #[must_use]
    pub const fn parent_offset(self) -> usize {
        self.data_header_bytes() + self.entry_length(1)
    }

    /// Returns the lowest offset that an entry in short form can have. The offset is the one that
    /// the entry would have in a data block.
    #[must_use]
    pub const fn first_offset(self) -> usize {
        self.parent_offset() + self.entry_length(2)
    }
}

#[cfg(test)]
mod tests;
