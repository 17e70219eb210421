//! Tests of the printed form of failures.

use std::ffi::OsStr;
use std::io;

use super::{Failure, without_numbers};

#[test]
fn errno_numbers_are_not_printed() {
    let error = io::Error::from_raw_os_error(2);
    let said = Failure::host(OsStr::new("a"), &error).to_string();
    assert_eq!(said, "ferroxfs: a: No such file or directory");
    for text in ["a (os error b) c", "a (os error ", "(os error 2)", " (os error 2x)"] {
        assert_eq!(without_numbers(text), text);
    }
    assert_eq!(without_numbers("a (os error 2), b (os error 13)"), "a, b");
}
