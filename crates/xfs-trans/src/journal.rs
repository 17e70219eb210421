//! The journal of a volume that is open for writing.
//!
//! Owns: the parts that transactions work with (cache, log, reservations, counters), finding the
//! record of an inode, the extensions of upper layers, opening and unmounting. Does **not** own the
//! work of a transaction ([`transaction`](crate::transaction)).

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
use xfs_format::superblock::{Superblock, Unsupported};
use xfs_format::{Geometry, InodeNumber};
use xfs_log::{Log, Shutdown};
use xfs_sync::{Mutex, SetOnce, Slot, SlotCounters, Slots, Volume};

use crate::block_reservation::{BlockReservation, FallbackPool};
use crate::context::VolumeContext;
use crate::counters::{Counters, SpaceCounts};
use crate::inode_item::InodeRecord;
use crate::transaction::{Ledger, QuotaLedger, Transaction};
use upkeep::UpkeepThread;

pub use cluster::InodeCluster;
pub use recovery::OpenIntent;
pub use upkeep::Upkeep;

/// The greatest number of extensions that upper layers may attach to the volume.
const EXTENSIONS: usize = 8;
/// Number of intent IDs that a slot (the part of the journal that one or a few threads use) takes
/// from the common counter at a time.
const INTENT_BATCH: u64 = 256;

/// Index in `Journal::transactions` of the number of chains of transactions whose commit forced the
/// log.
pub(crate) const SYNCHRONOUS: usize = 0;
/// Index in `Journal::transactions` of the number of chains of transactions that had nothing to
/// log.
pub(crate) const EMPTY: usize = 1;

/// The type of the function that returns the counts to write to the superblock.
type DiskCounts = Box<dyn Fn(&Journal) -> Result<SpaceCounts> + Send + Sync>;
/// The type of the function that returns the number of free realtime extents.
type RealtimeCount = Box<dyn Fn() -> u64 + Send + Sync>;

struct Extension {
    kind: TypeId,
    value: Box<dyn Any + Send + Sync>,
}

/// Numbers of the two unusual kinds of transaction chains: those that logged nothing, and those
/// whose commit forced the log. Most chains log something, and become durable after their commit
/// has returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionCounts {
    /// Number of chains whose commit forced the log, so that the changes were durable when the
    /// commit returned.
    pub synchronous: u64,
    /// Number of chains that were committed with nothing to log.
    pub empty: u64,
}

/// The journal of a volume that is open for writing.
#[doc(alias = "xfs_mount")]
pub struct Journal {
    pub(crate) log: Log,
    cache: Arc<BufferCache>,
    superblock: Superblock,
    context: Arc<VolumeContext>,
    /// The reservation of each kind of transaction, in the order of [`TransactionKind::ALL`].
    reservations: [Reservation; TransactionKind::ALL.len()],
    /// The log reservation for removing a name and freeing its inode in one transaction. `None` if
    /// it would be larger than that of every kind of transaction.
    removal: Option<Reservation>,
    pub(crate) counters: Counters,
    pub(crate) transactions: SlotCounters<2>,
    extensions: [SetOnce<Extension, Volume>; EXTENSIONS],
    disk_counts: SetOnce<DiskCounts, Volume>,
    /// The number of free realtime extents. Set only if no transaction logs that number.
    pub(crate) realtime_count: SetOnce<RealtimeCount, Volume>,
    intent_ids: Slots<Mutex<std::ops::Range<u64>, Slot>>,
    next_intent_id: Mutex<u64, Volume>,
    upkeep_thread: Mutex<Option<UpkeepThread>, Volume>,
    pub(crate) ledger: Ledger,
}

impl Journal {
    /// Opens the journal of a volume whose log has been recovered. `counts` are the volume's
    /// current counts.
    #[must_use]
    pub fn open(
        cache: Arc<BufferCache>,
        log: Log,
        superblock: &Superblock,
        counts: SpaceCounts,
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
            realtime_count: SetOnce::new(),
            intent_ids: Slots::new(|| Mutex::new(0..0)),
            next_intent_id: Mutex::new(1),
            upkeep_thread: Mutex::new(None),
            ledger: Ledger::new(),
            cache,
        })
    }

    /// Returns the buffer cache of the volume.
    #[must_use]
    pub const fn cache(&self) -> &Arc<BufferCache> {
        &self.cache
    }

    /// Returns the geometry of the volume.
    #[inline]
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        self.cache.geometry()
    }

    /// Returns the superblock as it was when the volume was opened.
    #[must_use]
    pub const fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Returns the log of the volume.
    #[must_use]
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// Returns the context to which all log items of the volume refer.
    pub(crate) const fn context(&self) -> &Arc<VolumeContext> {
        &self.context
    }

    /// Begins a transaction that may use up to `blocks` free blocks. If too few blocks are free, a
    /// kind of transaction that frees blocks takes them from the pool of blocks for operations that
    /// must not fail, so that a full volume can be emptied. This function waits for log space, so
    /// the caller must hold nothing that could prevent the log's tail from moving.
    ///
    /// # Errors
    ///
    /// Returns [`PosixError::NoSpace`] if too few blocks are left, or the error that stopped the
    /// log.
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

    /// Begins a transaction as [`begin`](Self::begin) does, for an operation that must not fail for
    /// lack of space: it takes blocks from the pool if too few are free.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`begin`](Self::begin). [`PosixError::NoSpace`] means that the pool
    /// has too few blocks too.
    #[doc(alias = "XFS_TRANS_RESERVE")]
    pub fn begin_from_pool(
        self: &Arc<Self>,
        kind: TransactionKind,
        blocks: u64,
    ) -> Result<Transaction<'_>> {
        Transaction::begin_from_pool(self, self.reservation(kind), blocks)
    }

    /// Reserves blocks for work that is accepted now and done later.
    ///
    /// # Errors
    ///
    /// Returns [`PosixError::NoSpace`] if too few blocks are free.
    #[doc(alias = "xfs_mod_delalloc")]
    pub fn reserve_blocks(&self, blocks: u64) -> Result<BlockReservation> {
        self.counters.take(blocks).map(|()| BlockReservation::of(blocks))
    }

    /// Makes the blocks that are left in a reservation free again.
    pub fn release_blocks(&self, mut reservation: BlockReservation) {
        self.counters.give(reservation.draw(u64::MAX));
    }

    /// Begins the transaction that does work for which blocks were reserved. The transaction takes
    /// the reserved blocks first. If they are too few, it takes the missing blocks from the source
    /// that `fallback` names. [`Transaction::return_to`] returns unused blocks to the reservation.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`begin`](Self::begin).
    pub fn begin_reserved(
        self: &Arc<Self>,
        kind: TransactionKind,
        blocks: u64,
        reservation: &mut BlockReservation,
        fallback: FallbackPool,
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

    /// Creates the pool of [`begin_from_pool`](Self::begin_from_pool) with `blocks` blocks. These
    /// blocks are not among the free blocks of the counts with which the journal was opened.
    pub fn set_pool(&self, blocks: u64) {
        self.counters.set_pool(blocks);
    }

    /// Turns the blocks of the pool into free blocks, for a volume that is filled to the last
    /// block. Operations that must not fail for lack of space may then fail.
    pub fn dissolve_pool(&self) {
        self.counters.dissolve_pool();
    }

    /// Begins a transaction that removes the last name of an inode and frees the inode. This saves
    /// the second transaction that a removal through the unlinked list takes. Returns `None` if the
    /// transaction would reserve more log space than any other: a valid log may be too small for
    /// it.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`begin`](Self::begin).
    pub fn begin_removal(self: &Arc<Self>, blocks: u64) -> Result<Option<Transaction<'_>>> {
        let begin = |reservation| Transaction::begin_from_pool(self, reservation, blocks);
        self.removal.map(begin).transpose()
    }

    /// Begins a transaction as [`begin`](Self::begin) does, for an operation that also sets
    /// attributes in later transactions of its chain.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`begin`](Self::begin).
    pub fn begin_with_attributes(
        self: &Arc<Self>,
        kind: TransactionKind,
        blocks: u64,
    ) -> Result<Transaction<'_>> {
        let (plain, set) = (self.reservation(kind), self.reservation(TransactionKind::SetAttr));
        let (bytes, steps) = (plain.bytes.max(set.bytes), plain.steps.max(set.steps));
        Transaction::begin(self, Reservation { bytes, steps }, blocks)
    }

    /// Begins a transaction that adds names to `count` inodes in one step.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`begin`](Self::begin). [`Unsupported::LogTooSmall`] if the
    /// reservation would be larger than that of every kind of transaction, which the log need not
    /// hold.
    pub fn begin_links(self: &Arc<Self>, count: u32, blocks: u64) -> Result<Transaction<'_>> {
        let link = self.reservation(TransactionKind::Link);
        let sector = self.reservation(TransactionKind::Superblock);
        // The other steps are those of the blocks that the directory gets.
        let (bytes, steps) = (link.bytes * u64::from(count) + sector.bytes, 2);
        let total = |bytes: u64, steps: u32| bytes * u64::from(steps);
        let totals = self.reservations.iter().map(|found| total(found.bytes, found.steps));
        if totals.max().is_none_or(|largest| total(bytes, steps) > largest) {
            let log_bytes = self.superblock.log_blocks.into();
            let log_bytes = self.superblock.geometry.blocks_to_bytes(log_bytes).unwrap_or(u64::MAX);
            return Err(Unsupported::LogTooSmall { bytes, log_bytes }.into());
        }
        Transaction::begin(self, Reservation { bytes, steps }, blocks)
    }

    fn reservation(&self, kind: TransactionKind) -> Reservation {
        let mut table = TransactionKind::ALL.iter().zip(&self.reservations);
        match table.find(|(listed, _)| **listed == kind) {
            Some((_, reservation)) => *reservation,
            None => unreachable!("the table of reservations has every kind"),
        }
    }

    /// Returns the record of an inode: the one in memory, or else a new one, read from the inode's
    /// cluster. A free inode has a record too.
    ///
    /// # Errors
    ///
    /// Returns [`PosixError::NotFound`] for a number outside the volume or in a freed cluster, the
    /// errors of reading the cluster, and [`Error::Corrupt`] for bytes that are not an inode.
    pub fn inode(&self, number: InodeNumber) -> Result<Arc<InodeRecord>> {
        self.inode_cluster(number)?.inode(self, number)
    }

    /// Makes all checkpoints up to `sequence` durable.
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the log.
    pub fn force(&self, sequence: u64) -> Result<()> {
        let _span = tracing::trace_span!("log_force", sequence).entered();
        self.log.force(sequence)
    }

    /// Makes everything durable that has been committed.
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the log.
    pub fn force_all(&self) -> Result<()> {
        let _span = tracing::trace_span!("log_force").entered();
        self.log.force_all()
    }

    /// Returns the sequence number of the last checkpoint that is durable together with all earlier
    /// ones.
    #[must_use]
    pub fn durable_sequence(&self) -> u64 {
        self.log.durable_sequence()
    }

    /// Makes everything durable that has been written to the data device, including contents of
    /// files, with one flush. Changes that are only in the log are not forced.
    ///
    /// # Errors
    ///
    /// Returns the error of the flush, which shuts the volume down.
    #[doc(alias = "blkdev_issue_flush")]
    pub fn flush_device(&self) -> Result<()> {
        let _span = tracing::trace_span!("device_flush").entered();
        self.log.flush_device()
    }

    /// Shuts the volume down: every operation fails from now on.
    ///
    /// # Errors
    ///
    /// Returns the error if committed changes could not be written. The volume is shut down even
    /// then.
    pub fn shut_down(&self, how: Shutdown) -> Result<()> {
        self.log.shut_down(how)
    }

    /// Returns whether the volume has been shut down.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.log.is_shut_down()
    }

    /// Returns how many transaction chains logged nothing, and how many forced the log, since the
    /// volume was opened.
    #[must_use]
    pub fn transactions(&self) -> TransactionCounts {
        let sum = |kind| self.transactions.sum(kind);
        TransactionCounts { synchronous: sum(SYNCHRONOUS), empty: sum(EMPTY) }
    }

    /// Returns the counts of the volume. Blocks reserved by transactions in progress count as used.
    #[must_use]
    pub fn counts(&self) -> SpaceCounts {
        self.counters.counts()
    }

    /// Returns the number of allocated inodes. The number may have changed by the time the caller
    /// uses it.
    #[must_use]
    pub fn inodes(&self) -> u64 {
        self.counters.inodes()
    }

    /// Adds the blocks that the volume has gained by growing: `free_blocks` free blocks, and `pool`
    /// blocks of the pool for operations that must not fail. `free_blocks` may be negative.
    pub fn count_growth(&self, free_blocks: i64, pool: i64) {
        self.counters.grow(free_blocks, pool);
    }

    /// Adds `delta` to the number of free blocks outside a transaction. Called when an allocation
    /// group keeps more or fewer blocks back for its own btrees.
    ///
    /// # Errors
    ///
    /// Returns [`PosixError::NoSpace`] if too few are free.
    pub fn count_free_blocks(&self, delta: i64) -> Result<()> {
        self.counters.change(delta)
    }

    /// Returns the extension of type `T` that an upper layer attaches to the volume. The first call
    /// creates it with `make`. A volume has at most one extension of each type.
    ///
    /// # Panics
    ///
    /// Panics if the volume already has `EXTENSIONS` extensions of other types.
    pub fn extension<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> &Arc<T> {
        match self.find_extension() {
            Some(value) => value,
            None => self.add_extension(Arc::new(make())),
        }
    }

    /// Returns the extension of type `T`; `None` if no layer has attached one.
    pub fn find_extension<T: Any + Send + Sync>(&self) -> Option<&Arc<T>> {
        let kind = TypeId::of::<T>();
        // Slots are filled from the first one on.
        let filled = self.extensions.iter().map_while(|slot| slot.value());
        let mut filled = filled.filter(|extension| extension.kind == kind);
        filled.next()?.value.downcast_ref()
    }

    /// Puts an extension into the first free slot. If another thread has added an extension of the
    /// same type in the meantime, returns that extension instead.
    #[cold]
    fn add_extension<T: Any + Send + Sync>(&self, value: Arc<T>) -> &Arc<T> {
        let mut extension = Extension { kind: TypeId::of::<T>(), value: Box::new(value) };
        for slot in &self.extensions {
            let Err(refused) = slot.set(extension) else { break };
            // All slots up to this one are filled, perhaps by a thread that added the same type.
            if let Some(value) = self.find_extension() {
                return value;
            }
            extension = refused;
        }
        self.find_extension().unwrap_or_else(|| unreachable!("more extensions than {EXTENSIONS}"))
    }

    /// Sets the quota ledger. From then on, every transaction counts usage in the dquots of
    /// `ledger`. Panics if a ledger is set already.
    pub fn set_ledger(&self, ledger: Arc<dyn QuotaLedger>) {
        let set = self.ledger.set(ledger);
        assert!(set.is_ok(), "the ledger of a volume is set once");
    }

    /// Returns the quota ledger, or `None` if the volume does not count usage.
    #[inline]
    #[must_use]
    pub fn ledger(&self) -> Option<&Arc<dyn QuotaLedger>> {
        self.ledger.value()
    }

    /// Returns an intent ID that no other open intent has.
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

    /// Sets the function that returns the counts to write to the superblock. Without it, the counts
    /// come from [`counts`](Self::counts). Panics if the function is set already.
    pub fn set_disk_counts(&self, hook: DiskCounts) {
        let set = self.disk_counts.set(hook);
        assert!(set.is_ok(), "the source of the superblock's counts is set once");
    }

    /// Sets the function that returns the number of free realtime extents for the superblock.
    /// Panics if the function is set already.
    pub fn set_realtime_count(&self, hook: RealtimeCount) {
        let set = self.realtime_count.set(hook);
        assert!(set.is_ok(), "the source of the count of realtime extents is set once");
    }

    pub(crate) fn counts_for_disk(&self) -> Result<SpaceCounts> {
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

/// Returns the log reservation for removing a name and its inode in one transaction. Returns `None`
/// if it would be larger than that of every kind of transaction.
fn removal(table: &Reservations<'_>) -> Option<Reservation> {
    let total = |reservation: &Reservation| reservation.bytes * u64::from(reservation.steps);
    let (name, inode) = (table.of(TransactionKind::Remove), table.of(TransactionKind::FreeInode));
    // The removal of parent pointers needs no steps of its own: they go with the inode.
    let both = Reservation { bytes: name.bytes + inode.bytes, steps: inode.steps };
    let largest = TransactionKind::ALL.iter().map(|kind| total(&table.of(*kind))).max();
    largest.is_some_and(|largest| total(&both) <= largest).then_some(both)
}

/// Returns the error for a changed inode that has a value the disk format cannot hold.
pub(crate) const fn unencodable() -> Error {
    Error::Posix(PosixError::OutOfRange)
}
