//! The rounds of a rehearsal: check, apply rules, check again.
//!
//! Owns: the loop and its end. Does **not** own: rules, or the writes of an apply.

use xfs_check::{CheckOptions, Report, check};
use xfs_device::SharedDevice;
use xfs_format::{Lsn, Superblock};

use crate::action::Action;
use crate::damage::Damage;
use crate::error::RepairError;
use crate::patient::Patient;
use crate::rules;

/// Options of a rehearsal.
#[derive(Clone, Copy, Debug, Default)]
pub struct RehearsalOptions {
    /// The end of the log. `None` if the log could not be read.
    pub log_head: Option<Lsn>,
    /// Whether rules may lose contents.
    pub allow_loss: bool,
}

/// The result of a rehearsal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rehearsed {
    /// The changes, in order.
    pub actions: Vec<Action>,
    /// The superblock as the repaired volume has it.
    pub superblock: Superblock,
    /// The report of the last check: the findings that are left.
    pub report: Report,
}

/// Repairs the volume in `overlay`, round by round, until a check finds nothing above `preen` or
/// nothing changes any more.
///
/// # Errors
///
/// Returns an error if the overlay fails, or the volume has features that are not known. Damage that
/// cannot be repaired is not an error: it is in the report.
pub fn rehearse(
    overlay: &SharedDevice,
    superblock: &Superblock,
    options: &RehearsalOptions,
) -> Result<Rehearsed, RepairError> {
    let mut patient = Patient::new(overlay.clone(), superblock.clone(), options);
    rules::run_first(&mut patient)?;
    let mut report = checked(&patient)?;
    for _ in 0..MOST_ROUNDS {
        let damage = Damage::of(&report, |at| rules::owner_of_block(&patient, at));
        if damage.is_empty() || !rules::run(&mut patient, &damage)? {
            break;
        }
        let next = checked(&patient)?;
        let is_stuck = next.findings == report.findings;
        report = next;
        if is_stuck {
            break;
        }
    }
    Ok(Rehearsed {
        superblock: patient.superblock().clone(),
        actions: patient.into_actions(),
        report,
    })
}

/// The most rounds. Each round ends with a volume that is at least as sound as before, and three are
/// usual: headers, inodes, names.
const MOST_ROUNDS: u32 = 8;

/// The key of the checker's hashes, so that the same image always gives the same plan.
const KEY: (u64, u64) = (0x6665_7272_6f78_6673, 0x7265_7061_6972_3031);

fn checked(patient: &Patient) -> Result<Report, RepairError> {
    let mut options = CheckOptions::default().key(KEY.0, KEY.1);
    if let Some(head) = patient.log_head() {
        options = options.log_head(head);
    }
    Ok(check(patient.device(), patient.superblock(), &options, &())?)
}
