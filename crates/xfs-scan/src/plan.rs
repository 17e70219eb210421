//! What is read in which order: the inode chunks of a volume, cut into units of work.
//!
//! Owns: the list of chunks and its cutting. Does **not** own: the inode btrees, or reading inodes.
//!
//! The list takes 16 bytes for each chunk of 64 inodes, in memory for the whole scan: 2.5 MB for ten
//! million inodes. It is bounded by what the inode btrees hold on disk.
//!
//! # Invariants
//!
//! - **I1** Units are in disk order, and so in the order of inode numbers. Their ranges of numbers do
//!   not overlap: every inode number belongs to at most one unit.

use std::ops::Range;

use xfs_alloc::read_agi;
use xfs_btree::Cursor;
use xfs_format::btree::BtreeFormat;
use xfs_format::inode_chunk::{InodeChunk, InodeChunks};
use xfs_format::{AgNumber, InodeNumber};

use crate::parallel::WorkerPool;
use crate::source::ScanSource;
use crate::{Finding, FindingCode, ScanError};

/// Chunks in a unit: 16,384 inodes, 8 MiB of 512-byte inodes.
pub(crate) const CHUNKS_PER_UNIT: usize = 256;

/// Groups that are looked at before it is decided whether to go on.
const GROUPS_PER_ROUND: u32 = 1024;

/// The chunks of one allocation group, as far as its inode btree could be read.
struct GroupChunks {
    chunks: Vec<InodeChunk>,
    findings: Vec<Finding>,
    /// Whether not even the root of the btree could be found.
    is_lost: bool,
}

/// Chunks that one worker reads at a time.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) group: AgNumber,
    range: Range<usize>,
    /// The first inode number that could be in it.
    first: InodeNumber,
}

/// All units of a volume.
pub(crate) struct Plan {
    groups: Vec<Vec<InodeChunk>>,
    units: Vec<Unit>,
    inodes: u64,
}

impl Plan {
    /// Reads the inode btrees of all groups. What cannot be read is a finding.
    ///
    /// A superblock may claim four thousand million groups: when a whole round of them is lost, the
    /// rest is one finding.
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
                let message =
                    format!("no inodes found in the {} groups from here", group_count - next);
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

    /// Cuts the chunks of all groups, in the order of groups, into units.
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

    /// Memory that it holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        let chunks: usize = self.groups.iter().map(Vec::capacity).sum();
        chunks * size_of::<InodeChunk>() + self.units.capacity() * size_of::<Unit>()
    }

    /// The units, in disk order.
    pub(crate) fn units(&self) -> &[Unit] {
        &self.units
    }

    /// Inodes in use, as the inode btrees say.
    pub(crate) const fn inodes(&self) -> u64 {
        self.inodes
    }

    /// The chunks of a unit.
    pub(crate) fn chunks(&self, unit: &Unit) -> &[InodeChunk] {
        let group = self.groups.get(unit.group.0 as usize);
        group.and_then(|chunks| chunks.get(unit.range.clone())).unwrap_or_default()
    }

    /// Which unit an inode belongs to, if one does.
    pub(crate) fn unit_of(&self, ino: u64) -> Option<usize> {
        self.units.partition_point(|unit| unit.first.0 <= ino).checked_sub(1)
    }
}

/// Inodes of a chunk that are in use.
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
        // A leaf that is damaged in the middle has given what stands before.
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

/// Adds a chunk, unless it overlaps the one before it (**I1**).
fn push_chunk(found: &mut GroupChunks, group: AgNumber, chunk: InodeChunk) {
    if let Some(last) = found.chunks.last()
        && !InodeChunks::may_follow(&chunk, last)
    {
        let message = format!("the chunk at {} overlaps the one before it", chunk.start);
        let finding = Finding::about(FindingCode::Corrupt, 0, message).in_group(group.0);
        found.findings.push(Finding { ino: None, ..finding });
        return;
    }
    found.chunks.push(chunk);
}
