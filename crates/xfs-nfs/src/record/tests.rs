use std::io::Cursor;

use super::{MOST_BYTES, read, write};

#[test]
fn records_follow_each_other() {
    let mut stream = Vec::new();
    write(&mut stream, b"first").unwrap();
    write(&mut stream, b"second one").unwrap();
    let (mut stream, mut record) = (Cursor::new(stream), Vec::new());
    assert!(read(&mut stream, &mut record).unwrap());
    assert_eq!(record, b"first");
    assert!(read(&mut stream, &mut record).unwrap());
    assert_eq!(record, b"second one");
    assert!(!read(&mut stream, &mut record).unwrap());
}

#[test]
fn fragments_of_a_record_are_joined() {
    let mut stream = Cursor::new(b"\0\0\0\x03abc\0\0\0\0\x80\0\0\x02de".to_vec());
    let mut record = Vec::new();
    assert!(read(&mut stream, &mut record).unwrap());
    assert_eq!(record, b"abcde");
}

#[test]
fn record_that_ends_early_is_an_error() {
    let mut record = Vec::new();
    for whole in [b"\x80\0\0\x03ab".as_slice(), b"\x80\0", b"\0\0\0\x01a"] {
        assert!(read(&mut Cursor::new(whole), &mut record).is_err(), "{whole:?}");
    }
}

/// Checks I1 of the crate.
#[test]
fn record_that_is_too_long_is_refused_before_its_bytes() {
    let claimed = u32::try_from(MOST_BYTES + 1).unwrap() | 1 << 31;
    let mut record = Vec::new();
    let error = read(&mut Cursor::new(claimed.to_be_bytes()), &mut record).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    assert!(record.capacity() <= MOST_BYTES);
}
