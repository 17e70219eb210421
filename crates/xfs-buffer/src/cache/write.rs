//! The writing half of the cache: buffers for new blocks, and writing buffers in place, that is, to
//! their home locations on disk.
//!
//! Owns: the rule that there is at most one buffer for an address, even when the blocks there are
//! freed and used again, and the last check before a block is written. Does **not** own when a
//! buffer is written, or its state in the log: the layer that changes buffers decides both.
//!
//! # Blocks that are freed and used again
//!
//! A freed block's buffer stays in the table until its cancellation is durable in the log. (The
//! cancellation keeps recovery from replaying earlier changes of the block.) Only then is it
//! [forgotten](BufferCache::forget). If the block is used again before that, its buffer is the same
//! object with another kind. If the block had two buffer objects, one checkpoint could hold the
//! cancellation of the old object and the contents of the new one. Recovery would then replay only
//! the cancellation.
//!
//! # Crash argument
//!
//! A buffer is written in place only after its changes are durable in the log, which the caller
//! ensures. The buffer carries the LSN of the last of these changes. A write that a crash tears is
//! replayed from the log, whose tail does not pass these changes before the write is flushed.

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
    /// Returns a latched buffer of zeros for blocks that have just been allocated. The device is
    /// not read.
    ///
    /// If a buffer of these extents is in memory, this function waits for the latch of that buffer,
    /// and gives the buffer the new kind. If a buffer of other extents at this address is in
    /// memory, it leaves the table: its blocks are freed, and none of its changes waits to be
    /// written.
    ///
    /// # Errors
    ///
    /// Returns an error if `map` has no extents, an empty one, or too many bytes in total.
    pub fn claim(&self, map: &[BufferExtent], kind: BlockKind) -> Result<Buffer> {
        let at = map.first().map_or(DiskAddr::NULL, |extent| extent.at);
        let shard = self.shard(at);
        // A round ends without a result only when another thread entered or removed a buffer in the
        // meantime: there are at most as many rounds as such threads.
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

    /// Fills a buffer with zeros and sets its kind to `kind`. The holder of the latch has freed the
    /// buffer's blocks and allocated them again.
    ///
    /// # Panics
    ///
    /// Panics if the latch is not held.
    pub fn renew(&self, buffer: &Buffer, kind: BlockKind) {
        buffer.core().renew(kind);
    }

    /// Writes a buffer to its home location on disk, without a flush. The written block carries the
    /// LSN `lsn` and a new checksum. The caller holds the latch and has made the contents durable
    /// in the log.
    ///
    /// Readers continue meanwhile, because `write` stores the LSN and the checksum in a copy, and
    /// writes the copy. A cache that [keeps seals](Self::keep_seals) first waits for readers, and
    /// stores both in the buffer. A cluster of inodes is written as it is, because each inode got
    /// LSN and checksum when it was copied into the cluster; `lsn` is then the LSN of the newest
    /// inode.
    ///
    /// # Errors
    ///
    /// Returns the failed check if the bytes to be written are not valid, which is a bug in this
    /// program. Nothing is written then. Returns the device's error if the write fails. Any part of
    /// the buffer may then be on the device.
    ///
    /// # Panics
    ///
    /// Panics if the latch is not held.
    pub fn write(&self, buffer: &Buffer, lsn: Lsn) -> Result<()> {
        assert!(buffer.is_latched(), "a buffer written without its latch");
        let kind = buffer.kind();
        self.set_log_head(lsn);
        if kind == BlockKind::InodeCluster {
            // Nothing is stored in these bytes, and only the holder of the latch changes them.
            let bytes = buffer.bytes();
            kind.verify(&bytes, buffer.at(), &self.verify_context())?;
            return self.write_extents(buffer, &bytes);
        }
        let mut bytes = buffer.bytes().to_vec();
        kind.seal(&mut bytes, lsn);
        kind.verify(&bytes, buffer.at(), &self.verify_context())?;
        if self.keeps_seals {
            buffer.bytes_mut().copy_from_slice(&bytes);
        }
        self.write_extents(buffer, &bytes)
    }

    /// Writes `bytes` to the extents of a buffer on the device.
    fn write_extents(&self, buffer: &Buffer, bytes: &[u8]) -> Result<()> {
        let mut left = bytes;
        for extent in buffer.extents() {
            let failed = |source| io_error("write", extent, source);
            let end = || failed(io::Error::from(io::ErrorKind::UnexpectedEof));
            let (piece, rest) =
                left.split_at_checked(extent.length_bytes as usize).ok_or_else(end)?;
            left = rest;
            let offset = extent.at.byte_offset().ok_or_else(end)?;
            self.device.write_at(piece, offset, Durability::Cached).map_err(failed)?;
        }
        Ok(())
    }

    /// Removes a buffer from the table, after the buffer's blocks have been freed and their freeing
    /// is durable in the log. A caller may keep the buffer, but no lookup finds it any more.
    pub fn forget(&self, buffer: &Buffer) {
        self.shard(buffer.at()).forget(buffer.core());
    }
}

/// Creates the core (shared state) of a new buffer, latched, with bytes that are all zero.
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
