//! The map of a sparse file in a tar archive, in all forms that GNU tar has written.

use std::ops::Range;

use tar::{GnuExtSparseHeader, GnuSparseHeader, Header};

use super::TarReader;
use super::records::{ExtendedRecords, MAX_RECORDS_BYTES, number};
use crate::failure::Failure;
use crate::import::archive::block::BLOCK_BYTES;
use crate::import::archive::input::ArchiveInput;

/// The map of a sparse file: its length in bytes, and its ranges with data.
pub(super) struct SparseMap {
    pub(super) size: u64,
    pub(super) ranges: Vec<Range<u64>>,
    /// Whether the map in the archive is invalid, so that the offsets of the contents are unknown.
    pub(super) is_invalid: bool,
}

impl SparseMap {
    /// Reads the map if it is in the header or the records, and so comes before the contents.
    /// `None` if the member has no such map.
    pub(super) fn read_head(
        reader: &mut TarReader,
        header: &Header,
        records: &ExtendedRecords,
    ) -> Result<Option<Self>, Failure> {
        let archive = &mut reader.input;
        let numbers = if header.entry_type().is_gnu_sparse() {
            Some(old(archive, header)?)
        } else if let Some(size) = records.number(b"GNU.sparse.size") {
            in_records(records).map(|numbers| (size, numbers))
        } else {
            return Ok(None);
        };
        Ok(Some(Self::check(numbers)))
    }

    /// Reads the map if it is at the beginning of the contents ("GNU sparse format 1.0"). `None` if
    /// the member has no such map.
    pub(super) fn read_body(
        archive: &mut ArchiveInput,
        records: &ExtendedRecords,
    ) -> Result<Option<Self>, Failure> {
        if records.value(b"GNU.sparse.major") != Some(b"1") {
            return Ok(None);
        }
        let numbers = in_front(archive)?;
        let size = records.number(b"GNU.sparse.realsize");
        Ok(Some(Self::check(size.zip(numbers))))
    }

    fn check(numbers: Option<(u64, Vec<u64>)>) -> Self {
        let map = numbers.and_then(|(size, numbers)| Self::of(size, &numbers));
        map.unwrap_or(Self { size: 0, ranges: Vec::new(), is_invalid: true })
    }

    /// Returns the map of a file of `size` bytes. `numbers` are the offset and the length of each
    /// range in turn. `None` if the ranges are not ordered or not inside the file.
    fn of(size: u64, numbers: &[u64]) -> Option<Self> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut end = 0;
        for pair in numbers.chunks(2) {
            let [start, length] = *pair else { return None };
            let range = start..start.checked_add(length)?;
            if start < end || range.end > size {
                return None;
            }
            end = range.end;
            if !range.is_empty() {
                ranges.push(range);
            }
        }
        Some(Self { size, ranges, is_invalid: false })
    }
}

/// Reads the length of the file and the numbers of the map from a header of GNU tar, and from the
/// blocks after it.
fn old(archive: &mut ArchiveInput, header: &Header) -> Result<(u64, Vec<u64>), Failure> {
    let wrong = |archive: &mut ArchiveInput| archive.broken("has a sparse file without a map");
    let Some(gnu) = header.as_gnu() else { return Err(wrong(archive)) };
    let Ok(size) = gnu.real_size() else { return Err(wrong(archive)) };
    let mut numbers = Vec::new();
    let mut push = |pieces: &[GnuSparseHeader]| {
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            numbers.extend([piece.offset().ok()?, piece.length().ok()?]);
        }
        (numbers.len() as u64 <= MAX_RECORDS_BYTES / 16).then_some(())
    };
    let mut pushed = push(&gnu.sparse);
    let mut continues = gnu.is_extended();
    while continues && pushed.is_some() {
        let mut more = GnuExtSparseHeader::new();
        if archive.read_fully(more.as_mut_bytes())? < BLOCK_BYTES {
            return Err(wrong(archive));
        }
        pushed = push(more.sparse());
        continues = more.is_extended();
    }
    pushed.map(|()| (size, numbers)).ok_or_else(|| wrong(archive))
}

/// Reads the sparse map at the beginning of a file's contents ("GNU sparse format 1.0"). On disk it
/// is the number of pairs, then offset and length of each pair, one number per line, padded to a
/// tar block. Returns the offsets and lengths without the number of pairs, or `None` if a line is
/// not a number.
fn in_front(archive: &mut ArchiveInput) -> Result<Option<Vec<u64>>, Failure> {
    let mut numbers = Vec::new();
    let mut line = Vec::new();
    let mut wanted = 1;
    let mut blocks = 0;
    loop {
        let mut block = [0; BLOCK_BYTES];
        archive.read_body(&mut block)?;
        blocks += 1;
        for byte in block {
            match byte {
                b'\n' => {
                    let Some(number) = number(&line) else { return Ok(None) };
                    numbers.push(number);
                    line.clear();
                }
                _ => line.push(byte),
            }
            if let (1, [pairs]) = (wanted, numbers.as_slice()) {
                wanted = pairs.saturating_mul(2).saturating_add(1);
            }
            if numbers.len() as u64 == wanted {
                numbers.remove(0);
                return Ok(Some(numbers));
            }
        }
        if blocks * BLOCK_BYTES as u64 > MAX_RECORDS_BYTES {
            return Err(archive.broken("has a sparse file with a map of more than 16 MiB"));
        }
    }
}

/// Reads the numbers of the map from the records ("GNU sparse format 0.1" and 0.0). `None` if a
/// number is invalid.
fn in_records(records: &ExtendedRecords) -> Option<Vec<u64>> {
    if let Some(map) = records.value(b"GNU.sparse.map") {
        return map.split(|byte| *byte == b',').map(number).collect();
    }
    let offsets = records.values(b"GNU.sparse.offset");
    let pairs = offsets.zip(records.values(b"GNU.sparse.numbytes"));
    let numbers = pairs.flat_map(|(offset, length)| [number(offset), number(length)]);
    numbers.collect()
}
