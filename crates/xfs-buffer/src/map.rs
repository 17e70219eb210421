//! The extents of the device that a buffer covers.
//!
//! Owns: the list of a buffer's extents, which is checked when it is created, and the error for two
//! different lists that begin at one address. Does **not** own the kind of the bytes, which is in
//! the buffer.

use xfs_format::{BlockKind, Check, Corruption, DiskAddr, StructureAddress};

/// A contiguous extent of the device that a buffer covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferExtent {
    /// The address of the first block of the extent.
    pub at: DiskAddr,
    /// The length of the extent in bytes.
    pub length_bytes: u32,
}

/// The extents of the device that one buffer covers, in order. A map has at least one extent, and
/// no extent is empty.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BufferMap {
    first: BufferExtent,
    /// The extents after the first one. Empty, and so not allocated, for nearly every buffer.
    rest: Box<[BufferExtent]>,
    length_bytes: u32,
}

impl BufferMap {
    /// The greatest length of a buffer in bytes: twice an inode chunk of the largest inodes.
    pub(crate) const MAX_BYTES: u32 = 256 << 10;

    /// Creates a map of `extents`. Returns `None` if there are no extents, if one is empty, or if
    /// their total length exceeds `MAX_BYTES`.
    pub(crate) fn new(extents: &[BufferExtent]) -> Option<Self> {
        let (first, rest) = extents.split_first()?;
        let length_bytes = extents.iter().try_fold(0_u32, |sum, extent| {
            let sum = sum.checked_add(extent.length_bytes)?;
            (extent.length_bytes != 0 && sum <= Self::MAX_BYTES).then_some(sum)
        })?;
        Some(Self { first: *first, rest: rest.into(), length_bytes })
    }

    /// Returns whether the map has exactly these extents in this order.
    pub(crate) fn matches(&self, extents: &[BufferExtent]) -> bool {
        extents
            .split_first()
            .is_some_and(|(first, rest)| *first == self.first && *rest == *self.rest)
    }

    /// Returns the address of the first extent, which is the buffer's key in the lookup table.
    pub(crate) const fn at(&self) -> DiskAddr {
        self.first.at
    }

    pub(crate) const fn length_bytes(&self) -> u32 {
        self.length_bytes
    }

    /// Returns the extents, in order.
    pub(crate) fn extents(&self) -> impl Iterator<Item = &BufferExtent> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// Returns the corruption to report when another pointer claims this buffer's address with
    /// other extents or another kind.
    #[cold]
    pub(crate) fn conflict(&self, kind: BlockKind, other: &Self, wanted: BlockKind) -> Corruption {
        let differs = self.extents().zip(other.extents()).find(|(mine, other)| mine != other);
        let check = match differs {
            Some((mine, other)) if mine.at != other.at => {
                Check::BufferElsewhere { cached: mine.at, wanted: other.at }
            }
            _ => Check::BufferInUse {
                cached: kind,
                cached_bytes: self.length_bytes,
                wanted,
                wanted_bytes: other.length_bytes,
            },
        };
        Corruption::new(wanted.structure(), StructureAddress::Disk(self.at()), check)
    }
}
