use xfs_testkit::Prng;

use super::{HeldLock, LockMode, Owner, RecordLocks};
use crate::range::LockRange;

/// Length of the file in the tests, in bytes.
const BYTES: u64 = 12;
const OWNERS: [Owner; 3] = [Owner::Process(1), Owner::Process(2), Owner::Description(1)];

fn held(owner: u64, start: u64, length: u64, mode: LockMode) -> HeldLock {
    HeldLock { owner: Owner::Process(owner), range: LockRange::new(start, length).unwrap(), mode }
}

fn ranges(locks: &RecordLocks) -> Vec<(u64, u64, LockMode)> {
    let mut ranges: Vec<_> = locks
        .held()
        .iter()
        .map(|lock| (lock.range.start(), lock.range.last(), lock.mode))
        .collect();
    ranges.sort_by_key(|range| range.0);
    ranges
}

#[test]
fn range_has_a_first_and_a_last_byte() {
    assert_eq!(LockRange::new(0, 0), Some(LockRange::WHOLE));
    assert_eq!(LockRange::new(5, 0).map(LockRange::length_bytes), Some(0));
    assert_eq!(LockRange::new(5, 3).map(LockRange::last), Some(7));
    assert_eq!(LockRange::new(i64::MAX as u64, 1).map(LockRange::last), Some(i64::MAX as u64));
    assert_eq!(LockRange::new(i64::MAX as u64, 2), None);
    assert_eq!(LockRange::new(u64::MAX, 2), None);
    assert_eq!(LockRange::new(u64::MAX, 0), None);
    assert_eq!(LockRange::between(3, 2), None);
}

#[test]
fn neighbours_of_one_mode_are_joined() {
    let mut locks = RecordLocks::new();
    locks.lock(held(1, 0, 4, LockMode::Shared));
    locks.lock(held(1, 8, 4, LockMode::Shared));
    locks.lock(held(1, 4, 4, LockMode::Shared));
    assert_eq!(ranges(&locks), [(0, 11, LockMode::Shared)]);
    locks.lock(held(1, 4, 2, LockMode::Exclusive));
    let split = [(0, 3, LockMode::Shared), (4, 5, LockMode::Exclusive), (6, 11, LockMode::Shared)];
    assert_eq!(ranges(&locks), split);
    locks.lock(held(1, 4, 2, LockMode::Shared));
    assert_eq!(ranges(&locks), [(0, 11, LockMode::Shared)]);
    assert!(locks.unlock(Owner::Process(1), LockRange::new(3, 1).unwrap()));
    assert_eq!(ranges(&locks), [(0, 2, LockMode::Shared), (4, 11, LockMode::Shared)]);
    assert!(!locks.unlock(Owner::Process(2), LockRange::WHOLE));
}

/// A simple model of `RecordLocks`: for each owner and each byte, the mode of the owner's lock on
/// the byte.
type Model = [[Option<LockMode>; BYTES as usize]; OWNERS.len()];

/// Applies the same random calls to `RecordLocks` and to a table with the lock of each owner on
/// each byte. Checks that both have the same locks.
#[test]
fn random_locks_equal_a_table_of_bytes() {
    let mut random = Prng::new(0x10c4);
    for _ in 0..300 {
        let mut locks = RecordLocks::new();
        let mut model: Model = [[None; BYTES as usize]; OWNERS.len()];
        for _ in 0..40 {
            let which = random.within(0..OWNERS.len());
            let start = random.number() % BYTES;
            let range = LockRange::new(start, 1 + random.number() % (BYTES - start)).unwrap();
            let bytes = range.start() as usize..=range.last() as usize;
            let mode = match random.within(0..3) {
                0 => None,
                1 => Some(LockMode::Shared),
                _ => Some(LockMode::Exclusive),
            };
            if let Some(mode) = mode {
                let wanted = HeldLock { owner: OWNERS[which], range, mode };
                let in_the_way = model.iter().enumerate().any(|(other, locked)| {
                    let conflicts = |held: &Option<LockMode>| {
                        held.is_some_and(|held| {
                            held == LockMode::Exclusive || mode == LockMode::Exclusive
                        })
                    };
                    other != which && locked[bytes.clone()].iter().any(conflicts)
                });
                assert_eq!(locks.conflict(wanted).is_some(), in_the_way, "{wanted:?} (I2)");
                if in_the_way {
                    continue;
                }
                locks.lock(wanted);
            } else {
                locks.unlock(OWNERS[which], range);
            }
            model[which][bytes].fill(mode);
            check(&locks, &model);
        }
    }
}

fn check(locks: &RecordLocks, model: &Model) {
    for (owner, bytes) in OWNERS.iter().zip(model) {
        for (byte, mode) in (0..).zip(bytes) {
            let byte = LockRange::new(byte, 1).unwrap();
            let found: Vec<_> = locks
                .held()
                .iter()
                .filter(|lock| lock.owner == *owner && lock.range.overlaps(byte))
                .map(|lock| lock.mode)
                .collect();
            assert_eq!(found.as_slice(), mode.as_slice(), "a byte is locked at most once (I1)");
        }
        let runs = bytes.chunk_by(|left, right| left == right).filter(|run| run[0].is_some());
        let ranges = locks.held().iter().filter(|lock| lock.owner == *owner);
        assert_eq!(ranges.count(), runs.count(), "neighbours are joined (I3)");
    }
}
