use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Breaker, LeaseKind, LeaseMode, LeaseRequest, LeaseTable};
use crate::LockError;
use crate::opens::{OpenMode, Opens};

const GRACE: Duration = Duration::from_secs(45);
const ONE_READER: Opens = Opens { reads: 1, writes: 0 };

fn set(
    table: &mut LeaseTable,
    holder: u64,
    (kind, mode): (LeaseKind, LeaseMode),
    opens: Opens,
) -> Result<(), LockError> {
    let own = OpenMode::Read;
    table.set(LeaseRequest { holder, own, kind, mode, notify: Arc::new(|_| ()) }, opens)
}

#[test]
fn lease_is_granted_unless_an_open_conflicts() {
    use LeaseMode::{Read, Write};
    let lease = LeaseKind::Lease;
    // Mode; the opens, including the holder's open for reading; whether the lease is granted.
    let cases = [
        (Read, Opens { reads: 1, writes: 0 }, true),
        (Read, Opens { reads: 9, writes: 0 }, true),
        (Read, Opens { reads: 1, writes: 1 }, false),
        (Write, Opens { reads: 1, writes: 0 }, true),
        (Write, Opens { reads: 2, writes: 0 }, false),
        (Write, Opens { reads: 1, writes: 1 }, false),
    ];
    for (mode, opens, given) in cases {
        let mut table = LeaseTable::new();
        assert_eq!(set(&mut table, 1, (lease, mode), opens).is_ok(), given, "{mode:?} {opens:?}");
        table.release(1, None);
        assert_eq!(set(&mut table, 1, (LeaseKind::Layout, mode), opens), Ok(()));
    }
}

#[test]
fn lease_is_granted_unless_a_lease_conflicts() {
    let lease = LeaseKind::Lease;
    let mut table = LeaseTable::new();
    assert_eq!(set(&mut table, 1, (lease, LeaseMode::Read), ONE_READER), Ok(()));
    assert_eq!(set(&mut table, 2, (lease, LeaseMode::Read), ONE_READER), Ok(()));
    let refused = set(&mut table, 2, (lease, LeaseMode::Write), ONE_READER);
    assert_eq!(refused, Err(LockError::WouldBlock), "a write lease is the only lease (I1)");
    assert!(table.release(1, None));
    assert_eq!(set(&mut table, 2, (lease, LeaseMode::Write), ONE_READER), Ok(()));
    let refused = set(&mut table, 3, (LeaseKind::Delegation, LeaseMode::Read), ONE_READER);
    assert_eq!(refused, Err(LockError::WouldBlock));
}

#[test]
fn each_operation_breaks_the_listed_leases() {
    use LeaseKind::{Delegation, Layout, Lease};
    use LeaseMode::{Read, Write};
    use OpenMode::{Read as Reads, Write as Writes};
    let cases = [
        (Breaker::Open(Reads), Lease, Read, None),
        (Breaker::Open(Reads), Lease, Write, Some(Some(Read))),
        (Breaker::Open(Writes), Lease, Read, Some(None)),
        (Breaker::Open(Writes), Delegation, Write, Some(None)),
        (Breaker::Open(Writes), Layout, Write, None),
        (Breaker::Change, Lease, Write, None),
        (Breaker::Change, Delegation, Read, Some(None)),
        (Breaker::Change, Layout, Read, None),
        (Breaker::Layout(Reads), Layout, Write, Some(Some(Read))),
        (Breaker::Layout(Writes), Layout, Read, Some(None)),
        (Breaker::Layout(Writes), Lease, Write, None),
    ];
    for (breaker, kind, mode, left) in cases {
        let mut table = LeaseTable::new();
        set(&mut table, 1, (kind, mode), ONE_READER).unwrap();
        assert_eq!(table.stands_against(breaker), left.is_some(), "{breaker:?} {kind:?} {mode:?}");
        let due = table.break_for(breaker, Instant::now(), GRACE);
        let notices: Vec<_> = due.notices.iter().map(|(_, left)| *left).collect();
        assert_eq!(notices, Vec::from_iter(left), "{breaker:?} {kind:?} {mode:?}");
        assert_eq!(due.until.is_some(), left.is_some());
    }
}

#[test]
fn lease_not_released_in_time_expires() {
    let mut table = LeaseTable::new();
    let write = (LeaseKind::Lease, LeaseMode::Write);
    set(&mut table, 1, write, ONE_READER).unwrap();
    let start = Instant::now();
    let first = table.break_for(Breaker::Open(OpenMode::Read), start, GRACE);
    assert_eq!((first.until, first.notices.len()), (Some(start + GRACE), 1));
    assert_eq!(
        table.mode(1, LeaseKind::Lease),
        Some(LeaseMode::Read),
        "the mode that will be left"
    );
    let later = start + GRACE / 2;
    let again = table.break_for(Breaker::Open(OpenMode::Read), later, GRACE);
    assert_eq!(
        (again.until, again.notices.len()),
        (Some(start + GRACE), 0),
        "the holder is notified once (I2)"
    );
    assert_eq!(set(&mut table, 1, write, ONE_READER), Err(LockError::WouldBlock));
    let over = table.break_for(Breaker::Open(OpenMode::Read), start + GRACE, GRACE);
    assert_eq!(over.until, None);
    assert_eq!(table.mode(1, LeaseKind::Lease), Some(LeaseMode::Read));
    let all = table.break_for(Breaker::Open(OpenMode::Write), start + GRACE, GRACE);
    assert_eq!((all.until, all.notices.len()), (Some(start + 2 * GRACE), 1));
    assert_eq!(table.mode(1, LeaseKind::Lease), None);
    table.break_for(Breaker::Open(OpenMode::Write), start + 2 * GRACE, GRACE);
    assert!(table.is_empty());
}

#[test]
fn holder_that_downgrades_does_not_block_readers() {
    let mut table = LeaseTable::new();
    set(&mut table, 1, (LeaseKind::Lease, LeaseMode::Write), ONE_READER).unwrap();
    let now = Instant::now();
    table.break_for(Breaker::Open(OpenMode::Read), now, GRACE);
    let two = Opens { reads: 2, writes: 0 };
    assert_eq!(set(&mut table, 1, (LeaseKind::Lease, LeaseMode::Read), two), Ok(()));
    assert_eq!(table.break_for(Breaker::Open(OpenMode::Read), now, GRACE).until, None);
}
