//! Directories: names with inode numbers, stored in one of four forms.
//!
//! Owns: the address spaces of a directory, the type byte, the rules for names, and each kind of
//! block in a module of its own. Does **not** own: the form of a directory and the location of its
//! blocks, which are in its inode.
//!
//! ```text
//! byte offset in the data fork    form: short  block  leaf  node
//! 0        data blocks                  -      1      n     n
//! 32 GiB   hash index                   -      -      1     da btree
//! 64 GiB   free-space index             -      -      -     n
//! ```
//!
//! - The short form lies in the inode itself ([`short_form`]).
//! - The block form keeps its hash index at the end of its one data block ([`data`]).
//! - The leaf form has one index block, which also holds the best free length of each data block:
//!   the length of its longest free record ([`leaf`]).
//! - The node form has a tree of index blocks and keeps the best free lengths in separate blocks
//!   ([`free`]).
//!
//! Every v5 volume that mkfs.xfs makes has the type byte in its entries. A v5 volume without it is
//! refused ([`Unsupported::NoEntryTypes`](crate::superblock::Unsupported::NoEntryTypes)).
//! A v4 volume may lack the type byte, and its blocks have shorter headers ([`DirectoryForm`]).

pub mod data;
mod duplicate_name;
mod form;
pub mod free;
pub mod hash;
pub mod leaf;
mod position;
pub mod short_form;

use crate::addr::{FileBlock, InodeNumber};
pub use crate::checks::directory::DirectoryCheck;
use crate::geometry::Geometry;
use crate::inode::FileType;

pub use data::{DataBlock, DataEntries};
pub use duplicate_name::{DuplicateName, find_duplicate_names};
pub use form::{DirectoryForm, EntryTypes, NameComparison};
pub use free::FreeBlock;
pub use hash::name_hash;
pub use leaf::{HashEntryDisk, LeafBlock};
pub use position::{ALIGNMENT, Cookie, FREE_OFFSET, INDEX_OFFSET};
pub use short_form::{ShortForm, ShortFormEntries};

/// Length of the longest name, in bytes.
pub const MAX_NAME: usize = 255;

/// The value that the free-space index stores for a data block that does not exist, in place of the
/// length of its longest free record.
#[doc(alias = "NULLDATAOFF")]
pub const NULL_OFFSET: u16 = 0xffff;

/// Returns the first block of a directory's hash index.
#[must_use]
pub const fn index_start(geometry: &Geometry) -> FileBlock {
    geometry.file_block(INDEX_OFFSET)
}

/// Returns the first block of a directory's free-space index.
#[must_use]
pub const fn free_start(geometry: &Geometry) -> FileBlock {
    geometry.file_block(FREE_OFFSET)
}

/// The type of an inode, as stored in its directory entries.
#[doc(alias = "ftype")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EntryType {
    /// The entry does not store a type.
    #[default]
    Unknown,
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Character device.
    CharacterDevice,
    /// Block device.
    BlockDevice,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Symbolic link.
    Symlink,
    /// Whiteout of an overlay.
    Whiteout,
}

impl EntryType {
    /// Returns the type that this byte stands for on disk, or `None` if the byte is unknown.
    #[must_use]
    pub const fn from_disk(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Unknown,
            1 => Self::Regular,
            2 => Self::Directory,
            3 => Self::CharacterDevice,
            4 => Self::BlockDevice,
            5 => Self::Fifo,
            6 => Self::Socket,
            7 => Self::Symlink,
            8 => Self::Whiteout,
            _ => return None,
        })
    }

    /// Returns the byte that stands for this type on disk.
    #[must_use]
    pub const fn to_disk(self) -> u8 {
        self as u8
    }

    /// Returns the entry type for an inode of type `file_type`.
    #[must_use]
    pub const fn of(file_type: FileType) -> Self {
        match file_type {
            FileType::Regular => Self::Regular,
            FileType::Directory => Self::Directory,
            FileType::CharDevice => Self::CharacterDevice,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::Symlink => Self::Symlink,
        }
    }

    /// Returns the type of the inode, or `None` for an entry without type.
    #[must_use]
    pub const fn file_type(self) -> Option<FileType> {
        Some(match self {
            Self::Unknown => return None,
            Self::Regular => FileType::Regular,
            Self::Directory => FileType::Directory,
            // An overlay's whiteout is a character device with number 0.
            Self::CharacterDevice | Self::Whiteout => FileType::CharDevice,
            Self::BlockDevice => FileType::BlockDevice,
            Self::Fifo => FileType::Fifo,
            Self::Socket => FileType::Socket,
            Self::Symlink => FileType::Symlink,
        })
    }
}

/// An entry of a directory. Its name is borrowed from the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name: 1 to 255 bytes without `/` and NUL, of any encoding.
    pub name: &'a [u8],
    /// The inode that the entry names.
    pub inode: InodeNumber,
    /// The type of the inode that the entry names, as the entry stores it.
    pub entry_type: EntryType,
    /// The position of the entry in the directory.
    pub cookie: Cookie,
}

/// Returns whether an entry other than the two dot entries may have this name.
#[must_use]
pub fn name_is_sound(name: &[u8]) -> bool {
    let (words, rest) = name.as_chunks();
    let has_bad = |word: &[u8; 8]| {
        let word = u64::from_be_bytes(*word);
        has_zero(word) || has_zero(word ^ u64::from_be_bytes([b'/'; 8]))
    };
    let is_bad = |byte: &u8| matches!(byte, 0 | b'/');
    // If the name has at least 8 bytes, check its last 8 bytes; they overlap the words above.
    let ends_bad = match name.last_chunk() {
        Some(last) => has_bad(last),
        None => rest.iter().any(is_bad),
    };
    !is_dot_name(name) && !words.iter().any(has_bad) && !ends_bad
}

/// Returns whether one of the eight bytes in `word` is 0. Only then does the subtraction of 1 from
/// every byte set the high bit of a byte in which it was clear.
const fn has_zero(word: u64) -> bool {
    const LOW: u64 = u64::from_be_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_be_bytes([0x80; 8]);
    word.wrapping_sub(LOW) & !word & HIGH != 0
}

pub(crate) fn is_dot_name(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

#[cfg(test)]
mod tests;
