//! One shard of the cache: a lookup table that is read without locks, and a clock that chooses the
//! buffers to evict when the shard is full.
//!
//! Buffers are spread over shards by a hash of their address. Unrelated operations meet in a shard
//! only when both miss, and then for a few instructions.
//!
//! # Invariants
//!
//! - **I1** There is at most one live core (the state that all references to a buffer share) per
//!   address in the table. A core is entered only if the entry for its address, if any, cannot be
//!   upgraded to a strong reference; such an entry can never be upgraded again. There is one
//!   exception: if blocks have been freed and are used again in another shape, their new core
//!   replaces the old one.
//! - **I2** The ring owns a strong reference to each loaded core, and only the ring makes a core
//!   die: in one atomic step, it gives up its reference if that reference is the last one. So a
//!   lookup either gets the core or finds it dead. It never gets a core that is about to be
//!   evicted.
//! - **I3** No I/O, no table access and no freeing of bytes happens under the clock's lock.
//!
//! Lock order: the clock is a leaf. No thread holds a core's content lock when it takes the lock of
//! the clock.

use std::sync::{Arc, Weak};

use papaya::{Compute, Operation};
use xfs_format::DiskAddr;
use xfs_sync::{Group, Mutex};

use crate::buffer::BufferCore;
use crate::hash::AddressHash;

/// Memory in bytes that a buffer costs in addition to its contents: its core (shared state), and
/// its entries in the ring of the clock and in the table.
const OVERHEAD_BYTES: usize = 256;

/// The greatest number of buffers that the clock's hand examines when a buffer arrives. The limit
/// bounds the time for which the lock is held when every buffer is in use. A shard that stays too
/// full evicts more when the next buffers arrive.
const SWEEP_STEPS: usize = 64;

/// Counters of one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardStatistics {
    /// Number of buffers that entered memory: read from the device and verified, or claimed for new
    /// blocks.
    pub misses: u64,
    /// Number of reads that failed, in the device or in the verifier.
    pub failures: u64,
    /// Number of buffers that were evicted to make room.
    pub evictions: u64,
    /// Number of buffers that the ring of the shard's eviction clock keeps in memory.
    pub buffers: usize,
    /// Memory that the buffers of the shard take, in bytes, overhead included.
    pub memory_bytes: usize,
}

pub(crate) struct Shard {
    table: papaya::HashMap<DiskAddr, Weak<BufferCore>, AddressHash>,
    clock: Mutex<ShardClock, Group>,
    capacity_bytes: usize,
}

/// The outcome of entering the core (shared state) of a new buffer into the table.
pub(crate) enum Entered {
    /// The new core (the shared state of a buffer) is in the table now. The caller must load the
    /// buffer: read its contents from the device.
    New,
    /// Another thread has entered this core (the shared state of a buffer) for the same address
    /// first. The caller uses this core instead of the new one.
    Present(Arc<BufferCore>),
}

impl Shard {
    pub(crate) fn new(capacity_bytes: usize, hash: AddressHash) -> Self {
        Self {
            table: papaya::HashMap::with_hasher(hash),
            clock: Mutex::new(ShardClock::default()),
            capacity_bytes,
        }
    }

    /// Returns the core (shared state) of the buffer at `at`, which may still be loading, or `None`
    /// if the table has no live core for it.
    pub(crate) fn find(&self, at: DiskAddr) -> Option<Arc<BufferCore>> {
        self.table.pin().get(&at).and_then(Weak::upgrade)
    }

    /// Returns whether the table has this core (shared state of a buffer), and not another core,
    /// for the core's address.
    pub(crate) fn holds(&self, core: &Arc<BufferCore>) -> bool {
        let entry = |entry: &Weak<BufferCore>| std::ptr::eq(entry.as_ptr(), Arc::as_ptr(core));
        self.table.pin().get(&core.map().at()).is_some_and(entry)
    }

    /// Enters the core (shared state) of a new buffer into the table, unless the table has a live
    /// core for its address (I1: at most one live core per address).
    pub(crate) fn enter(&self, core: &Arc<BufferCore>) -> Entered {
        let table = self.table.pin();
        let outcome = table.compute(core.map().at(), |entry| {
            match entry.and_then(|(_, present)| present.upgrade()) {
                Some(present) => Operation::Abort(present),
                None => Operation::Insert(Arc::downgrade(core)),
            }
        });
        match outcome {
            Compute::Aborted(present) => Entered::Present(present),
            _ => Entered::New,
        }
    }

    /// Replaces the core (shared state) `present` in the table by `core`, that of another buffer at
    /// the same address. Returns `false`, and changes nothing, if the table no longer has
    /// `present`.
    pub(crate) fn supersede(&self, present: &Arc<BufferCore>, core: &Arc<BufferCore>) -> bool {
        let table = self.table.pin();
        let outcome = table.compute(core.map().at(), |entry| match entry {
            Some((_, entry)) if std::ptr::eq(entry.as_ptr(), Arc::as_ptr(present)) => {
                Operation::Insert(Arc::downgrade(core))
            }
            _ => Operation::Abort(()),
        });
        !matches!(outcome, Compute::Aborted(()))
    }

    /// Removes the core (shared state) of a buffer from the table, because it could not be loaded
    /// or its blocks have been freed.
    pub(crate) fn forget(&self, core: &Arc<BufferCore>) {
        let same = |_: &DiskAddr, entry: &Weak<BufferCore>| {
            std::ptr::eq(entry.as_ptr(), Arc::as_ptr(core))
        };
        // This fails if the entry is gone or belongs to another core. Both are fine.
        let _ = self.table.pin().remove_if(&core.map().at(), same);
    }

    /// Keeps the core (shared state) of a loaded buffer in memory, and evicts other buffers if the
    /// shard is too full.
    pub(crate) fn keep(&self, core: Arc<BufferCore>) {
        let victims = {
            let mut clock = self.clock.lock();
            clock.misses += 1;
            clock.admit(core);
            clock.sweep(self.capacity_bytes)
        };
        if victims.is_empty() {
            return;
        }
        let table = self.table.pin();
        for victim in victims {
            let dead = |_: &DiskAddr, entry: &Weak<BufferCore>| entry.strong_count() == 0;
            let _ = table.remove_if(&victim.map().at(), dead);
        }
    }

    pub(crate) fn note_failure(&self) {
        self.clock.lock().failures += 1;
    }

    pub(crate) fn statistics(&self) -> ShardStatistics {
        let clock = self.clock.lock();
        ShardStatistics {
            misses: clock.misses,
            failures: clock.failures,
            evictions: clock.evictions,
            buffers: clock.ring.len(),
            memory_bytes: clock.memory_bytes,
        }
    }
}

/// The clock of a shard: it evicts buffers by the CLOCK algorithm, in which a requested buffer gets
/// a second chance. A buffer arrives without a second chance. The buffers of a scan that touches
/// each buffer once are therefore evicted first in, first out, and push out few buffers that are in
/// repeated use.
#[derive(Default)]
struct ShardClock {
    ring: Vec<Arc<BufferCore>>,
    hand: usize,
    memory_bytes: usize,
    misses: u64,
    failures: u64,
    evictions: u64,
}

fn cost_bytes(core: &BufferCore) -> usize {
    core.map().length_bytes() as usize + OVERHEAD_BYTES
}

impl ShardClock {
    fn admit(&mut self, core: Arc<BufferCore>) {
        self.memory_bytes += cost_bytes(&core);
        self.ring.push(core);
    }

    /// Removes buffers that no caller holds, until the other buffers fit into `capacity_bytes` or
    /// the hand has made `SWEEP_STEPS` steps. Returns the removed buffers: the caller frees their
    /// bytes after it has released the lock (I3).
    fn sweep(&mut self, capacity_bytes: usize) -> Vec<BufferCore> {
        let mut victims = Vec::new();
        for _ in 0..SWEEP_STEPS {
            if self.memory_bytes <= capacity_bytes {
                break;
            }
            if self.hand >= self.ring.len() {
                self.hand = 0;
            }
            let core = self.ring.get_mut(self.hand).expect("memory is that of cores in the ring");
            if core.take_reference() || Arc::strong_count(core) > 1 {
                self.hand += 1;
                continue;
            }
            // The last core of the ring, just admitted, takes the victim's index, which the hand
            // has passed.
            let core = self.ring.swap_remove(self.hand);
            match Arc::try_unwrap(core) {
                Ok(victim) => {
                    self.memory_bytes -= cost_bytes(&victim);
                    self.evictions += 1;
                    victims.push(victim);
                }
                // A lookup found it in the meantime: it stays (I2).
                Err(core) => self.ring.push(core),
            }
        }
        victims
    }
}
