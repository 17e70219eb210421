//! The checks before a change of a range: ranges that are not allowed must be refused.

use std::ops::Range;

use xfs_buffer::{Error, PosixError};
use xfs_format::FileBlock;

use super::volume::{Volume, now};
use crate::edit::BlockRange;
use crate::live::file_range::{FileRange, RangeEdges};

const BLOCK: u64 = 4096;

fn blocks(range: Range<u64>) -> BlockRange {
    BlockRange::between(FileBlock(range.start), FileBlock(range.end))
}

#[test]
fn range_has_the_blocks_that_it_fills_and_those_that_it_touches() {
    let volume = Volume::new("");
    let file = volume.create(0o100_600, false);
    let check = |bytes: Range<u64>, whole: Range<u64>, touched: Range<u64>| {
        let geometry = volume.journal.geometry();
        let range = FileRange::of(&file, geometry, bytes.clone(), RangeEdges::Anywhere).unwrap();
        assert_eq!((range.whole, range.touched), (blocks(whole), blocks(touched)), "{bytes:?}");
        assert_eq!(range.bytes, bytes);
    };
    check(BLOCK..3 * BLOCK, 1..3, 1..3);
    check(BLOCK - 1..3 * BLOCK + 1, 1..3, 0..4);
    check(BLOCK + 1..3 * BLOCK - 1, 2..2, 1..3);
    check(5..7, 1..1, 0..1);
}

#[test]
fn ranges_that_an_operation_cannot_change_are_refused() {
    let volume = Volume::new("");
    let (file, directory) = (volume.create(0o100_600, false), volume.create(0o040_700, false));
    let geometry = volume.journal.geometry();
    let refused = |bytes: Range<u64>, edges| match FileRange::of(&file, geometry, bytes, edges) {
        Err(Error::Posix(error)) => Some(error),
        other => other.map(|_| None).unwrap(),
    };
    // The first size that a file cannot have.
    let end = 1 << 63;
    assert_eq!(refused(0..end - BLOCK, RangeEdges::BetweenBlocks), None);
    assert_eq!(refused(0..end, RangeEdges::BetweenBlocks), Some(PosixError::FileTooLarge));
    assert_eq!(refused(1..end, RangeEdges::Anywhere), Some(PosixError::FileTooLarge));
    for bytes in [1..BLOCK, 0..BLOCK - 1, BLOCK..BLOCK, 1..end] {
        assert_eq!(refused(bytes, RangeEdges::BetweenBlocks), Some(PosixError::InvalidArgument));
    }
    let found = FileRange::of(&directory, geometry, 0..BLOCK, RangeEdges::BetweenBlocks);
    assert!(matches!(found, Err(Error::Posix(PosixError::IsDirectory))));
}

#[test]
fn refused_collapse_changes_nothing() {
    let volume = Volume::new("");
    let file = volume.create(0o100_600, false);
    file.write_at(&volume.journal, 0, &[7; 3 * BLOCK as usize], now()).unwrap();
    let refused = file.collapse(&volume.journal, 0..BLOCK + 1, now());
    assert!(matches!(refused, Err(Error::Posix(PosixError::InvalidArgument))));
    let mut bytes = vec![0; 3 * BLOCK as usize];
    let read = file.inode().read_at(volume.journal.cache(), 0, &mut bytes).unwrap();
    assert_eq!(read, bytes.len());
    assert!(bytes.iter().all(|byte| *byte == 7));
}
