//! A device that shares what it holds with the one it was forked from, until either is written.
//!
//! Owns: the chunks in which a device differs from its base. Does **not** own: the base, which
//! nobody may write any more.
//!
//! A fork costs one reference for each chunk that was ever written, so that thousands of crash
//! states of one volume take hardly more memory than the volume.

use std::collections::btree_map::{BTreeMap, Entry};
use std::io;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use xfs_device::{BlockDevice, Durability, SharedDevice};

const CHUNK_BYTES: usize = 4096;

type Chunk = [u8; CHUNK_BYTES];
type Chunks = BTreeMap<u64, Arc<Chunk>>;

/// What a chunk that was discarded as a whole holds.
static ZEROS: LazyLock<Arc<Chunk>> = LazyLock::new(|| Arc::new([0; CHUNK_BYTES]));

/// A device over another one that is only read, with the chunks in which it differs.
pub struct CowDevice {
    base: SharedDevice,
    chunks: RwLock<Chunks>,
}

impl CowDevice {
    /// A device that holds what `base` holds.
    #[must_use]
    pub fn new(base: SharedDevice) -> Self {
        Self { base, chunks: RwLock::default() }
    }

    /// Another device with the same contents; from now on they differ by what is written to them.
    #[must_use]
    pub fn fork(&self) -> Self {
        let chunks = self.chunks.read().unwrap_or_else(PoisonError::into_inner);
        Self { base: Arc::clone(&self.base), chunks: RwLock::new(chunks.clone()) }
    }

    /// What is not the base's: pieces of the device, each with the byte where it starts, in order.
    #[must_use]
    pub fn pieces(&self) -> Vec<(u64, Vec<u8>)> {
        let chunks = self.chunks.read().unwrap_or_else(PoisonError::into_inner);
        let piece = |(index, chunk): (&u64, &Arc<Chunk>)| {
            let start = index * CHUNK_BYTES as u64;
            let rest = self.base.length_bytes().saturating_sub(start).min(CHUNK_BYTES as u64);
            (start, chunk.iter().copied().take(rest as usize).collect())
        };
        chunks.iter().map(piece).collect()
    }

    /// Changes the bytes from `offset` on, piece by piece: `change` gets the place inside the range
    /// at which a piece begins, and the piece.
    fn change(
        &self,
        offset: u64,
        length: u64,
        mut change: impl FnMut(usize, &mut [u8]),
    ) -> io::Result<()> {
        check_inside(self, offset, length)?;
        let mut chunks = self.chunks.write().unwrap_or_else(PoisonError::into_inner);
        for piece in pieces(offset, length) {
            let chunk = match chunks.entry(piece.chunk) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(Arc::new(self.base_chunk(piece.chunk)?)),
            };
            if let Some(bytes) = Arc::make_mut(chunk).get_mut(piece.inside..piece.end()) {
                change(piece.done, bytes);
            }
        }
        Ok(())
    }

    /// What the base holds there; zeros past its end.
    fn base_chunk(&self, index: u64) -> io::Result<Chunk> {
        let mut chunk = [0; CHUNK_BYTES];
        let start = index * CHUNK_BYTES as u64;
        let rest = self.base.length_bytes().saturating_sub(start).min(CHUNK_BYTES as u64);
        if let Some(there) = chunk.get_mut(..rest as usize) {
            self.base.read_at(start, there)?;
        }
        Ok(chunk)
    }
}

/// The part of a range that lies in one chunk.
struct Piece {
    chunk: u64,
    /// Its first byte inside the chunk.
    inside: usize,
    /// Its first byte inside the range.
    done: usize,
    count: usize,
}

impl Piece {
    fn end(&self) -> usize {
        self.inside + self.count
    }
}

fn pieces(offset: u64, length: u64) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done;
        let inside = at % CHUNK_BYTES as u64;
        let count = (length - done).min(CHUNK_BYTES as u64 - inside);
        let piece = Piece {
            chunk: at / CHUNK_BYTES as u64,
            inside: inside as usize,
            done: done as usize,
            count: count as usize,
        };
        done += count;
        (count != 0).then_some(piece)
    })
}

/// Fails past the end of the device, as the trait demands.
pub(crate) fn check_inside(device: &dyn BlockDevice, offset: u64, length: u64) -> io::Result<()> {
    match offset.checked_add(length) {
        Some(end) if end <= device.length_bytes() => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

impl BlockDevice for CowDevice {
    fn length_bytes(&self) -> u64 {
        self.base.length_bytes()
    }

    fn sector_size(&self) -> u32 {
        self.base.sector_size()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        check_inside(self, offset, buffer.len() as u64)?;
        let chunks = self.chunks.read().unwrap_or_else(PoisonError::into_inner);
        for piece in pieces(offset, buffer.len() as u64) {
            let target = buffer.get_mut(piece.done..piece.done + piece.count);
            let Some(target) = target else { continue };
            match chunks.get(&piece.chunk).and_then(|chunk| chunk.get(piece.inside..piece.end())) {
                Some(stored) => target.copy_from_slice(stored),
                None => self.base.read_at(offset + piece.done as u64, target)?,
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8], _: Durability) -> io::Result<()> {
        self.change(offset, bytes.len() as u64, |done, piece| {
            if let Some(source) = bytes.get(done..done + piece.len()) {
                piece.copy_from_slice(source);
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
            return self.change(offset, length, |_, piece| piece.fill(0));
        }
        // Whole chunks share one chunk of zeros; only the ends take memory.
        self.change(offset, first * chunk_bytes - offset, |_, piece| piece.fill(0))?;
        self.change(last * chunk_bytes, end - last * chunk_bytes, |_, piece| piece.fill(0))?;
        let mut chunks = self.chunks.write().unwrap_or_else(PoisonError::into_inner);
        chunks.extend((first..last).map(|chunk| (chunk, Arc::clone(&ZEROS))));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
