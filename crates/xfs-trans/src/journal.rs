//! The journal of a volume that is open for writing.
//!
//! Owns: the parts that transactions work with (cache, log, reservations, counters), finding the
//! record of an inode, what upper layers hang on the volume, opening and unmounting. Does **not** own
//! what a transaction does ([`transaction`](crate::transaction)).

mod cluster;
mod cover;
mod freeze;
mod peek;
mod recovery;
mod upkeep;

use std::any::{Any, TypeId};
use std::sync::Arc;

use xfs_buffer::{BufferCache, Error, PosixError, Result};
use xfs_format::reservation::{Reservation, Reservations, TransactionKind};
use xfs_format::superblock::Superblock;
use xfs_format::{Geometry, InodeNumber};
use xfs_log::{Log, Shutdown};
use xfs_sync::{Mutex, SetOnce, Slot, SlotCounters, Slots, Volume};

use crate::block_reservation::{BlockReservation, FallbackPool};
use crate::context::VolumeContext;
use crate::counters::{Counters, Counts};
use crate::inode_item::InodeRecord;
use crate::transaction::Transaction;
use upkeep::UpkeepThread;

pub use cluster::InodeCluster;
pub use recovery::OpenIntent;
pub use upkeep::Upkeep;

/// Layers above that may keep something with the volume.
const EXTENSIONS: usize = 8;
/// Numbers of intents that a slot takes at once.
const INTENT_BATCH: u64 = 256;

/// Counter of chains that were durable when their commit returned.
pub(crate) const SYNCHRONOUS: usize = 0;
/// Counter of chains that had nothing to log.
pub(crate) const EMPTY: usize = 1;

/// The numbers that the superblock gets.
type DiskCounts = Box<dyn Fn(&Journal) -> Result<Counts> + Send + Sync>;

struct Extension {
    kind: TypeId,
    value: Box<dyn Any + Send + Sync>,
}

/// Chains of transactions that ended otherwise than most do, which are committed and become durable later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionCounts {
    /// Durable when their commit returned.
    pub synchronous: u64,
    /// Committed with nothing to log.
    pub empty: u64,
}

/// The journal of a volume that is open for writing.
#[doc(alias = "xfs_mount")]
pub struct Journal {
    pub(crate) log: Log,
    cache: Arc<BufferCache>,
    superblock: Superblock,
    context: Arc<VolumeContext>,
    /// By the place of the kind in [`TransactionKind::ALL`].
    reservations: [Reservation; TransactionKind::ALL.len()],
    /// To remove a name and free its inode at once, where the log is large enough for that.
    removal: Option<Reservation>,
    pub(crate) counters: Counters,
    pub(crate) transactions: SlotCounters<2>,
    extensions: [SetOnce<Extension, Volume>; EXTENSIONS],
    disk_counts: SetOnce<DiskCounts, Volume>,
    intent_ids: Slots<Mutex<std::ops::Range<u64>, Slot>>,
    next_intent_id: Mutex<u64, Volume>,
    upkeep_thread: Mutex<Option<UpkeepThread>, Volume>,
}

impl Journal {
    /// A volume that is open for writing. Its log has been recovered; `counts` are the volume's.
    #[must_use]
    pub fn open(
        cache: Arc<BufferCache>,
        log: Log,
        superblock: &Superblock,
        counts: Counts,
    ) -> Arc<Self> {
        let context = Arc::new(VolumeContext::new(&cache));
        let table = Reservations::new(cache.geometry());
        let reservations = TransactionKind::ALL.map(|kind| match kind {
            TransactionKind::SetAttr => table.attribute_chain(),
            _ => table.of(kind),
        });
        let removal = removal(&table);
        Arc::new(Self {
            log,
            superblock: superblock.clone(),
            context,
            reservations,
            removal,
            counters: Counters::new(counts),
            transactions: SlotCounters::new(),
            extensions: Default::default(),
            disk_counts: SetOnce::new(),
            intent_ids: Slots::new(|| Mutex::new(0..0)),
            next_intent_id: Mutex::new(1),
            upkeep_thread: Mutex::new(None),
            cache,
        })
    }

    /// The volume's buffers.
    #[must_use]
    pub const fn cache(&self) -> &Arc<BufferCache> {
        &self.cache
    }

    /// The volume's geometry.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        self.cache.geometry()
    }

    /// The superblock as it was when the volume was opened.
    #[must_use]
    pub const fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The volume's log.
    #[must_use]
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// What the items of the volume hold of it.
    pub(crate) const fn context(&self) -> &Arc<VolumeContext> {
        &self.context
    }

    /// Begins a transaction that may use up to `blocks` free blocks. One that frees something draws
    /// on the pool when there are no others: a full volume can be emptied. It waits for log space, so the
    /// caller holds nothing that could keep the tail of the log back.
    ///
    /// # Errors
    ///
    /// [`PosixError::NoSpace`], or what stopped the log.
    pub fn begin(self: &Arc<Self>, kind: TransactionKind, blocks: u64) -> Result<Transaction<'_>> {
        match kind {
            TransactionKind::Remove
            | TransactionKind::FreeInode
            | TransactionKind::Truncate
            | TransactionKind::RemoveAttr
            | TransactionKind::InvalidateAttr => self.begin_from_pool(kind, blocks),
            _ => Transaction::begin(self, self.reservation(kind), blocks),
        }
    }

    /// As [`begin`](Self::begin), for what may not fail for want of space: with blocks from the pool
    /// if there are no others.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin), when the pool is empty too.
    #[doc(alias = "XFS_TRANS_RESERVE")]
    pub fn begin_from_pool(
        self: &Arc<Self>,
        kind: TransactionKind,
        blocks: u64,
    ) -> Result<Transaction<'_>> {
        Transaction::begin_from_pool(self, self.reservation(kind), blocks)
    }

    /// Takes blocks for work that is accepted now and done later.
    ///
    /// # Errors
    ///
    /// [`PosixError::NoSpace`].
    #[doc(alias = "xfs_mod_delalloc")]
    pub fn reserve_blocks(&self, blocks: u64) -> Result<BlockReservation> {
        self.counters.take(blocks).map(|()| BlockReservation::of(blocks))
    }

    /// Frees what is left of an earmark.
    pub fn release_blocks(&self, mut reservation: BlockReservation) {
        self.counters.give(reservation.draw(u64::MAX));
    }

    /// Begins a transaction that does what blocks were earmarked for: it takes them first, and what it
    /// is short of as `rest` says. [`Transaction::return_to`] puts back what it has not used.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    pub fn begin_reserved(
        self: &Arc<Self>,
        kind: TransactionKind,
        blocks: u64,
        (reservation, fallback): (&mut BlockReservation, FallbackPool),
    ) -> Result<Transaction<'_>> {
        let drawn = reservation.draw(blocks);
        let short = blocks - drawn;
        let taken = match fallback {
            FallbackPool::Free => self.counters.take(short),
            FallbackPool::Reserved => self.counters.take_from_pool(short),
        };
        let begun = taken.and_then(|()| Transaction::start(self, self.reservation(kind), short));
        match begun {
            Ok(transaction) => Ok(transaction.with_reserved(drawn)),
            Err(error) => {
                reservation.add(BlockReservation::of(drawn));
                Err(error)
            }
        }
    }

    /// Sets up the pool of [`begin_from_pool`](Self::begin_from_pool) with blocks that the counts of
    /// the journal leave out.
    pub fn set_pool(&self, blocks: u64) {
        self.counters.set_pool(blocks);
    }

    /// Begins the removal of a name together with its inode, which no other has: so that this takes one
    /// transaction, where an unlinked list takes two. `None` where that reserves more of the log than
    /// any other operation, for which the log need not be large enough.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    pub fn begin_removal(self: &Arc<Self>, blocks: u64) -> Result<Option<Transaction<'_>>> {
        let begin = |reservation| Transaction::begin_from_pool(self, reservation, blocks);
        self.removal.map(begin).transpose()
    }

    /// As [`begin`](Self::begin), for what also sets attributes, in steps of its chain.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    pub fn begin_with_attributes(
        self: &Arc<Self>,
        kind: TransactionKind,
        blocks: u64,
    ) -> Result<Transaction<'_>> {
        let (plain, set) = (self.reservation(kind), self.reservation(TransactionKind::SetAttr));
        let (bytes, steps) = (plain.bytes.max(set.bytes), plain.steps.max(set.steps));
        Transaction::begin(self, Reservation { bytes, steps }, blocks)
    }

    fn reservation(&self, kind: TransactionKind) -> Reservation {
        let mut table = TransactionKind::ALL.iter().zip(&self.reservations);
        match table.find(|(listed, _)| **listed == kind) {
            Some((_, reservation)) => *reservation,
            None => unreachable!("the table has every kind"),
        }
    }

    /// The record of an inode: the one in memory if there is one, else what its cluster holds. An
    /// inode that no file uses has one too.
    ///
    /// # Errors
    ///
    /// [`PosixError::NotFound`] for a number outside the volume or in a cluster that is freed, what
    /// reading the cluster meets, and [`Error::Corrupt`] for bytes that are no inode.
    pub fn inode(&self, number: InodeNumber) -> Result<Arc<InodeRecord>> {
        self.inode_cluster(number)?.inode(self, number)
    }

    /// Makes everything up to this checkpoint durable.
    ///
    /// # Errors
    ///
    /// What stopped the log.
    pub fn force(&self, sequence: u64) -> Result<()> {
        let _span = tracing::trace_span!("log_force", sequence).entered();
        self.log.force(sequence)
    }

    /// Makes everything durable that has been committed.
    ///
    /// # Errors
    ///
    /// What stopped the log.
    pub fn force_all(&self) -> Result<()> {
        let _span = tracing::trace_span!("log_force").entered();
        self.log.force_all()
    }

    /// The newest checkpoint that is durable, with all before it.
    #[must_use]
    pub fn durable_sequence(&self) -> u64 {
        self.log.durable_sequence()
    }

    /// Makes durable what was written in place, contents of files too, and nothing that waits in the log. It is
    /// one flush of the device.
    ///
    /// # Errors
    ///
    /// That of the flush, which shuts the volume down.
    #[doc(alias = "blkdev_issue_flush")]
    pub fn flush_device(&self) -> Result<()> {
        let _span = tracing::trace_span!("device_flush").entered();
        self.log.flush_device()
    }

    /// Shuts the volume down: every operation fails from now on.
    ///
    /// # Errors
    ///
    /// What kept a flush from being done; the volume is shut down all the same.
    pub fn shut_down(&self, how: Shutdown) -> Result<()> {
        self.log.shut_down(how)
    }

    /// Whether the volume has been shut down.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.log.is_shut_down()
    }

    /// Chains of transactions since the volume was opened, of two kinds.
    #[must_use]
    pub fn transactions(&self) -> TransactionCounts {
        let sum = |kind| self.transactions.sum(kind);
        TransactionCounts { synchronous: sum(SYNCHRONOUS), empty: sum(EMPTY) }
    }

    /// What the volume counts. What transactions under way have reserved counts as used.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.counts()
    }

    /// Inodes that have room on disk. It may be another number by the time that the answer is there.
    #[must_use]
    pub fn inodes(&self) -> u64 {
        self.counters.inodes()
    }

    /// Adds what the volume has got by growing: free blocks, which can be fewer than before, and the pool.
    pub fn count_growth(&self, free_blocks: i64, pool: i64) {
        self.counters.grow(free_blocks, pool);
    }

    /// Adds or takes free blocks outside a transaction: what a group keeps for its own trees.
    ///
    /// # Errors
    ///
    /// [`PosixError::NoSpace`] if fewer are left.
    pub fn count_free_blocks(&self, delta: i64) -> Result<()> {
        self.counters.change(delta)
    }

    /// What a layer above keeps with the volume: one value of each type, made by who asks first.
    ///
    /// # Panics
    ///
    /// If more layers keep something than there are.
    pub fn extension<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> &Arc<T> {
        let kind = TypeId::of::<T>();
        let mut made = None;
        let mut make = Some(make);
        for slot in &self.extensions {
            if slot.value().is_none() {
                let value = made.take().or_else(|| make.take().map(|make| Arc::new(make())));
                let Some(value) = value else { break };
                let extension = Extension { kind, value: Box::new(value) };
                // Somebody else was first: what was made is for the next free slot.
                if let Err(refused) = slot.set(extension) {
                    made = refused.value.downcast::<Arc<T>>().ok().map(|value| *value);
                }
            }
            let found = slot.value().filter(|extension| extension.kind == kind);
            if let Some(value) = found.and_then(|extension| extension.value.downcast_ref()) {
                return value;
            }
        }
        unreachable!("more extensions than {EXTENSIONS}")
    }

    /// A number for an intent, which no other open intent has.
    pub(crate) fn next_intent_id(&self) -> u64 {
        let mut mine = self.intent_ids.mine().lock();
        if let Some(id) = mine.next() {
            return id;
        }
        let mut next = self.next_intent_id.lock();
        let first = *next;
        *next += INTENT_BATCH;
        *mine = first + 1..*next;
        first
    }

    /// Where the superblock's numbers come from when it is written, if not from
    /// [`counts`](Self::counts). Set once.
    pub fn set_disk_counts(&self, hook: DiskCounts) {
        let set = self.disk_counts.set(hook);
        assert!(set.is_ok(), "the source of the superblock's numbers set twice");
    }

    pub(crate) fn counts_for_disk(&self) -> Result<Counts> {
        match self.disk_counts.value() {
            Some(hook) => hook(self),
            None => Ok(self.counts()),
        }
    }
}

impl core::fmt::Debug for Journal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Journal").field("counts", &self.counters).finish_non_exhaustive()
    }
}

/// What a name and its inode take together.
fn removal(table: &Reservations<'_>) -> Option<Reservation> {
    let total = |reservation: &Reservation| reservation.bytes * u64::from(reservation.steps);
    let (name, inode) = (table.of(TransactionKind::Remove), table.of(TransactionKind::FreeInode));
    // The steps of its parent pointers are not needed: these go with the inode.
    let both = Reservation { bytes: name.bytes + inode.bytes, steps: inode.steps };
    let largest = TransactionKind::ALL.iter().map(|kind| total(&table.of(*kind))).max();
    largest.is_some_and(|largest| total(&both) <= largest).then_some(both)
}

/// The error of a value that the format cannot hold.
pub(crate) const fn unencodable() -> Error {
    Error::Posix(PosixError::OutOfRange)
}
