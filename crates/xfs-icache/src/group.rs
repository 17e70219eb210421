//! The index of one allocation group: its chunks by inode number, and in the order of their
//! numbers.
//!
//! ```text
//!  chunks   number / 64 ─► 64 slots, tags   read without a lock, under an epoch
//!  order    the same, in order, and a hand  for walks: one lock, taken once for each chunk that
//!                                           comes or goes, or that a walk visits
//! ```
//!
//! Reclaim continues at the clock hand. The thread that moves the hand past a chunk sweeps that
//! chunk alone, so that several threads can reclaim in one group in parallel.
//!
//! The group holds the chunk that was emptied last (`emptied`), and lets it go for the next one.
//!
//! Lock order: the lock of a chunk, then `order`. No lock is taken under `emptied`. An insertion
//! locks the state of an inode under the lock of its chunk. No lock of this module is taken under
//! the state of an inode.

use std::collections::BTreeMap;
use std::sync::Arc;

use xfs_buffer::AddressHash;
use xfs_sync::{Collector, Group as GroupScope, Mutex};

use crate::cached_inode::CachedInode;
use crate::chunk::{CHUNK_INODES, Chunk, ChunkSlot};
use crate::filter::Tag;
use crate::kind::InodeKind;
use crate::walk_step::{Existing, WalkStep, WalkVisitor};

/// The most chunks that one step of a walk visits. The step holds the lock `order` while it visits
/// them, so this limits the time for which the lock is held.
const STEP_CHUNKS: usize = 64;

/// The cached inodes of one group.
pub(crate) struct CachedGroup<K: InodeKind> {
    chunks: papaya::HashMap<u32, Arc<Chunk<K>>, AddressHash>,
    order: Mutex<Order<K>, GroupScope>,
    /// The chunk that was emptied last. The group holds it: files that are removed one after the
    /// other often have neighbouring inodes, which would make and drop the same chunk each time.
    emptied: Mutex<Option<EmptiedChunk<K>>, GroupScope>,
    /// The epoch collector that the map and the chunks share, so that one guard protects what a
    /// reader finds in both.
    collector: Arc<Collector>,
}

/// A chunk that was emptied, with its key.
struct EmptiedChunk<K: InodeKind> {
    key: u32,
    chunk: Arc<Chunk<K>>,
}

/// The chunks in the order of their numbers, and the clock hand.
struct Order<K: InodeKind> {
    chunks: BTreeMap<u32, Arc<Chunk<K>>>,
    /// Key (inode number / 64) of the chunk that the clock hand visits next.
    hand: u32,
    /// Number of times that the group's clock hand has passed the last chunk of the group.
    round: ClockRound,
}

/// Number of a round of a group's clock hand. In a round, the hand passes each chunk of the group
/// once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockRound(u32);

impl ClockRound {
    /// Returns the next round. The number may wrap to 0, because a round is only compared with
    /// recent rounds.
    fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

impl<K: InodeKind> Default for Order<K> {
    fn default() -> Self {
        Self { chunks: BTreeMap::new(), hand: 0, round: ClockRound::default() }
    }
}

impl<K: InodeKind> Order<K> {
    /// Returns the first chunk from key `from` on in which an inode has the tag. The search ends
    /// after a bounded number of chunks. If no inode in these chunks has the tag, returns the key
    /// after which to continue.
    fn next_chunk(&self, from: u32, tag: Tag) -> NextChunk<K> {
        let mut last = None;
        for (key, chunk) in self.chunks.range(from..).take(STEP_CHUNKS) {
            if chunk.tagged(tag) != 0 {
                return NextChunk::Found(*key, Arc::clone(chunk));
            }
            last = Some(*key);
        }
        last.map_or(NextChunk::End, NextChunk::Passed)
    }

    /// Moves the group's clock hand past the next chunk that has an idle inode, and returns that
    /// chunk. Does nothing if the hand is no longer in the round `round`.
    fn move_hand(&mut self, round: ClockRound) -> NextChunk<K> {
        if round != self.round {
            return NextChunk::End;
        }
        let next = self.next_chunk(self.hand, Tag::Idle);
        match next {
            NextChunk::Found(key, _) | NextChunk::Passed(key) => self.hand = key + 1,
            NextChunk::End => (self.hand, self.round) = (0, self.round.next()),
        }
        next
    }
}

/// The outcome of an insertion: whether the slot already held an inode, and whether that inode was
/// replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occupancy {
    Vacant,
    /// The slot held an inode, which the new inode has replaced.
    Replaced,
    /// Another inode has the slot and stays. The new inode was not inserted.
    Occupied,
}

/// The message of the panic that occurs if a held chunk has left the index.
const IS_HELD: &str = "a held chunk stays in the index";

/// Keeps a chunk in the index of its group until this value is dropped, even while the chunk is
/// empty.
pub struct HeldChunk<'a, K: InodeKind> {
    group: &'a CachedGroup<K>,
    key: u32,
    chunk: Arc<Chunk<K>>,
}

impl<K: InodeKind> Drop for HeldChunk<'_, K> {
    fn drop(&mut self) {
        self.group.let_go(self.key, &self.chunk);
    }
}

impl<K: InodeKind> HeldChunk<'_, K> {
    /// Returns which inodes of the chunk are cached, one bit each.
    pub(crate) fn present(&self) -> u64 {
        self.chunk.tagged(Tag::Present)
    }

    /// Inserts those of `inodes` whose slots in the chunk are free, under one lock and one epoch
    /// guard. `make` makes the cached inode of each. Returns the inserted inodes.
    pub(crate) fn enter<L>(
        &self,
        inodes: impl Iterator<Item = (u32, L)>,
        make: impl Fn(L, ChunkSlot<K>) -> Arc<CachedInode<K>>,
    ) -> Vec<Arc<CachedInode<K>>> {
        let _stay = self.chunk.lock().expect(IS_HELD);
        let _guard = self.group.chunks.guard();
        let taken = self.present();
        let slot = |place: u32| ChunkSlot { chunk: Arc::clone(&self.chunk), bit: 1 << place };
        let free = inodes.filter(|(place, _)| taken >> place & 1 == 0);
        let entries: Vec<_> = free.map(|(place, inode)| make(inode, slot(place))).collect();
        self.chunk.enter_all(&self.group.collector, &entries);
        entries
    }

    /// Removes those inodes of `entries` that still have their slots in the chunk. Returns the
    /// number of removed inodes.
    pub(crate) fn remove(&self, entries: &[Arc<CachedInode<K>>]) -> u32 {
        let _stay = self.chunk.lock().expect(IS_HELD);
        let _guard = self.group.chunks.guard();
        self.chunk.leave_all(&self.group.collector, entries).count_ones()
    }
}

impl<K: InodeKind> Drop for CachedGroup<K> {
    fn drop(&mut self) {
        self.order.lock().chunks.values().for_each(|chunk| chunk.clear(&self.collector));
    }
}

impl<K: InodeKind> CachedGroup<K> {
    pub(crate) fn new() -> Self {
        let collector = Arc::new(Collector::new());
        let chunks = papaya::HashMap::builder().hasher(AddressHash::new());
        Self {
            chunks: chunks.shared_collector(Arc::clone(&collector)).build(),
            order: Mutex::default(),
            emptied: Mutex::default(),
            collector,
        }
    }

    /// Returns whether the group has no chunk except the one that was emptied last, and no inode.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        let emptied = self.emptied.lock();
        let kept = usize::from(emptied.is_some());
        let present = emptied.as_ref().map_or(0, |kept| kept.chunk.tagged(Tag::Present));
        present == 0 && self.chunks.len() == kept && self.order.lock().chunks.len() == kept
    }

    #[cfg(test)]
    pub(crate) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    pub(crate) fn find(&self, inode: u32) -> Option<Arc<CachedInode<K>>> {
        self.peek(inode, Arc::clone)
    }

    /// Returns which of the 64 inodes from `inode` on are cached, one bit each. The 64 inodes may
    /// lie in two chunks of the cache: on a volume without sparse chunks, a chunk on disk is
    /// aligned to a cluster only.
    pub(crate) fn present(&self, inode: u32) -> u64 {
        let chunks = self.chunks.pin();
        let tagged = |key: u32| chunks.get(&key).map_or(0, |chunk| chunk.tagged(Tag::Present));
        let (key, skipped) = (inode / CHUNK_INODES, inode % CHUNK_INODES);
        match skipped {
            0 => tagged(key),
            _ => tagged(key) >> skipped | tagged(key + 1) << (CHUNK_INODES - skipped),
        }
    }

    /// Calls `look` with an inode, without taking a reference to the inode, and returns the result
    /// of `look`. Returns `None` if the inode is not cached.
    pub(crate) fn peek<R>(
        &self,
        inode: u32,
        look: impl FnOnce(&Arc<CachedInode<K>>) -> R,
    ) -> Option<R> {
        let chunks = self.chunks.pin();
        let chunk = chunks.get(&(inode / CHUNK_INODES))?;
        chunk.look(&self.collector, inode % CHUNK_INODES, look)
    }

    fn chunk(&self, key: u32) -> Arc<Chunk<K>> {
        if let Some(chunk) = self.chunks.pin().get(&key) {
            return Arc::clone(chunk);
        }
        let mut order = self.order.lock();
        let chunk =
            order.chunks.entry(key).or_insert_with(|| Arc::new(Chunk::new(&self.collector)));
        self.chunks.pin().insert(key, Arc::clone(chunk));
        Arc::clone(chunk)
    }

    /// Removes a chunk from the index, after the chunk was marked as having left the index. The
    /// caller holds the lock of the chunk.
    fn forget_chunk(&self, key: u32) {
        let mut order = self.order.lock();
        self.chunks.pin().remove(&key);
        order.chunks.remove(&key);
    }

    /// Ends one hold of a chunk, which leaves the index if nothing else keeps it.
    fn let_go(&self, key: u32, chunk: &Chunk<K>) {
        let mut stay = chunk.lock().expect(IS_HELD);
        stay.let_go();
        if chunk.leave_index(&mut stay) {
            self.forget_chunk(key);
        }
    }

    /// Holds `emptied` in place of the chunk that was emptied before, which it lets go. The caller
    /// has added the hold.
    fn keep_emptied(&self, emptied: Option<EmptiedChunk<K>>) {
        let before = std::mem::replace(&mut *self.emptied.lock(), emptied);
        if let Some(EmptiedChunk { key, chunk }) = before {
            self.let_go(key, &chunk);
        }
    }

    /// Lets the chunk go that was emptied last.
    pub(crate) fn forget_emptied(&self) {
        self.keep_emptied(None);
    }

    /// Makes one step of a walk: calls `visit` with the inodes of one chunk that have the tag,
    /// under one epoch guard. The next cursor comes from the key of the chunk, never from a number
    /// that an inode holds.
    pub(crate) fn visit(&self, cursor: u64, tag: Tag, visit: &mut WalkVisitor<'_, K>) -> WalkStep {
        let Ok(from) = u32::try_from(cursor / u64::from(CHUNK_INODES)) else {
            return WalkStep::End;
        };
        let next = self.order.lock().next_chunk(from, tag);
        self.show(next, tag, visit)
    }

    /// Makes one step of the clock hand: calls `visit` with the inodes of one chunk that may be
    /// idle. Returns [`WalkStep::End`] when `round` has ended, even if another thread has ended it.
    /// A `round` of `None` is set to the current round first.
    pub(crate) fn visit_at_hand(
        &self,
        round: &mut Option<ClockRound>,
        visit: &mut WalkVisitor<'_, K>,
    ) -> WalkStep {
        let next = {
            let mut order = self.order.lock();
            let round = *round.get_or_insert(order.round);
            order.move_hand(round)
        };
        self.show(next, Tag::Idle, visit)
    }

    /// Calls `visit` with those inodes of a chunk that have the tag, under one epoch guard.
    fn show(&self, next: NextChunk<K>, tag: Tag, visit: &mut WalkVisitor<'_, K>) -> WalkStep {
        let after = |key: u32| (u64::from(key) + 1) * u64::from(CHUNK_INODES);
        let (key, chunk) = match next {
            NextChunk::End => return WalkStep::End,
            NextChunk::Passed(key) => return WalkStep::Next(after(key)),
            NextChunk::Found(key, chunk) => (key, chunk),
        };
        let mut bits = chunk.tagged(tag);
        let _guard = self.chunks.guard();
        while bits != 0 {
            let place = bits.trailing_zeros();
            bits &= bits - 1;
            if let Some(shown) = chunk.look(&self.collector, place, |entry| visit(Existing(entry)))
                && shown.is_break()
            {
                return WalkStep::Stopped;
            }
        }
        WalkStep::Next(after(key))
    }

    /// Keeps the chunk of an inode in the index of the group, even while the chunk is empty. Called
    /// before many inodes of the chunk are inserted and removed.
    pub(crate) fn hold(&self, inode: u32) -> HeldChunk<'_, K> {
        let key = inode / CHUNK_INODES;
        loop {
            let chunk = self.chunk(key);
            let held = chunk.lock().map(|mut stay| stay.hold());
            if held.is_some() {
                return HeldChunk { group: self, key, chunk };
            }
        }
    }

    /// Inserts the inode that `make` creates into the slot for the number `inode`. A cached inode
    /// that is in the slot already is replaced if `replaces` returns `true` for it. Otherwise it
    /// stays, and the new inode is not inserted. Returns the inode that `make` created, and whether
    /// the slot was vacant, replaced or occupied.
    pub(crate) fn insert(
        &self,
        inode: u32,
        make: impl FnOnce(ChunkSlot<K>) -> Arc<CachedInode<K>>,
        replaces: impl FnOnce(&CachedInode<K>) -> bool,
    ) -> (Arc<CachedInode<K>>, Occupancy) {
        let place = inode % CHUNK_INODES;
        loop {
            let chunk = self.chunk(inode / CHUNK_INODES);
            let Some(_stay) = chunk.lock() else { continue };
            let entry = make(ChunkSlot { chunk: Arc::clone(&chunk), bit: 1 << place });
            let before = match chunk.look(&self.collector, place, |before| replaces(before)) {
                Some(false) => return (entry, Occupancy::Occupied),
                Some(true) => Occupancy::Replaced,
                None => Occupancy::Vacant,
            };
            chunk.enter(&self.collector, place, Arc::clone(&entry));
            return (entry, before);
        }
    }

    /// Removes an inode, unless another inode has its slot in the chunk already. Returns whether
    /// the inode was removed.
    pub(crate) fn remove(&self, inode: u32, entry: &Arc<CachedInode<K>>) -> bool {
        let ChunkSlot { chunk, .. } = entry.slot().expect("an inode of a group has a slot");
        let Some(mut stay) = chunk.lock() else { return false };
        let place = inode % CHUNK_INODES;
        if chunk.look(&self.collector, place, |found| Arc::ptr_eq(found, entry)) != Some(true) {
            return false;
        }
        chunk.leave(&self.collector, place);
        if chunk.is_unneeded(&stay) {
            stay.hold();
            drop(stay);
            let chunk = Arc::clone(chunk);
            self.keep_emptied(Some(EmptiedChunk { key: inode / CHUNK_INODES, chunk }));
        }
        true
    }
}

enum NextChunk<K: InodeKind> {
    Found(u32, Arc<Chunk<K>>),
    /// No inode in the chunks up to this key has the tag. The walk continues after this key.
    Passed(u32),
    End,
}
