//! Counting of quota: each step logs, with the inodes that it changes, the dquots that count them.
//!
//! Owns: the difference between what an inode was charged for before a step and after it, the
//! reservations of a transaction, and the dquots that a commit holds latched. Does **not** own: the
//! dquots, and the decision which of them exist, which limits hold and when timers run
//! ([`QuotaLedger`]).
//!
//! The charge of an inode is a function of its core: one inode, its blocks, and its three owners. So
//! no operation counts anything itself. Before the first change of an inode in a step, the
//! transaction remembers the charge. The commit compares it with the new core. This holds for
//! creating and freeing inodes, changes of maps, and changes of owner, also when recovery finishes
//! intents.
//!
//! **Q2** A step's inodes and the dquots that count them are in one commit. After a crash the log has
//! both or neither.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::InodeNumber;
use xfs_format::dquot::{DquotDisk, QuotaKind};
use xfs_format::inode::{InodeCore, InodeFlags2};
use xfs_log::LogItem;
use xfs_sync::{SetOnce, Volume};

use super::Transaction;
use crate::dquot_item::{Dquot, DquotFields, QuotaAmount};
use crate::inode_item::InodeRecord;
use crate::journal::Journal;

/// The dquots of a volume that counts usage.
#[doc(alias = "xfs_quotainfo")]
pub trait QuotaLedger: Send + Sync {
    /// Returns whether the usage of a type of owner is counted.
    fn counts(&self, kind: QuotaKind) -> bool;

    /// Returns whether an inode is charged to no owner, because it is a quota inode.
    fn is_exempt(&self, inode: InodeNumber) -> bool;

    /// Returns the dquot of an owner, which is read if it is not in memory. Returns `None` if the
    /// owner has no valid dquot on disk. The ledger then ensures that a later mount counts again.
    ///
    /// # Errors
    ///
    /// The device's error.
    fn dquot(&self, journal: &Journal, kind: QuotaKind, id: u32) -> Result<Option<Arc<Dquot>>>;

    /// Allocates the dquot of an owner on disk, unless it is there. This takes a transaction of its
    /// own, so the caller holds no latch. Every owner of an inode has a dquot (Q3 in
    /// docs/internals/quota.md).
    ///
    /// # Errors
    ///
    /// [`PosixError::NoSpace`](xfs_buffer::PosixError::NoSpace); the error that stopped the log.
    fn ensure(&self, journal: &Arc<Journal>, kind: QuotaKind, id: u32) -> Result<()>;

    /// Records in the superblock that counts are wrong, if damage has been met that made them so.
    ///
    /// # Errors
    ///
    /// The error that stopped the log.
    fn give_up_damaged(&self, journal: &Arc<Journal>) -> Result<()>;

    /// Sets the limits and timers that follow from a change of the usage.
    fn adjust(&self, kind: QuotaKind, disk: &mut DquotDisk);

    /// Checks that an owner may have `wanted` more than it uses and has reserved.
    ///
    /// # Errors
    ///
    /// [`PosixError::QuotaExceeded`](xfs_buffer::PosixError::QuotaExceeded) for a user or group, and
    /// [`PosixError::NoSpace`](xfs_buffer::PosixError::NoSpace) for a project.
    fn check(&self, kind: QuotaKind, fields: &DquotFields, wanted: QuotaAmount) -> Result<()>;
}

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

    /// Returns the ID of the owner of a type.
    #[must_use]
    pub const fn id(&self, kind: QuotaKind) -> u32 {
        match kind {
            QuotaKind::User => self.uid,
            QuotaKind::Group => self.gid,
            QuotaKind::Project => self.project_id,
        }
    }
}

/// The charge of an inode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Charge {
    /// The inode is free, or belongs to the filesystem itself.
    Nothing,
    /// One inode and its blocks are charged to its owners.
    Inode(QuotaOwners, u64),
}

impl Charge {
    fn of(core: &InodeCore) -> Self {
        if core.is_free() || core.flags2.contains(InodeFlags2::METADATA) {
            Self::Nothing
        } else {
            Self::Inode(QuotaOwners::of(core), core.blocks)
        }
    }
}

/// A change of the usage of one owner.
#[doc(alias = "xfs_dqtrx")]
struct DquotDelta {
    kind: QuotaKind,
    id: u32,
    blocks: i64,
    inodes: i64,
}

/// Changes of usage, in the order of type and ID.
#[derive(Default)]
struct DquotDeltas(Vec<DquotDelta>);

impl DquotDeltas {
    /// Adds a charge, or subtracts it if `sign` is -1.
    fn add(&mut self, ledger: &dyn QuotaLedger, charge: Charge, sign: i64) {
        let Charge::Inode(owners, blocks) = charge else { return };
        let blocks = i64::try_from(blocks).unwrap_or(i64::MAX);
        for kind in QuotaKind::ALL.into_iter().filter(|kind| ledger.counts(*kind)) {
            let delta = self.of(kind, owners.id(kind));
            delta.blocks += sign * blocks;
            delta.inodes += sign;
        }
    }

    fn of(&mut self, kind: QuotaKind, id: u32) -> &mut DquotDelta {
        let at = self.0.binary_search_by_key(&(kind, id), |delta| (delta.kind, delta.id));
        let at = at.unwrap_or_else(|at| {
            self.0.insert(at, DquotDelta { kind, id, blocks: 0, inodes: 0 });
            at
        });
        self.0.get_mut(at).expect("the search found the index or the change was inserted there")
    }
}

/// Space of an owner that a transaction has reserved and not used yet.
struct ReservedQuota {
    dquot: Arc<Dquot>,
    left: QuotaAmount,
}

/// The quota of a transaction: its reservations, and the dquots that its commit holds latched.
#[derive(Default)]
pub(super) struct TransactionQuota {
    reserved: Vec<ReservedQuota>,
    latched: Vec<Arc<Dquot>>,
}

impl TransactionQuota {
    /// Returns all unused reservations.
    fn release(&mut self) {
        for reserved in self.reserved.drain(..) {
            release(&reserved.dquot, reserved.left);
        }
    }

    /// Takes `amount` from the reservation of a dquot, as far as it reaches: from now on the count
    /// includes it.
    fn use_up(&mut self, dquot: &Arc<Dquot>, amount: QuotaAmount) -> QuotaAmount {
        let mut used = QuotaAmount::default();
        for reserved in self.reserved.iter_mut().filter(|one| Arc::ptr_eq(&one.dquot, dquot)) {
            let blocks = reserved.left.blocks.min(amount.blocks - used.blocks);
            let inodes = reserved.left.inodes.min(amount.inodes - used.inodes);
            reserved.left.blocks -= blocks;
            reserved.left.inodes -= inodes;
            (used.blocks, used.inodes) = (used.blocks + blocks, used.inodes + inodes);
        }
        used
    }

    /// Unlatches the dquots of a step that is committed.
    pub(super) fn end_step(&mut self) {
        self.latched.drain(..).for_each(|dquot| dquot.unlock());
    }

    /// Ends the transaction.
    pub(super) fn end(&mut self) {
        self.end_step();
        self.release();
    }

    /// Prevents the changes of a step that is not committed from being written in place.
    pub(super) fn abandon(&self) {
        self.latched.iter().for_each(|dquot| dquot.abandon());
    }
}

fn release(dquot: &Dquot, amount: QuotaAmount) {
    dquot.with_reserved(|fields| {
        fields.reserved.blocks = minus(fields.reserved.blocks, amount.blocks);
        fields.reserved.inodes = minus(fields.reserved.inodes, amount.inodes);
    });
}

fn minus(all: u64, part: u64) -> u64 {
    all.checked_sub(part).expect("a reservation is released once")
}

impl Transaction<'_> {
    /// Returns whether the volume counts usage.
    #[must_use]
    #[inline]
    pub fn counts_quota(&self) -> bool {
        self.journal.ledger.value().is_some()
    }

    /// Remembers the charge of a joined inode before its first change in this step of the chain.
    /// `core` is the core before the change. Does nothing if the volume counts nothing.
    #[inline]
    pub fn remember_charge(&mut self, record: &InodeRecord, core: &InodeCore) {
        if self.counts_quota() {
            self.inodes.remember(record, Charge::of(core));
        }
    }

    /// Reserves space for an operation of this transaction, for all owners of an inode or for none.
    /// The commit uses the reservation, and the end of the chain releases the rest. Does nothing if
    /// the volume counts nothing. The caller has changed nothing yet.
    ///
    /// # Errors
    ///
    /// [`PosixError::QuotaExceeded`](xfs_buffer::PosixError::QuotaExceeded) or, for a project,
    /// [`PosixError::NoSpace`](xfs_buffer::PosixError::NoSpace).
    #[doc(alias = "xfs_trans_reserve_quota")]
    pub fn reserve_quota(&mut self, owners: QuotaOwners, wanted: QuotaAmount) -> Result<()> {
        if self.counts_quota() {
            let reserved = QuotaReservation::take(self.journal, owners, wanted)?;
            self.use_reservation(reserved);
        }
        Ok(())
    }

    /// Makes a reservation of quota part of this transaction, whose commits use it.
    pub fn use_reservation(&mut self, mut reservation: QuotaReservation) {
        let left = reservation.amount;
        let dquots = reservation.dquots.drain(..);
        self.quota.reserved.extend(dquots.map(|dquot| ReservedQuota { dquot, left }));
    }

    /// Counts the changes of the inodes of this step in their dquots. Latches these dquots and adds
    /// them to `items` (Q2). The latches are released once the step is committed.
    pub(super) fn count_quota(&mut self, items: &mut Vec<Arc<dyn LogItem>>) -> Result<()> {
        let Some(ledger) = self.journal.ledger.value() else { return Ok(()) };
        let mut deltas = DquotDeltas::default();
        for (record, before) in self.inodes.charges() {
            let after = record.with_known_core(|core| core.map_or(before, Charge::of));
            if before != after && !ledger.is_exempt(record.number()) {
                deltas.add(&**ledger, before, -1);
                deltas.add(&**ledger, after, 1);
            }
        }
        for delta in deltas.0.iter().filter(|delta| delta.blocks != 0 || delta.inodes != 0) {
            let Some(dquot) = ledger.dquot(self.journal, delta.kind, delta.id)? else { continue };
            dquot.lock();
            self.quota.latched.push(Arc::clone(&dquot));
            let gained = QuotaAmount {
                blocks: u64::try_from(delta.blocks).unwrap_or(0),
                inodes: u64::try_from(delta.inodes).unwrap_or(0),
            };
            let used = self.quota.use_up(&dquot, gained);
            dquot.change(|fields| {
                fields.reserved.blocks = minus(fields.reserved.blocks, used.blocks);
                fields.reserved.inodes = minus(fields.reserved.inodes, used.inodes);
                count(&mut fields.disk, delta);
                ledger.adjust(delta.kind, &mut fields.disk);
            });
            items.push(dquot);
        }
        Ok(())
    }

    /// Changes a dquot in this step, and logs it. A step that changes several dquots in this way
    /// changes no inode, and changes them in the order of type and ID.
    pub fn change_dquot(&mut self, dquot: &Arc<Dquot>, change: impl FnOnce(&mut DquotDisk)) {
        dquot.lock();
        self.quota.latched.push(Arc::clone(dquot));
        dquot.change(|fields| change(&mut fields.disk));
        self.items.push(Arc::clone(dquot) as Arc<dyn LogItem>);
    }
}

/// Adds a change to the counts of a dquot. A damaged count does not fall below 0.
fn count(disk: &mut DquotDisk, delta: &DquotDelta) {
    disk.blocks = disk.blocks.get().saturating_add_signed(delta.blocks).into();
    disk.inodes = disk.inodes.get().saturating_add_signed(delta.inodes).into();
}

/// Space that is reserved for all owners of an inode. Dropping it releases the space.
#[derive(Debug, Default)]
#[must_use = "a reservation that is dropped is released"]
pub struct QuotaReservation {
    dquots: Vec<Arc<Dquot>>,
    amount: QuotaAmount,
}

impl Drop for QuotaReservation {
    fn drop(&mut self) {
        self.dquots.drain(..).for_each(|dquot| release(&dquot, self.amount));
    }
}

impl QuotaReservation {
    /// Reserves `amount` for each of the owners, on a volume that counts usage. If one of them may not have it, reserves nothing.
    ///
    /// # Errors
    ///
    /// The errors of [`QuotaLedger::check`] and [`QuotaLedger::dquot`].
    pub fn take(journal: &Journal, owners: QuotaOwners, amount: QuotaAmount) -> Result<Self> {
        let mut taken = Self { dquots: Vec::new(), amount };
        let Some(ledger) = journal.ledger.value() else { return Ok(taken) };
        for kind in QuotaKind::ALL.into_iter().filter(|kind| ledger.counts(*kind)) {
            let Some(dquot) = ledger.dquot(journal, kind, owners.id(kind))? else { continue };
            dquot.with_reserved(|fields| {
                ledger.check(kind, fields, amount)?;
                fields.reserved.blocks += amount.blocks;
                fields.reserved.inodes += amount.inodes;
                Ok::<_, xfs_buffer::Error>(())
            })?;
            taken.dquots.push(dquot);
        }
        Ok(taken)
    }

    /// Returns the reserved amount for each owner.
    #[must_use]
    pub const fn amount(&self) -> QuotaAmount {
        self.amount
    }

    /// Adds a reservation for the same owners.
    pub fn add(&mut self, mut other: Self) {
        if self.dquots.is_empty() {
            std::mem::swap(self, &mut other);
            return;
        }
        let is_same = self.dquots.len() == other.dquots.len()
            && self.dquots.iter().zip(&other.dquots).all(|(own, other)| Arc::ptr_eq(own, other));
        assert!(is_same || other.dquots.is_empty(), "both reservations are for the same owners");
        other.dquots.clear();
        self.amount.blocks += other.amount.blocks;
        self.amount.inodes += other.amount.inodes;
    }

    /// Takes at most `most` blocks out of the reservation.
    pub fn draw(&mut self, most: u64) -> Self {
        let blocks = self.amount.blocks.min(most);
        self.amount.blocks -= blocks;
        Self { dquots: self.dquots.clone(), amount: QuotaAmount { blocks, inodes: 0 } }
    }
}
