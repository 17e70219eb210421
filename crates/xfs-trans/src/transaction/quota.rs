//! Counting of quota: each step logs, with the inodes that it changes, the dquots that count them.
//!
//! Owns: the difference between the charge of an inode before a step and the charge after the step,
//! the reservations of a transaction, and the dquots that a commit holds latched. Does **not** own:
//! the dquots, and the decision which of them exist, which limits hold and when timers run
//! ([`QuotaLedger`]).
//!
//! The charge of an inode is a function of its core: one inode, its blocks, and its three owners.
//! So no operation counts anything itself. Before the first change of an inode in a step, the
//! transaction remembers the charge. The commit compares it with the new core. This holds for
//! creating and freeing inodes, changes of maps, and changes of owner, also when recovery finishes
//! intents.
//!
//! The core does not say how many of the blocks are in the realtime section. The change of a map
//! says by how many they change ([`Transaction::count_realtime`]). A change of owner says how many
//! the file has ([`Transaction::move_realtime`]).
//!
//! # Invariants
//!
//! - **Q1** If the disk has a change of usage that no dquot counts, no checked bit of the affected
//!   quota type is set.
//! - **Q2** A step's inodes and the dquots that count them are in one commit. After a crash the log
//!   has both or neither.
//!
//! docs/internals/quota.md has the proofs.

mod usage;

use std::sync::Arc;

use xfs_buffer::{PosixError, Result};
use xfs_format::InodeNumber;
use xfs_format::dquot::{DquotDisk, QuotaKind};
use xfs_format::inode::{InodeCore, InodeFlags2};
use xfs_log::LogItem;
use xfs_sync::{SetOnce, Volume};

use super::{StepEnd, Transaction};
use crate::dquot_item::{Dquot, DquotFields, QuotaAmount};
use crate::inode_item::InodeRecord;
use crate::journal::Journal;
use usage::{DquotDelta, UsageChange, UsageChanges, count};

/// The dquots of a volume that counts usage.
#[doc(alias = "xfs_quotainfo")]
pub trait QuotaLedger: Send + Sync {
    /// Returns whether the usage of a type of owner is counted.
    fn counts(&self, kind: QuotaKind) -> bool;

    /// Returns whether an inode is a quota inode, which is charged to no owner.
    fn is_exempt(&self, inode: InodeNumber) -> bool;

    /// Returns the dquot of an owner. Reads the dquot from disk if it is not in memory. Returns
    /// `None` if the owner has no valid dquot on disk; the ledger then ensures that a later mount
    /// counts all usage again.
    ///
    /// # Errors
    ///
    /// Returns the device's error.
    fn dquot(&self, journal: &Journal, kind: QuotaKind, id: u32) -> Result<Option<Arc<Dquot>>>;

    /// Returns the dquots of an inode's owners, in the order of [`QuotaKind::ALL`], as
    /// [`dquot`](Self::dquot) returns each of them. A type that is not counted has `None`.
    ///
    /// # Errors
    ///
    /// Returns the device's error.
    fn dquots(&self, journal: &Journal, owners: QuotaOwners) -> Result<OwnerDquots> {
        let mut dquots = OwnerDquots::default();
        for (kind, dquot) in QuotaKind::ALL.into_iter().zip(&mut dquots) {
            if self.counts(kind) {
                *dquot = self.dquot(journal, kind, owners.id(kind))?;
            }
        }
        Ok(dquots)
    }

    /// Records that the counts of an owner are wrong, so that a later mount counts all usage again.
    fn note_damaged(&self, kind: QuotaKind, id: u32);

    /// Allocates the dquot of an owner on disk, unless the dquot exists. The allocation takes a
    /// transaction of its own, so the caller must hold no latch. Every owner of an inode has a
    /// dquot (Q3 in docs/internals/quota.md).
    ///
    /// # Errors
    ///
    /// Returns [`PosixError::NoSpace`] if the volume has no space for the dquot, or the error that
    /// stopped the log.
    fn ensure(&self, journal: &Arc<Journal>, kind: QuotaKind, id: u32) -> Result<()>;

    /// Records in the superblock that counts are wrong, if damage that was met since the last call
    /// has made them wrong. Every chain that could not count a change calls this function after its
    /// last commit, so a call without new damage must be cheap.
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the log.
    fn give_up_damaged(&self, journal: &Arc<Journal>) -> Result<()>;

    /// Updates the limits and timers in `disk` after a change of the usage in it.
    fn adjust(&self, kind: QuotaKind, disk: &mut DquotDisk);

    /// Checks that the limits of an owner permit `wanted` in addition to the space that it uses and
    /// has reserved.
    ///
    /// # Errors
    ///
    /// If a limit would be exceeded, returns [`PosixError::QuotaExceeded`] for a user or group, and
    /// [`PosixError::NoSpace`] for a project.
    fn check(&self, kind: QuotaKind, fields: &DquotFields, wanted: QuotaAmount) -> Result<()>;

    /// Returns how many blocks, at most `wanted`, may be preallocated for an owner. Near a limit
    /// the number is lower, so that preallocation does not use up blocks that other files of the
    /// owner need.
    #[doc(alias = "xfs_quota_calc_throttle")]
    fn ahead(&self, kind: QuotaKind, fields: &DquotFields, wanted: QuotaAmount) -> QuotaAmount;
}

/// The dquots of an inode's owners, in the order of [`QuotaKind::ALL`].
pub type OwnerDquots = [Option<Arc<Dquot>>; QuotaKind::ALL.len()];

/// The ledger of a volume; not set while the volume counts nothing.
pub(crate) type Ledger = SetOnce<Arc<dyn QuotaLedger>, Volume>;

/// The owners of an inode: the IDs of its user, group and project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaOwners {
    /// The user ID.
    pub uid: u32,
    /// The group ID.
    pub gid: u32,
    /// The project ID.
    pub project_id: u32,
}

impl QuotaOwners {
    /// Returns the owners of an inode.
    #[must_use]
    pub const fn of(core: &InodeCore) -> Self {
        Self { uid: core.uid, gid: core.gid, project_id: core.project_id }
    }

    /// Returns the ID of the inode's owner of this kind: user, group or project.
    #[must_use]
    pub const fn id(&self, kind: QuotaKind) -> u32 {
        match kind {
            QuotaKind::User => self.uid,
            QuotaKind::Group => self.gid,
            QuotaKind::Project => self.project_id,
        }
    }
}

/// The usage that quota counts for one inode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Charge {
    /// The inode is free, or belongs to the filesystem itself.
    Nothing,
    /// One inode and its blocks, those of the realtime section included, are charged to its owners.
    Inode(QuotaOwners, u64),
}

/// The blocks of a changed inode that are in the realtime section.
#[derive(Clone, Copy, Default)]
pub(super) struct RealtimeBlocks {
    /// The number of these blocks before the step. 0 if the owners stay: only the change counts
    /// then.
    pub(super) before: u64,
    /// The change in the step.
    pub(super) gained: i64,
}

impl RealtimeBlocks {
    fn before(self) -> i128 {
        self.before.into()
    }

    fn after(self) -> i128 {
        self.before() + i128::from(self.gained)
    }
}

impl Charge {
    fn of(core: &InodeCore) -> Self {
        if core.is_free() || core.flags2.contains(InodeFlags2::METADATA) {
            Self::Nothing
        } else {
            Self::Inode(QuotaOwners::of(core), core.blocks)
        }
    }

    /// Returns the owners and the charged usage, of which `rt_blocks` blocks are in the realtime
    /// section. Returns `None` if no owner is charged.
    fn usage(self, rt_blocks: i128) -> Option<(QuotaOwners, UsageChange)> {
        match self {
            Self::Nothing => None,
            Self::Inode(owners, blocks) => Some((owners, UsageChange::of_inode(blocks, rt_blocks))),
        }
    }
}

/// The lists of a transaction's quota: the reservations, the changes of usage while a step is
/// committed, and the dquots that a commit holds latched.
#[derive(Default)]
pub(super) struct QuotaLists {
    reserved: QuotaReservation,
    changes: UsageChanges,
    latched: Vec<Arc<Dquot>>,
}

impl QuotaLists {
    /// Returns whether all lists are empty.
    pub(super) const fn is_empty(&self) -> bool {
        self.reserved.parts.is_empty() && self.changes.is_empty() && self.latched.is_empty()
    }

    /// Unlatches the dquots of a step that is committed.
    fn end_step(&mut self) {
        self.latched.drain(..).for_each(|dquot| dquot.unlock());
    }

    /// Returns the number of elements that fit into the allocated memory of the longest list.
    pub(super) fn capacity(&self) -> usize {
        let others = self.changes.capacity().max(self.latched.capacity());
        self.reserved.parts.capacity().max(others)
    }
}

/// The quota state of a transaction: its reservations, the changes to count, and the dquots that it
/// holds latched.
#[derive(Default)]
pub(super) struct TransactionQuota {
    /// The lists. A transaction of a volume that counts nothing has none, so that its end has one
    /// pointer to look at.
    lists: Option<Box<QuotaLists>>,
    /// Whether some step has changed an inode whose usage could not be counted, because an owner
    /// has no valid dquot.
    has_lost: bool,
    /// Whether the chain belongs to recovery, which must not wait for log space.
    is_recovery: bool,
}

impl TransactionQuota {
    /// Creates the quota of a new transaction, with the memory of these empty lists, if there are
    /// any.
    #[inline]
    pub(super) const fn new(lists: Option<Box<QuotaLists>>) -> Self {
        Self { lists, has_lost: false, is_recovery: false }
    }

    /// Takes the empty lists out of a transaction that has ended, so that the next transaction can
    /// use their memory.
    #[inline]
    pub(super) const fn take_lists(&mut self) -> Option<Box<QuotaLists>> {
        self.lists.take()
    }

    fn lists(&mut self) -> &mut QuotaLists {
        self.lists.get_or_insert_default()
    }

    /// Marks the chain as one of recovery. At the end of such a chain, changes that could not be
    /// counted are left to the caller of the recovery.
    pub(super) const fn set_recovery(&mut self) {
        self.is_recovery = true;
    }

    /// Unlatches the dquots of a step that is committed.
    #[inline]
    pub(super) fn end_step(&mut self) {
        if let Some(lists) = &mut self.lists {
            lists.end_step();
        }
    }

    /// Ends the transaction: unlatches its dquots and releases the rest of its reservations.
    #[inline]
    pub(super) fn end(&mut self) {
        if let Some(lists) = &mut self.lists {
            lists.end_step();
            lists.changes.clear();
            lists.reserved.release();
        }
    }

    /// Excludes the latched dquots from write-back. Called if the step is not committed, because
    /// its changes must not reach the disk.
    pub(super) fn abandon(&self) {
        let lists = self.lists.iter();
        lists.flat_map(|lists| &lists.latched).for_each(|dquot| dquot.abandon());
    }
}

fn release(dquot: &Dquot, amount: QuotaAmount) {
    if amount == QuotaAmount::default() {
        return;
    }
    dquot.with_reserved(|fields| fields.reserved = minus(fields.reserved, amount));
}

fn minus(all: QuotaAmount, part: QuotaAmount) -> QuotaAmount {
    all.checked_sub(part).expect("a reservation is released once")
}

impl Transaction<'_> {
    /// Returns whether the volume counts usage.
    #[must_use]
    #[inline]
    pub fn counts_quota(&self) -> bool {
        self.journal.ledger.value().is_some()
    }

    /// Stores the quota charge of a joined inode before its first change in this step of the chain,
    /// so that the commit can count the difference. `core` is the core before the change. Does
    /// nothing if the volume counts nothing.
    #[inline]
    pub fn remember_charge(&mut self, record: &InodeRecord, core: &InodeCore) {
        if self.counts_quota() {
            self.inodes.remember(record, || Charge::of(core));
        }
    }

    /// Stores, as [`remember_charge`](Self::remember_charge) does, that a joined inode was free
    /// before this step of the chain.
    #[inline]
    pub fn remember_free(&mut self, record: &InodeRecord) {
        if self.counts_quota() {
            self.inodes.remember(record, || Charge::Nothing);
        }
    }

    /// Counts `gained` more blocks of the realtime section for an inode whose charge this step
    /// remembers. The caller changes the core in the same step. Does nothing if the volume counts
    /// nothing.
    #[doc(alias = "XFS_TRANS_DQ_RTBCOUNT")]
    pub fn count_realtime(&mut self, record: &InodeRecord, gained: i64) {
        if self.counts_quota() {
            self.inodes.realtime(record).gained += gained;
        }
    }

    /// Says that this step gives other owners to an inode that now has `blocks` blocks of the
    /// realtime section. Does nothing if the volume counts nothing.
    pub fn move_realtime(&mut self, record: &InodeRecord, blocks: u64) {
        if self.counts_quota() {
            let realtime = self.inodes.realtime(record);
            let before = blocks.checked_add_signed(-realtime.gained);
            realtime.before = before.expect("a step gains only blocks that the file then has");
        }
    }

    /// Reserves space for an operation of this transaction, for all owners of an inode or for none.
    /// The commit uses the reservation, and the end of the chain releases the rest. Does nothing if
    /// the volume counts nothing. The caller has changed nothing yet.
    ///
    /// # Errors
    ///
    /// If the space would exceed an owner's limit, returns [`PosixError::QuotaExceeded`] or, for a
    /// project, [`PosixError::NoSpace`].
    #[doc(alias = "xfs_trans_reserve_quota")]
    pub fn reserve_quota(&mut self, owners: QuotaOwners, wanted: QuotaAmount) -> Result<()> {
        if !self.counts_quota() {
            return Ok(());
        }
        let reserved = &mut self.quota.lists().reserved;
        if reserved.parts.is_empty() {
            // The usual case, without a list of its own. A refusal releases all of it.
            return reserved
                .reserve_all(self.journal, owners, wanted)
                .inspect_err(|_| reserved.release());
        }
        self.use_reservation(QuotaReservation::take(self.journal, owners, wanted)?);
        Ok(())
    }

    /// Reserves space for one owner as [`reserve_quota`](Self::reserve_quota) does for all owners
    /// of an inode.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`reserve_quota`](Self::reserve_quota).
    pub fn reserve_quota_of(
        &mut self,
        kind: QuotaKind,
        id: u32,
        wanted: QuotaAmount,
    ) -> Result<()> {
        let mut taken = QuotaReservation::default();
        taken.reserve(self.journal, kind, id, wanted)?;
        self.use_reservation(taken);
        Ok(())
    }

    /// Makes a reservation of quota part of this transaction, whose commits use it.
    pub fn use_reservation(&mut self, reservation: QuotaReservation) {
        if !reservation.parts.is_empty() {
            self.quota.lists().reserved.add(reservation);
        }
    }

    /// Counts the changes of the inodes of this step in their dquots. Latches these dquots and adds
    /// them to `items` (Q2). The latches are released once the step is committed.
    pub(super) fn count_quota(
        &mut self,
        items: &mut Vec<Arc<dyn LogItem>>,
        end: StepEnd,
    ) -> Result<()> {
        let Some(ledger) = self.journal.ledger.value() else { return Ok(()) };
        let (journal, ledger) = (&**self.journal, &**ledger);
        let TransactionQuota { lists, has_lost, .. } = &mut self.quota;
        let QuotaLists { reserved, changes, latched } = &mut **lists.get_or_insert_default();
        for (record, before, realtime) in self.inodes.charges() {
            let after = record.with_known_core(|core| core.map_or(before, Charge::of));
            // Q2: this commit holds the inode and its dquots.
            let is_changed = before != after || realtime.gained != 0;
            if is_changed && !ledger.is_exempt(record.number()) {
                changes.add(before, after, realtime);
            }
        }
        if changes.is_empty() {
            return Ok(());
        }
        let mut step = CountedStep { ledger, reserved, latched, items, end, has_lost };
        match changes.by_owners.as_slice() {
            [(owners, change)] => step.count_owners(journal, *owners, *change)?,
            _ => {
                changes.sort(ledger);
                for delta in &changes.by_owner {
                    step.count_owner(journal, delta)?;
                }
            }
        }
        changes.clear();
        Ok(())
    }

    /// Clears the "checked" bit of each quota type for which this chain could not count a change
    /// (Q1), so that a later mount counts all usage again. Called when the chain has ended and
    /// holds no latch, because clearing the bits takes a transaction of its own. Recovery clears
    /// the bits itself when it has finished all intents.
    pub(super) fn give_up_lost(&self) -> Result<()> {
        match self.journal.ledger.value() {
            // Q1: a change that was not counted takes the checked bit.
            Some(ledger) if self.quota.has_lost && !self.quota.is_recovery => {
                ledger.give_up_damaged(self.journal)
            }
            _ => Ok(()),
        }
    }

    /// Changes a dquot in this step, and logs it. A step that calls this function for several
    /// dquots must call it in the order of type and ID, and must not change any inode.
    pub fn change_dquot(&mut self, dquot: &Arc<Dquot>, change: impl FnOnce(&mut DquotDisk)) {
        dquot.lock();
        self.quota.lists().latched.push(Arc::clone(dquot));
        dquot.change(|fields| change(&mut fields.disk));
        self.items.push(Arc::clone(dquot) as Arc<dyn LogItem>);
    }
}

/// A step whose changes of usage are being counted.
struct CountedStep<'a> {
    ledger: &'a dyn QuotaLedger,
    reserved: &'a mut QuotaReservation,
    latched: &'a mut Vec<Arc<Dquot>>,
    items: &'a mut Vec<Arc<dyn LogItem>>,
    end: StepEnd,
    has_lost: &'a mut bool,
}

impl CountedStep<'_> {
    /// Counts a change that is the same for all owners of an inode.
    fn count_owners(
        &mut self,
        journal: &Journal,
        owners: QuotaOwners,
        change: UsageChange,
    ) -> Result<()> {
        if change.is_empty() {
            return Ok(());
        }
        // A reservation of all owners has their dquots, in this order.
        if self.reserved.is_of(owners) {
            for index in 0..self.reserved.parts.len() {
                let part = self.reserved.parts.get_mut(index).expect("an index below the length");
                let (dquot, used) = part.use_up(&change, self.end);
                self.count(dquot, &change, used);
            }
            return Ok(());
        }
        let dquots = self.ledger.dquots(journal, owners)?;
        for (kind, dquot) in QuotaKind::ALL.into_iter().zip(dquots) {
            if self.ledger.counts(kind) {
                let delta = DquotDelta { kind, id: owners.id(kind), change };
                self.count_found(dquot, &delta);
            }
        }
        Ok(())
    }

    /// Counts a change of one owner.
    fn count_owner(&mut self, journal: &Journal, delta: &DquotDelta) -> Result<()> {
        if delta.change.is_empty() {
            return Ok(());
        }
        let dquot = self.ledger.dquot(journal, delta.kind, delta.id)?;
        self.count_found(dquot, delta);
        Ok(())
    }

    fn count_found(&mut self, dquot: Option<Arc<Dquot>>, delta: &DquotDelta) {
        let Some(dquot) = dquot else {
            *self.has_lost = true;
            return;
        };
        let used = match self.reserved.part_of(&dquot) {
            Some(part) => part.use_up(&delta.change, self.end).1,
            None => QuotaAmount::default(),
        };
        self.count(dquot, &delta.change, used);
    }

    /// Adds a change to the counts of a dquot, and logs the dquot. `used` is the part of the
    /// reservation that ends now.
    fn count(&mut self, dquot: Arc<Dquot>, change: &UsageChange, used: QuotaAmount) {
        let (ledger, kind) = (self.ledger, dquot.kind());
        dquot.lock();
        let fits = dquot.change(|fields| {
            fields.reserved = minus(fields.reserved, used);
            let fits = count(&mut fields.disk, change);
            ledger.adjust(kind, &mut fields.disk);
            fits
        });
        if !fits {
            ledger.note_damaged(kind, dquot.id());
            *self.has_lost = true;
        }
        self.items.push(Arc::clone(&dquot) as Arc<dyn LogItem>);
        self.latched.push(dquot);
    }
}

/// Space that is reserved for owners. Dropping it releases the space.
#[derive(Debug, Default)]
#[must_use = "a reservation that is dropped is released"]
pub struct QuotaReservation {
    parts: Vec<ReservedQuota>,
}

/// Space that is reserved for one owner.
#[derive(Debug)]
struct ReservedQuota {
    dquot: Arc<Dquot>,
    left: QuotaAmount,
}

impl ReservedQuota {
    /// Takes the space that `change` uses out of the reservation, because the dquot now counts it
    /// as used. At the end of the chain, takes all that is left, which no later step can use.
    /// Returns the dquot and the amount.
    fn use_up(&mut self, change: &UsageChange, end: StepEnd) -> (Arc<Dquot>, QuotaAmount) {
        let used = match end {
            StepEnd::Last => self.left,
            StepEnd::Roll => self.left.min(change.gained()),
        };
        self.left = minus(self.left, used);
        (Arc::clone(&self.dquot), used)
    }
}

impl Drop for QuotaReservation {
    fn drop(&mut self) {
        self.release();
    }
}

impl QuotaReservation {
    /// Releases all reserved space.
    fn release(&mut self) {
        self.parts.drain(..).for_each(|part| release(&part.dquot, part.left));
    }

    /// Reserves `amount` for each of the owners, one after the other. If a limit of one of them
    /// forbids it, returns the error; `self` keeps the reservations for the owners before that one.
    fn reserve_all(
        &mut self,
        journal: &Journal,
        owners: QuotaOwners,
        amount: QuotaAmount,
    ) -> Result<()> {
        let Some(ledger) = journal.ledger.value() else { return Ok(()) };
        let mut dquots = ledger.dquots(journal, owners)?.into_iter().flatten();
        dquots.try_for_each(|dquot| self.reserve_of(&**ledger, dquot, amount))
    }

    /// Reserves `amount` for each of the owners, on a volume that counts usage. If a limit of one
    /// of them forbids it, reserves nothing.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`QuotaLedger::check`] and [`QuotaLedger::dquot`].
    pub fn take(journal: &Journal, owners: QuotaOwners, amount: QuotaAmount) -> Result<Self> {
        let mut taken = Self::default();
        taken.reserve_all(journal, owners, amount)?;
        Ok(taken)
    }

    /// Returns how many blocks, at most `wanted`, may be preallocated for a file of these owners.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`QuotaLedger::dquot`].
    pub fn blocks_ahead(
        journal: &Journal,
        owners: QuotaOwners,
        wanted: QuotaAmount,
    ) -> Result<QuotaAmount> {
        let Some(ledger) = journal.ledger.value() else { return Ok(wanted) };
        let mut least = wanted;
        for dquot in ledger.dquots(journal, owners)?.into_iter().flatten() {
            let ahead = |fields: &DquotFields| ledger.ahead(dquot.kind(), fields, least);
            least = dquot.with(ahead).min(least);
        }
        Ok(least)
    }

    /// Reserves `amount` for one owner, if its type is counted.
    fn reserve(
        &mut self,
        journal: &Journal,
        kind: QuotaKind,
        id: u32,
        amount: QuotaAmount,
    ) -> Result<()> {
        let Some(ledger) = journal.ledger.value().filter(|ledger| ledger.counts(kind)) else {
            return Ok(());
        };
        match ledger.dquot(journal, kind, id)? {
            Some(dquot) => self.reserve_of(&**ledger, dquot, amount),
            None => Ok(()),
        }
    }

    /// Reserves `amount` for the owner of a dquot.
    fn reserve_of(
        &mut self,
        ledger: &dyn QuotaLedger,
        dquot: Arc<Dquot>,
        amount: QuotaAmount,
    ) -> Result<()> {
        let kind = dquot.kind();
        dquot.with_reserved(|fields| {
            ledger.check(kind, fields, amount)?;
            let reserved = fields.reserved.checked_add(amount);
            fields.reserved = reserved.ok_or(PosixError::QuotaExceeded)?;
            Ok::<_, xfs_buffer::Error>(())
        })?;
        self.parts.push(ReservedQuota { dquot, left: amount });
        Ok(())
    }

    /// Adds another reservation.
    pub fn add(&mut self, mut other: Self) {
        for part in other.parts.drain(..) {
            match self.parts.iter_mut().find(|own| Arc::ptr_eq(&own.dquot, &part.dquot)) {
                None => self.parts.push(part),
                Some(own) => {
                    let sum = own.left.checked_add(part.left);
                    own.left = sum.expect("the dquot holds the sum of all reservations");
                }
            }
        }
    }

    /// Takes at most `most` of each owner out of the reservation. Returns it as a reservation of
    /// its own.
    pub fn draw(&mut self, most: QuotaAmount) -> Self {
        let drawn = self.parts.iter_mut().map(|part| {
            let left = part.left.min(most);
            part.left = minus(part.left, left);
            ReservedQuota { dquot: Arc::clone(&part.dquot), left }
        });
        Self { parts: drawn.collect() }
    }

    /// Returns whether the reservation has a part for each owner of an inode, and no other part.
    fn is_of(&self, owners: QuotaOwners) -> bool {
        let is_of = |(part, kind): (&ReservedQuota, QuotaKind)| {
            part.dquot.kind() == kind && part.dquot.id() == owners.id(kind)
        };
        self.parts.len() == QuotaKind::ALL.len() && self.parts.iter().zip(QuotaKind::ALL).all(is_of)
    }

    /// Returns the part of the reservation for the owner of a dquot.
    fn part_of(&mut self, dquot: &Arc<Dquot>) -> Option<&mut ReservedQuota> {
        self.parts.iter_mut().find(|part| Arc::ptr_eq(&part.dquot, dquot))
    }
}

#[cfg(test)]
mod tests;
