//! The kinds of btrees, and a table of their layouts.

use core::ops::Range;

use crate::features::FormatVersion;
use crate::geometry::Geometry;

/// The kind of btree that a block belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BtreeKind {
    /// The btree of free space, sorted by block number.
    #[doc(alias = "bnobt")]
    FreeSpaceByBlock,
    /// The btree of free space, sorted by size.
    #[doc(alias = "cntbt")]
    FreeSpaceBySize,
    /// The btree of all inode chunks.
    #[doc(alias = "inobt")]
    Inode,
    /// The btree of inode chunks with free inodes.
    #[doc(alias = "finobt")]
    FreeInode,
    /// The btree of the reverse map.
    #[doc(alias = "rmapbt")]
    ReverseMap,
    /// The btree of reference counts.
    #[doc(alias = "refcountbt")]
    Refcount,
    /// The btree of the extents of a fork.
    #[doc(alias = "bmbt")]
    Extent,
    /// The btree of the owners of a realtime group's blocks (its reverse map). The root lies in an
    /// inode of the metadata directory.
    #[doc(alias = "rtrmapbt")]
    RealtimeReverseMap,
    /// The btree of the reference counts of a realtime group's blocks. The root lies in an inode of
    /// the metadata directory.
    #[doc(alias = "rtrefcountbt")]
    RealtimeRefcount,
}

/// The width and unit of pointers and siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PointerForm {
    /// 4 bytes: a block of the allocation group.
    Short,
    /// 8 bytes: a block of the volume.
    Long,
}

/// Magic number and sizes of one kind of btree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BtreeLayout {
    /// The magic number at the start of each block.
    pub magic: u32,
    /// The version of the volumes whose btree blocks have this layout.
    pub version: FormatVersion,
    /// The form of block headers and pointers.
    pub form: PointerForm,
    /// Length of a record in bytes.
    pub record_bytes: usize,
    /// Length of a key in bytes.
    pub key_bytes: usize,
    /// Whether a node also holds the highest key of each child, after the lowest key.
    pub has_high_keys: bool,
}

impl BtreeKind {
    /// All kinds of btrees.
    pub const ALL: [Self; 9] = [
        Self::FreeSpaceByBlock,
        Self::FreeSpaceBySize,
        Self::Inode,
        Self::FreeInode,
        Self::ReverseMap,
        Self::Refcount,
        Self::Extent,
        Self::RealtimeReverseMap,
        Self::RealtimeRefcount,
    ];

    /// Returns the kind of btree whose blocks start with this magic number on a v5 volume, or
    /// `None` if no kind has this number.
    #[must_use]
    pub fn of_magic(magic: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.layout().magic == magic)
    }

    /// Returns the kind of btree whose blocks start with this magic number on a volume of this
    /// version, or `None` if no kind has this number.
    #[must_use]
    pub fn of_magic_in(magic: u32, version: FormatVersion) -> Option<Self> {
        let is_layout = |layout: &BtreeLayout| (layout.magic, layout.version) == (magic, version);
        Self::ALL.into_iter().find(|kind| is_layout(kind.layout_in(version)))
    }

    /// Returns the magic number and the sizes of this kind of btree on a v5 volume.
    #[must_use]
    pub const fn layout(self) -> &'static BtreeLayout {
        use PointerForm::{Long, Short};
        const fn row(magic: &[u8; 4], form: PointerForm, record: usize, key: usize) -> BtreeLayout {
            let magic = u32::from_be_bytes(*magic);
            let has_high_keys = key == RMAP_KEY_BYTES;
            BtreeLayout {
                magic,
                version: FormatVersion::V5,
                form,
                record_bytes: record,
                key_bytes: key,
                has_high_keys,
            }
        }
        const RMAP_KEY_BYTES: usize = 20;
        match self {
            Self::FreeSpaceByBlock => const { &row(b"AB3B", Short, 8, 8) },
            Self::FreeSpaceBySize => const { &row(b"AB3C", Short, 8, 8) },
            Self::Inode => const { &row(b"IAB3", Short, 16, 4) },
            Self::FreeInode => const { &row(b"FIB3", Short, 16, 4) },
            Self::ReverseMap => const { &row(b"RMB3", Short, 24, RMAP_KEY_BYTES) },
            Self::Refcount => const { &row(b"R3FC", Short, 12, 4) },
            Self::Extent => const { &row(b"BMA3", Long, 16, 8) },
            Self::RealtimeReverseMap => const { &row(b"MAPR", Long, 24, RMAP_KEY_BYTES) },
            Self::RealtimeRefcount => const { &row(b"RCNT", Long, 12, 4) },
        }
    }

    /// Returns the magic number and the sizes of this kind of btree on a volume of this version. A
    /// kind that exists only on v5 volumes has one layout, which is returned for both versions.
    #[inline]
    #[must_use]
    pub const fn layout_in(self, version: FormatVersion) -> &'static BtreeLayout {
        match (version, self) {
            (FormatVersion::V4, Self::FreeSpaceByBlock) => const { &Self::V4_BY_BLOCK },
            (FormatVersion::V4, Self::FreeSpaceBySize) => const { &Self::V4_BY_SIZE },
            (FormatVersion::V4, Self::Inode) => const { &Self::V4_INODE },
            (FormatVersion::V4, Self::Extent) => const { &Self::V4_EXTENT },
            _ => self.layout(),
        }
    }

    const V4_BY_BLOCK: BtreeLayout = Self::FreeSpaceByBlock.layout().in_version_4(b"ABTB");
    const V4_BY_SIZE: BtreeLayout = Self::FreeSpaceBySize.layout().in_version_4(b"ABTC");
    const V4_INODE: BtreeLayout = Self::Inode.layout().in_version_4(b"IABT");
    const V4_EXTENT: BtreeLayout = Self::Extent.layout().in_version_4(b"BMAP");

    /// Returns the name used in messages and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FreeSpaceByBlock => "free space by block",
            Self::FreeSpaceBySize => "free space by size",
            Self::Inode => "inode chunks",
            Self::FreeInode => "free inode chunks",
            Self::ReverseMap => "reverse map",
            Self::Refcount => "reference counts",
            Self::Extent => "extents",
            Self::RealtimeReverseMap => "realtime reverse map",
            Self::RealtimeRefcount => "realtime reference counts",
        }
    }

    /// Returns the largest number of levels of a btree of this kind on this volume, not counting a
    /// root in an inode. This is the height of a btree of half-full nodes that fills all the space
    /// available to the btree.
    #[must_use]
    pub const fn max_levels(self, geometry: &Geometry) -> u32 {
        let layout = self.layout_in(geometry.version);
        let blocks = match layout.form {
            PointerForm::Short => geometry.ag_blocks as u64,
            PointerForm::Long => geometry.data_blocks,
        };
        let fanout = (layout.max_pointers(geometry.block_size) / 2) as u64;
        let fanout = if fanout < 2 { 2 } else { fanout };
        // A root has at least two children. Each level below has `fanout` times as many blocks.
        let (mut levels, mut level_blocks, mut used) = (1, 2, 1_u64);
        while used.saturating_add(level_blocks) <= blocks {
            used += level_blocks;
            level_blocks = level_blocks.saturating_mul(fanout);
            levels += 1;
        }
        levels
    }
}

impl BtreeLayout {
    /// The bytes of a block that hold the number of entries, in both forms of the header.
    pub const COUNT_RANGE: Range<usize> = 6..8;
    const SIBLINGS_OFFSET: usize = 8;

    /// Returns the layout of the same kind of btree on a v4 volume, with the magic number `magic`.
    const fn in_version_4(&self, magic: &[u8; 4]) -> Self {
        Self { magic: u32::from_be_bytes(*magic), version: FormatVersion::V4, ..*self }
    }

    /// Returns the length of a block's header in bytes.
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        match (self.version, self.form) {
            (FormatVersion::V5, PointerForm::Short) => 56,
            (FormatVersion::V5, PointerForm::Long) => 72,
            (FormatVersion::V4, PointerForm::Short) => 16,
            (FormatVersion::V4, PointerForm::Long) => 24,
        }
    }

    /// Returns the length of a pointer in bytes.
    #[must_use]
    pub const fn pointer_bytes(&self) -> usize {
        match self.form {
            PointerForm::Short => 4,
            PointerForm::Long => 8,
        }
    }

    /// Returns the length in bytes of the keys of one child in a node.
    #[must_use]
    pub const fn node_key_bytes(&self) -> usize {
        if self.has_high_keys { 2 * self.key_bytes } else { self.key_bytes }
    }

    /// Returns the smallest number of entries in a block of `level` that is not the root.
    #[must_use]
    pub const fn min_entries(&self, level: u32, block_size: u32) -> usize {
        self.max_entries(level, block_size) / 2
    }

    /// Returns the largest number of entries (records or children) in a block of `level`.
    #[inline]
    #[must_use]
    pub const fn max_entries(&self, level: u32, block_size: u32) -> usize {
        if level == 0 { self.max_records(block_size) } else { self.max_pointers(block_size) }
    }

    /// Returns the offset of a node's pointers in the block, after the space for the largest number
    /// of keys.
    #[must_use]
    pub const fn pointers_offset(&self, block_size: u32) -> usize {
        self.header_bytes() + self.max_pointers(block_size) * self.node_key_bytes()
    }

    /// Returns the range of bytes in a header that holds the left sibling.
    #[must_use]
    pub const fn left_sibling_range(&self) -> Range<usize> {
        Self::SIBLINGS_OFFSET..Self::SIBLINGS_OFFSET + self.pointer_bytes()
    }

    /// Returns the range of bytes in a header that holds the right sibling.
    #[must_use]
    pub const fn right_sibling_range(&self) -> Range<usize> {
        let start = Self::SIBLINGS_OFFSET + self.pointer_bytes();
        start..start + self.pointer_bytes()
    }

    /// Encodes a pointer or sibling. `None` becomes all ones. A short pointer is the first four
    /// bytes of the result.
    ///
    /// # Panics
    ///
    /// Panics if the form is short and the block number does not fit 32 bits.
    #[must_use]
    pub fn encode_pointer(&self, block: Option<u64>) -> [u8; 8] {
        let Some(block) = block else { return [0xff; 8] };
        match self.form {
            PointerForm::Long => block.to_be_bytes(),
            PointerForm::Short => {
                let block = u32::try_from(block).expect("a block number in a group has 32 bits");
                (u64::from(block) << 32).to_be_bytes()
            }
        }
    }

    /// Decodes the pointer at the start of `bytes`. Returns `None` if there are too few bytes.
    #[must_use]
    pub fn decode_pointer(&self, bytes: &[u8]) -> Option<u64> {
        match self.form {
            PointerForm::Short => bytes.first_chunk().map(|raw| u32::from_be_bytes(*raw).into()),
            PointerForm::Long => bytes.first_chunk().map(|raw| u64::from_be_bytes(*raw)),
        }
    }

    /// Returns the largest number of records in a leaf of `block_size` bytes.
    #[must_use]
    pub const fn max_records(&self, block_size: u32) -> usize {
        (block_size as usize).saturating_sub(self.header_bytes()) / self.record_bytes
    }

    /// Returns the largest number of children of a node of `block_size` bytes.
    #[must_use]
    pub const fn max_pointers(&self, block_size: u32) -> usize {
        let room = (block_size as usize).saturating_sub(self.header_bytes());
        room / (self.node_key_bytes() + self.pointer_bytes())
    }
}
