use super::{LogConfig, MIN_BUFFER_BYTES};
use crate::device::LogGeometry;
use crate::testing::UUID;
use xfs_format::DiskAddr;
use xfs_format::log_record::{LogVersion, RecordChecksums};

const MIB: u64 = 1 << 20;

fn some_config() -> LogConfig {
    LogConfig {
        buffer_bytes: MIN_BUFFER_BYTES,
        buffers: 2,
        slots: 1,
        largest_bytes: 0,
        checkpoint_bytes: u64::MAX,
        most_items: u64::MAX,
        threads: 0,
        by_count: false,
    }
}

/// Checks that tail pushes keep `expected` bytes free in a log of `log_bytes` bytes whose
/// checkpoints are written when they reach `checkpoint_bytes`.
fn check_free(checkpoint_bytes: u64, log_bytes: u64, expected: u64) {
    let config = LogConfig { checkpoint_bytes, ..some_config() };
    assert_eq!(config.free_bytes(log_bytes), expected, "{log_bytes}");
}

#[test]
fn free_bytes_hold_a_whole_checkpoint_and_the_reserve_for_chains() {
    for log_bytes in [MIB, 8 * MIB, 64 * MIB, 256 * MIB] {
        check_free(u64::MAX, log_bytes, log_bytes / 8 * 3);
    }
    // A checkpoint grows no further.
    check_free(u64::MAX, 384 * MIB, (64 + 48) * MIB);
    for log_bytes in [512 * MIB, 2040 * MIB] {
        check_free(u64::MAX, log_bytes, log_bytes / 4);
    }
    check_free(MIB, 64 * MIB, 16 * MIB);
}

#[test]
fn memory_limits_items_and_checkpoints() {
    let config = some_config();
    let limited = config.clone().with_memory(32 * MIB, 2048);
    assert_eq!((limited.most_items, limited.checkpoint_bytes), (16_384, 2 * MIB));
    let limited = config.with_memory(1, 0);
    assert_eq!((limited.most_items, limited.checkpoint_bytes), (1, 256 << 10));
}

/// Checks that the configuration of a by-count log does not depend on the number of processors: it
/// has one slot and one thread.
#[test]
fn configuration_by_count_is_the_same_on_any_machine() {
    let geometry = LogGeometry {
        start: DiskAddr(0),
        length_blocks: 4096,
        sector_bytes: 512,
        stripe_unit_bytes: 1,
        uuid: UUID,
        version: LogVersion::V2,
        checksums: RecordChecksums::Required,
    };
    let (usual, config) = (LogConfig::new(&geometry), LogConfig::by_count(&geometry));
    assert_eq!((config.slots, config.threads, config.by_count), (1, 1, true));
    assert_eq!((config.buffer_bytes, config.buffers), (usual.buffer_bytes, usual.buffers));
    assert_eq!(config.largest_bytes, usual.largest_bytes);
    assert_eq!(config.checkpoint_bytes, usual.checkpoint_bytes);
    assert!(!usual.by_count && usual.slots > 1, "several slots share the work");
}
