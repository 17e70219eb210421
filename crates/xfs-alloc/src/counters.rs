//! The counters of the superblock, computed from the headers of the groups.
//!
//! The superblock's own counters are written only from time to time. After a crash the headers of
//! the groups are the truth.

use xfs_buffer::{BufferCache, Result};

use crate::headers::AgHeaders;

/// Inodes and free space of a volume, as the headers of its groups count them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeCounters {
    /// Inodes on disk, free ones included.
    #[doc(alias = "icount")]
    pub inodes: u64,
    /// The number of free inodes among them.
    #[doc(alias = "ifree")]
    pub free_inodes: u64,
    /// Free blocks. The blocks of the free-space btrees and of the free lists count as free: they
    /// are given back as the space fills up.
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

    /// Returns the sums with one more group. No sum overflows: a group has at most 2³⁰ blocks, and
    /// each counter is at most that.
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
