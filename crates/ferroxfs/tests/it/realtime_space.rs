//! Tests of freeing realtime extents: chains of many steps, several records in one extent, and
//! threads that share a section.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::device::{Durability, SharedDevice};
use ferroxfs::{Error, File, OpenError, OpenOptions, Volume};
use xfs_format::superblock::Unsupported;
use xfs_format::{Lsn, inode, superblock as disk_superblock};
use xfs_testkit::Prng;
use xfs_trans::testing::superblock;

use super::realtime_writing::{Disks, create, in_memory};

const LARGE_BYTES: u64 = 16 << 30;
/// The longest time that the threads of a test may take.
const PATIENCE: Duration = Duration::from_secs(60);
const THREADS: usize = 20;
const STEPS: usize = 12;

fn allocate(file: &File, start: u64, end: u64) {
    file.change_range(start..end, RangeMode::Allocate(AllocateMode::Extend)).unwrap();
}

/// Closes the volume. Checks that all of its realtime extents are free.
fn close_empty(disks: &Disks, volume: Volume) {
    volume.close().unwrap();
    let superblock = superblock(&disks.data);
    assert_eq!(superblock.free_realtime_extents, superblock.realtime_extents);
}

/// Allocates 8 GiB in extents of one block, whose bits fill 64 blocks of the bitmap. Frees the
/// extents by a truncation. Checks that all of them are free.
#[test]
fn truncation_of_a_large_realtime_file_frees_all_of_its_extents() {
    let disks = Disks::make_sized(4, LARGE_BYTES);
    let volume = disks.open();
    let file = create(&volume, "large");
    allocate(&file, 0, 8 << 30);
    // From now on the bitmap takes new space in the log.
    volume.sync().unwrap();
    file.set_len(0).unwrap();
    drop(file);
    close_empty(&disks, volume);
}

/// Removes a file of 8 GiB, once by itself and once while it is open, so that a recovery frees it.
/// Checks that all of its extents are free.
#[test]
fn removal_and_recovery_of_a_large_realtime_file_free_all_of_its_extents() {
    let disks = Disks::make_sized(4, LARGE_BYTES);
    let volume = disks.open();
    let file = create(&volume, "large");
    allocate(&file, 0, 8 << 30);
    volume.remove_file("/large").unwrap();
    volume.sync().unwrap();
    let crashed = Disks { data: in_memory(&*disks.data), realtime: disks.realtime.clone() };
    drop(file);
    close_empty(&disks, volume);
    let recovered = crashed.open();
    close_empty(&crashed, recovered);
}

/// Prepares a file with a record of unwritten blocks that has the greatest length, followed by a
/// realtime extent whose first block was written. Truncates the file to length 0. Before the extent
/// is freed, its first block becomes unwritten again, but its blocks must not be joined to the full
/// record. Checks that all blocks become free.
#[test]
fn extent_next_to_the_longest_record_is_freed() {
    const RECORD_BYTES: u64 = 2_097_148 << 12;
    let disks = Disks::make_sized(16, LARGE_BYTES);
    let volume = disks.open();
    let file = create(&volume, "file");
    allocate(&file, 0, RECORD_BYTES);
    allocate(&file, RECORD_BYTES, RECORD_BYTES + (16 << 10));
    file.write_at(&[1; 4096], RECORD_BYTES).unwrap();
    file.sync_all().unwrap();
    file.set_len(0).unwrap();
    drop(file);
    close_empty(&disks, volume);
}

/// Writes every second block of a file, so that each block gets a record of its own. Then frees
/// these blocks by a truncation, a hole or the removal of the file. Each operation must succeed.
fn change_fragments(volume: &Volume, thread: usize, random: &mut Prng) {
    let name = format!("file{thread}-{}", random.within(0..3));
    let file = match volume.open_file(format!("/{name}")) {
        Ok(file) => file,
        Err(_) => create(volume, &name),
    };
    let start = random.within(0..40) as u64;
    for number in start..start + 120 {
        file.write_at(&[thread as u8 + 1; 4096], number << 13).unwrap();
    }
    file.sync_all().unwrap();
    match random.within(0..3) {
        0 => file.set_len(random.within(0..100_000) as u64).unwrap(),
        1 => file.change_range(20_000..900_000, RangeMode::Punch).unwrap(),
        _ => {
            drop(file);
            volume.remove_file(format!("/{name}")).unwrap();
        }
    }
    if random.within(0..2) == 0 {
        volume.sync().unwrap();
    }
}

/// Lets threads write, truncate and remove realtime files on a volume with the smallest log, which
/// they fill several times. Checks that no thread waits for ever, and that the volume is sound at
/// the end.
#[test]
fn threads_that_share_a_realtime_section_and_a_small_log_all_end() {
    let disks = Disks::make_sized(4, 96 << 20);
    let volume = Arc::new(disks.open());
    let (sender, ended) = mpsc::channel();
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (volume, sender) = (Arc::clone(&volume), sender.clone());
            thread::spawn(move || {
                let mut random = Prng::new(thread as u64 + 1);
                for _ in 0..STEPS {
                    change_fragments(&volume, thread, &mut random);
                }
                drop(volume);
                sender.send(()).unwrap();
            })
        })
        .collect();
    for _ in &threads {
        ended.recv_timeout(PATIENCE).expect("each thread ends in time");
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    Arc::into_inner(volume).expect("the threads have ended").close().unwrap();
    disks.check();
}

/// Changes the first `length` bytes at `offset` of a device.
fn patch(device: &SharedDevice, offset: u64, length: usize, change: impl FnOnce(&mut [u8])) {
    let mut bytes = vec![0; length];
    device.read_at(&mut bytes, offset).unwrap();
    change(&mut bytes);
    device.write_at(&bytes, offset, Durability::Cached).unwrap();
}

/// Opens two damaged volumes for writing. In the superblock of the first, one inode is both the
/// realtime bitmap and the summary. On the second, the inode of the bitmap has the realtime flag.
/// Checks that opening each volume fails.
#[test]
fn volume_with_wrong_inodes_of_its_bitmap_and_summary_is_not_opened() {
    let is_refused = |disks: &Disks| {
        let error = disks.options(&OpenOptions::new().write(true)).err();
        matches!(error, Some(OpenError::Recovery(Error::Corrupt(_))))
    };
    let disks = Disks::make(4);
    patch(&disks.data, 0, 512, |sector| {
        sector.copy_within(64..72, 72);
        disk_superblock::seal(sector);
    });
    assert!(is_refused(&disks));
    let disks = Disks::make(4);
    let superblock = superblock(&disks.data);
    let place = superblock.geometry.inode_location(superblock.realtime_bitmap_inode).unwrap();
    let offset = place.cluster.byte_offset().unwrap() + u64::from(place.offset_bytes);
    patch(&disks.data, offset, superblock.geometry.inode_size as usize, |bytes| {
        // The flag REALTIME is bit 0 of `di_flags`.
        bytes[91] |= 1;
        inode::seal(bytes, Lsn(0));
    });
    assert!(is_refused(&disks));
}

#[test]
fn exchange_in_a_classic_section_is_refused_by_name() {
    let disks = Disks::make(4);
    let volume = disks.open();
    let (left, right) = (create(&volume, "left"), create(&volume, "right"));
    let refused = left.exchange_range(0, &right, 0, 4096);
    assert!(
        matches!(refused, Err(Error::Unsupported(Unsupported::RealtimeExchange))),
        "{refused:?}"
    );
    drop((left, right));
    close_empty(&disks, volume);
}
