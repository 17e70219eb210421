//! The newest superblock in the log of a volume that has no superblock left.
//!
//! Owns: the search for the logged superblock, and its comparison with the sizes that the headers
//! of groups state. Does **not** own: the place of the log.
//!
//! The kernel logs the whole superblock, most often when it unmounts the volume. The records stay
//! in the log until later ones overwrite them. Programs that do not use the log, such as
//! `xfs_admin`, may have changed the superblock since.
//!
//! No copy of the superblock has the state of quota. So a superblock from copies gets it from the
//! log, too.

use std::mem::offset_of;
use std::ops::ControlFlow;

use xfs_device::SharedDevice;
use xfs_format::features::{IncompatFeatures, VersionFlags};
use xfs_format::log_item::{CHUNK_BYTES, LoggedBuffer, LoggedItem};
use xfs_format::{DiskAddr, Lsn, SuperblockDisk};
use xfs_log::{LogDevice, LogEntry};
use zerocopy::FromBytes;

use super::{SuperblockEvidence, SuperblockSource, finish, take_quota};
use crate::log_runs::read_runs;

/// Number of chunks (of 128 bytes) at the start of a sector that hold all fields of a superblock.
const CHUNKS: usize = size_of::<SuperblockDisk>().div_ceil(CHUNK_BYTES);

/// The chunk of a superblock with the quota inodes and the state of quota.
const QUOTA_CHUNK: usize = offset_of!(SuperblockDisk, user_quota_inode) / CHUNK_BYTES;

const _: () =
    assert!(offset_of!(SuperblockDisk, project_quota_inode) + 8 <= (QUOTA_CHUNK + 1) * CHUNK_BYTES);

/// The newest logged chunks of the first group's superblock, each with the LSN of its record.
struct LoggedSuperblock {
    bytes: [u8; CHUNKS * CHUNK_BYTES],
    chunks: [Option<Lsn>; CHUNKS],
}

impl LoggedSuperblock {
    fn add(&mut self, item: &LoggedBuffer<'_>, lsn: Lsn) {
        if item.format.at != DiskAddr(0) || item.is_cancel() {
            return;
        }
        for piece in &item.pieces {
            let first = piece.offset_bytes / CHUNK_BYTES;
            for (index, bytes) in (first..).zip(piece.bytes.chunks(CHUNK_BYTES)) {
                let Some(known) = self.chunks.get_mut(index) else { break };
                let start = index * CHUNK_BYTES;
                let Some(target) = self.bytes.get_mut(start..start + bytes.len()) else { break };
                if known.is_none_or(|known| known <= lsn) {
                    target.copy_from_slice(bytes);
                    *known = Some(lsn);
                }
            }
        }
    }

    /// Returns the superblock if the log has all of its fields.
    fn whole(&self) -> Option<SuperblockDisk> {
        let is_whole = self.chunks.iter().all(Option::is_some);
        let disk = SuperblockDisk::read_from_prefix(&self.bytes).ok().filter(|_| is_whole);
        disk.map(|(disk, _)| disk)
    }
}

/// Replaces a superblock that was built from headers of groups by the newest one in the log, which
/// has all fields. A superblock from copies gets the state of quota that the log has, if the first
/// sector has not given it. Returns `found` itself if it has another source, or if the log has no
/// superblock with the same sizes, UUID and log. `device` is the device of the volume.
#[must_use]
pub fn complete_by_log(device: &SharedDevice, found: SuperblockEvidence) -> SuperblockEvidence {
    let is_usable = !found.superblock.has_external_log()
        && found.doubt.is_none_or(|doubt| !doubt.is_about_device());
    if !is_usable {
        return found;
    }
    let completed = match found.source {
        SuperblockSource::GroupHeaders => by_log(device, &found),
        SuperblockSource::Copies { .. } => quota_by_log(device, &found),
        _ => None,
    };
    completed.unwrap_or(found)
}

/// Adds the quota inodes and the state of quota that the log has to a superblock without quota
/// inodes. Returns `None` if the superblock has them, or the log has none.
fn quota_by_log(device: &SharedDevice, found: &SuperblockEvidence) -> Option<SuperblockEvidence> {
    let superblock = &found.superblock;
    let lacks_quota = superblock.quota_inodes.iter().all(Option::is_none);
    if !lacks_quota || superblock.has_incompat(IncompatFeatures::METADIR) {
        return None;
    }
    let logged = read(device, found)?;
    (*logged.chunks.get(QUOTA_CHUNK)?)?;
    let (raw, _) = SuperblockDisk::read_from_prefix(&logged.bytes).ok()?;
    let (mut disk, _) = SuperblockDisk::read_from_prefix(&found.sector).ok()?;
    take_quota(&**device, superblock, &raw, &mut disk);
    let completed = finish(disk, found.source)?;
    Some(SuperblockEvidence { doubt: found.doubt, ..completed })
}

/// Reads all chunks of superblocks in the log of a volume. Returns `None` if there is no log.
fn read(device: &SharedDevice, found: &SuperblockEvidence) -> Option<LoggedSuperblock> {
    let log = LogDevice::new(device.clone(), &found.superblock).ok()?;
    let mut logged = LoggedSuperblock { bytes: [0; CHUNKS * CHUNK_BYTES], chunks: [None; CHUNKS] };
    // The run of records up to the head does not matter: each record is newer than the one before.
    let _ = read_runs(&log, |entry| {
        if let LogEntry::Transaction(transaction) = entry {
            let items = transaction.items().into_iter().flatten();
            for item in items.map_while(Result::ok) {
                if let LoggedItem::Buffer(item) = item {
                    logged.add(&item, transaction.lsn());
                }
            }
        }
        ControlFlow::Continue(())
    });
    Some(logged)
}

fn by_log(device: &SharedDevice, found: &SuperblockEvidence) -> Option<SuperblockEvidence> {
    let mut disk = read(device, found)?.whole()?;
    disk.in_progress = 0;
    // Inodes can show that a later superblock has this flag.
    let shown = found.superblock.version_flags & VersionFlags::ATTR;
    disk.version = (disk.version.get() | shown.bits()).into();
    let whole = finish(disk, SuperblockSource::Log)?;
    is_same_volume(&whole, found).then_some(whole)
}

/// Returns whether two superblocks have the same sizes, UUID and log.
fn is_same_volume(logged: &SuperblockEvidence, found: &SuperblockEvidence) -> bool {
    let (logged, found) = (&logged.superblock, &found.superblock);
    let (one, other) = (&logged.geometry, &found.geometry);
    let sizes = |of: &xfs_format::Geometry| {
        (of.block_size, of.sector_size, of.inode_size, of.ag_blocks, of.ag_count, of.data_blocks)
    };
    sizes(one) == sizes(other)
        && one.meta_uuid == other.meta_uuid
        && logged.uuid == found.uuid
        && (logged.log_start, logged.log_blocks) == (found.log_start, found.log_blocks)
}
