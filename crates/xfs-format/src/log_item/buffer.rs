//! Buffers: which of their chunks are dirty, and the bytes of those.
//!
//! ```text
//! format  0 kind  2 regions  4 flags  6 basic blocks  8 address  16 words  20 bitmap, 32-bit words
//! then    one region for each run of set bits: the bytes of these chunks
//! ```
//!
//! A bit of the bitmap stands for 128 bytes, the lowest bit of the first word for the first of them.
//! The top five bits of the flags say what the buffer holds, so that replay can verify and seal it.

use alloc::vec;
use alloc::vec::Vec;

use super::fields::{Fields, FieldsMut, HostOrder};
use super::{ItemHeader, ItemKind, LogItemCheck};
use crate::addr::{BASIC_BLOCK_BYTES, DiskAddr};
use crate::dabtree;
use crate::directory::{data, leaf};
use crate::kind::BlockKind;

/// Bytes for which a bit of the bitmap stands.
#[doc(alias = "XFS_BLF_CHUNK")]
pub const CHUNK_BYTES: usize = 128;

/// Words of the longest bitmap: a buffer of 64 KiB, and one to spare as the kernel has it.
const MAX_BITMAP_WORDS: u32 = 17;

const TYPE_SHIFT: u16 = 11;

bitflags::bitflags! {
    /// What a logged buffer is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BufferFlags: u16 {
        /// Inodes, of which only the links of unlinked lists are replayed.
        const INODES = 1;
        /// The buffer is no metadata any more: what the log has of it before is not replayed.
        const CANCEL = 2;
        /// Dquots of users.
        const USER_DQUOT = 4;
        /// Dquots of projects.
        const PROJECT_DQUOT = 8;
        /// Dquots of groups.
        const GROUP_DQUOT = 0x10;
        /// The type, in the upper bits.
        const _ = !0;
    }
}

/// What a logged buffer holds.
#[doc(alias = "xfs_blft")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the structures of the same names")]
pub enum BufferType {
    Unknown,
    UserDquot,
    ProjectDquot,
    GroupDquot,
    Btree,
    Agf,
    Agfl,
    Agi,
    Inodes,
    Symlink,
    DirectoryBlock,
    DirectoryData,
    DirectoryFree,
    DirectoryLeaf1,
    DirectoryLeafN,
    DaNode,
    AttrLeaf,
    AttrRemote,
    Superblock,
    RealtimeBitmap,
    RealtimeSummary,
}

impl BufferType {
    /// All types, by number.
    const ALL: [Self; 21] = [
        Self::Unknown,
        Self::UserDquot,
        Self::ProjectDquot,
        Self::GroupDquot,
        Self::Btree,
        Self::Agf,
        Self::Agfl,
        Self::Agi,
        Self::Inodes,
        Self::Symlink,
        Self::DirectoryBlock,
        Self::DirectoryData,
        Self::DirectoryFree,
        Self::DirectoryLeaf1,
        Self::DirectoryLeafN,
        Self::DaNode,
        Self::AttrLeaf,
        Self::AttrRemote,
        Self::Superblock,
        Self::RealtimeBitmap,
        Self::RealtimeSummary,
    ];

    /// The type that the flags of a buffer name; `None` for one that nobody knows.
    #[must_use]
    pub fn of(flags: BufferFlags) -> Option<Self> {
        Self::ALL.get(usize::from(flags.bits() >> TYPE_SHIFT)).copied()
    }

    /// The bits of the flags that stand for this type.
    #[must_use]
    pub const fn flags(self) -> BufferFlags {
        BufferFlags::from_bits_retain((self as u16) << TYPE_SHIFT)
    }

    /// The type under which a block of this kind is logged. Blocks of directories and attributes
    /// are told apart by their magic number.
    #[must_use]
    pub fn of_block(kind: BlockKind, bytes: &[u8]) -> Self {
        let is_block = || bytes.first_chunk() == Some(&data::BLOCK_MAGIC.to_be_bytes());
        match kind {
            BlockKind::Superblock => Self::Superblock,
            BlockKind::Agf => Self::Agf,
            BlockKind::Agi => Self::Agi,
            BlockKind::Agfl => Self::Agfl,
            BlockKind::Btree(_) => Self::Btree,
            BlockKind::InodeCluster => Self::Inodes,
            BlockKind::DirectoryData if is_block() => Self::DirectoryBlock,
            BlockKind::DirectoryData => Self::DirectoryData,
            BlockKind::DirectoryFree => Self::DirectoryFree,
            BlockKind::DirectoryIndex => match dabtree::magic(bytes) {
                Some(dabtree::NODE_MAGIC) => Self::DaNode,
                Some(leaf::LEAF1_MAGIC) => Self::DirectoryLeaf1,
                _ => Self::DirectoryLeafN,
            },
            BlockKind::Attr if dabtree::magic(bytes) == Some(dabtree::NODE_MAGIC) => Self::DaNode,
            BlockKind::Attr => Self::AttrLeaf,
            BlockKind::AttrRemote => Self::AttrRemote,
            BlockKind::Symlink => Self::Symlink,
        }
    }

    /// The name used in output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::UserDquot => "user dquots",
            Self::ProjectDquot => "project dquots",
            Self::GroupDquot => "group dquots",
            Self::Btree => "btree",
            Self::Agf => "AGF",
            Self::Agfl => "AGFL",
            Self::Agi => "AGI",
            Self::Inodes => "inodes",
            Self::Symlink => "symbolic link",
            Self::DirectoryBlock => "directory block",
            Self::DirectoryData => "directory data",
            Self::DirectoryFree => "directory free index",
            Self::DirectoryLeaf1 | Self::DirectoryLeafN => "directory leaf",
            Self::DaNode => "directory/attribute node",
            Self::AttrLeaf => "attribute leaf",
            Self::AttrRemote => "remote attribute",
            Self::Superblock => "superblock",
            Self::RealtimeBitmap => "realtime bitmap",
            Self::RealtimeSummary => "realtime summary",
        }
    }
}

/// The first region of a buffer item.
#[doc(alias = "xfs_buf_log_format")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferFormat {
    /// Regions of the item: 1, and one for each run of dirty chunks.
    pub regions: u16,
    /// What the buffer is.
    pub flags: BufferFlags,
    /// Where it lies.
    pub at: DiskAddr,
    /// Basic blocks.
    pub blocks: u16,
    /// Which chunks are dirty. No bit past the end of the buffer is set.
    pub bitmap: Vec<u32>,
}

impl BufferFormat {
    /// Bytes before the bitmap.
    const FIXED_BYTES: usize = 20;

    /// Nothing is dirty in this piece of a buffer.
    #[must_use]
    pub fn clean(at: DiskAddr, length_bytes: u32) -> Self {
        let chunks = (length_bytes as usize).div_ceil(CHUNK_BYTES);
        Self {
            regions: 1,
            flags: BufferFlags::empty(),
            at,
            blocks: (length_bytes / BASIC_BLOCK_BYTES) as u16,
            bitmap: vec![0; chunks.div_ceil(32)],
        }
    }

    /// Bytes of the region as it is logged.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        Self::FIXED_BYTES + 4 * self.bitmap.len()
    }

    fn read(region: &[u8], order: HostOrder) -> Result<Self, LogItemCheck> {
        let (item, bytes) = (ItemKind::Buffer.name(), region.len());
        let short = |needed| LogItemCheck::Short { item, bytes, needed };
        let mut fields = Fields::new(region, order);
        let mut fixed = || {
            fields.u16()?;
            Some((fields.u16()?, fields.u16()?, fields.u16()?, fields.u64()?, fields.u32()?))
        };
        let (regions, flags, blocks, at, words) = fixed().ok_or(short(Self::FIXED_BYTES))?;
        if words > MAX_BITMAP_WORDS {
            return Err(LogItemCheck::Bitmap { words, blocks });
        }
        let bitmap = (0..words).map(|_| fields.u32()).collect::<Option<Vec<_>>>();
        let bitmap = bitmap.ok_or(short(Self::FIXED_BYTES + 4 * words as usize))?;
        let flags = BufferFlags::from_bits_retain(flags);
        let format = Self { regions, flags, at: DiskAddr(at), blocks, bitmap };
        let end = format.runs().map(|(first, count)| first + count).max().unwrap_or(0);
        if end * CHUNK_BYTES > usize::from(blocks) * BASIC_BLOCK_BYTES as usize {
            return Err(LogItemCheck::Bitmap { words, blocks });
        }
        Ok(format)
    }

    /// The region as it is logged.
    #[must_use]
    pub fn encode(&self, order: HostOrder) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode_into(order, &mut bytes);
        bytes
    }

    /// As [`encode`](Self::encode), behind what `bytes` holds: a commit formats many items and need
    /// not allocate for each.
    pub fn encode_into(&self, order: HostOrder, bytes: &mut Vec<u8>) {
        let mut fields = FieldsMut::appending(core::mem::take(bytes), self.encoded_bytes(), order);
        ItemHeader { kind: ItemKind::Buffer, regions: self.regions }.write(&mut fields);
        fields.u16(self.flags.bits());
        fields.u16(self.blocks);
        fields.u64(self.at.0);
        fields.u32(self.bitmap.len() as u32);
        for word in &self.bitmap {
            fields.u32(*word);
        }
        *bytes = fields.into_bytes();
    }

    /// The runs of dirty chunks: first, and how many.
    pub fn runs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut at = 0;
        core::iter::from_fn(move || {
            let first = self.find_bit(at, 0)?;
            at = self.find_bit(first, u32::MAX).unwrap_or(self.bitmap.len() * 32);
            Some((first, at - first))
        })
    }

    /// How many [`runs`](Self::runs) there are.
    #[must_use]
    pub fn run_count(&self) -> usize {
        // A run begins with each dirty chunk behind a clean one.
        let mut before = 0;
        let mut begun = |word: &u32| {
            let first = word & !(word << 1 | before);
            before = word >> 31;
            first.count_ones() as usize
        };
        self.bitmap.iter().map(&mut begun).sum()
    }

    /// The first bit from there on that is set once the bitmap's words have been inverted where
    /// `inverted` says so.
    fn find_bit(&self, from: usize, inverted: u32) -> Option<usize> {
        let mut mask = u32::MAX << (from % 32);
        for (index, word) in self.bitmap.iter().enumerate().skip(from / 32) {
            let found = (word ^ inverted) & mask;
            if found != 0 {
                return Some(index * 32 + found.trailing_zeros() as usize);
            }
            mask = u32::MAX;
        }
        None
    }

    /// What the buffer holds; `None` for a type that nobody knows.
    #[must_use]
    pub fn buffer_type(&self) -> Option<BufferType> {
        BufferType::of(self.flags)
    }
}

/// Dirty bytes of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferPiece<'a> {
    /// Where in the buffer.
    pub offset_bytes: usize,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// A buffer, logged. The pieces lie inside it, in ascending order.
#[doc(alias = "xfs_buf_log_item")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferItem<'a> {
    /// Which buffer, and which chunks of it.
    pub format: BufferFormat,
    /// The bytes of each run of chunks.
    pub pieces: Vec<BufferPiece<'a>>,
}

impl<'a> BufferItem<'a> {
    pub(super) fn read(
        first: &[u8],
        rest: &[&'a [u8]],
        order: HostOrder,
    ) -> Result<Self, LogItemCheck> {
        let format = BufferFormat::read(first, order)?;
        let (item, runs) = (ItemKind::Buffer.name(), format.runs().count());
        // The bitmap of a cancelled buffer means nothing: no bytes of it are logged, and regions that
        // a log has all the same are dropped, from the count too.
        if format.flags.contains(BufferFlags::CANCEL) {
            let format = BufferFormat { regions: 1, ..format };
            return Ok(Self { format, pieces: Vec::new() });
        }
        if runs != rest.len() {
            return Err(LogItemCheck::Regions { item, found: rest.len() + 1, promised: runs + 1 });
        }
        let pieces = format.runs().zip(rest).map(|((first, count), region)| {
            let (bytes, needed) = (region.len(), count * CHUNK_BYTES);
            let bytes = region.get(..needed).ok_or(LogItemCheck::Piece { bytes, needed })?;
            Ok(BufferPiece { offset_bytes: first * CHUNK_BYTES, bytes })
        });
        let pieces = pieces.collect::<Result<Vec<_>, LogItemCheck>>()?;
        Ok(Self { format, pieces })
    }

    /// Whether the item says that the buffer is no metadata any more.
    #[must_use]
    pub const fn is_cancel(&self) -> bool {
        self.format.flags.contains(BufferFlags::CANCEL)
    }
}
