//! Sorts directory entries by the inodes that they name, and joins them with the rows of these
//! inodes.
//!
//! Owns: sorting the entries, which are found directory by directory, into the units of work of the
//! named inodes. Only volumes without parent pointers need this.
//!
//! Each worker keeps one bucket of entries per unit. If a worker cannot reserve more memory, it
//! appends each of its buckets to the spill file; such a range of the file is a run.
//!
//! ```text
//! entry:  child (8)  parent (8)  parent's generation (4)  length of name (1)  name
//! ```

use xfs_format::InodeNumber;

use crate::ScanError;
use crate::batch::{Batch, Link, RowItem, push_item};
use crate::memory::{Memory, SpillRange};
use crate::plan::Plan;
use crate::{Finding, FindingCode};

/// Number of bytes that a worker reserves from the memory limit at a time.
const RESERVE_BYTES: usize = 256 << 10;

/// The directory entries that one worker has found, in one bucket per unit of work.
#[derive(Default)]
pub(crate) struct LinkBuckets {
    buckets: Vec<Vec<u8>>,
    runs: Vec<(usize, SpillRange)>,
    used: usize,
    reserved: usize,
}

impl LinkBuckets {
    /// Adds a directory entry that names the inode `child`. Returns `false`, and adds nothing, if
    /// `child` lies in no range of inodes that `plan` lets a worker read.
    pub(crate) fn push(&mut self, plan: &Plan, child: InodeNumber, link: Link<'_>) -> bool {
        let Some(unit) = plan.unit_of(child.0) else { return false };
        if self.buckets.len() <= unit {
            self.buckets.resize_with(plan.units().len(), Vec::new);
        }
        let Some(bucket) = self.buckets.get_mut(unit) else { return false };
        let length = u8::try_from(link.name.len()).unwrap_or(u8::MAX);
        let name = link.name.get(..length.into()).unwrap_or(link.name);
        let before = bucket.len();
        bucket.extend_from_slice(&child.0.to_be_bytes());
        bucket.extend_from_slice(&link.parent.to_be_bytes());
        bucket.extend_from_slice(&link.parent_generation.to_be_bytes());
        bucket.push(length);
        bucket.extend_from_slice(name);
        self.used += bucket.len() - before;
        true
    }

    /// Reserves memory for the buckets. If too little memory is left, writes the buckets to the
    /// spill file. The worker must call this after every few entries.
    pub(crate) fn spill_if_needed(&mut self, memory: &Memory) -> Result<(), ScanError> {
        while self.used > self.reserved {
            if memory.reserve(RESERVE_BYTES) {
                self.reserved += RESERVE_BYTES;
                continue;
            }
            for (unit, bucket) in self.buckets.iter_mut().enumerate() {
                if !bucket.is_empty() {
                    self.runs.push((unit, memory.spill(bucket)?));
                    *bucket = Vec::new();
                }
            }
            self.used = 0;
        }
        Ok(())
    }
}

/// The directory entries that all workers have found, by the unit of work of the inode that they
/// name. They are in memory or in the spill file.
pub(crate) struct LinkRuns {
    units: Vec<UnitLinks>,
}

/// The directory entries, of all workers, that name inodes of one unit of work.
#[derive(Default)]
pub(crate) struct UnitLinks {
    kept: Vec<Vec<u8>>,
    spilled: Vec<SpillRange>,
}

impl LinkRuns {
    /// Combines the directory entries that all workers have found, by unit of work.
    pub(crate) fn new(unit_count: usize, workers: Vec<LinkBuckets>, memory: &Memory) -> Self {
        let mut units = Vec::new();
        units.resize_with(unit_count, UnitLinks::default);
        for worker in workers {
            memory.release(worker.reserved);
            for (unit, bucket) in units.iter_mut().zip(worker.buckets) {
                if !bucket.is_empty() {
                    unit.kept.push(bucket);
                }
            }
            for (unit, run) in worker.runs {
                if let Some(unit) = units.get_mut(unit) {
                    unit.spilled.push(run);
                }
            }
        }
        Self { units }
    }

    /// Returns the directory entries of each unit of work, in the order of the units.
    pub(crate) fn into_units(self) -> Vec<UnitLinks> {
        self.units
    }
}

/// One directory entry, with its name borrowed from its bucket. Entries are ordered by the inode
/// that they name, then by all other fields. So the order of paths does not depend on the worker
/// that found the entries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LinkEntry<'a> {
    child: u64,
    parent: u64,
    name: &'a [u8],
    parent_generation: u32,
}

fn parse(bytes: &[u8]) -> Option<(LinkEntry<'_>, &[u8])> {
    let (&child, rest) = bytes.split_first_chunk()?;
    let (&parent, rest) = rest.split_first_chunk()?;
    let (&generation, rest) = rest.split_first_chunk()?;
    let (&length, rest) = rest.split_first()?;
    let (name, rest) = rest.split_at_checked(length.into())?;
    let entry = LinkEntry {
        child: u64::from_be_bytes(child),
        parent: u64::from_be_bytes(parent),
        name,
        parent_generation: u32::from_be_bytes(generation),
    };
    Some((entry, rest))
}

impl UnitLinks {
    /// Adds each directory entry to the row in `batch` of the inode that it names. Returns the new
    /// batch. An entry whose inode has no row becomes a finding.
    pub(crate) fn join(
        self,
        batch: Batch,
        memory: &Memory,
        findings: &mut Vec<Finding>,
    ) -> Result<Batch, ScanError> {
        let mut bytes = self.kept;
        for run in self.spilled {
            let mut piece = Vec::new();
            memory.append(run, &mut piece)?;
            bytes.push(piece);
        }
        let mut entries = Vec::new();
        for piece in &bytes {
            let mut rest = piece.as_slice();
            while let Some((entry, after)) = parse(rest) {
                entries.push(entry);
                rest = after;
            }
        }
        entries.sort_unstable();
        Ok(join_sorted(batch, &entries, findings))
    }
}

fn join_sorted(batch: Batch, entries: &[LinkEntry<'_>], findings: &mut Vec<Finding>) -> Batch {
    let mut joined = Batch::default();
    let names: usize = entries.iter().map(|entry| entry.name.len() + 15).sum();
    joined.arena.reserve_exact(batch.arena.len() + names);
    joined.rows.reserve_exact(batch.rows.len());
    let mut rest = entries;
    for row in &batch.rows {
        while let Some((entry, after)) = rest.split_first()
            && entry.child < row.ino
        {
            note_dangling(entry, findings);
            rest = after;
        }
        let start = joined.arena.len();
        for item in batch.items(row) {
            push_item(&mut joined.arena, item);
        }
        while let Some((entry, after)) = rest.split_first()
            && entry.child == row.ino
        {
            let LinkEntry { parent, parent_generation, name, .. } = *entry;
            let link = Link { parent, parent_generation, name };
            push_item(&mut joined.arena, RowItem::Link(link));
            rest = after;
        }
        let mut row = row.clone();
        joined.place_items(&mut row, start);
        joined.rows.push(row);
    }
    for entry in rest {
        note_dangling(entry, findings);
    }
    joined
}

#[cold]
fn note_dangling(entry: &LinkEntry<'_>, findings: &mut Vec<Finding>) {
    let name = entry.name.escape_ascii();
    let message = format!("the entry {name} names inode {}, which does not exist", entry.child);
    findings.push(Finding::about(FindingCode::DanglingEntry, entry.parent, message));
}

#[cfg(test)]
mod tests;
