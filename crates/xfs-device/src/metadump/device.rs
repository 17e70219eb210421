//! The volume inside a metadata image, as a read-only device.

use std::collections::BTreeMap;
use std::io;

use super::{
    MAX_EXTENTS, MetadumpError, MetadumpHeader, MetadumpReader, MetadumpSource, volume_length,
};
use crate::device::{BlockDevice, SharedDevice, check_read};

const SECTOR_BYTES: u32 = 512;
/// Number of bytes of the image that are read ahead while its index is built.
const READ_AHEAD: usize = 4096;

/// The volume inside a metadata image. Bytes that the image lacks read as zeros.
pub struct MetadumpDevice {
    image: SharedDevice,
    header: MetadumpHeader,
    length_bytes: u64,
    extents: ExtentIndex,
}

/// The ranges of the volume that the image stores: for the start of each range in the volume, where
/// the image stores it. Ranges do not overlap.
#[derive(Default)]
struct ExtentIndex(BTreeMap<u64, StoredRange>);

#[derive(Clone, Copy)]
struct StoredRange {
    length_bytes: u64,
    place: u64,
}

impl ExtentIndex {
    /// Adds a range that starts at byte `start` of the volume. The new range replaces the parts of
    /// earlier ranges that it covers, as a restore would do.
    fn insert(&mut self, start: u64, range: StoredRange) {
        let end = start + range.length_bytes;
        while let Some((at, old)) =
            self.last_before(end).filter(|(at, old)| at + old.length_bytes > start)
        {
            self.0.remove(&at);
            let old_end = at + old.length_bytes;
            if old_end > end {
                let tail =
                    StoredRange { length_bytes: old_end - end, place: old.place + (end - at) };
                self.0.insert(end, tail);
            }
            if at < start {
                self.0.insert(at, StoredRange { length_bytes: start - at, ..old });
                break;
            }
        }
        if let Some((at, before)) = self.last_before(start)
            && at + before.length_bytes == start
            && before.place + before.length_bytes == range.place
        {
            let length_bytes = before.length_bytes + range.length_bytes;
            self.0.insert(at, StoredRange { length_bytes, place: before.place });
            return;
        }
        self.0.insert(start, range);
    }

    /// Returns the last stored range that starts before byte `end` of the volume: its start in the
    /// volume, and where the image stores it. Returns `None` if there is no such range.
    fn last_before(&self, end: u64) -> Option<(u64, StoredRange)> {
        self.0.range(..end).next_back().map(|(at, range)| (*at, *range))
    }
}

/// A cursor over the bytes of a device.
struct DeviceSource<'a> {
    device: &'a dyn BlockDevice,
    at: u64,
    /// Bytes of the device that were read ahead. They start at byte `ahead_at` of the device.
    ahead: Vec<u8>,
    ahead_at: u64,
}

impl MetadumpSource for DeviceSource<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = |source: &Self| {
            let from = source.at.checked_sub(source.ahead_at).map(usize::try_from);
            match from {
                Some(Ok(from)) => source.ahead.get(from..).is_some_and(|rest| !rest.is_empty()),
                _ => false,
            }
        };
        if !available(self) {
            let left = self.device.length_bytes().saturating_sub(self.at);
            let count = usize::try_from(left).map_or(READ_AHEAD, |left| left.min(READ_AHEAD));
            self.ahead.resize(count, 0);
            self.device.read_at(&mut self.ahead, self.at)?;
            self.ahead_at = self.at;
        }
        let from = usize::try_from(self.at - self.ahead_at).expect("it lies inside the buffer");
        let rest = self.ahead.get(from..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        let (head, _) = buffer.split_at_mut(count);
        head.copy_from_slice(rest.split_at(count).0);
        self.at += count as u64;
        Ok(count)
    }

    fn skip(&mut self, count: u64) -> io::Result<()> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.device.length_bytes());
        self.at = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(())
    }
}

/// Opens the volume inside the metadata image on `image`.
///
/// # Errors
///
/// A [`MetadumpError`].
pub fn open_metadump(image: SharedDevice) -> Result<MetadumpDevice, MetadumpError> {
    let source = DeviceSource { device: &*image, at: 0, ahead: Vec::new(), ahead_at: 0 };
    let mut reader = MetadumpReader::open(source)?;
    let header = reader.header();
    let (mut extents, mut end) = (ExtentIndex::default(), 0);
    let mut length_bytes = None;
    while let Some(extent) = reader.next_extent()? {
        if length_bytes.is_none() {
            let mut sector = [0; SECTOR_BYTES as usize];
            reader.read(&mut sector)?;
            let length = volume_length(&sector).filter(|_| extent.start == 0);
            length_bytes = Some(length.ok_or(MetadumpError::NoSuperblock)?);
        }
        let range = StoredRange { length_bytes: extent.length_bytes, place: extent.place };
        extents.insert(extent.start, range);
        end = end.max(extent.start + extent.length_bytes);
        // Each separate extent takes memory, so their number has a bound (I1).
        if extents.0.len() > MAX_EXTENTS {
            return Err(MetadumpError::TooManyExtents);
        }
    }
    let length_bytes = length_bytes.ok_or(MetadumpError::NoSuperblock)?;
    if end > length_bytes {
        return Err(MetadumpError::PastEnd { at: end - 1, length_bytes });
    }
    Ok(MetadumpDevice { image, header, length_bytes, extents })
}

impl MetadumpDevice {
    /// Returns the description in the header of the image.
    #[must_use]
    pub const fn header(&self) -> MetadumpHeader {
        self.header
    }
}

impl BlockDevice for MetadumpDevice {
    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    fn sector_size(&self) -> u32 {
        SECTOR_BYTES
    }

    crate::read_only_device!();

    fn holds_file_contents(&self) -> bool {
        false
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        check_read(self, offset, buffer.len())?;
        let end = offset + buffer.len() as u64;
        buffer.fill(0);
        let first = self.extents.last_before(offset.saturating_add(1)).map_or(offset, |(at, _)| at);
        for (at, stored) in self.extents.0.range(first..end) {
            let from = offset.max(*at);
            let to = end.min(at + stored.length_bytes);
            let Some(count) = to.checked_sub(from).filter(|count| *count != 0) else { continue };
            let piece = usize::try_from(from - offset).ok().zip(usize::try_from(count).ok());
            let piece = piece.and_then(|(skip, count)| buffer.get_mut(skip..)?.get_mut(..count));
            let piece = piece.expect("the range was cut to the buffer");
            self.image.read_at(piece, stored.place + (from - at))?;
        }
        Ok(())
    }
}
