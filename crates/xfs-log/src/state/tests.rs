//! Tests of the state that the search finds in logs. The tests write some of these logs; mkfs.xfs
//! and the kernel have written the others.
//!
//! The files in testdata are the leading blocks of real logs; zeros follow them. `mkfs` is the log
//! after `mkfs.xfs`. `unmounted` is the log after two files were made and the volume unmounted.
//! `shut-down` is the log after six files were made and the volume shut down (`xfs_io -x -c
//! "shutdown -f"`). The expected values are those of `xfs_logprint -t`.

use std::sync::Arc;

use uuid::Uuid;
use xfs_buffer::Error;
use xfs_device::{BlockDevice, Durability, MemoryDevice};
use xfs_format::log_record::{LogRecordCheck, LogVersion, RecordChecksums};
use xfs_format::{Check, DiskAddr, Lsn};

use super::{LogState, count_records_after_head, find_head_and_tail};
use crate::device::{LogDevice, LogGeometry};
use crate::testing::LogImage;

const BLOCKS: u32 = 8192;

fn state(log: &LogImage) -> LogState {
    find_head_and_tail(&log.device()).unwrap()
}

fn check(log: &LogImage) -> Check {
    match find_head_and_tail(&log.device()) {
        Err(Error::Corrupt(corruption)) => corruption.check().clone(),
        other => panic!("{other:?}"),
    }
}

/// Returns a log in its third cycle with `records` records between tail and head, and the block
/// numbers of these records.
fn dirty(length_blocks: u32, records: u32) -> (LogImage, Vec<u32>) {
    let mut log = LogImage::fresh(length_blocks);
    log.fill(2, 30);
    log.tail = log.head;
    let blocks = (0..records).map(|_| log.append(20)).collect();
    (log, blocks)
}

#[test]
fn state_of_real_logs_agrees_with_xfs_logprint() {
    let golden = [
        (
            &include_bytes!("../../testdata/mkfs.log")[..],
            10944,
            0xcad7_7e88_8d56_4a4e_b632_2667_6d75_c2bc,
            (2, 2),
        ),
        (
            include_bytes!("../../testdata/unmounted.log"),
            20480,
            0x7097_6ed0_7a5e_4cd8_b2dc_bd50_6ab6_16ed,
            (18, 18),
        ),
        (
            include_bytes!("../../testdata/shut-down.log"),
            20480,
            0xc58e_fdf5_deeb_4055_9533_53ed_ac89_026e,
            (2, 17),
        ),
    ];
    for (bytes, length_blocks, uuid, (tail, head)) in golden {
        let uuid = Uuid::from_u128(uuid);
        let start = DiskAddr(100);
        let device = MemoryDevice::new((100 + u64::from(length_blocks)) * 512);
        device.write_at(bytes, 100 * 512, Durability::Cached).unwrap();
        let geometry = LogGeometry {
            start,
            length_blocks,
            sector_bytes: 512,
            stripe_unit_bytes: 1,
            uuid,
            version: LogVersion::V2,
            checksums: RecordChecksums::Required,
        };
        let log = LogDevice::with_geometry(Arc::new(device), geometry).unwrap();
        let found = find_head_and_tail(&log).unwrap();
        assert_eq!((found.tail, found.head), (Lsn::new(1, tail), Lsn::new(1, head)));
        assert_eq!(found.clean, tail == head);
        // Every record up to the head can be read, and its cycle words restored.
        let mut block = 0;
        while block < head {
            let (header, mut record) = log.read_record(block).unwrap();
            header.unpack(&mut record, xfs_format::StructureAddress::Log(block)).unwrap();
            block += header.total_blocks();
        }
        assert_eq!(block, head);
    }
}

#[test]
fn fresh_and_unmounted_logs_are_clean() {
    let mut log = LogImage::fresh(BLOCKS);
    assert_eq!(state(&log).head, Lsn::new(1, 2));
    assert!(state(&log).clean);
    for turns in [1, 3] {
        log.fill(turns, 30);
        log.append_unmount();
        let found = state(&log);
        assert!(found.clean);
        assert_eq!((found.head, found.tail, found.torn), (log.head, log.head, None));
    }
}

#[test]
fn dirty_log_is_found_wherever_its_head_is() {
    // Step by step around the end of the log, through records that straddle it.
    for (size, payload) in [(32 << 10, 9), (64 << 10, 100), (256 << 10, 500)] {
        let mut log = LogImage::fresh(BLOCKS);
        log.size = size;
        log.fill(2, payload);
        for _ in 0..40 {
            log.tail = log.head;
            log.append(payload);
            let last = log.append(payload);
            let found = state(&log);
            assert!(!found.clean);
            assert_eq!((found.head, found.tail), (log.head, log.tail));
            assert_eq!((found.last_record, found.torn), (last, None));
        }
    }
}

#[test]
fn head_at_the_end_of_the_log_is_block_0_of_the_next_cycle() {
    let mut log = LogImage::fresh(BLOCKS);
    while log.length() - log.head.block() > 60 {
        log.append(30);
    }
    log.tail = log.head;
    let rest = log.length() - log.head.block();
    log.append(rest - 1);
    let found = state(&log);
    assert_eq!(found.head, Lsn::new(2, 0));
    assert_eq!(found.tail, log.tail);
}

#[test]
fn incomplete_record_is_cut_off() {
    for written in 0..21 {
        let (mut log, records) = dirty(BLOCKS, 4);
        for block in written..21 {
            log.make_stale(records[3] + block);
        }
        assert_eq!(state(&log).head.block(), records[3], "{written} blocks written");
    }
}

#[test]
fn hole_cuts_off_the_records_after_it() {
    let (mut log, records) = dirty(BLOCKS, 6);
    for block in 0..21 {
        log.make_stale(records[2] + block);
    }
    let found = state(&log);
    assert_eq!((found.head.block(), found.last_record), (records[2], records[1]));
}

/// Loses a block of the log image, as if its last write had not reached the medium.
fn lose(log: &mut LogImage, block: u32) {
    log.make_stale(block);
    if xfs_format::log_record::block_cycle(log.block_mut(block)) == 0 {
        log.block_mut(block).fill(0);
    }
}

/// Returns a log of this length that wraps for the `wrap`-th time. Around the end of the log lie
/// two durable records, and then six records that were in flight together. Also returns the block
/// numbers of the six records.
fn wrapping(length_blocks: u32, wrap: u32) -> (LogImage, Vec<u32>) {
    let mut log = LogImage::fresh(length_blocks);
    log.fill(wrap - 1, 30);
    while length_blocks - log.head.block() > 120 {
        log.tail = log.head;
        log.append(20);
    }
    log.tail = log.head;
    log.append(20);
    log.append(20);
    let records = (0..6).map(|_| log.append(20)).collect();
    assert_eq!(log.head.cycle(), wrap + 1);
    (log, records)
}

/// Loses every subset of six records that are in flight around the end of the log: whole records,
/// or their first or second half. Checks that the first lost record is the head.
#[test]
fn head_of_a_wrapping_log_is_the_first_record_that_was_lost() {
    for wrap in 1..=3 {
        let (log, records) = wrapping(4400, wrap);
        for (subset, blocks) in (1..64_u32).zip([0..21, 0..10, 10..21].into_iter().cycle()) {
            let mut log = log.clone();
            let lost: Vec<usize> = (0..6).filter(|record| subset & 1 << record != 0).collect();
            for record in &lost {
                blocks.clone().for_each(|block| lose(&mut log, records[*record] + block));
            }
            let found = state(&log);
            let expected = Lsn::new(wrap + u32::from(records[lost[0]] < 2000), records[lost[0]]);
            assert_eq!(found.head, expected, "wrap {wrap}, {lost:?} lost, blocks {blocks:?}");
            assert_eq!(found.tail, log.tail);
        }
    }
}

/// Checks a log whose last block is zero although the second cycle has begun. The zeros count as a
/// lost record in flight if the second cycle is shorter than the records that can be in flight. If
/// it is longer, the zeros count as damage.
#[test]
fn zeros_at_the_end_are_refused_if_the_second_cycle_is_too_long_for_records_in_flight() {
    let (mut log, records) = wrapping(BLOCKS, 1);
    let end = loop {
        let mut zeroed = log.clone();
        zeroed.block_mut(BLOCKS - 1).fill(0);
        match find_head_and_tail(&zeroed.device()) {
            Ok(found) => assert!(records.contains(&found.head.block()), "{}", found.head),
            Err(_) => break check(&zeroed),
        }
        log.append(20);
    };
    assert_eq!(end, LogRecordCheck::Cycles { first: 2, last: 0 }.into());
    assert!((4000..4200).contains(&log.head.block()), "{}", log.head);
}

#[test]
fn zeros_that_follow_the_second_cycle_are_refused() {
    let (mut log, _) = wrapping(1024, 1);
    (log.head.block()..1024).for_each(|block| log.block_mut(block).fill(0));
    assert_eq!(check(&log), LogRecordCheck::Cycles { first: 2, last: 0 }.into());
}

#[test]
fn torn_record_becomes_the_head() {
    for torn in [11, 9, 4] {
        let (mut log, records) = dirty(BLOCKS, 12);
        let end = log.head.block();
        log.block_mut(records[torn] + 5)[77] ^= 1;
        let found = state(&log);
        assert_eq!((found.head.block(), found.torn), (records[torn], Some(end)));
        assert_eq!(found.last_record, records[torn - 1]);
        assert_eq!(found.tail.block(), records[0]);
    }
}

/// Returns a log with one record for each of `numbers`, and the block numbers of these records.
/// Each record holds one whole transaction with that number.
fn committed(numbers: impl IntoIterator<Item = u32>) -> (LogImage, Vec<u32>) {
    let mut log = LogImage::fresh(BLOCKS);
    log.fill(2, 30);
    log.tail = log.head;
    let blocks = numbers.into_iter().map(|id| log.append_transaction(id, &[]).block()).collect();
    (log, blocks)
}

#[test]
fn records_after_zeroed_blocks_are_counted_and_the_log_is_called_torn() {
    for damaged in [4, 9] {
        let (mut log, records) = dirty(BLOCKS, 12);
        let end = log.head.block();
        assert_eq!(count_records_after_head(&log.device(), &state(&log)).unwrap(), 0);
        for block in 5..9 {
            log.block_mut(records[damaged] + block).fill(0);
        }
        let found = state(&log);
        let after = 11 - u32::try_from(damaged).unwrap();
        assert_eq!((found.head.block(), found.torn), (records[damaged], Some(end)));
        assert_eq!(count_records_after_head(&log.device(), &found).unwrap(), after);
    }
}

#[test]
fn hole_before_a_record_whose_tail_is_past_it_is_refused() {
    let mut log = LogImage::fresh(BLOCKS);
    let records: Vec<u32> = (0..6).map(|_| log.append(20)).collect();
    log.tail = Lsn::new(1, records[4]);
    log.append(20);
    log.block_mut(records[2] + 5).fill(0);
    assert!(is_of_record(&check(&log), "proves that it was durable"));
}

/// Checks a log that has lost one record of a large checkpoint without a COMMIT. The records after
/// the hole do not prove that the lost record was durable, because the writer flushes only before
/// the COMMIT.
#[test]
fn records_of_one_large_checkpoint_prove_nothing_about_a_hole() {
    let (mut log, records) = dirty(BLOCKS, 60);
    let end = log.head.block();
    for block in 0..21 {
        log.make_stale(records[2] + block);
    }
    let found = state(&log);
    assert_eq!((found.head.block(), found.torn), (records[2], Some(end)));
    assert_eq!(count_records_after_head(&log.device(), &found).unwrap(), 57);
}

#[test]
fn completed_checkpoints_after_a_hole_prove_nothing() {
    for count in 2..=20 {
        let (mut log, records) = committed(40..40 + count);
        log.make_stale(records[0]);
        assert_eq!(count_records_after_head(&log.device(), &state(&log)).unwrap(), count - 1);
    }
}

#[test]
fn unmount_record_after_a_hole_is_refused() {
    let (mut log, records) = dirty(BLOCKS, 5);
    log.append_unmount();
    log.make_stale(records[3] + 2);
    assert!(is_of_record(&check(&log), "proves that it was durable"));
}

#[test]
fn hole_longer_than_all_that_is_in_flight_is_refused() {
    const HOLE: u32 = 5000;
    let mut log = LogImage::fresh(4 * BLOCKS);
    let mut records = vec![log.append(20)];
    log.tail = Lsn::new(1, records[0]);
    while records.len() < 1200 {
        records.push(log.append(20));
    }
    log.tail = Lsn::new(1, records[1100]);
    log.append(20);
    // The search for the head looks at the block in the middle of the log first.
    for block in 0..HOLE {
        log.block_mut(2 * BLOCKS - 1000 + block).fill(0);
    }
    assert!(is_of_record(&check(&log), "proves that it was durable"));
}

#[test]
fn torn_unmount_record_after_a_whole_one_leaves_the_log_clean() {
    let mut log = LogImage::fresh(BLOCKS);
    log.fill(1, 30);
    log.append_unmount();
    let clean = log.head;
    log.tail = clean;
    let torn = log.append(20);
    log.block_mut(torn + 3)[9] ^= 1;
    let found = state(&log);
    assert!(found.clean);
    assert_eq!((found.head, found.torn), (clean, Some(log.head.block())));
}

/// Checks that a dirty log with a record whose checksum is 0 is refused on a version 5 volume, and
/// accepted on version 4. Otherwise the record is sound.
#[test]
fn record_without_checksum_is_refused_on_version_5_and_accepted_on_version_4() {
    for record in [11, 9, 2, 0] {
        let (mut log, records) = dirty(BLOCKS, 12);
        let sound = state(&log);
        log.block_mut(records[record])[32..36].fill(0);
        assert_eq!(check(&log), LogRecordCheck::NoChecksum.into(), "record {record}");
        let version_4 = log.device_with(RecordChecksums::Optional);
        assert_eq!(find_head_and_tail(&version_4).unwrap(), sound, "record {record}");
    }
}

#[test]
fn unmount_record_without_checksum_leaves_the_log_clean() {
    let mut log = LogImage::fresh(BLOCKS);
    let clean = state(&log);
    log.block_mut(0)[32..36].fill(0);
    assert!(clean.clean);
    assert_eq!(state(&log), clean);
    // The first record of a session follows it, as after mkfs.xfs and a crash.
    log.tail = log.head;
    log.append(20);
    let found = state(&log);
    assert_eq!((found.tail, found.head, found.torn), (log.tail, log.head, None));
}

#[test]
fn damage_further_back_than_a_crash_can_tear_is_refused() {
    let (mut log, records) = dirty(BLOCKS, 12);
    log.block_mut(records[2] + 5)[77] ^= 1;
    assert!(matches!(check(&log), Check::Checksum { .. }));
}

#[test]
fn tail_that_a_torn_write_overwrote_moves() {
    // The log is full up to its tail, and blocks at the tail are gone.
    let mut log = LogImage::fresh(BLOCKS);
    log.fill(2, 20);
    let tail = log.head;
    log.tail = tail;
    let mut records = Vec::new();
    while log.length() - (log.head.block() + log.length() - tail.block()) % log.length() > 60 {
        records.push(log.append(20));
    }
    assert_eq!(state(&log).tail, tail);
    log.block_mut(records[0] + 5)[77] ^= 1;
    assert_eq!(state(&log).tail.block(), records[1]);
    log.block_mut(records[2])[..4].fill(0);
    assert_eq!(state(&log).tail.block(), records[3]);
}

#[test]
fn impossible_logs_are_refused() {
    // Its first block is zero, and others are not.
    for block in [2, 100, BLOCKS - 1] {
        let mut log = LogImage::new(BLOCKS);
        log.block_mut(block)[3] = 1;
        assert_eq!(check(&log), LogRecordCheck::Zeroed.into());
    }

    let mut log = LogImage::fresh(BLOCKS);
    log.block_mut(0)[..8].copy_from_slice(&[0xfe, 0xed, 0xba, 0xbe, 0, 0, 0, 9]);
    assert_eq!(check(&log), LogRecordCheck::Cycles { first: 9, last: 0 }.into());

    let mut log = LogImage::new(BLOCKS);
    for block in 0..BLOCKS {
        log.block_mut(block)[3] = 5;
    }
    assert!(matches!(check(&log), Check::LogRecord(LogRecordCheck::NoRecord { .. })));

    let mut log = LogImage::fresh(BLOCKS);
    log.block_mut(0)[310] ^= 1;
    assert!(matches!(check(&log), Check::ForeignUuid { .. }));
}

/// A change of a record header, and a function that recognises the check which the header must then
/// fail.
type HeaderChange = (fn(&mut [u8]), fn(&Check) -> bool);

/// Changes of a record header that no crash makes.
const HEADER_CHANGES: [HeaderChange; 9] = [
    // Another block, cycle, tail.
    (|header| header[23] ^= 5, |check| is_of_record(check, "its stored position is")),
    (|header| header[19] ^= 1, |check| is_of_record(check, "its stored position is")),
    (|header| header[16..24].fill(0), |check| is_of_record(check, "its stored position is")),
    (|header| header[24..32].fill(0), |check| is_of_record(check, "the tail at")),
    (|header| header[24..32].fill(0xff), |check| is_of_record(check, "the tail at")),
    // Another volume.
    (|header| header[304] ^= 1, |check| matches!(check, Check::ForeignUuid { .. })),
    // A version, a length and a buffer size that do not exist.
    (|header| header[11] = 3, |check| is_of_record(check, "version")),
    (|header| header[12..16].fill(0), |check| is_of_record(check, "payload")),
    (|header| header[320] = 1, |check| is_of_record(check, "buffer")),
];

fn is_of_record(check: &Check, text: &str) -> bool {
    matches!(check, Check::LogRecord(check) if check.to_string().contains(text))
}

#[test]
fn record_with_a_right_checksum_and_a_wrong_header_is_refused_and_not_cut_off() {
    for (change, is_expected) in HEADER_CHANGES {
        for record in [11, 9, 6, 2] {
            let (mut log, records) = dirty(BLOCKS, 12);
            log.edit_header(records[record], change);
            let found = check(&log);
            assert!(is_expected(&found), "record {record}: {found:?}");
        }
    }
}

#[test]
fn record_at_an_overwritten_tail_is_refused_where_its_checksum_holds() {
    // The log is full up to its tail, so that a torn write may have destroyed the record there.
    let mut log = LogImage::fresh(BLOCKS);
    log.fill(2, 20);
    let tail = log.head;
    log.tail = tail;
    let mut records = Vec::new();
    while log.length() - (log.head.block() + log.length() - tail.block()) % log.length() > 60 {
        records.push(log.append(20));
    }
    log.edit_header(records[0], |header| header[23] ^= 5);
    assert!(is_of_record(&check(&log), "its stored position is"));
}

#[test]
fn block_that_should_begin_a_record_and_does_not_is_refused() {
    for record in [11, 9] {
        let (mut log, records) = dirty(BLOCKS, 12);
        let cycle = u32::from_be_bytes(log.block_mut(records[record])[4..8].try_into().unwrap());
        // A block of the log's own cycle, like one inside a record.
        log.block_mut(records[record])[..4].copy_from_slice(&cycle.to_be_bytes());
        let found = check(&log);
        let is_short = is_of_record(&found, "blocks have its cycle");
        assert!(is_short || matches!(found, Check::Magic { .. }), "{found:?}");
    }
}

#[test]
fn tail_where_no_record_starts_is_refused() {
    let (mut log, records) = dirty(BLOCKS, 12);
    log.edit_header(records[11], |header| header[31] = header[31].wrapping_add(3));
    assert!(is_of_record(&check(&log), "has its tail here"));
}

#[test]
fn previous_block_of_a_record_decides_nothing() {
    let (mut log, records) = dirty(BLOCKS, 12);
    let before = state(&log);
    log.edit_header(records[9], |header| header[36..40].fill(7));
    assert_eq!(state(&log), before);
}

#[test]
fn zero_log_is_clean_and_begins_as_after_mkfs() {
    let blank = LogImage::new(BLOCKS);
    let found = state(&blank);
    assert!(found.clean && found.is_blank);
    let fresh = state(&LogImage::fresh(BLOCKS));
    assert_eq!(LogState { is_blank: false, ..found }, LogState { buffer_bytes: 32 << 10, ..fresh });
}

/// Checks a log that is all zeros except for a partly written first record: it counts as blank.
#[test]
fn torn_first_record_leaves_a_blank_log() {
    let whole = LogImage::fresh(BLOCKS);
    let used = whole.head.block();
    assert!(!state(&whole).is_blank);
    for lost in 0..used {
        let mut log = whole.clone();
        log.block_mut(lost).fill(0);
        assert!(state(&log).is_blank, "without block {lost}");
        // With anything after it, it is damage.
        log.block_mut(used)[3] = 1;
        find_head_and_tail(&log.device()).unwrap_err();
    }
}

/// Returns a function that returns random numbers below its argument, in a sequence that follows
/// from `seed`.
fn numbers(seed: u32) -> impl FnMut(u32) -> u32 {
    let mut state = seed;
    move |limit| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % limit
    }
}

#[test]
fn hostile_headers_never_panic() {
    let (sound, records) = dirty(1024, 4);
    for field in (0..328).step_by(4) {
        for word in [0, 1, 511, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
            for record in [0, 2, 3] {
                let mut log = sound.clone();
                let header = log.block_mut(records[record]);
                header[field..field + 4].copy_from_slice(&word.to_be_bytes());
                header[32..36].fill(0);
                let _ = find_head_and_tail(&log.device_with(RecordChecksums::Optional));
            }
        }
    }
}

#[test]
fn hostile_bytes_never_panic() {
    for seed in 0..100 {
        let mut random = numbers(seed);
        let mut log = LogImage::fresh(2048);
        log.size = 32 << 10 << random(4);
        log.fill(1 + random(2), 1 + random(60));
        log.append(1 + random(60));
        for _ in 0..1 + random(40) {
            let block = random(2048);
            let byte = random(48) as usize;
            log.block_mut(block)[byte] = random(256) as u8;
        }
        let _ = find_head_and_tail(&log.device());
    }
    // Random small cycles everywhere, with headers in between.
    for seed in 0..100 {
        let mut random = numbers(seed);
        let mut log = LogImage::new(2048);
        for block in 0..2048 {
            log.block_mut(block)[3] = 1 + random(3) as u8;
        }
        for _ in 0..random(50) {
            log.head = Lsn::new(1 + random(3), random(2048));
            log.tail = Lsn::new(1 + random(2), random(2048));
            log.append(1 + random(8));
        }
        let _ = find_head_and_tail(&log.device());
    }
}
