//! The buffers of a directory's most recently used blocks.
//!
//! Owns: a lookup from a file block to its buffer that bypasses the extent map and the hash table
//! of the buffer cache. Does **not** own the buffers: a remembered buffer can be evicted like any
//! other buffer.
//!
//! # Invariants
//!
//! - **I1** A remembered buffer agrees with the extent map. It is stored and looked up under the
//!   latch of the inode, shared or exclusive, and every change of a fork drops all remembered
//!   buffers under the exclusive latch.

use xfs_buffer::{Buffer, BufferCache, Result, WeakBuffer};
use xfs_format::FileBlock;
use xfs_format::inode::ForkKind;
use xfs_sync::{Mutex, Object};

use crate::fork_block::BlockShape;
use crate::inode::Inode;

/// The largest number of remembered blocks of one directory; a power of two.
const SLOTS: usize = 16;

/// Number of the lowest block-number bit that tells the three parts of a directory apart: data,
/// leaf index and free-space index. The leaf index starts at block 2^23 of 4 KiB, and the
/// free-space index at twice that number. The slot of a block depends on the part too, so that the
/// first blocks of the parts, which are used most, get different slots.
const PART_BITS: u32 = 23;

type RecentSlots = [Option<(FileBlock, WeakBuffer)>; SLOTS];

/// The buffers of a directory's most recently used blocks. For other files no memory is allocated.
#[derive(Default)]
pub struct RecentBuffers(Mutex<Option<Box<RecentSlots>>, Object>);

impl RecentBuffers {
    /// Reads a block of the data fork as [`Inode::read_fork_block`] does, without a lookup if its
    /// buffer is remembered, and remembers the buffer. `inode` is the view of the inode that these
    /// buffers belong to, and the caller holds the inode's latch, shared or exclusive (I1). While
    /// another thread looks a block up, neither looks nor remembers.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Inode::read_fork_block`].
    pub fn read(
        &self,
        inode: &Inode,
        cache: &BufferCache,
        at: FileBlock,
        shape: BlockShape,
    ) -> Result<Buffer> {
        let Some(mut slots) = self.0.try_lock() else {
            return inode.read_fork_block(cache, ForkKind::Data, at, shape);
        };
        if let Some(buffer) = find(slots.as_deref(), at).filter(|known| known.kind() == shape.kind)
        {
            return Ok(buffer);
        }
        // Reading may wait for the device.
        drop(slots);
        let buffer = inode.read_fork_block(cache, ForkKind::Data, at, shape)?;
        slots = self.0.lock();
        remember(&mut slots, at, &buffer);
        Ok(buffer)
    }

    /// Returns the buffer of file block `at`; `None` if it is not remembered or has been evicted.
    pub(super) fn find(&self, at: FileBlock) -> Option<Buffer> {
        find(self.0.lock().as_deref(), at)
    }

    /// Remembers the buffer of file block `at`. It replaces the buffer in the slot of the table
    /// that belongs to this block number.
    pub(super) fn remember(&self, at: FileBlock, buffer: &Buffer) {
        remember(&mut self.0.lock(), at, buffer);
    }

    /// Drops all remembered buffers. Called when a fork changes, because the buffers may then no
    /// longer agree with the extent map (I1).
    pub(super) fn forget(&self) {
        *self.0.lock() = None;
    }
}

fn find(slots: Option<&RecentSlots>, at: FileBlock) -> Option<Buffer> {
    let (known, buffer) = slots?.get(slot(at))?.as_ref()?;
    if *known == at { buffer.upgrade() } else { None }
}

fn remember(slots: &mut Option<Box<RecentSlots>>, at: FileBlock, buffer: &Buffer) {
    let known = slots.get_or_insert_default().get_mut(slot(at));
    *known.expect("a slot is below SLOTS") = Some((at, buffer.downgrade()));
}

const fn slot(at: FileBlock) -> usize {
    (at.0 ^ at.0 >> PART_BITS) as usize % SLOTS
}
