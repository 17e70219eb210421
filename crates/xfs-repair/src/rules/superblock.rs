//! Rule `superblock`: repairs the superblock and its copies.
//!
//! Owns: the sectors of the superblock and of its copies. Does **not** own: which superblock is
//! right. The caller of the rehearsal has decided that.

use xfs_check::{Code, Place};
use xfs_evidence::InodeState;
use xfs_format::dquot::QuotaKind;
use xfs_format::features::VersionFlags;
use xfs_format::inode::{FileType, InodeFlags2};
use xfs_format::{
    AgNumber, BlockKind, IncompatFeatures, InodeNumber, LogIncompatFeatures, StructureAddress,
    Superblock,
};

use crate::action::Action;
use crate::damage::Damage;
use crate::error::RepairError;
use crate::model::holds_something;
use crate::patient::Patient;

/// The name of this rule in plans and messages.
const RULE: &str = "superblock";

/// Writes the superblock if its sector does not hold a valid superblock, or if the checker has
/// findings about it. Writes each copy that has a finding.
///
/// # Errors
///
/// The error of the overlay, in which a repair collects its writes.
pub(crate) fn run(patient: &mut Patient, damage: &Damage) -> Result<(), RepairError> {
    let mut superblock = patient.superblock().clone();
    let is_marked = superblock.has_incompat(IncompatFeatures::NEEDSREPAIR);
    if is_marked {
        superblock.incompat.remove(IncompatFeatures::NEEDSREPAIR);
        superblock.geometry.incompat.remove(IncompatFeatures::NEEDSREPAIR);
    }
    let wrong_codes = drop_wrong_inodes(patient, damage, &mut superblock);
    let mut superblock = with_realtime_inodes(patient, superblock);
    let stated_root = superblock.metadata_directory_inode;
    superblock.metadata_directory_inode = metadata_root(patient, &superblock);
    if superblock.metadata_directory_inode != stated_root {
        patient.set_superblock(superblock.clone());
        write(patient, AgNumber(0), &superblock)?;
        let keeps = "all fields but the root of the metadata directory, which follows the root";
        patient.act(Action::new(RULE, Place::default(), vec![Code::MetaRoot], keeps));
    }
    let quota_codes = add_quota_inodes(patient, damage, &mut superblock);
    patient.set_superblock(superblock.clone());
    let is_first = |code: &Code| matches!(code, Code::SbUnused | Code::SbField | Code::SbLsn);
    let first: Vec<Code> =
        damage.codes_of_group(AgNumber(0)).into_iter().filter(is_first).collect();
    if !first.is_empty() {
        clear_unused(&mut superblock);
        patient.set_superblock(superblock.clone());
    }
    if !quota_codes.is_empty() {
        write(patient, AgNumber(0), &superblock)?;
        patient.act(Action::new(RULE, Place::of_group(AgNumber(0)), quota_codes, QUOTA_KEPT));
    }
    let has_findings = !first.is_empty() || !wrong_codes.is_empty();
    if is_marked || has_findings || !holds(patient, AgNumber(0)) {
        write(patient, AgNumber(0), &superblock)?;
        let mut codes: Vec<Code> = damage.volume.iter().map(|finding| finding.code).collect();
        codes.extend(first.into_iter().chain(wrong_codes));
        let keeps = "all fields of the superblock, from its sector or its copies";
        patient.act(Action::new(RULE, Place::of_group(AgNumber(0)), codes, keeps));
    }
    let is_copy = |code: &Code| matches!(code, Code::SbCopy | Code::SbCopyDamaged | Code::SbUnused);
    let copies: Vec<AgNumber> = damage.groups.keys().copied().filter(|group| group.0 > 0).collect();
    for group in copies {
        let codes: Vec<Code> = damage.codes_of_group(group).into_iter().filter(is_copy).collect();
        if codes.is_empty() {
            continue;
        }
        let copy = copy_of(&superblock);
        write(patient, group, &copy)?;
        let keeps = "nothing of the copy; it is written from the superblock";
        patient.act(Action::new(RULE, Place::of_group(group), codes, keeps));
    }
    Ok(())
}

/// Clears the fields that have no meaning on this volume: flags that are set only while mkfs makes
/// a volume, or that are unknown, and the sizes of a realtime device if the volume has none.
const fn clear_unused(superblock: &mut Superblock) {
    superblock.in_progress = false;
    superblock.quota_flags &= KNOWN_QUOTA_FLAGS;
    if superblock.realtime_blocks == 0 {
        superblock.realtime_extents = 0;
        superblock.realtime_bitmap_blocks = 0;
        superblock.free_realtime_extents = 0;
    }
}

/// The flags for the state of quota that a volume of version 5 may have.
const KNOWN_QUOTA_FLAGS: u16 = 0x7cf;

/// Takes the numbers of realtime and quota inodes out of the superblock at which no inode is in
/// use. Numbers of realtime inodes where mkfs makes them stay: the inodes are lost, and are made
/// again. Returns the codes of the findings about these numbers.
fn drop_wrong_inodes(
    patient: &mut Patient,
    damage: &Damage,
    superblock: &mut Superblock,
) -> Vec<Code> {
    // A metadata directory has the names of these inodes.
    if superblock.has_incompat(IncompatFeatures::METADIR) {
        return Vec::new();
    }
    let mut is_wrong = |number: InodeNumber| {
        damage.codes_of(number).contains(&Code::DirTarget)
            && (!patient.has_inode(number)
                || matches!(patient.evidence().inode(number).state,
                    // An inode that holds something has lost its mode only.
                    InodeState::Free(core) if !holds_something(&core)))
    };
    let mut codes = Vec::new();
    let root = superblock.root_inode.0;
    let places = [&mut superblock.realtime_bitmap_inode, &mut superblock.realtime_summary_inode];
    for (place, after_root) in places.into_iter().zip(1..) {
        if place.0 != root.saturating_add(after_root) && is_wrong(*place) {
            *place = InodeNumber(0);
            codes.push(Code::DirTarget);
        }
    }
    for (kind, place) in QuotaKind::ALL.into_iter().zip(&mut superblock.quota_inodes) {
        if place.is_some_and(&mut is_wrong) {
            *place = None;
            // The next mount with quota makes a new inode, and counts.
            superblock.quota_flags &= !kind.checked_flag(superblock.geometry.version).bits();
            codes.push(Code::DirTarget);
        }
    }
    codes.dedup();
    codes
}

/// Returns the superblock with the numbers of the realtime bitmap and summary inodes filled in,
/// where it has none: mkfs.xfs leaves them out of the copies. These are the two inodes after the
/// root inode, provided that each of the two either cannot be read or is a regular file with one
/// link and no permissions.
fn with_realtime_inodes(patient: &Patient, mut superblock: Superblock) -> Superblock {
    // A metadata directory has the names of these inodes.
    if superblock.has_incompat(IncompatFeatures::METADIR) {
        return superblock;
    }
    let is_set = |inode: InodeNumber| inode.0 != 0 && !inode.is_null();
    let evidence = patient.evidence();
    let find = |offset: u64| {
        let number = InodeNumber(superblock.root_inode.0.checked_add(offset)?);
        let is_right = match evidence.inode(number).state {
            InodeState::Sound(core) => {
                core.mode == FileType::Regular.mode_bits() && core.nlink == 1
            }
            // The inode is lost like the superblock itself, and is made again.
            InodeState::Gone(_) => true,
            InodeState::Doubtful(..) | InodeState::Free(_) => false,
        };
        is_right.then_some(number)
    };
    if let (Some(bitmap), Some(summary)) = (find(1), find(2)) {
        if !is_set(superblock.realtime_bitmap_inode) {
            superblock.realtime_bitmap_inode = bitmap;
        }
        if !is_set(superblock.realtime_summary_inode) {
            superblock.realtime_summary_inode = summary;
        }
    }
    superblock
}

/// Returns the root of the metadata directory: the inode that the superblock names, or the one
/// after the root inode, where mkfs.xfs makes it. The second one is taken only if it is a directory
/// of the tree and its own parent, and the first one is not.
fn metadata_root(patient: &Patient, superblock: &Superblock) -> Option<InodeNumber> {
    let stated = superblock.metadata_directory_inode?;
    let evidence = patient.evidence();
    let is_root = |number: InodeNumber| {
        let inode = evidence.inode(number);
        let is_metadata_directory = inode.core().is_some_and(|core| {
            core.file_type() == Some(FileType::Directory)
                && core.flags2.contains(InodeFlags2::METADATA)
        });
        is_metadata_directory && evidence.entries(&inode).parent == Some(number)
    };
    let usual = InodeNumber(superblock.root_inode.0.checked_add(1)?);
    let is_lost = !is_root(stated) && is_root(usual);
    Some(if is_lost { usual } else { stated })
}

/// Adds to the superblock the quota inodes that it has lost. Looks for them among the inodes with a
/// wrong link count, as the check found it: a quota inode has one link and no name. Returns the
/// codes of the findings about the inodes that were added.
fn add_quota_inodes(patient: &Patient, damage: &Damage, superblock: &mut Superblock) -> Vec<Code> {
    let mut codes = Vec::new();
    for (number, findings) in &damage.inodes {
        let is_nameless = findings.iter().any(|finding| finding.code == Code::InodeLinks);
        if is_nameless && add_quota_inode(patient, *number, superblock) {
            codes.push(Code::InodeLinks);
        }
    }
    codes
}

/// Adds an inode without a name to the superblock as a quota inode, if it holds dquots of a type
/// for which the superblock has no inode. The flags then say that this type is accounted and not
/// checked. Returns whether the inode was added. Does nothing on a volume with a metadata
/// directory, where quota inodes have names.
fn add_quota_inode(patient: &Patient, number: InodeNumber, superblock: &mut Superblock) -> bool {
    if superblock.has_incompat(IncompatFeatures::METADIR) {
        return false;
    }
    let evidence = patient.evidence();
    let Some(kind) = evidence.quota_kind(&evidence.inode(number)) else { return false };
    let mut places = QuotaKind::ALL.into_iter().zip(&mut superblock.quota_inodes);
    let Some((_, place)) = places.find(|(of, place)| *of == kind && place.is_none()) else {
        return false;
    };
    *place = Some(number);
    superblock.quota_flags |= kind.accounted_flag().bits();
    superblock.version_flags |= VersionFlags::QUOTA;
    true
}

/// Returns whether the superblock of a volume without a metadata directory has no quota inode of
/// some type.
pub(super) fn lacks_quota_inode(superblock: &Superblock) -> bool {
    !superblock.has_incompat(IncompatFeatures::METADIR)
        && superblock.quota_inodes.iter().any(Option::is_none)
}

/// Adds to the superblock the quota inodes among `nameless`, the inodes without a name. Otherwise
/// they would go to `lost+found`. This step is needed if the root directory is lost: the check then
/// does not report their link counts. Returns whether any was added.
///
/// # Errors
///
/// The error of the overlay, in which a repair collects its writes.
pub(super) fn adopt_quota_inodes(
    patient: &mut Patient,
    nameless: &[InodeNumber],
) -> Result<bool, RepairError> {
    let mut superblock = patient.superblock().clone();
    let mut is_changed = false;
    for number in nameless {
        is_changed |= add_quota_inode(patient, *number, &mut superblock);
    }
    if is_changed {
        patient.set_superblock(superblock.clone());
        write(patient, AgNumber(0), &superblock)?;
        let place = Place::of_group(AgNumber(0));
        patient.act(Action::new(RULE, place, vec![Code::InodeLinks], QUOTA_KEPT));
    }
    Ok(is_changed)
}

/// The description of the superblock that gets its quota inodes back.
const QUOTA_KEPT: &str =
    "the quota inodes, by their dquots; the next mount with quota counts again";

/// Returns whether the first sector of a group holds a superblock that passes its checks and equals
/// the superblock of the repaired volume, except for the counters.
fn holds(patient: &Patient, group: AgNumber) -> bool {
    let geometry = patient.geometry();
    let at = geometry.header_disk_addr(group, 0);
    let mut sector = vec![0; geometry.sector_size as usize];
    patient.can_read(at, &mut sector)
        && BlockKind::Superblock.verify(&sector, at, &patient.context()).is_ok()
        && Superblock::decode(&sector, StructureAddress::Disk(at))
            .is_ok_and(|found| is_same(&found, patient.superblock()))
}

/// Returns whether two superblocks are equal except for their counters, which rule `counters`
/// writes.
fn is_same(found: &Superblock, right: &Superblock) -> bool {
    let counters = Superblock {
        inode_count: right.inode_count,
        free_inodes: right.free_inodes,
        free_blocks: right.free_blocks,
        free_realtime_extents: right.free_realtime_extents,
        lsn: right.lsn,
        ..found.clone()
    };
    counters == *right
}

/// Returns the superblock as a copy holds it: without quota, as mkfs.xfs makes it, and with the
/// flag "in progress", which mkfs.xfs sets in copies and no program clears. xfs_repair reports
/// quota inodes in a copy as damage.
fn copy_of(superblock: &Superblock) -> Superblock {
    Superblock {
        in_progress: true,
        quota_inodes: [None; 3],
        quota_flags: 0,
        log_incompat: LogIncompatFeatures::empty(),
        ..superblock.clone()
    }
}

/// Writes a superblock into the first sector of a group.
///
/// # Errors
///
/// The error of the overlay, in which a repair collects its writes.
pub(super) fn write(
    patient: &mut Patient,
    group: AgNumber,
    superblock: &Superblock,
) -> Result<(), RepairError> {
    let geometry = patient.geometry();
    let at = geometry.header_disk_addr(group, 0);
    let mut sector = vec![0; geometry.sector_size as usize];
    superblock.encode(&mut sector);
    let is_late = patient.log_head().is_some_and(|head| superblock.lsn > head);
    BlockKind::Superblock.seal(&mut sector, if is_late { patient.lsn() } else { superblock.lsn });
    patient.write(at, &sector)
}

#[cfg(test)]
mod tests;
