//! A device on top of another device. Writes stay in memory, and reads return the written bytes.
//!
//! Owns: the written sectors, until the caller writes them back or drops them. Does **not** own
//! durability: nothing reaches the device below before [`write_back`](OverlayDevice::write_back).
//!
//! # Memory
//!
//! The overlay keeps each written sector in memory, and never more than the bound given at
//! creation. A write that would exceed the bound fails.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use xfs_sync::{RwLock, Volume};

use crate::device::{BlockDevice, Durability, SharedDevice, check_read};

/// The preferred length of a write of [`OverlayDevice::write_back`], in bytes. A write that has
/// reached this length ends at the next multiple of `PIECE_BYTES`.
const RUN_BYTES: usize = 1 << 20;

/// The alignment, in bytes, of the places where a write of [`OverlayDevice::write_back`] may end.
/// No inode or sector of the format crosses such a place.
const PIECE_BYTES: u64 = 64 << 10;

type Sectors = BTreeMap<u64, Box<[u8]>>;

/// A device that reads from another device, and keeps writes in memory.
pub struct OverlayDevice {
    device: SharedDevice,
    sector_bytes: u64,
    max_sectors: usize,
    /// The written sectors, by sector number. Every read locks this map, so the device does not
    /// suit a busy volume.
    written: RwLock<Sectors, Volume>,
}

impl OverlayDevice {
    /// Creates an overlay over `device` that keeps at most `max_bytes` bytes in memory.
    #[must_use]
    pub fn new(device: SharedDevice, max_bytes: u64) -> Self {
        let sector_bytes = u64::from(device.sector_size());
        let max_sectors = usize::try_from(max_bytes / sector_bytes).unwrap_or(usize::MAX);
        Self { device, sector_bytes, max_sectors, written: RwLock::new(Sectors::new()) }
    }

    /// Returns the number of written bytes that are kept in memory.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.written.read().len() as u64 * self.sector_bytes
    }

    /// Writes the kept sectors to the device below, and flushes. The sectors stay in memory.
    ///
    /// Each range of `whole` is written by one write, so that a crash leaves all of the range or
    /// nothing of it. The write includes the unchanged bytes between the written sectors of the
    /// range. Everything else is written in ascending order. Any other write ends at a multiple of
    /// 64 KiB, or before a sector that was not written or lies in a range of `whole`.
    ///
    /// # Errors
    ///
    /// The first error of the device. Some sectors may have been written before it.
    pub fn write_back(&self, whole: &[Range<u64>]) -> io::Result<()> {
        for range in whole {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            self.read_at(&mut bytes, range.start)?;
            self.device.write_at(&bytes, range.start, Durability::Cached)?;
        }
        let written = self.written.read();
        let mut run: Option<(u64, Vec<u8>)> = None;
        for (number, sector) in written.iter() {
            let offset = number * self.sector_bytes;
            let before = whole.partition_point(|range| range.start <= offset).checked_sub(1);
            if before.and_then(|index| whole.get(index)).is_some_and(|range| offset < range.end) {
                continue;
            }
            match &mut run {
                Some((start, bytes))
                    if *start + bytes.len() as u64 == offset
                        && (bytes.len() < RUN_BYTES || !offset.is_multiple_of(PIECE_BYTES)) =>
                {
                    bytes.extend_from_slice(sector);
                }
                _ => self.write_run(run.replace((offset, sector.to_vec())))?,
            }
        }
        self.write_run(run)?;
        self.device.flush()
    }

    fn write_run(&self, run: Option<(u64, Vec<u8>)>) -> io::Result<()> {
        run.map_or(Ok(()), |(start, bytes)| self.device.write_at(&bytes, start, Durability::Cached))
    }

    /// Splits a range at the boundaries of sectors. For each part, returns the sector number, the
    /// offset of the part in the sector, and the length of the part in bytes.
    fn pieces(&self, offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
        let sector_bytes = self.sector_bytes;
        let (mut at, end) = (offset, offset + length as u64);
        std::iter::from_fn(move || {
            let inside = at % sector_bytes;
            let count = (sector_bytes - inside).min(end - at);
            let piece = (at / sector_bytes, inside as usize, count as usize);
            at += count;
            (count != 0).then_some(piece)
        })
    }
}

impl BlockDevice for OverlayDevice {
    fn length_bytes(&self) -> u64 {
        self.device.length_bytes()
    }

    fn sector_size(&self) -> u32 {
        self.device.sector_size()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn holds_file_contents(&self) -> bool {
        self.device.holds_file_contents()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        check_read(self, offset, buffer.len())?;
        let written = self.written.read();
        self.device.read_at(buffer, offset)?;
        let end = offset + buffer.len() as u64;
        let sectors = offset / self.sector_bytes..end.div_ceil(self.sector_bytes);
        for (number, sector) in written.range(sectors) {
            let start = number * self.sector_bytes;
            let (from, into) = (offset.saturating_sub(start), start.saturating_sub(offset));
            let source = sector.get(from as usize..).expect("the sector ends after the offset");
            let target = buffer.get_mut(into as usize..).expect("the sector starts in the buffer");
            for (target, source) in target.iter_mut().zip(source) {
                *target = *source;
            }
        }
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64, _durability: Durability) -> io::Result<()> {
        check_read(self, offset, bytes.len())?;
        let mut written = self.written.write();
        let mut rest = bytes;
        for (number, inside, count) in self.pieces(offset, bytes.len()) {
            let (piece, after) = rest.split_at_checked(count).expect("pieces cover the bytes");
            rest = after;
            if !written.contains_key(&number) {
                if written.len() >= self.max_sectors {
                    let message = "the writes exceed the memory of the overlay";
                    return Err(io::Error::new(io::ErrorKind::StorageFull, message));
                }
                let mut sector = vec![0; self.sector_bytes as usize].into_boxed_slice();
                // A last sector that is only partly on the device is stored without the missing
                // part.
                let start = number * self.sector_bytes;
                let there = (self.length_bytes() - start).min(self.sector_bytes) as usize;
                let stored = sector.get_mut(..there).expect("a sector has at most its length");
                if count < there {
                    self.device.read_at(stored, start)?;
                }
                written.insert(number, (&*stored).into());
            }
            let sector = written.get_mut(&number);
            let target = sector.and_then(|sector| sector.get_mut(inside..inside + count));
            target.expect("a piece lies in its stored sector").copy_from_slice(piece);
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        check_read(self, offset, usize::try_from(length).unwrap_or(usize::MAX))
    }

    fn prefetch(&self, offset: u64, length: u64) {
        self.device.prefetch(offset, length);
    }

    fn invalidate(&self, offset: u64, length: u64) {
        self.device.invalidate(offset, length);
    }
}

#[cfg(test)]
mod tests;
