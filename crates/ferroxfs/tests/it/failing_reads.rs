//! A read that fails is an error of what needed it, and of nothing else.

use std::sync::Arc;
use std::thread;

use ferroxfs::{Error, OpenError, OpenOptions, Volume, errno};
use xfs_testkit::{FailingDevice, Fault, Persistence, RequestKind, golden};

use super::everything::{Shown, read_everything};

const EIO: i32 = 5;

/// So many failures are tried at once.
const THREADS: u64 = 4;

/// The golden image on a device whose `nth` read fails.
fn device(nth: u64, persistence: Persistence) -> Arc<FailingDevice> {
    let device = FailingDevice::new(Arc::new(golden()), nth);
    device.set_fault(Some(Fault { kind: RequestKind::Read, nth, persistence }));
    Arc::new(device)
}

fn open(device: &Arc<FailingDevice>) -> Result<Volume, OpenError> {
    OpenOptions::new().with_devices(Arc::<FailingDevice>::clone(device), None).volume()
}

fn check_eio(error: &Error) {
    assert!(matches!(error, Error::Io(_)), "{error}");
    assert_eq!(errno(error), EIO, "{error}");
}

/// Nothing is shown that is not so.
fn check_true(shown: &Shown, whole: &Shown, nth: u64) {
    for (path, print) in &shown.files {
        assert_eq!(whole.files.get(path), Some(print), "read {nth}: {}", path.display());
    }
}

/// Opens the volume and reads everything while reads fail; `None` if it could not be opened.
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
        assert!(!shown.errors.is_empty(), "read {nth} failed and nobody was told");
    }
    Some(volume)
}

/// On the same volume, or on one that can be opened now.
fn check_recovered(device: &Arc<FailingDevice>, volume: Option<Volume>, whole: &Shown) {
    device.set_fault(None);
    let again = read_everything(&volume.unwrap_or_else(|| open(device).unwrap()));
    assert!(again.errors.is_empty(), "{:?}", again.errors);
    assert_eq!(again.files, whole.files);
}

/// Lets every `step`th read fail, each on a device of its own, until there are no more reads.
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
fn any_one_read_may_fail_and_all_is_well_afterwards() {
    check_every(1, Persistence::Once);
}

#[test]
fn all_reads_may_fail_from_any_on() {
    check_every(13, Persistence::Forever);
}
