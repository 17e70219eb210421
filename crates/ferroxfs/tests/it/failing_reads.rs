//! Tests that a failed read is an error of the operation that needed it, and of no other operation.

use std::sync::Arc;
use std::thread;

use ferroxfs::{Error, OpenError, OpenOptions, Volume};
use xfs_testkit::{FailingDevice, Fault, Persistence, RequestKind, golden};

use super::everything::{Shown, read_everything};

const EIO: i32 = 5;

/// Number of threads of a test. Each thread makes a different set of reads fail.
const THREADS: u64 = 4;

/// Returns the golden image on a device whose `nth` read fails. `persistence` says whether all
/// later reads fail too.
fn device(nth: u64, persistence: Persistence) -> Arc<FailingDevice> {
    let device = FailingDevice::new(Arc::new(golden()), nth);
    device.set_fault(Some(Fault { kind: RequestKind::Read, nth, persistence }));
    Arc::new(device)
}

fn open(device: &Arc<FailingDevice>) -> Result<Volume, OpenError> {
    OpenOptions::new().open_device(Arc::<FailingDevice>::clone(device))
}

fn check_eio(error: &Error) {
    assert!(matches!(error, Error::Io(_)), "{error}");
    assert_eq!(error.errno(), EIO, "{error}");
}

/// Checks that each file in `shown` has the same fingerprint as in `whole`, the intact volume.
/// `nth` is the number of the read that failed, for the message.
fn check_true(shown: &Shown, whole: &Shown, nth: u64) {
    for (path, print) in &shown.files {
        assert_eq!(whole.files.get(path), Some(print), "read {nth}: {}", path.display());
    }
}

/// Opens the volume on a device that fails its `nth` read, or all reads from then on, and reads
/// everything. Checks that each failure is reported as EIO, and that all files that could be read
/// have the same fingerprints as in `whole`, the intact volume. `None`: opening the volume failed.
fn check_failing(device: &Arc<FailingDevice>, whole: &Shown, nth: u64) -> Option<Volume> {
    let volume = match open(device) {
        Ok(volume) => volume,
        Err(OpenError::Volume(error) | OpenError::Log(error)) => {
            check_eio(&error);
            return None;
        }
        Err(error) => panic!("read {nth}: {error}"),
    };
    let shown = read_everything(&volume);
    shown.errors.iter().for_each(check_eio);
    check_true(&shown, whole, nth);
    if device.failures() != 0 {
        assert!(!shown.errors.is_empty(), "read {nth} failed without an error");
    }
    Some(volume)
}

/// Makes the device work again, and reads everything, through `volume` or, if that is `None`,
/// through a newly opened volume. Checks that the result equals `whole`, the intact volume.
fn check_recovered(device: &Arc<FailingDevice>, volume: Option<Volume>, whole: &Shown) {
    device.set_fault(None);
    let again = read_everything(&volume.unwrap_or_else(|| open(device).unwrap()));
    assert!(again.errors.is_empty(), "{:?}", again.errors);
    assert_eq!(again.files, whole.files);
}

/// Reads the golden image again and again, each time on a new device. On the first device the first
/// read fails, on the next one the read that is `step` reads later, and so on, until no read is
/// left to fail. Checks the errors with `check_failing`, and then that everything can be read once
/// reads no longer fail.
fn check_every(step: u64, persistence: Persistence) {
    let whole = read_everything(&super::volume());
    assert!(whole.errors.is_empty(), "{:?}", whole.errors);
    let check_from = &|first: u64| {
        for nth in (first..).step_by((THREADS * step) as usize) {
            let device = device(nth, persistence);
            let volume = check_failing(&device, &whole, nth);
            if device.failures() == 0 {
                assert!(nth > 200, "only {nth} reads");
                return;
            }
            check_recovered(&device, volume, &whole);
        }
    };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || check_from(1 + thread * step));
        }
    });
}

#[test]
fn one_failed_read_is_an_error_and_then_all_is_readable() {
    check_every(1, Persistence::Once);
}

#[test]
fn failure_of_all_reads_from_any_point_is_an_error() {
    check_every(13, Persistence::Forever);
}
