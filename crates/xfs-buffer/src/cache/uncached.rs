//! Looking at blocks that are not to stay: who goes over all of a volume once, and leaves the cache to
//! those who come again.

use xfs_format::{BlockKind, DiskAddr};

use super::{BufferCache, io_error};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::map::BufferExtent;

impl BufferCache {
    /// The buffer of `length_bytes` at `at`, if it is in memory.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read) for one that is in memory as something else.
    pub fn find(&self, at: DiskAddr, length_bytes: u32, kind: BlockKind) -> Result<Option<Buffer>> {
        match self.shard(at).find(at) {
            Some(core) if core.wait_until_loaded() => {
                self.share(core, &[BufferExtent { at, length_bytes }], kind).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Reads a block into `bytes` and verifies it. It does not come into memory, and what is in memory of
    /// it is not looked at: that may be newer. What somebody writes in place meanwhile may be torn.
    ///
    /// # Errors
    ///
    /// The device's error, or the check that failed.
    pub fn read_uncached(&self, at: DiskAddr, kind: BlockKind, bytes: &mut [u8]) -> Result<()> {
        let extent =
            BufferExtent { at, length_bytes: u32::try_from(bytes.len()).unwrap_or(u32::MAX) };
        let failed = |source| io_error("read", &extent, source);
        let end = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let offset = at.byte_offset().ok_or(end).map_err(failed)?;
        self.device.read_at(offset, bytes).map_err(failed)?;
        Ok(kind.verify(bytes, at, &self.verify_context())?)
    }
}
