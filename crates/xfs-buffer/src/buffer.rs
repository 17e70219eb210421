//! One buffer: the piece of the device that it covers, its kind, its bytes.
//!
//! # Invariants
//!
//! - **I1** A [`Buffer`] that a caller holds is loaded: its bytes passed the verifier of its kind.
//! - **I2** The extents and the kind of a buffer never change.
//! - **I3** The strong count of a core is its hold count. Everything that needs the buffer to stay
//!   (a caller, the ring of its shard, later the log item of a dirty buffer) owns a strong
//!   reference; the lookup table owns a weak one.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use xfs_format::{BlockKind, Check, Corruption, DiskAddr, Place};
use xfs_sync::{AtomicBool, Object, Ordering, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A contiguous piece of the device that a buffer covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferExtent {
    /// Where it starts.
    pub at: DiskAddr,
    /// How long it is.
    pub length_bytes: u32,
}

/// Which bytes a buffer covers and what they are: what two users of one address must agree on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    first: BufferExtent,
    /// The pieces after the first. Empty, and so not allocated, for nearly every buffer.
    rest: Box<[BufferExtent]>,
    kind: BlockKind,
    length_bytes: u32,
}

impl Identity {
    /// The longest buffer: twice an inode chunk of the largest inodes.
    pub(crate) const MAX_BYTES: u32 = 256 << 10;

    /// The identity of a buffer over `map`, or `None` for an empty map, an empty piece or too
    /// much in all.
    pub(crate) fn new(map: &[BufferExtent], kind: BlockKind) -> Option<Self> {
        let (first, rest) = map.split_first()?;
        let length_bytes = map.iter().try_fold(0_u32, |sum, extent| {
            let sum = sum.checked_add(extent.length_bytes)?;
            (extent.length_bytes != 0 && sum <= Self::MAX_BYTES).then_some(sum)
        })?;
        Some(Self { first: *first, rest: rest.into(), kind, length_bytes })
    }

    /// Whether a buffer with this identity is what `map` and `kind` ask for.
    pub(crate) fn matches(&self, map: &[BufferExtent], kind: BlockKind) -> bool {
        self.kind == kind
            && map
                .split_first()
                .is_some_and(|(first, rest)| *first == self.first && *rest == *self.rest)
    }

    /// The address that the buffer is known by.
    pub(crate) fn at(&self) -> DiskAddr {
        self.first.at
    }

    pub(crate) fn kind(&self) -> BlockKind {
        self.kind
    }

    pub(crate) fn length_bytes(&self) -> u32 {
        self.length_bytes
    }

    /// The pieces, in order.
    pub(crate) fn extents(&self) -> impl Iterator<Item = &BufferExtent> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// What is wrong when somebody else wants this buffer's address as `wanted`.
    #[cold]
    pub(crate) fn conflict(&self, wanted: &Self) -> Corruption {
        let differs = self.extents().zip(wanted.extents()).find(|(mine, other)| mine != other);
        let check = match differs {
            Some((mine, other)) if mine.at != other.at => {
                Check::BufferElsewhere { cached: mine.at, wanted: other.at }
            }
            _ => Check::BufferInUse {
                cached: self.kind,
                cached_bytes: self.length_bytes,
                wanted: wanted.kind,
                wanted_bytes: wanted.length_bytes,
            },
        };
        Corruption::new(wanted.kind.structure(), Place::Disk(self.at()), check)
    }
}

/// What all references to one buffer share.
pub(crate) struct Core {
    identity: Identity,
    /// Set once, by the thread that read the bytes, before it frees the lock on them.
    loaded: AtomicBool<Object>,
    /// Whether somebody asked for the buffer since the clock last passed.
    referenced: AtomicBool<Object>,
    /// The bytes, empty until the buffer is loaded.
    content: RwLock<Box<[u8]>, Object>,
}

impl Core {
    /// A buffer that is not loaded yet.
    pub(crate) fn new(identity: Identity) -> Self {
        Self {
            identity,
            loaded: AtomicBool::new(false),
            referenced: AtomicBool::new(false),
            content: RwLock::new(Box::default()),
        }
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Locks out everybody else until the buffer is loaded or given up.
    pub(crate) fn begin_load(&self) -> RwLockWriteGuard<'_, Box<[u8]>> {
        self.content.write()
    }

    /// Puts verified bytes in place.
    pub(crate) fn finish_load(
        &self,
        mut content: RwLockWriteGuard<'_, Box<[u8]>>,
        bytes: Box<[u8]>,
    ) {
        *content = bytes;
        self.loaded.store(true, Ordering::Release);
    }

    /// Whether the buffer is loaded, after waiting for a thread that loads it just now.
    pub(crate) fn wait_until_loaded(&self) -> bool {
        if self.loaded.load(Ordering::Acquire) {
            return true;
        }
        drop(self.content.read());
        self.loaded.load(Ordering::Acquire)
    }

    /// Gives the buffer a second chance when the clock comes by. Written only if it is not set
    /// already, so that a busy buffer's line is not taken from its readers for nothing.
    pub(crate) fn note_reference(&self) {
        if !self.referenced.load(Ordering::Relaxed) {
            self.referenced.store(true, Ordering::Relaxed);
        }
    }

    /// Takes back the second chance, and says whether there was one.
    pub(crate) fn take_reference(&self) -> bool {
        let referenced = self.referenced.load(Ordering::Relaxed);
        if referenced {
            self.referenced.store(false, Ordering::Relaxed);
        }
        referenced
    }
}

/// A reference to a buffer. Cloning is cheap; the buffer stays while a reference does.
#[derive(Clone)]
pub struct Buffer(Arc<Core>);

impl Buffer {
    /// A reference for a caller. The core must be loaded (I1).
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self(core)
    }

    /// Where the buffer starts on the device.
    #[must_use]
    pub fn at(&self) -> DiskAddr {
        self.0.identity.at()
    }

    /// What the buffer was verified as.
    #[must_use]
    pub fn kind(&self) -> BlockKind {
        self.0.identity.kind()
    }

    /// The contents, held for reading until the guard is dropped.
    ///
    /// A thread that holds a guard must not ask for a second one of the same buffer: a writer that
    /// waits between the two would stop both.
    #[must_use]
    pub fn bytes(&self) -> BufferBytes<'_> {
        BufferBytes(self.0.content.read())
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Buffer").field(&self.0.identity).finish()
    }
}

/// The bytes of a buffer, held for reading.
pub struct BufferBytes<'a>(RwLockReadGuard<'a, Box<[u8]>>);

impl Deref for BufferBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
