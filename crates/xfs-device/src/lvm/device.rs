//! A linear or striped logical volume as a device.
//!
//! ```text
//! striped segment of 2 stripes, in units of the stripe size:
//!   volume    0 1 2 3 4 5      physical volume a  0 2 4
//!                              physical volume b  1 3 5
//! ```
//!
//! Writes go straight to the physical volumes and never change LVM's metadata.

use std::io;

use crate::device::{BlockDevice, Durability, SharedDevice, check_read, check_write};

/// A segment of a logical volume: contiguous on one physical volume, or striped over several.
pub(super) struct MappedSegment {
    pub(super) start: u64,
    pub(super) length_bytes: u64,
    /// The size of a stripe in bytes. It has no meaning for a segment with only one column.
    pub(super) stripe_bytes: u64,
    pub(super) columns: Vec<Column>,
}

/// The part of a segment on one physical volume. A striped segment has several such columns.
pub(super) struct Column {
    pub(super) device: SharedDevice,
    /// The byte of the device at which the column starts.
    pub(super) start: u64,
}

/// The part of a request that is contiguous on one physical volume.
struct Run<'a> {
    device: &'a SharedDevice,
    offset: u64,
    length_bytes: u64,
}

/// A logical volume that can be read and written as a device.
///
/// Invariant: the pieces (segments) follow each other from byte 0 on, and each lies on at least one
/// physical volume.
pub(crate) struct LogicalDevice {
    pieces: Vec<MappedSegment>,
    length_bytes: u64,
    is_read_only: bool,
}

impl LogicalDevice {
    pub(super) fn new(pieces: Vec<MappedSegment>, is_writable: bool) -> Self {
        let length_bytes = pieces.last().map_or(0, |piece| piece.start + piece.length_bytes);
        let is_read_only = !is_writable
            || pieces.iter().flat_map(|piece| &piece.columns).any(|c| c.device.is_read_only());
        Self { pieces, length_bytes, is_read_only }
    }

    /// Returns the location, on a physical volume, of the byte at `offset` of the logical volume,
    /// and the number of bytes from there on that are contiguous.
    fn run(&self, offset: u64) -> io::Result<Run<'_>> {
        let past_end = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let after = self.pieces.partition_point(|piece| piece.start <= offset);
        let piece = after.checked_sub(1).and_then(|index| self.pieces.get(index));
        let piece = piece.ok_or_else(past_end)?;
        let within = offset - piece.start;
        let rest = piece.length_bytes.checked_sub(within).ok_or_else(past_end)?;
        if let [column] = piece.columns.as_slice() {
            let offset = column.start.checked_add(within).ok_or_else(past_end)?;
            return Ok(Run { device: &column.device, offset, length_bytes: rest });
        }
        let columns = piece.columns.len() as u64;
        let (stripe, inside) = (within / piece.stripe_bytes, within % piece.stripe_bytes);
        let column = usize::try_from(stripe % columns).ok().and_then(|at| piece.columns.get(at));
        let column = column.ok_or_else(past_end)?;
        let before = (stripe / columns) * piece.stripe_bytes + inside;
        let offset = column.start.checked_add(before).ok_or_else(past_end)?;
        let length_bytes = rest.min(piece.stripe_bytes - inside);
        Ok(Run { device: &column.device, offset, length_bytes })
    }

    /// Splits a range of the logical volume into runs, each contiguous on one physical volume.
    /// Calls `work` for each run, with its length.
    fn each_run(
        &self,
        offset: u64,
        length: u64,
        mut work: impl FnMut(&Run<'_>, usize) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut at, mut rest) = (offset, length);
        while rest > 0 {
            let run = self.run(at)?;
            let length = run.length_bytes.min(rest);
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            work(&run, usize::try_from(length).unwrap_or(usize::MAX))?;
            at += length;
            rest -= length;
        }
        Ok(())
    }

    fn devices(&self) -> impl Iterator<Item = &SharedDevice> {
        self.pieces.iter().flat_map(|piece| &piece.columns).map(|column| &column.device)
    }
}

impl BlockDevice for LogicalDevice {
    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    fn sector_size(&self) -> u32 {
        self.devices().map(|device| device.sector_size()).max().unwrap_or(512)
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        check_read(self, offset, buffer.len())?;
        let length = buffer.len() as u64;
        let mut rest = buffer;
        self.each_run(offset, length, |run, length| {
            let (piece, after) = std::mem::take(&mut rest).split_at_mut(length);
            rest = after;
            run.device.read_at(piece, run.offset)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64, durability: Durability) -> io::Result<()> {
        check_write(self, offset, bytes.len())?;
        let mut rest = bytes;
        self.each_run(offset, bytes.len() as u64, |run, length| {
            let (piece, after) = rest.split_at(length);
            rest = after;
            run.device.write_at(piece, run.offset, durability)
        })
    }

    fn flush(&self) -> io::Result<()> {
        if self.is_read_only {
            return Ok(());
        }
        let mut flushed: Vec<&SharedDevice> = Vec::new();
        for device in self.devices() {
            if !flushed.iter().any(|other| std::sync::Arc::ptr_eq(other, device)) {
                device.flush()?;
                flushed.push(device);
            }
        }
        Ok(())
    }

    fn check_length(&self) -> io::Result<()> {
        self.devices().try_for_each(|device| device.check_length())
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        check_write(self, offset, usize::try_from(length).unwrap_or(usize::MAX))?;
        self.each_run(offset, length, |run, length| run.device.discard(run.offset, length as u64))
    }

    fn write_zeros(&self, offset: u64, length: u64) -> io::Result<()> {
        check_write(self, offset, usize::try_from(length).unwrap_or(usize::MAX))?;
        self.each_run(offset, length, |run, length| {
            run.device.write_zeros(run.offset, length as u64)
        })
    }

    fn prefetch(&self, offset: u64, length: u64) {
        let length = length.min(self.length_bytes.saturating_sub(offset));
        // A hint: a range that cannot be located is not announced.
        let _ = self.each_run(offset, length, |run, length| {
            run.device.prefetch(run.offset, length as u64);
            Ok(())
        });
    }

    fn invalidate(&self, offset: u64, length: u64) {
        let length = length.min(self.length_bytes.saturating_sub(offset));
        // A hint, as above.
        let _ = self.each_run(offset, length, |run, length| {
            run.device.invalidate(run.offset, length as u64);
            Ok(())
        });
    }
}
