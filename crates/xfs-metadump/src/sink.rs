//! Writes a metadata image.
//!
//! Owns: both versions of the format, and the set of blocks that are in the image. Does **not**
//! own: the choice of the blocks.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;

use xfs_device::{
    METADUMP_INDEX_ADDRESSES, METADUMP_MAGIC_1, METADUMP_MAGIC_2, METADUMP_UNIT, MetadumpHeader,
    MetadumpVersion,
};

/// Number of bytes in a unit: the format counts addresses and lengths in units.
const UNIT: usize = METADUMP_UNIT as usize;

/// Byte ranges of the volume. Ranges that touch are joined.
#[derive(Default)]
pub(crate) struct RangeSet(BTreeMap<u64, u64>);

impl RangeSet {
    /// Returns whether all of the range is in the set.
    pub(crate) fn contains(&self, range: &Range<u64>) -> bool {
        let before = self.0.range(..=range.start).next_back();
        before.is_some_and(|(_, end)| *end >= range.end)
    }

    /// Adds a range. Returns its parts that were not in the set.
    pub(crate) fn add(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        let (mut start, mut end) = (range.start, range.end);
        let (mut parts, mut gap_end) = (Vec::new(), range.end);
        while let Some((at, until)) = self.last_until(end).filter(|(_, until)| *until >= start) {
            self.0.remove(&at);
            let gap = until.max(range.start)..gap_end;
            if gap.start < gap.end {
                parts.push(gap);
            }
            gap_end = gap_end.min(at.max(range.start));
            (start, end) = (start.min(at), end.max(until));
        }
        if range.start < gap_end {
            parts.push(range.start..gap_end);
        }
        self.0.insert(start, end);
        parts.reverse();
        parts
    }

    /// Returns the start and the end of the last range that starts at or before `end`. `None` if
    /// there is no such range.
    fn last_until(&self, end: u64) -> Option<(u64, u64)> {
        self.0.range(..=end).next_back().map(|(at, until)| (*at, *until))
    }
}

/// The writer of an image.
pub(crate) struct Sink<'a> {
    out: &'a mut dyn Write,
    header: MetadumpHeader,
    /// Version 1 of the format puts an index of addresses before the blocks. These are the
    /// addresses for the next index, which is not written yet.
    addresses: Vec<u64>,
    /// The contents of the blocks at `addresses`.
    blocks: Vec<u8>,
    written: RangeSet,
    written_bytes: u64,
}

impl<'a> Sink<'a> {
    /// Begins writing a metadata image to `out` with this header.
    pub(crate) fn begin(out: &'a mut dyn Write, header: MetadumpHeader) -> io::Result<Self> {
        if header.version == MetadumpVersion::Two {
            out.write_all(&METADUMP_MAGIC_2)?;
            let words = [2, header.flags_of_version_2(), 0, 0, 0];
            words.iter().try_for_each(|word: &u32| out.write_all(&word.to_be_bytes()))?;
        }
        let (addresses, blocks, written) = (Vec::new(), Vec::new(), RangeSet::default());
        Ok(Self { out, header, addresses, blocks, written, written_bytes: 0 })
    }

    /// Returns whether the image contains all bytes of the range.
    pub(crate) fn has(&self, range: &Range<u64>) -> bool {
        self.written.contains(range)
    }

    /// Returns the number of bytes of the volume that the image contains.
    pub(crate) const fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Adds to the image the bytes of the volume that start at offset `start`. Bytes that the image
    /// already contains are not written again (M2 of the crate). Offset and length must be
    /// multiples of 512 bytes.
    pub(crate) fn add(&mut self, start: u64, bytes: &[u8]) -> io::Result<()> {
        let is_whole = start.is_multiple_of(METADUMP_UNIT) && bytes.len().is_multiple_of(UNIT);
        assert!(is_whole, "blocks are whole units of 512 bytes");
        for part in self.written.add(start..start + bytes.len() as u64) {
            let (from, to) = (part.start - start, part.end - start);
            let piece = usize::try_from(from).ok().zip(usize::try_from(to).ok());
            let piece = piece.and_then(|(from, to)| bytes.get(from..to));
            let piece = piece.expect("a part lies inside the range that was added");
            self.written_bytes += piece.len() as u64;
            match self.header.version {
                MetadumpVersion::One => self.add_units(part.start, piece)?,
                MetadumpVersion::Two => self.add_extent(part.start, piece)?,
            }
        }
        Ok(())
    }

    /// Ends the image. The caller flushes the writer.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        // An index that is not full marks the end, so one without blocks may be needed.
        if self.header.version == MetadumpVersion::One {
            self.write_index()?;
        }
        Ok(())
    }

    fn add_extent(&mut self, start: u64, bytes: &[u8]) -> io::Result<()> {
        let units = u32::try_from(bytes.len() / UNIT).expect("a request has less than 2 TiB");
        self.out.write_all(&(start / METADUMP_UNIT).to_be_bytes())?;
        self.out.write_all(&units.to_be_bytes())?;
        self.out.write_all(bytes)
    }

    fn add_units(&mut self, start: u64, bytes: &[u8]) -> io::Result<()> {
        for (address, unit) in (start / METADUMP_UNIT..).zip(bytes.chunks(UNIT)) {
            self.addresses.push(address);
            self.blocks.extend_from_slice(unit);
            if self.addresses.len() == METADUMP_INDEX_ADDRESSES {
                self.write_index()?;
            }
        }
        Ok(())
    }

    fn write_index(&mut self) -> io::Result<()> {
        let count = u16::try_from(self.addresses.len()).expect("an index has 63 addresses");
        let mut index = Vec::with_capacity(UNIT);
        index.extend(METADUMP_MAGIC_1);
        index.extend(count.to_be_bytes());
        index.extend([METADUMP_UNIT.ilog2() as u8, self.header.flags_of_version_1()]);
        index.extend(self.addresses.iter().flat_map(|address| address.to_be_bytes()));
        index.resize(UNIT, 0);
        self.out.write_all(&index)?;
        self.out.write_all(&self.blocks)?;
        self.addresses.clear();
        self.blocks.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
