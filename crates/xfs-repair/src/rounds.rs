//! The rounds of a rehearsal: check, apply rules, check again.
//!
//! Owns: the loop and its end. Does **not** own: rules, or the writes of an apply.

use xfs_check::{CheckOptions, Progress, Report, check};
use xfs_device::{BlockDevice, SharedDevice};
use xfs_format::{Lsn, Superblock};

use crate::action::Action;
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
    /// The number of findings above `preen` before the first change.
    pub findings: u64,
    /// The number of rounds that changed something.
    pub rounds: u32,
}

/// Repairs the volume in `overlay`, round by round, until a check finds nothing above `preen` or
/// nothing changes any more.
///
/// # Errors
///
/// Returns an error if the overlay fails, or the volume has features that are not known. Damage
/// that cannot be repaired is not an error: it is in the report.
pub fn rehearse(
    overlay: &SharedDevice,
    superblock: &Superblock,
    options: &RehearsalOptions,
) -> Result<Rehearsed, RepairError> {
    run(overlay, superblock, options, &())
}

/// Works as [`rehearse`], and reports the progress of the checks. If `progress` asks for a stop,
/// the report says so, and the overlay is not to be used.
///
/// # Errors
///
/// The errors of [`rehearse`].
pub(crate) fn run(
    overlay: &SharedDevice,
    superblock: &Superblock,
    options: &RehearsalOptions,
    progress: &dyn Progress,
) -> Result<Rehearsed, RepairError> {
    let mut patient = Patient::new(overlay.clone(), superblock.clone(), options);
    rules::run_first(&mut patient)?;
    let mut report = checked(&patient, progress)?;
    let damage = report.findings.iter().filter(|finding| finding.severity().is_damage());
    let (findings, mut rounds) = (damage.count() as u64, 0);
    while rounds < MOST_ROUNDS && !report.is_stopped {
        let damage = rules::group_findings(&mut patient, &report);
        if damage.is_empty() || !rules::run(&mut patient, &damage)? {
            break;
        }
        rounds += 1;
        let next = checked(&patient, progress)?;
        let is_stuck = next.findings == report.findings;
        report = next;
        if is_stuck {
            break;
        }
    }
    let superblock = patient.superblock().clone();
    Ok(Rehearsed { superblock, actions: patient.into_actions(), report, findings, rounds })
}

/// The most rounds. Each round ends with a volume that is at least as sound as before, and three
/// are usual: headers, inodes, names.
const MOST_ROUNDS: u32 = 8;

/// The key of the checker's hashes, so that the same image always gives the same plan.
const KEY: (u64, u64) = (0x6665_7272_6f78_6673, 0x7265_7061_6972_3031);

fn checked(patient: &Patient, progress: &dyn Progress) -> Result<Report, RepairError> {
    let options = RehearsalOptions { log_head: patient.log_head(), allow_loss: false };
    check_device(patient.device(), patient.superblock(), &options, progress)
}

/// Checks a volume with the options of a rehearsal.
///
/// # Errors
///
/// [`RepairError::Unsupported`] if the volume has features that are not known.
pub(crate) fn check_device(
    device: &dyn BlockDevice,
    superblock: &Superblock,
    options: &RehearsalOptions,
    progress: &dyn Progress,
) -> Result<Report, RepairError> {
    // One thread: where there are too many findings, those that are dropped depend on the threads.
    let mut check_options = CheckOptions::default().threads(1).key(KEY.0, KEY.1);
    if let Some(head) = options.log_head {
        check_options = check_options.log_head(head);
    }
    Ok(check(device, superblock, &check_options, progress)?)
}
