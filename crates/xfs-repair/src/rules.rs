//! The rules: each rewrites one kind of object, from what else the volume says about it.
//!
//! Owns: the order of the rules. The order follows the dependencies: geometry, chunks, inodes, forks,
//! contents of directories and attributes, names and links, and space last, because new blocks are
//! taken by the claims of all owners.

mod attributes;
mod directory;
mod facts;
mod links;
mod names;
mod orphans;
mod pieces;
mod resolve;

use crate::damage::Damage;
use crate::error::RepairError;
use crate::patient::Patient;

/// Applies the rules to the damage of a round. Returns whether something was changed.
///
/// # Errors
///
/// The first error of a rule.
pub(crate) fn run(patient: &mut Patient, damage: &Damage) -> Result<bool, RepairError> {
    let before = patient.count_actions();
    names::run(patient, damage)?;
    Ok(patient.count_actions() != before)
}
