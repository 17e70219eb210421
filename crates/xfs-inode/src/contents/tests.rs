//! Reads of file contents: holes, unwritten extents, the end of the file, and sizes near 2⁶³ bytes.

use xfs_buffer::{Error, PosixError};
use xfs_format::extent::{Extent, FILE_BLOCK_LIMIT};
use xfs_format::superblock::Unsupported;
use xfs_format::{FileBlock, FsBlock};

use crate::testing::{DIRECTORY, EMPTY, HOLES, LINK, Volume, changed};

const KIB: u64 = 1024;

/// Returns the contents that the test file "holes" must have: a block of A, a hole, an unwritten
/// block, a block of B, then a hole.
fn expected_holes() -> Vec<u8> {
    let mut bytes = vec![0; 1 << 20];
    bytes[..1024].fill(b'A');
    bytes[5 * 1024..6 * 1024].fill(b'B');
    bytes
}

#[test]
fn read_at_every_offset_and_length_returns_the_bytes() {
    let volume = Volume::new();
    let (inode, cache) = (volume.read(HOLES).unwrap(), volume.cache());
    let expected = expected_holes();
    for offset in (0..8 * 1024).step_by(511) {
        for length in [0, 1, 512, 1024, 1025, 5000] {
            let mut buffer = vec![0xff; length];
            let read = inode.read_at(&cache, offset as u64, &mut buffer).unwrap();
            assert_eq!(read, length);
            assert_eq!(buffer, expected[offset..offset + length], "{length} at {offset}");
        }
    }
    let mut all = vec![0xff; (1 << 20) + 1];
    assert_eq!(inode.read_at(&cache, 0, &mut all).unwrap(), 1 << 20);
    assert_eq!(all[..1 << 20], expected);
}

#[test]
fn read_past_the_end_returns_fewer_bytes() {
    let volume = Volume::new();
    let (inode, cache) = (volume.read(HOLES).unwrap(), volume.cache());
    let mut buffer = [0xff; 16];
    assert_eq!(inode.read_at(&cache, (1 << 20) - 3, &mut buffer).unwrap(), 3);
    assert_eq!(buffer[..4], [0, 0, 0, 0xff]);
    for offset in [1 << 20, (1 << 20) + 1, u64::MAX] {
        assert_eq!(inode.read_at(&cache, offset, &mut buffer).unwrap(), 0);
    }
}

#[test]
fn bytes_of_one_written_extent_have_a_device_range() {
    let volume = Volume::new();
    let (inode, cache) = (volume.read(HOLES).unwrap(), volume.cache());
    let place = |offset, length| inode.device_range(&cache, offset, length).unwrap();
    for (offset, length, byte) in [(0, 1024, b'A'), (1000, 24, b'A'), (5 * KIB, 1024, b'B')] {
        let place = place(offset, length).expect("written");
        assert_eq!(place.end - place.start, length as u64);
        let mut bytes = vec![0; length];
        cache.device().read_at(&mut bytes, place.start).unwrap();
        assert!(bytes.iter().all(|there| *there == byte), "{length} at {offset}");
    }
    // An empty range, a range that reaches into a hole, a hole, unwritten blocks, the end, far past
    // it.
    for (offset, length) in
        [(0, 0), (0, 1025), (KIB, 1), (4 * KIB, 1), (1 << 20, 1), (u64::MAX, usize::MAX)]
    {
        assert_eq!(place(offset, length), None, "{length} at {offset}");
    }
    assert!(volume.read(DIRECTORY).unwrap().device_range(&cache, 0, 1).is_err());
}

#[test]
fn seek_finds_data_and_holes() {
    let volume = Volume::new();
    let (inode, cache) = (volume.read(HOLES).unwrap(), volume.cache());
    let check = |offset, data, hole| {
        assert_eq!(inode.seek_data(&cache, offset).unwrap(), data, "data from {offset}");
        assert_eq!(inode.seek_hole(&cache, offset).unwrap(), hole, "hole from {offset}");
    };
    check(0, Some(0), Some(KIB));
    check(1023, Some(1023), Some(KIB));
    check(KIB, Some(5 * KIB), Some(KIB));
    check(4 * KIB + 7, Some(5 * KIB), Some(4 * KIB + 7));
    check(5 * KIB + 1, Some(5 * KIB + 1), Some(6 * KIB));
    check(6 * KIB, None, Some(6 * KIB));
    check((1 << 20) - 1, None, Some((1 << 20) - 1));
    check(1 << 20, None, None);
    check(u64::MAX, None, None);
}

#[test]
fn seek_hole_in_a_full_file_returns_its_end() {
    let volume = Volume::new();
    volume.put_inode(&changed(HOLES, &[(56, &1000_u64.to_be_bytes())]));
    let (inode, cache) = (volume.read(HOLES).unwrap(), volume.cache());
    assert_eq!(inode.seek_hole(&cache, 0).unwrap(), Some(1000));
    assert_eq!(inode.seek_data(&cache, 999).unwrap(), Some(999));
}

#[test]
fn read_and_seek_near_the_largest_size_do_not_overflow() {
    let volume = Volume::new();
    let size = i64::MAX.cast_unsigned();
    volume.put_inode(&changed(EMPTY, &[(56, &size.to_be_bytes())]));
    let (inode, cache) = (volume.read(EMPTY).unwrap(), volume.cache());
    let mut buffer = [0xff; 16];
    assert_eq!(inode.read_at(&cache, size - 16, &mut buffer).unwrap(), 16);
    assert_eq!(buffer, [0; 16]);
    assert_eq!(inode.read_at(&cache, size - 1, &mut buffer).unwrap(), 1);
    assert_eq!(inode.seek_data(&cache, 0).unwrap(), None);
    assert_eq!(inode.seek_hole(&cache, size - 1).unwrap(), Some(size - 1));

    // The largest block of a file lies far past its largest size.
    let last = Extent {
        file_block: FileBlock(FILE_BLOCK_LIMIT - 1),
        start: FsBlock(15),
        length_blocks: 1,
        unwritten: false,
    };
    let disk = last.encode().unwrap();
    let record = [disk.high.get().to_be_bytes(), disk.low.get().to_be_bytes()].concat();
    let changes: [(usize, &[u8]); 4] =
        [(56, &size.to_be_bytes()), (31, &[1]), (71, &[1]), (176, &record)];
    volume.put_inode(&changed(EMPTY, &changes));
    let inode = volume.read(EMPTY).unwrap();
    assert_eq!(inode.seek_data(&cache, 0).unwrap(), None);
    assert_eq!(inode.read_at(&cache, size - 16, &mut buffer).unwrap(), 16);
}

#[test]
fn read_of_a_file_without_bytes_is_refused() {
    let volume = Volume::new();
    let cache = volume.cache();
    let read = |record| volume.read(record).unwrap().read_at(&cache, 0, &mut [0]).unwrap_err();
    assert!(matches!(read(DIRECTORY), Error::Posix(PosixError::IsDirectory)));
    assert!(matches!(read(LINK), Error::Posix(PosixError::InvalidArgument)));
    volume.put_inode(&changed(EMPTY, &[(91, &[1])]));
    assert!(matches!(read(EMPTY), Error::Unsupported(Unsupported::RealtimeData)));
}
