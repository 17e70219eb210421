//! Planning: rounds of checking and repairing in an overlay, until nothing is left to repair.
//!
//! Owns: the order superblock, log, rounds; the end of the rounds; the plan and the overlay that
//! come out. Does **not** own: the rules (`rules`), or writes to the volume (`apply`).
//!
//! # Why the plan is deterministic
//!
//! The checker runs on one thread with a fixed hash key, and sorts its findings. The log is replayed
//! with a fixed time. Rules read the overlay and the sorted findings only. Nothing else is an input.

use std::fs::File;
use std::sync::Arc;

use xfs_check::{CheckOptions, Code, Place, Progress, Report};
use xfs_device::{BlockDevice, Durability, OverlayDevice, SharedDevice};
use xfs_format::{DiskAddr, Lsn, StructureAddress, Superblock};
use xfs_log::LogDevice;

use crate::action::{Action, Loss};
use crate::apply::set_needs_repair;
use crate::digest::Digest;
use crate::error::{RepairError, Result};
use crate::overlay::RepairOverlay;
use crate::plan::{ChangedRun, LeftFinding, LogOutcome, Plan, damage};
use crate::undo::{Identity, UndoFile, read_device};

/// The most rounds of checking and repairing.
const MOST_ROUNDS: u32 = 8;
/// The key of the checker's hash.
const CHECK_KEY: (u64, u64) = (0x6665_7272_6f78_6673, 2);
/// The usual bound of the memory of the overlay.
const MEMORY_BYTES: u64 = 256 << 20;

/// Replays a dirty log onto a device that keeps all writes in memory.
pub trait LogReplay {
    /// Replays the log and finishes open work, if the log is dirty. All writes go to `device`.
    ///
    /// # Errors
    ///
    /// The reason in words, if the log cannot be replayed.
    fn replay(&self, device: SharedDevice) -> std::result::Result<LogOutcome, String>;
}

/// Options of planning a repair.
pub struct PlanOptions<'a> {
    /// Whether rules that lose something may be used.
    pub allow_loss: bool,
    /// Replays the log.
    pub log: &'a dyn LogReplay,
    /// The bound of the memory of the overlay, in bytes.
    pub memory_bytes: u64,
    /// The file for writes of the overlay beyond the bound.
    pub spill: Option<File>,
}

impl<'a> PlanOptions<'a> {
    /// Returns the defaults: without loss, with 256 MiB of memory and no spill file.
    #[must_use]
    pub fn new(log: &'a dyn LogReplay) -> Self {
        Self { allow_loss: false, log, memory_bytes: MEMORY_BYTES, spill: None }
    }
}

/// The volume in a round, as the rules see it.
pub(crate) struct Round<'a> {
    /// The overlay: reads show the changes of the rounds before.
    pub(crate) device: SharedDevice,
    pub(crate) superblock: &'a Superblock,
    pub(crate) report: &'a Report,
    pub(crate) allow_loss: bool,
    /// The end of the log. No structure may have a newer LSN.
    pub(crate) log_head: Option<Lsn>,
}

/// The rules of a repair. A test has rules of its own.
pub(crate) trait Rules {
    /// Finds a superblock if the one in its place is damaged, and writes it there. Returns the
    /// superblock and the actions.
    fn superblock(&self, device: &SharedDevice) -> Result<(Superblock, Vec<Action>)>;

    /// Answers the findings of a round. Returns no action if nothing can be changed.
    fn run(&self, round: &Round<'_>) -> Result<Vec<Action>>;
}

/// A repair that was done in an overlay and checked there.
pub struct Rehearsal {
    plan: Plan,
    overlay: Arc<RepairOverlay>,
    superblock: Superblock,
    /// The byte of the log's head, if the log is in the volume.
    log_head_byte: Option<u64>,
}

impl Rehearsal {
    /// Returns the plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Writes the undo file of this repair to an empty file, and makes it durable. The caller makes
    /// the folder durable. Nothing is written to the volume.
    ///
    /// # Errors
    ///
    /// [`RepairError::UndoFile`] if the file cannot be written, and the errors of reading the
    /// volume.
    pub fn write_undo(&self, file: File) -> Result<UndoFile> {
        let identity = Identity {
            uuid: self.superblock.uuid,
            device_bytes: self.overlay.length_bytes(),
            superblock_bytes: self.superblock.geometry.sector_size,
            plan: Digest::of(self.plan.text().as_bytes()),
        };
        UndoFile::write(file, identity, &self.overlay, self.log_head_byte)
    }

    /// Hands each part that the repair gives up to `keep`, with the bytes of its ranges as they were
    /// before the repair.
    ///
    /// # Errors
    ///
    /// The errors of reading the volume, and those of `keep`.
    pub fn for_each_loss(
        &self,
        keep: &mut dyn FnMut(&Action, &Loss, &[Vec<u8>]) -> Result<()>,
    ) -> Result<()> {
        for action in &self.plan.actions {
            for loss in &action.loses {
                let mut contents = Vec::with_capacity(loss.ranges.len());
                for range in &loss.ranges {
                    let length = usize::try_from(range.end - range.start)
                        .expect("a loss is a part of a structure in memory");
                    let mut bytes = vec![0; length];
                    self.overlay.read_below(range.start, &mut bytes)?;
                    contents.push(bytes);
                }
                keep(action, loss, &contents)?;
            }
        }
        Ok(())
    }
}

/// Plans a repair and rehearses it. Nothing is written to `device`.
///
/// # Errors
///
/// See [`RepairError`]. Damage that no rule answers is no error; the plan lists it.
pub fn rehearse(
    device: SharedDevice,
    options: PlanOptions<'_>,
    progress: &dyn Progress,
) -> Result<Rehearsal> {
    rehearse_with(device, options, progress, &crate::rules::AllRules)
}

pub(crate) fn rehearse_with(
    device: SharedDevice,
    options: PlanOptions<'_>,
    progress: &dyn Progress,
    rules: &dyn Rules,
) -> Result<Rehearsal> {
    let PlanOptions { allow_loss, log, memory_bytes, spill } = options;
    let overlay = Arc::new(RepairOverlay::new(device, memory_bytes, spill));
    let shared: SharedDevice = overlay.clone();
    let (superblock, actions) = rules.superblock(&shared)?;
    if superblock.has_external_log() {
        let why = "volumes with an external log are not repaired yet";
        return Err(RepairError::Unsupported(why.to_owned()));
    }
    let rehearsing =
        Rehearsing { overlay, shared, rules, allow_loss, actions, rounds: 0, progress };
    let outcome = rehearsing.log(&superblock, log)?;
    let superblock = rehearsing.superblock(superblock)?;
    rehearsing.finish(superblock, outcome)
}

/// A rehearsal in progress.
struct Rehearsing<'a> {
    overlay: Arc<RepairOverlay>,
    /// The same overlay, as rules take it.
    shared: SharedDevice,
    rules: &'a dyn Rules,
    allow_loss: bool,
    actions: Vec<Action>,
    rounds: u32,
    progress: &'a dyn Progress,
}

impl Rehearsing<'_> {
    /// Replays a dirty log in the overlay. If work that a crash left open cannot be finished, the
    /// log is replayed without it: the damage that this work leaves is repaired like any other.
    fn log(&self, superblock: &Superblock, log: &dyn LogReplay) -> Result<LogOutcome> {
        let log_device = || {
            LogDevice::new(self.shared.clone(), superblock)
                .map_err(|error| RepairError::Log(error.to_string()))
        };
        let state = xfs_log::find_head_and_tail(&log_device()?)
            .map_err(|error| RepairError::Log(error.to_string()))?;
        if state.clean {
            return Ok(LogOutcome::Clean);
        }
        // A recovery that fails half way must leave no trace, so it runs in an overlay of its own.
        let most_bytes = xfs_log::MAX_REPLAY_BYTES;
        let trial = Arc::new(OverlayDevice::new(self.shared.clone(), most_bytes));
        if let Ok(outcome) = log.replay(trial.clone()) {
            let write_back = trial.write_back(&[]);
            write_back.map_err(RepairError::Spill)?;
            return Ok(outcome);
        }
        let log = log_device()?;
        let failed = |error: &dyn std::fmt::Display| RepairError::Log(error.to_string());
        let replayed = xfs_log::replay_all(self.shared.clone(), &log, superblock);
        let replayed = replayed.map_err(|error| failed(&error))?;
        replayed.write_back_without_work(&log).map_err(|error| failed(&error))?;
        Ok(LogOutcome::ReplayedInPart)
    }

    /// Reads the superblock again after the log was replayed.
    fn superblock(&self, before: Superblock) -> Result<Superblock> {
        let mut sector = vec![0; sector_bytes(&before)];
        read_device(&*self.shared, 0, &mut sector)?;
        Ok(Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).unwrap_or(before))
    }

    /// Checks and repairs until no damage is left, or nothing changes any more.
    fn finish(mut self, mut superblock: Superblock, log: LogOutcome) -> Result<Rehearsal> {
        let log_device = LogDevice::new(self.shared.clone(), &superblock)
            .map_err(|error| RepairError::Log(error.to_string()))?;
        let state = xfs_log::find_head_and_tail(&log_device)
            .map_err(|error| RepairError::Log(error.to_string()))?;
        let first = self.check(&superblock, state.head)?;
        let findings = damage(&first.findings).count() as u64;
        let mut report = first;
        while self.rounds < MOST_ROUNDS && !report.is_clean() {
            let round = Round {
                device: self.shared.clone(),
                superblock: &superblock,
                report: &report,
                allow_loss: self.allow_loss,
                log_head: Some(state.head),
            };
            let mut actions = match is_marked_only(&report) {
                true => vec![self.clear_needs_repair(&superblock)?],
                false => self.rules.run(&round)?,
            };
            if actions.is_empty() {
                break;
            }
            self.rounds += 1;
            self.actions.append(&mut actions);
            superblock = self.superblock(superblock)?;
            report = self.check(&superblock, state.head)?;
        }
        let log_head_byte = log_device
            .geometry()
            .start
            .byte_offset()
            .map(|start| start + u64::from(state.head.block()) * 512);
        let plan = self.plan(&superblock, &report, Before { log, findings })?;
        Ok(Rehearsal { plan, overlay: self.overlay, superblock, log_head_byte })
    }

    fn check(&self, superblock: &Superblock, log_head: Lsn) -> Result<Report> {
        let options =
            CheckOptions::default().threads(1).key(CHECK_KEY.0, CHECK_KEY.1).log_head(log_head);
        let report = xfs_check::check(&*self.shared, superblock, &options, self.progress)
            .map_err(|error| RepairError::Unsupported(error.to_string()))?;
        if report.is_stopped { Err(RepairError::Stopped) } else { Ok(report) }
    }

    /// Clears NEEDSREPAIR in the superblock of a volume that has no other damage.
    fn clear_needs_repair(&self, superblock: &Superblock) -> Result<Action> {
        let mut sector = vec![0; sector_bytes(superblock)];
        read_device(&*self.shared, 0, &mut sector)?;
        set_needs_repair(&mut sector, false)?;
        let length = sector.len() as u64;
        self.shared.write_at(0, &sector, Durability::Cached).map_err(|source| {
            RepairError::Device { operation: "write", offset: 0, length, source }
        })?;
        let keeps = "everything; the mark NEEDSREPAIR goes, because nothing is left to repair";
        let action = Action::new("superblock.needs-repair", Place::default(), keeps);
        Ok(action.codes([Code::SbNeedsRepair]))
    }

    /// Makes the plan from the overlay and the last report.
    fn plan(&mut self, superblock: &Superblock, report: &Report, before: Before) -> Result<Plan> {
        let unreadable = self.overlay.unreadable();
        let mut runs = Vec::new();
        if unreadable.is_empty() {
            let superblock_bytes = superblock.geometry.sector_size.into();
            self.overlay.for_each_change(superblock_bytes, &mut |change| {
                runs.push(ChangedRun {
                    offset: change.offset,
                    length: u32::try_from(change.old.len()).expect("a run has at most 64 KiB"),
                    before: Digest::of(change.old),
                    after: Digest::of(change.new),
                });
                Ok(())
            })?;
        }
        Ok(Plan {
            uuid: superblock.uuid,
            device_bytes: self.overlay.length_bytes(),
            allow_loss: self.allow_loss,
            log: before.log,
            findings: before.findings,
            rounds: self.rounds,
            actions: std::mem::take(&mut self.actions),
            runs,
            left: damage(&report.findings).map(LeftFinding::of).collect(),
            unchecked: report.unchecked.iter().map(|part| part.what.clone()).collect(),
            unreadable,
        })
    }
}

/// The state of the volume before the first round.
struct Before {
    log: LogOutcome,
    findings: u64,
}

/// Returns whether the mark NEEDSREPAIR is the only damage.
fn is_marked_only(report: &Report) -> bool {
    report.is_complete()
        && damage(&report.findings).all(|finding| finding.code == Code::SbNeedsRepair)
}

fn sector_bytes(superblock: &Superblock) -> usize {
    usize::try_from(superblock.geometry.sector_size).expect("a sector has at most 32 KiB")
}

#[cfg(test)]
mod tests;
