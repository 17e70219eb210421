//! Random operations of every kind on files, whose bytes are compared with a model in memory.

use std::sync::Arc;

use xfs_buffer::{Error, PosixError};
use xfs_testkit::Prng;

use super::volume::{Volume, now, seeds};
use crate::live::{ExchangedRange, KeepSize, LiveInode, SharedRange};

/// A file, and the contents that it must have.
pub(super) struct ModelledFile {
    pub(super) live: Arc<LiveInode>,
    pub(super) model: Vec<u8>,
}

impl ModelledFile {
    fn check(&self, volume: &Volume, what: &str) {
        let mut bytes = vec![0x55; self.model.len() + 3];
        let read = self.live.inode().read_at(volume.journal.cache(), 0, &mut bytes).unwrap();
        assert_eq!(read, self.model.len(), "{what}: size");
        if let Some(at) = (0..read).find(|at| bytes[*at] != self.model[*at]) {
            panic!("{what}: byte {at} is {:#x}, not {:#x}", bytes[at], self.model[at]);
        }
    }

    fn reach(&mut self, end: usize) {
        if self.model.len() < end {
            self.model.resize(end, 0);
        }
    }
}

/// A volume with files that are changed at random.
pub(super) struct RandomWork {
    pub(super) volume: Volume,
    pub(super) random: Prng,
    pub(super) files: Vec<ModelledFile>,
    block: usize,
}

const FILE_BYTES: usize = 300 << 10;

impl RandomWork {
    pub(super) fn new(volume: Volume, seed: u64) -> Self {
        let block = volume.journal.geometry().block_size as usize;
        let files =
            (0..3).map(|_| ModelledFile { live: volume.file(), model: Vec::new() }).collect();
        Self { volume, random: Prng::new(seed), files, block }
    }

    fn range(&mut self) -> (usize, usize) {
        let longest = *self.random.choose(&[10, 3000, 60_000]).unwrap();
        let start = self.random.within(0..FILE_BYTES);
        (start, start + self.random.within(1..longest))
    }

    fn whole_range(&mut self) -> (usize, usize) {
        let start = self.random.within(0..FILE_BYTES / self.block);
        let length = self.random.within(1..9);
        (start * self.block, (start + length) * self.block)
    }

    /// Performs one random operation on one file, and returns a description of it.
    pub(super) fn step(&mut self) -> String {
        let index = self.random.within(0..self.files.len());
        let (start, end) = self.range();
        let (journal, byte) = (Arc::clone(&self.volume.journal), self.random.number() as u8);
        let range = start as u64..end as u64;
        let keep = *self.random.choose(&[KeepSize::Yes, KeepSize::No]).unwrap();
        let choice = self.random.within(0..12);
        let pair = &mut self.files[index];
        let name = |what: &str| format!("{what} {start}..{end} of {index}");
        match choice {
            0..=3 => {
                let bytes = vec![byte; end - start];
                let written = pair.live.write_at(&journal, range.start, &bytes, now()).unwrap();
                assert_eq!(written, bytes.len());
                pair.reach(end);
                pair.model[start..end].fill(byte);
                name("write")
            }
            4 => {
                pair.live.truncate(&journal, range.start, now()).unwrap();
                pair.model.resize(start, 0);
                name("truncate")
            }
            5 => {
                pair.live.punch(&journal, range, now()).unwrap();
                let end = end.min(pair.model.len());
                pair.model[start.min(end)..end].fill(0);
                name("punch")
            }
            6 => {
                pair.live.zero(&journal, range, keep, now()).unwrap();
                if keep == KeepSize::No {
                    pair.reach(end);
                }
                let end = end.min(pair.model.len());
                pair.model[start.min(end)..end].fill(0);
                name("zero")
            }
            7 => {
                pair.live.allocate(&journal, range, keep, now()).unwrap();
                if keep == KeepSize::No {
                    pair.reach(end);
                }
                name("allocate")
            }
            8 => {
                pair.live.unshare(&journal, range, now()).unwrap();
                name("unshare")
            }
            9 => self.shift(index),
            10 => self.share(index),
            _ => self.exchange(index),
        }
    }

    fn shift(&mut self, index: usize) -> String {
        let (start, end) = self.whole_range();
        let collapse = self.random.within(0..2) == 0;
        let pair = &mut self.files[index];
        let range = start as u64..end as u64;
        let journal = &self.volume.journal;
        if collapse {
            let done = pair.live.collapse(journal, range, now());
            assert_eq!(done.is_ok(), end < pair.model.len());
            if done.is_ok() {
                pair.model.drain(start..end);
            }
        } else {
            let done = pair.live.insert(journal, range, now());
            assert_eq!(done.is_ok(), start < pair.model.len());
            if done.is_ok() {
                pair.model.splice(start..start, vec![0; end - start]);
            }
        }
        format!("shift {start}..{end} of {index}, collapse {collapse}")
    }

    fn share(&mut self, index: usize) -> String {
        let (start, end) = self.whole_range();
        let to = self.random.within(0..FILE_BYTES / self.block) * self.block;
        let source = self.random.within(0..self.files.len());
        let length = end - start;
        let shared = SharedRange { from: start as u64, to: to as u64, length_bytes: length as u64 };
        let bytes = self.files[source].model.get(start..end).map(<[u8]>::to_vec);
        let apart = source != index || start.abs_diff(to) >= length;
        let (from, into) = (&self.files[source].live, &self.files[index].live);
        let done = LiveInode::reflink(&self.volume.journal, from, into, shared, now());
        let is_possible = bytes.is_some() && apart && self.volume_shares();
        assert_eq!(done.is_ok(), is_possible, "{done:?}");
        if let (Ok(()), Some(bytes)) = (done, bytes) {
            let pair = &mut self.files[index];
            pair.reach(to + length);
            pair.model[to..to + length].copy_from_slice(&bytes);
        }
        format!("share {start}..{end} of {source} at {to} of {index}")
    }

    fn volume_shares(&self) -> bool {
        let geometry = self.volume.journal.geometry();
        geometry.has_ro_compat(xfs_format::RoCompatFeatures::REFLINK)
    }

    fn exchange(&mut self, index: usize) -> String {
        let (start, end) = self.whole_range();
        let other = (index + 1) % self.files.len();
        let length_bytes = Some((end - start) as u64);
        let whole = self.random.within(0..3) == 0;
        let range = match whole {
            true => ExchangedRange { starts: [0; 2], length_bytes: None },
            false => ExchangedRange { starts: [start as u64; 2], length_bytes },
        };
        let files = [&self.files[index].live, &self.files[other].live];
        let done = LiveInode::exchange(&self.volume.journal, files, range, now());
        let inside = self.files[index].model.len() >= end && self.files[other].model.len() >= end;
        let has_feature =
            self.volume.journal.geometry().has_incompat(xfs_format::IncompatFeatures::EXCHRANGE);
        assert_eq!(done.is_ok(), has_feature && (inside || whole), "{done:?}");
        if done.is_ok() && whole {
            let model = std::mem::take(&mut self.files[index].model);
            self.files[index].model = std::mem::replace(&mut self.files[other].model, model);
        } else if done.is_ok() {
            let left = self.files[index].model[start..end].to_vec();
            let right = self.files[other].model[start..end].to_vec();
            self.files[index].model[start..end].copy_from_slice(&right);
            self.files[other].model[start..end].copy_from_slice(&left);
        }
        format!("exchange {start}..{end} of {index}, whole {whole}")
    }
}

fn check_random(options: &str, seed: u64, steps: usize) {
    let mut work = RandomWork::new(Volume::new(options), seed);
    for step in 0..steps {
        let what = format!("{options}, seed {seed}, step {step}: {}", work.step());
        for pair in &work.files {
            pair.check(&work.volume, &what);
        }
    }
    let RandomWork { volume, files, .. } = work;
    let numbers: Vec<_> =
        files.into_iter().map(|ModelledFile { live, model }| (live.number(), model)).collect();
    let (device, cache) = volume.unmount();
    for (number, model) in &numbers {
        let inode = crate::Inode::read(&cache, *number).unwrap();
        let mut bytes = vec![0; model.len()];
        assert_eq!(inode.read_at(&cache, 0, &mut bytes).unwrap(), model.len());
        assert!(bytes == *model, "{number} on disk, seed {seed}");
    }
    // The blocks of the files are free again after the files are freed.
    let volume = Volume::of(device);
    for (number, _) in numbers {
        let live = Arc::new(LiveInode::load(&volume.journal, number).unwrap());
        live.inactivate(&volume.journal).unwrap();
    }
    volume.unmount();
}

/// Checks I1 of `xfs_inode::live`: the inodes that readers see in memory, and those in the log
/// records that are written to disk, describe the same files.
#[test]
fn random_operations_on_small_blocks_equal_the_model() {
    seeds(1000).for_each(|seed| check_random("-b size=1024 -l size=16m", seed, 150));
}

#[test]
fn random_operations_on_default_blocks_equal_the_model() {
    seeds(2000).for_each(|seed| check_random("-l size=16m", seed, 150));
}

#[test]
fn random_operations_without_reverse_map_and_sharing_equal_the_model() {
    seeds(3000).for_each(|seed| check_random("-m reflink=0,rmapbt=0 -l size=16m", seed, 120));
}

#[test]
fn full_volume_reports_no_space_and_stays_usable() {
    for options in ["-b size=1024 -l size=16m", "-l size=16m"] {
        let volume = Volume::new(options);
        let files: Vec<_> = (0..2).map(|_| volume.file()).collect();
        let bytes = vec![0xab; 5_000_000];
        let (mut written, mut full) = ([0_u64; 2], false);
        while !full {
            for (file, end) in files.iter().zip(&mut written) {
                match file.write_at(&volume.journal, *end, &bytes, now()) {
                    Ok(count) => *end += count as u64,
                    Err(error) => {
                        assert!(matches!(error, Error::Posix(PosixError::NoSpace)), "{error}");
                        full = true;
                    }
                }
            }
        }
        let free = volume.journal.counts().free_blocks;
        assert!(free < 64, "{options}: {free} blocks are left");
        assert!(!volume.journal.is_shut_down());
        files[0].truncate(&volume.journal, 0, now()).unwrap();
        let again = files[1].write_at(&volume.journal, written[1], &bytes, now()).unwrap();
        assert_eq!(again, bytes.len());
        volume.unmount();
    }
}
