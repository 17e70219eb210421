//! Buffer items: the dirty chunks of a buffer, and their bytes.
//!
//! ```text
//! format  0 kind  2 regions  4 flags  6 basic blocks  8 address  16 words  20 bitmap, 32-bit words
//! then    one region for each run of set bits: the bytes of these chunks
//! ```
//!
//! A bit of the bitmap covers 128 bytes. The lowest bit of the first word covers the first 128
//! bytes. The top five bits of the flags hold the type of the buffer, so that replay can verify and
//! seal it.

use alloc::vec;
use alloc::vec::Vec;

use super::fields::{Fields, FieldsMut, HostOrder};
use super::{ItemHeader, ItemKind, LogItemCheck};
use crate::addr::{BASIC_BLOCK_BYTES, DiskAddr};
use crate::dabtree;
use crate::directory::{data, leaf};
use crate::dquot::{DquotDisk, QuotaKind, dquot_at};
use crate::kind::BlockKind;

/// Number of bytes that one bit of the bitmap covers.
#[doc(alias = "XFS_BLF_CHUNK")]
pub const CHUNK_BYTES: usize = 128;

/// Number of words of the longest bitmap: 16 words for a buffer of 64 KiB, and one more, as in the
/// kernel.
const MAX_BITMAP_WORDS: u32 = 17;

const TYPE_SHIFT: u16 = 11;

bitflags::bitflags! {
    /// Properties of a logged buffer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BufferFlags: u16 {
        /// The buffer holds inodes. Only their links in unlinked lists are replayed.
        const INODES = 1;
        /// The buffer is no longer metadata. Earlier items for it are not replayed.
        const CANCEL = 2;
        /// The buffer holds dquots of users.
        const USER_DQUOT = 4;
        /// The buffer holds dquots of projects.
        const PROJECT_DQUOT = 8;
        /// The buffer holds dquots of groups.
        const GROUP_DQUOT = 0x10;
        /// The type of the buffer, in the upper bits.
        const _ = !0;
    }
}

/// The type of a logged buffer.
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
    /// All types, in the order of the numbers that stand for them.
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

    /// Returns the type in the flags of a buffer, or `None` if the type is unknown.
    #[must_use]
    pub fn of(flags: BufferFlags) -> Option<Self> {
        Self::ALL.get(usize::from(flags.bits() >> TYPE_SHIFT)).copied()
    }

    /// Returns the bits that stand for this type in the flags of a logged buffer.
    #[must_use]
    pub const fn flags(self) -> BufferFlags {
        BufferFlags::from_bits_retain((self as u16) << TYPE_SHIFT)
    }

    /// Returns the type under which a block of this kind is logged. For blocks of directories and
    /// attributes, the magic number in `bytes` decides.
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
            BlockKind::RealtimeBitmap | BlockKind::RealtimeGroupBitmap => Self::RealtimeBitmap,
            BlockKind::RealtimeSummary | BlockKind::RealtimeGroupSummary => Self::RealtimeSummary,
            BlockKind::Dquots => match dquot_at(bytes, 0).and_then(DquotDisk::quota_kind) {
                Some(QuotaKind::Group) => Self::GroupDquot,
                Some(QuotaKind::Project) => Self::ProjectDquot,
                Some(QuotaKind::User) | None => Self::UserDquot,
            },
        }
    }

    /// Returns the name of the type in output.
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
    /// Number of regions of the item: 1, plus one for each run of dirty chunks.
    pub regions: u16,
    /// Properties and type of the buffer.
    pub flags: BufferFlags,
    /// Disk address of the buffer.
    pub at: DiskAddr,
    /// Length of the buffer in basic blocks.
    pub blocks: u16,
    /// The dirty chunks, one bit each. No bit past the end of the buffer is set.
    pub bitmap: Vec<u32>,
}

impl BufferFormat {
    /// Number of bytes before the bitmap.
    const FIXED_BYTES: usize = 20;

    /// Creates the first region of an item without dirty chunks, for the buffer of `length_bytes`
    /// bytes at `at`.
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

    /// Returns the length of the encoded region in bytes.
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

    /// Encodes the region.
    #[must_use]
    pub fn encode(&self, order: HostOrder) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode_into(order, &mut bytes);
        bytes
    }

    /// Encodes the region like [`encode`](Self::encode), but appends it to `bytes`. A commit
    /// formats many items, and need not allocate memory for each.
    #[inline]
    pub fn encode_into(&self, order: HostOrder, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.resize(start + self.encoded_bytes(), 0);
        let (_, region) = bytes.split_at_mut(start);
        let (fixed, words) = region
            .split_first_chunk_mut::<{ Self::FIXED_BYTES }>()
            .expect("the region has room for its fixed part");
        let mut fields = FieldsMut::within(fixed, order);
        ItemHeader { kind: ItemKind::Buffer, regions: self.regions }.write(&mut fields);
        fields.u16(self.flags.bits());
        fields.u16(self.blocks);
        fields.u64(self.at.0);
        fields.u32(self.bitmap.len() as u32);
        for (field, word) in words.chunks_exact_mut(size_of::<u32>()).zip(&self.bitmap) {
            FieldsMut::within(field, order).u32(*word);
        }
    }

    /// Returns the runs of dirty chunks: the index of the first chunk and the number of chunks.
    #[inline]
    pub fn runs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        Runs { rest: &self.bitmap, word: 0, next_bit: 0 }
    }

    /// Returns the number of [`runs`](Self::runs).
    #[must_use]
    pub fn run_count(&self) -> usize {
        // A run starts at each dirty chunk after a clean one.
        let mut before = 0;
        let mut begun = |word: &u32| {
            let first = word & !(word << 1 | before);
            before = word >> 31;
            first.count_ones() as usize
        };
        self.bitmap.iter().map(&mut begun).sum()
    }

    /// Returns the type of the buffer, or `None` if the type is unknown.
    #[must_use]
    pub fn buffer_type(&self) -> Option<BufferType> {
        BufferType::of(self.flags)
    }
}

/// The runs of set bits of a bitmap.
struct Runs<'a> {
    /// The words that were not read yet.
    rest: &'a [u32],
    /// The bits of the current word that were not returned yet.
    word: u32,
    /// The index of the first bit of `rest`.
    next_bit: usize,
}

impl Runs<'_> {
    /// Reads the next word and makes it the current one. Returns `None` if no word is left.
    #[inline]
    fn advance(&mut self) -> Option<u32> {
        let (word, rest) = self.rest.split_first()?;
        (self.word, self.rest) = (*word, rest);
        self.next_bit += 32;
        Some(*word)
    }
}

impl Iterator for Runs<'_> {
    type Item = (usize, usize);

    #[inline]
    fn next(&mut self) -> Option<(usize, usize)> {
        while self.word == 0 {
            self.advance()?;
        }
        let skipped = self.word.trailing_zeros();
        let first = self.next_bit - 32 + skipped as usize;
        // Adding 1 at the first bit of a run carries to the first bit after the run.
        let (left, reaches_end) = self.word.overflowing_add(1 << skipped);
        self.word &= left;
        if !reaches_end {
            return Some((first, left.trailing_zeros() as usize + self.next_bit - 32 - first));
        }
        // The run reaches the end of the word.
        self.word = 0;
        while let Some(word) = self.advance() {
            let more = word.trailing_ones();
            if more < 32 {
                self.word = word & (u32::MAX << more);
                return Some((first, self.next_bit - 32 + more as usize - first));
            }
            self.word = 0;
        }
        Some((first, self.next_bit - first))
    }
}

/// The bytes of a run of dirty chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferRegion<'a> {
    /// Offset of the bytes in the buffer.
    pub offset_bytes: usize,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// A logged buffer. Its regions lie inside the buffer, in ascending order.
#[doc(alias = "xfs_buf_log_item")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedBuffer<'a> {
    /// The buffer and its dirty chunks.
    pub format: BufferFormat,
    /// The bytes of each run of dirty chunks.
    pub pieces: Vec<BufferRegion<'a>>,
}

impl<'a> LoggedBuffer<'a> {
    pub(super) fn read(
        first: &[u8],
        rest: &[&'a [u8]],
        order: HostOrder,
    ) -> Result<Self, LogItemCheck> {
        let format = BufferFormat::read(first, order)?;
        let (item, runs) = (ItemKind::Buffer.name(), format.runs().count());
        // The bitmap of a cancelled buffer has no meaning, and none of its bytes are logged. If a
        // log has regions for it nevertheless, they are dropped and not counted.
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
            Ok(BufferRegion { offset_bytes: first * CHUNK_BYTES, bytes })
        });
        let pieces = pieces.collect::<Result<Vec<_>, LogItemCheck>>()?;
        Ok(Self { format, pieces })
    }

    /// Returns whether the item says that the buffer is no longer metadata.
    #[must_use]
    pub const fn is_cancel(&self) -> bool {
        self.format.flags.contains(BufferFlags::CANCEL)
    }
}
