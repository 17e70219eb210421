//! The units into which a power cut divides a write: each unit is written completely or not at all.
//!
//! Owns: the rules for torn writes of the crash model in docs/internals/crash-model.md. Does
//! **not** own: which writes survive.

use std::ops::Range;

use xfs_format::{BASIC_BLOCK_BYTES, Superblock};

/// The first bytes of every inode.
const INODE_MAGIC: &[u8] = b"IN";

/// The units into which a crash may tear a write. Log records and file data are torn into sectors,
/// an inode cluster into inodes. Any other metadata buffer is written whole or not at all.
#[derive(Clone, Debug)]
pub struct Atomicity {
    sector_bytes: u64,
    inode_bytes: usize,
    torn: Vec<Range<u64>>,
}

impl Default for Atomicity {
    /// Returns the units for a device without log or file data, with sectors and inodes of 512
    /// bytes.
    fn default() -> Self {
        let inode_bytes = BASIC_BLOCK_BYTES as usize;
        Self { sector_bytes: BASIC_BLOCK_BYTES.into(), inode_bytes, torn: Vec::new() }
    }
}

impl Atomicity {
    /// Returns the units for the volume with this superblock. If the volume has an internal log,
    /// writes to it are torn into sectors. The caller adds the ranges of file data with `torn`.
    #[must_use]
    pub fn of(superblock: &Superblock) -> Self {
        let geometry = &superblock.geometry;
        let atomicity = Self {
            sector_bytes: geometry.sector_size.into(),
            inode_bytes: geometry.inode_size as usize,
            torn: Vec::new(),
        };
        if superblock.has_external_log() {
            return atomicity;
        }
        let start = geometry.block_disk_addr(superblock.log_start).and_then(|at| at.byte_offset());
        let length = geometry.blocks_to_bytes(superblock.log_blocks.into());
        match (start, length) {
            (Some(start), Some(length)) => atomicity.torn(start..start + length),
            _ => atomicity,
        }
    }

    /// Adds a range of bytes that is log or file data. A power cut tears writes to this range into
    /// sectors.
    #[must_use]
    pub fn torn(mut self, range: Range<u64>) -> Self {
        self.torn.push(range);
        self
    }

    /// Returns the units into which a crash may tear a write of `bytes` at `offset`, as ranges of
    /// `bytes`, in order and without gaps.
    pub(crate) fn units(&self, offset: u64, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut units = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let here = offset + at as u64;
            let torn = self.torn.iter().find(|range| range.contains(&here));
            let end = match torn {
                Some(range) => range.end.min((here / self.sector_bytes + 1) * self.sector_bytes),
                None => self.next_torn(here),
            };
            let end = bytes.len().min(usize::try_from(end - offset).unwrap_or(usize::MAX));
            let run = bytes.get(at..end).unwrap_or_default();
            if torn.is_none() && self.is_inode_cluster(run) {
                let starts = (at..end).step_by(self.inode_bytes);
                units.extend(starts.map(|start| start..start + self.inode_bytes));
            } else {
                units.push(at..end);
            }
            at = end;
        }
        units
    }

    /// Returns the start of the next range of log or file data after the offset `here`.
    fn next_torn(&self, here: u64) -> u64 {
        let starts = self.torn.iter().filter(|range| !range.is_empty()).map(|range| range.start);
        starts.filter(|start| *start > here).min().unwrap_or(u64::MAX)
    }

    fn is_inode_cluster(&self, run: &[u8]) -> bool {
        let inodes = run.chunks_exact(self.inode_bytes);
        inodes.remainder().is_empty()
            && inodes.into_iter().all(|inode| inode.starts_with(INODE_MAGIC))
    }
}

#[cfg(test)]
mod tests;
