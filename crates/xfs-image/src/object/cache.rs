//! The blocks of an object that were read last.
//!
//! Owns: the bound on memory (I3), and that no block is fetched by two threads at the same time.
//!
//! ```text
//! absent --find: Claim--> fetching --fill--> ready --(least recently used)--> absent
//!    ^                       |
//!    +-------(dropped)-------+
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use xfs_sync::{Condvar, Mutex, Volume};

use super::read_ahead::{BLOCK_BYTES, ReadAhead};

/// The contents of a block, which the cache and its readers share.
pub(super) type Block = Arc<[u8]>;

pub(super) struct BlockCache {
    state: Mutex<State, Volume>,
    /// Notified when blocks are no longer being fetched.
    settled: Condvar<Volume>,
    /// The most blocks that are kept.
    capacity: usize,
    /// The number of blocks of the object.
    blocks: u64,
}

struct State {
    slots: HashMap<u64, Slot>,
    /// The numbers of the ready blocks, by the time of their last use.
    by_use: BTreeMap<u64, u64>,
    clock: u64,
    read_ahead: ReadAhead,
}

enum Slot {
    Fetching,
    Ready { block: Block, used: u64 },
}

/// The result of a search for a block.
pub(super) enum CacheAnswer<'a> {
    Ready(Block),
    /// The block is absent. The caller must fetch it, together with the blocks after it.
    Absent(Claim<'a>),
}

/// A run of blocks that the holder fetches. Other threads wait for these blocks. If the claim is
/// dropped before it is filled, the waiting threads fetch the blocks themselves.
pub(super) struct Claim<'a> {
    cache: &'a BlockCache,
    pub(super) first: u64,
    pub(super) count: u64,
}

impl BlockCache {
    pub(super) fn new(cache_bytes: u64, object_bytes: u64) -> Self {
        let capacity = (cache_bytes / BLOCK_BYTES).max(1);
        let state = State {
            slots: HashMap::new(),
            by_use: BTreeMap::new(),
            clock: 0,
            read_ahead: ReadAhead::new(capacity),
        };
        Self {
            state: Mutex::new(state),
            settled: Condvar::new(),
            capacity: usize::try_from(capacity).unwrap_or(usize::MAX),
            blocks: object_bytes.div_ceil(BLOCK_BYTES),
        }
    }

    /// Returns a block, or a claim on it. The claim has at least one block. It has more if the
    /// caller wants `wanted` blocks or reads sequentially, up to the next block that is present.
    pub(super) fn find(&self, number: u64, wanted: u64) -> CacheAnswer<'_> {
        let mut state = self.state.lock();
        loop {
            match state.slots.get(&number) {
                Some(Slot::Ready { .. }) => {
                    return CacheAnswer::Ready(state.touch(number).expect("the block is ready"));
                }
                Some(Slot::Fetching) => self.settled.wait(&mut state),
                None => break,
            }
        }
        let window = state.read_ahead.window(number, wanted);
        let end = number.saturating_add(window).min(self.blocks);
        let absent = (number..end).take_while(|number| !state.slots.contains_key(number));
        let count = absent.count() as u64;
        for number in number..number + count {
            state.slots.insert(number, Slot::Fetching);
        }
        CacheAnswer::Absent(Claim { cache: self, first: number, count })
    }

    /// Stores a block that was fetched without a claim. Only the first block of the object is
    /// fetched in this way, when the object is opened.
    pub(super) fn put(&self, number: u64, block: Block) {
        self.state.lock().store(number, block, self.capacity);
    }
}

impl Claim<'_> {
    /// Stores the fetched blocks, in their order.
    pub(super) fn fill(self, blocks: &[Block]) {
        let mut state = self.cache.state.lock();
        for (number, block) in (self.first..self.first + self.count).zip(blocks) {
            state.store(number, Arc::clone(block), self.cache.capacity);
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.state.lock();
        for number in self.first..self.first + self.count {
            if matches!(state.slots.get(&number), Some(Slot::Fetching)) {
                state.slots.remove(&number);
            }
        }
        drop(state);
        self.cache.settled.notify_all();
    }
}

impl State {
    /// Returns the block and notes that it is used now. Returns `None` if the block is not ready.
    fn touch(&mut self, number: u64) -> Option<Block> {
        self.clock += 1;
        let Some(Slot::Ready { block, used }) = self.slots.get_mut(&number) else { return None };
        self.by_use.remove(used);
        *used = self.clock;
        self.by_use.insert(self.clock, number);
        Some(Arc::clone(block))
    }

    fn store(&mut self, number: u64, block: Block, capacity: usize) {
        self.clock += 1;
        let slot = Slot::Ready { block, used: self.clock };
        if let Some(Slot::Ready { used, .. }) = self.slots.insert(number, slot) {
            self.by_use.remove(&used);
        }
        self.by_use.insert(self.clock, number);
        // I3 of `xfs_image::object`
        while self.by_use.len() > capacity {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            self.slots.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests;
