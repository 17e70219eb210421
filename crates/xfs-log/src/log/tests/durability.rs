//! Tests that forced commits survive a power cut.

use std::sync::Arc;

use xfs_device::{BlockDevice, Durability, MemoryDevice};
use xfs_testkit::{Atomicity, PowerCuts, RecordingDevice, Request};

use super::rig::Rig;
use crate::log::{Log, LogConfig};
use crate::mutant::{ActiveMutant, Mutant};
use crate::state::find_head_and_tail;
use crate::testing::decode;
use crate::testing::item::{TestItem, number_at};

const LOG_BLOCKS: u32 = 2048;

/// The block number of the home location of the first item. It lies after the log.
const PLACE: u64 = LOG_BLOCKS as u64;

/// Sets the number of each item to `number` and commits the items, which together fill more than
/// one record. Returns the sequence number of the checkpoint.
pub(super) fn commit_large(log: &Log, items: &[Arc<TestItem>], number: u64) -> u64 {
    let mut sequence = 0;
    for item in items {
        let lock = item.lock();
        item.set(0, number);
        let mut ticket = log.reserve(20 << 10, 1).unwrap();
        let committed = log.commit(&mut ticket, &[Arc::clone(item) as _]).unwrap();
        drop(lock);
        log.release(ticket);
        log.settle(committed).unwrap();
        sequence = committed.sequence;
    }
    sequence
}

/// Forces checkpoints of several records, and cuts the power at sampled moments. Returns an error
/// that names a forced commit if one is missing after recovery.
fn power_cuts(mutant: ActiveMutant) -> Result<(), String> {
    let start = Rig::new(LOG_BLOCKS);
    let device = Arc::new(RecordingDevice::new(Arc::clone(&start.device)));
    let rig = start.on(device.clone());
    let log = rig.open_with(&rig.config(), mutant);
    let items: Vec<_> = (0..5)
        .map(|index| TestItem::large_in_place(PLACE + 64 * index, 16 << 10, device.clone()))
        .collect();
    let mut promises = Vec::new();
    for number in 1..=40 {
        let sequence = commit_large(&log, &items, number);
        log.force(sequence).unwrap();
        promises.push((device.position(), number));
        if number % 3 == 0 {
            log.quiesce().unwrap();
        }
    }
    drop(log);
    decode::check_tails(&rig.log_device());
    let recording = device.recording();
    let cuts = PowerCuts::new(&recording, Atomicity::default().torn(0..PLACE * 512));
    for seed in 0..600 {
        let cut = cuts.sample(seed);
        let rig = start.on(Arc::new(cuts.after(cut)));
        let promised = promises.iter().rev().find(|(position, _)| *position <= cut.point());
        let promised = promised.map_or(0, |(_, number)| *number);
        let state = find_head_and_tail(&rig.log_device()).map_err(|error| error.to_string())?;
        let found = decode::transactions_of(&rig.log_device(), &state);
        let mut in_place = [0; 512];
        rig.device.read_at(&mut in_place, PLACE * 512).unwrap();
        // If the log has no item any more, the item is in place (I2 of `xfs_log::writer`).
        let last = found.last().map_or(number_at(&in_place, 0), |last| last.numbers()[0].1);
        if last < promised {
            return Err(format!("cut {cut}: {promised} was promised and only {last} is there"));
        }
        if found.iter().any(|found| found.buffers().len() != items.len()) {
            return Err(format!("cut {cut}: part of a checkpoint"));
        }
    }
    Ok(())
}

/// Checks I6 in docs/internals/log.md: after each power cut, recovery finds every forced commit.
#[test]
fn forced_commits_survive_a_power_cut() {
    power_cuts(ActiveMutant::default()).unwrap();
}

#[test]
fn no_preflush_mutant_loses_forced_commits() {
    power_cuts(ActiveMutant::with(Mutant::NoPreflush)).unwrap_err();
}

/// Checks I1 of `xfs_log::writer`: earlier records are durable before a record with COMMIT. The
/// device must get a flush, and then the record with COMMIT as a write with FUA.
#[test]
fn commit_record_is_written_with_fua_after_a_flush() {
    let start = Rig::new(LOG_BLOCKS);
    let device = Arc::new(RecordingDevice::new(Arc::clone(&start.device)));
    let rig = start.on(device.clone());
    let log = rig.open(&rig.config());
    let items = [TestItem::with_length(8, 16 << 10)];
    let sequence = commit_large(&log, &items, 1);
    log.force(sequence).unwrap();
    let recording = device.recording();
    let [Request::Flush, Request::Write { durability: Durability::Durable, .. }] =
        recording.requests()
    else {
        panic!("{} requests", recording.requests().len());
    };
}

#[test]
fn data_device_is_flushed_before_a_commit_in_an_external_log() {
    let rig = Rig::new(LOG_BLOCKS);
    let data = Arc::new(RecordingDevice::new(Arc::new(MemoryDevice::new(1 << 20))));
    let log = Log::open(rig.log_device(), Some(data.clone()), &rig.state(), &rig.config());
    let items = [TestItem::in_place(8, data.clone())];
    for number in 1..=5 {
        let sequence = commit_large(&log, &items, number);
        data.write_at(&[1; 512], 4096, Durability::Cached).unwrap();
        log.force(sequence).unwrap();
        assert_eq!(data.recording().requests().last(), Some(&Request::Flush));
    }
    log.unmount().unwrap();
    assert_eq!(data.recording().requests().last(), Some(&Request::Flush));
}

#[test]
fn one_flush_serves_all_forces_of_one_checkpoint() {
    let start = Rig::new(LOG_BLOCKS);
    let device = Arc::new(RecordingDevice::new(Arc::clone(&start.device)));
    let rig = start.on(device.clone());
    let log = rig.open(&LogConfig { threads: 0, ..rig.config() });
    let sequence = commit_large(&log, &[TestItem::new(8)], 1);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| log.force(sequence).unwrap());
        }
    });
    let recording = device.recording();
    let flushes = recording.requests().iter().filter(|request| **request == Request::Flush);
    assert_eq!(flushes.count(), 1);
}
