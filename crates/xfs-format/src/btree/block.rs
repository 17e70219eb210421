//! A view of the bytes of one btree block: its header, records, keys and pointers.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{BtreeCheck, BtreeKind, BtreeLayout, PointerForm};
use crate::addr::{DiskAddr, Lsn};
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::envelope;
use crate::features::FormatVersion;

/// The header of a block of an allocation group's btree.
#[doc(alias = "xfs_btree_block_shdr")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the methods of `BtreeBlock` say what the fields are")]
pub struct ShortHeaderDisk {
    pub magic: U32,
    pub level: U16,
    pub count: U16,
    pub left: U32,
    pub right: U32,
    pub address: U64,
    pub lsn: U64,
    pub uuid: [u8; 16],
    pub owner: U32,
    pub crc: [u8; 4],
}

/// The header of a block of a fork's btree.
#[doc(alias = "xfs_btree_block_lhdr")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the methods of `BtreeBlock` say what the fields are")]
pub struct LongHeaderDisk {
    pub magic: U32,
    pub level: U16,
    pub count: U16,
    pub left: U64,
    pub right: U64,
    pub address: U64,
    pub lsn: U64,
    pub uuid: [u8; 16],
    pub owner: U64,
    pub crc: [u8; 4],
    pub pad: U32,
}

const _: () = assert!(size_of::<ShortHeaderDisk>() == 56);
const _: () = assert!(size_of::<LongHeaderDisk>() == 72);

/// The message of a panic if a decoded block is too short for its header.
const HOLDS_HEADER: &str = "a decoded block holds its header";

/// A view of one btree block.
///
/// The view returns records, keys and pointers in their disk form;
/// [`BtreeFormat`](super::BtreeFormat) decodes them. The view is cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct BtreeBlock<'a> {
    bytes: &'a [u8],
    layout: &'static BtreeLayout,
    level: u16,
    count: usize,
    /// Offset of a node's pointers in the block, after the space for keys.
    pointers: usize,
}

impl<'a> BtreeBlock<'a> {
    /// Creates a view of `bytes`, one whole block read from `at`, as a block of `kind`. Magic
    /// number and count must be right. The verifier checks the checksum and the contents.
    ///
    /// # Errors
    ///
    /// Returns the check that failed.
    #[inline]
    pub fn decode(bytes: &'a [u8], kind: BtreeKind, at: DiskAddr) -> Result<Self, Corruption> {
        Self::view(bytes, kind)
            .map_err(|check| Corruption::new(Structure::Btree, StructureAddress::Disk(at), check))
    }

    #[inline]
    pub(super) fn view(bytes: &'a [u8], kind: BtreeKind) -> Result<Self, Check> {
        let layout = kind.layout();
        // The first fields of all headers are the same. No block is shorter than the longest.
        let disk = match ShortHeaderDisk::ref_from_prefix(bytes) {
            Ok((disk, _)) if bytes.len() >= layout.header_bytes() => disk,
            _ => return Err(envelope::truncated(bytes, layout.header_bytes())),
        };
        let magic = disk.magic.get();
        let layout = if magic == layout.magic { layout } else { layout_of_version_4(kind, magic)? };
        let block_size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let (level, count) = (disk.level.get(), usize::from(disk.count.get()));
        let max = layout.max_entries(level.into(), block_size);
        if count > max {
            return Err(BtreeCheck::Count { count, max, level }.into());
        }
        let pointers = if level == 0 { 0 } else { layout.pointers_offset(block_size) };
        Ok(Self { bytes, layout, level, count, pointers })
    }

    /// Returns the magic number and the sizes of this kind of btree.
    #[must_use]
    pub const fn layout(&self) -> &'static BtreeLayout {
        self.layout
    }

    /// Returns the level of the block. Leaves have level 0.
    #[must_use]
    pub const fn level(&self) -> u32 {
        self.level as u32
    }

    /// Returns whether the block is a leaf, which holds records and no pointers.
    #[must_use]
    pub const fn is_leaf(&self) -> bool {
        self.level == 0
    }

    /// Returns the number of records in a leaf, or of children of a node.
    #[doc(alias = "numrecs")]
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    fn short(&self) -> &'a ShortHeaderDisk {
        let (header, _) = ShortHeaderDisk::ref_from_prefix(self.bytes).expect(HOLDS_HEADER);
        header
    }

    fn long(&self) -> &'a LongHeaderDisk {
        let (header, _) = LongHeaderDisk::ref_from_prefix(self.bytes).expect(HOLDS_HEADER);
        header
    }

    /// Returns the block before this one on the same level, or `None` for the first block.
    #[must_use]
    pub fn left_sibling(&self) -> Option<u64> {
        match self.layout.form {
            PointerForm::Short => present(self.short().left),
            PointerForm::Long => present_long(self.long().left),
        }
    }

    /// Returns the block after this one on the same level, or `None` for the last block.
    #[must_use]
    pub fn right_sibling(&self) -> Option<u64> {
        match self.layout.form {
            PointerForm::Short => present(self.short().right),
            PointerForm::Long => present_long(self.long().right),
        }
    }

    /// Returns the owner of the block: the number of an allocation group or of an inode. Returns
    /// `None` on a v4 volume, whose blocks name no owner.
    #[inline]
    #[must_use]
    pub fn owner(&self) -> Option<u64> {
        if self.layout.version == FormatVersion::V4 {
            return None;
        }
        Some(match self.layout.form {
            PointerForm::Short => self.short().owner.get().into(),
            PointerForm::Long => self.long().owner.get(),
        })
    }

    /// Returns the LSN of the last logged change of the block, or 0 on a v4 volume.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        if self.layout.version == FormatVersion::V4 {
            return Lsn(0);
        }
        Lsn(match self.layout.form {
            PointerForm::Short => self.short().lsn.get(),
            PointerForm::Long => self.long().lsn.get(),
        })
    }

    /// Returns the records of a leaf, in order. A node has none.
    pub fn records(
        &self,
    ) -> impl DoubleEndedIterator<Item = &'a [u8]> + ExactSizeIterator + use<'a> {
        let count = if self.is_leaf() { self.count } else { 0 };
        let start = self.layout.header_bytes();
        let end = start + count * self.layout.record_bytes;
        let records = self.bytes.get(start..end).expect("a decoded block holds its records");
        records.chunks_exact(self.layout.record_bytes)
    }

    /// Returns record `index` of a leaf, or `None` if there is no such record.
    #[must_use]
    pub fn record(&self, index: usize) -> Option<&'a [u8]> {
        if !self.is_leaf() || index >= self.count {
            return None;
        }
        let start = self.layout.header_bytes() + index * self.layout.record_bytes;
        self.bytes.get(start..start + self.layout.record_bytes)
    }

    /// Returns the lowest key below child `index` of a node, or `None` if there is no such child.
    #[must_use]
    pub fn key(&self, index: usize) -> Option<&'a [u8]> {
        let start = self.key_offset(index)?;
        self.bytes.get(start..start + self.layout.key_bytes)
    }

    /// Returns the highest key below child `index` of a node of the reverse map, or `None` if there
    /// is no such child. Other btrees have no such keys: the result is `None`.
    #[must_use]
    pub fn high_key(&self, index: usize) -> Option<&'a [u8]> {
        let start = self.key_offset(index)? + self.layout.key_bytes;
        let bytes = self.bytes.get(start..start + self.layout.key_bytes);
        bytes.filter(|_| self.layout.has_high_keys)
    }

    fn key_offset(&self, index: usize) -> Option<usize> {
        let exists = !self.is_leaf() && index < self.count;
        exists.then(|| self.layout.header_bytes() + index * self.layout.node_key_bytes())
    }

    /// Returns the block of child `index` of a node, or `None` if there is no such child. The
    /// number counts blocks of the allocation group in a short btree, and blocks of the volume in a
    /// long one.
    #[must_use]
    pub fn pointer(&self, index: usize) -> Option<u64> {
        if self.is_leaf() || index >= self.count {
            return None;
        }
        let start = self.pointers + index * self.layout.pointer_bytes();
        self.layout.decode_pointer(self.bytes.get(start..)?)
    }
}

/// Returns the layout of a v4 block of this kind of btree, if `magic` is its magic number. Any
/// other number is an error: the caller has already found that `magic` is not the magic number of a
/// v5 block.
#[cold]
fn layout_of_version_4(kind: BtreeKind, magic: u32) -> Result<&'static BtreeLayout, Check> {
    let layout = kind.layout_in(FormatVersion::V4);
    if magic == layout.magic {
        return Ok(layout);
    }
    Err(Check::Magic { found: magic.into(), expected: kind.layout().magic.into() })
}

fn present(raw: U32) -> Option<u64> {
    (raw.get() != u32::MAX).then(|| raw.get().into())
}

fn present_long(raw: U64) -> Option<u64> {
    (raw.get() != u64::MAX).then(|| raw.get())
}
