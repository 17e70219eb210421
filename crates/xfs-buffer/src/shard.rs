//! One shard of the cache: a lookup table that is read without locks, and a clock that decides
//! what goes when the shard is full.
//!
//! Buffers are spread over shards by a hash of their address, so unrelated operations meet in a
//! shard only when both miss, and then for a few instructions.
//!
//! # Invariants
//!
//! - **I1** There is at most one live core per address in the table: a core is entered only where no
//!   entry can be upgraded, and an entry that cannot be upgraded never can be again; or it takes the
//!   place of one whose blocks have been freed and are used anew in another shape.
//! - **I2** The ring owns a strong reference to each loaded core, and only the ring makes a core
//!   die: it gives up its reference only if that is the last one, in one atomic step. So a lookup
//!   either gets the core or finds it dead; it never gets a core that is about to go.
//! - **I3** The clock's lock is held for no I/O, no access to the table and no freeing of bytes.
//!
//! Lock order: the clock is a leaf, and nobody holds a core's content when taking it.

use std::sync::{Arc, Weak};

use papaya::{Compute, Operation};
use xfs_format::DiskAddr;
use xfs_sync::{Group, Mutex};

use crate::buffer::BufferCore;
use crate::hash::AddressHash;

/// What a buffer costs besides its bytes: its core, its place in the ring and in the table.
const OVERHEAD_BYTES: usize = 256;

/// How far the clock's hand goes for one buffer that comes in. Bounds the time under the lock when
/// everything is in use; a shard that stays too full for that catches up with the next ones.
const SWEEP_STEPS: usize = 64;

/// Figures of one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardStatistics {
    /// Buffers that were read from the device and verified.
    pub misses: u64,
    /// Reads that failed, in the device or in the verifier.
    pub failures: u64,
    /// Buffers that went to make room.
    pub evictions: u64,
    /// Buffers in memory.
    pub buffers: usize,
    /// Memory that they take, their overhead included.
    pub memory_bytes: usize,
}

pub(crate) struct Shard {
    table: papaya::HashMap<DiskAddr, Weak<BufferCore>, AddressHash>,
    clock: Mutex<Clock, Group>,
    capacity_bytes: usize,
}

/// What a thread that wants to enter a new core finds.
pub(crate) enum Entered {
    /// The core is in the table now: load it.
    New,
    /// Somebody was faster: use that one.
    Present(Arc<BufferCore>),
}

impl Shard {
    pub(crate) fn new(capacity_bytes: usize, hash: AddressHash) -> Self {
        Self {
            table: papaya::HashMap::with_hasher(hash),
            clock: Mutex::new(Clock::default()),
            capacity_bytes,
        }
    }

    /// The core at `at`, loaded or just being loaded.
    pub(crate) fn find(&self, at: DiskAddr) -> Option<Arc<BufferCore>> {
        self.table.pin().get(&at).and_then(Weak::upgrade)
    }

    /// Whether this core is the one that the table has.
    pub(crate) fn holds(&self, core: &Arc<BufferCore>) -> bool {
        let entry = |entry: &Weak<BufferCore>| std::ptr::eq(entry.as_ptr(), Arc::as_ptr(core));
        self.table.pin().get(&core.map().at()).is_some_and(entry)
    }

    /// Puts a core into the table, unless there is a live one (I1).
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

    /// Puts a core into the table in the place of the one that is there, unless that is another one
    /// than `present` by now.
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

    /// Takes a core out of the table: it could not be loaded, or its blocks have been freed.
    pub(crate) fn forget(&self, core: &Arc<BufferCore>) {
        let same = |_: &DiskAddr, entry: &Weak<BufferCore>| {
            std::ptr::eq(entry.as_ptr(), Arc::as_ptr(core))
        };
        // Failing means that the entry is gone or another core's: both are what is wanted.
        let _ = self.table.pin().remove_if(&core.map().at(), same);
    }

    /// Keeps a core that was loaded, and makes room for it.
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

/// CLOCK with a second chance. A buffer comes in without one, so a scan that touches each buffer
/// once goes through the shard first in, first out, and drives out little of what is used again.
#[derive(Default)]
struct Clock {
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

impl Clock {
    fn admit(&mut self, core: Arc<BufferCore>) {
        self.memory_bytes += cost_bytes(&core);
        self.ring.push(core);
    }

    /// Removes buffers that nobody holds until the rest fits, or the hand has gone far enough.
    fn sweep(&mut self, capacity_bytes: usize) -> Vec<BufferCore> {
        let mut victims = Vec::new();
        for _ in 0..SWEEP_STEPS {
            if self.memory_bytes <= capacity_bytes {
                break;
            }
            if self.hand >= self.ring.len() {
                self.hand = 0;
            }
            let Some(core) = self.ring.get_mut(self.hand) else { break };
            if core.take_reference() || Arc::strong_count(core) > 1 {
                self.hand += 1;
                continue;
            }
            // The last of the ring, just admitted, takes the victim's place behind the hand.
            let core = self.ring.swap_remove(self.hand);
            match Arc::try_unwrap(core) {
                Ok(victim) => {
                    self.memory_bytes -= cost_bytes(&victim);
                    self.evictions += 1;
                    victims.push(victim);
                }
                // Somebody found it since: it stays (I2).
                Err(core) => self.ring.push(core),
            }
        }
        victims
    }
}
