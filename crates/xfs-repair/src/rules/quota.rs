//! Rules `quota` and `quota-inode`: repair dquots and quota inodes, and clear the flags of the
//! superblock which say that the counts of quota were checked.
//!
//! Owns: these flags, the limits in damaged dquots (`blocks`), and quota inodes whose own bytes or
//! whose maps are lost (`inode`, `search`). Does **not** own: counts. A kernel writes all counts of
//! a type again at the first mount with quota after the flag of the type was cleared. A repair
//! changes files without counting, so every repair clears the flags.

mod blocks;
mod inode;
mod search;
mod text;

use std::collections::BTreeSet;

use xfs_check::{Area, Code, Finding, Place};
use xfs_format::dquot::{QuotaFlags, QuotaKind};
use xfs_format::{AgNumber, IncompatFeatures, InodeNumber};

use super::superblock;
use crate::action::Action;
use crate::damage::Damage;
use crate::error::RepairError;
use crate::metadata::{MetadirFiles, MetadirKind};
use crate::patient::Patient;

pub(super) use inode::{LostInode, lost_kind, remake};
pub(super) use search::{find, loose_kinds};

/// The name of the rule about dquots and flags in plans and messages.
const RULE: &str = "quota";

/// The name of the rule about quota inodes in plans and messages.
const INODE_RULE: &str = "quota-inode";

/// Repairs damaged dquots, and clears the flags for checked quota counts. Does nothing unless a
/// dquot is damaged or the rules of this round have changed anything (`is_changed`). A block in
/// which all dquots are lost may have to wait until the owners of all other blocks are known.
///
/// # Errors
///
/// The error of the overlay.
pub(crate) fn run(
    patient: &mut Patient,
    damage: &Damage,
    is_changed: bool,
) -> Result<(), RepairError> {
    let findings = damage.inodes.values().flatten();
    let codes: BTreeSet<Code> = findings.map(|finding| finding.code).filter(is_quota).collect();
    let is_waiting = patient.allows_loss() && !patient.withheld().is_empty();
    if !is_changed && !is_waiting && codes.is_empty() {
        return Ok(());
    }
    let settled = blocks::run(patient, damage)?;
    // A dquot that stays damaged is reported only while its type counts as checked.
    let is_wrong = codes.iter().any(|code| *code != Code::QuotaDquot);
    if !is_changed && !is_wrong && !settled.is_changed && !is_waiting {
        return Ok(());
    }
    let mut superblock = patient.superblock().clone();
    let flags = QuotaFlags::from_bits_retain(superblock.quota_flags);
    withhold(patient, flags, settled.left);
    if !flags.intersects(QuotaFlags::CHECKED) {
        return Ok(());
    }
    superblock.quota_flags = flags.difference(QuotaFlags::CHECKED).bits();
    patient.set_superblock(superblock.clone());
    superblock::write(patient, AgNumber(0), &superblock)?;
    let keeps = "the dquots; the next mount with quota counts again";
    let place = Place::of_group(AgNumber(0));
    patient.act(Action::new(RULE, place, codes.into_iter().collect(), keeps));
    Ok(())
}

/// Adds damaged dquots to the findings that are left, because the check takes them for harmless
/// once the flags are cleared: the next mount with quota would replace their limits by none. Dquots
/// of a type that did not count as checked before the repair have no such finding.
fn withhold(patient: &mut Patient, flags: QuotaFlags, left: Vec<(QuotaKind, Finding)>) {
    let version = patient.geometry().version;
    let known: Vec<Place> = patient.withheld().iter().map(|finding| finding.place).collect();
    let is_reported = |(kind, finding): &(QuotaKind, Finding)| {
        flags.contains(kind.checked_flag(version)) || known.contains(&finding.place)
    };
    let withheld = left.into_iter().filter(is_reported).map(|(_, finding)| finding).collect();
    patient.withhold(withheld);
}

/// Returns the quota inodes that the superblock or the metadata directory names, in the order of
/// types.
fn inodes(patient: &Patient) -> Vec<(QuotaKind, InodeNumber)> {
    let superblock = patient.superblock();
    if !superblock.has_incompat(IncompatFeatures::METADIR) {
        let places = QuotaKind::ALL.into_iter().zip(superblock.quota_inodes);
        let set = places.filter_map(|(kind, inode)| Some((kind, inode?)));
        return set.filter(|(_, inode)| inode.0 != 0 && !inode.is_null()).collect();
    }
    let files = MetadirFiles::find(&patient.evidence());
    let named = QuotaKind::ALL.into_iter().map(|kind| (kind, files.inode(0, file_of(kind))));
    named.filter_map(|(kind, inode)| Some((kind, inode?))).collect()
}

/// Returns the type of the dquots that an inode holds according to the superblock or the metadata
/// directory.
pub(super) fn kind_of(patient: &Patient, inode: InodeNumber) -> Option<QuotaKind> {
    let named = inodes(patient).into_iter();
    named.into_iter().find(|(_, number)| *number == inode).map(|(kind, _)| kind)
}

/// Returns the kind of file of the metadata directory that holds the dquots of a type.
pub(super) const fn file_of(kind: QuotaKind) -> MetadirKind {
    match kind {
        QuotaKind::User => MetadirKind::UserQuota,
        QuotaKind::Group => MetadirKind::GroupQuota,
        QuotaKind::Project => MetadirKind::ProjectQuota,
    }
}

fn is_quota(code: &Code) -> bool {
    code.area() == Area::Quota
}
