//! The rounds of a rehearsal (a repair in an overlay): check the volume, apply the rules, check
//! again.
//!
//! Owns: the loop over the rounds, the decision to end it, and the choice of the best round. Does
//! **not** own: rules, taking rounds back (`planning`), or the writes of an apply.

use std::collections::{BTreeMap, BTreeSet};

use xfs_check::{
    CheckOptions, CheckedDevices, Code, Finding, Place, Progress, Report, check, check_devices,
};
use xfs_device::SharedDevice;
use xfs_format::Superblock;

use crate::action::Action;
use crate::error::RepairError;
use crate::joined::JoinedParts;
use crate::options::RehearsalOptions;
use crate::patient::Patient;
use crate::rules;

/// The result of a repair in an overlay.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rehearsed {
    /// The changes, in the order in which they were made.
    pub actions: Vec<Action>,
    /// The superblock as the repaired volume has it.
    pub superblock: Superblock,
    /// The report of the last check: the findings that are left.
    pub report: Report,
    /// The number of findings more severe than `preen` before the first change.
    pub findings: u64,
    /// The number of rounds that changed something.
    pub rounds: u32,
    /// The number of rounds after which the volume was best. If it is less than `rounds`, later
    /// rounds made the volume worse or no better.
    pub best: u32,
}

/// Repairs the volume in `overlay`, round by round, until a check finds nothing more severe than
/// `preen` (the lowest level), or nothing changes any more.
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

/// Does the same as [`rehearse`], and also reports the progress of the checks to `progress`. If
/// `progress` requests a stop during a check, the report says that the check was stopped, and the
/// overlay must not be used.
///
/// # Errors
///
/// The errors of [`rehearse`], and [`RepairError::Stopped`] if `progress` requests a stop while the
/// rules run.
pub(crate) fn run(
    overlay: &SharedDevice,
    superblock: &Superblock,
    options: &RehearsalOptions,
    progress: &dyn Progress,
) -> Result<Rehearsed, RepairError> {
    let mut patient = Patient::new(overlay.clone(), superblock.clone(), options, progress);
    rules::run_first(&mut patient)?;
    let mut report = checked(&patient, progress)?;
    let damage = report.findings.iter().filter(|finding| finding.severity().is_damage());
    let (findings, mut rounds, mut best) = (damage.count() as u64, 0, 0);
    let before = Before::of(&report);
    let mut best_score = before.score(&report);
    let most = options.most_rounds.unwrap_or(MOST_ROUNDS);
    let mut earlier: Vec<Vec<Finding>> = Vec::new();
    while rounds < most && !report.is_stopped {
        let damage = rules::group_findings(&mut patient, &report)?;
        // Damage that a check does not report may have waited for other rules.
        let is_waiting = patient.allows_loss() && !patient.withheld().is_empty();
        if (damage.is_empty() && !is_waiting) || !rules::run(&mut patient, &damage)? {
            break;
        }
        rounds += 1;
        let next = checked(&patient, progress)?;
        let score = before.score(&next);
        if score < best_score {
            (best, best_score) = (rounds, score);
        }
        earlier.push(std::mem::replace(&mut report, next).findings);
        // The same findings as after an earlier round would give the same rounds again.
        if earlier.contains(&report.findings) {
            break;
        }
    }
    report.findings.extend_from_slice(patient.withheld());
    let superblock = patient.superblock().clone();
    Ok(Rehearsed { superblock, actions: patient.into_actions(), report, findings, rounds, best })
}

/// The greatest number of rounds. Usually three suffice: one for headers, one for inodes, and one
/// for names. More are needed for directories whose inodes come back from the log and whose blocks
/// are destroyed: each round finds only those blocks of a directory to which a restored block
/// already leads.
const MOST_ROUNDS: u32 = 32;

/// The damage before the first round.
struct Before {
    /// For each code and place, the number of findings. Findings that are only consequences of
    /// other findings are also counted.
    known: BTreeMap<(Code, Place), u64>,
    unchecked: BTreeSet<String>,
    /// The number of findings of damage, including those that the checker's report counts but does
    /// not list.
    count: u64,
    dropped: u64,
}

/// How damaged a volume is after a round. A lower score is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    /// Whether there is damage, or a part that cannot be checked, that was not there before the
    /// first round.
    is_worse: bool,
    /// The number of findings and of parts that cannot be checked.
    damage: u64,
}

impl Before {
    fn of(report: &Report) -> Self {
        let mut known = BTreeMap::new();
        for finding in report.findings.iter().chain(&report.consequences) {
            *known.entry((finding.code, finding.place)).or_default() += 1;
        }
        let unchecked = report.unchecked.iter().map(|part| part.what.clone()).collect();
        Self { known, unchecked, count: damage_of(report), dropped: report.dropped }
    }

    fn score(&self, after: &Report) -> Score {
        let count = damage_of(after);
        let damage = count + after.unchecked.len() as u64;
        // If findings were left out, it is unknown which ones are new: their number decides.
        if self.dropped > 0 || after.dropped > 0 {
            return Score { is_worse: count > self.count, damage };
        }
        let mut left: BTreeMap<(Code, Place), u64> = BTreeMap::new();
        for finding in after.findings.iter().filter(|finding| finding.severity().is_damage()) {
            *left.entry((finding.code, finding.place)).or_default() += 1;
        }
        let is_new =
            |(key, count): (_, &u64)| self.known.get(key).is_none_or(|before| before < count);
        let is_unknown = |what: &String| !self.unchecked.contains(what);
        let is_worse =
            left.iter().any(is_new) || after.unchecked.iter().any(|part| is_unknown(&part.what));
        Score { is_worse, damage }
    }
}

fn damage_of(report: &Report) -> u64 {
    let damage = report.findings.iter().filter(|finding| finding.severity().is_damage());
    damage.count() as u64 + report.dropped
}

/// The key of the checker's hash function. It is fixed, so that the same image always gives the
/// same plan.
const KEY: (u64, u64) = (0x6665_7272_6f78_6673, 0x7265_7061_6972_3031);

fn checked(patient: &Patient, progress: &dyn Progress) -> Result<Report, RepairError> {
    let (log_head, data_bytes) = (patient.log_head(), patient.data_bytes());
    let options = RehearsalOptions { log_head, data_bytes, ..RehearsalOptions::default() };
    check_device(&patient.shared_device(), patient.superblock(), &options, progress)
}

/// Checks a volume with the options of a rehearsal.
///
/// # Errors
///
/// [`RepairError::Unsupported`] if the volume has features that are not known.
pub(crate) fn check_device(
    device: &SharedDevice,
    superblock: &Superblock,
    options: &RehearsalOptions,
    progress: &dyn Progress,
) -> Result<Report, RepairError> {
    // One thread: where there are too many findings, those that are dropped depend on the threads.
    let mut check_options = CheckOptions::default().threads(1).key(KEY.0, KEY.1);
    if let Some(head) = options.log_head {
        check_options = check_options.log_head(head);
    }
    let Some(data_bytes) = options.data_bytes else {
        return Ok(check(&**device, superblock, &check_options, progress)?);
    };
    let JoinedParts { data, realtime } = JoinedParts::of(device, data_bytes);
    let devices = CheckedDevices { data: &data, realtime: Some(&realtime) };
    Ok(check_devices(devices, superblock, &check_options, progress)?)
}

#[cfg(test)]
mod tests;
