//! The cache.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use xfs_device::BlockDevice;
use xfs_format::{BlockKind, DiskAddr, Geometry, Lsn, VerifyContext};

use crate::error::{IoError, Result};

/// A contiguous piece of the device that a buffer covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferExtent {
    /// Where it starts.
    pub at: DiskAddr,
    /// How long it is.
    pub length_bytes: u32,
}

/// Metadata buffers of one volume.
///
/// This is the context that every layer above is handed: it knows the geometry and the device.
pub struct BufferCache {
    device: Arc<dyn BlockDevice>,
    geometry: Arc<Geometry>,
    log_head: OnceLock<Lsn>,
}

/// A reference to a buffer. Cloning is cheap; the buffer stays while a reference does.
#[derive(Clone)]
pub struct Buffer(Arc<Vec<u8>>);

/// The bytes of a buffer, held for reading.
pub struct BufferBytes<'a>(&'a [u8]);

impl Deref for BufferBytes<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl Buffer {
    /// The contents, held for reading until the guard is dropped.
    #[must_use]
    pub fn bytes(&self) -> BufferBytes<'_> {
        BufferBytes(&self.0)
    }
}

impl BufferCache {
    /// A cache over `device`, holding at most about `capacity_bytes` of buffers nobody uses.
    #[must_use]
    pub fn new(
        device: Arc<dyn BlockDevice>,
        geometry: Arc<Geometry>,
        capacity_bytes: usize,
    ) -> Self {
        let _ = capacity_bytes;
        Self { device, geometry, log_head: OnceLock::new() }
    }

    /// Sizes of the volume.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// What a verifier of this volume's structures may know.
    #[must_use]
    pub fn verify_context(&self) -> VerifyContext<'_> {
        VerifyContext { geometry: &self.geometry, log_head: self.log_head.get().copied() }
    }

    /// The data device.
    #[must_use]
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// Says where the log ends: from now on a buffer logged after that is corrupt. Once only; a
    /// second call changes nothing.
    pub fn set_log_head(&self, head: Lsn) {
        let _ = self.log_head.set(head);
    }

    /// The buffer of `length_bytes` at `at`, from memory or read and verified as `kind`.
    ///
    /// # Errors
    ///
    /// The device's error, or the check that failed. A failure is not remembered.
    pub fn read(&self, at: DiskAddr, length_bytes: u32, kind: BlockKind) -> Result<Buffer> {
        self.read_mapped(&[BufferExtent { at, length_bytes }], kind)
    }

    /// A buffer over several pieces of the device, in this order: a directory block whose
    /// filesystem blocks are apart. It is known by the address of its first piece.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_mapped(&self, map: &[BufferExtent], kind: BlockKind) -> Result<Buffer> {
        let mut bytes = Vec::new();
        for extent in map {
            let start = bytes.len();
            bytes.resize(start + extent.length_bytes as usize, 0);
            let offset = extent.at.byte_offset().unwrap_or(u64::MAX);
            let piece = bytes.get_mut(start..).unwrap_or_default();
            self.device.read_at(offset, piece).map_err(|source| IoError {
                operation: "read",
                at: extent.at,
                length_bytes: extent.length_bytes.into(),
                source,
            })?;
        }
        let at = map.first().map_or(DiskAddr::NULL, |extent| extent.at);
        kind.verify(&bytes, at, &self.verify_context())?;
        Ok(Buffer(Arc::new(bytes)))
    }
}
