//! The index of one group: its inodes by number, and its chunks in order.
//!
//! ```text
//!  entries   number ─► inode       read without a lock, under an epoch
//!  chunks    number / 64 ─► tags   likewise
//!  order     the same, in order    for walks: one lock, taken once for each chunk that comes or goes,
//!                                  and by a walk once for each chunk that it looks at
//! ```
//!
//! Lock order: the state of an inode before nothing of this; the lock of a chunk, then `order`.

use std::collections::BTreeMap;
use std::sync::Arc;

use xfs_buffer::AddressHash;
use xfs_sync::{Group as GroupScope, Mutex};

use super::chunk::{CHUNK_INODES, Chunk, Spot, Tag};
use super::entry::Entry;
use crate::superblock::{Existing, Step, Visit};

/// Chunks that one step of a walk looks at, at most: for so long `order` is held.
const STEP_CHUNKS: usize = 64;

/// The inodes of one group that are in memory.
pub(super) struct Group<I> {
    entries: papaya::HashMap<u32, Arc<Entry<I>>, AddressHash>,
    chunks: papaya::HashMap<u32, Arc<Chunk>, AddressHash>,
    order: Mutex<BTreeMap<u32, Arc<Chunk>>, GroupScope>,
    /// Where reclaiming goes on.
    pub(super) hand: Mutex<u64, GroupScope>,
}

/// What an inode that comes finds at its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    Nothing,
    /// It was replaced.
    Replaced,
    /// It stays, and the new one has not come.
    Stays,
}

impl<I> Group<I> {
    pub(super) fn new() -> Self {
        Self {
            entries: papaya::HashMap::with_hasher(AddressHash::new()),
            chunks: papaya::HashMap::with_hasher(AddressHash::new()),
            order: Mutex::default(),
            hand: Mutex::new(0),
        }
    }

    /// Whether nothing is left of any inode.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.chunks.is_empty() && self.order.lock().is_empty()
    }

    pub(super) fn find(&self, inode: u32) -> Option<Arc<Entry<I>>> {
        self.entries.pin().get(&inode).map(Arc::clone)
    }

    /// Which inodes of a chunk are here.
    pub(super) fn present(&self, inode: u32) -> u64 {
        let chunks = self.chunks.pin();
        chunks.get(&(inode / CHUNK_INODES)).map_or(0, |chunk| chunk.tagged(Tag::Present))
    }

    /// Shows the inode of this number to `look`, without a use of it.
    pub(super) fn peek<R>(&self, inode: u32, look: impl FnOnce(&Arc<Entry<I>>) -> R) -> Option<R> {
        self.entries.pin().get(&inode).map(look)
    }

    /// Puts an inode in, in the place of one that `replaces` lets go.
    pub(super) fn insert(
        &self,
        inode: u32,
        make: impl FnOnce(Spot) -> Arc<Entry<I>>,
        replaces: impl FnOnce(&Entry<I>) -> bool,
    ) -> (Arc<Entry<I>>, Before) {
        let bit = 1 << (inode % CHUNK_INODES);
        loop {
            let chunk = self.chunk(inode / CHUNK_INODES);
            let Some(_lock) = chunk.lock() else { continue };
            let entry = make(Spot { chunk: Arc::clone(&chunk), bit });
            let pinned = self.entries.pin();
            let before = match pinned.get(&inode) {
                Some(before) if !replaces(before) => return (entry, Before::Stays),
                Some(_) => Before::Replaced,
                None => Before::Nothing,
            };
            pinned.insert(inode, Arc::clone(&entry));
            chunk.enter(bit);
            return (entry, before);
        }
    }

    /// Takes an inode out, unless another has its place already.
    pub(super) fn remove(&self, inode: u32, entry: &Arc<Entry<I>>) -> bool {
        let Some(Spot { chunk, bit }) = entry.spot() else { return false };
        let Some(mut gone) = chunk.lock() else { return false };
        let is_it = |_: &u32, found: &Arc<Entry<I>>| Arc::ptr_eq(found, entry);
        let pinned = self.entries.pin();
        if !matches!(pinned.remove_if(&inode, is_it), Ok(Some(_))) {
            return false;
        }
        if chunk.leave(*bit) {
            *gone = true;
            let key = inode / CHUNK_INODES;
            let mut order = self.order.lock();
            self.chunks.pin().remove(&key);
            order.remove(&key);
        }
        true
    }

    fn chunk(&self, key: u32) -> Arc<Chunk> {
        if let Some(chunk) = self.chunks.pin().get(&key) {
            return Arc::clone(chunk);
        }
        let mut order = self.order.lock();
        let chunk = order.entry(key).or_default();
        self.chunks.pin().insert(key, Arc::clone(chunk));
        Arc::clone(chunk)
    }

    /// The next chunk from a key on in which an inode bears the tag, or where to look on.
    fn next_chunk(&self, from: u32, tag: Tag) -> NextChunk {
        let order = self.order.lock();
        let mut last = None;
        for (key, chunk) in order.range(from..).take(STEP_CHUNKS) {
            if chunk.tagged(tag) != 0 {
                return NextChunk::Found(*key, Arc::clone(chunk));
            }
            last = Some(*key);
        }
        last.map_or(NextChunk::End, NextChunk::Passed)
    }

    /// One step of a walk: the inodes of one chunk, under one guard. The cursor is the key that was
    /// looked for, never what an inode says of itself.
    pub(super) fn visit(&self, cursor: u64, tag: Tag, visit: &mut Visit<'_, I>) -> Step {
        let Ok(from) = u32::try_from(cursor / u64::from(CHUNK_INODES)) else { return Step::End };
        let behind = |key: u32| (u64::from(key) + 1) * u64::from(CHUNK_INODES);
        let (key, chunk) = match self.next_chunk(from, tag) {
            NextChunk::End => return Step::End,
            NextChunk::Passed(key) => return Step::On(behind(key)),
            NextChunk::Found(key, chunk) => (key, chunk),
        };
        let mut bits = chunk.tagged(tag);
        let pinned = self.entries.pin();
        while bits != 0 {
            let inode = key * CHUNK_INODES + bits.trailing_zeros();
            bits &= bits - 1;
            if let Some(entry) = pinned.get(&inode)
                && visit(Existing(entry)).is_break()
            {
                return Step::Stopped;
            }
        }
        Step::On(behind(key))
    }
}

enum NextChunk {
    Found(u32, Arc<Chunk>),
    /// None up to this one.
    Passed(u32),
    End,
}
