//! Reads that leave no buffer behind, for a walk that visits each block of a volume once. The cache
//! stays free for blocks that are used repeatedly.

use xfs_format::{BlockKind, DiskAddr};

use super::{BufferCache, io_error};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::map::BufferExtent;

impl BufferCache {
    /// Returns the buffer of `length_bytes` at `at`, or `None` if it is not in memory.
    ///
    /// # Errors
    ///
    /// Returns a corruption, as [`read`](Self::read) does, if the buffer is in memory with another
    /// kind or length.
    pub fn find(&self, at: DiskAddr, length_bytes: u32, kind: BlockKind) -> Result<Option<Buffer>> {
        match self.shard(at).find(at) {
            Some(core) if core.wait_until_loaded() => {
                self.share(core, &[BufferExtent { at, length_bytes }], kind).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Reads a block into `bytes` and verifies it, without caching it. A buffer of the block in the
    /// cache is ignored, even though it may be newer than the device. If another thread writes the
    /// block to the device meanwhile, the result may be half old and half new.
    ///
    /// # Errors
    ///
    /// Returns the device's error, or the check that failed.
    pub fn read_uncached(&self, at: DiskAddr, kind: BlockKind, bytes: &mut [u8]) -> Result<()> {
        let extent =
            BufferExtent { at, length_bytes: u32::try_from(bytes.len()).unwrap_or(u32::MAX) };
        let failed = |source| io_error("read", &extent, source);
        let end = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let offset = at.byte_offset().ok_or(end).map_err(failed)?;
        self.device.read_at(bytes, offset).map_err(failed)?;
        Ok(kind.verify(bytes, at, &self.verify_context())?)
    }
}
