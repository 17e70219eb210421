//! Tests of transactions that are large in relation to the log.

use xfs_buffer::Error;
use xfs_format::superblock::Unsupported;

use super::rig::{Rig, UNIT_BYTES, check_settled};
use crate::Log;
use crate::log::LogConfig;

const LOG_BLOCKS: u32 = 4000;
const LOG_BYTES: u64 = LOG_BLOCKS as u64 * 512;

fn open(rig: &Rig) -> Log {
    // No slot caches grant.
    rig.open(&LogConfig { largest_bytes: LOG_BYTES, ..rig.config() })
}

#[test]
fn reservation_that_the_log_cannot_hold_is_refused() {
    let log = open(&Rig::new(LOG_BLOCKS));
    for bytes in [LOG_BYTES / 2, LOG_BYTES, u64::from(u32::MAX)] {
        for steps in [1, 6] {
            let refused = log.reserve(bytes, steps).unwrap_err();
            let reason = Unsupported::LogTooSmall { bytes: 0, log_bytes: LOG_BYTES };
            let Error::Unsupported(Unsupported::LogTooSmall { bytes: unit, .. }) = refused else {
                panic!("found {refused}, expected {reason}")
            };
            assert!(unit > bytes && unit > LOG_BYTES / 2, "{refused}");
        }
        log.reserve_for_recovery(bytes.max(LOG_BYTES)).unwrap_err();
        log.suspend().unwrap();
        log.reserve_while_suspended(bytes).unwrap_err();
        log.resume();
    }
    assert_eq!(log.space().granted, 0);
    log.release(log.reserve(UNIT_BYTES, 1).unwrap());
    check_settled(&log);
}

/// Checks that no transaction can reserve space in a log of 512 KiB with a stripe unit of 256 KiB,
/// and that the refusal comes at once. A transaction may take half of the log, and its padding
/// alone, two stripe units, is more.
#[test]
fn stripe_unit_as_large_as_the_log_is_refused_without_waiting() {
    let log = Rig::with_stripe_unit(1024, 256 << 10);
    let log = log.open(&log.config());
    let refused = log.reserve(UNIT_BYTES, 1).unwrap_err();
    assert!(matches!(refused, Error::Unsupported(Unsupported::LogTooSmall { .. })), "{refused}");
    log.suspend().unwrap();
    log.reserve_while_suspended(UNIT_BYTES).unwrap_err();
    log.resume();
}

/// Checks that a long chain reserves space only for as many transactions as a third of the log
/// holds, and waits for space at each further one.
#[test]
fn chain_is_promised_at_most_a_third_of_the_log() {
    let log = open(&Rig::new(LOG_BLOCKS));
    let bytes = LOG_BYTES / 10;
    let one = log.reserve(bytes, 1).unwrap();
    let unit = log.space().granted;
    log.release(one);
    for (steps, promised) in [(1, 1), (2, 2), (3, 3), (4, 3), (1000, 3)] {
        let mut ticket = log.reserve(bytes, steps).unwrap();
        assert_eq!(log.space().granted, promised * unit, "{steps} steps");
        (0..10).for_each(|_| log.roll(&mut ticket).unwrap());
        log.release(ticket);
        assert_eq!(log.space().granted, 0);
    }
    // One step is promised, however large.
    let ticket = log.reserve(LOG_BYTES / 10 * 4, 5).unwrap();
    assert!(log.space().granted > LOG_BYTES / 10 * 4);
    log.release(ticket);
}
