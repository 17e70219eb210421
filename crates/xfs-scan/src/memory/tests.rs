use super::{Memory, StoredBatch};
use crate::batch::Batch;
use crate::row::Row;

fn batch(first: u64) -> Batch {
    let rows = (first..first + 100).map(|ino| Row { ino, ..Row::default() }).collect();
    Batch { rows, arena: first.to_string().into_bytes() }
}

fn check_round_trip(limit: u64, expect_spilled: bool) {
    let memory = Memory::new(2 * limit, crate::Spill::In(std::env::temp_dir()));
    let stored: Vec<StoredBatch> = (0..8).map(|i| memory.store(&batch(i * 100)).unwrap()).collect();
    let spilled =
        stored.iter().filter(|stored| matches!(stored, StoredBatch::Spilled { .. })).count();
    assert_eq!(spilled != 0, expect_spilled);
    assert_eq!(memory.spilled_bytes() != 0, expect_spilled);
    for (index, stored) in stored.into_iter().enumerate() {
        let (loaded, expected) = (memory.load(stored, 100).unwrap(), batch(index as u64 * 100));
        assert_eq!(loaded.rows, expected.rows);
        assert_eq!(loaded.arena, expected.arena);
    }
    assert!(memory.reserve(usize::try_from(limit).unwrap()), "all memory was released");
}

#[test]
fn batches_round_trip_through_memory() {
    check_round_trip(1 << 20, false);
}

/// Checks I1 of `xfs_scan::row`: a batch that was written to the spill file is the same after it is
/// read back.
#[test]
fn batches_round_trip_through_the_spill_file() {
    check_round_trip(3_000, true);
    check_round_trip(0, true);
}

#[test]
fn missing_spill_directory_is_an_error() {
    let memory = Memory::new(0, crate::Spill::In("/nonexistent".into()));
    assert!(matches!(memory.store(&batch(0)), Err(crate::ScanError::Spill(_))));
}

#[test]
fn tables_that_do_not_fit_are_an_error() {
    let memory = Memory::new(1000, crate::Spill::In(std::env::temp_dir()));
    memory.reserve_table(400).unwrap();
    memory.reserve_table(100).unwrap();
    let error = memory.reserve_table(1).unwrap_err();
    assert!(matches!(error, crate::ScanError::TablesTooLarge { needed: 501, allowed: 500 }));
}
