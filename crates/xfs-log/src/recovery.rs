//! Replaying the log after a crash.
//!
//! Owns: the changes that the log makes to the volume, the intents that were left open, and the
//! counters of the superblock. Also owns marking the log clean, or preparing it for new records.
//! Does **not** own finishing intents or freeing unlinked inodes: that takes transactions, and the
//! layer that has them implements [`IntentRecovery`].
//!
//! ```text
//!  pass 1   every committed transaction: which buffers were cancelled ─→ CancelTable
//!  pass 2   every committed transaction, its items in this order:
//!             buffers and inode creations │ inodes, dquots, intents │ links of unlinked lists │
//!             cancellations
//!           all of it into an OverlayDevice ─→ every touched buffer and inode verified
//!  then     superblock: counters from the group headers
//!
//!  replay       refuses work that takes transactions ─→ write_back: in place, and the log is clean
//!  replay_before_damage   ends where the log is damaged ─→ write_back_and_format
//!  replay_all   keeps open intents                  ─→ write_in_place: the log stays dirty
//!                 ─→ Log::open from its head, Log::adopt: open intents hold the tail
//!                 ─→ finish_intents: ordinary transactions that go into the same log
//!                 ─→ Log::unmount: clean, or the volume is used
//! ```
//!
//! A read-only open also uses `replay_all`. It keeps all writes in an overlay, including the new
//! records of the log.
//!
//! # Which changes are replayed
//!
//! A change is replayed if the object on disk is older than the transaction of the change. The LSN
//! in the object says how old the object is. Objects without an LSN (inode clusters as a whole,
//! blocks of dquots as a whole, blocks of another use) are always replayed over. That is sound
//! because the log holds all later changes.
//!
//! A replay that ends before the end of the log (`replay_before_damage`) lacks later changes and
//! cancellations. So it replays nothing over a block that is not metadata on disk: the block may
//! hold file data by now. It replays nothing over a newer inode either.
//!
//! Several checkpoints may start in one record and so have one LSN. A block's LSN is therefore
//! stamped only when the replay reaches a transaction of another LSN ([`store`]): until then every
//! change of the same LSN is applied to the block. An inode is skipped only if it is *newer*.
//!
//! # Invariants
//!
//! - **I1** Nothing is written to the volume or its log before [`Replayed::write_back`] or
//!   [`Replayed::write_in_place`].
//! - **I2** Everything that is written back was verified after its last change: each buffer as the
//!   kind that the log says it is, each inode by itself.
//! - **I3** Everything that the log names lies inside the volume and outside the log.
//!
//! # Crash argument
//!
//! `write_back` writes in place (to the home locations on disk), flushes, and only then touches the
//! log. A crash before the flush has returned leaves the log as it was, with some objects already
//! written and others not. The next recovery replays an object again, or skips it because the LSN
//! in it says that it is complete. That needs a metadata buffer to be on disk as a whole or not at
//! all (docs/internals/crash-model.md). So each buffer is written by one write, even where only
//! some of its sectors have changed. The superblock's counters are computed again. A crash between
//! the flush and the unmount record finds everything in place and replays nothing new. So a
//! repeated recovery gives the same volume, however often it was interrupted.
//!
//! `write_in_place` ends after the flush: the log is as dirty as before, with the same head. The
//! transactions that finish the intents are logged after that head like all other transactions, so
//! a crash among them leaves a longer log. Recovery then replays the old part, whose changes are
//! all in place already, and the new transactions. The intents whose completion is not in the log
//! are open again.

mod buffer;
mod cancel;
mod clean;
mod create;
mod dquot;
mod finish;
mod inode;
mod intent;
mod pass;
mod pieces;
mod realtime;
mod refusal;
mod store;

pub use buffer::kind_of_buffer;
pub(crate) use clean::unmount_record;
pub use clean::{end_clean_log, format_log};
pub use inode::apply_inode_item;
pub use intent::{FreedInodes, Intent, IntentRecovery, finish_intents};
pub use refusal::{RecoveryError, Refusal};

use std::ops::Range;
use std::sync::Arc;

use xfs_buffer::{Error, IoError, Result};
use xfs_device::{OverlayDevice, SharedDevice};
use xfs_format::dquot::QuotaFlags;
use xfs_format::log_item::LoggedItem;
use xfs_format::superblock::{Superblock, VolumeAccess};
use xfs_format::{DiskAddr, IncompatFeatures, Lsn};

use crate::device::LogDevice;
use crate::reader::{LogReader, LoggedTransaction};
use crate::state::readable::{self, ReadablePart};
use crate::state::{LogState, find_head_and_tail};
use cancel::CancelTable;
use dquot::DquotReplay;
use intent::OpenIntents;
use pass::SecondPass;
use store::RecoveryStore;

/// The greatest amount of memory in bytes that a replay keeps. The largest log has 2 GiB, but the
/// log of a real volume changes the same blocks many times, and each block is kept only once.
pub const MAX_REPLAY_BYTES: u64 = 1 << 30;

/// A volume whose log has been replayed in memory.
pub struct Replayed {
    device: Arc<OverlayDevice>,
    superblock: Superblock,
    state: LogState,
    summary: Summary,
    /// The byte ranges of the metadata buffers that were changed. Each range is written by one
    /// write.
    buffers: Vec<Range<u64>>,
    /// Intents whose completion is not in the log, in the order of the log.
    intents: Vec<Intent>,
    /// The quota flags that the replay clears in the superblock, so that the usage counts of these
    /// quota types no longer count as checked.
    stale_quota: QuotaFlags,
    /// Whether intents about the space of realtime groups were left out.
    left_realtime_work: bool,
    leftovers: Leftovers,
}

/// The treatment of work that needs transactions: open intents and unlinked inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leftovers {
    /// If the log leaves open intents or unlinked inodes, replay fails with an error that names the
    /// first of them.
    Refused,
    /// Open intents and unlinked inodes are kept for a layer that has transactions.
    Kept,
}

/// Whether the structures onto which items are replayed may be damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Targets {
    /// Every target must be sound: a damaged structure ends the replay.
    Sound,
    /// The volume is under repair: items whose target is destroyed are skipped, and nothing is
    /// verified.
    Damaged,
}

/// The counts of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Number of committed transactions in the log.
    pub transactions: u64,
    /// Number of items in the committed transactions.
    pub items: u64,
    /// Number of items that were not replayed. In most cases, the object on disk is already newer,
    /// or a later transaction cancels the buffer.
    pub skipped: u64,
    /// Number of intents that were finished.
    pub intents: u64,
    /// Number of unlinked inodes that were freed.
    pub unlinked: u64,
    /// Number of unlinked inodes that are damaged and were therefore not freed.
    pub unlinked_damaged: u64,
}

/// Length of the range of IDs for new intents. `first_intent_id` looks for a range of this length
/// in which no ID belongs to an open intent.
const INTENT_IDS: u64 = 1 << 40;

impl Replayed {
    /// Returns whether the log has open work on the space of realtime groups, which the replay does
    /// not finish.
    #[must_use]
    pub fn has_left_realtime_work(&self) -> bool {
        self.left_realtime_work
    }

    /// Returns the device of the volume with the changes of recovery. Writes to this device stay in
    /// memory.
    #[must_use]
    pub fn device(&self) -> SharedDevice {
        self.device.clone()
    }

    /// Returns the superblock with the changes of recovery.
    #[must_use]
    pub const fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Returns the state that the log had before the replay.
    #[must_use]
    pub const fn log_state(&self) -> &LogState {
        &self.state
    }

    /// Returns the counts of the replay.
    #[must_use]
    pub const fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Drops the intents about realtime groups. A recovery in memory does not keep the structures
    /// of realtime groups, because no reader needs them.
    pub fn forget_realtime_intents(&mut self) {
        let all = self.intents.len();
        self.intents.retain(|intent| !intent.kind().is_of_realtime_space());
        self.left_realtime_work |= self.intents.len() < all;
    }

    /// Returns the intents whose completion is not in the log, in the order of the log. The slice
    /// is empty after [`replay`].
    #[must_use]
    pub fn intents(&self) -> &[Intent] {
        &self.intents
    }

    /// Returns an ID such that no open intent has this ID or one of the `INTENT_IDS` - 1 IDs after
    /// it. New intents are numbered from this ID on. If a new intent had the ID of an open intent,
    /// the completion of the new intent could be taken for that of the open one.
    #[must_use]
    pub fn first_intent_id(&self) -> u64 {
        let mut ids: Vec<_> = self.intents.iter().map(Intent::id).collect();
        ids.sort_unstable();
        let mut first: u64 = 1;
        for id in ids {
            if id.checked_sub(first).is_some_and(|row| row >= INTENT_IDS) {
                break;
            }
            first = first.max(id.wrapping_add(1));
        }
        first
    }

    /// Writes the replayed changes to their home locations on disk, and marks the log clean. The
    /// header of the module explains why a crash meanwhile is harmless.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Io`] if a device fails. The log is then as dirty as before, and the
    /// recovery can be repeated.
    ///
    /// # Panics
    ///
    /// Panics after [`replay_all`]: the work that it kept would be lost.
    pub fn write_back(&self, log: &LogDevice) -> Result<()> {
        assert_eq!(
            self.leftovers,
            Leftovers::Refused,
            "write_back after replay_all would lose open work"
        );
        if self.state.clean {
            return Ok(());
        }
        self.write_replayed()?;
        clean::mark_clean(log, &self.state)
    }

    /// Writes the replayed changes to their home locations on disk, and marks the log clean. Open
    /// intents, unlinked inodes and blocks reserved for copy-on-write are dropped. A repair calls
    /// this, and then corrects the inconsistencies that the dropped work leaves.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`write_back`](Self::write_back).
    pub fn write_back_without_work(&self, log: &LogDevice) -> Result<()> {
        if self.state.clean {
            return Ok(());
        }
        self.write_replayed()?;
        clean::mark_clean(log, &self.state)
    }

    /// Writes the replayed changes to their home locations on disk, and makes the log empty in the
    /// cycle `cycle`, as [`format_log`] does. A repair of a damaged log calls this after
    /// [`replay_before_damage`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`write_back`](Self::write_back).
    pub fn write_back_and_format(&self, log: &LogDevice, cycle: u32) -> Result<()> {
        self.write_replayed()?;
        format_log(log, cycle)
    }

    /// Writes the replayed changes to their home locations on disk, and prepares the log to be
    /// written from its head on. The log stays dirty. A clean log is written only if a torn record
    /// lies after its head.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`write_back`](Self::write_back).
    pub fn write_in_place(&self, log: &LogDevice) -> Result<()> {
        if !self.state.clean {
            self.write_replayed()?;
        }
        self.prepare_log(log)
    }

    /// Prepares the log to be written from its head on, without writing the replayed changes. This
    /// function is for a caller that keeps the replayed changes and the log in memory.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`write_back`](Self::write_back).
    pub fn prepare_log(&self, log: &LogDevice) -> Result<()> {
        if self.state.is_blank {
            return clean::begin(log);
        }
        if self.state.clean && !clean::has_stale_blocks(log, &self.state)? {
            return Ok(());
        }
        clean::prepare(log, &self.state)
    }

    fn write_replayed(&self) -> Result<()> {
        self.device.write_back(&self.buffers).map_err(|source| {
            let length_bytes = self.device.written_bytes();
            Error::Io(IoError::new("write", DiskAddr(0), length_bytes, source))
        })
    }
}

/// Replays the log of a volume into memory.
///
/// # Errors
///
/// Returns a [`RecoveryError`], also if the log leaves an open intent, an unlinked inode or blocks
/// reserved for copy-on-write.
pub fn replay(
    data: SharedDevice,
    log: &LogDevice,
    superblock: &Superblock,
) -> Result<Replayed, RecoveryError> {
    let state = find_head_and_tail(log)?;
    run(data, log, superblock, Job::new(state, Leftovers::Refused, Targets::Sound))
}

/// Replays the log of a volume into memory. Open intents, unlinked inodes and blocks reserved for
/// copy-on-write are kept for a layer that has transactions.
///
/// # Errors
///
/// Returns a [`RecoveryError`] if the log cannot be replayed.
pub fn replay_all(
    data: SharedDevice,
    log: &LogDevice,
    superblock: &Superblock,
) -> Result<Replayed, RecoveryError> {
    let state = find_head_and_tail(log)?;
    run(data, log, superblock, Job::new(state, Leftovers::Kept, Targets::Sound))
}

/// Replays the log of a damaged volume into memory, as [`replay_all`] does. Skips an item if its
/// target on disk is destroyed, that is, not an inode or not a btree block any more. The replayed
/// structures are not verified. If the headers of a group cannot be read, the counters of the
/// superblock stay as they are. This is for a repair, which checks the result and repairs the
/// damage.
///
/// # Errors
///
/// Returns a [`RecoveryError`] if the log itself is damaged, or has something that is refused.
pub fn replay_past_damage(
    data: SharedDevice,
    log: &LogDevice,
    superblock: &Superblock,
) -> Result<Replayed, RecoveryError> {
    let state = find_head_and_tail(log)?;
    run(data, log, superblock, Job::new(state, Leftovers::Kept, Targets::Damaged))
}

/// A replay that has ended where the log is damaged.
pub struct CutReplay {
    /// The volume with the changes of the records before the damage.
    pub replayed: Replayed,
    /// The LSN of the newest record that can be read. This record may lie after the damage, in
    /// which case it was not replayed.
    pub newest: Lsn,
}

impl CutReplay {
    /// Returns the block of the log at which the replay has ended: the first record that cannot be
    /// read, or the end of the newest one.
    #[must_use]
    pub const fn end_block(&self) -> u32 {
        self.replayed.state.head.block()
    }

    /// Returns whether all records from the tail to the newest record were replayed. If so, the
    /// damage lies before the tail, or after all records that can be read.
    #[must_use]
    pub const fn has_newest(&self) -> bool {
        self.newest.0 < self.replayed.state.head.0
    }
}

/// Replays a log that [`find_head_and_tail`] refuses, from the tail up to the first record that
/// cannot be read. Treats damaged structures as [`replay_past_damage`] does. A buffer that a record
/// after the damage cancels is not replayed, because the block may hold file data by now. The same
/// holds for a buffer that a transaction without a COMMIT cancels, and for a block on disk that is
/// not metadata.
///
/// Returns `None` if no record at the tail can be read. This is for a repair, which checks the
/// result and repairs the damage.
///
/// # Errors
///
/// Returns a [`RecoveryError`] if a record before the damage has something that is refused.
pub fn replay_before_damage(
    data: SharedDevice,
    log: &LogDevice,
    superblock: &Superblock,
) -> Result<Option<CutReplay>, RecoveryError> {
    let Some(ReadablePart { state, newest }) = readable::find(log)? else { return Ok(None) };
    let job = Job { later: Some(newest), ..Job::new(state, Leftovers::Kept, Targets::Damaged) };
    let replayed = run(data, log, superblock, job)?;
    Ok(Some(CutReplay { replayed, newest }))
}

/// The part of the log to replay, and the treatment of open work and of damaged structures.
#[derive(Clone, Copy)]
struct Job {
    state: LogState,
    /// The LSN of the newest record, if damage ends the replay before that record. `None` if the
    /// whole log is replayed.
    later: Option<Lsn>,
    leftovers: Leftovers,
    targets: Targets,
}

impl Job {
    const fn new(state: LogState, leftovers: Leftovers, targets: Targets) -> Self {
        Self { state, later: None, leftovers, targets }
    }
}

fn run(
    data: SharedDevice,
    log: &LogDevice,
    superblock: &Superblock,
    job: Job,
) -> Result<Replayed, RecoveryError> {
    let Job { state, later, leftovers, targets } = job;
    let device = Arc::new(OverlayDevice::new(data, MAX_REPLAY_BYTES));
    let superblock = superblock.clone();
    let mut replayed = Replayed {
        device,
        superblock,
        state,
        summary: Summary::default(),
        buffers: Vec::new(),
        intents: Vec::new(),
        stale_quota: QuotaFlags::empty(),
        left_realtime_work: false,
        leftovers,
    };
    if state.clean {
        return Ok(replayed);
    }
    if let Some(reason) = replayed.superblock.refusal(VolumeAccess::Replay) {
        return Err(Error::from(reason).into());
    }
    let mut cancelled = CancelTable::default();
    if let Some(newest) = later {
        note_later_cancellations(log, &state, newest, &mut cancelled)?;
    }
    let open = replay_items(&mut replayed, log, job, cancelled)?;
    replayed.intents = open.into_intents(&state)?;
    // A reader needs none of the structures that intents about realtime groups would change, and
    // not every volume with groups is written. On a volume without a metadata directory such an
    // intent is not known, and is refused.
    let superblock = &replayed.superblock;
    let is_writer = leftovers != Leftovers::Refused
        && (superblock.has_realtime_groups() || superblock.has_zones());
    if !is_writer && replayed.superblock.has_incompat(IncompatFeatures::METADIR) {
        replayed.forget_realtime_intents();
    }
    if leftovers == Leftovers::Refused {
        finish::refuse(&replayed)?;
    }
    match finish::recount(&mut replayed) {
        // The repair counts again.
        Err(Error::Corrupt(_)) if targets == Targets::Damaged => {}
        recounted => recounted?,
    }
    Ok(replayed)
}

/// Notes the buffers that are cancelled by readable records between the head of `state` and the
/// record `newest`.
fn note_later_cancellations(
    log: &LogDevice,
    state: &LogState,
    newest: Lsn,
    cancelled: &mut CancelTable,
) -> Result<()> {
    if newest < state.head {
        return Ok(());
    }
    for run in readable::runs_after(log, state.head, newest)? {
        let mut reader = LogReader::new(log, &run);
        loop {
            match reader.next_transaction() {
                Ok(Some(transaction)) => note_cancellations(&transaction, cancelled),
                // Damage ends the run.
                Ok(None) | Err(Error::Corrupt(_)) => break,
                Err(error) => return Err(error),
            }
        }
        note_open_cancellations(&reader, cancelled);
    }
    Ok(())
}

/// Notes the buffers that are cancelled by transactions whose COMMIT was not read. If the COMMIT is
/// lost, the blocks may hold file data by now. If it was never written, the note does no harm: only
/// changes of these buffers are skipped.
fn note_open_cancellations(reader: &LogReader<'_>, cancelled: &mut CancelTable) {
    reader.open_transactions().for_each(|transaction| note_cancellations(transaction, cancelled));
}

/// Notes the buffers that a transaction cancels, up to its first damaged item.
fn note_cancellations(transaction: &LoggedTransaction, cancelled: &mut CancelTable) {
    let Ok(items) = transaction.items() else { return };
    for item in items.map_while(std::result::Result::ok) {
        if let LoggedItem::Buffer(item) = item {
            cancelled.note(&item);
        }
    }
}

/// Reads the log twice: the first pass notes cancelled buffers, the second replays the items.
/// Returns the intents that are open at the head.
fn replay_items(
    replayed: &mut Replayed,
    log: &LogDevice,
    job: Job,
    mut cancelled: CancelTable,
) -> Result<OpenIntents, RecoveryError> {
    let mut dquots = DquotReplay::new(replayed.state.head);
    let mut reader = LogReader::new(log, &replayed.state);
    while let Some(transaction) = reader.next_transaction()? {
        for item in transaction.items()? {
            match item? {
                LoggedItem::Buffer(item) => cancelled.note(&item),
                LoggedItem::QuotaOff(item) => dquots.note_end(&item),
                _ => {}
            }
        }
    }
    if job.later.is_some() {
        note_open_cancellations(&reader, &mut cancelled);
    }
    let mut store =
        RecoveryStore::new(replayed.device.clone(), &replayed.superblock, log.geometry());
    (store.targets, store.is_cut) = (job.targets, job.later.is_some());
    let mut pass = SecondPass::new(store, cancelled, dquots);
    let mut reader = LogReader::new(log, &replayed.state);
    while let Some(transaction) = reader.next_transaction()? {
        pass.replay(&transaction)?;
    }
    let SecondPass { mut store, intents, summary, dquots, .. } = pass;
    replayed.stale_quota = dquots.stale(&store)?;
    store.seal()?;
    store.join_pieces(replayed.state.head)?;
    if job.targets == Targets::Sound {
        store.verify(replayed.state.head)?;
    }
    (replayed.superblock, replayed.buffers) = store.into_parts();
    replayed.summary = summary;
    Ok(intents)
}

#[cfg(test)]
mod tests;
