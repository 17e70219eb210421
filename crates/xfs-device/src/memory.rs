//! A device in memory: for tests, benchmarks, and volumes that never touch a disk.
//!
//! Owns: a sparse array of chunks. A chunk that was never written takes no memory and reads as
//! zeros. Each chunk has its own lock, so requests to different chunks share no lock.

use std::io;
use std::sync::OnceLock;

use xfs_sync::{Object, RwLock};

use crate::device::{BlockDevice, Durability, check_read, check_write};

/// Size of a chunk in bytes. A chunk is allocated, locked and freed as a whole.
const CHUNK_BYTES: usize = 64 << 10;

/// Number of chunks in a table. The array grows by one table at a time.
const TABLE_CHUNKS: usize = 512;

const SECTOR_BYTES: u32 = 512;

type Chunk = RwLock<Option<Box<[u8]>>, Object>;

/// A sparse device in memory, of fixed length.
pub struct MemoryDevice {
    tables: Box<[OnceLock<Box<[Chunk]>>]>,
    length_bytes: u64,
}

impl MemoryDevice {
    /// Creates a device of `length_bytes` zeros.
    #[must_use]
    pub fn new(length_bytes: u64) -> Self {
        let table_bytes = (CHUNK_BYTES * TABLE_CHUNKS) as u64;
        let tables = (0..length_bytes.div_ceil(table_bytes)).map(|_| OnceLock::new()).collect();
        Self { tables, length_bytes }
    }

    /// Creates a device with the contents `bytes`.
    ///
    /// # Errors
    ///
    /// None: the bytes always fit.
    pub fn from_bytes(bytes: &[u8]) -> io::Result<Self> {
        let device = Self::new(bytes.len() as u64);
        device.write_at(bytes, 0, Durability::Cached)?;
        Ok(device)
    }

    /// Returns the lock of the chunk with this index, or `None` if the table that holds the lock
    /// does not exist yet.
    fn find_chunk(&self, index: usize) -> Option<&Chunk> {
        self.tables.get(index / TABLE_CHUNKS)?.get()?.get(index % TABLE_CHUNKS)
    }

    /// Returns the lock of the chunk with this index. Creates the table that holds the lock if
    /// necessary. Returns `None` if the index is past the last table.
    fn make_chunk(&self, index: usize) -> Option<&Chunk> {
        let table = self.tables.get(index / TABLE_CHUNKS)?;
        let table = table.get_or_init(|| (0..TABLE_CHUNKS).map(|_| RwLock::new(None)).collect());
        table.get(index % TABLE_CHUNKS)
    }
}

/// Splits a range at the boundaries of chunks. For each part, returns the index of the chunk, the
/// offset of the part in the chunk, and the length of the part in bytes.
fn pieces(offset: u64, length: u64) -> impl Iterator<Item = (usize, usize, usize)> {
    let mut at = offset;
    let end = offset + length;
    std::iter::from_fn(move || {
        let inside = (at % CHUNK_BYTES as u64) as usize;
        let count = (CHUNK_BYTES - inside).min(usize::try_from(end - at).unwrap_or(usize::MAX));
        let chunk = usize::try_from(at / CHUNK_BYTES as u64).ok()?;
        at += count as u64;
        (count != 0).then_some((chunk, inside, count))
    })
}

impl BlockDevice for MemoryDevice {
    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    fn sector_size(&self) -> u32 {
        SECTOR_BYTES
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        check_read(self, offset, buffer.len())?;
        let mut rest = buffer;
        for (index, inside, count) in pieces(offset, rest.len() as u64) {
            let Some((piece, after)) = rest.split_at_mut_checked(count) else { break };
            let chunk = self.find_chunk(index).map(|chunk| chunk.read());
            match chunk.as_ref().and_then(|chunk| chunk.as_ref()?.get(inside..inside + count)) {
                Some(stored) => piece.copy_from_slice(stored),
                None => piece.fill(0),
            }
            rest = after;
        }
        Ok(())
    }

    fn append_at(&self, bytes: &mut Vec<u8>, length: usize, offset: u64) -> io::Result<()> {
        check_read(self, offset, length)?;
        bytes.reserve(length);
        for (index, inside, count) in pieces(offset, length as u64) {
            let chunk = self.find_chunk(index).map(|chunk| chunk.read());
            match chunk.as_ref().and_then(|chunk| chunk.as_ref()?.get(inside..inside + count)) {
                Some(stored) => bytes.extend_from_slice(stored),
                None => bytes.resize(bytes.len() + count, 0),
            }
        }
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64, _durability: Durability) -> io::Result<()> {
        check_write(self, offset, bytes.len())?;
        let mut rest = bytes;
        for (index, inside, count) in pieces(offset, rest.len() as u64) {
            let (piece, after) = rest.split_at_checked(count).expect("pieces cover the bytes");
            let chunk = self.make_chunk(index).expect("each byte of the device has a chunk");
            let mut chunk = chunk.write();
            match &mut *chunk {
                // The write covers the chunk, which need not be filled with zeros first.
                None if count == CHUNK_BYTES => *chunk = Some(Box::from(piece)),
                chunk => {
                    let stored = chunk.get_or_insert_with(|| vec![0; CHUNK_BYTES].into());
                    let stored = stored.get_mut(inside..inside + count);
                    stored.expect("a piece lies in its chunk").copy_from_slice(piece);
                }
            }
            rest = after;
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn write_zeros(&self, offset: u64, length: u64) -> io::Result<()> {
        self.discard(offset, length)
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        check_write(self, offset, usize::try_from(length).unwrap_or(usize::MAX))?;
        for (index, inside, count) in pieces(offset, length) {
            let Some(chunk) = self.find_chunk(index) else { continue };
            let mut chunk = chunk.write();
            if count == CHUNK_BYTES {
                *chunk = None;
            } else if let Some(stored) =
                chunk.as_mut().and_then(|c| c.get_mut(inside..inside + count))
            {
                stored.fill(0);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
