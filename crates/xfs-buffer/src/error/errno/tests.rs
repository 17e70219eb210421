use std::error::Error as _;
use std::io;

use xfs_format::DiskAddr;

use crate::{Error, IoError, PosixError};

#[test]
fn io_error_of_an_errno_has_its_kind_and_the_message_as_source() {
    let error = io::Error::from(Error::from(PosixError::NotFound));
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert_eq!(error.to_string(), PosixError::NotFound.to_string());
    let source = error.get_ref().and_then(|source| source.downcast_ref::<Error>());
    assert!(matches!(source, Some(Error::Posix(PosixError::NotFound))));
}

#[test]
fn io_error_of_the_device_keeps_the_kind_of_the_host() {
    let source = io::Error::from_raw_os_error(28);
    let failed = IoError::new("write", DiskAddr(8), 512, source);
    let error = Error::from(failed);
    assert_eq!(error.errno(), 28);
    let error = io::Error::from(error);
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(error.source().is_some(), "the cause of {error} is lost");
}

#[test]
fn shutdown_is_eio() {
    assert_eq!(Error::Shutdown.errno(), 5);
}
