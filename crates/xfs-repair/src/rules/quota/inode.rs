//! Destroyed quota inodes that the superblock names, or of which only dquots are left.
//!
//! Owns: which lost inode was a quota inode, and its new inode. Does **not** own: quota inodes of a
//! metadata directory, which have names (rule `metadata-inode`).
//!
//! No field of a quota inode is the user's. So nothing is lost with it if all its blocks are found.

use std::collections::BTreeSet;

use xfs_check::{Code, Place};
use xfs_format::dquot::QuotaKind;
use xfs_format::inode::{FileType, ForkKind};
use xfs_format::{IncompatFeatures, InodeNumber};

use super::{INODE_RULE, search};
use crate::action::Action;
use crate::error::RepairError;
use crate::fork::ForkContents;
use crate::patient::Patient;
use crate::rules::{fork, inode, superblock};

/// The number of extents of a lost inode whose first block is examined.
const MOST_EXTENTS: usize = 16;

/// A destroyed inode without a readable core.
pub(in crate::rules) struct LostInode<'a> {
    /// The number of the inode.
    pub(in crate::rules) number: InodeNumber,
    /// Whether no name leads to the inode, and no lost directory can have one.
    pub(in crate::rules) is_nameless: bool,
    /// The types of the dquots in blocks without an owner.
    pub(in crate::rules) loose: &'a BTreeSet<QuotaKind>,
}

/// Returns the type of the dquots that a destroyed inode held. The superblock names the inode, or
/// its blocks in the reverse map hold dquots. Without these, an inode to which no name leads is the
/// one that a type lacks whose dquots lie in blocks without an owner.
pub(in crate::rules) fn lost_kind(patient: &Patient, lost: &LostInode<'_>) -> Option<QuotaKind> {
    let superblock = patient.superblock();
    if let Some(kind) = super::kind_of(patient, lost.number) {
        return Some(kind);
    }
    if superblock.has_incompat(IncompatFeatures::METADIR) || !lost.is_nameless {
        return None;
    }
    let places = QuotaKind::ALL.into_iter().zip(superblock.quota_inodes);
    let free: Vec<QuotaKind> =
        places.filter(|(_, inode)| inode.is_none()).map(|(kind, _)| kind).collect();
    let data = patient.mapped().fork(lost.number, ForkKind::Data);
    let evidence = patient.evidence();
    let mut blocks = data.iter().take(MOST_EXTENTS);
    let by_map = blocks.find_map(|extent| evidence.dquot_block(extent.start));
    match by_map {
        Some(found) => Some(found.kind).filter(|kind| free.contains(kind)),
        None if data.is_empty() => free.into_iter().find(|kind| lost.loose.contains(kind)),
        None => None,
    }
}

/// Makes a destroyed quota inode again, with all blocks that are found. Does nothing if blocks may
/// be missing and losses are not allowed.
///
/// # Errors
///
/// The error of the overlay. [`RepairError::NoSpace`] if a btree of extents needs more blocks than
/// are free.
pub(in crate::rules) fn remake(
    patient: &mut Patient,
    number: InodeNumber,
    kind: QuotaKind,
    codes: Vec<Code>,
) -> Result<(), RepairError> {
    let found = search::find(patient, number, kind)?;
    // I2 of `search`: without it, limits may be missing.
    if !found.is_whole && !patient.allows_loss() {
        return Ok(());
    }
    let mut core = inode::new_core(patient, number, 1, FileType::Regular);
    // No user has rights to a quota inode.
    core.mode = FileType::Regular.mode_bits();
    if !fork::fits_count(&core, ForkKind::Data, found.extents.len()) {
        return Ok(());
    }
    patient.keep_extents(&found.extents)?;
    patient.make_inode(&core)?;
    patient.set_fork(number, ForkKind::Data, ForkContents::Extents(found.extents.clone()))?;
    for extent in &found.unexplained {
        patient.mark_group_of(extent.start);
    }
    let place = Place::of_inode(number, patient.geometry());
    let blocks: u64 = found.extents.iter().map(|extent| u64::from(extent.length_blocks)).sum();
    let keeps = format!("{blocks} blocks of {} dquots", kind.name());
    let action = Action::new(INODE_RULE, place, codes, keeps);
    patient.act(match found.is_whole {
        true => action,
        false => action
            .losing(Some(number), found.loss())
            .losing_extents(patient.geometry(), &found.unexplained),
    });
    // The next lost inode must not become the quota inode of the same type.
    if super::kind_of(patient, number).is_none() {
        superblock::adopt_quota_inodes(patient, &[number])?;
    }
    Ok(())
}
