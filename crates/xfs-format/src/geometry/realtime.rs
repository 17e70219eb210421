//! The realtime section of a volume: its groups, its extents, and the addresses of its blocks.
//!
//! Owns: the arithmetic of realtime block numbers, with every range checked. Does **not** own: the
//! device that holds the section.
//!
//! ```text
//! classic   block number = block of the section
//! groups    block number = group << group_blocks_log | block in the group
//!           block of the section = group · group_blocks + block in the group
//! ```
//!
//! # Invariants
//!
//! - **I1** The values come from a verified superblock. No method overflows, whatever its argument.

use crate::addr::FsBlock;

/// Sizes of the realtime section of one volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RealtimeGeometry {
    /// Number of blocks that belong to whole realtime extents; 0 without a realtime section.
    #[doc(alias = "sb_rblocks")]
    pub blocks: u64,
    /// Number of realtime groups; 0 if the section is not divided into groups.
    #[doc(alias = "sb_rgcount")]
    pub group_count: u32,
    /// Number of blocks in every group but the last; 0 without groups.
    pub group_blocks: u64,
    /// Number of bits of a block number inside a group; 0 without groups.
    #[doc(alias = "sb_rgblklog")]
    pub group_blocks_log: u8,
    /// Whether a group starts at a multiple of `1 << group_blocks_log` blocks on the device, so
    /// that a gap follows a shorter group.
    #[doc(alias = "ZONE_GAPS")]
    pub has_gaps: bool,
    /// First block of the section on the data device; 0 if the section has a device of its own.
    #[doc(alias = "sb_rtstart")]
    pub start: u64,
}

/// A block of the realtime section: its group, and its number in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RealtimeBlock {
    /// The realtime group; 0 in a section without groups.
    pub group: u32,
    /// The block inside the group.
    pub block: u64,
}

impl RealtimeBlock {
    /// Creates a block number from a group and the block inside the group.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(group: u32, block: u64) -> Self {
        Self { group, block }
    }
}

impl RealtimeGeometry {
    /// The sizes of a volume without a realtime section.
    pub const NONE: Self = Self {
        blocks: 0,
        group_count: 0,
        group_blocks: 0,
        group_blocks_log: 0,
        has_gaps: false,
        start: 0,
    };

    /// Returns whether the volume has a realtime section.
    #[must_use]
    pub const fn is_present(&self) -> bool {
        self.blocks != 0
    }

    /// Returns whether the section lies on the data device.
    #[must_use]
    pub const fn is_internal(&self) -> bool {
        self.start != 0
    }

    /// Returns the number of blocks of a group; 0 if the group does not exist. A section without
    /// groups counts as a single group with the number 0.
    #[must_use]
    pub const fn group_length(&self, group: u32) -> u64 {
        if self.group_count == 0 {
            return if group == 0 { self.blocks } else { 0 };
        }
        if group >= self.group_count {
            return 0;
        }
        let left = self.blocks.saturating_sub(group as u64 * self.group_blocks);
        if left < self.group_blocks { left } else { self.group_blocks }
    }

    /// Splits a block number into the group and the block inside the group. Returns `None` if there
    /// is no such block.
    #[doc(alias = "xfs_rtb_to_rgno")]
    #[must_use]
    pub fn split_block(&self, block: FsBlock) -> Option<RealtimeBlock> {
        let split = if self.group_count == 0 {
            RealtimeBlock { group: 0, block: block.0 }
        } else {
            let bits = u32::from(self.group_blocks_log);
            let group = u32::try_from(block.0.checked_shr(bits)?).ok()?;
            RealtimeBlock { group, block: block.0 & ((1_u64.checked_shl(bits)?) - 1) }
        };
        (split.block < self.group_length(split.group)).then_some(split)
    }

    /// Returns whether `count` blocks from `start` on all exist and lie in one group.
    #[must_use]
    pub fn contains_extent(&self, start: FsBlock, count: u64) -> bool {
        self.split_block(start).is_some_and(|split| {
            count != 0 && count <= self.group_length(split.group) - split.block
        })
    }

    /// Returns the block of the device that holds a realtime block, or `None` if there is no such
    /// block. The device is the data device if the section is [internal](Self::is_internal).
    #[doc(alias = "xfs_rtb_to_daddr")]
    #[must_use]
    pub fn device_block(&self, block: FsBlock) -> Option<u64> {
        let RealtimeBlock { group, block: in_group } = self.split_block(block)?;
        let linear = if self.has_gaps {
            block.0
        } else {
            u64::from(group).checked_mul(self.group_blocks)?.checked_add(in_group)?
        };
        linear.checked_add(self.start)
    }

    /// Returns the first block after the section on its device, or `None` if the block number does
    /// not fit 64 bits.
    #[must_use]
    pub fn device_end(&self) -> Option<u64> {
        let blocks = match self.group_count.checked_sub(1) {
            Some(last) if self.has_gaps => {
                let bits = u32::from(self.group_blocks_log);
                (u64::from(last) << bits).checked_add(self.group_length(last))?
            }
            _ => self.blocks,
        };
        self.start.checked_add(blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::{RealtimeBlock, RealtimeGeometry};
    use crate::addr::FsBlock;

    /// Three groups: two of 100 blocks, and a last one of 50 blocks.
    const GROUPS: RealtimeGeometry = RealtimeGeometry {
        blocks: 250,
        group_count: 3,
        group_blocks: 100,
        group_blocks_log: 7,
        has_gaps: false,
        start: 0,
    };

    #[test]
    fn block_of_a_group_has_its_place_on_the_device() {
        let block = FsBlock(2 << 7 | 49);
        assert_eq!(GROUPS.split_block(block), Some(RealtimeBlock { group: 2, block: 49 }));
        assert_eq!(GROUPS.device_block(block), Some(249));
        let internal = RealtimeGeometry { start: 1000, ..GROUPS };
        assert_eq!(internal.device_block(block), Some(1249));
        let gaps = RealtimeGeometry { has_gaps: true, ..GROUPS };
        assert_eq!(gaps.device_block(block), Some(305));
        assert_eq!(gaps.device_end(), Some(306));
    }

    #[test]
    fn block_after_a_group_does_not_exist() {
        for block in [2 << 7 | 50, 1 << 7 | 100, 3 << 7, u64::MAX] {
            // I1: no argument overflows.
            assert_eq!(GROUPS.device_block(FsBlock(block)), None, "{block:#x}");
        }
        assert!(GROUPS.contains_extent(FsBlock(0), 100));
        assert!(!GROUPS.contains_extent(FsBlock(1), 100));
        assert!(!GROUPS.contains_extent(FsBlock(1), 0));
    }

    #[test]
    fn section_without_groups_is_linear() {
        let classic = RealtimeGeometry { blocks: 77, ..RealtimeGeometry::default() };
        assert_eq!(classic.device_block(FsBlock(76)), Some(76));
        assert_eq!(classic.device_block(FsBlock(77)), None);
        assert_eq!(RealtimeGeometry::default().device_block(FsBlock(0)), None);
    }
}
