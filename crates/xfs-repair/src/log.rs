//! The first step of a repair: the log is replayed, or made empty.
//!
//! Owns: the decision between the two. Does **not** own: recovery (`xfs-log`, and the layers above
//! it, which the caller provides).
//!
//! | the log | what happens | loses something |
//! |---|---|---|
//! | clean, and no older than the volume | nothing | no |
//! | dirty | it is replayed, and open work is finished | no |
//! | dirty, and open work on space cannot be finished | it is replayed without that work | no |
//! | dirty, and open work on contents cannot be finished | it is replayed without that work | yes |
//! | dirty, and it changes structures that are destroyed | all other changes are replayed | no |
//! | clean, and torn records follow it | it is made empty in a later cycle | yes |
//! | clean, and older than the volume | it is made empty in a later cycle | no: it holds nothing |
//! | damaged | it is replayed up to the damage, and made empty in a later cycle | yes |
//! | damaged, and no record at its tail can be replayed | it is made empty in a later cycle | yes |
//!
//! The log keeps its copies of destroyed structures, and later rules read these copies. Open work
//! is an operation that a crash left unfinished: the log has its intent and no completion. The rows
//! above say when open work is dropped.
//!
//! A log is older than the volume if it was zeroed, or belongs to an earlier state of the volume.

mod watched;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use xfs_check::{Code, Place};
use xfs_device::{OverlayDevice, SharedDevice};
use xfs_format::log_item::ItemKind;
use xfs_format::{BASIC_BLOCK_BYTES, BlockKind, Lsn, Superblock, VerifyContext};
use xfs_log::{Intent, LogDevice, LogState, RecoveryError};

use crate::action::Action;
use crate::error::{RepairError, Result};
use crate::plan::LogOutcome;
use crate::planning::LogReplay;
use crate::undo::read_device;
use watched::WatchedDevice;

/// The headers of a group that have an LSN: the number of the sector in the group, and its kind.
const HEADERS: [(u32, BlockKind); 3] =
    [(0, BlockKind::Superblock), (1, BlockKind::Agf), (2, BlockKind::Agi)];

/// The highest cycle number that a sound log may have. The kernel and xfs_repair compare cycle
/// numbers as signed numbers, and a log that is made empty gets a cycle that is higher by
/// [`CYCLE_STEP`].
const MAX_CYCLE: u32 = i32::MAX.cast_unsigned() - CYCLE_STEP;

/// The difference between the newest cycle that was found and the cycle of a log that is made
/// empty. Structures that were not looked at may be one cycle newer.
const CYCLE_STEP: u32 = 2;

/// The step of a repair that makes the log of the volume clean.
pub(crate) struct SettleLog<'a> {
    /// The overlay on top of the damaged device.
    pub(crate) device: &'a SharedDevice,
    pub(crate) superblock: &'a Superblock,
    pub(crate) replay: &'a dyn LogReplay,
    pub(crate) allow_loss: bool,
}

impl SettleLog<'_> {
    /// Makes the log clean, in the overlay. Returns the outcome, and an action for the plan if the
    /// log was made empty, or if some of its changes or unfinished operations were dropped.
    pub(crate) fn run(&self) -> Result<(LogOutcome, Option<Action>)> {
        let newest = self.newest_lsn();
        let settled = match self.state() {
            Ok(LogState { clean: true, torn: Some(end), .. }) if self.allow_loss => {
                let keeps = "nothing of the log, whose records follow a block that is damaged";
                let what = format!("changes that records before block {end} of the log may have");
                let action = Action::new(RULE, Place::default(), codes(), keeps);
                return self.format(newest, action.losing(None, what));
            }
            Ok(state) if state.clean && newest <= state.head => {
                return Ok((LogOutcome::Clean, None));
            }
            Ok(state) if state.clean => {
                let keeps =
                    "nothing of the log, which is older than the volume and holds no change";
                return self.format(newest, Action::new(RULE, Place::default(), codes(), keeps));
            }
            Ok(_) => self.replay_dirty(),
            Err(error) => Err(error),
        };
        match settled {
            Ok(done) => Ok(done),
            Err(RepairError::Log(why)) if self.allow_loss => {
                if let Some(done) = self.replay_before_damage(newest, &why)? {
                    return Ok(done);
                }
                let keeps = format!("nothing of the log, because {why}");
                let what = "the changes that only the log has";
                let action = Action::new(RULE, Place::default(), codes(), keeps);
                self.format(newest, action.losing(None, what))
            }
            Err(error) => Err(error),
        }
    }

    fn log(&self) -> Result<LogDevice> {
        LogDevice::new(self.device.clone(), self.superblock).map_err(failed)
    }

    fn state(&self) -> Result<LogState> {
        xfs_log::find_head_and_tail(&self.log()?).map_err(failed)
    }

    /// Replays a dirty log. If operations that a crash interrupted cannot be finished, replays the
    /// log without finishing them ([`dropped`] decides whether that is allowed). The damage that
    /// remains is repaired like any other damage. Returns the outcome, and the action that names
    /// the parts that were not replayed or finished, if any.
    fn replay_dirty(&self) -> Result<(LogOutcome, Option<Action>)> {
        // A recovery that fails half way must leave no trace, so it runs in an overlay of its own.
        let most_bytes = xfs_log::MAX_REPLAY_BYTES;
        let trial = Arc::new(OverlayDevice::new(self.device.clone(), most_bytes));
        let watched = Arc::new(WatchedDevice::new(trial.clone()));
        let why = match self.replay.replay(watched.clone()) {
            Ok(outcome) => {
                let written = trial.write_back(&[]);
                written.map_err(|error| device_failure(0, error))?;
                return Ok((outcome, None));
            }
            Err(why) => why,
        };
        // If the device failed, the log may be sound, and nothing of it may be dropped.
        if let Some(failure) = watched.take_failure() {
            return Err(failure);
        }
        let log = self.log()?;
        let replayed = xfs_log::replay_all(self.device.clone(), &log, self.superblock);
        let is_past_damage = replayed.is_err();
        let replayed = match replayed {
            Err(error) if !error.is_device_failure() => {
                xfs_log::replay_past_damage(self.device.clone(), &log, self.superblock)
            }
            replayed => replayed,
        };
        let replayed = replayed.map_err(failed)?;
        let kinds: Vec<ItemKind> = replayed.intents().iter().map(Intent::kind).collect();
        let mut action = dropped(&kinds, &why, self.allow_loss)?;
        if is_past_damage && action.is_none() {
            let keeps =
                format!("all changes of the log but those of structures that are destroyed: {why}");
            action = Some(Action::new(PAST_DAMAGE_RULE, Place::default(), Vec::new(), keeps));
        }
        replayed.write_back_without_work(&log).map_err(failed)?;
        Ok((LogOutcome::ReplayedInPart, action))
    }

    /// Replays the records of a damaged log from the tail up to the first one that cannot be read,
    /// and makes the log empty. Drops open intents, because a record after the damage may have
    /// finished them. Returns `None`, and changes nothing, if no record at the tail can be read or
    /// replayed, or if the newest record names an impossible cycle. `why` says how the log is
    /// damaged.
    ///
    /// # Errors
    ///
    /// [`RepairError::Io`] if the device fails. The log may then be sound.
    fn replay_before_damage(
        &self,
        newest: Lsn,
        why: &str,
    ) -> Result<Option<(LogOutcome, Option<Action>)>> {
        let log = self.log()?;
        let replayed = xfs_log::replay_before_damage(self.device.clone(), &log, self.superblock);
        let cut = match replayed {
            Ok(Some(cut)) if self.is_possible(cut.newest) => cut,
            Err(error) if error.is_device_failure() => return Err(failed(error)),
            Ok(_) | Err(_) => return Ok(None),
        };
        let block = cut.end_block();
        let keeps = format!("the changes of the log before its block {block}, because {why}");
        let mut what = match cut.has_newest() {
            true => format!("changes that records after block {block} of the log may have had"),
            false => format!("the changes that only the log has after its block {block}"),
        };
        let kinds: Vec<ItemKind> = cut.replayed.intents().iter().map(Intent::kind).collect();
        if !kinds.is_empty() {
            let names = names_of(&kinds);
            what = format!("{what}, and {} open intents ({names})", kinds.len());
        }
        let cycle = newest.max(cut.newest).cycle().saturating_add(CYCLE_STEP);
        let written = cut.replayed.write_back_and_format(&log, cycle);
        written.map_err(failed)?;
        let action = Action::new(BEFORE_DAMAGE_RULE, Place::default(), codes(), keeps);
        Ok(Some((LogOutcome::Formatted, Some(action.losing(None, what)))))
    }

    /// Makes the log empty. Its new cycle is later than `newest`, the newest LSN found on the
    /// volume. Returns the outcome, and `action` for the plan.
    fn format(&self, newest: Lsn, action: Action) -> Result<(LogOutcome, Option<Action>)> {
        let cycle = newest.cycle().saturating_add(CYCLE_STEP);
        xfs_log::format_log(&self.log()?, cycle).map_err(failed)?;
        Ok((LogOutcome::Formatted, Some(action)))
    }

    /// Returns the newest LSN in the superblock and in the headers of the groups. Ignores headers
    /// that fail their checks.
    fn newest_lsn(&self) -> Lsn {
        let geometry = &self.superblock.geometry;
        let context = VerifyContext { geometry, log_head: None };
        let mut newest = Some(self.superblock.lsn).filter(|lsn| self.is_possible(*lsn));
        for group in geometry.groups() {
            for (sector, kind) in HEADERS {
                let at = geometry.header_disk_addr(group, sector);
                let mut bytes = vec![0; geometry.sector_size as usize];
                let is_read = read_device(&**self.device, at.0 * 512, &mut bytes).is_ok();
                if is_read
                    && kind.verify(&bytes, at, &context).is_ok()
                    && let Some(lsn) = xfs_format::kind::find_lsn(&bytes, geometry)
                    && !lsn.is_null()
                    && self.is_possible(lsn)
                {
                    newest = newest.max(Some(lsn));
                }
            }
        }
        newest.unwrap_or(Lsn(0))
    }

    /// Returns whether a log of this size can contain the LSN at all. The LSN of a damaged header
    /// can be any number, and says nothing about the age of the log.
    fn is_possible(&self, lsn: Lsn) -> bool {
        let superblock = self.superblock;
        let bytes = u64::from(superblock.log_blocks) << superblock.geometry.block_log;
        lsn.cycle() <= MAX_CYCLE && u64::from(lsn.block()) < bytes / u64::from(BASIC_BLOCK_BYTES)
    }
}

/// Decides whether open intents that cannot be finished because of `why` may be dropped. Returns
/// the action that names them, or `None` if the log has none.
///
/// Work on free space, the reverse map and reference counts is dropped: the claims of all owners
/// show what the result must be. Work on the map of a file, on its attributes or on an exchange of
/// contents is dropped only if `allow_loss` is `true`, because no other structure shows what the
/// result must be.
///
/// # Errors
///
/// [`RepairError::Log`] if there is work of the second kind, and `allow_loss` is `false`.
fn dropped(kinds: &[ItemKind], why: &str, allow_loss: bool) -> Result<Option<Action>> {
    if kinds.is_empty() {
        return Ok(None);
    }
    let names = names_of(kinds);
    let is_of_space = |kind: &ItemKind| {
        matches!(kind, ItemKind::ExtentFree | ItemKind::Rmap | ItemKind::Refcount)
    };
    let keeps =
        format!("all changes of the log but {} open intents ({names}), because {why}", kinds.len());
    let action = Action::new(DROP_RULE, Place::default(), Vec::new(), keeps);
    if kinds.iter().all(is_of_space) {
        return Ok(Some(action));
    }
    if !allow_loss {
        return Err(RepairError::Log(format!(
            "open work ({names}) cannot be finished without a loss: {why}"
        )));
    }
    let what = "half-done changes of contents or attributes that only the log has";
    Ok(Some(action.losing(None, what)))
}

/// Returns the names of kinds of intents, each once.
fn names_of(kinds: &[ItemKind]) -> String {
    let names: BTreeSet<&str> = kinds.iter().map(|kind| kind.name()).collect();
    Vec::from_iter(names).join(", ")
}

/// The name of the rule that drops from the log operations that a crash left unfinished.
const DROP_RULE: &str = "log.open-work";

/// The name of the rule that replays a log onto a volume with destroyed structures.
const PAST_DAMAGE_RULE: &str = "log.past-damage";

/// The name of the rule that replays a damaged log up to the damage.
const BEFORE_DAMAGE_RULE: &str = "log.before-damage";

/// The name of the rule that makes a log empty.
const RULE: &str = "log.format";

/// Returns the codes of the findings that the checker reports if metadata of the volume has LSNs
/// beyond the head of the log.
fn codes() -> Vec<Code> {
    vec![Code::SbLsn]
}

/// Returns the error of a repair for a failed step on the log. A failure of the device never
/// becomes [`RepairError::Log`]: then nothing is known about the log, so no rule may make it empty.
fn failed(error: impl Into<RecoveryError>) -> RepairError {
    match error.into().into_device_failure() {
        Ok(failure) => {
            let offset = failure.at.0.saturating_mul(BASIC_BLOCK_BYTES.into());
            device_failure(offset, failure.source)
        }
        Err(error) => RepairError::Log(error.to_string()),
    }
}

/// Returns the error of a repair for a failed request. A lack of memory or of space for temporary
/// files is reported as such and not as a failure of the device.
fn device_failure(offset: u64, error: io::Error) -> RepairError {
    if error.kind() == io::ErrorKind::StorageFull {
        return RepairError::Refused(format!(
            "the replay of the log needs more memory or temporary space than there is: {error}"
        ));
    }
    RepairError::Io { offset, error }
}

#[cfg(test)]
mod tests;
