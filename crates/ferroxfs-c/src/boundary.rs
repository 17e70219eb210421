//! The boundary between C and Rust: pointers become references and slices, panics become errors.
//!
//! Owns: every conversion of a pointer of the caller, except that of a handle, whose type does it:
//! `Option<&T>` is a pointer that may be NULL.
#![allow(unsafe_code, reason = "pointers and lengths of the caller become slices and boxes")]

use std::ffi::{CStr, OsStr, c_char};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::error::{ErrorOut, Failure, FerroxfsError};
use crate::handle::SharedState;

/// A place of the caller for a result. C may pass NULL.
pub(crate) type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// The length that stands for "up to the NUL": `FERROXFS_STRLEN` of the header.
const UP_TO_NUL: usize = usize::MAX;

/// A handle on a volume, or on something in one.
pub(crate) trait Handle {
    /// Returns the state that all handles of the volume share.
    fn state(&self) -> &SharedState;
}

/// Runs a call that belongs to no volume. Returns 0, or the negative errno. A panic is an error
/// (F1 of the crate).
pub(crate) fn call(error: ErrorOut<'_>, work: impl FnOnce() -> Result<(), Failure>) -> i32 {
    report(error, caught(work)).map_or_else(|errno| -errno, |()| 0)
}

/// Runs a call for the volume of `handle`. Returns 0, or the negative errno.
pub(crate) fn call_on<H: Handle>(
    handle: Option<&H>,
    error: ErrorOut<'_>,
    work: impl FnOnce(&H) -> Result<(), Failure>,
) -> i32 {
    report(error, guarded(handle, work)).map_or_else(|errno| -errno, |()| 0)
}

/// Runs a call for the volume of `handle` that returns a number of bytes or entries. Returns this
/// number, or the negative errno.
pub(crate) fn count_on<H: Handle>(
    handle: Option<&H>,
    error: ErrorOut<'_>,
    work: impl FnOnce(&H) -> Result<usize, Failure>,
) -> i64 {
    let count = report(error, guarded(handle, work));
    count.map_or_else(|errno| -i64::from(errno), |count| i64::try_from(count).unwrap_or(i64::MAX))
}

/// Runs `work` unless an earlier call for this volume has panicked (F2 of the crate).
fn guarded<H: Handle, R>(
    handle: Option<&H>,
    work: impl FnOnce(&H) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let handle = handle.ok_or(Failure::Argument("the handle is NULL"))?;
    if handle.state().is_unusable() {
        return Err(Failure::Unusable);
    }
    let outcome = caught(|| work(handle));
    if matches!(outcome, Err(Failure::Internal(_))) {
        handle.state().make_unusable();
    }
    outcome
}

fn caught<R>(work: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
    // The volume is unusable after a panic, so that no call sees what the panic has left (F2).
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Failure::Internal(text.unwrap_or_else(|| "no message".to_owned())))
    })
}

/// Leaves the error, or NULL, in the caller's place. An error becomes its errno.
fn report<R>(place: ErrorOut<'_>, outcome: Result<R, Failure>) -> Result<R, i32> {
    let (object, outcome) = match outcome {
        Ok(result) => (std::ptr::null_mut(), Ok(result)),
        Err(failure) => {
            // An object without a place would never be freed.
            let object = place.as_ref().map(|_| Box::new(FerroxfsError::from(&failure)));
            (object.map_or(std::ptr::null_mut(), Box::into_raw), Err(failure.errno()))
        }
    };
    if let Some(place) = place {
        place.write(object);
    }
    outcome
}

/// Returns the caller's place for a result that a function cannot do without.
pub(crate) fn required<'a, T>(out: &'a mut Out<'_, T>) -> Result<&'a mut MaybeUninit<T>, Failure> {
    out.as_deref_mut().ok_or(Failure::Argument("the place for the result is NULL"))
}

/// Leaves a new handle in the caller's place. `make` runs only if there is a place.
pub(crate) fn hand_out<T>(
    mut out: Out<'_, *mut T>,
    make: impl FnOnce() -> Result<T, Failure>,
) -> Result<(), Failure> {
    let place = required(&mut out)?;
    // A caller may free the result without a look at the status.
    let place = place.write(std::ptr::null_mut());
    *place = Box::into_raw(Box::new(make()?));
    Ok(())
}

/// Returns the bytes of the caller, without a copy.
///
/// # Safety
///
/// `bytes` is NULL, or `length` bytes can be read from it while the result is used, and nothing
/// writes to them. If `length` is `UP_TO_NUL`, a NUL ends them.
pub(crate) unsafe fn bytes<'a>(bytes: *const u8, length: usize) -> Result<&'a [u8], Failure> {
    if bytes.is_null() {
        return match length {
            0 => Ok(&[]),
            _ => Err(Failure::Argument("a pointer to bytes is NULL")),
        };
    }
    if length == UP_TO_NUL {
        // SAFETY: The caller says that a NUL ends the bytes.
        return Ok(unsafe { CStr::from_ptr(bytes.cast()) }.to_bytes());
    }
    if isize::try_from(length).is_err() {
        return Err(Failure::Argument("a length is larger than the address space"));
    }
    // SAFETY: The pointer is not NULL, the length fits, and the caller says that the bytes can be
    // read.
    Ok(unsafe { std::slice::from_raw_parts(bytes, length) })
}

/// Returns the numbers of the caller, without a copy.
///
/// # Safety
///
/// `first` is NULL, or `count` numbers can be read from it while the result is used, and nothing
/// writes to them.
pub(crate) unsafe fn numbers<'a>(first: *const u32, count: usize) -> Result<&'a [u32], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if !first.is_aligned() || first.is_null() {
        return Err(Failure::Argument("a pointer to numbers is NULL, or not aligned"));
    }
    if count > isize::MAX.unsigned_abs() / size_of::<u32>() {
        return Err(Failure::Argument("a length is larger than the address space"));
    }
    // SAFETY: The pointer is aligned and not NULL, the length fits, and the caller says that the
    // numbers can be read.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// Returns a name or a path inside of the volume, without a copy.
///
/// # Safety
///
/// As for [`bytes`].
pub(crate) unsafe fn name<'a>(name: *const c_char, length: usize) -> Result<&'a OsStr, Failure> {
    // SAFETY: As the caller says.
    unsafe { bytes(name.cast(), length) }.map(OsStr::from_bytes)
}

/// Returns a path of the host, which a NUL ends.
///
/// # Safety
///
/// `path` is NULL, or a NUL ends the bytes that it points to, and nothing writes to them while the
/// result is used.
pub(crate) unsafe fn host_path<'a>(path: *const c_char) -> Result<&'a Path, Failure> {
    // SAFETY: As the caller says.
    unsafe { name(path, UP_TO_NUL) }.map(Path::new)
}

/// Returns the buffer of the caller for bytes. Its contents are arbitrary, and are only written to.
///
/// # Safety
///
/// `buffer` is NULL, or `capacity` bytes can be written from it on, and nothing else uses them
/// while the result is used.
pub(crate) unsafe fn buffer<'a>(buffer: *mut u8, capacity: usize) -> Result<&'a mut [u8], Failure> {
    if buffer.is_null() {
        return match capacity {
            0 => Ok(&mut []),
            _ => Err(Failure::Argument("the buffer is NULL")),
        };
    }
    if isize::try_from(capacity).is_err() {
        return Err(Failure::Argument("a length is larger than the address space"));
    }
    // SAFETY: The pointer is not NULL, the length fits, and the caller says that the bytes are its
    // own. Bytes of another language have some value each, and every value is a `u8`.
    Ok(unsafe { std::slice::from_raw_parts_mut(buffer, capacity) })
}

/// Copies `value` into the caller's buffer and returns its length. With a capacity of 0 only the
/// length is returned.
///
/// # Safety
///
/// As for [`buffer`].
pub(crate) unsafe fn copy_out(
    value: &[u8],
    place: *mut u8,
    capacity: usize,
) -> Result<usize, Failure> {
    if capacity == 0 {
        return Ok(value.len());
    }
    if value.len() > capacity {
        return Err(Failure::TooSmall { needed: value.len(), capacity });
    }
    // SAFETY: As the caller says; no more than the capacity is used.
    unsafe { buffer(place, value.len()) }?.copy_from_slice(value);
    Ok(value.len())
}

/// Frees an object that a function of this library has handed out.
///
/// # Safety
///
/// `object` is NULL, or came from [`hand_out`] or [`report`] and was not freed.
pub(crate) unsafe fn free<T>(object: *mut T) {
    // SAFETY: The object came from `Box::into_raw`, and the caller gives it back.
    let object = (!object.is_null()).then(|| unsafe { Box::from_raw(object) });
    // A panic of a destructor must not reach C, either (F1).
    drop(catch_unwind(AssertUnwindSafe(move || drop(object))));
}

/// Frees a handle on something in a volume. After a panic the handle is left in memory, because
/// its destructor would look at what the panic has left (F2 of the crate).
///
/// # Safety
///
/// As for [`free`].
pub(crate) unsafe fn free_handle<H: Handle>(handle: *mut H) {
    // SAFETY: The caller says that the handle is NULL or was not freed.
    let is_unusable = unsafe { handle.as_ref() }.is_some_and(|it| it.state().is_unusable());
    if !is_unusable {
        // SAFETY: As the caller says.
        unsafe { free(handle) };
    }
}

#[cfg(test)]
mod tests;
