//! Reading inodes by number: valid, free and missing ones, and a corrupt inode among valid ones.

use std::io;
use std::sync::{Arc, Mutex};

use xfs_buffer::{BufferCache, Error, Liveness, PosixError};
use xfs_device::{BlockDevice, SharedDevice};
use xfs_format::inode::{FileType, ForkKind};
use xfs_format::{Check, InodeNumber};

use super::Inode;
use crate::Fork;
use crate::testing::{
    ALL, CHARACTER, DIRECTORY, EMPTY, FRAGMENTS, FRAGMENTS_LEAF, LINK, REMOVED, TEXT, Volume,
    changed, failed_check, number,
};

#[test]
fn inodes_of_every_type_have_the_expected_forks() {
    let volume = Volume::new();
    let check = |record, file_type, is_as_expected: fn(&Fork, &Fork) -> bool| {
        let inode = volume.read(record).unwrap();
        assert_eq!((inode.number(), inode.file_type()), (number(record), file_type));
        assert!(is_as_expected(inode.fork(ForkKind::Data), inode.fork(ForkKind::Attr)));
    };
    use Fork::{Absent, Btree, Device, Extents, Local};
    check(TEXT, FileType::Regular, |data, attr| matches!((data, attr), (Extents(_), Local(_))));
    check(LINK, FileType::Symlink, |data, attr| matches!((data, attr), (Local(_), Absent)));
    check(FRAGMENTS, FileType::Regular, |data, _| matches!(data, Btree(_)));
    check(CHARACTER, FileType::CharDevice, |data, _| matches!(data, Device));
    check(DIRECTORY, FileType::Directory, |data, _| matches!(data, Local(_)));
}

#[test]
fn free_and_missing_inodes_are_not_found() {
    let volume = Volume::new();
    let check = |number| {
        let found = Inode::read(&volume.cache(), InodeNumber(number));
        assert!(matches!(found, Err(Error::Posix(PosixError::NotFound))), "{number}");
    };
    check(number(REMOVED).0);
    for outside in [0, 1, 3, 1 << 31, 1 << 63, u64::MAX] {
        check(outside);
    }
}

#[test]
fn corrupt_inode_does_not_hide_its_neighbours() {
    let volume = Volume::new();
    volume.put(number(EMPTY).0 * 512 + 20, &[0xff]);
    assert!(matches!(failed_check(volume.read(EMPTY)), Check::Checksum { .. }));
    volume.read(TEXT).unwrap();
    volume.read(LINK).unwrap();
}

#[test]
fn inodes_read_together_equal_inodes_read_alone() {
    let volume = Volume::new();
    volume.put(number(EMPTY).0 * 512 + 20, &[0xff]);
    let mut numbers: Vec<_> = ALL.iter().map(|record| number(record)).collect();
    numbers.extend([InodeNumber(u64::MAX), number(TEXT)]);
    let cache = volume.cache();
    let looks = || cache.statistics().hits + cache.statistics().total().misses;
    let before = looks();
    let together = Inode::read_each(&cache, &numbers);
    assert!(looks() - before < 4, "{} looks at clusters", looks() - before);
    assert_eq!(together.len(), numbers.len());
    for (number, found) in numbers.iter().zip(&together) {
        let alone = Inode::read(&volume.cache(), *number);
        assert_eq!(format!("{found:?}"), format!("{alone:?}"));
    }
}

/// A device whose first reads return inodes with wrong bytes, as if they were half written.
struct TornReads {
    inner: SharedDevice,
    /// Number of reads that will still return wrong bytes.
    left: Mutex<usize>,
}

impl BlockDevice for TornReads {
    xfs_testkit::delegate_device!(
        inner: length_bytes, sector_size, is_read_only, write_at, flush, discard
    );

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_at(buffer, offset)?;
        let mut left = self.left.lock().unwrap();
        if *left > 0 {
            *left -= 1;
            buffer.as_chunks_mut::<512>().0.iter_mut().for_each(|inode| inode[60] ^= 0xff);
        }
        Ok(())
    }
}

/// On a volume that another program may write at the same time (`Live`), an inode that fails its
/// checks must be read again. On any other volume it is corrupt at once.
#[test]
fn torn_inode_of_a_live_volume_is_read_again() {
    let volume = Volume::new();
    let cache = |left, liveness| {
        let device = TornReads { inner: volume.device(), left: Mutex::new(left) };
        let geometry = Arc::new(volume.cache().geometry().clone());
        BufferCache::new(Arc::new(device), geometry, 1 << 16).with_liveness(liveness)
    };
    let numbers = [number(TEXT), number(EMPTY)];
    let read_each = |left, liveness| {
        let found = Inode::read_each(&cache(left, liveness), &numbers);
        found.into_iter().map(|found| found.is_ok()).collect::<Vec<_>>()
    };
    assert_eq!(read_each(0, Liveness::Quiet), [true; 2]);
    assert_eq!(read_each(1, Liveness::Quiet), [false; 2]);
    assert_eq!(read_each(1, Liveness::Live), [true; 2]);
    assert!(Inode::read(&cache(1, Liveness::Quiet), number(TEXT)).is_err());
    assert!(Inode::read(&cache(1, Liveness::Live), number(TEXT)).is_ok());
}

/// Performs every read operation on an inode decoded from `record`. The operations may return
/// errors, but must not panic.
fn use_all(volume: &Volume, record: &[u8]) {
    let cache = volume.cache();
    let Ok(inode) = Inode::decode(record, number(record), &cache.verify_context()) else { return };
    for kind in [ForkKind::Data, ForkKind::Attr] {
        let listed = inode.extents(&cache, kind).take(1000).count();
        let map = inode.extent_map(&cache, kind);
        assert!(map.is_err() || map.is_ok_and(|map| map.count() == listed));
    }
    let mut buffer = [0; 4096];
    for offset in [0, 1 << 20, inode.core().size.saturating_sub(1), u64::MAX] {
        let _ = inode.read_at(&cache, offset, &mut buffer);
        let _ = inode.seek_data(&cache, offset);
        let _ = inode.seek_hole(&cache, offset);
    }
    let _ = inode.read_target(&cache);
}

#[test]
fn inode_with_a_flipped_bit_does_not_panic() {
    let volume = Volume::new();
    for record in ALL {
        for bit in 0..record.len() * 8 {
            // The number and the UUID would only make it another inode.
            if (152..176).contains(&(bit / 8)) {
                continue;
            }
            let flipped = record[bit / 8] ^ (1 << (bit % 8));
            use_all(&volume, &changed(record, &[(bit / 8, &[flipped])]));
        }
    }
}

#[test]
fn extent_leaf_with_a_flipped_bit_does_not_panic() {
    let volume = Volume::new();
    for bit in 0..FRAGMENTS_LEAF.len() * 8 {
        let flipped = FRAGMENTS_LEAF[bit / 8] ^ (1 << (bit % 8));
        volume.put_changed_block(31, FRAGMENTS_LEAF, &[(bit / 8, &[flipped])]);
        use_all(&volume, FRAGMENTS);
    }
}
