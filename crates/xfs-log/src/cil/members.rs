//! The list of a share's members, in chunks that are used again by later checkpoints.
//!
//! Owns: where a member stands. Does **not** own what a member is, or the bytes of its vector
//! ([`arena`](super::arena)).
//!
//! In chunks because a list that is one chunk is copied whenever it grows, under the slot's lock, and
//! because memory that is given back and taken anew has to be cleared by the system each time. All
//! chunks but the last that has members are full.

use xfs_sync::{Mutex, Slot, Slots, Volume};

use super::membership::Member;

/// Members of a chunk. What becomes of them when they are durable is done chunk by chunk too, and for
/// that a lock of the volume is taken.
pub(super) const CHUNK_MEMBERS: usize = 1024;

/// Chunks that a slot gets, and gives back, at a time: for both a lock of the volume is taken.
const MOVED_CHUNKS: usize = 4;

/// Bytes of log that a member takes, by a low estimate.
const BYTES_PER_MEMBER: u64 = 256;

/// A list of members.
#[derive(Default)]
pub(super) struct MemberList {
    chunks: Vec<Vec<Member>>,
    length: usize,
}

impl MemberList {
    pub(super) const fn len(&self) -> usize {
        self.length
    }

    /// Whether so many members more fit.
    pub(super) fn has_room(&self, count: usize) -> bool {
        self.chunks.len() * CHUNK_MEMBERS - self.length >= count
    }

    /// Adds an empty chunk.
    pub(super) fn add(&mut self, chunk: Vec<Member>) {
        self.chunks.push(chunk);
    }

    /// Adds a member, for which there is room.
    pub(super) fn push(&mut self, member: Member) {
        if !self.has_room(1) {
            self.add(new_chunk());
        }
        if let Some(chunk) = self.chunks.get_mut(self.length / CHUNK_MEMBERS) {
            chunk.push(member);
            self.length += 1;
        }
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

    /// The chunks, in order.
    pub(super) fn into_chunks(self) -> impl Iterator<Item = Vec<Member>> {
        self.chunks.into_iter()
    }
}

fn new_chunk() -> Vec<Member> {
    Vec::with_capacity(CHUNK_MEMBERS)
}

/// Chunks that wait to be used again. Who commits gets them and who writes checkpoints gives them back,
/// so what a slot has at hand goes through the hands of all.
///
/// Lock order: a slot's chunks, then those of all.
pub(super) struct MemberListPool {
    max_chunks: usize,
    chunks: Mutex<MemberChunks, Volume>,
    local: Slots<Mutex<MemberChunks, Slot>>,
}

type MemberChunks = Vec<Vec<Member>>;

impl MemberListPool {
    /// A pool for as many members as so many bytes of checkpoints have, in so many slots.
    pub(super) fn new(bytes: u64, slots: usize) -> Self {
        let max_chunks = (bytes / BYTES_PER_MEMBER) as usize / CHUNK_MEMBERS + slots;
        Self {
            max_chunks,
            chunks: Mutex::default(),
            local: Slots::with_count(slots, Mutex::default),
        }
    }

    /// An empty chunk.
    pub(super) fn take(&self) -> Vec<Member> {
        let mut local = self.local.mine().lock();
        if local.is_empty() {
            let mut kept = self.chunks.lock();
            let rest = kept.len().saturating_sub(MOVED_CHUNKS);
            local.extend(kept.drain(rest..));
        }
        local.pop().unwrap_or_else(new_chunk)
    }

    /// Takes a chunk back, and drops what is in it.
    pub(super) fn give_back(&self, mut chunk: Vec<Member>) {
        // Before the lock: the last reference to an item may go here.
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
