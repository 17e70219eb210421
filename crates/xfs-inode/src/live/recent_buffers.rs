//! Which buffers hold the blocks of a directory that were used last.
//!
//! Owns: the way from a file block to its buffer past the extent map and the table of buffers. Does
//! **not** own the buffers: they leave memory as if nobody knew them.
//!
//! # Invariants
//!
//! - **I1** What is known is as the map has it: it is noted and asked for under the exclusive latch of
//!   the inode, and all of it is forgotten with each change of a fork.

use xfs_buffer::{Buffer, WeakBuffer};
use xfs_format::FileBlock;
use xfs_sync::{Mutex, Object};

/// How many blocks are known at most; a power of two.
const SLOTS: usize = 16;

/// The index of names starts at block 2^23 of 4 KiB, the list of free space at twice that. Their first
/// blocks are used as often as the first one of the names, and get other slots.
const PART_BITS: u32 = 23;

type Slots = [Option<(FileBlock, WeakBuffer)>; SLOTS];

/// The blocks of a directory that were used last. What is no directory takes no memory for them.
#[derive(Default)]
pub(super) struct RecentBuffers(Mutex<Option<Box<Slots>>, Object>);

impl RecentBuffers {
    /// The buffer of the block at `at`, if it is known and in memory.
    pub(super) fn find(&self, at: FileBlock) -> Option<Buffer> {
        let slots = self.0.lock();
        let (known, buffer) = slots.as_ref()?.get(slot(at))?.as_ref()?;
        if *known == at { buffer.upgrade() } else { None }
    }

    /// Notes the buffer of a block, in place of another block's.
    pub(super) fn remember(&self, at: FileBlock, buffer: &Buffer) {
        let mut slots = self.0.lock();
        if let Some(known) = slots.get_or_insert_default().get_mut(slot(at)) {
            *known = Some((at, buffer.downgrade()));
        }
    }

    /// Forgets all of them: a fork has changed.
    pub(super) fn forget(&self) {
        *self.0.lock() = None;
    }
}

const fn slot(at: FileBlock) -> usize {
    (at.0 ^ at.0 >> PART_BITS) as usize % SLOTS
}
