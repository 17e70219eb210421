//! One buffer: the extents of the device that it covers, its kind, its bytes, and its latch.
//!
//! # Invariants
//!
//! - **I1** A [`Buffer`] that a caller holds is loaded: its bytes passed the verifier of its kind,
//!   or were cleared for a new block of that kind.
//! - **I2** The extents of a buffer never change. Its kind changes only when its blocks have been
//!   freed and are used again ([`BufferCache::claim`](crate::BufferCache::claim)).
//! - **I3** The strong count of a core (the state that all references to one buffer share) is its
//!   hold count. Everything that needs the buffer to stay in memory owns a strong reference: a
//!   caller, the ring of the buffer's shard, the log item of a dirty buffer. The lookup table owns
//!   a weak reference. An attachment owns a strong reference only while it needs the buffer. With a
//!   permanent strong reference, buffer and attachment would keep each other alive.
//! - **I4** Bytes change only while the latch is held.
//!
//! # Two locks
//!
//! The *latch* is the right to change the buffer. A transaction holds the latch from its first
//! access to its commit, across calls and across the work of the log. A thread that writes the
//! buffer in place, that is, to its home location on disk, holds the latch during the write. The
//! lock on the *bytes* is held only for moments. Without this lock, a reader that has no latch
//! could see half of a change. Lock order: latches, in the order of the layer above; then the lock
//! on the bytes. A thread that holds the bytes for writing takes no other lock.

use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};

use xfs_format::btree::BtreeKind;
use xfs_format::{BlockKind, DiskAddr};
use xfs_sync::{
    AtomicBool, AtomicU32, Latch, Object, Ordering, RecursiveReadGuard, RecursiveRwLock,
    RecursiveWriteGuard, SetOnce,
};

use crate::map::{BufferExtent, BufferMap};

/// An attachment: state that another layer keeps with a buffer.
type BufferAttachment = Arc<dyn Any + Send + Sync>;

/// The write lock on a buffer's bytes, held by the thread that loads the buffer.
pub(crate) type Loading<'a> = RecursiveWriteGuard<'a, Box<[u8]>>;

/// The state that all references to one buffer share.
pub(crate) struct BufferCore {
    /// The extents of the device that the buffer covers. The extents never change (I2).
    map: BufferMap,
    kind: KindCell,
    /// Whether the bytes are loaded and verified (I1). Set once, by the thread that read the bytes,
    /// before it releases the lock on the bytes.
    loaded: AtomicBool<Object>,
    /// Whether the buffer was requested since the eviction clock of the buffer's shard last passed
    /// the buffer.
    referenced: AtomicBool<Object>,
    latch: Latch<Object>,
    attachment: SetOnce<BufferAttachment, Object>,
    /// The bytes of the buffer; empty until the buffer is loaded.
    content: RecursiveRwLock<Box<[u8]>, Object>,
}

impl BufferCore {
    /// Creates a buffer that is not loaded yet.
    pub(crate) fn new(map: BufferMap, kind: BlockKind) -> Self {
        Self {
            map,
            kind: KindCell::new(kind),
            loaded: AtomicBool::new(false),
            referenced: AtomicBool::new(false),
            latch: Latch::new(),
            attachment: SetOnce::new(),
            content: RecursiveRwLock::new(Box::default()),
        }
    }

    #[inline]
    pub(crate) fn map(&self) -> &BufferMap {
        &self.map
    }

    #[inline]
    pub(crate) fn kind(&self) -> BlockKind {
        self.kind.value()
    }

    pub(crate) fn latch(&self) -> &Latch<Object> {
        &self.latch
    }

    /// Takes the write lock on the bytes. All other threads wait for this lock until the buffer is
    /// loaded or given up.
    pub(crate) fn begin_load(&self) -> Loading<'_> {
        self.content.write()
    }

    /// Stores verified `bytes` and marks the buffer loaded (I1). `content` is the lock that
    /// `begin_load` took.
    pub(crate) fn finish_load(&self, mut content: Loading<'_>, bytes: Box<[u8]>) {
        *content = bytes;
        self.loaded.store(true, Ordering::Release);
    }

    /// Fills a loaded buffer with zeros and sets its kind to `kind`. The caller holds the latch.
    pub(crate) fn renew(&self, kind: BlockKind) {
        assert!(self.latch.is_locked_exclusive(), "a buffer changed without its latch (I4)");
        let mut content = self.content.write();
        content.fill(0);
        self.kind.set(kind);
    }

    /// Waits while another thread is loading the buffer. Returns `true` if the buffer is loaded,
    /// and `false` if the load failed.
    pub(crate) fn wait_until_loaded(&self) -> bool {
        if self.loaded.load(Ordering::Acquire) {
            return true;
        }
        drop(self.content.read());
        self.loaded.load(Ordering::Acquire)
    }

    /// Marks the buffer as requested, so that the eviction clock spares it once. The flag is
    /// written only if it is clear: readers of a buffer in frequent use then do not take the cache
    /// line of the flag from each other.
    pub(crate) fn note_reference(&self) {
        if !self.referenced.load(Ordering::Relaxed) {
            self.referenced.store(true, Ordering::Relaxed);
        }
    }

    /// Clears the mark that `note_reference` sets. Returns whether the buffer had the mark.
    pub(crate) fn take_reference(&self) -> bool {
        let referenced = self.referenced.load(Ordering::Relaxed);
        if referenced {
            self.referenced.store(false, Ordering::Relaxed);
        }
        referenced
    }
}

/// A reference to a buffer. Cloning a reference is cheap, and the buffer stays in memory while a
/// reference exists. Two references are equal if they refer to the same buffer.
#[derive(Clone)]
pub struct Buffer(Arc<BufferCore>);

impl Buffer {
    /// Creates a reference, for a caller, from the shared state (core) of a buffer. The buffer must
    /// be loaded (I1: a buffer that a caller holds is loaded).
    pub(crate) fn new(core: Arc<BufferCore>) -> Self {
        debug_assert!(core.loaded.load(Ordering::Acquire), "a buffer that is not loaded (I1)");
        Self(core)
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<BufferCore> {
        &self.0
    }

    /// Returns a reference that does not keep the buffer in memory.
    #[must_use]
    pub fn downgrade(&self) -> WeakBuffer {
        WeakBuffer(Arc::downgrade(&self.0))
    }

    /// Returns the address on the device of the buffer's first extent.
    #[inline]
    #[must_use]
    pub fn at(&self) -> DiskAddr {
        self.0.map.at()
    }

    /// Returns the kind of the block. The bytes were verified as a block of this kind, or the
    /// buffer was claimed for a new block of this kind.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> BlockKind {
        self.0.kind()
    }

    /// Returns the total length of all extents in bytes.
    #[inline]
    #[must_use]
    pub fn length_bytes(&self) -> u32 {
        self.0.map.length_bytes()
    }

    /// Returns the extents of the device that the buffer covers, in order.
    pub fn extents(&self) -> impl Iterator<Item = &BufferExtent> {
        self.0.map.extents()
    }

    /// Locks the bytes for reading until the guard is dropped. A thread may hold several read
    /// guards of one buffer, but must not request one while it holds the bytes for writing.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> BufferBytes<'_> {
        BufferBytes(self.0.content.read())
    }

    /// Locks the bytes for writing until the guard is dropped. Hold the guard for moments only:
    /// meanwhile no thread can read the buffer, and this thread must not request the bytes again.
    ///
    /// # Panics
    ///
    /// Panics if the latch is not held (I4: bytes change only under the latch).
    #[inline]
    #[must_use]
    pub fn bytes_mut(&self) -> BufferBytesMut<'_> {
        assert!(self.is_latched(), "a buffer changed without its latch (I4)");
        BufferBytesMut(self.0.content.write())
    }

    /// Waits for the latch, which is the right to change the buffer, and takes the latch.
    pub fn latch(&self) {
        self.0.latch.lock_exclusive();
    }

    /// Waits for the latch, and holds it until the guard is dropped.
    #[must_use]
    pub fn latched(&self) -> LatchedBuffer<'_> {
        self.latch();
        LatchedBuffer(self)
    }

    /// Takes the latch if it is free. Returns whether this call took the latch.
    #[must_use]
    pub fn try_latch(&self) -> bool {
        self.0.latch.try_lock_exclusive()
    }

    /// Takes the latch if it is free, and holds it until the guard is dropped.
    #[must_use]
    pub fn try_latched(&self) -> Option<LatchedBuffer<'_>> {
        self.try_latch().then(|| LatchedBuffer(self))
    }

    /// Releases the latch.
    ///
    /// # Panics
    ///
    /// Panics if the latch is not held.
    #[inline]
    pub fn unlatch(&self) {
        self.0.latch.unlock_exclusive();
    }

    /// Returns whether the latch is held.
    #[inline]
    #[must_use]
    pub fn is_latched(&self) -> bool {
        self.0.latch.is_locked_exclusive()
    }

    /// Returns whether a thread sleeps until the latch is released. The result may be outdated when
    /// the caller gets it, so only diagnostics and tests use it.
    #[must_use]
    pub fn has_waiters(&self) -> bool {
        self.0.latch.has_waiters()
    }

    /// Returns the attachment of the buffer. Returns `None` if the buffer has no attachment, or one
    /// that is not a `T`.
    #[must_use]
    pub fn attached<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(self.0.attachment.value()?).downcast().ok()
    }

    /// Returns the attachment of the buffer. If the buffer has no attachment yet, `make` creates
    /// one. The attachment lives as long as the buffer. So it must not own a permanent reference to
    /// the buffer: the two would keep each other alive (I3).
    ///
    /// # Panics
    ///
    /// Panics if the buffer has an attachment of another type: only one layer may attach state to a
    /// buffer.
    #[expect(clippy::panic, reason = "a second layer that attaches is a bug in this program")]
    pub fn attach_with<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let attachment = self.0.attachment.value_or_init(|| Arc::new(make()));
        match Arc::clone(attachment).downcast() {
            Ok(attached) => attached,
            Err(_) => panic!("a second kind of attachment on one buffer"),
        }
    }
}

/// The latch of a buffer, released on drop.
#[derive(Debug)]
pub struct LatchedBuffer<'a>(&'a Buffer);

impl Drop for LatchedBuffer<'_> {
    fn drop(&mut self) {
        self.0.unlatch();
    }
}

/// A reference to a buffer that does not keep the buffer in memory.
#[derive(Clone)]
pub struct WeakBuffer(Weak<BufferCore>);

impl WeakBuffer {
    /// Returns the buffer, or `None` if it is no longer in memory. The call counts as a request for
    /// the buffer, which the eviction clock then spares once.
    #[must_use]
    pub fn upgrade(&self) -> Option<Buffer> {
        let core = self.0.upgrade()?;
        core.note_reference();
        Some(Buffer(core))
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Buffer {}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("map", &self.0.map)
            .field("kind", &self.0.kind())
            .finish_non_exhaustive()
    }
}

/// The bytes of a buffer, locked for reading.
pub struct BufferBytes<'a>(RecursiveReadGuard<'a, Box<[u8]>>);

impl Deref for BufferBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// The bytes of a buffer, locked for writing.
pub struct BufferBytesMut<'a>(RecursiveWriteGuard<'a, Box<[u8]>>);

impl Deref for BufferBytesMut<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for BufferBytesMut<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// All block kinds. A buffer stores its kind as an index into this table, so readers need no lock
/// to read the kind.
const KINDS: [BlockKind; 25] = [
    BlockKind::Superblock,
    BlockKind::Agf,
    BlockKind::Agi,
    BlockKind::Agfl,
    BlockKind::Btree(BtreeKind::FreeSpaceByBlock),
    BlockKind::Btree(BtreeKind::FreeSpaceBySize),
    BlockKind::Btree(BtreeKind::Inode),
    BlockKind::Btree(BtreeKind::FreeInode),
    BlockKind::Btree(BtreeKind::ReverseMap),
    BlockKind::Btree(BtreeKind::Refcount),
    BlockKind::Btree(BtreeKind::Extent),
    BlockKind::Btree(BtreeKind::RealtimeReverseMap),
    BlockKind::Btree(BtreeKind::RealtimeRefcount),
    BlockKind::InodeCluster,
    BlockKind::DirectoryData,
    BlockKind::DirectoryIndex,
    BlockKind::DirectoryFree,
    BlockKind::Attr,
    BlockKind::AttrRemote,
    BlockKind::Symlink,
    BlockKind::Dquots,
    BlockKind::RealtimeBitmap,
    BlockKind::RealtimeSummary,
    BlockKind::RealtimeGroupBitmap,
    BlockKind::RealtimeGroupSummary,
];

/// The kind of a buffer, as an atomic index into `KINDS`.
struct KindCell(AtomicU32<Object>);

impl KindCell {
    fn new(kind: BlockKind) -> Self {
        Self(AtomicU32::new(Self::number(kind)))
    }

    fn value(&self) -> BlockKind {
        let number = self.0.load(Ordering::Acquire) as usize;
        let kind = KINDS.get(number).copied();
        kind.expect("only positions in the table are stored")
    }

    fn set(&self, kind: BlockKind) {
        self.0.store(Self::number(kind), Ordering::Release);
    }

    fn number(kind: BlockKind) -> u32 {
        let number = KINDS.iter().position(|other| *other == kind);
        number.expect("all kinds are in the table") as u32
    }
}

#[cfg(test)]
mod tests;
