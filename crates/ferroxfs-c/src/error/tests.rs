use std::io;

use super::{Failure, FerroxfsError, FerroxfsErrorKind, text};

#[track_caller]
fn check(failure: Failure, errno: i32, kind: FerroxfsErrorKind) {
    let error = FerroxfsError::from(&failure);
    assert_eq!((error.errno, error.kind), (errno, kind), "{failure}");
    assert!(error.damage.is_none());
}

#[test]
fn every_failure_has_an_errno_and_a_kind() {
    let host = || io::Error::from_raw_os_error(libc::ENOSPC);
    check(host().into(), libc::ENOSPC, FerroxfsErrorKind::Io);
    check(io::Error::other("text").into(), libc::EIO, FerroxfsErrorKind::Io);
    check(ferroxfs::Error::Shutdown.into(), libc::EIO, FerroxfsErrorKind::Shutdown);
    check(Failure::Argument("no"), libc::EINVAL, FerroxfsErrorKind::Argument);
    check(Failure::Busy(2), libc::EBUSY, FerroxfsErrorKind::Posix);
    check(Failure::Unusable, libc::EIO, FerroxfsErrorKind::Internal);
    let missing = ferroxfs::Volume::open("/nowhere/at/all").err().unwrap();
    check(missing.into(), libc::ENOENT, FerroxfsErrorKind::Io);
}

#[test]
fn nul_in_a_message_does_not_end_it() {
    assert_eq!(text("a\0b").to_bytes(), b"a b");
}
