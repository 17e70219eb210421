//! The read order: the inode chunks of a volume, divided into units of work.
//!
//! Owns: the list of chunks, and dividing it into units. Does **not** own: the inode btrees, or
//! reading inodes.
//!
//! The list takes 16 bytes per chunk of 64 inodes for the whole scan, which is 2.5 MB for ten
//! million inodes. Its size is bounded by that of the inode btrees on disk.
//!
//! # Invariants
//!
//! - **I1** Units are in disk order, and so in the order of inode numbers. Their ranges of numbers
//!   do not overlap: every inode number belongs to at most one unit.

use std::ops::Range;

use xfs_alloc::read_agi;
use xfs_btree::Cursor;
use xfs_format::btree::BtreeFormat;
use xfs_format::inode_chunk::{InodeChunk, InodeChunks};
use xfs_format::{AgNumber, InodeNumber};

use crate::parallel::WorkerPool;
use crate::source::ScanSource;
use crate::{Finding, FindingCode, ScanError};

/// Number of inode chunks per unit of work: 4096 inodes, or 2 MiB of 512-byte inodes. The rows of a
/// unit, and the lines that they become, stay in the second or third level of the cache.
pub(crate) const CHUNKS_PER_UNIT: usize = 64;

/// Number of allocation groups in a round. Inode btrees are read round by round. If none of a round
/// can be read, the scan reads no further groups.
const GROUPS_PER_ROUND: u32 = 1024;

/// The inode chunks of one allocation group that could be read from its inode btree.
struct GroupChunks {
    chunks: Vec<InodeChunk>,
    findings: Vec<Finding>,
    /// Whether the inode btree could not be read at all, not even its root.
    is_lost: bool,
}

/// A unit of work: adjacent chunks of one allocation group that one worker reads.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) group: AgNumber,
    range: Range<usize>,
    /// The lowest inode number that belongs to the unit of work.
    first: InodeNumber,
}

/// All units of work of a volume, with their chunks.
pub(crate) struct Plan {
    groups: Vec<Vec<InodeChunk>>,
    units: Vec<Unit>,
    inodes: u64,
}

impl Plan {
    /// Reads the inode btrees of all allocation groups. Unreadable parts become findings.
    ///
    /// A damaged superblock may claim 2³² groups. To bound the work, all groups after a round of
    /// `GROUPS_PER_ROUND` unreadable groups become one finding.
    pub(crate) fn read(
        source: &ScanSource,
        pool: &WorkerPool<'_>,
        findings: &mut Vec<Finding>,
    ) -> Result<Self, ScanError> {
        let group_count = source.geometry().ag_count;
        let mut groups = Vec::new();
        let mut next = 0;
        while next < group_count {
            let count = GROUPS_PER_ROUND.min(group_count - next);
            let mut lost = 0;
            let mut round = Vec::new();
            pool.run(
                count as usize,
                || (),
                |(), index| Ok(read_group(source, AgNumber(next + index as u32))),
                |_, group| {
                    lost += u32::from(group.is_lost);
                    round.push(group);
                    Ok(())
                },
            )?;
            if lost == GROUPS_PER_ROUND {
                let message = format!(
                    "no inode btree could be read in the {} groups from here on",
                    group_count - next
                );
                let finding = Finding::about(FindingCode::Corrupt, 0, message).in_group(next);
                findings.push(Finding { ino: None, ..finding });
                break;
            }
            for group in round {
                findings.extend(group.findings);
                groups.push(group.chunks);
            }
            next += count;
        }
        Ok(Self::new(source, groups))
    }

    /// Divides the chunks of all allocation groups into units, in the order of groups.
    fn new(source: &ScanSource, groups: Vec<Vec<InodeChunk>>) -> Self {
        let mut units = Vec::new();
        let mut inodes = 0;
        for (chunks, group) in groups.iter().zip(source.geometry().groups()) {
            for (index, part) in chunks.chunks(CHUNKS_PER_UNIT).enumerate() {
                let Some(first) = part.first() else { continue };
                let start = index * CHUNKS_PER_UNIT;
                units.push(Unit {
                    group,
                    range: start..start + part.len(),
                    first: source.geometry().join_inode(group, first.start),
                });
                inodes += part.iter().map(|chunk| u64::from(allocated_count(chunk))).sum::<u64>();
            }
        }
        Self { groups, units, inodes }
    }

    /// Returns the number of bytes of memory that the plan holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        let chunks: usize = self.groups.iter().map(Vec::capacity).sum();
        chunks * size_of::<InodeChunk>() + self.units.capacity() * size_of::<Unit>()
    }

    /// Returns the units of work, in disk order.
    pub(crate) fn units(&self) -> &[Unit] {
        &self.units
    }

    /// Returns the number of used inodes of the volume, according to the inode btrees.
    pub(crate) const fn inodes(&self) -> u64 {
        self.inodes
    }

    /// Returns the inode chunks of a unit of work.
    pub(crate) fn chunks(&self, unit: &Unit) -> &[InodeChunk] {
        let group = self.groups.get(unit.group.0 as usize);
        group.and_then(|chunks| chunks.get(unit.range.clone())).unwrap_or_default()
    }

    /// Returns the index of the unit to which the inode number belongs, or `None` if no unit can
    /// contain it.
    pub(crate) fn unit_of(&self, ino: u64) -> Option<usize> {
        self.units.partition_point(|unit| unit.first.0 <= ino).checked_sub(1)
    }
}

/// Returns the number of used inodes of a chunk.
pub(crate) const fn allocated_count(chunk: &InodeChunk) -> u32 {
    chunk.allocated().count_ones()
}

fn read_group(source: &ScanSource, group: AgNumber) -> GroupChunks {
    let mut found = GroupChunks { chunks: Vec::new(), findings: Vec::new(), is_lost: false };
    let cursor = read_agi(&source.cache, group)
        .and_then(|agi| Cursor::<InodeChunks>::new(&source.cache, group, agi.inode_btree));
    let mut leaves = match cursor {
        Ok(cursor) => cursor.leaves(),
        Err(error) => {
            found.findings.push(Finding::from_error(&error).in_group(group.0));
            found.is_lost = true;
            return found;
        }
    };
    let mut leaf = Vec::new();
    loop {
        let more = leaves.read_next(&mut leaf);
        // A leaf with a damaged record has returned the records before it.
        for &chunk in &leaf {
            push_chunk(&mut found, group, chunk);
        }
        match more {
            Ok(true) => {}
            Ok(false) => return found,
            Err(error) => found.findings.push(Finding::from_error(&error).in_group(group.0)),
        }
    }
}

/// Adds a chunk to those of its group. A chunk that overlaps the previous one becomes a finding
/// (**I1**).
fn push_chunk(found: &mut GroupChunks, group: AgNumber, chunk: InodeChunk) {
    // I1: the ranges of units do not overlap.
    if let Some(last) = found.chunks.last()
        && !InodeChunks::may_follow(&chunk, last)
    {
        let message = format!("the chunk at {} overlaps the previous one", chunk.start);
        let finding = Finding::about(FindingCode::Corrupt, 0, message).in_group(group.0);
        found.findings.push(Finding { ino: None, ..finding });
        return;
    }
    found.chunks.push(chunk);
}
