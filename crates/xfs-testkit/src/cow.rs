//! A copy-on-write device: forks share their contents until one of them is written.
//!
//! Owns: the chunks in which a device differs from its base. Does **not** own: the base, which must
//! not be written any more.
//!
//! A fork costs one reference per chunk that was ever written. Thousands of crash states of one
//! volume therefore take little more memory than the volume.

use std::collections::btree_map::{BTreeMap, Entry};
use std::io;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use xfs_device::{BlockDevice, Durability, SharedDevice};

use crate::delegate_device;

const CHUNK_BYTES: usize = 4096;

type Chunk = [u8; CHUNK_BYTES];
type Chunks = BTreeMap<u64, Arc<Chunk>>;

/// The contents of a chunk that was discarded completely: zeros.
static ZEROS: LazyLock<Arc<Chunk>> = LazyLock::new(|| Arc::new([0; CHUNK_BYTES]));

/// A copy-on-write device: a base that is only read, and the chunks in which the device differs.
pub struct CowDevice {
    base: SharedDevice,
    chunks: RwLock<Chunks>,
}

impl CowDevice {
    /// Creates a device with the contents of `base`.
    #[must_use]
    pub fn new(base: SharedDevice) -> Self {
        Self { base, chunks: RwLock::default() }
    }

    /// Creates another device with the same contents. Later writes to either device do not affect
    /// the other.
    #[must_use]
    pub fn fork(&self) -> Self {
        let chunks = self.chunks.read().unwrap_or_else(PoisonError::into_inner);
        Self { base: Arc::clone(&self.base), chunks: RwLock::new(chunks.clone()) }
    }

    /// Returns the chunks in which the device differs from the base, each with its start in bytes,
    /// in order.
    #[must_use]
    pub fn changed_chunks(&self) -> Vec<(u64, Vec<u8>)> {
        let chunks = self.chunks.read().unwrap_or_else(PoisonError::into_inner);
        let with_start = |(index, chunk): (&u64, &Arc<Chunk>)| {
            let start = index * CHUNK_BYTES as u64;
            let rest = self.base.length_bytes().saturating_sub(start).min(CHUNK_BYTES as u64);
            (start, chunk.iter().copied().take(rest as usize).collect())
        };
        chunks.iter().map(with_start).collect()
    }

    /// Changes `length` bytes from `offset` on, chunk by chunk. For each chunk, `change` gets two
    /// arguments: the distance in bytes from `offset` to the bytes to change, and these bytes.
    fn change(
        &self,
        offset: u64,
        length: u64,
        mut change: impl FnMut(usize, &mut [u8]),
    ) -> io::Result<()> {
        check_inside(self, offset, length)?;
        let mut chunks = self.chunks.write().unwrap_or_else(PoisonError::into_inner);
        for part in chunk_parts(offset, length) {
            let chunk = match chunks.entry(part.chunk) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(Arc::new(self.base_chunk(part.chunk)?)),
            };
            if let Some(bytes) = Arc::make_mut(chunk).get_mut(part.inside..part.end()) {
                change(part.done, bytes);
            }
        }
        Ok(())
    }

    /// Reads a chunk of the base, with zeros past its end.
    fn base_chunk(&self, index: u64) -> io::Result<Chunk> {
        let mut chunk = [0; CHUNK_BYTES];
        let start = index * CHUNK_BYTES as u64;
        let rest = self.base.length_bytes().saturating_sub(start).min(CHUNK_BYTES as u64);
        if let Some(there) = chunk.get_mut(..rest as usize) {
            self.base.read_at(there, start)?;
        }
        Ok(chunk)
    }
}

/// The part of a byte range of the device that lies in one chunk.
struct ChunkPart {
    chunk: u64,
    /// Offset of the part's first byte in the chunk.
    inside: usize,
    /// Offset of the part's first byte from the start of the range.
    done: usize,
    count: usize,
}

impl ChunkPart {
    fn end(&self) -> usize {
        self.inside + self.count
    }
}

fn chunk_parts(offset: u64, length: u64) -> impl Iterator<Item = ChunkPart> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done;
        let inside = at % CHUNK_BYTES as u64;
        let count = (length - done).min(CHUNK_BYTES as u64 - inside);
        let part = ChunkPart {
            chunk: at / CHUNK_BYTES as u64,
            inside: inside as usize,
            done: done as usize,
            count: count as usize,
        };
        done += count;
        (count != 0).then_some(part)
    })
}

/// Returns an error for a range that does not lie inside the device, as the contract of
/// `BlockDevice` requires.
pub(crate) fn check_inside(device: &dyn BlockDevice, offset: u64, length: u64) -> io::Result<()> {
    match offset.checked_add(length) {
        Some(end) if end <= device.length_bytes() => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

impl BlockDevice for CowDevice {
    delegate_device!(base: length_bytes, sector_size);

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        check_inside(self, offset, buffer.len() as u64)?;
        let chunks = self.chunks.read().unwrap_or_else(PoisonError::into_inner);
        for part in chunk_parts(offset, buffer.len() as u64) {
            let target = buffer.get_mut(part.done..part.done + part.count);
            let Some(target) = target else { continue };
            match chunks.get(&part.chunk).and_then(|chunk| chunk.get(part.inside..part.end())) {
                Some(stored) => target.copy_from_slice(stored),
                None => self.base.read_at(target, offset + part.done as u64)?,
            }
        }
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64, _: Durability) -> io::Result<()> {
        self.change(offset, bytes.len() as u64, |done, target| {
            if let Some(source) = bytes.get(done..done + target.len()) {
                target.copy_from_slice(source);
            }
        })
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        check_inside(self, offset, length)?;
        let chunk_bytes = CHUNK_BYTES as u64;
        let end = offset + length;
        let (first, last) = (offset.div_ceil(chunk_bytes), end / chunk_bytes);
        if first >= last {
            return self.change(offset, length, |_, target| target.fill(0));
        }
        // Whole chunks share one chunk of zeros. Only the ends take memory.
        self.change(offset, first * chunk_bytes - offset, |_, target| target.fill(0))?;
        self.change(last * chunk_bytes, end - last * chunk_bytes, |_, target| target.fill(0))?;
        let mut chunks = self.chunks.write().unwrap_or_else(PoisonError::into_inner);
        chunks.extend((first..last).map(|chunk| (chunk, Arc::clone(&ZEROS))));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
