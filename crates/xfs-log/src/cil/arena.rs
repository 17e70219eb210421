//! Memory for the log vectors of a checkpoint (the logged bytes of its items) until the checkpoint
//! is written.
//!
//! Owns: chunks of memory that are filled from front to back and reused by later checkpoints. Does
//! **not** own the right to write to these chunks: each slot has an arena of its own, under the
//! slot's lock.
//!
//! The memory of a checkpoint is bounded by the bytes that it logs. A vector that is replaced by a
//! longer one leaves a hole. Its new location then has room for twice its length, so the holes are
//! never larger than the live vectors.

use xfs_sync::{Mutex, Volume};

use crate::vector::Vector;

/// The greatest length of a chunk in bytes, unless one vector takes more. Getting a chunk takes a
/// lock of the volume, so chunks are long.
const MAX_CHUNK_BYTES: u64 = 512 << 10;

/// The least length of a chunk in bytes.
const MIN_CHUNK_BYTES: u64 = 16 << 10;

/// The location of a vector in an arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VectorLocation {
    chunk: u32,
    offset: u32,
    length: u32,
    /// Number of bytes to which the vector may grow without moving.
    capacity: u32,
    /// Number of regions of the vector.
    pub(super) regions: u32,
}

/// The memory for the log vectors of the items that were committed to one checkpoint through one
/// slot.
#[derive(Default)]
pub(super) struct Arena {
    chunks: Vec<Vec<u8>>,
}

impl Arena {
    /// Returns whether `bytes` more bytes fit into the last chunk.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.chunks.last().is_some_and(|chunk| chunk.capacity() - chunk.len() >= bytes)
    }

    /// Adds a chunk, which is the last chunk from now on.
    pub(super) fn add(&mut self, chunk: Vec<u8>) {
        self.chunks.push(chunk);
    }

    /// Stores a vector in the last chunk, in which the caller has made room. Returns the location.
    pub(super) fn store(&mut self, vector: Vector<'_>) -> VectorLocation {
        if vector.bytes.is_empty() {
            return VectorLocation::default();
        }
        debug_assert!(self.has_room(vector.bytes.len()), "a vector was stored without room for it");
        let number = self.chunks.len().wrapping_sub(1);
        let chunk = self.chunks.last_mut().expect("the last chunk has room");
        let offset = chunk.len();
        chunk.extend_from_slice(vector.bytes);
        let length = vector.bytes.len() as u32;
        let (chunk, offset) = (number as u32, offset as u32);
        VectorLocation { chunk, offset, length, capacity: length, regions: vector.regions }
    }

    /// Replaces the vector at `location`. A new vector that fits is stored at the same location. A
    /// longer vector gets a new location, with room to grow if the chunk has enough room. Returns
    /// the location.
    pub(super) fn replace(
        &mut self,
        location: VectorLocation,
        vector: Vector<'_>,
    ) -> VectorLocation {
        let length = vector.bytes.len() as u32;
        if length > location.capacity {
            let mut new = self.store(vector);
            new.capacity = self.extend(new);
            return new;
        }
        let replaced = VectorLocation { length, regions: vector.regions, ..location };
        self.bytes_mut(replaced).copy_from_slice(vector.bytes);
        replaced
    }

    #[cfg(test)]
    pub(super) const fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// Returns the bytes of a stored vector, to change them in place.
    pub(super) fn bytes_mut(&mut self, location: VectorLocation) -> &mut [u8] {
        if location.regions == 0 {
            return &mut [];
        }
        let chunk = self.chunks.get_mut(location.chunk as usize);
        let start = location.offset as usize;
        chunk
            .and_then(|chunk| chunk.get_mut(start..start + location.length as usize))
            .expect("a stored vector lies in its chunk")
    }

    /// Doubles the capacity of the vector at `location`, as far as the chunk has room. The vector
    /// must be the one that was stored last. Returns the new capacity in bytes.
    fn extend(&mut self, location: VectorLocation) -> u32 {
        let chunk = self.chunks.last_mut().expect("the vector was stored in the last chunk");
        let more = (chunk.capacity() - chunk.len()).min(location.length as usize);
        chunk.resize(chunk.len() + more, 0);
        location.length + more as u32
    }

    /// Adds a vector that has memory of its own (`bytes`). That memory becomes a chunk of the
    /// arena. Returns the location of the vector.
    pub(super) fn adopt(&mut self, bytes: Vec<u8>, regions: u32) -> VectorLocation {
        let (chunk, length) = (self.chunks.len() as u32, bytes.len() as u32);
        self.chunks.push(bytes);
        VectorLocation { chunk, offset: 0, length, capacity: length, regions }
    }

    /// Returns the bytes of a stored vector. The vector must have at least one region.
    pub(super) fn bytes(&self, location: VectorLocation) -> &[u8] {
        let chunk = self.chunks.get(location.chunk as usize);
        let start = location.offset as usize;
        chunk
            .and_then(|chunk| chunk.get(start..start + location.length as usize))
            .expect("a stored vector lies in its chunk")
    }
}

/// Chunks that wait to be reused by later checkpoints.
pub(super) struct ArenaPool {
    chunk_bytes: usize,
    max_chunks: usize,
    chunks: Mutex<Vec<Vec<u8>>, Volume>,
}

impl ArenaPool {
    /// Creates a pool. It keeps at most as many chunks as checkpoints of `kept_bytes` bytes in
    /// total need if their vectors are spread over `slots` slots.
    pub(super) fn new(kept_bytes: u64, slots: usize) -> Self {
        let share = kept_bytes / slots.max(1) as u64;
        let chunk_bytes = share.clamp(MIN_CHUNK_BYTES, MAX_CHUNK_BYTES);
        let max_chunks = (kept_bytes / chunk_bytes) as usize + slots;
        Self { chunk_bytes: chunk_bytes as usize, max_chunks, chunks: Mutex::default() }
    }

    /// Returns an empty chunk with room for this many bytes.
    pub(super) fn take(&self, bytes: usize) -> Vec<u8> {
        if bytes > self.chunk_bytes {
            return Vec::with_capacity(bytes);
        }
        let kept = self.chunks.lock().pop();
        kept.unwrap_or_else(|| Vec::with_capacity(self.chunk_bytes))
    }

    /// Takes back a chunk that the caller did not need.
    pub(super) fn give_back(&self, chunk: Vec<u8>) {
        self.recycle([Arena { chunks: vec![chunk] }]);
    }

    /// Takes back the chunks of arenas whose checkpoint has been written.
    pub(super) fn recycle(&self, arenas: impl IntoIterator<Item = Arena>) {
        let mut chunks: Vec<_> = arenas.into_iter().flat_map(|arena| arena.chunks).collect();
        chunks.retain(|chunk| chunk.capacity() == self.chunk_bytes);
        chunks.iter_mut().for_each(Vec::clear);
        let mut kept = self.chunks.lock();
        let room = self.max_chunks.saturating_sub(kept.len());
        kept.extend(chunks.drain(..room.min(chunks.len())));
    }
}

#[cfg(test)]
mod tests;
