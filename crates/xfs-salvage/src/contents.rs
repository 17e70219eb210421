//! The contents of a file, and the missing ranges of these contents: ranges that cannot be read, or
//! whose blocks are not known.
//!
//! Owns: reading the mapped ranges, and finding the bytes before and after an unreadable sector.
//! Does **not** own: the extent map.

use std::cell::RefCell;
use std::ops::Range;

use xfs_device::SharedDevice;
use xfs_evidence::{ByteRange, Evidence, ForkEvidence};
use xfs_format::extent::Extent;
use xfs_format::{DiskAddr, FileBlock, FsBlock};

/// Most bytes that are read from the device at once.
const WINDOW_BYTES: u64 = 1 << 20;
/// Length in bytes of the short reads that follow a failed long one.
const PIECE_BYTES: u64 = 4096;
const SECTOR_BYTES: u64 = 512;
/// The greatest number of missing ranges in the report on one file. Further ranges are joined with
/// the last one of these.
const MOST_MISSING: usize = 1 << 16;

/// The remark on a realtime file whose device was not named.
pub(crate) const NO_DEVICE: &str = "the contents are on a realtime device, which was not named";

/// The device that holds the contents of a file.
#[derive(Clone)]
pub(crate) enum ContentsSource {
    /// The data device.
    Data,
    /// The realtime section, which lies on the data device.
    InternalSection,
    /// The realtime section, on a device of its own.
    Section(SharedDevice),
}

/// The contents of one file.
pub struct Contents {
    source: ContentsSource,
    extents: Vec<Extent>,
    size: u64,
    block_log: u8,
    missing: RefCell<Vec<ByteRange>>,
    window: RefCell<Window>,
}

/// The bytes of the file that the last read has returned. They are kept, so that a further read of
/// the same range need not read the device.
#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl Contents {
    /// Creates the contents of a file of `size` bytes with this extent map.
    pub(crate) fn new(map: ForkEvidence, size: u64, block_log: u8) -> Self {
        let bytes = |block: FileBlock| block.0.checked_shl(block_log.into()).unwrap_or(u64::MAX);
        let missing = map.missing.iter().map(|range| ByteRange {
            start: bytes(range.start).min(size),
            end: bytes(range.end).min(size),
        });
        let missing = missing.filter(|range| range.start < range.end).collect();
        let (extents, window) = (map.extents, RefCell::default());
        let source = ContentsSource::Data;
        Self { source, extents, size, block_log, missing: RefCell::new(missing), window }
    }

    /// Returns the same contents, read from `source`.
    pub(crate) fn from(self, source: ContentsSource) -> Self {
        Self { source, ..self }
    }

    /// Returns the length of the contents in bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the extents of the contents, in file order.
    #[must_use]
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Returns the missing ranges in ascending order. Overlapping and adjacent ranges are joined.
    /// Ranges that the device cannot read become known only when the contents are read.
    #[must_use]
    pub fn missing(&self) -> Vec<ByteRange> {
        ByteRange::joined(self.missing.borrow().clone())
    }

    /// Reads the next range at or after `offset` that has data and can be read, and returns it. The
    /// range has at most 1 MiB. `None` if no more bytes can be read. Holes, unwritten extents and
    /// ranges that cannot be read are passed over.
    pub(crate) fn data_after(&self, evidence: &Evidence<'_>, offset: u64) -> Option<Range<u64>> {
        let mut offset = offset;
        while offset < self.size {
            let window = self.window.borrow();
            if window.start <= offset && offset < window.end() {
                return Some(offset..window.end());
            }
            drop(window);
            let block = FileBlock(offset >> self.block_log);
            let next = self.extents.partition_point(|extent| extent.end() <= block);
            let extent = self.extents.iter().skip(next).find(|extent| !extent.unwritten)?;
            let start = offset.max(extent.file_block.0 << self.block_log);
            let end = extent.end().0.checked_shl(self.block_log.into()).unwrap_or(u64::MAX);
            let end = end.min(self.size).min(start + WINDOW_BYTES);
            if start >= end {
                return None;
            }
            match self.read(evidence, extent, start..end) {
                Some(range) => return Some(range),
                None => offset = end,
            }
        }
        None
    }

    /// Reads a range of an extent into the window. Returns the first part that could be read, and
    /// records the parts of the range before it as missing.
    fn read(
        &self,
        evidence: &Evidence<'_>,
        extent: &Extent,
        range: Range<u64>,
    ) -> Option<Range<u64>> {
        if self.read_part(evidence, extent, &range) {
            return Some(range);
        }
        let mut start = range.start;
        while start < range.end {
            let piece = (start - start % PIECE_BYTES + PIECE_BYTES).min(range.end);
            if self.read_part(evidence, extent, &(start..piece)) {
                return Some(start..piece);
            }
            while start < piece {
                let sector = (start - start % SECTOR_BYTES + SECTOR_BYTES).min(piece);
                if self.read_part(evidence, extent, &(start..sector)) {
                    return Some(start..sector);
                }
                self.lose(ByteRange { start, end: sector });
                start = sector;
            }
        }
        None
    }

    fn read_part(&self, evidence: &Evidence<'_>, extent: &Extent, part: &Range<u64>) -> bool {
        // Blocks of files that a metadata image lacks read as zeros, which are no contents.
        if !evidence.device().holds_file_contents() {
            return false;
        }
        let Some(first) = self.address(evidence, extent.start) else { return false };
        let skipped = part.start - (extent.file_block.0 << self.block_log);
        // Reads start at a sector, because addresses count sectors.
        let before = skipped % SECTOR_BYTES;
        let at = DiskAddr(first.0 + skipped / SECTOR_BYTES);
        let length = usize::try_from(part.end - part.start + before).expect("at most 1 MiB");
        let mut bytes = vec![0; length];
        let is_read = match &self.source {
            ContentsSource::Section(device) => {
                let start = at.byte_offset();
                start.is_some_and(|start| device.read_at(&mut bytes, start).is_ok())
            }
            ContentsSource::Data | ContentsSource::InternalSection => {
                evidence.read(at, &mut bytes).is_ok()
            }
        };
        if !is_read {
            return false;
        }
        bytes.drain(..usize::try_from(before).expect("less than a sector"));
        *self.window.borrow_mut() = Window { start: part.start, bytes };
        true
    }

    /// Returns the address of a block on the device of the contents.
    fn address(&self, evidence: &Evidence<'_>, block: FsBlock) -> Option<DiskAddr> {
        let geometry = evidence.geometry();
        if let ContentsSource::Data = self.source {
            return geometry.block_disk_addr(block);
        }
        let block = geometry.realtime.device_block(block)?;
        Some(DiskAddr(geometry.blocks_to_bytes(block)? / SECTOR_BYTES))
    }

    fn lose(&self, range: ByteRange) {
        let mut missing = self.missing.borrow_mut();
        let is_full = missing.len() >= MOST_MISSING;
        match missing.last_mut() {
            Some(last) if last.end == range.start || is_full => last.end = range.end,
            _ => missing.push(range),
        }
    }

    /// Fills `buffer` with the contents from `offset` on, up to their end. Returns the number of
    /// bytes filled. Bytes of holes and of missing ranges are zeros.
    pub(crate) fn read_at(&self, evidence: &Evidence<'_>, offset: u64, buffer: &mut [u8]) -> usize {
        let left = self.size.saturating_sub(offset);
        let count = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let Some(buffer) = buffer.get_mut(..count) else { return 0 };
        buffer.fill(0);
        let end = offset + count as u64;
        let mut at = offset;
        while at < end {
            let Some(range) = self.data_after(evidence, at).filter(|range| range.start < end)
            else {
                break;
            };
            let stop = range.end.min(end);
            let window = self.window.borrow();
            let from = usize::try_from(range.start - window.start).expect("inside the window");
            let length = usize::try_from(stop - range.start).expect("inside the buffer");
            let to = usize::try_from(range.start - offset).expect("inside the buffer");
            let source = window.bytes.get(from..from + length);
            if let (Some(target), Some(source)) = (buffer.get_mut(to..to + length), source) {
                target.copy_from_slice(source);
            }
            at = stop;
        }
        count
    }
}
