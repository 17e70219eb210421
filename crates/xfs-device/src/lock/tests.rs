//! Tests of the locks with which several users of one file announce the bytes that they use. Each
//! user has a descriptor of its own.

use std::fs::File;

use super::{MAX_SECTORS, READERS, WRITERS, announce, conflicts, sectors, withdraw};
use crate::file::DeviceAccess::{self, ReadOnly, ReadWrite};
use crate::stack::Span;

const FIRST: Span = Span { start: 1 << 20, end: 2 << 20 };
const SECOND: Span = Span { start: 2 << 20, end: 3 << 20 };
const ACROSS: Span = Span { start: (2 << 20) - 1, end: (2 << 20) + 1 };

/// Checks whether a second user may announce its span of bytes while the first user has announced
/// its own. `expected` is the right answer. After the first user has withdrawn, the second user may
/// always announce its span.
fn check_beside(first: (Span, DeviceAccess), second: (Span, DeviceAccess), expected: bool) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let open = || File::open(file.path()).unwrap();
    let (one, two) = (open(), open());
    assert!(announce(&one, first.0, first.1));
    assert_eq!(announce(&two, second.0, second.1), expected, "{first:?} {second:?}");
    withdraw(&two);
    withdraw(&one);
    assert!(announce(&two, second.0, second.1), "{first:?} was withdrawn");
}

#[test]
fn writer_excludes_others_from_its_span() {
    for (first, second) in [(Span::WHOLE, Span::WHOLE), (FIRST, FIRST), (FIRST, ACROSS)] {
        check_beside((first, ReadWrite), (second, ReadWrite), false);
        check_beside((first, ReadWrite), (second, ReadOnly), false);
        check_beside((first, ReadOnly), (second, ReadWrite), false);
        check_beside((first, ReadOnly), (second, ReadOnly), true);
    }
}

#[test]
fn whole_file_conflicts_with_each_span() {
    for (first, second) in [(Span::WHOLE, FIRST), (SECOND, Span::WHOLE)] {
        check_beside((first, ReadWrite), (second, ReadWrite), false);
        check_beside((first, ReadWrite), (second, ReadOnly), false);
        check_beside((first, ReadOnly), (second, ReadWrite), false);
        check_beside((first, ReadOnly), (second, ReadOnly), true);
    }
}

#[test]
fn disjoint_spans_are_used_at_the_same_time() {
    for (one, two) in [(ReadWrite, ReadWrite), (ReadWrite, ReadOnly), (ReadOnly, ReadWrite)] {
        check_beside((FIRST, one), (SECOND, two), true);
    }
}

#[test]
fn second_descriptor_of_one_open_does_not_conflict() {
    let file = tempfile::tempfile().unwrap();
    assert!(announce(&file, Span::WHOLE, ReadWrite));
    assert!(announce(&file.try_clone().unwrap(), Span::WHOLE, ReadWrite));
}

#[test]
fn empty_span_locks_nothing() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (one, two) = (File::open(file.path()).unwrap(), File::open(file.path()).unwrap());
    // Writers of parts of a file share QEMU's lock for writers.
    assert!(announce(&one, Span { start: 512, end: 512 }, ReadWrite));
    assert!(announce(&two, FIRST, ReadWrite));
}

#[test]
fn announcements_of_readers_and_writers_are_disjoint() {
    let whole = sectors(READERS, Span::WHOLE);
    assert_eq!((whole.start, whole.end), (READERS, READERS + MAX_SECTORS));
    assert!(whole.end <= WRITERS);
    let across = sectors(0, Span { start: 511, end: 513 });
    assert_eq!((across.start, across.end), (0, 2));
}

#[test]
fn locks_listed_by_the_kernel_are_parsed() {
    let (device, inode) = (rustix::fs::makedev(0, 0x27), 516);
    let flock = "1: FLOCK  ADVISORY  WRITE 708 00:27:516 0 EOF";
    assert!(
        conflicts(flock, device, inode, ReadOnly) && conflicts(flock, device, inode, ReadWrite)
    );
    let shared = "2: FLOCK  ADVISORY  READ 708 00:27:516 0 EOF";
    assert!(
        !conflicts(shared, device, inode, ReadOnly) && conflicts(shared, device, inode, ReadWrite)
    );
    let writer = format!("3: OFDLCK ADVISORY  READ -1 00:27:516 {WRITERS} {}", WRITERS + 7);
    assert!(
        conflicts(&writer, device, inode, ReadOnly) && conflicts(&writer, device, inode, ReadWrite)
    );
    let reader = format!("3: OFDLCK ADVISORY  READ -1 00:27:516 {READERS} {}", READERS + 7);
    assert!(
        !conflicts(&reader, device, inode, ReadOnly)
            && conflicts(&reader, device, inode, ReadWrite)
    );
    let waiting = "1: -> FLOCK  ADVISORY  WRITE 708 00:27:516 0 EOF";
    let other = "1: FLOCK  ADVISORY  WRITE 708 00:27:517 0 EOF";
    let posix = "1: POSIX  ADVISORY  WRITE 708 00:27:516 0 EOF";
    for line in [waiting, other, posix, "", "1:"] {
        assert!(!conflicts(line, device, inode, ReadWrite), "{line}");
    }
}
