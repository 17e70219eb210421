//! The overlay of a repair: a device on top of the damaged one. Writes stay in the overlay, and
//! reads return the written bytes.
//!
//! Owns: the written chunks, the bound of the memory for these chunks, the spill file for further
//! chunks, the list of changed bytes, and the list of ranges that the device below could not read.
//! Does **not** own: the device below, which the overlay never writes.
//!
//! # Memory
//!
//! The overlay keeps at most a given number of bytes in memory, and puts all further chunks into
//! the spill file. Without a spill file, a write beyond that number fails. The table of chunks
//! takes some 50 bytes for each chunk of 4 KiB.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use xfs_device::{BlockDevice, Durability, SharedDevice};
use xfs_sync::{Mutex, RwLock, Volume};

use crate::error::{RepairError, Result};

/// Length in bytes of the chunks in which the overlay keeps written bytes.
const CHUNK_BYTES: usize = 4096;
/// Length in bytes of the units that are compared to find changes. A device writes a sector of this
/// size whole or not at all.
pub(crate) const SECTOR_BYTES: usize = 512;
/// The greatest length in bytes of one changed run, that is, a range of changed sectors.
pub(crate) const MOST_RUN_BYTES: usize = 64 << 10;
/// The greatest number of unreadable ranges that the overlay remembers.
const MOST_UNREADABLE: usize = 10_000;

/// Where the bytes of a written chunk are: in memory or in the spill file.
enum Slot {
    Memory(Box<[u8; CHUNK_BYTES]>),
    /// The bytes are in the spill file. The number is the index of the chunk in that file.
    Spilled(u64),
}

#[derive(Default)]
struct Chunks {
    slots: BTreeMap<u64, Slot>,
    in_memory: u64,
    spilled: u64,
}

/// A run of bytes in which the overlay and the device below differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    /// The byte offset of the run on the device.
    pub(crate) offset: u64,
    /// The bytes of the run on the device below.
    pub(crate) old: &'a [u8],
    /// The bytes of the run in the overlay.
    pub(crate) new: &'a [u8],
}

/// A device that keeps the writes of a repair.
pub(crate) struct RepairOverlay {
    base: SharedDevice,
    most_in_memory: u64,
    spill: Option<File>,
    chunks: RwLock<Chunks, Volume>,
    /// The ranges that the device below could not read, and the error of each.
    unreadable: Mutex<BTreeMap<(u64, u64), String>, Volume>,
}

impl RepairOverlay {
    /// Creates an overlay over `base` that keeps at most `memory_bytes` bytes in memory. Further
    /// bytes go to the file `spill`; without it, such writes fail.
    pub(crate) fn new(base: SharedDevice, memory_bytes: u64, spill: Option<File>) -> Self {
        Self {
            base,
            most_in_memory: memory_bytes / CHUNK_BYTES as u64,
            spill,
            chunks: RwLock::new(Chunks::default()),
            unreadable: Mutex::new(BTreeMap::new()),
        }
    }

    /// Forgets all writes. The unreadable ranges stay known.
    pub(crate) fn reset(&self) {
        *self.chunks.write() = Chunks::default();
    }

    /// Returns the ranges that the device below could not read, each with its error.
    pub(crate) fn unreadable(&self) -> Vec<(Range<u64>, String)> {
        let unreadable = self.unreadable.lock();
        unreadable.iter().map(|((start, end), error)| (*start..*end, error.clone())).collect()
    }

    /// Calls `visit` with each changed run (a range of changed sectors), in the order of addresses.
    /// A run has at most 64 KiB, and never crosses the end of the superblock's sector, which has
    /// `superblock_bytes` bytes.
    pub(crate) fn for_each_change(
        &self,
        superblock_bytes: u64,
        visit: &mut dyn FnMut(Change<'_>) -> Result<()>,
    ) -> Result<()> {
        let numbers: Vec<u64> = self.chunks.read().slots.keys().copied().collect();
        let mut run = Run { offset: 0, old: Vec::new(), new: Vec::new() };
        for number in numbers {
            let start = number * CHUNK_BYTES as u64;
            let length = self.chunk_length(number);
            let (mut old, mut new) = ([0; CHUNK_BYTES], [0; CHUNK_BYTES]);
            self.read_below(start, part(&mut old, length))?;
            let spilled = self.read_slot(number, &mut new);
            spilled.map_err(|error| RepairError::Io { offset: start, error })?;
            let (old, new) = (part(&mut old, length), part(&mut new, length));
            let sectors = old.chunks(SECTOR_BYTES).zip(new.chunks(SECTOR_BYTES));
            for (index, (old, new)) in sectors.enumerate() {
                if old == new {
                    continue;
                }
                let offset = start + (index * SECTOR_BYTES) as u64;
                if !run.takes(offset, superblock_bytes) {
                    run.hand_over(visit)?;
                    run.offset = offset;
                }
                run.old.extend_from_slice(old);
                run.new.extend_from_slice(new);
            }
        }
        run.hand_over(visit)
    }

    /// Returns the number of bytes of a chunk. The last chunk of the device may be short.
    fn chunk_length(&self, number: u64) -> usize {
        let start = number * CHUNK_BYTES as u64;
        let rest = self.base.length_bytes().saturating_sub(start);
        usize::try_from(rest).map_or(CHUNK_BYTES, |rest| rest.min(CHUNK_BYTES))
    }

    /// Reads from the device below. If a range cannot be read, remembers the range and its error.
    fn read_base(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let result = self.base.read_at(buffer, offset);
        if let Err(error) = &result {
            let mut unreadable = self.unreadable.lock();
            if unreadable.len() < MOST_UNREADABLE {
                let end = offset + buffer.len() as u64;
                unreadable.entry((offset, end)).or_insert_with(|| error.to_string());
            }
        }
        result
    }

    /// Reads bytes of the device below the overlay: the state before the repair.
    pub(crate) fn read_below(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_base(offset, buffer).map_err(|error| RepairError::Io { offset, error })
    }

    /// Reads the bytes of a chunk that the overlay has stored.
    fn read_slot(&self, number: u64, into: &mut [u8; CHUNK_BYTES]) -> io::Result<()> {
        let chunks = self.chunks.read();
        match chunks.slots.get(&number).expect("the chunk was written") {
            Slot::Memory(bytes) => {
                into.copy_from_slice(&**bytes);
                Ok(())
            }
            Slot::Spilled(index) => self.read_spilled(*index, into),
        }
    }

    fn read_spilled(&self, index: u64, into: &mut [u8; CHUNK_BYTES]) -> io::Result<()> {
        let spill = self.spill.as_ref().expect("a spilled chunk has a spill file");
        spill.read_exact_at(into, index * CHUNK_BYTES as u64)
    }

    /// Returns the present bytes of a chunk. The caller then replaces a part of them by a write.
    fn bytes_before_write(&self, chunks: &Chunks, number: u64) -> io::Result<[u8; CHUNK_BYTES]> {
        let mut bytes = [0; CHUNK_BYTES];
        match chunks.slots.get(&number) {
            Some(Slot::Memory(stored)) => bytes.copy_from_slice(&**stored),
            Some(Slot::Spilled(index)) => self.read_spilled(*index, &mut bytes)?,
            None => {
                let length = self.chunk_length(number);
                let start = number * CHUNK_BYTES as u64;
                self.read_base(start, part(&mut bytes, length))?;
            }
        }
        Ok(bytes)
    }

    /// Stores the new bytes of a whole chunk, in memory or in the spill file.
    fn store(&self, chunks: &mut Chunks, number: u64, bytes: &[u8; CHUNK_BYTES]) -> io::Result<()> {
        match chunks.slots.get_mut(&number) {
            Some(Slot::Memory(stored)) => {
                stored.copy_from_slice(bytes);
                return Ok(());
            }
            Some(Slot::Spilled(index)) => {
                let spill = self.spill.as_ref().expect("a spilled chunk has a spill file");
                return spill.write_all_at(bytes, *index * CHUNK_BYTES as u64);
            }
            None => {}
        }
        let slot = if chunks.in_memory < self.most_in_memory {
            chunks.in_memory += 1;
            Slot::Memory(Box::new(*bytes))
        } else {
            let spill = self.spill.as_ref().ok_or_else(|| {
                let message = "the repair needs more memory than allowed, and has no spill file";
                io::Error::new(io::ErrorKind::StorageFull, message)
            })?;
            spill.write_all_at(bytes, chunks.spilled * CHUNK_BYTES as u64)?;
            chunks.spilled += 1;
            Slot::Spilled(chunks.spilled - 1)
        };
        chunks.slots.insert(number, slot);
        Ok(())
    }

    fn check_range(&self, offset: u64, length: usize) -> io::Result<()> {
        let end = offset.checked_add(length as u64);
        if end.is_some_and(|end| end <= self.length_bytes()) {
            return Ok(());
        }
        let message = format!("{length} bytes at {offset} are past the end of the device");
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, message))
    }
}

/// A range of changed bytes. The next changed sector is appended to it if it follows directly.
struct Run {
    offset: u64,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Run {
    /// Returns whether the sector at `offset` can be appended to the run: it must follow directly,
    /// the run must not become too long, and it must not cross the end of the superblock's sector.
    fn takes(&self, offset: u64, superblock_bytes: u64) -> bool {
        !self.old.is_empty()
            && self.offset + self.old.len() as u64 == offset
            && self.old.len() < MOST_RUN_BYTES
            && offset != superblock_bytes
    }

    fn hand_over(&mut self, visit: &mut dyn FnMut(Change<'_>) -> Result<()>) -> Result<()> {
        if !self.old.is_empty() {
            visit(Change { offset: self.offset, old: &self.old, new: &self.new })?;
        }
        self.old.clear();
        self.new.clear();
        Ok(())
    }
}

/// Returns the first `length` bytes of a chunk.
fn part(chunk: &mut [u8; CHUNK_BYTES], length: usize) -> &mut [u8] {
    chunk.get_mut(..length).expect("a part of a chunk has at most its length")
}

/// Splits a range at the boundaries of chunks. Each part is returned as the number of its chunk and
/// its range inside that chunk.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (u64, Range<usize>)> {
    let (mut at, end) = (offset, offset + length as u64);
    std::iter::from_fn(move || {
        let inside = (at % CHUNK_BYTES as u64) as usize;
        let rest = usize::try_from(end - at).unwrap_or(CHUNK_BYTES);
        let count = (CHUNK_BYTES - inside).min(rest);
        let piece = (at / CHUNK_BYTES as u64, inside..inside + count);
        at += count as u64;
        (count != 0).then_some(piece)
    })
}

impl BlockDevice for RepairOverlay {
    fn length_bytes(&self) -> u64 {
        self.base.length_bytes()
    }

    fn sector_size(&self) -> u32 {
        self.base.sector_size()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.check_range(offset, buffer.len())?;
        let chunks = self.chunks.read();
        let is_written = |number| chunks.slots.contains_key(&number);
        if !pieces(offset, buffer.len()).all(|(number, _)| is_written(number)) {
            self.read_base(offset, buffer)?;
        }
        let mut rest = buffer;
        for (number, inside) in pieces(offset, rest.len()) {
            let (target, after) = rest.split_at_mut(inside.len());
            rest = after;
            let mut spilled = [0; CHUNK_BYTES];
            let bytes = match chunks.slots.get(&number) {
                None => continue,
                Some(Slot::Memory(bytes)) => bytes,
                Some(Slot::Spilled(index)) => {
                    self.read_spilled(*index, &mut spilled)?;
                    &spilled
                }
            };
            target.copy_from_slice(bytes.get(inside).expect("a piece lies in its chunk"));
        }
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64, _durability: Durability) -> io::Result<()> {
        self.check_range(offset, bytes.len())?;
        let mut chunks = self.chunks.write();
        let mut rest = bytes;
        for (number, inside) in pieces(offset, bytes.len()) {
            let (source, after) = rest.split_at(inside.len());
            rest = after;
            let mut chunk = self.bytes_before_write(&chunks, number)?;
            chunk.get_mut(inside).expect("a piece lies in its chunk").copy_from_slice(source);
            self.store(&mut chunks, number, &chunk)?;
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.check_range(offset, usize::try_from(length).unwrap_or(usize::MAX))
    }

    fn prefetch(&self, offset: u64, length: u64) {
        self.base.prefetch(offset, length);
    }

    fn invalidate(&self, offset: u64, length: u64) {
        self.base.invalidate(offset, length);
    }
}

#[cfg(test)]
mod tests;
