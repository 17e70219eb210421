//! One allocation group of a volume: its number and its bounds.
//!
//! Owns: the checks whether a block, an extent or an inode number lies inside the group. Does
//! **not** own the headers of the group.

use crate::addr::{AgBlock, AgInode, AgNumber, InodeNumber};
use crate::geometry::Geometry;

/// An allocation group that exists: its number, its length, and the geometry of the volume.
#[doc(alias = "xfs_perag")]
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    geometry: &'a Geometry,
    number: AgNumber,
    length_blocks: u32,
}

impl<'a> Group<'a> {
    /// Returns the group `number`, or `None` if there is no such group.
    #[must_use]
    pub const fn new(geometry: &'a Geometry, number: AgNumber) -> Option<Self> {
        // I1 of the crate: a `Group` exists.
        match geometry.ag_length(number) {
            0 => None,
            length_blocks => Some(Self { geometry, number, length_blocks }),
        }
    }

    /// Returns the geometry of the volume.
    #[must_use]
    pub const fn geometry(&self) -> &'a Geometry {
        self.geometry
    }

    /// Returns the number of the group.
    #[must_use]
    pub const fn number(&self) -> AgNumber {
        self.number
    }

    /// Returns the number of blocks in the group, including its headers.
    #[must_use]
    pub const fn length_blocks(&self) -> u32 {
        self.length_blocks
    }

    /// Returns whether this block exists and is not part of the group's headers.
    #[doc(alias = "xfs_verify_agbno")]
    #[inline]
    #[must_use]
    pub const fn contains_block(&self, block: AgBlock) -> bool {
        self.geometry.header_blocks() <= block.0 && block.0 < self.length_blocks
    }

    /// Returns whether `count` is at least 1 and [`contains_block`](Self::contains_block) holds for
    /// all `count` blocks from `start` on.
    #[doc(alias = "xfs_verify_agbext")]
    #[inline]
    #[must_use]
    pub const fn contains_extent(&self, start: AgBlock, count: u32) -> bool {
        count != 0 && self.contains_block(start) && count <= self.length_blocks - start.0
    }

    /// Returns whether an inode of this group may have this number. Chunks of inodes are aligned,
    /// so the last blocks of a group may have none.
    #[doc(alias = "xfs_verify_agino")]
    #[inline]
    #[must_use]
    pub const fn contains_inode(&self, inode: AgInode) -> bool {
        let block = self.geometry.ag_inode_block(inode).0;
        let header = self.geometry.header_blocks();
        let margin = self.geometry.inode_alignment_blocks;
        if header.saturating_add(margin) <= block
            && block < self.length_blocks.saturating_sub(margin)
        {
            // The bounds are at most a margin away from the ends of the group: no division is
            // needed.
            return true;
        }
        let bound = self.geometry.inode_bound_blocks();
        let first = header.next_multiple_of(bound);
        first <= block && block < self.length_blocks - self.length_blocks % bound
    }

    /// Returns the number in the volume of inode `inode` of this group.
    #[inline]
    #[must_use]
    pub const fn join_inode(&self, inode: AgInode) -> InodeNumber {
        self.geometry.join_inode(self.number, inode)
    }
}

#[cfg(test)]
mod tests;
