#![allow(unsafe_code, reason = "the objects of failed calls are freed")]

use std::mem::MaybeUninit;

use ferroxfs::{Error, PosixError};

use super::{Handle, call, call_on, count_on, hand_out};
use crate::error::{Failure, FerroxfsError, FerroxfsErrorKind, ferroxfs_error_kind};
use crate::handle::SharedState;

struct TestHandle(SharedState);

impl Handle for TestHandle {
    fn state(&self) -> &SharedState {
        &self.0
    }
}

/// Runs a call that leaves its error in a place, and returns the kind of the error.
fn kind_of(run: impl FnOnce(&mut MaybeUninit<*mut FerroxfsError>) -> i32) -> FerroxfsErrorKind {
    let mut place = MaybeUninit::new(std::ptr::null_mut());
    assert!(run(&mut place) < 0);
    // SAFETY: The call has failed, so its error object is in the place.
    let error = unsafe { Box::from_raw(place.assume_init()) };
    ferroxfs_error_kind(Some(&error))
}

/// Tests F1 and F2 of the crate.
#[test]
fn panic_becomes_an_error_and_the_volume_refuses_later_calls() {
    let (handle, other) = (TestHandle(SharedState::new()), TestHandle(SharedState::new()));
    let panics = |_: &TestHandle| -> Result<(), Failure> { panic!("on purpose") };
    let kind = kind_of(|error| call_on(Some(&handle), Some(error), panics));
    assert_eq!(kind, FerroxfsErrorKind::Internal);
    assert_eq!(call_on(Some(&handle), None, |_| Ok(())), -libc::EIO);
    assert_eq!(count_on(Some(&handle), None, |_| Ok(1)), -i64::from(libc::EIO));
    assert_eq!(call_on(Some(&other), None, |_| Ok(())), 0);
}

#[test]
fn error_of_an_operation_leaves_the_volume_usable() {
    let handle = TestHandle(SharedState::new());
    let fails = |_: &TestHandle| Err(Failure::from(Error::from(PosixError::NotFound)));
    let kind = kind_of(|error| call_on(Some(&handle), Some(error), fails));
    assert_eq!(kind, FerroxfsErrorKind::Posix);
    assert_eq!(count_on(Some(&handle), None, |_| Ok(7)), 7);
}

#[test]
fn success_clears_the_place_of_the_error() {
    let mut place = MaybeUninit::new(std::ptr::dangling_mut());
    assert_eq!(call(Some(&mut place), || Ok(())), 0);
    // SAFETY: The place was initialised above.
    assert!(unsafe { place.assume_init() }.is_null());
}

#[test]
fn failed_call_leaves_null_instead_of_a_handle() {
    let mut place = MaybeUninit::new(std::ptr::dangling_mut::<u32>());
    let refused = || Err(Failure::Argument("no"));
    assert_eq!(call(None, || hand_out(Some(&mut place), refused)), -libc::EINVAL);
    // SAFETY: The place was initialised above.
    assert!(unsafe { place.assume_init() }.is_null());
}
