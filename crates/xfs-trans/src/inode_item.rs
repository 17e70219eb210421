//! The log item of an inode.
//!
//! Owns: the image of an inode in memory, its latch, which of its parts are not in place (not at
//! its home location on disk), and how it is logged. Does **not** own the meaning of the image
//! (`xfs-inode`), or writing it in place ([`cluster`](crate::cluster)).
//!
//! ```text
//!              change_inode                 commit               checkpoint durable
//!   in place ───────────────► fields dirty ───────► pinned ──────────────────────► in the AIL
//!      ▲                            ▲                                                │
//!      │ written                    └─ changed again while it is written             │ push
//!      └────────────────────────────────────────────────── flushing ◄────────────────┘
//! ```
//!
//! # Invariants
//!
//! - **I1** An inode has one record in memory. [`Journal::inode`](crate::Journal::inode) finds it
//!   through the buffer of its cluster, which every record holds.
//! - **I2** The image is changed only under the exclusive latch, inside a transaction.
//! - **I3** A log entry holds every part that is not known to be in place: the dirty fields and
//!   those being written. So the newest log entry of an inode alone brings the inode on disk up to
//!   date, and an older entry may leave the AIL.
//! - **I4** The inode is written in place unpinned, with its latch shared, and with the image that
//!   was logged last. A commit logs only an image that the disk format can hold.
//! - **I5** An inode that is not known to be in place has an image in memory. An inode in place
//!   needs none: the view of a layer above and the cluster hold the same contents. `contents` makes
//!   marking an inode and releasing its image exclude each other.
//!
//! Lock order: latch, then `contents`, then `logged`.

use std::sync::Arc;

use xfs_buffer::{Buffer, PosixError, Result};
use xfs_format::geometry::InodeLocation;
use xfs_format::inode::{ForkFormat, FreeInode, InodeCore, InodeDisk};
use xfs_format::log_item::{HostOrder, InodeFormat, LoggedFields, core_to_log};
use xfs_format::{BASIC_BLOCK_BYTES, Corruption, InodeNumber, Lsn, VerifyContext};
use xfs_log::{CheckpointEnd, InPlace, ItemState, LogItem, Pushed, RegionUpdater, RegionWriter};
use xfs_sync::{AtomicU32, Latch, Mutex, Object, Ordering, RecursiveRwLock};

use zerocopy::transmute_ref;

use crate::buffer_item::BufferItem;
use crate::context::VolumeContext;
use crate::pins::Pins;
use fork::LoggedForks;

pub use bytes::ForkBytes;
pub use image::InodeImage;
use image::{CachedImage, decode};

mod bytes;
mod fork;
mod image;

/// The parts of an inode (core, forks) that are not known to be on disk.
struct PendingFields {
    /// The parts that were changed since they were last copied into the cluster.
    dirty: LoggedFields,
    /// The parts that were copied into the cluster. The write of the cluster has not ended yet.
    #[doc(alias = "ili_last_fields")]
    flushing: LoggedFields,
}

/// The state of the cluster that holds the inode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClusterState {
    InUse = 0,
    /// A transaction has freed the blocks of the cluster.
    Freed = 1,
    /// The freeing of the cluster is durable in the log.
    Gone = 2,
}

/// The log item of an inode, with the inode's latch and its image: core and forks in memory.
#[doc(alias = "xfs_inode_log_item")]
#[doc(alias = "xfs_inode")]
pub struct InodeRecord {
    number: InodeNumber,
    place: InodeLocation,
    cluster: Buffer,
    cluster_item: Arc<BufferItem>,
    latch: Latch<Object>,
    /// The image. It may be `None` if all parts of the inode are on disk (I5).
    contents: RecursiveRwLock<Option<Box<CachedImage>>, Object>,
    logged: Mutex<PendingFields, Object>,
    pins: Pins,
    cluster_state: AtomicU32<Object>,
    state: ItemState,
}

// There is one record for each inode in memory.
#[cfg(not(shuttle))]
const _: () = assert!(size_of::<InodeRecord>() <= 176);

impl PendingFields {
    /// Returns whether all parts of the inode are known to be on disk.
    fn is_in_place(&self) -> bool {
        self.dirty.is_empty() && self.flushing.is_empty()
    }
}

/// An inode that was copied into its cluster to be written, and its LSN in the AIL at that time.
pub(crate) struct FlushedInode {
    pub(crate) record: Arc<InodeRecord>,
    pub(crate) lsn: Lsn,
}

impl Drop for InodeRecord {
    /// Removes the record from the list of its cluster, through which lookups find the one record
    /// of an inode (I1).
    fn drop(&mut self) {
        let index = self.place.offset_bytes >> self.cluster_item.context().geometry().inode_log;
        self.cluster_item.records().forget(index, self);
    }
}

impl InodeRecord {
    /// Creates a record with the image of the inode that is decoded from its cluster. Returns an
    /// error if the image is not valid.
    pub(crate) fn read(
        number: InodeNumber,
        place: InodeLocation,
        cluster: &Buffer,
        cluster_item: &Arc<BufferItem>,
        verify: &VerifyContext<'_>,
    ) -> Result<Arc<Self>, Corruption> {
        let image = {
            let bytes = cluster.bytes();
            decode(slot_of(&bytes, &place, cluster_item.context()), number, verify)?
        };
        Ok(Arc::new(Self::new(number, place, cluster, cluster_item, Some(CachedImage::of(*image)))))
    }

    /// Reads an inode as [`read`](Self::read) does, and acquires the new record's latch in shared
    /// mode before any other thread can find the record. Returns the record and the image. The
    /// record itself keeps no image (I5). The returned image is current until the caller releases
    /// the latch.
    #[inline]
    pub(crate) fn read_shared(
        number: InodeNumber,
        place: InodeLocation,
        cluster: &Buffer,
        cluster_item: &Arc<BufferItem>,
        verify: &VerifyContext<'_>,
    ) -> Result<(Arc<Self>, Box<InodeImage>), Corruption> {
        let image = {
            let bytes = cluster.bytes();
            decode(slot_of(&bytes, &place, cluster_item.context()), number, verify)?
        };
        let record = Self::new(number, place, cluster, cluster_item, None);
        record.latch.lock_shared();
        Ok((Arc::new(record), image))
    }

    /// Creates the record of an inode that a new file is about to take, without an image (I5).
    /// Returns the record and the contents that the inode keeps, or `None` for these if the
    /// inode is in use.
    pub(crate) fn read_free(
        number: InodeNumber,
        place: InodeLocation,
        cluster: &Buffer,
        cluster_item: &Arc<BufferItem>,
        verify: &VerifyContext<'_>,
    ) -> Result<(Arc<Self>, Option<FreeInode>), Corruption> {
        let free = {
            let bytes = cluster.bytes();
            FreeInode::decode(slot_of(&bytes, &place, cluster_item.context()), number, verify)?
        };
        Ok((Arc::new(Self::new(number, place, cluster, cluster_item, None)), free))
    }

    #[inline]
    fn new(
        number: InodeNumber,
        place: InodeLocation,
        cluster: &Buffer,
        cluster_item: &Arc<BufferItem>,
        contents: Option<Box<CachedImage>>,
    ) -> Self {
        let nothing = LoggedFields::empty();
        Self {
            number,
            place,
            cluster: cluster.clone(),
            cluster_item: Arc::clone(cluster_item),
            latch: Latch::new(),
            contents: RecursiveRwLock::new(contents),
            logged: Mutex::new(PendingFields { dirty: nothing, flushing: nothing }),
            pins: Pins::new(),
            cluster_state: AtomicU32::new(ClusterState::InUse as u32),
            state: ItemState::new(),
        }
    }

    /// Returns the volume context, through the cluster's item. If each inode held a reference of
    /// its own, each would change a reference count that the whole volume shares.
    fn context(&self) -> &VolumeContext {
        self.cluster_item.context()
    }

    /// Returns the inode number.
    #[must_use]
    pub const fn number(&self) -> InodeNumber {
        self.number
    }

    /// Returns the current image. It does not change while the caller holds the latch in shared
    /// mode.
    ///
    /// # Errors
    ///
    /// Returns the failed check if the image is read from the cluster and is not valid.
    pub fn image(&self) -> Result<InodeImage> {
        if let Some(contents) = &*self.contents.read() {
            return Ok(contents.image.clone());
        }
        self.reread()
    }

    /// Returns the core of the image in memory, or `None` if the record has no image.
    pub(crate) fn known_core(&self) -> Option<InodeCore> {
        self.contents.read().as_ref().map(|contents| contents.image.core.clone())
    }

    /// Calls `show` with the core of the record's image, or with `None` if the record has no image.
    pub(crate) fn with_known_core<R>(&self, show: impl FnOnce(Option<&InodeCore>) -> R) -> R {
        show(self.contents.read().as_ref().map(|contents| &contents.image.core))
    }

    /// Returns the core of the current image.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`image`](Self::image).
    pub fn core(&self) -> Result<InodeCore> {
        self.with_core(InodeCore::clone)
    }

    /// Calls `f` with the core of the current image, and returns the result of `f`. `f` must not
    /// change the inode.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`image`](Self::image).
    pub fn with_core<R>(&self, f: impl FnOnce(&InodeCore) -> R) -> Result<R> {
        if let Some(contents) = &*self.contents.read() {
            return Ok(f(&contents.image.core));
        }
        Ok(f(&self.reread()?.core))
    }

    /// Returns the current image to a caller that from now on keeps the contents of the inode in a
    /// form of its own. If all parts of the inode are on disk, the record hands over its image,
    /// because it needs none (I5). The caller holds the latch, in shared or exclusive mode.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`image`](Self::image).
    pub fn take_image(&self) -> Result<InodeImage> {
        let is_in_place = self.logged.lock().is_in_place();
        let taken = if is_in_place { self.contents.write().take() } else { None };
        taken.map_or_else(|| self.image(), |contents| Ok(contents.image))
    }

    /// Decodes the image from the bytes of the cluster. The cluster has the latest image: under the
    /// lock `contents`, a record drops its image only after the image was copied into the cluster.
    fn reread(&self) -> Result<InodeImage> {
        let context = self.context();
        let Some(cache) = context.cache() else { return Err(PosixError::NotFound.into()) };
        let bytes = self.cluster.bytes();
        let bytes = slot_of(&bytes, &self.place, context);
        Ok(*decode(bytes, self.number, &cache.verify_context())?)
    }

    /// Returns the latch that protects the inode. A transaction that has joined the inode holds it
    /// exclusively; readers hold it in shared mode.
    #[must_use]
    pub const fn latch(&self) -> &Latch<Object> {
        &self.latch
    }

    /// Returns the sequence number of the checkpoint with the inode's last change. Forcing the log
    /// up to that checkpoint makes the inode durable.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.state.sequence()
    }

    /// Returns the state that the log keeps for this item, such as its LSN in the AIL.
    pub(crate) const fn state_of(&self) -> &ItemState {
        &self.state
    }

    /// Changes the image with `change`. If the record has no image, takes the image that `view`
    /// returns. `fields` says which parts other than the core are changed. The caller holds the
    /// latch exclusively.
    pub(crate) fn change<R>(
        &self,
        fields: LoggedFields,
        view: impl FnOnce() -> InodeImage,
        change: impl FnOnce(&mut InodeImage) -> R,
    ) -> R {
        assert!(
            self.latch.is_locked_exclusive(),
            "an inode is changed without its exclusive latch (I2)"
        );
        let mut contents = self.contents.write();
        let contents = contents.get_or_insert_with(|| CachedImage::of(view()));
        let result = change(&mut contents.image);
        self.note_change(&contents.image, fields);
        result
    }

    /// Replaces the whole image. The caller holds the latch exclusively.
    pub(crate) fn replace(&self, fields: LoggedFields, image: InodeImage) {
        assert!(
            self.latch.is_locked_exclusive(),
            "an inode is changed without its exclusive latch (I2)"
        );
        let mut contents = self.contents.write();
        let contents = match &mut *contents {
            Some(known) => {
                known.image = image;
                known
            }
            none => none.insert(CachedImage::of(image)),
        };
        self.note_change(&contents.image, fields);
    }

    /// Marks the parts of a changed image as dirty. The caller holds the lock `contents` (I5).
    fn note_change(&self, image: &InodeImage, fields: LoggedFields) {
        // The image holds no bytes of such a fork, so the write in place would fill it with zeros.
        let is_lost = image.core.data_format == ForkFormat::Uuid;
        assert!(
            image.core.is_free() || !is_lost,
            "no inode with a fork that is not read is changed"
        );
        self.mark(fields);
    }

    /// If the log holds changes of the inode that are not on disk yet, marks the core as dirty, so
    /// that the inode is logged again. Returns whether the log holds such changes. The caller holds
    /// the latch exclusively.
    pub(crate) fn mark_again(&self) -> bool {
        let contents = self.contents.read();
        // An inode without an image is in place, and about to leave the AIL.
        let is_in_log = contents.is_some() && self.is_in_log();
        if is_in_log {
            self.mark(LoggedFields::CORE);
        }
        is_in_log
    }

    /// Marks the core, and the parts in `fields`, as dirty. The record has an image, and the caller
    /// holds the lock `contents` (I5).
    fn mark(&self, fields: LoggedFields) {
        let mut logged = self.logged.lock();
        let flushing = logged.flushing;
        // Until the write has ended these fields are not known to be in place (I3).
        logged.dirty |= fields | LoggedFields::CORE | flushing;
    }

    /// Returns whether the log holds changes of the inode that are not at the inode's home location
    /// on disk.
    fn is_in_log(&self) -> bool {
        self.pins.is_held() || self.state.lsn().is_some()
    }

    /// Returns whether the disk format can hold the core, which is about to be logged. The caller
    /// holds the latch exclusively.
    pub(crate) fn is_encodable(&self) -> bool {
        self.contents.read().as_ref().is_some_and(|contents| contents.image.core.is_encodable())
    }

    /// Encodes the core of an image that is logged or written in place.
    fn encode(&self, image: &InodeImage) -> InodeDisk {
        let encoded = image.core.encode(self.context().geometry());
        encoded.expect("the commit has checked that the core can be encoded (I4)")
    }

    /// Records that the blocks of the inode's cluster are freed. The inode is never written again.
    pub(crate) fn set_freed(&self) {
        self.cluster_state.store(ClusterState::Freed as u32, Ordering::Release);
    }

    /// Records that the freeing of the inode's cluster is durable. The inode leaves the AIL, now or
    /// when it is pushed.
    pub(crate) fn set_gone(&self) {
        self.cluster_state.store(ClusterState::Gone as u32, Ordering::Release);
    }

    /// Returns whether the inode still exists on disk: `false` after its cluster was freed.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.cluster_state.load(Ordering::Acquire) == ClusterState::InUse as u32
    }

    /// Returns whether the log lacks a durable copy of a change of the inode: the change is not
    /// written yet, or the log was shut down and will never write it.
    fn is_pinned(&self) -> bool {
        self.pins.is_pinned()
    }

    fn is_gone(&self) -> bool {
        self.cluster_state.load(Ordering::Acquire) == ClusterState::Gone as u32
    }

    /// Copies the inode into the bytes of its cluster. Returns `None`, and copies nothing, if the
    /// inode has no dirty parts, if some of its changes are not durable in the log, or if another
    /// thread holds its latch. The caller holds the latch of the buffer that has these bytes.
    pub(crate) fn flush_into(self: &Arc<Self>, cluster: &mut [u8]) -> Option<FlushedInode> {
        if !self.is_live() || !self.latch.try_lock_shared() {
            return None;
        }
        let taken = self.flush_latched(cluster);
        self.latch.unlock_shared();
        taken
    }

    fn flush_latched(self: &Arc<Self>, cluster: &mut [u8]) -> Option<FlushedInode> {
        let contents = self.contents.read();
        let mut logged = self.logged.lock();
        if logged.dirty.is_empty() || self.is_pinned() {
            return None;
        }
        let lsn = self.state.lsn()?;
        let contents = contents.as_ref().expect("a dirty inode has an image (I5)");
        let core = self.encode(&contents.image);
        let from = self.place.offset_bytes as usize;
        let inode_size = self.context().geometry().inode_size as usize;
        let slot = cluster.get_mut(from..from + inode_size).expect("an inode lies in its cluster");
        fork::write(slot, &core, &contents.image);
        xfs_format::inode::seal(slot, lsn);
        logged.flushing = logged.dirty;
        logged.dirty = LoggedFields::empty();
        Some(FlushedInode { record: Arc::clone(self), lsn })
    }

    /// Records that the write of the cluster, into which the inode was copied, has ended. If all
    /// parts are on disk now, the image is dropped (I5).
    pub(crate) fn written(&self) {
        let mut contents = self.contents.write();
        let mut logged = self.logged.lock();
        logged.flushing = LoggedFields::empty();
        let unneeded = if logged.is_in_place() { contents.take() } else { None };
        drop((logged, contents));
        drop(unneeded);
    }

    /// Returns the first region of the inode's log entry, which describes the other regions.
    fn log_format(&self, core: &InodeCore, forks: &LoggedForks<'_>) -> InodeFormat {
        let InodeLocation { cluster, cluster_bytes, offset_bytes, .. } = self.place;
        let regions = 2 + u16::from(forks.data.is_some()) + u16::from(forks.attr.is_some());
        InodeFormat {
            regions,
            fields: forks.fields,
            attr_bytes: forks.attr.as_ref().map_or(0, |attr| attr.length_bytes() as u16),
            data_bytes: forks.data.as_ref().map_or(0, |data| data.length_bytes() as u16),
            inode: self.number,
            device: core.rdev.map_or(0, fork::encode_device),
            cluster,
            cluster_blocks: cluster_bytes / BASIC_BLOCK_BYTES,
            offset_bytes,
        }
    }
}

impl LogItem for InodeRecord {
    fn state(&self) -> &ItemState {
        &self.state
    }

    fn format(&self, regions: &mut RegionWriter<'_>) {
        let contents = self.contents.read();
        let logged = self.logged.lock();
        let contents = logged_image(contents.as_deref());
        let forks = fork::logged(&contents.image, logged.dirty);
        contents.note_formatted(forks.shape(&contents.image.core));
        let format = self.log_format(&contents.image.core, &forks);
        regions.region(&format.encode(HostOrder::NATIVE));
        let core = self.encode(&contents.image);
        regions.region(&core_to_log(transmute_ref!(&core), HostOrder::NATIVE));
        if let Some(data) = &forks.data {
            data.put(regions);
        }
        if let Some(attr) = &forks.attr {
            attr.put(regions);
        }
    }

    fn is_updatable(&self) -> bool {
        let contents = self.contents.read();
        let Some(contents) = &*contents else { return false };
        let forks = fork::logged(&contents.image, self.logged.lock().dirty);
        let shape = forks.shape(&contents.image.core);
        shape.is_some() && shape == contents.formatted()
    }

    fn update(&self, regions: &mut RegionUpdater<'_>) {
        let contents = self.contents.read();
        let logged = self.logged.lock();
        let contents = logged_image(contents.as_deref());
        let forks = fork::logged(&contents.image, logged.dirty);
        regions.next(InodeFormat::ENCODED_BYTES);
        let core = self.encode(&contents.image);
        let core = core_to_log(transmute_ref!(&core), HostOrder::NATIVE);
        regions.next(core.len()).copy_from_slice(&core);
        for fork in [&forks.data, &forks.attr].into_iter().flatten() {
            fork.update(regions);
        }
    }

    fn pin(&self) {
        self.pins.pin();
    }

    fn unpin(&self, end: CheckpointEnd) {
        self.pins.unpin(end);
    }

    fn committed(&self, start: Lsn, _leaving: &mut Vec<Arc<dyn LogItem>>) -> Option<Lsn> {
        (!self.is_gone()).then_some(start)
    }

    fn push(&self, in_place: &mut InPlace) -> Pushed {
        if self.is_gone() {
            return Pushed::Done;
        }
        if !self.is_live() || self.is_pinned() {
            return Pushed::Pinned;
        }
        if self.state.lsn().is_none() {
            // The push has already written the whole cluster for another of its inodes.
            return Pushed::Done;
        }
        crate::cluster::push(self.context(), &self.cluster, &self.cluster_item, in_place)
    }

    /// Excludes the inode from all later writes to disk. Called when the log is shut down, or when
    /// a transaction that had changed the inode is cancelled: the log does not have that change
    /// (I4).
    fn abandon(&self) {
        self.pins.set_lost();
    }
}

/// Returns the image of an inode that is being logged.
fn logged_image(contents: Option<&CachedImage>) -> &CachedImage {
    match contents {
        Some(contents) => contents,
        None => unreachable!("an inode is logged without an image (I5)"),
    }
}

/// Returns the part of a cluster's bytes that belongs to the inode at `place`.
fn slot_of<'a>(cluster: &'a [u8], place: &InodeLocation, context: &VolumeContext) -> &'a [u8] {
    let start = place.offset_bytes as usize;
    let inode = cluster.get(start..start + context.geometry().inode_size as usize);
    inode.expect("an inode lies in its cluster")
}

impl core::fmt::Debug for InodeRecord {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("InodeRecord").field("number", &self.number).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
