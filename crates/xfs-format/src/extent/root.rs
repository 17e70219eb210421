//! The root of an extent btree, which lies in the inode.
//!
//! ```text
//! 0       2       4                 4 + 8·capacity
//! | level | count | keys            | pointers        |
//! ```
//!
//! Unlike a btree block, the root has no self-describing header, and it is never a leaf.

use core::mem::size_of;

use zerocopy::big_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ExtentCheck, is_for_files};
use crate::addr::{FileBlock, FsBlock};
use crate::geometry::Geometry;

/// Number of bytes before the keys of a root in an inode.
pub const EXTENT_ROOT_HEADER_BYTES: usize = size_of::<RootDisk>();
/// Limit on the levels of an extent btree, including the root: the height with 2⁴⁸ records in
/// half-full blocks of 1 KiB.
#[doc(alias = "XFS_BM_MAXLEVELS")]
pub const MAX_EXTENT_LEVELS: u16 = 12;

/// Length of a key and a pointer together, in bytes.
const ENTRY_BYTES: usize = 2 * size_of::<U64>();

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RootDisk {
    level: U16,
    count: U16,
}

/// The root of an extent btree, decoded from the fork of an inode.
#[doc(alias = "xfs_bmdr_block")]
#[derive(Clone, Copy, Debug)]
pub struct ExtentRoot<'a> {
    level: u16,
    keys: &'a [U64],
    pointers: &'a [U64],
}

/// Writes a root over all bytes of a fork: `level`, `children`, and zeros between and after them.
///
/// # Panics
///
/// Panics if there are more children than [`ExtentRoot::capacity`] allows.
pub fn encode_extent_root(level: u16, children: &[(FileBlock, FsBlock)], fork: &mut [u8]) {
    let capacity = ExtentRoot::capacity(fork.len());
    assert!(children.len() <= capacity, "the children fit the fork");
    let count =
        u16::try_from(children.len()).expect("a fork has room for fewer than 2^16 children");
    fork.fill(0);
    let disk = RootDisk { level: level.into(), count: count.into() };
    let (header, entries) = fork.split_at_mut(EXTENT_ROOT_HEADER_BYTES);
    header.copy_from_slice(disk.as_bytes());
    let (keys, pointers) = entries.split_at_mut(capacity * size_of::<U64>());
    let places =
        keys.chunks_exact_mut(size_of::<U64>()).zip(pointers.chunks_exact_mut(size_of::<U64>()));
    for ((file_block, child), (key, pointer)) in children.iter().zip(places) {
        key.copy_from_slice(&file_block.0.to_be_bytes());
        pointer.copy_from_slice(&child.0.to_be_bytes());
    }
}

impl<'a> ExtentRoot<'a> {
    /// Returns the number of children that fit into a fork of `fork_bytes`.
    #[doc(alias = "xfs_bmdr_maxrecs")]
    #[must_use]
    pub const fn capacity(fork_bytes: usize) -> usize {
        fork_bytes.saturating_sub(EXTENT_ROOT_HEADER_BYTES) / ENTRY_BYTES
    }

    /// Decodes the root in `fork`, which must be the whole fork: the offset of the pointers depends
    /// on the fork's length.
    ///
    /// # Errors
    ///
    /// Returns [`ExtentCheck`] if the level is 0 or too high, or if the count is 0 or does not fit.
    pub fn decode(fork: &'a [u8]) -> Result<Self, ExtentCheck> {
        let no_room = ExtentCheck::Room { count: 1, room: fork.len() };
        let (disk, entries) = RootDisk::ref_from_prefix(fork).map_err(|_| no_room)?;
        let (level, count) = (disk.level.get(), disk.count.get());
        if level == 0 || level >= MAX_EXTENT_LEVELS {
            return Err(ExtentCheck::RootLevel { level });
        }
        let limit = entries.len() / ENTRY_BYTES;
        let wrong_count = ExtentCheck::RootCount { count, limit };
        let wanted = usize::from(count);
        if wanted == 0 || wanted > limit {
            return Err(wrong_count);
        }
        let (keys, _) =
            <[U64]>::ref_from_prefix_with_elems(entries, wanted).map_err(|_| wrong_count)?;
        let pointers = entries.get(limit * size_of::<U64>()..).unwrap_or_default();
        let (pointers, _) =
            <[U64]>::ref_from_prefix_with_elems(pointers, wanted).map_err(|_| wrong_count)?;
        Ok(Self { level, keys, pointers })
    }

    /// Returns the level of the root: the number of levels of the btree below the root, at least 1.
    #[must_use]
    pub const fn level(&self) -> u16 {
        self.level
    }

    /// Returns the number of children of the root, which is at least 1.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.keys.len()
    }

    /// Returns, for each child, the first file block that it maps and the block of the volume that
    /// holds the child.
    pub fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = (FileBlock, FsBlock)> + DoubleEndedIterator + use<'a> {
        let keys = self.keys.iter().map(|key| FileBlock(key.get()));
        keys.zip(self.pointers.iter().map(|pointer| FsBlock(pointer.get())))
    }

    /// Checks that the keys ascend and that the children exist.
    ///
    /// # Errors
    ///
    /// Returns the first check that failed.
    pub fn verify(&self, geometry: &Geometry) -> Result<(), ExtentCheck> {
        let mut previous = None;
        for (file_block, child) in self.iter() {
            if previous.is_some_and(|previous| file_block <= previous) {
                return Err(ExtentCheck::KeyOrder { file_block });
            }
            if !is_for_files(child, geometry) {
                return Err(ExtentCheck::Child { file_block, child });
            }
            previous = Some(file_block);
        }
        Ok(())
    }
}
