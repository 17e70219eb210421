//! The counters of the superblock, computed from the headers of the groups.
//!
//! The superblock's own counters are written only from time to time. After a crash only the headers
//! of the groups are up to date.

use xfs_buffer::{BufferCache, Result};

use crate::headers::AgHeaders;

/// The counters of inodes and free blocks of a volume, summed from the headers of its groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeCounters {
    /// Number of inodes on disk, including free ones.
    #[doc(alias = "icount")]
    pub inodes: u64,
    /// Number of free inodes on disk.
    #[doc(alias = "ifree")]
    pub free_inodes: u64,
    /// Number of free blocks. The blocks of the free-space btrees and of the free lists count as
    /// free: they become usable as the free space shrinks.
    #[doc(alias = "fdblocks")]
    pub free_blocks: u64,
}

impl VolumeCounters {
    /// Reads the headers of every group and sums their counters.
    ///
    /// # Errors
    ///
    /// The device's error, or a corrupt header.
    pub fn sum(cache: &BufferCache) -> Result<Self> {
        cache.geometry().groups().try_fold(Self::default(), |sum, group| {
            let headers = AgHeaders::read(cache, group)?;
            Ok(sum.plus(&headers))
        })
    }

    /// Returns the sums with the counters of one more group added. No sum overflows: a group has at
    /// most 2³⁰ blocks, and each counter is at most that.
    #[must_use]
    pub fn plus(self, headers: &AgHeaders) -> Self {
        let AgHeaders { agf, agi } = headers;
        let blocks = [agf.free_blocks, agf.free_list.count, agf.btree_blocks];
        Self {
            inodes: self.inodes + u64::from(agi.count),
            free_inodes: self.free_inodes + u64::from(agi.free_count),
            free_blocks: self.free_blocks + blocks.into_iter().map(u64::from).sum::<u64>(),
        }
    }
}
