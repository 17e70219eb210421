//! The writing half of the cache: buffers for new blocks, and buffers that go to their place.
//!
//! Owns: that there is one buffer for one address, whatever becomes of its blocks; the last check
//! before a block is written. Does **not** own when a buffer is written, or what the log knows of it:
//! the layer that changes buffers decides both.
//!
//! # Blocks that are freed and used again
//!
//! A freed block's buffer stays in the table until its cancellation is durable, and only then is
//! [forgotten](BufferCache::forget). If the block is used again before, its buffer is the same object
//! with another kind: a checkpoint that held the cancellation of one object and the contents of
//! another would be replayed as a cancellation.
//!
//! # Crash argument
//!
//! A buffer is written in place only after the changes in it are durable in the log, which its
//! caller knows, and carries the LSN of the last of them. A write that a crash tears is replayed
//! from the log, whose tail does not move past these changes before the write is flushed.

use std::io;
use std::sync::Arc;

use xfs_device::Durability;
use xfs_format::{BlockKind, DiskAddr, Lsn};

use super::{BufferCache, buffer_map, io_error};
use crate::buffer::{Buffer, BufferCore};
use crate::error::Result;
use crate::map::BufferExtent;
use crate::shard::{Entered, Shard};

impl BufferCache {
    /// A buffer for blocks that have just been allocated: latched, all zeros, nothing read.
    ///
    /// If a buffer of these pieces is in memory, it becomes that of the new kind, after waiting for
    /// its latch. One of another shape at this address leaves the table; what it was is freed, and
    /// nothing of it waits to be written.
    ///
    /// # Errors
    ///
    /// If `map` makes no buffer.
    pub fn claim(&self, map: &[BufferExtent], kind: BlockKind) -> Result<Buffer> {
        let at = map.first().map_or(DiskAddr::NULL, |extent| extent.at);
        let shard = self.shard(at);
        // A round ends without a result only when another thread entered a buffer or took one out
        // meanwhile: as many rounds as there are such threads.
        loop {
            let Some(present) = shard.find(at) else {
                let core = empty_core(map, kind)?;
                if let Entered::New = shard.enter(&core) {
                    return Ok(keep(shard, core));
                }
                continue;
            };
            if !present.wait_until_loaded() {
                shard.forget(&present);
            } else if !present.map().matches(map) {
                let core = empty_core(map, kind)?;
                if shard.supersede(&present, &core) {
                    return Ok(keep(shard, core));
                }
            } else {
                present.latch().lock_exclusive();
                if shard.holds(&present) {
                    present.renew(kind);
                    return Ok(Buffer::new(present));
                }
                present.latch().unlock_exclusive();
            }
        }
    }

    /// Makes a buffer, whose latch the caller holds, an empty one of this kind: its blocks have been
    /// freed and allocated again by the same owner of the latch.
    ///
    /// # Panics
    ///
    /// If nobody holds the latch.
    pub fn renew(&self, buffer: &Buffer, kind: BlockKind) {
        buffer.core().renew(kind);
    }

    /// Writes a buffer in place, with this LSN and its checksum. It is not flushed. The caller holds
    /// the latch, and has made durable in the log what is written.
    ///
    /// Readers continue meanwhile: a copy is sealed and written. A cache that [keeps seals](Self::keep_seals) waits for
    /// readers and gives the buffer the LSN and the checksum first. Inodes of a cluster are sealed by the
    /// transaction that changes them; its LSN here is that of the newest.
    ///
    /// # Errors
    ///
    /// The check that the sealed bytes fail: a fault of ours, found before it does harm; or the
    /// device's error, after which any part of the buffer may be in place.
    ///
    /// # Panics
    ///
    /// If nobody holds the latch.
    pub fn write(&self, buffer: &Buffer, lsn: Lsn) -> Result<()> {
        assert!(buffer.is_latched(), "a buffer written without its latch");
        let mut bytes = buffer.bytes().to_vec();
        let kind = buffer.kind();
        kind.seal(&mut bytes, lsn);
        self.set_log_head(lsn);
        kind.verify(&bytes, buffer.at(), &self.verify_context())?;
        if self.keeps_seals && kind != BlockKind::InodeCluster {
            buffer.bytes_mut().copy_from_slice(&bytes);
        }
        let mut left = bytes.as_slice();
        for extent in buffer.extents() {
            let failed = |source| io_error("write", extent, source);
            let end = || failed(io::Error::from(io::ErrorKind::UnexpectedEof));
            let (piece, rest) =
                left.split_at_checked(extent.length_bytes as usize).ok_or_else(end)?;
            left = rest;
            let offset = extent.at.byte_offset().ok_or_else(end)?;
            self.device.write_at(offset, piece, Durability::Cached).map_err(failed)?;
        }
        Ok(())
    }

    /// Takes a buffer out of the table: its blocks are freed, and that is durable. Who holds it keeps
    /// a buffer that nobody finds any more.
    pub fn forget(&self, buffer: &Buffer) {
        self.shard(buffer.at()).forget(buffer.core());
    }
}

/// A core of zeros, latched.
fn empty_core(map: &[BufferExtent], kind: BlockKind) -> Result<Arc<BufferCore>> {
    let core = BufferCore::new(buffer_map(map)?, kind);
    core.latch().lock_exclusive();
    let zeros = vec![0; core.map().length_bytes() as usize];
    core.finish_load(core.begin_load(), zeros.into());
    Ok(Arc::new(core))
}

fn keep(shard: &Shard, core: Arc<BufferCore>) -> Buffer {
    shard.keep(Arc::clone(&core));
    Buffer::new(core)
}

#[cfg(test)]
mod tests;
