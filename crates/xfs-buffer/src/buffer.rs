//! One buffer: the extents of the device that it covers, its kind, its bytes, and its latch.
//!
//! # Invariants
//!
//! - **I1** A [`Buffer`] that a caller holds is loaded: its bytes passed the verifier of its kind,
//!   or were cleared for a new block of that kind.
//! - **I2** The extents of a buffer never change. Its kind changes only when its blocks have been
//!   freed and are used again ([`BufferCache::claim`](crate::BufferCache::claim)).
//! - **I3** The strong count of a core is its hold count. Everything that needs the buffer to stay
//!   (a caller, the ring of its shard, the log item of a dirty buffer) owns a strong reference; the
//!   lookup table owns a weak one. An attachment owns a strong reference only while it needs the
//!   buffer. Otherwise buffer and attachment would keep each other alive.
//! - **I4** Bytes change only while the latch is held.
//!
//! # Two locks
//!
//! The *latch* is the right to change the buffer. A transaction holds it from its first touch to
//! its commit, and so does the thread that writes the buffer in place. It is held across calls and
//! across the log's work. The lock on the *bytes* is held for moments. It keeps a reader that has
//! no latch from seeing half of a change. Lock order: latches, in the order of the layer above;
//! then bytes, which are a leaf for a writer.

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
type Attachment = Arc<dyn Any + Send + Sync>;

/// The lock on a buffer's bytes, held by the thread that loads it.
pub(crate) type Loading<'a> = RecursiveWriteGuard<'a, Box<[u8]>>;

/// State that all references to one buffer share.
pub(crate) struct BufferCore {
    /// The extents, which never change (I2).
    map: BufferMap,
    kind: KindCell,
    /// Whether the buffer is loaded. Set once, by the thread that read the bytes, before it
    /// releases the lock on them.
    loaded: AtomicBool<Object>,
    /// Whether the buffer was requested since the clock hand last passed.
    referenced: AtomicBool<Object>,
    latch: Latch<Object>,
    attachment: SetOnce<Attachment, Object>,
    /// The bytes, empty until the buffer is loaded.
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

    pub(crate) fn map(&self) -> &BufferMap {
        &self.map
    }

    pub(crate) fn kind(&self) -> BlockKind {
        self.kind.value()
    }

    pub(crate) fn latch(&self) -> &Latch<Object> {
        &self.latch
    }

    /// Locks out all other threads until the buffer is loaded or given up.
    pub(crate) fn begin_load(&self) -> Loading<'_> {
        self.content.write()
    }

    /// Stores verified bytes and marks the buffer loaded (I1).
    pub(crate) fn finish_load(&self, mut content: Loading<'_>, bytes: Box<[u8]>) {
        *content = bytes;
        self.loaded.store(true, Ordering::Release);
    }

    /// Clears a loaded buffer and gives it this kind. The caller holds the latch.
    pub(crate) fn renew(&self, kind: BlockKind) {
        assert!(self.latch.is_locked_exclusive(), "a buffer changed without its latch (I4)");
        let mut content = self.content.write();
        content.fill(0);
        self.kind.set(kind);
    }

    /// Returns whether the buffer is loaded, after waiting for a thread that is loading it.
    pub(crate) fn wait_until_loaded(&self) -> bool {
        if self.loaded.load(Ordering::Acquire) {
            return true;
        }
        drop(self.content.read());
        self.loaded.load(Ordering::Acquire)
    }

    /// Grants the buffer a second chance at the next pass of the clock hand. The flag is written
    /// only if it is clear, so that readers of a busy buffer keep its cache line.
    pub(crate) fn note_reference(&self) {
        if !self.referenced.load(Ordering::Relaxed) {
            self.referenced.store(true, Ordering::Relaxed);
        }
    }

    /// Takes the second chance back. Returns whether the buffer had one.
    pub(crate) fn take_reference(&self) -> bool {
        let referenced = self.referenced.load(Ordering::Relaxed);
        if referenced {
            self.referenced.store(false, Ordering::Relaxed);
        }
        referenced
    }
}

/// A reference to a buffer. Cloning is cheap, and the buffer stays in memory while a reference
/// exists. Two references are equal if they refer to the same buffer.
#[derive(Clone)]
pub struct Buffer(Arc<BufferCore>);

impl Buffer {
    /// Creates a reference for a caller. The core must be loaded (I1).
    pub(crate) fn new(core: Arc<BufferCore>) -> Self {
        debug_assert!(core.loaded.load(Ordering::Acquire), "a buffer that is not loaded (I1)");
        Self(core)
    }

    pub(crate) fn core(&self) -> &Arc<BufferCore> {
        &self.0
    }

    /// Returns a reference that does not keep the buffer in memory.
    #[must_use]
    pub fn downgrade(&self) -> WeakBuffer {
        WeakBuffer(Arc::downgrade(&self.0))
    }

    /// Returns the address of the buffer's first extent on the device.
    #[must_use]
    pub fn at(&self) -> DiskAddr {
        self.0.map.at()
    }

    /// Returns the kind that the buffer was verified as, or claimed for.
    #[must_use]
    pub fn kind(&self) -> BlockKind {
        self.0.kind()
    }

    /// Returns the length of all extents together.
    #[must_use]
    pub fn length_bytes(&self) -> u32 {
        self.0.map.length_bytes()
    }

    /// Returns the extents of the device that the buffer covers, in order.
    pub fn extents(&self) -> impl Iterator<Item = &BufferExtent> {
        self.0.map.extents()
    }

    /// Locks the contents for reading until the guard is dropped. A thread may hold several guards
    /// of one buffer, but must not request one while it holds the bytes for writing.
    #[must_use]
    pub fn bytes(&self) -> BufferBytes<'_> {
        BufferBytes(self.0.content.read())
    }

    /// Locks the contents for writing until the guard is dropped. Hold the guard for moments only:
    /// meanwhile no thread can read the buffer, and this thread must not request its bytes again.
    ///
    /// # Panics
    ///
    /// Panics if the latch is not held (I4).
    #[must_use]
    pub fn bytes_mut(&self) -> BufferBytesMut<'_> {
        assert!(self.is_latched(), "a buffer changed without its latch (I4)");
        BufferBytesMut(self.0.content.write())
    }

    /// Waits for the latch, the right to change the buffer, and takes it.
    pub fn latch(&self) {
        self.0.latch.lock_exclusive();
    }

    /// Takes the latch if it is free. Returns whether this call took the latch.
    #[must_use]
    pub fn try_latch(&self) -> bool {
        self.0.latch.try_lock_exclusive()
    }

    /// Releases the latch.
    ///
    /// # Panics
    ///
    /// Panics if the latch is not held.
    pub fn unlatch(&self) {
        self.0.latch.unlock_exclusive();
    }

    /// Returns whether the latch is held.
    #[must_use]
    pub fn is_latched(&self) -> bool {
        self.0.latch.is_locked_exclusive()
    }

    /// Returns whether a thread sleeps until the latch is released. The answer may be outdated
    /// already. For diagnostics and tests.
    #[must_use]
    pub fn has_waiters(&self) -> bool {
        self.0.latch.has_waiters()
    }

    /// Returns the attachment. Returns `None` if the buffer has none, or if the attachment is not a
    /// `T`.
    #[must_use]
    pub fn attached<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(self.0.attachment.value()?).downcast().ok()
    }

    /// Returns the attachment. If the buffer has none yet, `make` creates it. The attachment stays
    /// for as long as the buffer does, so it must not own the buffer all the time (I3).
    ///
    /// # Panics
    ///
    /// Panics if the attachment has another type: a buffer has one layer above.
    #[expect(clippy::panic, reason = "a second layer that attaches is a bug in this program")]
    pub fn attach_with<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let attachment = self.0.attachment.value_or_init(|| Arc::new(make()));
        match Arc::clone(attachment).downcast() {
            Ok(attached) => attached,
            Err(_) => panic!("a second kind of attachment on one buffer"),
        }
    }
}

/// A reference to a buffer that does not keep it in memory.
#[derive(Clone)]
pub struct WeakBuffer(Weak<BufferCore>);

impl WeakBuffer {
    /// Returns the buffer, or `None` if it is no longer in memory. The call counts as a request for
    /// the buffer.
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

/// The bytes of a buffer, held for reading.
pub struct BufferBytes<'a>(RecursiveReadGuard<'a, Box<[u8]>>);

impl Deref for BufferBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// The bytes of a buffer, held for writing.
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

/// All block kinds. A buffer stores the index of its kind in this table, so readers need no lock to
/// read the kind.
const KINDS: [BlockKind; 18] = [
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
    BlockKind::InodeCluster,
    BlockKind::DirectoryData,
    BlockKind::DirectoryIndex,
    BlockKind::DirectoryFree,
    BlockKind::Attr,
    BlockKind::AttrRemote,
    BlockKind::Symlink,
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
