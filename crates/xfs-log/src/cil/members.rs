//! The list of the members (items) that one slot has of a checkpoint, in chunks that later
//! checkpoints reuse.
//!
//! Owns: the position of a member. Does **not** own what a member is, or the bytes of its vector
//! ([`arena`](super::arena)).
//!
//! The list is in chunks for two reasons. A list in one allocation is copied whenever it grows,
//! under the slot's lock. And the system has to clear memory that is freed and allocated again each
//! time. All chunks are full, except the last one that has members.

use xfs_sync::{Mutex, Slot, Slots, Volume};

use super::membership::Member;

/// Number of members in a full chunk. When a checkpoint is durable, its members are also completed
/// one chunk at a time, so that one lock of the volume serves a whole chunk.
pub(super) const CHUNK_MEMBERS: usize = 1024;

/// Number of chunks that a per-CPU slot takes from the common pool, or gives back to it, at a time.
/// Each such move takes a lock of the volume.
const MOVED_CHUNKS: usize = 4;

/// A low estimate of the number of log bytes that one member (a committed item) takes.
const BYTES_PER_MEMBER: u64 = 256;

/// The list of the items that were committed to one checkpoint through one slot.
#[derive(Default)]
pub(super) struct MemberList {
    chunks: Vec<Vec<Member>>,
    length: usize,
}

impl MemberList {
    pub(super) const fn len(&self) -> usize {
        self.length
    }

    /// Returns whether the chunks of the list have room for `count` more members.
    pub(super) fn has_room(&self, count: usize) -> bool {
        self.chunks.len() * CHUNK_MEMBERS - self.length >= count
    }

    /// Adds an empty chunk to the list.
    pub(super) fn add(&mut self, chunk: Vec<Member>) {
        self.chunks.push(chunk);
    }

    /// Adds a member.
    pub(super) fn push(&mut self, member: Member) {
        if !self.has_room(1) {
            self.add(new_chunk());
        }
        let chunk = self.chunks.get_mut(self.length / CHUNK_MEMBERS);
        chunk.expect("the list has a chunk with room").push(member);
        self.length += 1;
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Member> {
        self.chunks.get_mut(index / CHUNK_MEMBERS)?.get_mut(index % CHUNK_MEMBERS)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Member> {
        self.chunks.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.chunks.iter_mut().flatten()
    }

    /// Returns the chunks of members, in order.
    pub(super) fn into_chunks(self) -> impl Iterator<Item = Vec<Member>> {
        self.chunks.into_iter()
    }
}

/// The indices of the members of a list that were freed before the checkpoint was written. They are
/// few: as many as there were unfinished intents at a time.
#[derive(Default)]
pub(super) struct FreeMembers {
    /// The indices, in ascending order.
    indices: Vec<u32>,
    /// The least index that the next member of the commit in progress may take.
    least: u32,
}

impl FreeMembers {
    pub(super) const fn len(&self) -> usize {
        self.indices.len()
    }

    /// Lets the next member take any freed index.
    pub(super) const fn begin_commit(&mut self) {
        self.least = 0;
    }

    /// Adds the index of a member that has been freed.
    pub(super) fn add(&mut self, index: u32) {
        let at = self.indices.partition_point(|freed| *freed < index);
        self.indices.insert(at, index);
    }

    /// Takes the first freed index after all indices that the members of the commit in progress
    /// have. Returns `None` if there is no such index.
    pub(super) fn take(&mut self) -> Option<u32> {
        if self.indices.is_empty() {
            return None;
        }
        let at = self.indices.partition_point(|freed| *freed < self.least);
        let index = *self.indices.get(at)?;
        self.indices.remove(at);
        self.note_added(index);
        Some(index)
    }

    /// Records that the commit in progress has added a member with this index.
    pub(super) const fn note_added(&mut self, index: u32) {
        self.least = index + 1;
    }
}

fn new_chunk() -> Vec<Member> {
    Vec::with_capacity(CHUNK_MEMBERS)
}

/// Chunks of member lists that wait to be reused. Committing threads take chunks, and threads that
/// write checkpoints give them back. So each per-CPU slot has a few chunks, and a common pool moves
/// chunks between slots.
///
/// Lock order: a slot's chunks, then the common pool.
pub(super) struct MemberListPool {
    max_chunks: usize,
    chunks: Mutex<MemberChunks, Volume>,
    local: Slots<Mutex<MemberChunks, Slot>>,
}

type MemberChunks = Vec<Vec<Member>>;

impl MemberListPool {
    /// Creates a pool for `slots` slots. The pool keeps chunks for as many members as checkpoints
    /// of `bytes` bytes in total have.
    pub(super) fn new(bytes: u64, slots: usize) -> Self {
        let max_chunks = (bytes / BYTES_PER_MEMBER) as usize / CHUNK_MEMBERS + slots;
        Self {
            max_chunks,
            chunks: Mutex::default(),
            local: Slots::with_count(slots, Mutex::default),
        }
    }

    /// Returns an empty chunk: one from the pool, or a new one.
    pub(super) fn take(&self) -> Vec<Member> {
        let mut local = self.local.mine().lock();
        if local.is_empty() {
            let mut kept = self.chunks.lock();
            let rest = kept.len().saturating_sub(MOVED_CHUNKS);
            local.extend(kept.drain(rest..));
        }
        local.pop().unwrap_or_else(new_chunk)
    }

    /// Drops the members in a chunk, and takes the empty chunk back into the pool.
    pub(super) fn give_back(&self, mut chunk: Vec<Member>) {
        // Before the lock: the last reference to an item may be dropped here.
        chunk.clear();
        let mut local = self.local.mine().lock();
        local.push(chunk);
        if local.len() >= 2 * MOVED_CHUNKS {
            let mut kept = self.chunks.lock();
            let room = self.max_chunks.saturating_sub(kept.len());
            kept.extend(local.drain(..MOVED_CHUNKS).take(room));
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
