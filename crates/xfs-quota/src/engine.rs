//! The quota of a volume that counts usage.
//!
//! Owns: which types of owners are counted and enforced, the dquots in memory, the quota inodes,
//! and allocating blocks of dquots. Does **not** own: when a change is counted (`xfs-trans`, which
//! calls this through [`QuotaLedger`]), or counting all inodes ([`quotacheck`](super::quotacheck)).
//!
//! # Invariants
//!
//! - **Q3** Every owner of an inode has a dquot on disk. Operations that give an inode a new owner
//!   allocate the dquot first. Quotacheck allocates the dquots for the owners of all existing
//!   inodes. If an owner lacks its dquot nevertheless, the volume was damaged before, and all usage
//!   of this type of owner is counted again later.
//! - **Q4** An owner has at most one dquot in memory. The shard to which the block of the dquot
//!   belongs finds the dquot.
//!
//! Lock order: latches of inodes, a shard, buffers. The lock of a slot of [`recent`] is a leaf. A
//! shard is locked while a block is read, which
//! delays only operations on owners of the same shard.

mod limits;
mod recent;
mod set;
mod shard;

use std::sync::Arc;

use xfs_buffer::{Error, PosixError, Result};
use xfs_format::dquot::{DquotDisk, DquotPlace, QuotaFlags, QuotaKind, fill_block};
use xfs_format::inode::ForkKind;
use xfs_format::reservation::TransactionKind;
use xfs_format::timestamp::Timestamp;
use xfs_format::{FormatVersion, InodeNumber};
use xfs_inode::{LiveInode, Mapping, map_blocks};
use xfs_sync::{AtomicU32, AtomicU64, Mutex, Ordering, SetOnce, Volume};
use xfs_trans::{
    Dquot, DquotFields, Journal, OwnerDquots, QuotaAmount, QuotaLedger, QuotaOwners, Transaction,
};

use crate::quota_file::{DQUOT_BLOCK, first_id};
use crate::superblock;
use limits::DefaultLimits;
use recent::RecentDquots;
use shard::DquotShards;

/// A function that returns the current time.
pub type QuotaClock = Box<dyn Fn() -> Timestamp + Send + Sync>;

/// The quota inode of one type, and its default limits.
#[derive(Default)]
pub(crate) struct KindState {
    pub(crate) file: SetOnce<Arc<LiveInode>, Volume>,
    pub(crate) defaults: DefaultLimits,
}

/// The quota of a volume that counts usage.
#[doc(alias = "xfs_quotainfo")]
pub struct QuotaEngine {
    /// The flags for the types that are counted now, and for the types whose limits are enforced.
    active: AtomicU32<Volume>,
    /// The types whose counts damage has made wrong. Each type is represented by its flag for
    /// checked counts.
    damaged: AtomicU32<Volume>,
    /// The flags in `damaged` that a transaction has cleared in the superblock, or is about to
    /// clear.
    given_up: AtomicU32<Volume>,
    kinds: [KindState; 3],
    /// The numbers of the quota inodes, including those of types that are not counted; 0 for a type
    /// without a quota inode.
    exempt: [AtomicU64<Volume>; 3],
    shards: DquotShards,
    recent: RecentDquots,
    /// A lock that is held while a block of dquots is allocated.
    growing: Mutex<(), Volume>,
    clock: QuotaClock,
}

impl QuotaEngine {
    /// Makes the quota of a volume, which counts nothing yet.
    pub(crate) fn new(clock: QuotaClock, found: [Option<InodeNumber>; 3]) -> Self {
        Self {
            active: AtomicU32::new(0),
            damaged: AtomicU32::new(0),
            given_up: AtomicU32::new(0),
            kinds: Default::default(),
            exempt: found.map(|number| AtomicU64::new(number.map_or(0, |number| number.0))),
            shards: DquotShards::new(),
            recent: RecentDquots::new(),
            growing: Mutex::new(()),
            clock,
        }
    }

    pub(crate) fn kind(&self, kind: QuotaKind) -> &KindState {
        let [user, group, project] = &self.kinds;
        match kind {
            QuotaKind::User => user,
            QuotaKind::Group => group,
            QuotaKind::Project => project,
        }
    }

    /// Records the quota inode of a type.
    ///
    /// # Panics
    ///
    /// Panics if the quota inode of the type is known already.
    pub(crate) fn set_file(&self, kind: QuotaKind, file: Arc<LiveInode>) {
        let number = file.number();
        let set = self.kind(kind).file.set(file);
        assert!(set.is_ok(), "the quota inode of a type is loaded once");
        let [user, group, project] = &self.exempt;
        let exempt = match kind {
            QuotaKind::User => user,
            QuotaKind::Group => group,
            QuotaKind::Project => project,
        };
        exempt.store(number.0, Ordering::Relaxed);
    }

    /// Returns the quota inode of a type that is counted or is about to be.
    pub(crate) fn file(&self, kind: QuotaKind) -> Result<&Arc<LiveInode>> {
        self.kind(kind).file.value().ok_or_else(|| PosixError::NoQuota.into())
    }

    /// Starts to count the types in `flags`, and to enforce their limits if `flags` has the
    /// enforced flag of the type. The quota inodes of these types must be known, and their counts
    /// must be right.
    pub(crate) fn start(&self, flags: QuotaFlags) {
        self.active.fetch_or(flags.bits().into(), Ordering::Release);
    }

    /// Returns whether the limits of a type are enforced.
    #[must_use]
    pub fn enforces(&self, kind: QuotaKind) -> bool {
        self.active().contains(kind.enforced_flag())
    }

    fn active(&self) -> QuotaFlags {
        QuotaFlags::from_bits_retain(self.active.load(Ordering::Acquire) as u16)
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    fn now_seconds(&self) -> u64 {
        u64::try_from(self.now().seconds()).unwrap_or(0)
    }

    /// Returns the dquot of an owner. Reads the dquot if it is not in memory. Returns `None` if the
    /// block of the dquot is not allocated.
    ///
    /// # Errors
    ///
    /// Returns the device's error, the check that failed, or ESRCH for a type without a quota
    /// inode.
    pub(crate) fn find(
        &self,
        journal: &Journal,
        kind: QuotaKind,
        id: u32,
    ) -> Result<Option<Arc<Dquot>>> {
        let place = DquotPlace::of(id, journal.geometry());
        let mut shard = self.shards.of(kind, place.block).lock();
        if let Some(dquot) = shard.find(kind, id) {
            return Ok(Some(dquot));
        }
        let file = self.file(kind)?;
        if !is_mapped(journal, file, place)? {
            return Ok(None);
        }
        shard.read(journal, file, kind, id).map(Some)
    }

    /// Loads the default limits of a type from the dquot of ID 0.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`find`](Self::find).
    pub(crate) fn load_defaults(&self, journal: &Journal, kind: QuotaKind) -> Result<()> {
        if let Some(dquot) = self.find(journal, kind, 0)? {
            dquot.with(|fields| self.kind(kind).defaults.set(&fields.disk));
        }
        Ok(())
    }

    /// Allocates the block that holds the dquot of an owner, unless the block is allocated already.
    ///
    /// # Errors
    ///
    /// Returns ENOSPC if the volume has no space for the block, the device's error, or the error
    /// that stopped the log.
    #[doc(alias = "xfs_dquot_disk_alloc")]
    pub(crate) fn allocate(&self, journal: &Arc<Journal>, kind: QuotaKind, id: u32) -> Result<()> {
        let (file, place) = (self.file(kind)?, DquotPlace::of(id, journal.geometry()));
        // Another thread's mapping is visible before its block is filled and committed.
        let _growing = self.growing.lock();
        if is_mapped(journal, file, place)? {
            return Ok(());
        }
        let blocks = 1 + map_blocks(journal.geometry(), ForkKind::Data);
        let tx = journal.begin(TransactionKind::AllocateQuota, blocks)?;
        let is_full = tx.commit_or_cancel(|tx| {
            tx.join(file.log_item());
            if is_mapped(journal, file, place)? {
                return Ok(false);
            }
            match add_block(tx, file, kind, place) {
                // The search may have refilled free lists, which is committed.
                Err(Error::Posix(PosixError::NoSpace)) => Ok(true),
                added => added.map(|()| false),
            }
        })?;
        if is_full { Err(PosixError::NoSpace.into()) } else { Ok(()) }
    }
}

fn is_mapped(journal: &Journal, file: &LiveInode, place: DquotPlace) -> Result<bool> {
    let mapping = file.inode().find(journal.cache(), ForkKind::Data, place.block)?;
    Ok(matches!(mapping, Mapping::Extent(_)))
}

/// Adds a block to a quota inode, and fills the block with dquots that have no limits and no usage.
fn add_block(
    tx: &mut Transaction<'_>,
    file: &LiveInode,
    kind: QuotaKind,
    place: DquotPlace,
) -> Result<()> {
    let buffer = file.grow_fork(tx, ForkKind::Data, place.block, DQUOT_BLOCK)?;
    let first = first_id(place.block, tx.cache()).expect("the place of an ID has a first ID");
    let (length, geometry) = (buffer.length_bytes() as usize, tx.geometry());
    tx.change(&buffer, 0..length, |bytes| fill_block(bytes, kind, first, geometry));
    Ok(())
}

impl QuotaLedger for QuotaEngine {
    fn counts(&self, kind: QuotaKind) -> bool {
        self.active().contains(kind.accounted_flag())
    }

    fn is_exempt(&self, inode: InodeNumber) -> bool {
        self.exempt.iter().any(|number| number.load(Ordering::Relaxed) == inode.0)
    }

    fn dquots(&self, journal: &Journal, owners: QuotaOwners) -> Result<OwnerDquots> {
        let active = self.active();
        let is_counted = |kind: QuotaKind| active.contains(kind.accounted_flag());
        let (mut dquots, is_whole) = self.recent.find(owners, is_counted);
        if is_whole {
            return Ok(dquots);
        }
        for (kind, dquot) in QuotaKind::ALL.into_iter().zip(&mut dquots) {
            if dquot.is_none() && is_counted(kind) {
                *dquot = self.dquot(journal, kind, owners.id(kind))?;
            }
        }
        self.recent.keep(&dquots);
        Ok(dquots)
    }

    fn dquot(&self, journal: &Journal, kind: QuotaKind, id: u32) -> Result<Option<Arc<Dquot>>> {
        match self.find(journal, kind, id) {
            Ok(Some(dquot)) => Ok(Some(dquot)),
            // Q3 does not hold, or the block is damaged or cannot be read. A device that cannot
            // read a dquot must not stop the changes of files.
            Ok(None) | Err(Error::Corrupt(_) | Error::Io(_)) => {
                self.note_damaged(kind, id);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn note_damaged(&self, kind: QuotaKind, id: u32) {
        let flag = kind.checked_flag(FormatVersion::V5).bits();
        if self.damaged.fetch_or(flag.into(), Ordering::AcqRel) & u32::from(flag) == 0 {
            tracing::warn!(kind = kind.name(), id, "quota: a dquot is missing or damaged");
        }
    }

    fn ensure(&self, journal: &Arc<Journal>, kind: QuotaKind, id: u32) -> Result<()> {
        let place = DquotPlace::of(id, journal.geometry());
        // Q4: the shard has the only dquot of the owner.
        if self.shards.of(kind, place.block).lock().find(kind, id).is_some() {
            return Ok(());
        }
        self.allocate(journal, kind, id)
    }

    fn give_up_damaged(&self, journal: &Arc<Journal>) -> Result<()> {
        let damaged = self.damaged.load(Ordering::Acquire);
        if damaged & !self.given_up.load(Ordering::Acquire) == 0 || journal.is_shut_down() {
            return Ok(());
        }
        let new = damaged & !self.given_up.fetch_or(damaged, Ordering::AcqRel);
        let damaged = QuotaFlags::from_bits_retain(new as u16);
        superblock::change_flags(journal, |flags| flags.difference(damaged))
    }

    fn adjust(&self, kind: QuotaKind, disk: &mut DquotDisk) {
        if disk.id.get() != 0 {
            self.kind(kind).defaults.fill(disk);
            self.kind(kind).defaults.set_timers(disk, || self.now_seconds());
        }
    }

    fn check(&self, kind: QuotaKind, fields: &DquotFields, wanted: QuotaAmount) -> Result<()> {
        let is_free = fields.disk.id.get() == 0 || !self.enforces(kind);
        if is_free || self.kind(kind).defaults.allow(fields, wanted, || self.now_seconds()) {
            return Ok(());
        }
        Err(match kind {
            QuotaKind::User | QuotaKind::Group => PosixError::QuotaExceeded,
            QuotaKind::Project => PosixError::NoSpace,
        }
        .into())
    }

    fn ahead(&self, kind: QuotaKind, fields: &DquotFields, wanted: QuotaAmount) -> QuotaAmount {
        if fields.disk.id.get() == 0 || !self.enforces(kind) {
            return wanted;
        }
        self.kind(kind).defaults.blocks_ahead(fields, wanted)
    }
}

impl core::fmt::Debug for QuotaEngine {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("QuotaEngine").field("active", &self.active()).finish_non_exhaustive()
    }
}
