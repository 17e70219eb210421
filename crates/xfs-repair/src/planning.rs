//! Planning: rounds of checking and repairing in an overlay, until nothing is left to repair.
//!
//! Owns: the order of the steps (superblock, log, rounds), and their results: the plan and the
//! overlay. Does **not** own: the rounds (`rounds`), the rules (`rules`), or writes to the volume
//! (`apply`).
//!
//! # Why the plan is deterministic
//!
//! The checker runs on one thread with a fixed hash key, and sorts its findings. The log is
//! replayed with a fixed time. Rules read the overlay and the sorted findings only. Nothing else is
//! an input.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::File;
use std::sync::Arc;

use xfs_check::{Code, Place, Progress, Report};
use xfs_device::{BlockDevice, Durability, SharedDevice};
use xfs_format::{AgNumber, DiskAddr, IncompatFeatures, StructureAddress, Superblock};
use xfs_log::LogDevice;

use crate::action::Action;
use crate::apply::set_needs_repair;
use crate::digest::Digest;
use crate::error::{RepairError, Result};
use crate::joined::{JoinedDevice, realtime_start};
use crate::log::SettleLog;
use crate::options::RehearsalOptions;
use crate::overlay::{RepairOverlay, SECTOR_BYTES};
use crate::plan::{ChangedRun, LeftFinding, LogOutcome, Plan, damage};
use crate::rounds::{self, Rehearsed};
use crate::rules;
use crate::undo::{Identity, UndoFile, read_device};

/// The sector of the AGF, counted from the first one of its group.
const AGF_SECTOR: u32 = 1;

/// The sector of the AGI, counted from the first one of its group.
const AGI_SECTOR: u32 = 2;

/// The default for the memory of the overlay, in bytes.
const MEMORY_BYTES: u64 = 256 << 20;

/// The caller's replay of a dirty log, onto a device that keeps all writes in memory.
pub trait LogReplay {
    /// If the log is dirty, replays it and finishes the operations that a crash left open. All
    /// writes go to `device`. Returns what was done with the log.
    ///
    /// # Errors
    ///
    /// The reason in words, if the log cannot be replayed.
    fn replay(&self, device: SharedDevice) -> std::result::Result<LogOutcome, String>;
}

/// Options for planning a repair.
pub struct PlanOptions<'a> {
    /// Whether rules that lose something may be used.
    pub allow_loss: bool,
    /// The caller's replay of the log, which is used if the log is dirty.
    pub log: &'a dyn LogReplay,
    /// The greatest number of bytes that the overlay keeps in memory.
    pub memory_bytes: u64,
    /// The file that takes the writes of the overlay beyond `memory_bytes`. With `None`, such
    /// writes fail.
    pub spill: Option<File>,
    /// The device of the realtime section, if the section has one of its own.
    pub realtime: Option<SharedDevice>,
}

impl<'a> PlanOptions<'a> {
    /// Returns the default options: losses are not allowed, the overlay has 256 MiB of memory, and
    /// there is no spill file.
    #[must_use]
    pub fn new(log: &'a dyn LogReplay) -> Self {
        Self { allow_loss: false, log, memory_bytes: MEMORY_BYTES, spill: None, realtime: None }
    }
}

/// The two steps of planning that make decisions: finding the superblock, and the rounds of
/// checking and repairing. Tests replace these steps by steps of their own.
pub(crate) trait Decide {
    /// Finds the superblock of the volume. If the first sector does not hold it, writes it there.
    /// Returns the superblock and the actions for the plan.
    fn superblock(&self, device: &SharedDevice) -> Result<(Superblock, Vec<Action>)>;

    /// Checks and repairs the volume in an overlay, until nothing changes any more.
    fn rounds(
        &self,
        device: &SharedDevice,
        superblock: &Superblock,
        options: &RehearsalOptions,
        progress: &dyn Progress,
    ) -> Result<Rehearsed>;
}

/// The implementation of `Decide` for real repairs, by the rules of this crate.
struct AllRules;

impl Decide for AllRules {
    fn superblock(&self, device: &SharedDevice) -> Result<(Superblock, Vec<Action>)> {
        rules::find_superblock(device)
    }

    fn rounds(
        &self,
        device: &SharedDevice,
        superblock: &Superblock,
        options: &RehearsalOptions,
        progress: &dyn Progress,
    ) -> Result<Rehearsed> {
        rounds::run(device, superblock, options, progress)
    }
}

/// The result of planning: a repair that was done in an overlay and checked there.
pub struct Rehearsal {
    pub(crate) plan: Plan,
    overlay: Arc<RepairOverlay>,
    superblock: Superblock,
    /// The byte offset on the volume of the head of the log. `None` if the log is not in the
    /// volume.
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
            leaves_damage: !self.plan.leaves_clean(),
        };
        UndoFile::write(file, identity, &self.overlay, &self.witnesses())
    }

    /// Returns the byte offsets of the sectors by which an apply recognises that another program
    /// has changed the volume since the plan was made. Every mount for writing changes the sector
    /// at the head of the log. Programs that do not use the log change the headers of a group
    /// together with its space and its inodes. So the headers of each group in which the repair
    /// changes something are among these sectors.
    fn witnesses(&self) -> BTreeSet<u64> {
        let geometry = &self.superblock.geometry;
        let mut witnesses: BTreeSet<u64> = self.log_head_byte.into_iter().collect();
        let group_bytes = u64::from(geometry.ag_blocks) << geometry.block_log;
        for run in &self.plan.runs {
            // A run that reaches into the next group changes the headers of that group.
            let group = u32::try_from(run.offset / group_bytes).unwrap_or(u32::MAX);
            if group < geometry.ag_count {
                let header = |sector| geometry.header_disk_addr(AgNumber(group), sector).0 * 512;
                witnesses.extend([header(AGF_SECTOR), header(AGI_SECTOR)]);
            }
        }
        witnesses
    }

    /// Calls `keep` with each range that the repair overwrites: its byte offset, and its bytes
    /// before the repair.
    ///
    /// # Errors
    ///
    /// The errors of reading the volume, and those of `keep`.
    pub fn for_each_old_run(&self, keep: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let superblock_bytes = self.superblock.geometry.sector_size.into();
        self.overlay
            .for_each_change(superblock_bytes, &mut |change| keep(change.offset, change.old))
    }

    /// Reads bytes of the volume as they were before the repair.
    ///
    /// # Errors
    ///
    /// The errors of reading the volume.
    pub fn read_before(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.overlay.read_below(offset, buffer)
    }
}

/// Plans a repair by doing it in an overlay over `device`. Nothing is written to `device`.
///
/// # Errors
///
/// See [`RepairError`]. Damage that no rule repairs is not an error; the plan lists it.
pub fn plan_repair(
    device: SharedDevice,
    options: PlanOptions<'_>,
    progress: &dyn Progress,
) -> Result<Rehearsal> {
    plan_with(device, options, progress, &AllRules)
}

pub(crate) fn plan_with(
    device: SharedDevice,
    options: PlanOptions<'_>,
    progress: &dyn Progress,
    decide: &dyn Decide,
) -> Result<Rehearsal> {
    let PlanOptions { allow_loss, log, memory_bytes, spill, realtime } = options;
    let mut data_bytes = None;
    let device = match realtime {
        Some(realtime) => {
            data_bytes = Some(device.length_bytes());
            Arc::new(JoinedDevice::new(device, realtime))
        }
        None => device,
    };
    let overlay = Arc::new(RepairOverlay::new(device, memory_bytes, spill));
    let pass = Pass { overlay: &overlay, log, allow_loss, data_bytes, progress };
    let back = match pass.run(decide, None)? {
        Passed::Done(rehearsal) => return Ok(*rehearsal),
        // The same steps give the same volume, so the best round comes again.
        Passed::TakeBack(back) => back,
        // The changes of the rules before the failed one must not show in the report.
        Passed::Unreadable => TakeBack { best: 0, withdrawn: 0 },
    };
    overlay.reset();
    match pass.run(decide, Some(back))? {
        Passed::Done(rehearsal) => Ok(*rehearsal),
        Passed::TakeBack(_) | Passed::Unreadable => {
            unreachable!("the second pass ends with the best round")
        }
    }
}

/// The greatest number of groups of a volume that can be repaired. Each rule looks at every group,
/// so more groups would take too long.
const MOST_GROUPS: u32 = 1 << 20;

/// One pass of planning: superblock, log, and rounds. There is a second pass if the last rounds of
/// the first pass must be taken back, or if a sector cannot be read.
struct Pass<'a> {
    overlay: &'a Arc<RepairOverlay>,
    log: &'a dyn LogReplay,
    allow_loss: bool,
    /// The length of the data device in bytes, if the overlay is over a `JoinedDevice`.
    data_bytes: Option<u64>,
    progress: &'a dyn Progress,
}

/// The result of one pass of planning. A pass finds the superblock, cleans the log, and runs rounds
/// of checking and repairing in the overlay.
enum Passed {
    Done(Box<Rehearsal>),
    /// The last rounds made the volume worse or no better, so a second pass must leave them out.
    TakeBack(TakeBack),
    /// A rule has met a sector that cannot be read. A second pass must only check.
    Unreadable,
}

/// The rounds of checking and repairing that a second pass of planning makes, if the last rounds of
/// the first pass must be taken back.
#[derive(Clone, Copy)]
struct TakeBack {
    /// The number of rounds after which the volume was best. The second pass makes exactly these.
    best: u32,
    /// The number of rounds that the first pass made after the best one. The second pass leaves
    /// them out.
    withdrawn: u32,
}

impl Pass<'_> {
    fn run(&self, decide: &dyn Decide, back: Option<TakeBack>) -> Result<Passed> {
        let Self { overlay, allow_loss, data_bytes, progress, .. } = *self;
        let overlay = Arc::clone(overlay);
        let shared: SharedDevice = overlay.clone();
        let (mut superblock, actions) = decide.superblock(&shared)?;
        if !allow_loss && actions.iter().any(|action| !action.loses.is_empty()) {
            return Err(RepairError::OnlyGroupHeaders);
        }
        if superblock.has_external_log() {
            return Err(RepairError::ExternalLog);
        }
        let has_device = superblock.has_realtime() && !superblock.geometry.realtime.is_internal();
        if has_device && self.data_bytes.is_none() {
            return Err(RepairError::NoRealtimeDevice);
        }
        let groups = superblock.geometry.ag_count;
        if groups > MOST_GROUPS {
            let why = format!(
                "the superblock states {groups} groups; volumes with more than {MOST_GROUPS} are not repaired"
            );
            return Err(RepairError::Refused(why));
        }
        let mut actions = actions;
        let (log, action) = self.settle_log(&shared, &superblock)?;
        if log == LogOutcome::Replayed && actions.iter().any(rules::is_from_headers) {
            rules::add_features(&shared, &mut superblock)?;
        }
        actions.extend(action);
        let superblock_bytes = sector_bytes(&superblock);
        let rehearsing =
            Rehearsing { overlay, shared, superblock_bytes, allow_loss, data_bytes, progress };
        rehearsing.finish(superblock, Start { log, actions, back }, decide)
    }

    /// Makes the log clean, in the overlay. The mark NEEDSREPAIR forbids a replay. But the log of a
    /// marked volume can also hold changes, so the mark is cleared in the overlay during the
    /// replay.
    fn settle_log(
        &self,
        device: &SharedDevice,
        superblock: &Superblock,
    ) -> Result<(LogOutcome, Option<Action>)> {
        let is_marked = superblock.has_incompat(IncompatFeatures::NEEDSREPAIR);
        let mut unmarked = superblock.clone();
        unmarked.incompat.remove(IncompatFeatures::NEEDSREPAIR);
        unmarked.geometry.incompat.remove(IncompatFeatures::NEEDSREPAIR);
        let superblock_bytes = sector_bytes(superblock);
        if is_marked {
            write_mark(device, superblock_bytes, false)?;
        }
        let (replay, allow_loss) = (self.log, self.allow_loss);
        let settled = SettleLog { device, superblock: &unmarked, replay, allow_loss }.run()?;
        if is_marked {
            write_mark(device, superblock_bytes, true)?;
        }
        Ok(settled)
    }
}

/// The state of planning during its rounds of checks and repairs: the overlay that the rounds
/// change, and the options of the rounds.
struct Rehearsing<'a> {
    overlay: Arc<RepairOverlay>,
    /// The overlay of the repair, as the device that the rules read and write.
    shared: SharedDevice,
    /// The length in bytes of the sector of the superblock.
    superblock_bytes: usize,
    allow_loss: bool,
    /// The length of the data device in bytes, if the overlay is over a `JoinedDevice`.
    data_bytes: Option<u64>,
    progress: &'a dyn Progress,
}

/// The results of the steps of planning before the rounds: cleaning the log, and the actions done
/// for it and for the superblock.
struct Start {
    log: LogOutcome,
    actions: Vec<Action>,
    /// In a second pass, how many rounds it repeats and how many it leaves out. `None` in the first
    /// pass.
    back: Option<TakeBack>,
}

impl Rehearsing<'_> {
    /// Reads the superblock again after the log was replayed. Returns `before` if it cannot be
    /// decoded.
    fn superblock(&self, before: Superblock) -> Result<Superblock> {
        let mut sector = vec![0; self.superblock_bytes];
        read_device(&*self.shared, 0, &mut sector)?;
        Ok(Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).unwrap_or(before))
    }

    /// Runs the rounds of checking and repairing in the overlay. Returns the plan of all their
    /// changes, or the reason for a second pass.
    fn finish(self, before: Superblock, start: Start, decide: &dyn Decide) -> Result<Passed> {
        let failed = |error: &dyn Display| RepairError::Log(error.to_string());
        let was_marked = before.has_incompat(IncompatFeatures::NEEDSREPAIR);
        let superblock = self.superblock(before)?;
        let log = LogDevice::new(self.shared.clone(), &superblock);
        let log = log.map_err(|error| failed(&error))?;
        let head = xfs_log::find_head_and_tail(&log).map_err(|error| failed(&error))?.head;
        let options = RehearsalOptions {
            log_head: Some(head),
            allow_loss: self.allow_loss,
            most_rounds: start.back.map(|back| back.best),
            data_bytes: self.data_bytes,
        };
        let mut done = match decide.rounds(&self.shared, &superblock, &options, self.progress) {
            // Nothing is written to a device with unreadable sectors, so no rule has to succeed.
            Err(RepairError::Io { .. }) if !self.overlay.unreadable().is_empty() => {
                if start.back.is_none() {
                    return Ok(Passed::Unreadable);
                }
                self.check_only(&superblock, &options)?
            }
            done => done?,
        };
        if done.report.is_stopped {
            return Err(RepairError::Stopped);
        }
        if let (None, Some(withdrawn @ 1..)) = (start.back, done.rounds.checked_sub(done.best)) {
            return Ok(Passed::TakeBack(TakeBack { best: done.best, withdrawn }));
        }
        let superblock = self.superblock(superblock)?;
        if is_marked_only(&done.report) {
            done.actions.push(self.clear_needs_repair()?);
            done.report.findings.retain(|finding| finding.code != Code::SbNeedsRepair);
        } else if was_marked && !done.report.is_clean() {
            // A rule may have cleared the mark before the rest turned out not to be repaired.
            write_mark(&self.shared, self.superblock_bytes, true)?;
        }
        let superblock = self.superblock(superblock)?;
        let log_start = log.geometry().start.byte_offset();
        let head_byte = |start| start + u64::from(head.block()) * SECTOR_BYTES as u64;
        let log_head_byte = log_start.map(head_byte);
        let plan = self.plan(&superblock, done, start)?;
        let overlay = self.overlay;
        Ok(Passed::Done(Box::new(Rehearsal { plan, overlay, superblock, log_head_byte })))
    }

    /// Checks the volume without a repair.
    fn check_only(&self, superblock: &Superblock, options: &RehearsalOptions) -> Result<Rehearsed> {
        let report = rounds::check_device(&self.shared, superblock, options, self.progress)?;
        let findings = damage(&report.findings).count() as u64;
        let (superblock, actions) = (superblock.clone(), Vec::new());
        Ok(Rehearsed { superblock, actions, report, findings, rounds: 0, best: 0 })
    }

    /// Clears NEEDSREPAIR in the superblock of a volume that has no other damage.
    fn clear_needs_repair(&self) -> Result<Action> {
        write_mark(&self.shared, self.superblock_bytes, false)?;
        let keeps = "everything; the mark NEEDSREPAIR goes, because nothing is left to repair";
        let codes = vec![Code::SbNeedsRepair];
        Ok(Action::new("superblock.needs-repair", Place::default(), codes, keeps))
    }

    /// Makes the plan from the changes in the overlay and from the result of the rounds.
    fn plan(&self, superblock: &Superblock, done: Rehearsed, start: Start) -> Result<Plan> {
        let Rehearsed { actions, report, findings, rounds, .. } = done;
        let mut all = start.actions;
        all.extend(actions);
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
            realtime_start: self.data_bytes.map(realtime_start),
            allow_loss: self.allow_loss,
            log: start.log,
            findings,
            rounds,
            withdrawn: start.back.map_or(0, |back| back.withdrawn),
            actions: all,
            runs,
            left: damage(&report.findings).map(LeftFinding::of).collect(),
            unchecked: report.unchecked.iter().map(|part| part.what.clone()).collect(),
            unreadable,
        })
    }
}

/// Sets or clears NEEDSREPAIR in the first superblock, which has `superblock_bytes` bytes.
fn write_mark(device: &SharedDevice, superblock_bytes: usize, is_set: bool) -> Result<()> {
    let mut sector = vec![0; superblock_bytes];
    read_device(&**device, 0, &mut sector)?;
    set_needs_repair(&mut sector, is_set)?;
    let written = device.write_at(&sector, 0, Durability::Cached);
    written.map_err(|error| RepairError::Io { offset: 0, error })
}

/// Returns whether the mark NEEDSREPAIR in the superblock is the only damage of the volume.
fn is_marked_only(report: &Report) -> bool {
    let mut damage = damage(&report.findings).peekable();
    report.is_complete()
        && damage.peek().is_some()
        && damage.all(|finding| finding.code == Code::SbNeedsRepair)
}

fn sector_bytes(superblock: &Superblock) -> usize {
    usize::try_from(superblock.geometry.sector_size).expect("a sector has at most 32 KiB")
}

#[cfg(test)]
mod tests;
