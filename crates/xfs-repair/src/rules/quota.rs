//! Rule `quota`: clears the flags of the superblock which say that the counts of quota were
//! checked.
//!
//! Owns: these flags. Does **not** own: the dquots. A kernel writes all dquots of a type again at
//! the first mount with quota after the flag of the type was cleared. A repair changes files
//! without counting, so every repair clears the flags.

use std::collections::BTreeSet;

use xfs_check::{Area, Code, Place};
use xfs_format::AgNumber;
use xfs_format::dquot::QuotaFlags;

use super::superblock;
use crate::action::Action;
use crate::damage::Damage;
use crate::error::RepairError;
use crate::patient::Patient;

/// The name of this rule in plans and messages.
const RULE: &str = "quota";

/// Clears the flags for checked quota counts if a dquot is damaged. Also clears them if the rules
/// of this round have changed anything (`is_changed`).
///
/// # Errors
///
/// The error of the overlay.
pub(crate) fn run(
    patient: &mut Patient,
    damage: &Damage,
    is_changed: bool,
) -> Result<(), RepairError> {
    let mut superblock = patient.superblock().clone();
    let flags = QuotaFlags::from_bits_retain(superblock.quota_flags);
    let findings = damage.inodes.values().flatten();
    let codes: BTreeSet<Code> = findings.map(|finding| finding.code).filter(is_quota).collect();
    let is_needed = is_changed || !codes.is_empty();
    if !is_needed || !flags.intersects(QuotaFlags::CHECKED) {
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

fn is_quota(code: &Code) -> bool {
    code.area() == Area::Quota
}
