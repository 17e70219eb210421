//! Simulated power cuts at random moments while files are changed at random. After recovery the
//! volume must be consistent, changes that were forced must be present, and no file may show bytes
//! that were never written to it.

use std::sync::Arc;

use xfs_device::{Durability, SharedDevice};
use xfs_format::InodeNumber;
use xfs_testkit::{Atomicity, CowDevice, PowerCuts, RecordingDevice, Request};
use xfs_trans::{Journal, testing};

use super::files::RandomWork;
use super::volume::{Volume, fresh_cache, now, seeds};
use crate::Inode;
use crate::live::write::CHUNK_BYTES;
use crate::live::{ExchangedRange, KeepSize, LiveInode, SharedRange};

/// The value of every byte in free blocks. A file that shows it exposes old contents of the disk.
const POISON: u8 = 0xee;

/// The contents of the files at a log force. A power cut after request number `position` of the
/// recorded device must not lose them.
struct Forced {
    position: usize,
    models: Vec<Vec<u8>>,
}

/// For each byte of a file, the set of values that it ever had.
#[derive(Default)]
struct History(Vec<[u64; 4]>);

impl History {
    fn note(&mut self, model: &[u8]) {
        self.0.resize(self.0.len().max(model.len()), [1, 0, 0, 0]);
        for (seen, byte) in self.0.iter_mut().zip(model) {
            seen[usize::from(byte >> 6)] |= 1 << (byte & 63);
        }
    }

    /// Returns the index of the first byte whose value the file never had at that index; `None` if
    /// there is no such byte.
    fn stranger(&self, bytes: &[u8]) -> Option<usize> {
        let was_seen = |(at, byte): (usize, &u8)| {
            let seen = self.0.get(at);
            seen.is_some_and(|seen| seen[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1)
        };
        (0..bytes.len()).find(|at| !was_seen((*at, &bytes[*at])))
    }
}

/// Overwrites all free blocks with a byte that no file may ever show.
fn poison(device: &SharedDevice) {
    let cache = fresh_cache(device);
    let geometry = cache.geometry();
    for group in geometry.groups() {
        let headers = xfs_alloc::AgHeaders::read(&cache, group).unwrap();
        for free in headers.free_space(&cache).unwrap().records() {
            let free = free.unwrap();
            let at = geometry.ag_block_disk_addr(group, free.start).byte_offset().unwrap();
            let bytes = vec![POISON; (free.count as usize) << geometry.block_log];
            device.write_at(&bytes, at, Durability::Cached).unwrap();
        }
    }
}

fn contents(volume: Volume, numbers: &[InodeNumber]) -> Vec<Vec<u8>> {
    let (device, _) = volume.unmount();
    let cache = fresh_cache(&device);
    let read = |number: &InodeNumber| {
        let inode = Inode::read(&cache, *number).unwrap();
        let mut bytes = vec![0; inode.core().size as usize];
        inode.read_at(&cache, 0, &mut bytes).unwrap();
        bytes
    };
    numbers.iter().map(read).collect()
}

fn check_cuts(options: &str, seed: u64, (steps, cuts): (usize, u64)) {
    let fresh = testing::make_with(options);
    poison(&fresh);
    let recorded = Arc::new(RecordingDevice::new(fresh));
    let device: SharedDevice = recorded.clone();
    let mut work = RandomWork::new(Volume::of_threads(Arc::clone(&device), 0), seed);
    work.volume.journal.force_all().unwrap();
    let created = recorded.position();
    let mut forced = Vec::new();
    let mut histories: Vec<_> = work.files.iter().map(|_| History::default()).collect();
    for _ in 0..steps {
        work.step();
        for (history, pair) in histories.iter_mut().zip(&work.files) {
            history.note(&pair.model);
        }
        if work.random.within(0..4) == 0 {
            work.volume.journal.force_all().unwrap();
            let models = work.files.iter().map(|pair| pair.model.clone()).collect();
            forced.push(Forced { position: recorded.position(), models });
        }
        if work.random.within(0..40) == 0 {
            work.volume.journal.log().quiesce().unwrap();
        }
    }
    let numbers: Vec<_> = work.files.iter().map(|pair| pair.live.number()).collect();
    let recording = recorded.recording();
    let atomicity = Atomicity::of(&testing::superblock(&device));
    let power = PowerCuts::new(&recording, atomicity);
    for index in 0..cuts {
        let cut = power.sample(seed << 20 | index);
        if cut.point() < created {
            continue;
        }
        let volume = Volume::recover(Arc::new(power.after(cut)));
        for (history, bytes) in histories.iter().zip(contents(volume, &numbers)) {
            let at = history.stranger(&bytes);
            let found = at.map(|at| (at, bytes[at]));
            assert_eq!(found, None, "{options}, seed {seed}, cut {cut}: stale data");
        }
    }
    for Forced { position, models } in forced.iter().rev().take(cuts as usize / 4 + 1) {
        // Directly after a force everything is present, whatever was in progress.
        let cut = power.at(*position, 1).next().unwrap();
        let volume = Volume::recover(Arc::new(power.after(cut)));
        assert!(contents(volume, &numbers) == *models, "{options}, seed {seed}, cut {cut}");
    }
}

/// Runs `act` on two files, then writes to the second file. Simulates a crash after which the
/// written data is on disk but the log is lost. The first file must show none of that data.
fn check_stranger(act: impl FnOnce(&Arc<Journal>, [&Arc<LiveInode>; 2])) {
    const BYTES: usize = 4 * 4096;
    let device = Arc::new(CowDevice::new(testing::make_with("-i exchange=1")));
    let volume = Volume::of_threads(device.clone(), 0);
    let journal = &volume.journal;
    let (left, right) = (volume.file(), volume.file());
    left.write_at(journal, 0, &[1; BYTES], now()).unwrap();
    right.write_at(journal, 0, &[2; BYTES], now()).unwrap();
    act(journal, [&left, &right]);
    right.write_at(journal, 0, &[3; BYTES], now()).unwrap();
    let crashed = Volume::recover(Arc::new(device.fork()));
    let found = contents(crashed, &[left.number()]);
    assert!(!found[0].contains(&3), "what was written to the other file");
}

#[test]
fn blocks_shared_by_two_files_are_overwritten_only_after_a_force() {
    check_stranger(|journal, [left, right]| {
        let all = SharedRange { from: 0, to: 0, length_bytes: 4 * 4096 };
        LiveInode::reflink(journal, left, right, all, now()).unwrap();
        journal.force_all().unwrap();
        // The other file is now the only owner of the blocks.
        left.write_at(journal, 0, &[4; 4 * 4096], now()).unwrap();
    });
}

#[test]
fn blocks_exchanged_by_two_files_are_overwritten_only_after_a_force() {
    check_stranger(|journal, files| {
        journal.force_all().unwrap();
        let all = ExchangedRange { starts: [0; 2], length_bytes: None };
        LiveInode::exchange(journal, files, all, now()).unwrap();
    });
}

#[test]
fn zeroing_in_several_writes_writes_no_sector_twice() {
    const SECTOR_BYTES: u64 = 512;
    let recorded = Arc::new(RecordingDevice::new(testing::make_with("-b size=65536")));
    let volume = Volume::of_threads(recorded.clone(), 0);
    let live = volume.file();
    live.write_at(&volume.journal, 0, &[1; 4 << 16], now()).unwrap();
    let before = recorded.position();
    // Parts of two blocks, more than one write covers.
    live.zero(&volume.journal, 70_003..195_007, KeepSize::Yes, now()).unwrap();
    let recording = recorded.recording();
    let mut sectors: Vec<u64> = Vec::new();
    for request in &recording.requests()[before..] {
        if let Request::Write { offset, bytes, .. } = request {
            let end = offset + bytes.len() as u64;
            sectors.extend(offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES));
        }
    }
    assert!(sectors.len() as u64 > CHUNK_BYTES as u64 / SECTOR_BYTES);
    sectors.sort_unstable();
    let twice = sectors.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "a crash between the two writes leaves it neither old nor new");
}

#[test]
fn power_cuts_on_small_blocks_leave_a_consistent_volume() {
    seeds(11000).for_each(|seed| check_cuts("-b size=1024 -l size=16m", seed, (60, 12)));
}

#[test]
fn power_cuts_on_default_blocks_leave_a_consistent_volume() {
    seeds(12000).for_each(|seed| check_cuts("-l size=16m", seed, (60, 12)));
}
