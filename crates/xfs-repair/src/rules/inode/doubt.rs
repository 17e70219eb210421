//! Doubtful fields: if the checksum of an inode is wrong, fields that pass their checks may still
//! be wrong.
//!
//! Owns: the values that such fields get, and the description of them in the plan. Does **not**
//! own: fields that fail a check (`fields`).
//!
//! A wrong checksum says that some bytes are wrong, and not which ones. Most values of owner,
//! permissions, times and size are possible, so no check notices them. Three rules keep a wrong
//! value from doing harm: no doubtful mode lets other users run a program with the rights of the
//! owner, no doubtful size cuts off contents, and no time is impossible. The plan says what may be
//! wrong.

use xfs_evidence::{Evidence, InodeEvidence};
use xfs_format::inode::{FileType, ForkFormat, ForkKind, InodeCore, verify_checksum};
use xfs_format::timestamp::Timestamp;

use super::Known;
use crate::error::RepairError;
use crate::patient::Patient;

/// The set-user-ID and set-group-ID bits of a mode.
const SET_ID: u16 = 0o6000;

/// The most seconds by which a time may be later than all times in sound inodes: a day. The
/// doubtful inode may be the one that was changed last.
const MOST_SECONDS_LATER: i64 = 24 * 60 * 60;

/// Changes those doubtful fields of a corrected inode in which a wrong value does harm. Returns the
/// text of the plan about doubtful fields: none if the checksum of the inode was right. `found` is
/// the inode before the correction.
///
/// # Errors
///
/// The error of the overlay.
pub(super) fn settle(
    patient: &mut Patient,
    known: &Known,
    found: &InodeEvidence,
) -> Result<String, RepairError> {
    if verify_checksum(&found.bytes).is_ok() {
        return Ok(String::new());
    }
    let evidence = patient.evidence();
    let inode = evidence.inode(found.number);
    let Some(core) = inode.any_core() else { return Ok(String::new()) };
    let mut text =
        "; owner, permissions, times and exact size may be wrong: the checksum was wrong"
            .to_owned();
    let mut changed = core.clone();
    if core.mode & SET_ID != 0 {
        changed.mode &= !SET_ID;
        text += "; the set-user-ID and set-group-ID bits go";
    }
    if let Some(size) = least_size(&evidence, &inode).filter(|size| *size > core.size) {
        changed.size = size;
        text +=
            &format!("; the size is {size}, the end of the last block, instead of {}", core.size);
    }
    // The access time of the realtime bitmap is a counter of the allocator, not a time.
    if found.number != patient.superblock().realtime_bitmap_inode
        && set_times(&mut changed, known.newest, parent_time(&evidence, known, found))
    {
        text += "; impossible times become those of the directory";
    }
    if changed != *core {
        let bytes = inode.bytes.clone();
        patient.write_inode(&changed, &bytes)?;
    }
    Ok(text)
}

/// Returns the size of a regular file whose last block has contents. `None` if the stored size may
/// be right, or if not all extents are known.
fn least_size(evidence: &Evidence<'_>, inode: &InodeEvidence) -> Option<u64> {
    let core = inode.core().filter(|core| core.file_type() == Some(FileType::Regular))?;
    if !matches!(core.data_format, ForkFormat::Extents | ForkFormat::Btree) {
        return None;
    }
    let map = evidence.extents(inode, ForkKind::Data);
    let is_known = map.is_whole() && map.missing.is_empty() && map.doubtful.is_empty();
    let written = map.extents.iter().filter(|extent| !extent.unwritten);
    let end = written.map(|extent| extent.end().0).max().filter(|_| is_known)?;
    let block_log = evidence.geometry().block_log;
    let start_of_last = end.checked_sub(1)?.checked_shl(block_log.into())?;
    (core.size <= start_of_last).then(|| end << block_log)
}

/// Returns the time of the directory that holds a name of the inode, or 1970 if the directory
/// cannot be read.
fn parent_time(evidence: &Evidence<'_>, known: &Known, found: &InodeEvidence) -> Timestamp {
    let directories = known.names(found.number).iter().map(|name| name.directory);
    let inodes = directories.map(|directory| evidence.inode(directory));
    let mut times =
        inodes.filter(InodeEvidence::is_sound).filter_map(|inode| Some(inode.core()?.modify_time));
    times.next().unwrap_or_default()
}

/// Sets to `time` each time of an inode that is before 1970 or too far after `newest`, the newest
/// time in any sound inode. Returns whether it changed any.
fn set_times(core: &mut InodeCore, newest: Timestamp, time: Timestamp) -> bool {
    let latest = newest.seconds().saturating_add(MOST_SECONDS_LATER);
    let mut is_set = false;
    let times =
        [&mut core.access_time, &mut core.modify_time, &mut core.change_time, &mut core.birth_time];
    for own in times.into_iter().filter(|own| own.seconds() < 0 || own.seconds() > latest) {
        *own = time;
        is_set = true;
    }
    is_set
}
