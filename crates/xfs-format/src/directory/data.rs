//! Data blocks: the entries themselves, with free space between them. In the block form the same
//! block ends with its hash index.
//!
//! Owns: decoding, iteration and the checks of one block. Does **not** own: the index blocks of the
//! larger forms.
//!
//! ```text
//!  0 magic  4 CRC  8 own address  16 LSN  24 UUID  40 owner  48 best free [3] { offset, length }
//! 60 pad  64 records:
//!    entry: 0 inode  8 name length  9 name  .. type byte  .. pad  .. tag (2, at the very end)
//!    free:  0 0xffff  2 length  ..                            .. tag (2, at the very end)
//! block form only, at the end of the block: index { hash, cookie } ..., count, stale
//!
//! v4: 0 magic  4 best free [3]  16 records, whose entries may lack the type byte
//! ```
//!
//! # Invariants
//!
//! - **I1** Records tile the block; each record starts at a multiple of 8, and its tag is its own
//!   offset.
//! - **I2** Two free records are never adjacent. The table "best free" in the header holds the
//!   offsets and lengths of the three longest free records, the longest first.
//! - **I3** In the block form the index holds every entry of the block once. Its other entries are
//!   stale: their cookie is 0.

mod verify;

use alloc::vec::Vec;
use core::mem::size_of;

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::form::DATA_HEADER_V4;
use super::leaf::HashEntryDisk;
use super::{
    ALIGNMENT, Cookie, DirectoryCheck, DirectoryForm, DuplicateName, Entry, EntryType, EntryTypes,
    find_duplicate_names, is_dot_name, name_is_sound,
};
use crate::addr::InodeNumber;
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::features::FormatVersion;

pub use super::form::{DATA_HEADER, entry_length};
pub(crate) use verify::{ENVELOPE, verify};

/// Magic number of the single block of the block form: "XDB3".
#[doc(alias = "XFS_DIR3_BLOCK_MAGIC")]
pub const BLOCK_MAGIC: u32 = 0x5844_4233;

/// Magic number of a data block of the leaf and node forms: "XDD3".
#[doc(alias = "XFS_DIR3_DATA_MAGIC")]
pub const DATA_MAGIC: u32 = 0x5844_4433;

/// Magic number of the single block of the block form on a v4 volume: "XD2B".
#[doc(alias = "XFS_DIR2_BLOCK_MAGIC")]
pub const BLOCK_MAGIC_V4: u32 = 0x5844_3242;

/// Magic number of a data block of the leaf and node forms on a v4 volume: "XD2D".
#[doc(alias = "XFS_DIR2_DATA_MAGIC")]
pub const DATA_MAGIC_V4: u32 = 0x5844_3244;

/// The first two bytes of a free record. No inode number starts with them.
#[doc(alias = "XFS_DIR2_DATA_FREE_TAG")]
pub const FREE_TAG: u16 = 0xffff;

/// The header of a data block.
#[doc(alias = "xfs_dir3_data_hdr")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the module's diagram shows the layout")]
pub struct DataHeaderDisk {
    pub magic: U32,
    pub crc: [u8; 4],
    pub block: U64,
    pub lsn: U64,
    pub uuid: [u8; 16],
    pub owner: U64,
    pub best_free: [BestFreeDisk; 3],
    pub pad: U32,
}

/// The header of a data block on a v4 volume.
#[doc(alias = "xfs_dir2_data_hdr")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct DataHeaderV4Disk {
    magic: U32,
    best_free: [BestFreeDisk; 3],
}

/// An element of the table of the longest free records.
#[doc(alias = "xfs_dir2_data_free")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the module's diagram shows the layout")]
pub struct BestFreeDisk {
    pub offset: U16,
    pub length: U16,
}

/// The last bytes of the block form.
#[doc(alias = "xfs_dir2_block_tail")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the module's diagram shows the layout")]
pub struct BlockTailDisk {
    pub count: U32,
    pub stale: U32,
}

const _: () = assert!(size_of::<DataHeaderDisk>() == DATA_HEADER);
const _: () = assert!(size_of::<DataHeaderV4Disk>() == DATA_HEADER_V4);
const _: () = assert!(size_of::<BlockTailDisk>() == 8);

/// A data block, borrowed from its buffer.
#[derive(Clone, Copy, Debug)]
pub struct DataBlock<'a> {
    /// The bytes of the block up to the end of its records.
    bytes: &'a [u8],
    best_free: &'a [BestFreeDisk; 3],
    owner: Option<InodeNumber>,
    form: DirectoryForm,
    /// The hash index of the block and the tail after it, or `None` if the block is not in block
    /// form.
    index: Option<(&'a [HashEntryDisk], &'a BlockTailDisk)>,
    place: StructureAddress,
    /// Byte offset of the block in the directory.
    start: u64,
}

/// A record of a data block: an entry or free space.
#[derive(Clone, Copy, Debug)]
enum Record<'a> {
    Entry(Entry<'a>),
    Free,
}

impl<'a> DataBlock<'a> {
    /// Decodes the header of the block in `bytes`, which starts at byte `start` of the directory.
    ///
    /// # Errors
    ///
    /// Returns an error if the magic number is wrong or the index does not fit the block.
    pub fn decode(
        bytes: &'a [u8],
        start: u64,
        place: StructureAddress,
        form: DirectoryForm,
    ) -> Result<Self, Corruption> {
        Self::parse(bytes, start, place, form)
            .map_err(|check| Corruption::new(Structure::Directory, place, check))
    }

    fn parse(
        bytes: &'a [u8],
        start: u64,
        place: StructureAddress,
        form: DirectoryForm,
    ) -> Result<Self, Check> {
        let (magic, owner, best_free, records) = split_header(bytes, form.version)?;
        let block = Self { bytes, best_free, owner, form, index: None, place, start };
        match (form.version, magic) {
            (FormatVersion::V5, DATA_MAGIC) | (FormatVersion::V4, DATA_MAGIC_V4) => Ok(block),
            (FormatVersion::V5, BLOCK_MAGIC) | (FormatVersion::V4, BLOCK_MAGIC_V4) => {
                let (index, tail) = split_index(records)?;
                let end = bytes.len() - size_of_val(index) - size_of_val(tail);
                let bytes = bytes.get(..end).unwrap_or_default();
                Ok(Self { bytes, index: Some((index, tail)), ..block })
            }
            (version, magic) => {
                let expected = match version {
                    FormatVersion::V4 => DATA_MAGIC_V4,
                    FormatVersion::V5 => DATA_MAGIC,
                };
                Err(Check::Magic { found: magic.into(), expected: expected.into() })
            }
        }
    }

    /// Returns the owner inode in the header, or `None` on a v4 volume, whose blocks name no owner.
    #[must_use]
    pub fn owner(&self) -> Option<InodeNumber> {
        self.owner
    }

    /// Returns whether this is the only block of a directory in block form.
    #[must_use]
    pub fn is_block_form(&self) -> bool {
        self.index.is_some()
    }

    /// Returns the hash index of a block in block form. The result is empty for a block of another
    /// form.
    #[must_use]
    pub fn index(&self) -> &'a [HashEntryDisk] {
        self.index.map_or(&[], |(index, _)| index)
    }

    /// Returns the length of the longest free record, or 0 if there is none.
    #[must_use]
    pub fn best_free_length(&self) -> u16 {
        self.best_free.first().map_or(0, |best| best.length.get())
    }

    /// Returns the entries in the order of their cookies, including `.` and `..`. Iteration ends
    /// after the first error.
    #[must_use]
    pub fn entries(&self) -> DataEntries<'a> {
        DataEntries { block: *self, offset: self.form.data_header_bytes() }
    }

    /// Returns the parent directory, which the first block of a directory holds as the entry `..`.
    ///
    /// # Errors
    ///
    /// Returns an error if the first two entries are not `.` (the directory itself) and `..`. A
    /// block of a v4 volume does not name its directory, so the inode of `.` is not checked there:
    /// see [`self_inode`](Self::self_inode).
    pub fn parent(&self) -> Result<InodeNumber, Corruption> {
        self.parse_parent().map_err(|check| self.corrupt(check))
    }

    /// Returns the directory itself, which the first block of a directory holds as the entry `.`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`parent`](Self::parent).
    pub fn self_inode(&self) -> Result<InodeNumber, Corruption> {
        self.parse_dots().map(|(own, _)| own).map_err(|check| self.corrupt(check))
    }

    fn parse_parent(&self) -> Result<InodeNumber, DirectoryCheck> {
        self.parse_dots().map(|(_, parent)| parent)
    }

    /// Returns the inodes of `.` and `..`.
    fn parse_dots(&self) -> Result<(InodeNumber, InodeNumber), DirectoryCheck> {
        let start = self.form.data_header_bytes();
        let (dot, length) = self.record(start)?;
        let (parent, _) = self.record(start + length)?;
        let is_directory = |entry: &Entry<'_>| match self.form.types {
            EntryTypes::Stored => entry.entry_type == EntryType::Directory,
            EntryTypes::Absent => true,
        };
        match (dot, parent) {
            (Record::Entry(dot), Record::Entry(parent))
                if dot.name == b"."
                    && self.owner.is_none_or(|owner| dot.inode == owner)
                    && is_directory(&dot)
                    && parent.name == b".."
                    && is_directory(&parent) =>
            {
                Ok((dot.inode, parent.inode))
            }
            _ => Err(DirectoryCheck::DotEntries),
        }
    }

    /// Returns the entry at `cookie`, the position that an entry of the hash index gives.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no entry at that position.
    pub fn entry_at(&self, cookie: Cookie) -> Result<Entry<'a>, Corruption> {
        let missing = DirectoryCheck::IndexTarget { hash: 0, offset: cookie.offset() };
        let offset = cookie
            .offset()
            .checked_sub(self.start)
            .and_then(|offset| usize::try_from(offset).ok())
            .filter(|offset| *offset >= self.form.data_header_bytes());
        let record = offset.ok_or(missing).and_then(|offset| self.record(offset));
        match record {
            Ok((Record::Entry(entry), _)) => Ok(entry),
            Ok((Record::Free, _)) => Err(self.corrupt(missing)),
            Err(check) => Err(self.corrupt(check)),
        }
    }

    /// Finds the entry with this name through the hash index at the end of a block in block form.
    /// The result is `None` if there is no such entry.
    ///
    /// # Errors
    ///
    /// Returns an error if an index entry does not point to an entry of the block.
    pub fn find(&self, name: &[u8]) -> Result<Option<Entry<'a>>, Corruption> {
        for candidate in super::leaf::equal_hashes(self.index(), self.form.names.hash(name)) {
            let cookie = Cookie(candidate.cookie.get());
            if cookie != Cookie::START {
                let entry = self.entry_at(cookie)?;
                if self.form.names.matches(entry.name, name) {
                    return Ok(Some(entry));
                }
            }
        }
        Ok(None)
    }

    /// Returns the entries of a block in block form that have the name of an earlier entry. The
    /// result is empty for a block of another form. Names are compared only if their hashes are
    /// equal, that is, if they are neighbours in the index.
    #[must_use]
    pub fn duplicate_names(&self) -> Vec<DuplicateName> {
        let runs = self.index().chunk_by(|a, b| a.hash.get() == b.hash.get());
        let runs = runs.filter(|run| run.len() > 1);
        let mut doubled: Vec<_> = runs
            .flat_map(|run| {
                let cookies = run.iter().map(|entry| Cookie(entry.cookie.get()));
                let live = cookies.filter(|cookie| *cookie != Cookie::START);
                let entries = live.filter_map(|cookie| self.entry_at(cookie).ok());
                find_duplicate_names(entries.map(|entry| (entry.name, entry.cookie)).collect())
            })
            .collect();
        doubled.sort_unstable();
        doubled
    }

    /// Returns the record at `offset` and the length of the record.
    fn record(&self, offset: usize) -> Result<(Record<'a>, usize), DirectoryCheck> {
        let outside = DirectoryCheck::RecordEnd { offset, end: self.bytes.len() };
        let rest = self.bytes.get(offset..).ok_or(outside)?;
        let (tag, after) = U16::ref_from_prefix(rest).map_err(|_| outside)?;
        if tag.get() == FREE_TAG {
            let (length, _) = U16::ref_from_prefix(after).map_err(|_| outside)?;
            let length = length.get();
            if length == 0 || !usize::from(length).is_multiple_of(ALIGNMENT) {
                return Err(DirectoryCheck::FreeLength { offset, length });
            }
            verify_tag(rest, offset, length.into()).ok_or(outside)??;
            return Ok((Record::Free, length.into()));
        }
        let (entry, length) = self.entry(rest, offset)?;
        Ok((Record::Entry(entry), length))
    }

    fn entry(&self, rest: &'a [u8], offset: usize) -> Result<(Entry<'a>, usize), DirectoryCheck> {
        let outside = DirectoryCheck::RecordEnd { offset, end: self.bytes.len() };
        let (inode, after) = U64::ref_from_prefix(rest).map_err(|_| outside)?;
        let (name_length, after) = after.split_first().ok_or(outside)?;
        let (name, after) = after.split_at_checked((*name_length).into()).ok_or(outside)?;
        let type_byte = match self.form.types {
            EntryTypes::Stored => *after.first().ok_or(outside)?,
            EntryTypes::Absent => EntryType::Unknown.to_disk(),
        };
        let length = self.form.entry_length(name.len());
        verify_tag(rest, offset, length).ok_or(outside)??;
        if name.is_empty() {
            return Err(DirectoryCheck::NameEmpty { offset });
        }
        let start = self.start.saturating_add(offset as u64);
        if !name_is_sound(name) && !is_dot_entry(name, start, self.form) {
            return Err(DirectoryCheck::NameBytes { offset });
        }
        let entry_type = EntryType::from_disk(type_byte)
            .ok_or(DirectoryCheck::TypeByte { offset, type_byte })?;
        let cookie = Cookie::from_offset(start).ok_or(outside)?;
        let inode = InodeNumber(inode.get());
        Ok((Entry { name, inode, entry_type, cookie }, length))
    }

    #[cold]
    fn corrupt(&self, check: DirectoryCheck) -> Corruption {
        Corruption::new(Structure::Directory, self.place, check)
    }
}

/// Iterator over the entries of a data block.
#[derive(Clone, Debug)]
pub struct DataEntries<'a> {
    block: DataBlock<'a>,
    offset: usize,
}

impl<'a> Iterator for DataEntries<'a> {
    type Item = Result<Entry<'a>, Corruption>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.offset < self.block.bytes.len() {
            match self.block.record(self.offset) {
                Ok((record, length)) => {
                    self.offset += length;
                    if let Record::Entry(entry) = record {
                        return Some(Ok(entry));
                    }
                }
                Err(check) => {
                    self.offset = usize::MAX;
                    return Some(Err(self.block.corrupt(check)));
                }
            }
        }
        None
    }
}

/// The parts of a data block: the magic number, the owner, the longest free records, and the bytes
/// after the header.
type SplitHeader<'a> = (u32, Option<InodeNumber>, &'a [BestFreeDisk; 3], &'a [u8]);

fn split_header(bytes: &[u8], version: FormatVersion) -> Result<SplitHeader<'_>, Check> {
    let truncated = Check::Truncated { available: bytes.len(), needed: DATA_HEADER };
    match version {
        FormatVersion::V5 => match DataHeaderDisk::ref_from_prefix(bytes) {
            Ok((header, records)) => {
                let owner = Some(InodeNumber(header.owner.get()));
                Ok((header.magic.get(), owner, &header.best_free, records))
            }
            Err(_) => Err(truncated),
        },
        FormatVersion::V4 => match DataHeaderV4Disk::ref_from_prefix(bytes) {
            Ok((header, records)) => Ok((header.magic.get(), None, &header.best_free, records)),
            Err(_) => Err(truncated),
        },
    }
}

/// Splits off the hash index at the end of a block in block form. Returns the index and the tail
/// after it.
fn split_index(records: &[u8]) -> Result<(&[HashEntryDisk], &BlockTailDisk), Check> {
    let needed = size_of::<BlockTailDisk>();
    let truncated = Check::Truncated { available: records.len(), needed };
    let Ok((rest, tail)) = BlockTailDisk::ref_from_suffix(records) else {
        return Err(truncated);
    };
    let (count, stale) = (tail.count.get(), tail.stale.get());
    let length = usize::try_from(count).ok();
    match length.map(|length| <[HashEntryDisk]>::ref_from_suffix_with_elems(rest, length)) {
        Some(Ok((_, index))) => Ok((index, tail)),
        _ => Err(DirectoryCheck::IndexCount { count, stale }.into()),
    }
}

/// Checks the tag in the last two bytes of a record (I1). `rest` holds the bytes of the block from
/// the start of the record on, and `offset` is the record's offset in the block. Returns `None` if
/// `rest` is shorter than the record.
fn verify_tag(rest: &[u8], offset: usize, length: usize) -> Option<Result<(), DirectoryCheck>> {
    let (tag, _) = U16::ref_from_prefix(rest.get(length.checked_sub(2)?..)?).ok()?;
    let tag = tag.get();
    let is_own = usize::from(tag) == offset;
    // I1: the tag of a record is its own offset.
    Some(if is_own { Ok(()) } else { Err(DirectoryCheck::Tag { offset, tag }) })
}

/// Returns whether an entry with this name at byte `start` of the directory is `.` or `..` in its
/// proper place, at the start of the first block.
fn is_dot_entry(name: &[u8], start: u64, form: DirectoryForm) -> bool {
    let (dot, parent) = (form.dot_cookie().offset(), form.parent_cookie().offset());
    is_dot_name(name) && ((name.len() == 1 && start == dot) || (name.len() == 2 && start == parent))
}
