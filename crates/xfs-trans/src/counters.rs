//! The counters of a volume: free blocks, inodes, free inodes.
//!
//! Owns: the number of blocks that may still be taken, and the sums for the superblock. Does
//! **not** own the set of free blocks (the groups' headers have it), or the blocks that a group
//! keeps for its own btrees: the allocator takes those out with [`Counters::change`].
//!
//! A transaction takes its blocks before it begins and returns the unused ones, so that it never
//! runs out of space half way. Each slot (the part of the counters that one or a few threads use)
//! keeps a batch of blocks, so that unrelated transactions do not write to a shared counter. Before
//! a request is refused, the blocks of all slots are collected. So a request fails only if the
//! volume really has too few blocks.
//!
//! A separate pool serves operations that must not fail for lack of space: removing a name from a
//! full volume takes blocks before it frees any. Returned blocks fill the pool first.
//!
//! Lock order: the shared count, then a slot. The shared count is never taken under the lock of a
//! slot. The lock of the pool is held alone, or taken after that of the shared count.

use xfs_buffer::{Error, PosixError, Result};
use xfs_sync::{AtomicBool, AtomicU64, Mutex, Ordering, Slot, Slots, Volume};

/// Number of blocks that a slot (the part of the counters that one or a few threads use) takes from
/// the shared count at a time.
const BATCH_BLOCKS: u64 = 1024;

/// The counts of a volume's free blocks and inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceCounts {
    /// Number of free blocks that transactions can still take.
    #[doc(alias = "fdblocks")]
    pub free_blocks: u64,
    /// Number of allocated inodes.
    #[doc(alias = "icount")]
    pub inodes: u64,
    /// Number of allocated inodes that no file uses.
    #[doc(alias = "ifree")]
    pub free_inodes: u64,
}

#[derive(Debug, Default)]
struct SlotCounts {
    blocks: Mutex<u64, Slot>,
    /// Net change of the number of inodes that was counted in this slot, as a signed number. Only
    /// the sum over all slots is meaningful.
    inodes: AtomicU64<Slot>,
    free_inodes: AtomicU64<Slot>,
}

/// The pool of free blocks that are kept for operations that must not fail for lack of space.
#[derive(Debug, Default)]
struct ReservePool {
    size: u64,
    left: u64,
    /// Number of blocks that the pool owes: a change of the volume's size should have taken them
    /// from the free blocks, but transactions held them at that time. Returned blocks pay this debt
    /// before they fill the pool.
    debt: u64,
}

impl ReservePool {
    /// Returns whether the pool is not full or has a debt. If so, returned blocks go to the pool
    /// first, before they become free blocks.
    const fn is_short(&self) -> bool {
        self.left < self.size || self.debt > 0
    }
}

/// The counters of the volume.
#[derive(Debug)]
pub(crate) struct Counters {
    blocks: Mutex<u64, Volume>,
    pool: Mutex<ReservePool, Volume>,
    /// Whether the pool is not full or has a debt, so that returned blocks go to it first.
    is_pool_short: AtomicBool<Volume>,
    opened: SpaceCounts,
    slots: Slots<SlotCounts>,
}

impl Counters {
    pub(crate) fn new(opened: SpaceCounts) -> Self {
        Self {
            blocks: Mutex::new(opened.free_blocks),
            pool: Mutex::default(),
            is_pool_short: AtomicBool::new(false),
            opened,
            slots: Slots::new(SlotCounts::default),
        }
    }

    /// Creates the pool of blocks for operations that must not fail, with `size` blocks, and fills
    /// it. The pool's blocks do not count as free.
    pub(crate) fn set_pool(&self, size: u64) {
        *self.pool.lock() = ReservePool { size, left: size, debt: 0 };
        self.is_pool_short.store(false, Ordering::Release);
    }

    /// Turns the pool into free blocks: operations that must not fail for lack of space may then
    /// fail.
    pub(crate) fn dissolve_pool(&self) {
        let mut shared = self.blocks.lock();
        let mut pool = self.pool.lock();
        let ReservePool { left, debt, .. } = std::mem::take(&mut *pool);
        assert_eq!(debt, 0, "a pool is dissolved before the volume changes its size");
        *shared += left;
        self.is_pool_short.store(false, Ordering::Release);
    }

    /// Adds the blocks that a volume has gained by growing. `free_blocks` may be negative, because
    /// each group may keep more blocks back. A decrease can exceed the free blocks, because
    /// transactions may hold some. The pool then pays the rest, as far as it can. Blocks that are
    /// still missing are taken later, from those that transactions return. So the sum of all counts
    /// changes by exactly the growth.
    pub(crate) fn grow(&self, free_blocks: i64, pool: i64) {
        let mut shared = self.blocks.lock();
        self.drain(&mut shared);
        let mut own = self.pool.lock();
        let grown_pool = i128::from(own.left) + i128::from(pool);
        let sum = i128::from(*shared) + i128::from(free_blocks) + grown_pool - i128::from(own.debt);
        // A volume that was full when it was opened has a smaller pool than it would get now, and
        // no pool rather than a negative one.
        let size = i128::from(own.size) + i128::from(pool);
        own.size = u64::try_from(size.max(0)).expect("a volume has fewer than 2^64 blocks");
        own.left = grown_pool.min(sum).clamp(0, i128::from(own.size)) as u64;
        let rest = sum - i128::from(own.left);
        *shared = u64::try_from(rest.max(0)).expect("a volume has fewer than 2^64 blocks");
        own.debt = u64::try_from((-rest).max(0)).expect("a volume has fewer than 2^64 blocks");
        self.is_pool_short.store(own.is_short(), Ordering::Release);
    }

    /// Takes free blocks as [`take`](Self::take) does. If too few are free, takes all `blocks`
    /// blocks from the pool of blocks for operations that must not fail.
    ///
    /// # Errors
    ///
    /// Returns [`PosixError::NoSpace`] if the pool has too few blocks, too.
    pub(crate) fn take_from_pool(&self, blocks: u64) -> Result<()> {
        let refused = match self.take(blocks) {
            Ok(()) => return Ok(()),
            Err(refused) => refused,
        };
        let mut pool = self.pool.lock();
        pool.left = pool.left.checked_sub(blocks).ok_or(refused)?;
        self.is_pool_short.store(true, Ordering::Release);
        Ok(())
    }

    /// Uses `blocks` returned blocks for the pool: first to pay its debt (the blocks that it lacked
    /// when the volume changed its size), then to fill it. Returns the number of blocks left over.
    #[cold]
    fn fill_pool(&self, blocks: u64) -> u64 {
        let mut pool = self.pool.lock();
        let paid = blocks.min(pool.debt);
        pool.debt -= paid;
        let added = (blocks - paid).min(pool.size - pool.left);
        pool.left += added;
        self.is_pool_short.store(pool.is_short(), Ordering::Release);
        blocks - paid - added
    }

    /// Takes `blocks` free blocks, or none.
    ///
    /// # Errors
    ///
    /// Returns [`PosixError::NoSpace`] if too few are free.
    pub(crate) fn take(&self, blocks: u64) -> Result<()> {
        if blocks == 0 {
            return Ok(());
        }
        let slot = self.slots.mine();
        {
            let mut kept = slot.blocks.lock();
            if let Some(rest) = kept.checked_sub(blocks) {
                *kept = rest;
                return Ok(());
            }
        }
        let mut shared = self.blocks.lock();
        if let Some(rest) = shared.checked_sub(blocks.saturating_add(BATCH_BLOCKS)) {
            *shared = rest;
            drop(shared);
            *slot.blocks.lock() += BATCH_BLOCKS;
            return Ok(());
        }
        self.drain(&mut shared);
        *shared = shared.checked_sub(blocks).ok_or(Error::Posix(PosixError::NoSpace))?;
        Ok(())
    }

    /// Adds blocks that a transaction took but did not use, or that it freed.
    pub(crate) fn give(&self, mut blocks: u64) {
        if blocks != 0 && self.is_pool_short.load(Ordering::Acquire) {
            blocks = self.fill_pool(blocks);
        }
        if blocks == 0 {
            return;
        }
        let surplus = {
            let mut kept = self.slots.mine().blocks.lock();
            *kept += blocks;
            if *kept > 2 * BATCH_BLOCKS {
                let surplus = *kept - BATCH_BLOCKS;
                *kept = BATCH_BLOCKS;
                surplus
            } else {
                0
            }
        };
        if surplus > 0 {
            *self.blocks.lock() += surplus;
        }
    }

    /// Adds `delta` blocks to the free blocks, or takes `-delta` of them if `delta` is negative.
    ///
    /// # Errors
    ///
    /// Returns [`PosixError::NoSpace`] if too few are free.
    pub(crate) fn change(&self, delta: i64) -> Result<()> {
        match u64::try_from(delta) {
            Ok(blocks) => {
                self.give(blocks);
                Ok(())
            }
            Err(_) => self.take(delta.unsigned_abs()),
        }
    }

    pub(crate) fn count_inodes(&self, all: i64, free: i64) {
        let slot = self.slots.mine();
        if all != 0 {
            slot.inodes.fetch_add(all.cast_unsigned(), Ordering::Relaxed);
        }
        if free != 0 {
            slot.free_inodes.fetch_add(free.cast_unsigned(), Ordering::Relaxed);
        }
    }

    /// Returns the volume's counts: the sums over all slots. Blocks that transactions in progress
    /// have taken count as used.
    pub(crate) fn counts(&self) -> SpaceCounts {
        let mut shared = self.blocks.lock();
        self.drain(&mut shared);
        let free_blocks = *shared;
        drop(shared);
        let free = self.slots.iter().map(|slot| slot.free_inodes.load(Ordering::Relaxed));
        let free_inodes = free.fold(self.opened.free_inodes, u64::wrapping_add);
        SpaceCounts { free_blocks, inodes: self.inodes(), free_inodes }
    }

    /// Returns the number of allocated inodes. Unlike [`counts`](Self::counts), this function
    /// writes no memory.
    pub(crate) fn inodes(&self) -> u64 {
        let changes = self.slots.iter().map(|slot| slot.inodes.load(Ordering::Relaxed));
        changes.fold(self.opened.inodes, u64::wrapping_add)
    }

    fn drain(&self, shared: &mut u64) {
        for slot in self.slots.iter() {
            *shared += std::mem::take(&mut *slot.blocks.lock());
        }
    }
}

#[cfg(test)]
mod tests;
