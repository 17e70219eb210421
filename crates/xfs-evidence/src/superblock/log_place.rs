//! The place of the log on a volume that has no superblock left.
//!
//! Owns: finding the start and the length of an internal log, and the UUID in its records. Does
//! **not** own: the records, or the other fields of a superblock.
//!
//! The reverse map has one record for the log. If that record is lost, the log itself gives its
//! start: the header of each record states its own block in the log. The log then ends before the
//! next block that has an owner or is free (`occupied.rs`).

use std::collections::BTreeMap;

use xfs_format::log_record::LogRecordHeader;
use xfs_format::rmap::{ReverseMap, Rmap, RmapOwner};
use xfs_format::{AgBlock, AgNumber, BASIC_BLOCK_BYTES, DiskAddr, StructureAddress, Uuid};

use super::occupied;
use crate::read_around::read_around;
use crate::volume::{Evidence, Trust};

/// Length of one read of the log, in bytes.
const READ_BYTES: usize = 1 << 20;
/// The largest number of different starts of the log for which headers of records are counted. Only
/// one start is right; the others come from stale headers, or from files that contain a log.
const MOST_STARTS: usize = 1 << 12;
/// The length of the longest possible log, in bytes.
const MOST_LOG_BYTES: u64 = 1 << 31;

/// The internal log of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogPlace {
    pub(super) group: AgNumber,
    pub(super) start: AgBlock,
    pub(super) length_blocks: u32,
    /// The UUID in the newest record, which is the UUID that users see. `None` if no record is
    /// left.
    pub(super) uuid: Option<Uuid>,
}

/// The record headers that imply the same start of the log: their number, and the newest one.
#[derive(Clone, Copy, Default)]
struct Start {
    headers: u32,
    /// The LSN and the UUID of the newest header.
    newest: Option<(u64, Uuid)>,
}

/// Finds the log: by the reverse map, or else by the headers of its records.
pub(super) fn find(evidence: &Evidence<'_>) -> Option<LogPlace> {
    if let Some(found) = by_reverse_map(evidence) {
        let starts = starts_in(evidence, found.group, found.start, found.length_blocks);
        let at = evidence.geometry().ag_block_disk_addr(found.group, found.start);
        let uuid = starts.get(&at).and_then(|start| start.newest).map(|(_, uuid)| uuid);
        return Some(LogPlace { uuid, ..found });
    }
    by_headers(evidence)
}

fn by_reverse_map(evidence: &Evidence<'_>) -> Option<LogPlace> {
    let mut found = Vec::new();
    for group in evidence.geometry().groups() {
        evidence.group_records::<ReverseMap>(group, |record: &Rmap, trust| {
            if record.owner == RmapOwner::Log && trust == Trust::Sound {
                found.push((group, *record));
            }
        });
    }
    let [(group, record)] = found.as_slice() else { return None };
    let place =
        LogPlace { group: *group, start: record.start, length_blocks: record.count, uuid: None };
    Some(place)
}

/// Finds the log by the headers of its records, which must have the UUID of the volume. Searches
/// the middle group first, because mkfs.xfs puts the log there.
fn by_headers(evidence: &Evidence<'_>) -> Option<LogPlace> {
    let geometry = evidence.geometry();
    let middle = AgNumber(geometry.ag_count / 2);
    let others = geometry.groups().filter(|group| *group != middle);
    std::iter::once(middle).chain(others).find_map(|group| {
        let starts = starts_in(evidence, group, AgBlock(0), geometry.ag_length(group));
        let own = starts
            .into_iter()
            .filter(|(_, start)| start.newest.is_some_and(|(_, uuid)| uuid == geometry.meta_uuid));
        let (at, start) = own.max_by_key(|(_, start)| start.headers)?;
        let uuid = start.newest.map(|(_, uuid)| uuid);
        let (in_group, first) = geometry.split_disk_addr(at)?;
        let is_aligned = geometry.ag_block_disk_addr(in_group, first) == at;
        if in_group != group || !is_aligned {
            return None;
        }
        let end = occupied::next_after(evidence, group, first)?;
        let length_blocks = end.0.checked_sub(first.0)?;
        let bytes = u64::from(length_blocks) << geometry.block_log;
        (bytes <= MOST_LOG_BYTES).then_some(LogPlace { group, start: first, length_blocks, uuid })
    })
}

/// Reads a range of blocks of a group, and looks for headers of log records. Returns the starts of
/// the log that these headers imply, by disk address.
fn starts_in(
    evidence: &Evidence<'_>,
    group: AgNumber,
    first: AgBlock,
    length_blocks: u32,
) -> BTreeMap<DiskAddr, Start> {
    let geometry = evidence.geometry();
    let device = evidence.device();
    let mut starts: BTreeMap<DiskAddr, Start> = BTreeMap::new();
    let begin = geometry.ag_block_disk_addr(group, first).byte_offset().unwrap_or(u64::MAX);
    let length_bytes = u64::from(length_blocks) << geometry.block_log;
    let end = begin.saturating_add(length_bytes).min(device.length_bytes());
    let mut buffer = vec![0; READ_BYTES];
    let mut at = begin;
    while at < end {
        let count = usize::try_from(end - at).map_or(READ_BYTES, |left| left.min(READ_BYTES));
        let piece = buffer.get_mut(..count).expect("a piece is no longer than the buffer");
        read_around(device, at, piece);
        let step = BASIC_BLOCK_BYTES as usize;
        for (block, place) in piece.chunks_exact(step).zip((at / step as u64)..) {
            if !LogRecordHeader::is_here(block) {
                continue;
            }
            let Some((start, lsn, uuid)) = start_of(block, DiskAddr(place)) else { continue };
            if starts.len() >= MOST_STARTS && !starts.contains_key(&start) {
                continue;
            }
            let known = starts.entry(start).or_default();
            known.headers += 1;
            known.newest = known.newest.max(Some((lsn, uuid)));
        }
        at += count as u64;
    }
    starts
}

/// Returns the start of the log that the record header in `block`, read from `at`, implies. Also
/// returns the LSN and the UUID of the record.
fn start_of(block: &[u8], at: DiskAddr) -> Option<(DiskAddr, u64, Uuid)> {
    let header = LogRecordHeader::decode(block, StructureAddress::Disk(at)).ok()?;
    let is_own = header.lsn.cycle() == header.cycle && header.cycle != 0;
    let start = at.0.checked_sub(header.lsn.block().into()).filter(|_| is_own)?;
    Some((DiskAddr(start), header.lsn.0, header.uuid))
}
