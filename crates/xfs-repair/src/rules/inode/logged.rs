//! Restores damaged inodes from copies that the log still has.
//!
//! Owns: writing such an inode. Does **not** own: reading the log, or the decision whether the log
//! has the complete inode (both in `xfs-evidence`).

use xfs_check::{Code, Place};
use xfs_evidence::{InodeEvidence, LoggedInode, MappedForks, RestoredInode};
use xfs_format::InodeNumber;
use xfs_format::extent::Extent;
use xfs_format::inode::{ForkFormat, ForkKind};

use super::{RULE, fields};
use crate::action::Action;
use crate::error::RepairError;
use crate::fork::ForkContents;
use crate::mapped::MappedExtents;
use crate::patient::Patient;
use crate::rules::fork::{fits_count, in_order};

impl MappedForks for MappedExtents {
    fn fork(&self, inode: InodeNumber, kind: ForkKind) -> Vec<Extent> {
        Self::fork(self, inode, kind)
    }

    fn is_whole(&self) -> bool {
        self.is_whole && self.knows_realtime
    }
}

/// Restores an inode from the log. Returns `false`, and changes nothing, if the log does not have
/// the newest core of the inode, or if the contents of one of its forks are known neither from the
/// log nor from other structures.
///
/// # Errors
///
/// The errors of [`Patient::set_fork`].
pub(super) fn restore(
    patient: &mut Patient,
    logged: &LoggedInode,
    found: &InodeEvidence,
    codes: &[Code],
) -> Result<bool, RepairError> {
    let restored = patient.evidence().restore_inode(logged, found, &*patient.mapped());
    let Some(RestoredInode { mut core, bytes, from_map, lacks_attributes: false }) = restored
    else {
        return Ok(false);
    };
    let fits = |(kind, extents): &(ForkKind, Vec<Extent>)| fits_count(&core, *kind, extents.len());
    if !from_map.iter().all(fits) {
        return Ok(false);
    }
    if from_map.is_empty() {
        if fields::passes(patient, found.number, &bytes).is_err() {
            return Ok(false);
        }
        patient.write_raw_inode(found.number, &bytes)?;
    } else {
        for (kind, _) in &from_map {
            match kind {
                ForkKind::Data => (core.data_format, core.extents) = (ForkFormat::Extents, 0),
                ForkKind::Attr => (core.attr_format, core.attr_extents) = (ForkFormat::Extents, 0),
            }
        }
        patient.write_inode(&core, &bytes)?;
        for (kind, extents) in from_map {
            let extents = ForkContents::Extents(in_order(extents));
            patient.set_fork(found.number, kind, extents)?;
        }
    }
    let place = Place::of_inode(found.number, patient.geometry());
    let keeps = "all fields: the log has the newest state of the inode";
    patient.act(Action::new(RULE, place, codes.to_vec(), keeps));
    Ok(true)
}
