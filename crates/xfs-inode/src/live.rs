//! An inode that can be changed.
//!
//! Owns: [`LiveInode`], which keeps the view that readers have ([`Inode`]) in step with what the log has
//! (an [`InodeRecord`]), and making an inode of one just allocated. Does **not** own: a cache of
//! inodes (there is one `LiveInode` for each record, which is for the layer above to hold to), names, or
//! the lock that keeps reads and writes of file data apart.
//!
//! ```text
//!            LiveInode ──────── Arc<InodeRecord>     latch; while it is not in place core and fork bytes, as
//!              │                                they are logged
//!              └── RwLock<Inode>                core, forks, extent maps, as they are read
//! ```
//!
//! # Invariants
//!
//! - **I1** A change is made under the record's exclusive latch, which its transaction holds, and by
//!   [`LiveInode::update`], which changes both sides. So both say the same whenever the latch is free. The record of an inode that is in place
//!   knows nothing of it, and is told again by the first change.
//! - **I2** What is logged can be encoded: [`LiveInode::update`] moves times into the range of their form.
//! - **I3** The view's lock is held for writing only while the change is made: not over I/O, an
//!   allocation, or another lock than the record's own. Readers hold it at most while they read.
//!
//! Lock order: the record's latch, then buffers of groups and blocks, then the view.

mod allocate;
mod allocation_target;
mod blocks;
mod copy;
mod data;
mod exchange;
mod inactive;
mod local;
mod map;
mod mapping;
mod range;
mod recent_buffers;
mod remap;
mod resume;
mod share;
mod shift;
mod symlink;
mod with_transaction;
mod write;

pub use exchange::ExchangedRange;
pub use map::{MapRequest, map_blocks, map_blocks_at_worst};
pub use range::KeepSize;
pub use resume::resume;
pub use share::SharedRange;
pub use write::WriteOptions;

use core::ops::Deref;
use std::sync::Arc;

use xfs_alloc::AllocatedInode;
use xfs_buffer::{BufferCache, PosixError, Result};
use xfs_format::inode::{
    DeviceNumber, FORK_OFFSET_BYTES, FileType, ForkFormat, ForkKind, InodeCore, InodeFlags,
    InodeFlags2,
};
use xfs_format::log_item::LoggedFields;
use xfs_format::timestamp::Timestamp;
use xfs_format::{Geometry, IncompatFeatures, InodeNumber};
use xfs_sync::{AtomicU64, Object, Ordering, RwLock, RwLockReadGuard};
use xfs_trans::{ForkBytes, InodeImage, InodeRecord, Journal, Transaction};

use crate::fork::Fork;
use crate::fork_room::{literal_bytes, usual_offset};
use crate::inode::Inode;
use recent_buffers::RecentBuffers;

/// An inode that can be changed, with its log record.
#[doc(alias = "xfs_inode")]
pub struct LiveInode {
    log_item: Arc<InodeRecord>,
    view: RwLock<Inode, Object>,
    recent: RecentBuffers,
    /// The checkpoint of the last change that reading the contents needs, or of a later one. [`NOT_LOOKED_UP`] from
    /// such a change on until somebody asks, or times change. Written by who has the record's latch.
    needed_sequence: AtomicU64<Object>,
}

/// The record knows.
const NOT_LOOKED_UP: u64 = u64::MAX;

// There are as many as inodes in memory.
#[cfg(not(shuttle))]
const _: () = assert!(size_of::<LiveInode>() <= 304);

/// The inode as readers see it. Let go of it before the inode is changed.
pub struct InodeGuard<'a>(RwLockReadGuard<'a, Inode>);

impl Deref for InodeGuard<'_> {
    type Target = Inode;

    fn deref(&self) -> &Inode {
        &self.0
    }
}

/// Which forks a change touches, besides the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touched {
    /// Not even that: only times in it, which nobody needs who reads the contents.
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

/// What a new inode starts with.
#[derive(Clone, Debug)]
pub struct NewInode {
    /// What was allocated for it.
    pub inode: AllocatedInode,
    /// Type and permissions.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Project.
    pub project_id: u32,
    /// Links; 0 for a file without a name.
    pub nlink: u32,
    /// All four time stamps.
    pub now: Timestamp,
    /// Flags that it inherits.
    pub flags: InodeFlags,
    /// More of them. Those that say how the inode is stored are added.
    pub flags2: InodeFlags2,
    /// Hint in blocks, with its flag.
    pub extent_size_hint_blocks: u32,
    /// Hint in blocks, with its flag.
    pub cow_extent_size_hint_blocks: u32,
    /// Of a device file.
    pub rdev: Option<DeviceNumber>,
    /// Whether it gets an attribute fork at once: it will have attributes soon.
    pub attr_room: bool,
    /// What that fork holds from the start, in short form. No more than [`new_attribute_room`].
    pub attributes: Option<Arc<[u8]>>,
}

/// Bytes of attributes that a new file of this type can start with.
#[must_use]
pub fn new_attribute_room(file_type: FileType, geometry: &Geometry) -> usize {
    let offset = usual_offset(data_format(file_type), geometry);
    literal_bytes(geometry).saturating_sub(usize::from(offset) * FORK_OFFSET_BYTES)
}

/// How the data fork of a new file is stored.
const fn data_format(file_type: FileType) -> ForkFormat {
    match file_type {
        FileType::Regular | FileType::Directory | FileType::Symlink => ForkFormat::Extents,
        _ => ForkFormat::Device,
    }
}

impl NewInode {
    /// The core, in place of that of the free inode `old`.
    fn core(&self, old: &InodeCore, file_type: FileType, geometry: &Geometry) -> InodeCore {
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
            generation: self.inode.generation,
            next_unlinked: old.next_unlinked,
            change_count: 1,
            lsn: old.lsn,
            rdev: self.rdev,
        }
    }
}

impl LiveInode {
    fn new(record: Arc<InodeRecord>, view: Inode, needed_sequence: u64) -> Self {
        let needed_sequence = AtomicU64::new(needed_sequence);
        Self {
            log_item: record,
            view: RwLock::new(view),
            recent: RecentBuffers::default(),
            needed_sequence,
        }
    }

    /// What nobody is changing.
    fn loaded(record: Arc<InodeRecord>, view: Inode) -> Self {
        let sequence = record.sequence();
        Self::new(record, view, sequence)
    }

    /// Takes inode `number` from its record. An unlinked one is taken too.
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

    /// As [`load`](Self::load), from a record that the caller has.
    ///
    /// # Errors
    ///
    /// [`PosixError::NotFound`] for a free inode; the check that failed.
    pub fn of_record(record: Arc<InodeRecord>, geometry: &Geometry) -> Result<Arc<Self>> {
        let view = view_of(&record, geometry)?;
        Ok(Arc::new(Self::loaded(record, view)))
    }

    /// The same of the image that came with the record, whose latch has been shared since.
    ///
    /// # Errors
    ///
    /// As [`of_record`](Self::of_record).
    pub fn of_image(
        record: Arc<InodeRecord>,
        image: InodeImage,
        geometry: &Geometry,
    ) -> Result<Arc<Self>> {
        let view = view_of_image(image, geometry)?;
        Ok(Arc::new(Self::loaded(record, view)))
    }

    /// Makes a file of an inode that was just allocated. Its record is joined.
    ///
    /// # Errors
    ///
    /// [`PosixError::InvalidArgument`] for a mode without a type; the device's error.
    #[doc(alias = "xfs_inode_init")]
    pub fn create(tx: &mut Transaction<'_>, made: NewInode) -> Result<Self> {
        let file_type = FileType::from_mode(made.mode).ok_or(PosixError::InvalidArgument)?;
        let record = Arc::clone(&made.inode.record);
        tx.join(&record);
        let mut core = made.core(&record.core()?, file_type, tx.geometry());
        fit_times(&mut core, tx.geometry());
        let touched = match (file_type.is_device(), &made.attributes) {
            (true, _) => Touched::Both,
            (false, None) => Touched::Core,
            (false, Some(_)) => Touched::Fork(ForkKind::Attr),
        };
        let attr = made.attributes.map_or(ForkBytes::NONE, ForkBytes::Shared);
        let image = InodeImage { core, data: ForkBytes::NONE, attr };
        let view = Inode::from_image(image, tx.geometry())?;
        tx.change_inode(
            &record,
            logged_fields(&view, touched),
            || image_of(&view),
            |image| *image = image_of(&view),
        );
        Ok(Self::new(record, view, NOT_LOOKED_UP))
    }

    /// What the log knows of it: its latch, and what was logged.
    #[must_use]
    pub fn log_item(&self) -> &Arc<InodeRecord> {
        &self.log_item
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> InodeNumber {
        self.log_item.number()
    }

    /// The inode as it is now. Who needs several answers that go together holds the record's latch.
    ///
    /// A thread that holds the guard must not ask for a second one, nor change the inode.
    #[must_use]
    pub fn inode(&self) -> InodeGuard<'_> {
        InodeGuard(self.view.read())
    }

    /// Changes fields of the core; those that the forks decide (formats, counts, blocks, the offset
    /// of the attribute fork) are not the caller's.
    pub fn change<R>(&self, tx: &mut Transaction<'_>, f: impl FnOnce(&mut InodeCore) -> R) -> R {
        self.update(tx, Touched::Core, |inode| f(inode.core_mut()))
    }

    /// Changes times alone: [`sync_contents`](Self::sync_contents) does not make them durable.
    #[doc(alias = "XFS_ILOG_TIMESTAMP")]
    pub fn change_times<R>(
        &self,
        tx: &mut Transaction<'_>,
        f: impl FnOnce(&mut InodeCore) -> R,
    ) -> R {
        self.update(tx, Touched::Times, |inode| f(inode.core_mut()))
    }

    /// Notes that the contents have changed.
    pub(crate) fn touch(&self, tx: &mut Transaction<'_>, now: Timestamp) {
        self.change(tx, |core| {
            core.modify_time = now;
            core.change_time = now;
        });
    }

    /// Changes the view, and the record with it (I1). The record is joined if it is not yet. The
    /// inode's count of changes rises with the first one of a transaction.
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
            // What came before is committed; the record will say when these times were.
            self.look_up_needed();
        }
        let mut view = self.view.write();
        // First too: it counts as none, and would come back where the wish for a realtime device is taken away.
        view.core_mut().drop_misfit_hints(tx.geometry());
        let answer = f(&mut view);
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

    /// Makes durable what the contents consist of: their bytes, which the caller has written to the device, where they
    /// lie, and the size.
    ///
    /// # Errors
    ///
    /// What stopped the log.
    #[doc(alias = "xfs_fsync_seq")]
    pub fn sync_contents(&self, journal: &Journal) -> Result<()> {
        if self.needed_sequence() <= journal.durable_sequence() {
            return journal.flush_device();
        }
        // Up to the last change, not to the one that is needed: a checkpoint that is just being written may have
        // flushed the device before the bytes came, and only behind that one they are flushed again.
        journal.force(self.log_item.sequence())
    }

    fn needed_sequence(&self) -> u64 {
        // Whoever changes the inode has its latch until that is committed.
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

    /// Brings the map of a fork into memory, from where all changes of it start.
    pub(crate) fn load_map(&self, cache: &BufferCache, kind: ForkKind) -> Result<()> {
        self.inode().extent_map(cache, kind).map(|_| ())
    }
}

/// An inode as it is read, from its record, which need not know it any more while it is in place.
#[inline]
fn view_of(record: &InodeRecord, geometry: &Geometry) -> Result<Inode> {
    view_of_image(record.take_image()?, geometry)
}

fn view_of_image(image: InodeImage, geometry: &Geometry) -> Result<Inode> {
    if image.core.is_free() {
        return Err(PosixError::NotFound.into());
    }
    Inode::from_image(image, geometry)
}

/// An inode as it is logged, from its view.
fn image_of(view: &Inode) -> InodeImage {
    let [data, attr] = [ForkKind::Data, ForkKind::Attr].map(|kind| view.fork(kind).encode());
    InodeImage { core: view.core().clone(), data, attr }
}

/// Gives the inode times that its form can hold, the newer form where the volume has it.
fn fit_times(core: &mut InodeCore, geometry: &Geometry) {
    if geometry.has_incompat(IncompatFeatures::BIGTIME) {
        core.flags2 |= InodeFlags2::BIGTIME;
    }
    core.clamp_times();
}

/// What is logged of an inode of which these forks change.
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
