//! The map of ddrescue: which ranges of an image were copied from the failing disk.
//!
//! Owns: reading the map, and a device that refuses the other ranges. An image has zeros in the
//! ranges that ddrescue could not read, and these zeros must not be taken for contents.
//!
//! ```text
//! # comment
//! 0x2F0000    +              1          current position, state, pass
//! 0x00000000  0x00200000  +             start, length, state: + copied, ? * / - not copied
//! ```

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use xfs_device::{BlockDevice, SharedDevice};
use xfs_evidence::ByteRange;

/// The most ranges of one map.
const MOST_RANGES: usize = 1 << 24;

/// The ranges of an image that were not copied, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RescueMap {
    missing: Vec<ByteRange>,
}

/// The reason why a map cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RescueMapError {
    /// A line does not have the form that lines of a map have.
    #[error("line {line} is not a line of a ddrescue map: {text}")]
    Line {
        /// The number of the line in the map, counted from 1.
        line: usize,
        /// The first characters of the line.
        text: String,
    },
    /// The map has no ranges.
    #[error("the ddrescue map has no ranges")]
    Empty,
    /// The ranges are not in order, or overlap.
    #[error("line {line} of the ddrescue map starts before the end of the previous range")]
    Order {
        /// The number of the line in the map, counted from 1.
        line: usize,
    },
    /// The map has more ranges than this reader accepts.
    #[error("the ddrescue map has more than {MOST_RANGES} ranges")]
    TooLong,
}

impl RescueMap {
    /// Reads the text of a map.
    ///
    /// # Errors
    ///
    /// Returns an error for the first line that cannot be parsed. A wrongly parsed map would make
    /// zeros appear as contents of files.
    pub fn parse(text: &str) -> Result<Self, RescueMapError> {
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        // The first line has the position and the state of ddrescue itself.
        lines.next().ok_or(RescueMapError::Empty)?;
        let (mut map, mut end, mut count) = (Self::default(), 0, 0_usize);
        for (number, line) in lines {
            let (range, is_copied) = parse_range(line).ok_or_else(|| RescueMapError::Line {
                line: number,
                text: line.chars().take(60).collect(),
            })?;
            if range.start < end {
                return Err(RescueMapError::Order { line: number });
            }
            count += 1;
            if count > MOST_RANGES {
                return Err(RescueMapError::TooLong);
            }
            // A gap between ranges says nothing of its bytes.
            map.add(ByteRange { start: end, end: range.start });
            if !is_copied {
                map.add(range);
            }
            end = range.end;
        }
        if count == 0 {
            return Err(RescueMapError::Empty);
        }
        map.add(ByteRange { start: end, end: u64::MAX });
        map.settle();
        Ok(map)
    }

    fn add(&mut self, range: ByteRange) {
        if range.start < range.end {
            self.missing.push(range);
        }
    }

    fn settle(&mut self) {
        self.missing.sort_unstable();
        let mut joined: Vec<ByteRange> = Vec::new();
        for range in self.missing.drain(..) {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        self.missing = joined;
    }

    /// Returns the ranges that were not copied. The last range has no end: bytes past the end of
    /// the map count as not copied.
    #[must_use]
    pub fn missing(&self) -> &[ByteRange] {
        &self.missing
    }

    /// Returns whether at least one byte of the range was not copied.
    #[must_use]
    pub fn lacks(&self, range: ByteRange) -> bool {
        let next = self.missing.partition_point(|missing| missing.end <= range.start);
        self.missing.get(next).is_some_and(|missing| missing.start < range.end)
    }
}

/// Parses the line of one range. Returns the range, and whether it was copied.
fn parse_range(line: &str) -> Option<(ByteRange, bool)> {
    let mut fields = line.split_whitespace();
    let start = parse_number(fields.next()?)?;
    let length = parse_number(fields.next()?)?;
    let is_copied = match fields.next()? {
        "+" => true,
        "?" | "*" | "/" | "-" => false,
        _ => return None,
    };
    let end = start.checked_add(length)?;
    fields.next().is_none().then_some((ByteRange { start, end }, is_copied))
}

fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A device that refuses to read the ranges that were not copied.
pub struct RescuedDevice {
    device: SharedDevice,
    map: RescueMap,
    start: u64,
}

impl RescuedDevice {
    /// Creates a device over `device`, which starts at byte `start` of the image that the map
    /// describes.
    #[must_use]
    pub fn new(device: SharedDevice, map: RescueMap, start: u64) -> Arc<Self> {
        Arc::new(Self { device, map, start })
    }
}

impl BlockDevice for RescuedDevice {
    fn length_bytes(&self) -> u64 {
        self.device.length_bytes()
    }

    fn sector_size(&self) -> u32 {
        self.device.sector_size()
    }

    xfs_device::read_only_device!();

    fn holds_file_contents(&self) -> bool {
        self.device.holds_file_contents()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = self.start.saturating_add(offset);
        let end = start.saturating_add(buffer.len() as u64);
        if self.map.lacks(ByteRange { start, end }) {
            return Err(io::Error::other("the map says that it was not copied"));
        }
        self.device.read_at(buffer, offset)
    }

    fn prefetch(&self, offset: u64, length: u64) {
        self.device.prefetch(offset, length);
    }

    fn splice_at(&self, _: u64, _: usize, _: BorrowedFd<'_>) -> io::Result<usize> {
        // Splicing would pass by the map.
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{ByteRange, RescueMap, RescueMapError};

    const MAP: &str = "\
# Mapfile. Created by GNU ddrescue version 1.27
# current_pos  current_status  current_pass
0x00120000     +               1
#      pos        size  status
0x00000000  0x00100000  +
0x00100000  0x00000200  -
0x00100200  0x00000E00  *
0x00101000  0x0001F000  +
";

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange { start, end }
    }

    #[test]
    fn map_gives_the_ranges_that_were_not_copied() {
        let map = RescueMap::parse(MAP).unwrap();
        assert_eq!(map.missing(), [range(0x10_0000, 0x10_1000), range(0x12_0000, u64::MAX)]);
        assert!(map.lacks(range(0x10_0fff, 0x10_1001)));
        assert!(!map.lacks(range(0x10_1000, 0x12_0000)));
        assert!(map.lacks(range(0, 0x20_0000)));
    }

    #[test]
    fn gap_between_ranges_counts_as_not_copied() {
        let map = RescueMap::parse("0 + 1\n0x1000 0x1000 +\n0x4000 0x1000 -\n").unwrap();
        assert_eq!(map.missing(), [range(0, 0x1000), range(0x2000, u64::MAX)]);
    }

    #[test]
    fn map_that_is_not_understood_is_refused() {
        let line = |text: &str| RescueMapError::Line { line: 2, text: text.to_owned() };
        assert_eq!(RescueMap::parse("0 +\n12 34 x\n"), Err(line("12 34 x")));
        assert_eq!(RescueMap::parse("0 +\n12 34\n"), Err(line("12 34")));
        assert_eq!(RescueMap::parse("0 +\n12 34 + 5\n"), Err(line("12 34 + 5")));
        assert_eq!(RescueMap::parse(""), Err(RescueMapError::Empty));
        let order = Err(RescueMapError::Order { line: 3 });
        assert_eq!(RescueMap::parse("0 +\n0 9 +\n8 9 +\n"), order);
    }
}
