//! An inode that can be changed.
//!
//! Owns: [`LiveInode`], which keeps the view of readers ([`Inode`]) consistent with the state that
//! is logged (an [`InodeRecord`]), and initializing a newly allocated inode. Does **not** own a
//! cache of inodes (the layer above keeps exactly one `LiveInode` for each record), names, or the
//! lock that keeps reads and writes of file data apart.
//!
//! ```text
//!            LiveInode ────── Arc<InodeRecord>    latch; core and fork bytes as they are logged,
//!              │                                   unless the inode on disk is up to date
//!              └── RwLock<Inode>                   core, forks, extent maps, as they are read
//! ```
//!
//! # Invariants
//!
//! - **I1** A change is made under the record's exclusive latch, which its transaction holds, and
//!   through [`LiveInode::update`], which changes both the view and the record. So the view and the
//!   record agree whenever the latch is free. The record of an inode that has been written to its
//!   home location on disk holds no copy of the inode; the first change makes a copy.
//! - **I2** Everything that is logged can be encoded: [`LiveInode::update`] clamps times to the
//!   range of their format.
//! - The view's lock is held for writing only while the change is made: not during I/O or an
//!   allocation, nor while the thread acquires any lock except the record's own. Readers hold it
//!   only while they read.
//!
//! Lock order: the record's latch, then buffers of groups and blocks, then the view.

mod allocate;
mod allocation_target;
mod blocks;
mod collect;
mod copy;
mod data;
mod exchange;
mod file_range;
mod grow_realtime;
mod inactive;
mod local;
mod map;
mod mapping;
mod quota;
mod range;
mod realtime;
mod recent_buffers;
mod relocate;
mod remap;
mod resume;
mod share;
mod shift;
mod symlink;
mod with_transaction;
mod write;
mod zones;

pub use collect::{CachedInodes, set_collector_inodes};
pub use exchange::ExchangedRange;
pub use grow_realtime::{grow_realtime_group, grow_realtime_section};
pub use map::{MapRequest, map_blocks, map_blocks_at_worst};
pub use range::KeepSize;
pub use realtime::{RealtimeGroupInodes, realtime_files, realtime_group_files, zone_record};
pub use recent_buffers::RecentBuffers;
pub use relocate::Relocation;
pub use resume::resume;
pub use share::SharedRange;
pub use write::WriteOptions;

use core::ops::Deref;
use std::sync::Arc;

use xfs_alloc::AllocatedInode;
use xfs_buffer::{BufferCache, PosixError, Result};
use xfs_format::inode::{
    DeviceNumber, FORK_OFFSET_BYTES, FileType, ForkFormat, ForkKind, FreeInode, InodeCore,
    InodeFlags, InodeFlags2,
};
use xfs_format::log_item::LoggedFields;
use xfs_format::superblock::Unsupported;
use xfs_format::timestamp::Timestamp;
use xfs_format::{Geometry, IncompatFeatures, InodeNumber};
use xfs_sync::{AtomicU64, Object, Ordering, RwLock, RwLockReadGuard};
use xfs_trans::{ForkBytes, InodeImage, InodeRecord, Journal, QuotaOwners, Transaction};

use crate::fork::Fork;
use crate::fork_room::{literal_bytes, usual_offset};
use crate::inode::Inode;

/// An inode that can be changed, with its log record.
#[doc(alias = "xfs_inode")]
pub struct LiveInode {
    log_item: Arc<InodeRecord>,
    view: RwLock<Inode, Object>,
    recent: RecentBuffers,
    /// The sequence number of the checkpoint with the last change that a reader of the contents
    /// needs, or of a later checkpoint. Each such change sets this field to [`NOT_LOOKED_UP`]. The
    /// next call of `sync_contents`, or the next change of times alone, looks the number up in the
    /// log record. Written by the holder of the record's latch.
    needed_sequence: AtomicU64<Object>,
}

/// The value of `needed_sequence` while the sequence number still has to be looked up in the
/// record.
const NOT_LOOKED_UP: u64 = u64::MAX;

// Every cached inode has one.
#[cfg(not(shuttle))]
const _: () = assert!(size_of::<LiveInode>() <= 304);

/// Read access to the inode as readers see it. The holder must drop the guard before it changes the
/// inode.
pub struct InodeGuard<'a>(RwLockReadGuard<'a, Inode>);

impl Deref for InodeGuard<'_> {
    type Target = Inode;

    fn deref(&self) -> &Inode {
        &self.0
    }
}

/// The parts of an inode that a change touches, in addition to the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touched {
    /// Only times in the core. A reader of the file's contents does not need them to be durable.
    Times,
    Core,
    Fork(ForkKind),
    Both,
}

impl Touched {
    fn includes(self, kind: ForkKind) -> bool {
        match self {
            Self::Times | Self::Core => false,
            Self::Fork(fork) => fork == kind,
            Self::Both => true,
        }
    }
}

/// The initial state of a new inode.
#[derive(Clone, Debug)]
pub struct InitialInode {
    /// The inode that was allocated.
    pub inode: AllocatedInode,
    /// The file type and the permissions.
    pub mode: u16,
    /// The user ID of the owner.
    pub uid: u32,
    /// The group ID.
    pub gid: u32,
    /// The project ID.
    pub project_id: u32,
    /// The link count; 0 for a file without a name.
    pub nlink: u32,
    /// The time for all four time stamps.
    pub now: Timestamp,
    /// The flags that the inode inherits from its directory.
    pub flags: InodeFlags,
    /// The flags of the second set (`di_flags2`) that the inode inherits. The flags that the
    /// volume's features require are added to them.
    pub flags2: InodeFlags2,
    /// The extent size hint in blocks; 0 for no hint. The flag that makes it valid is in `flags`.
    pub extent_size_hint_blocks: u32,
    /// The extent size hint for copy-on-write in blocks; 0 for no hint. The flag that makes it
    /// valid is in `flags2`.
    pub cow_extent_size_hint_blocks: u32,
    /// The device number of a device file; `None` for other files.
    pub rdev: Option<DeviceNumber>,
    /// Whether the inode gets an attribute fork when it is created, because attributes will be set
    /// soon.
    pub attr_room: bool,
    /// The initial contents of the attribute fork, in short form; `None` for no attributes. They
    /// must have at most [`new_attribute_room`] bytes.
    pub attributes: Option<Arc<[u8]>>,
}

/// Returns the largest number of bytes of attributes that fit in a new inode of this file type.
#[must_use]
pub fn new_attribute_room(file_type: FileType, geometry: &Geometry) -> usize {
    let offset = usual_offset(data_format(file_type), geometry);
    literal_bytes(geometry).saturating_sub(usize::from(offset) * FORK_OFFSET_BYTES)
}

/// Returns the form of a new inode's data fork.
const fn data_format(file_type: FileType) -> ForkFormat {
    match file_type {
        FileType::Regular | FileType::Directory | FileType::Symlink => ForkFormat::Extents,
        _ => ForkFormat::Device,
    }
}

impl InitialInode {
    /// Creates the core of the new file.
    fn core(&self, file_type: FileType, geometry: &Geometry) -> InodeCore {
        let FreeInode { generation, next_unlinked, lsn } = self.inode.free;
        let data_format = data_format(file_type);
        let attr_format = match self.attributes {
            None => ForkFormat::Extents,
            Some(_) => ForkFormat::Local,
        };
        let mut flags2 = self.flags2;
        flags2.set(InodeFlags2::BIGTIME, geometry.has_incompat(IncompatFeatures::BIGTIME));
        flags2.set(InodeFlags2::NREXT64, geometry.has_incompat(IncompatFeatures::NREXT64));
        InodeCore {
            number: self.inode.number(),
            mode: self.mode,
            data_format,
            attr_format,
            fork_offset: if self.attr_room { usual_offset(data_format, geometry) } else { 0 },
            metafile_type: 0,
            uid: self.uid,
            gid: self.gid,
            nlink: self.nlink,
            project_id: self.project_id,
            access_time: self.now,
            modify_time: self.now,
            change_time: self.now,
            birth_time: self.now,
            size: 0,
            blocks: 0,
            extent_size_hint_blocks: self.extent_size_hint_blocks,
            cow_extent_size_hint_blocks: self.cow_extent_size_hint_blocks,
            extents: 0,
            attr_extents: 0,
            flags: self.flags,
            flags2,
            generation,
            next_unlinked,
            change_count: 1,
            lsn,
            rdev: self.rdev,
        }
    }
}

impl LiveInode {
    #[inline]
    fn new(record: Arc<InodeRecord>, view: Inode, needed_sequence: u64) -> Self {
        let needed_sequence = AtomicU64::new(needed_sequence);
        Self {
            log_item: record,
            view: RwLock::new(view),
            recent: RecentBuffers::default(),
            needed_sequence,
        }
    }

    /// Creates a `LiveInode` from its log record and the view for readers. No transaction may be
    /// changing the record.
    #[inline]
    fn loaded(record: Arc<InodeRecord>, view: Inode) -> Self {
        let sequence = record.sequence();
        Self::new(record, view, sequence)
    }

    /// Loads inode `number` from its log record, even if the inode is unlinked.
    ///
    /// # Errors
    ///
    /// [`PosixError::NotFound`] for a free inode; the device's error; the check that failed.
    #[doc(alias = "xfs_iget")]
    pub fn load(journal: &Journal, number: InodeNumber) -> Result<Self> {
        let record = journal.inode(number)?;
        let view = view_of(&record, journal.geometry())?;
        Ok(Self::loaded(record, view))
    }

    /// Loads an inode from its log record, as [`load`](Self::load) does.
    ///
    /// # Errors
    ///
    /// [`PosixError::NotFound`] for a free inode; the check that failed.
    pub fn of_record(record: Arc<InodeRecord>, geometry: &Geometry) -> Result<Arc<Self>> {
        let view = view_of(&record, geometry)?;
        Ok(Arc::new(Self::loaded(record, view)))
    }

    /// Loads an inode from `image`, the copy of the inode that came with its log record. The caller
    /// must have held the record's latch in shared mode since it got the copy.
    ///
    /// # Errors
    ///
    /// The errors of [`of_record`](Self::of_record).
    #[inline]
    pub fn of_image(
        record: Arc<InodeRecord>,
        image: Box<InodeImage>,
        geometry: &Geometry,
    ) -> Result<Arc<Self>> {
        let view = view_of_image(*image, geometry)?;
        Ok(Arc::new(Self::loaded(record, view)))
    }

    /// Initializes a newly allocated inode as a file of any type, and joins its log record to the
    /// transaction.
    ///
    /// # Errors
    ///
    /// [`PosixError::InvalidArgument`] for a mode without a type; the device's error.
    #[doc(alias = "xfs_inode_init")]
    pub fn create(tx: &mut Transaction<'_>, made: InitialInode) -> Result<Self> {
        let file_type = FileType::from_mode(made.mode).ok_or(PosixError::InvalidArgument)?;
        let record = Arc::clone(&made.inode.record);
        tx.join(&record);
        tx.remember_free(&record);
        let mut core = made.core(file_type, tx.geometry());
        fit_times(&mut core, tx.geometry());
        let touched = match (file_type.is_device(), &made.attributes) {
            (true, _) => Touched::Both,
            (false, None) => Touched::Core,
            (false, Some(_)) => Touched::Fork(ForkKind::Attr),
        };
        let attr = made.attributes.map_or(ForkBytes::NONE, ForkBytes::Shared);
        let image = InodeImage { core, data: ForkBytes::NONE, attr };
        let view = Inode::from_image(image, tx.geometry())?;
        tx.replace_inode(&record, logged_fields(&view, touched), image_of(&view));
        Ok(Self::new(record, view, NOT_LOOKED_UP))
    }

    /// Returns the log record of the inode: its latch, and the contents as they are logged.
    #[inline]
    #[must_use]
    pub fn log_item(&self) -> &Arc<InodeRecord> {
        &self.log_item
    }

    /// Returns the remembered buffers of the data fork.
    #[inline]
    #[must_use]
    pub const fn recent_buffers(&self) -> &RecentBuffers {
        &self.recent
    }

    /// Returns the inode number.
    #[inline]
    #[must_use]
    pub fn number(&self) -> InodeNumber {
        self.log_item.number()
    }

    /// Returns read access to the current state of the inode. A caller that needs several
    /// consistent answers must hold the record's latch.
    ///
    /// A thread that holds the guard must neither request a second one nor change the inode.
    #[inline]
    #[must_use]
    pub fn inode(&self) -> InodeGuard<'_> {
        InodeGuard(self.view.read())
    }

    /// Changes fields of the core. The caller must not change the fields that depend on the forks:
    /// formats, counts, blocks, the offset of the attribute fork.
    pub fn change<R>(&self, tx: &mut Transaction<'_>, f: impl FnOnce(&mut InodeCore) -> R) -> R {
        self.update(tx, Touched::Core, |inode| f(inode.core_mut()))
    }

    /// Changes only time stamps. [`sync_contents`](Self::sync_contents) does not make them durable.
    #[doc(alias = "XFS_ILOG_TIMESTAMP")]
    pub fn change_times<R>(
        &self,
        tx: &mut Transaction<'_>,
        f: impl FnOnce(&mut InodeCore) -> R,
    ) -> R {
        self.update(tx, Touched::Times, |inode| f(inode.core_mut()))
    }

    /// Sets the modification and change times after a change of the contents.
    pub(crate) fn touch(&self, tx: &mut Transaction<'_>, now: Timestamp) {
        self.change(tx, |core| {
            core.modify_time = now;
            core.change_time = now;
        });
    }

    /// Changes the readers' view of the inode and the log record of the inode together (I1: they
    /// agree). Joins the record to the transaction if necessary. The first change in a transaction
    /// increments the inode's change count.
    pub(crate) fn update<R>(
        &self,
        tx: &mut Transaction<'_>,
        touched: Touched,
        f: impl FnOnce(&mut Inode) -> R,
    ) -> R {
        tx.join(&self.log_item);
        let is_first = !tx.has_changed(&self.log_item);
        if !matches!(touched, Touched::Times | Touched::Core) {
            self.recent.forget();
        }
        if touched != Touched::Times {
            self.needed_sequence.store(NOT_LOOKED_UP, Ordering::Relaxed);
        } else if is_first {
            // Earlier changes are committed. The record will later return the sequence of these
            // times.
            self.look_up_needed();
        }
        // Until the end of this function, which neither waits nor allocates blocks.
        let mut view = self.view.write();
        tx.remember_charge(&self.log_item, view.core());
        // Also before the change: a misfit hint counts as absent, and would reappear when the
        // realtime flag is removed.
        view.core_mut().drop_misfit_hints(tx.geometry());
        let owners = QuotaOwners::of(view.core());
        let answer = f(&mut view);
        if tx.counts_quota() && owners != QuotaOwners::of(view.core()) {
            tx.move_realtime(&self.log_item, view.realtime_blocks());
        }
        let core = view.core_mut();
        core.drop_misfit_hints(tx.geometry());
        fit_times(core, tx.geometry());
        core.change_count = core.change_count.wrapping_add(is_first.into());
        let inode = &*view;
        tx.change_inode(
            &self.log_item,
            logged_fields(inode, touched),
            || image_of(inode),
            |image| {
                image.core.clone_from(inode.core());
                if touched.includes(ForkKind::Data) {
                    image.data = inode.fork(ForkKind::Data).encode();
                }
                if touched.includes(ForkKind::Attr) {
                    image.attr = inode.fork(ForkKind::Attr).encode();
                }
            },
        );
        answer
    }

    /// Makes the contents of the file durable: the bytes that the caller has written to the device,
    /// their mapping, and the size.
    ///
    /// # Errors
    ///
    /// The error that stopped the log.
    #[doc(alias = "xfs_fsync_seq")]
    pub fn sync_contents(&self, journal: &Journal) -> Result<()> {
        if self.needed_sequence() <= journal.durable_sequence() {
            return journal.flush_device();
        }
        // Forces the last change, not only the needed one. A checkpoint that is being written may
        // have flushed the device before the bytes arrived. Only the next checkpoint flushes them.
        journal.force(self.log_item.sequence())
    }

    fn needed_sequence(&self) -> u64 {
        // A transaction that changes the inode holds its latch until the change is committed.
        let _latch = self.log_item.latch().shared();
        self.look_up_needed()
    }

    fn look_up_needed(&self) -> u64 {
        match self.needed_sequence.load(Ordering::Relaxed) {
            NOT_LOOKED_UP => {
                let sequence = self.log_item.sequence();
                self.needed_sequence.store(sequence, Ordering::Relaxed);
                sequence
            }
            known => known,
        }
    }

    /// Loads the extent map of a fork into memory. A fork may be changed only after its map was
    /// loaded.
    pub(crate) fn load_map(&self, cache: &BufferCache, kind: ForkKind) -> Result<()> {
        self.inode().extent_map(cache, kind).map(|_| ())
    }
}

/// Decodes the readers' view of an inode from its log record. The record may then drop its own copy
/// of an inode that is up to date at its home location on disk.
#[inline]
fn view_of(record: &InodeRecord, geometry: &Geometry) -> Result<Inode> {
    view_of_image(record.take_image()?, geometry)
}

#[inline]
fn view_of_image(image: InodeImage, geometry: &Geometry) -> Result<Inode> {
    if image.core.is_free() {
        return Err(PosixError::NotFound.into());
    }
    // A change would lose the fork, which is not decoded. Such an inode is found here only on a
    // damaged volume, if an unlinked list or an intent names it.
    if image.core.data_format == ForkFormat::MetadataBtree {
        return Err(Unsupported::MetadirWrite.into());
    }
    Inode::from_image(image, geometry)
}

/// Encodes the readers' view of an inode in the form in which the inode is logged.
fn image_of(view: &Inode) -> InodeImage {
    let [data, attr] = [ForkKind::Data, ForkKind::Attr].map(|kind| view.fork(kind).encode());
    InodeImage { core: view.core().clone(), data, attr }
}

/// Clamps the times of an inode to the range of their format. Selects the newer format if the
/// volume has that feature.
fn fit_times(core: &mut InodeCore, geometry: &Geometry) {
    if geometry.has_incompat(IncompatFeatures::BIGTIME) {
        core.flags2 |= InodeFlags2::BIGTIME;
    }
    core.clamp_times(); // I2
}

/// Returns the fields that must be logged after a change that touches these parts of the inode.
fn logged_fields(inode: &Inode, touched: Touched) -> LoggedFields {
    let mut fields = LoggedFields::CORE;
    if touched.includes(ForkKind::Data) {
        fields |= match inode.fork(ForkKind::Data) {
            Fork::Device => LoggedFields::DEVICE,
            Fork::Local(_) => LoggedFields::DATA_LOCAL,
            Fork::Extents(_) => LoggedFields::DATA_EXTENTS,
            Fork::Btree(_) => LoggedFields::DATA_ROOT,
            Fork::Absent | Fork::MetadataBtree => LoggedFields::empty(),
        };
    }
    if touched.includes(ForkKind::Attr) {
        fields |= match inode.fork(ForkKind::Attr) {
            Fork::Local(_) => LoggedFields::ATTR_LOCAL,
            Fork::Extents(_) => LoggedFields::ATTR_EXTENTS,
            Fork::Btree(_) => LoggedFields::ATTR_ROOT,
            Fork::Absent | Fork::Device | Fork::MetadataBtree => LoggedFields::empty(),
        };
    }
    fields
}

#[cfg(test)]
mod tests;
