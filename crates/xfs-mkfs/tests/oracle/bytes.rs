//! Comparison of two sparse files that hold volumes.
//!
//! One difference is allowed: the bytes after the records of a btree block have no meaning.
//! mkfs.xfs leaves remains of deleted records in these bytes, and ferroxfs leaves zeros.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use xfs_oracle::next_data_range;

const CHUNK_BYTES: u64 = 64 << 10;

/// Compares two files. Returns an error with the first difference.
pub(crate) fn compare(ours: &Path, theirs: &Path) -> Result<(), String> {
    let open = |path: &Path| File::open(path).map_err(|error| error.to_string());
    let (ours, theirs) = (open(ours)?, open(theirs)?);
    // A byte in a hole of both files is 0 in both.
    for file in [&ours, &theirs] {
        let mut at = 0;
        while let Some(range) = next_data_range(file, at).map_err(|error| error.to_string())? {
            at = range.end;
            compare_range(&ours, &theirs, (range.start, range.end))?;
        }
    }
    Ok(())
}

fn compare_range(ours: &File, theirs: &File, (start, end): (u64, u64)) -> Result<(), String> {
    let mut at = start;
    while at < end {
        let length = usize::try_from(CHUNK_BYTES.min(end - at)).unwrap_or(0);
        let read = |file: &File| {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, at).map(|()| bytes).map_err(|error| error.to_string())
        };
        let (our, their) = (read(ours)?, read(theirs)?);
        if let Some(index) = our.iter().zip(&their).position(|(our, their)| our != their) {
            let place = at + index as u64;
            if let Some(next) = same_records((ours, theirs), place)? {
                at = next;
                continue;
            }
            let hex = |bytes: &[u8]| {
                let word = bytes.iter().skip(index).take(16);
                word.map(|byte| format!("{byte:02x}")).collect::<String>()
            };
            let sector = (at + index as u64) / 512;
            return Err(format!(
                "sector {sector}, byte {}: we have {}, mkfs.xfs has {}",
                (at + index as u64) % 512,
                hex(&our),
                hex(&their)
            ));
        }
        at += length as u64;
    }
    Ok(())
}

/// Compares the btree blocks that contain byte `place` of the two files. Returns the offset after
/// the block if both blocks have the same records. Returns `None` if the records differ, or if the
/// blocks are not btree blocks.
fn same_records(files: (&File, &File), place: u64) -> Result<Option<u64>, String> {
    let read = |file: &File, at: u64, length: usize| {
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, at).map(|()| bytes).map_err(|error| error.to_string())
    };
    let block_size = read(files.0, 4, 4)?;
    let block_size = block_size.iter().fold(0_u64, |size, byte| (size << 8) | u64::from(*byte));
    if !block_size.is_power_of_two() {
        return Ok(None);
    }
    let start = place / block_size * block_size;
    let length = usize::try_from(block_size).unwrap_or(0);
    let (ours, theirs) = (read(files.0, start, length)?, read(files.1, start, length)?);
    let record_bytes = match ours.get(..4) {
        Some(b"AB3B" | b"AB3C") => 8,
        Some(b"RMB3") => 24,
        _ => return Ok(None),
    };
    let count = ours
        .get(6..8)
        .map_or(0, |count| count.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)));
    let same = |from: usize, to: usize| ours.get(from..to) == theirs.get(from..to);
    // The checksum, at 52, covers bytes that have no meaning.
    let is_same = same(0, 52) && same(56, 56 + count * record_bytes);
    Ok(is_same.then_some(start + block_size))
}
