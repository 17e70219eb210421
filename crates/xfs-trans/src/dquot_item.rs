//! The log item of a dquot, the record with the usage and the limits of one user, group or project.
//!
//! Owns: the fields of a dquot in memory, its latch, the space that is reserved but not counted
//! yet, how the dquot is logged, and writing a block of dquots in place (to its home location on
//! disk). Does **not** own: where a dquot is found, limits and timers
//! ([`QuotaLedger`](crate::QuotaLedger)).
//!
//! ```text
//!             count, set               commit               checkpoint durable
//!   in place ───────────────► changed ─────────► pinned ──────────────────────► in the AIL
//!      ▲                                                                           │ push
//!      └──────────────────── written, with all dquots of its block ◄───────────────┘
//! ```
//!
//! # Invariants
//!
//! - **I1** The fields change only under the exclusive latch, which the transaction holds until the
//!   change is in the log. So each log entry holds exactly the changes of the commits before it.
//! - **I2** A log entry holds all fields. So the newest entry brings the dquot on disk up to date.
//! - **I3** A dquot is written in place unpinned and with its latch shared. Its fields are then
//!   those that the durable log holds.
//!
//! Lock order: the latch of the buffer, then latches of dquots, which are only tried, without
//! waiting. Transactions acquire the latches of dquots last of all latches, in the order of type
//! and ID. `fields` is a leaf lock.

use std::sync::{Arc, Weak};

use xfs_buffer::Buffer;
use xfs_format::dquot::{self, DquotDisk, DquotPlace, QuotaKind, dquot_at};
use xfs_format::log_item::{DquotFormat, HostOrder};
use xfs_format::{BlockKind, Corruption, Lsn, StructureAddress};
use xfs_log::{CheckpointEnd, InPlace, ItemState, LogItem, Pushed, RegionUpdater, RegionWriter};
use xfs_sync::{Latch, Mutex, Object};

use crate::buffer_item::BufferItem;
use crate::journal::Journal;
use crate::pins::Pins;

/// An amount of blocks and inodes that is charged to a user, group or project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaAmount {
    /// Number of blocks of the data device.
    pub blocks: u64,
    /// Number of blocks of the realtime section.
    pub rt_blocks: u64,
    /// Number of inodes.
    pub inodes: u64,
}

impl QuotaAmount {
    /// Returns an amount of blocks of the data device.
    #[must_use]
    pub const fn of_blocks(blocks: u64) -> Self {
        Self { blocks, rt_blocks: 0, inodes: 0 }
    }

    /// Returns the sum of two amounts, or `None` if a part of it is too large.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        Some(Self {
            blocks: self.blocks.checked_add(other.blocks)?,
            rt_blocks: self.rt_blocks.checked_add(other.rt_blocks)?,
            inodes: self.inodes.checked_add(other.inodes)?,
        })
    }

    /// Returns the difference of two amounts, or `None` if a part of it would be negative.
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        Some(Self {
            blocks: self.blocks.checked_sub(other.blocks)?,
            rt_blocks: self.rt_blocks.checked_sub(other.rt_blocks)?,
            inodes: self.inodes.checked_sub(other.inodes)?,
        })
    }

    /// Returns the smaller one of two amounts, for each part.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self {
            blocks: self.blocks.min(other.blocks),
            rt_blocks: self.rt_blocks.min(other.rt_blocks),
            inodes: self.inodes.min(other.inodes),
        }
    }
}

/// The values of a dquot in memory.
#[derive(Clone, Debug)]
pub struct DquotFields {
    /// The dquot in its disk form. Checksum, LSN and UUID have no meaning here.
    pub disk: DquotDisk,
    /// Space that is reserved for changes in progress and not counted yet.
    pub reserved: QuotaAmount,
}

/// A dquot in memory, with its latch: the log item of the usage and limits of one owner.
#[doc(alias = "xfs_dquot")]
pub struct Dquot {
    kind: QuotaKind,
    id: u32,
    place: DquotPlace,
    block: Arc<DquotBlock>,
    /// The first region of each log entry, which says where the dquot lies.
    format: Box<[u8]>,
    latch: Latch<Object>,
    fields: Mutex<DquotFields, Object>,
    pins: Pins,
    state: ItemState,
}

/// A block of dquots in memory. Every dquot holds its block.
pub struct DquotBlock {
    buffer: Buffer,
    item: Arc<BufferItem>,
    /// The entries for those dquots of this block that are in memory.
    dquots: Mutex<Vec<Weak<Dquot>>, Object>,
}

impl DquotBlock {
    /// Creates the block of dquots in `buffer`. The caller must create only one block for each
    /// buffer.
    #[must_use]
    pub fn new(journal: &Journal, buffer: Buffer) -> Arc<Self> {
        assert!(buffer.kind() == BlockKind::Dquots, "a block of dquots has dquots");
        let item = BufferItem::of(journal.context(), &buffer);
        Arc::new(Self { buffer, item, dquots: Mutex::new(Vec::new()) })
    }

    /// Writes the block to its home location because the AIL pushes one of its dquots. Waits for no
    /// lock.
    fn push(&self, in_place: &mut InPlace) -> Pushed {
        let Some(_latched) = self.buffer.try_latched() else { return Pushed::Locked };
        self.write(in_place)
    }

    /// Writes the block. The caller holds the latch of its buffer.
    fn write(&self, in_place: &mut InPlace) -> Pushed {
        // A newly allocated block must be durable in the log before anything is written there.
        if self.item.is_pinned() || self.item.is_stale() {
            return Pushed::Pinned;
        }
        let Some(cache) = self.item.context().cache() else { return Pushed::Locked };
        let dquots: Vec<_> = self.dquots.lock().iter().filter_map(Weak::upgrade).collect();
        let flushed: Vec<(Arc<Dquot>, Lsn)> = {
            let mut bytes = self.buffer.bytes_mut();
            let flush = |dquot: Arc<Dquot>| dquot.flush_into(&mut bytes).map(|lsn| (dquot, lsn));
            dquots.into_iter().filter_map(flush).collect()
        };
        let newest = flushed.iter().map(|(_, lsn)| *lsn).chain(self.item.state_lsn()).max();
        let Some(newest) = newest else { return Pushed::Locked };
        if cache.write(&self.buffer, newest).is_err() {
            return Pushed::Failed;
        }
        for (dquot, lsn) in &flushed {
            in_place.note(&dquot.state, *lsn);
        }
        if let Some(lsn) = self.item.note_written() {
            in_place.note(self.item.state(), lsn);
        }
        Pushed::Started
    }
}

impl Dquot {
    /// Reads the dquot of an owner from its block. The caller ensures that this owner has no other
    /// `Dquot` in memory.
    ///
    /// # Errors
    ///
    /// Returns the failed check of the dquot.
    pub fn read(
        kind: QuotaKind,
        id: u32,
        block: &Arc<DquotBlock>,
    ) -> Result<Arc<Self>, Corruption> {
        let place = DquotPlace::of(id, block.item.context().geometry());
        let disk = {
            let bytes = block.buffer.bytes();
            *dquot_at(&bytes, place.index).expect("a verified block has its dquots")
        };
        disk.verify_owner(kind, id).map_err(|check| {
            let at = StructureAddress::Disk(block.buffer.at());
            Corruption::new(BlockKind::Dquots.structure(), at, check)
        })?;
        let format = DquotFormat {
            id,
            at: block.buffer.at(),
            blocks: 1,
            offset_bytes: place.offset_bytes() as u32,
        };
        let dquot = Arc::new(Self {
            kind,
            id,
            place,
            block: Arc::clone(block),
            format: format.encode(HostOrder::NATIVE).into(),
            latch: Latch::new(),
            fields: Mutex::new(DquotFields { disk, reserved: QuotaAmount::default() }),
            pins: Pins::new(),
            state: ItemState::new(),
        });
        let mut listed = block.dquots.lock();
        listed.retain(|dquot| dquot.strong_count() > 0);
        listed.push(Arc::downgrade(&dquot));
        drop(listed);
        Ok(dquot)
    }

    /// Returns the type of owner.
    #[must_use]
    #[inline]
    pub const fn kind(&self) -> QuotaKind {
        self.kind
    }

    /// Returns the ID of the owner.
    #[must_use]
    #[inline]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Calls `show` with the current values, and returns the result of `show`.
    pub fn with<R>(&self, show: impl FnOnce(&DquotFields) -> R) -> R {
        show(&self.fields.lock())
    }

    /// Changes the reserved space by calling `change`, and returns the result of `change`. `change`
    /// must leave the disk form as it is.
    pub fn with_reserved<R>(&self, change: impl FnOnce(&mut DquotFields) -> R) -> R {
        change(&mut self.fields.lock())
    }

    /// Returns whether the dquot in memory holds nothing that the disk does not hold: it may be
    /// dropped and read again.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        let is_idle = self.fields.lock().reserved == QuotaAmount::default();
        is_idle && !self.is_pinned() && self.state.lsn().is_none()
    }

    pub(crate) fn lock(&self) {
        self.latch.lock_exclusive();
    }

    pub(crate) fn unlock(&self) {
        self.latch.unlock_exclusive();
    }

    /// Changes the values by calling `change`, and returns the result of `change`. The caller holds
    /// the latch exclusively, and logs the dquot (I1).
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut DquotFields) -> R) -> R {
        assert!(self.latch.is_locked_exclusive(), "a dquot is changed under its latch (I1)");
        change(&mut self.fields.lock())
    }

    fn is_pinned(&self) -> bool {
        self.pins.is_pinned()
    }

    /// Copies the dquot into the bytes of its block before the block is written, and returns the
    /// dquot's LSN in the AIL. Returns `None`, and copies nothing, if the dquot is not in the AIL,
    /// if a change of it is not durable, or if another thread holds its latch.
    fn flush_into(&self, block: &mut [u8]) -> Option<Lsn> {
        if !self.latch.try_lock_shared() {
            return None;
        }
        // I3.
        let lsn = if self.is_pinned() { None } else { self.state.lsn() };
        if let Some(lsn) = lsn {
            let fields = self.fields.lock();
            dquot::write_in_place(block, self.place.index, fields.disk.fields(), lsn);
        }
        self.latch.unlock_shared();
        lsn
    }
}

impl LogItem for Dquot {
    fn state(&self) -> &ItemState {
        &self.state
    }

    fn format(&self, regions: &mut RegionWriter<'_>) {
        regions.region(&self.format);
        // I2.
        regions.region(self.fields.lock().disk.fields());
    }

    fn is_updatable(&self) -> bool {
        true
    }

    fn update(&self, regions: &mut RegionUpdater<'_>) {
        regions.next(self.format.len());
        // I2.
        let fields = self.fields.lock();
        let fields = fields.disk.fields();
        regions.next(fields.len()).copy_from_slice(fields);
    }

    fn pin(&self) {
        self.pins.pin();
    }

    fn unpin(&self, end: CheckpointEnd) {
        self.pins.unpin(end);
    }

    fn push(&self, in_place: &mut InPlace) -> Pushed {
        if self.is_pinned() {
            return Pushed::Pinned;
        }
        if self.state.lsn().is_none() {
            // The push has already written the whole block for another of its dquots.
            return Pushed::Done;
        }
        self.block.push(in_place)
    }

    /// Excludes the dquot from all later writes to disk. Called when the log is shut down, or when
    /// a transaction that had changed the dquot is cancelled.
    fn abandon(&self) {
        self.pins.set_lost();
    }
}

impl core::fmt::Debug for Dquot {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Dquot")
            .field("kind", &self.kind)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
