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
fn a_lease_goes_with_the_opens() {
    use LeaseMode::{Read, Write};
    let lease = LeaseKind::Lease;
    // what is wanted, the opens with the holder's own for reading, whether it is given
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
fn a_lease_goes_with_other_leases() {
    let lease = LeaseKind::Lease;
    let mut table = LeaseTable::new();
    assert_eq!(set(&mut table, 1, (lease, LeaseMode::Read), ONE_READER), Ok(()));
    assert_eq!(set(&mut table, 2, (lease, LeaseMode::Read), ONE_READER), Ok(()));
    let refused = set(&mut table, 2, (lease, LeaseMode::Write), ONE_READER);
    assert_eq!(refused, Err(LockError::WouldBlock));
    assert!(table.release(1, None));
    assert_eq!(set(&mut table, 2, (lease, LeaseMode::Write), ONE_READER), Ok(()));
    let refused = set(&mut table, 3, (LeaseKind::Delegation, LeaseMode::Read), ONE_READER);
    assert_eq!(refused, Err(LockError::WouldBlock));
}

#[test]
fn what_breaks_what() {
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
fn what_is_not_given_back_in_time_is_taken() {
    let mut table = LeaseTable::new();
    let write = (LeaseKind::Lease, LeaseMode::Write);
    set(&mut table, 1, write, ONE_READER).unwrap();
    let start = Instant::now();
    let first = table.break_for(Breaker::Open(OpenMode::Read), start, GRACE);
    assert_eq!((first.until, first.notices.len()), (Some(start + GRACE), 1));
    assert_eq!(table.mode(1, LeaseKind::Lease), Some(LeaseMode::Read), "what will be left");
    let later = start + GRACE / 2;
    let again = table.break_for(Breaker::Open(OpenMode::Read), later, GRACE);
    assert_eq!((again.until, again.notices.len()), (Some(start + GRACE), 0), "told once");
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
fn a_holder_gives_way_to_readers() {
    let mut table = LeaseTable::new();
    set(&mut table, 1, (LeaseKind::Lease, LeaseMode::Write), ONE_READER).unwrap();
    let now = Instant::now();
    table.break_for(Breaker::Open(OpenMode::Read), now, GRACE);
    let two = Opens { reads: 2, writes: 0 };
    assert_eq!(set(&mut table, 1, (LeaseKind::Lease, LeaseMode::Read), two), Ok(()));
    assert_eq!(table.break_for(Breaker::Open(OpenMode::Read), now, GRACE).until, None);
}
