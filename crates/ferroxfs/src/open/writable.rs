//! Opening a volume for writing: recovery, the journal, and finishing work that a crash left open.

use std::collections::VecDeque;
use std::sync::Arc;

use xfs_alloc::{RealtimeSpace, UnlinkedList};
use xfs_buffer::{Error as BufferError, Result as BufferResult};
use xfs_format::log_item::AttrOperation;
use xfs_format::reservation::TransactionKind;
use xfs_format::superblock::{Superblock, VolumeAccess};
use xfs_format::{AgNumber, FormatVersion, Geometry};
use xfs_icache::JournalStore;
use xfs_inode::LiveInode;
use xfs_log::{
    FreedInodes, Intent, IntentRecovery, Log, LogConfig, RecoveryError, Replayed, Summary,
    finish_intents,
};
use xfs_quota::{Attachment, QuotaEngine, QuotaMode, QuotaOptions, resolve_modes};
use xfs_trans::{AttrPayload, Captured, Deferred, IntentPayload, Journal, OpenIntent};
use xfs_vfs::{Clock, InodeCache, MountThreads};

use super::{Devices, OpenError, check_age, quota, read_superblock, realtime};
use crate::volume::Volume;
use crate::volume_ref::VolumeInner;

/// The memory in bytes of a buffer that is not in place yet, in addition to its block: the states
/// of the buffer and of its log item. The record of an inode takes about as much.
const ITEM_BYTES: u64 = 768;

impl Devices {
    /// Opens the volume for writing. A dirty log is replayed onto the disk first, and work that the
    /// crash left open is finished.
    pub(super) fn open_to_write(&self) -> Result<Volume, OpenError> {
        let (superblock, journal, opened) = self.open_journal(VolumeAccess::Write)?;
        let quota = opened.start_quota(&journal)?;
        let cache = Arc::clone(journal.cache());
        let options = &self.options;
        if let Some(upkeep) = options.options.chosen_upkeep() {
            journal.start_upkeep(upkeep).map_err(OpenError::Threads)?;
        }
        if options.discards {
            xfs_alloc::enable_discard(&journal);
        }
        let index = options.inode_index;
        let store = JournalStore::new(Arc::clone(&journal));
        let inode_cache = InodeCache::new(store, options.cached_inodes, index);
        let threads = MountThreads::start(journal, inode_cache, options.options)
            .map_err(OpenError::Threads)?;
        Ok(Volume::new(
            VolumeInner::new(superblock, cache, None, None).with_threads(threads, quota),
            Vec::new(),
        ))
    }

    /// Replays a dirty log onto the disk, finishes work that the crash left open, and marks the log
    /// clean. The devices must have been opened [to write](super::OpenOptions::write). All of this
    /// is durable on return; a crash on the way leaves a log that can be recovered again. Returns
    /// what was done, or `None` for a clean log.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]. If a device fails on the way, the recovery can be repeated.
    pub fn recover(&self) -> Result<Option<Summary>, OpenError> {
        self.recover_for(VolumeAccess::Recover)
    }

    /// Replays a dirty log as [`recover`](Self::recover) does. `access` decides which volumes are
    /// refused. [`VolumeAccess::Replay`] allows more kinds of volumes, but does not finish open
    /// work on realtime groups.
    pub(super) fn recover_for(&self, access: VolumeAccess) -> Result<Option<Summary>, OpenError> {
        if self.log_is_clean(access)? {
            return Ok(None);
        }
        let _span = tracing::info_span!("recovery").entered();
        if read_superblock(&self.data)?.geometry.version == FormatVersion::V4 {
            return self.recover_version_4().map(Some);
        }
        let (_, journal, opened) = self.open_journal(access)?;
        journal.unmount().map_err(OpenError::Recovery)?;
        Ok(Some(opened.summary))
    }

    /// Replays the log of a v4 volume onto the disk. A log with work that the crash left open is
    /// refused, with nothing changed: this work takes transactions, and ferroxfs makes none on a v4
    /// volume.
    fn recover_version_4(&self) -> Result<Summary, OpenError> {
        let superblock = read_superblock(&self.data)?;
        if let Some(corruption) = self.cut_short(&superblock) {
            return Err(OpenError::Volume(corruption.into()));
        }
        let log = self.log_of(&superblock).ok_or(OpenError::LogDeviceMissing)?;
        let log = log.map_err(OpenError::Log)?;
        let replayed = xfs_log::replay(self.data.clone(), &log, &superblock);
        let replayed = replayed.map_err(|error| match error {
            RecoveryError::Refused(refusal) => OpenError::DirtyLog(refusal),
            RecoveryError::Failed(source) => OpenError::Recovery(source),
        })?;
        replayed.write_back(&log).map_err(OpenError::Recovery)?;
        Ok(*replayed.summary())
    }

    fn log_is_clean(&self, access: VolumeAccess) -> Result<bool, OpenError> {
        let superblock = read_superblock(&self.data)?;
        if let Some(reason) = superblock.refusal(access) {
            return Err(OpenError::Volume(reason.into()));
        }
        let state = self.log_state(&superblock).ok_or(OpenError::LogDeviceMissing)?;
        Ok(state.map_err(OpenError::Log)?.clean)
    }

    pub(super) fn open_journal(
        &self,
        access: VolumeAccess,
    ) -> Result<(Superblock, Arc<Journal>, OpenedJournal), OpenError> {
        let superblock = read_superblock(&self.data)?;
        if let Some(reason) = superblock.refusal(access) {
            return Err(OpenError::Volume(reason.into()));
        }
        if let Some(corruption) = self.cut_short(&superblock) {
            return Err(OpenError::Volume(corruption.into()));
        }
        let open_log = || {
            let log = self.log_of(&superblock).ok_or(OpenError::LogDeviceMissing)?;
            log.map_err(OpenError::Log)
        };
        self.check_realtime(&superblock, access)?;
        let log = open_log()?;
        let replayed = xfs_log::replay_all(self.data.clone(), &log, &superblock);
        let mut replayed = replayed.map_err(|error| match error {
            RecoveryError::Refused(refusal) => OpenError::DirtyLog(refusal),
            RecoveryError::Failed(source) => OpenError::Recovery(source),
        })?;
        if access == VolumeAccess::Replay {
            replayed.forget_realtime_intents();
        }
        check_age(&superblock, replayed.log_state())?;
        replayed.write_in_place(&log).map_err(OpenError::Recovery)?;
        let (superblock, state) = (replayed.superblock().clone(), *replayed.log_state());
        let cache = self.cache(self.data.clone(), &superblock);
        let (cache, config) = match self.options.options.clock {
            Clock::Fixed(_) => (cache.keep_seals(), LogConfig::by_count(log.geometry())),
            Clock::Host => {
                let usual = LogConfig::new(log.geometry());
                let slots = self.options.log_slots.unwrap_or(usual.slots);
                let config = LogConfig { slots, ..usual };
                let item_bytes = u64::from(superblock.geometry.block_size) + ITEM_BYTES;
                let config = match self.options.unwritten_bytes {
                    Some(bytes) => config.with_memory(bytes as u64, item_bytes),
                    None => config,
                };
                (cache, config)
            }
        };
        cache.set_log_head(state.head);
        let log = Log::open(open_log()?, self.flushed_device(&superblock), &state, &config);
        let journal = xfs_alloc::open_journal(Arc::new(cache), log, &superblock)?;
        if !self.options.keeps_pool {
            journal.dissolve_pool();
        }
        let options = match access {
            VolumeAccess::Write => self.options.quota,
            _ => QuotaOptions::all(QuotaMode::Off),
        };
        let start = QuotaStart { options, clock: self.options.options.clock };
        let opened = finish(&journal, &replayed, access, start)?;
        Ok((superblock, journal, opened))
    }
}

/// The result of finishing the open work of a log: a summary, and the started quota.
pub(super) struct OpenedJournal {
    pub(super) summary: Summary,
    /// Quota whose start has begun and is not complete. `None` if the options request no quota.
    quota: Option<Attachment>,
}

impl OpenedJournal {
    /// Completes the start of quota, if the options request quota.
    ///
    /// # Errors
    ///
    /// [`OpenError::Quota`] if quota cannot be started.
    pub(super) fn start_quota(
        self,
        journal: &Arc<Journal>,
    ) -> Result<Option<Arc<QuotaEngine>>, OpenError> {
        self.quota.map(|quota| quota.finish(journal)).transpose().map_err(OpenError::Quota)
    }
}

/// The settings with which quota starts when a volume is opened: the types to count and enforce,
/// and the clock for times.
#[derive(Clone, Copy)]
pub(super) struct QuotaStart {
    pub(super) options: QuotaOptions,
    pub(super) clock: Clock,
}

/// Finishes the intents that a crash left open in the log. Before that, starts quota as `start`
/// says. If `access` changes files and `start` counts nothing, clears the superblock's flags that
/// say that the quota counts were checked.
///
/// # Errors
///
/// [`OpenError::Quota`] if quota cannot be started, else [`OpenError::Recovery`].
pub(super) fn finish(
    journal: &Arc<Journal>,
    replayed: &Replayed,
    access: VolumeAccess,
    start: QuotaStart,
) -> Result<OpenedJournal, OpenError> {
    // The open intents hold the tail of the log from here on. A transaction before this line could
    // move the tail past them.
    let open = journal.adopt(replayed).map_err(OpenError::Recovery)?.into();
    realtime::open_space(journal, replayed, access).map_err(OpenError::Recovery)?;
    let options = resolve_modes(start.options, journal).map_err(OpenError::Quota)?;
    let quota = match options.is_on() {
        true => {
            let now = Box::new(move || start.clock.now());
            Some(Attachment::begin(journal, options, now).map_err(OpenError::Quota)?)
        }
        false => {
            quota::stop_counting(journal, replayed, access).map_err(OpenError::Recovery)?;
            None
        }
    };
    let mut finisher = Finisher { journal, open, captured: Vec::new() };
    let summary = finish_intents(replayed, &mut finisher).map_err(OpenError::Recovery)?;
    if access == VolumeAccess::Write {
        RealtimeSpace::start_zones(journal).map_err(OpenError::Recovery)?;
    }
    Ok(OpenedJournal { summary, quota })
}

/// Finishes the open intents of a log, one by one.
struct Finisher<'a> {
    journal: &'a Arc<Journal>,
    /// Intents that are not finished yet, in the order of the log.
    open: VecDeque<OpenIntent>,
    captured: Vec<Captured>,
}

impl IntentRecovery for Finisher<'_> {
    fn recover(&mut self, intent: &Intent) -> BufferResult<()> {
        let open = self.open.pop_front().expect("each intent of the log is open once");
        assert_eq!(open.id(), intent.id(), "intents are finished in the order of the log");
        let works = works(self.journal, &open)?;
        let (kind, blocks) = budget(self.journal, open.payloads());
        self.captured.push(self.journal.resume(&open, works, kind, blocks)?);
        Ok(())
    }

    fn finish(&mut self) -> BufferResult<()> {
        for captured in self.captured.drain(..) {
            captured.finish(self.journal)?;
        }
        Ok(())
    }

    fn free_unlinked(&mut self) -> BufferResult<FreedInodes> {
        let mut done = FreedInodes::default();
        // Freeing a realtime file changes structures of the realtime section. A recovery in memory
        // leaves the inodes on their lists: no directory names them.
        let has_section = self.journal.geometry().realtime.is_present();
        if has_section && RealtimeSpace::of(self.journal).is_none() {
            return Ok(done);
        }
        for group in self.journal.geometry().groups() {
            for list in xfs_alloc::unlinked_lists(self.journal.cache(), group)? {
                self.free_list(group, &list, &mut done)?;
            }
        }
        Ok(done)
    }

    fn free_copies(&mut self) -> BufferResult<()> {
        xfs_alloc::recover_leftovers(self.journal).map(drop)
    }
}

impl Finisher<'_> {
    /// Frees the inodes of an unlinked list. At an inode that cannot be read, the rest of the list
    /// is given up, as in the kernel. Taking later inodes out of the list would require a write to
    /// the inode that cannot be read.
    #[doc(alias = "xlog_recover_iunlink_bucket")]
    fn free_list(
        &self,
        group: AgNumber,
        list: &UnlinkedList,
        done: &mut FreedInodes,
    ) -> BufferResult<()> {
        let mut is_broken = list.damage.is_some();
        done.damaged += u64::from(is_broken);
        for (number, rest) in list.inodes.iter().zip((0..list.inodes.len()).rev()) {
            let live = match LiveInode::load(self.journal, *number) {
                Ok(live) => Arc::new(live),
                Err(error @ (BufferError::Io(_) | BufferError::Shutdown)) => return Err(error),
                Err(_) => {
                    is_broken = true;
                    done.damaged += rest as u64 + 1;
                    break;
                }
            };
            match live.inactivate(self.journal) {
                Ok(()) => done.freed += 1,
                Err(BufferError::Corrupt(_) | BufferError::Posix(_))
                    if !self.journal.is_shut_down() =>
                {
                    done.damaged += 1;
                }
                Err(error) => return Err(error),
            }
        }
        if is_broken { self.give_up(group, list.bucket) } else { Ok(()) }
    }

    /// Empties an unlinked list in which an inode cannot be read. After that, only xfs_repair can
    /// find the inodes that were on the list.
    fn give_up(&self, group: AgNumber, bucket: usize) -> BufferResult<()> {
        let tx = self.journal.begin(TransactionKind::ClearUnlinked, 0)?;
        tx.commit_or_cancel(|tx| xfs_alloc::clear_unlinked_list(tx, group, bucket))
    }
}

/// Returns the deferred work that finishes one intent, an item for each change in the intent.
fn works(journal: &Arc<Journal>, open: &OpenIntent) -> BufferResult<Vec<Box<dyn Deferred>>> {
    let mut works: Vec<Box<dyn Deferred>> = Vec::new();
    for payload in open.payloads() {
        match payload {
            IntentPayload::Map(_) | IntentPayload::Exchange(_) => {
                works.extend(xfs_inode::resume(journal, payload)?);
            }
            IntentPayload::Attr(attribute) => {
                let live = Arc::new(LiveInode::load(journal, attribute.inode)?);
                works.push(xfs_dir::resume_attribute(&live, attribute)?);
            }
            _ => works.extend(xfs_alloc::resume(journal.geometry(), payload)?),
        }
    }
    Ok(works)
}

/// Returns the kind of the transactions that finish these intents, and the number of blocks that
/// each of them reserves.
fn budget(journal: &Journal, payloads: &[IntentPayload]) -> (TransactionKind, u64) {
    let geometry = journal.geometry();
    match payloads.first() {
        Some(IntentPayload::Attr(attribute)) => {
            (TransactionKind::SetAttr, attribute_blocks(geometry, attribute))
        }
        Some(IntentPayload::Map(_) | IntentPayload::Exchange(_)) => {
            let blocks = LiveInode::grow_blocks(geometry, xfs_format::inode::ForkKind::Data, 1);
            (TransactionKind::Truncate, blocks)
        }
        _ => (TransactionKind::Truncate, 0),
    }
}

/// Returns the number of blocks to reserve for finishing an attribute intent. A removal reserves
/// few, because a crash may have left many removals open on a full volume.
fn attribute_blocks(geometry: &Geometry, attribute: &AttrPayload) -> u64 {
    match attribute.operation {
        AttrOperation::Remove | AttrOperation::ParentRemove => {
            xfs_dir::attribute_removal_blocks(geometry)
        }
        _ => {
            let (name, value) = (attribute.name.len(), attribute.value.len());
            xfs_dir::attribute_blocks(geometry, name, value)
        }
    }
}
