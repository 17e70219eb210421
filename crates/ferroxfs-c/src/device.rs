//! A block device of the caller, by callbacks.
#![allow(unsafe_code, reason = "calls functions of C, and moves a pointer of C between threads")]

use std::ffi::c_void;
use std::io;
use std::sync::Arc;

use ferroxfs::device::{BlockDevice, Durability, SharedDevice};

use crate::error::Failure;

/// A block device that the caller implements. The library copies this structure.
///
/// Each callback returns 0, or a negative errno such as -EIO. Callbacks may run in several threads
/// at the same time, also in threads of the library, from the call that takes the device until
/// `destroy`. They must not call functions for the volume on this device, and must return: no
/// longjmp, no C++ exception.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FerroxfsDevice {
    /// sizeof(ferroxfs_device), so that a later version can add members at the end.
    pub size_bytes: usize,
    /// The first argument of each callback. The library only passes it on.
    pub user_data: *mut c_void,
    /// The length of the device in bytes. It does not change.
    pub length_bytes: u64,
    /// The unit in which a write is atomic, in bytes: a power of two, at least 512.
    pub sector_size: u32,
    /// Reads `length` bytes at byte `offset` into `buffer`: all of them, or it fails. The library
    /// never asks for bytes past the end of the device.
    pub read: Option<
        unsafe extern "C" fn(
            user_data: *mut c_void,
            buffer: *mut u8,
            length: usize,
            offset: u64,
        ) -> i32,
    >,
    /// Writes `length` bytes from `buffer` at byte `offset`: all of them, or it fails. If `durable`
    /// is true, the bytes are on stable storage when it returns. NULL: the device is read-only.
    pub write: Option<
        unsafe extern "C" fn(
            user_data: *mut c_void,
            buffer: *const u8,
            length: usize,
            offset: u64,
            durable: bool,
        ) -> i32,
    >,
    /// Makes every write durable that returned before this call. A device that can be written to
    /// must have it.
    pub flush: Option<unsafe extern "C" fn(user_data: *mut c_void) -> i32>,
    /// Discards bytes that are no longer needed. Later reads of them may return anything. NULL:
    /// nothing is discarded.
    pub discard:
        Option<unsafe extern "C" fn(user_data: *mut c_void, offset: u64, length: u64) -> i32>,
    /// Called once, after the last other callback: when the last handle of the volume is freed, or
    /// when opening fails. NULL: nothing is called.
    pub destroy: Option<unsafe extern "C" fn(user_data: *mut c_void)>,
}

type Read = unsafe extern "C" fn(*mut c_void, *mut u8, usize, u64) -> i32;

/// The callbacks of a device, checked.
struct CallbackDevice {
    callbacks: FerroxfsDevice,
    read: Read,
}

// SAFETY: The header demands that callbacks can run in any thread, and the library does nothing
// with `user_data` but pass it to them.
unsafe impl Send for CallbackDevice {}
// SAFETY: The same, for several threads at the same time.
unsafe impl Sync for CallbackDevice {}

/// Checks the callbacks and makes a device of them. `destroy` is called also if this fails.
pub(crate) fn device_of(callbacks: Option<&FerroxfsDevice>) -> Result<SharedDevice, Failure> {
    let callbacks = *callbacks.ok_or(Failure::Argument("the device is NULL"))?;
    if callbacks.size_bytes != size_of::<FerroxfsDevice>() {
        // An unknown size says nothing about the place of `destroy`.
        return Err(Failure::Argument("size_bytes is not sizeof(ferroxfs_device)"));
    }
    /// Used until the device exists. Calls `destroy` if it never does.
    struct Destroyer(FerroxfsDevice);
    impl Drop for Destroyer {
        fn drop(&mut self) {
            destroy(&self.0);
        }
    }
    let destroyer = Destroyer(callbacks);
    let Some(read) = callbacks.read else {
        return Err(Failure::Argument("the device has no callback to read"));
    };
    if callbacks.write.is_some() && callbacks.flush.is_none() {
        return Err(Failure::Argument("the device has a callback to write and none to flush"));
    }
    if !callbacks.sector_size.is_power_of_two() || callbacks.sector_size < 512 {
        return Err(Failure::Argument("the sector size is no power of two, or less than 512"));
    }
    std::mem::forget(destroyer);
    Ok(Arc::new(CallbackDevice { callbacks, read }))
}

fn destroy(callbacks: &FerroxfsDevice) {
    if let Some(destroy) = callbacks.destroy {
        // SAFETY: `user_data` is the one that belongs to the callback, and no other call follows.
        unsafe { destroy(callbacks.user_data) };
    }
}

impl Drop for CallbackDevice {
    fn drop(&mut self) {
        destroy(&self.callbacks);
    }
}

/// Returns the result of a callback. A positive number is an error, too: a callback that returns
/// the number of bytes, as read(2) does, must not pass for one that has succeeded.
fn outcome(status: i32) -> io::Result<()> {
    match status {
        0 => Ok(()),
        status if status < 0 => {
            Err(io::Error::from_raw_os_error(status.checked_neg().unwrap_or(libc::EIO)))
        }
        status => Err(io::Error::other(format!(
            "a callback of the device returned {status}, neither 0 nor a negative errno"
        ))),
    }
}

impl CallbackDevice {
    fn check_range(&self, offset: u64, length: usize) -> io::Result<()> {
        let end = u64::try_from(length).ok().and_then(|length| offset.checked_add(length));
        match end {
            Some(end) if end <= self.callbacks.length_bytes => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl BlockDevice for CallbackDevice {
    fn length_bytes(&self) -> u64 {
        self.callbacks.length_bytes
    }

    fn sector_size(&self) -> u32 {
        self.callbacks.sector_size
    }

    fn is_read_only(&self) -> bool {
        self.callbacks.write.is_none()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.check_range(offset, buffer.len())?;
        let user_data = self.callbacks.user_data;
        // SAFETY: The buffer has this length, and nothing else uses it during the call.
        outcome(unsafe { (self.read)(user_data, buffer.as_mut_ptr(), buffer.len(), offset) })
    }

    fn write_at(&self, bytes: &[u8], offset: u64, durability: Durability) -> io::Result<()> {
        let Some(write) = self.callbacks.write else {
            return Err(io::ErrorKind::PermissionDenied.into());
        };
        self.check_range(offset, bytes.len())?;
        let (user_data, durable) = (self.callbacks.user_data, durability == Durability::Durable);
        // SAFETY: The bytes have this length, and the callback only reads them.
        outcome(unsafe { write(user_data, bytes.as_ptr(), bytes.len(), offset, durable) })
    }

    fn flush(&self) -> io::Result<()> {
        match self.callbacks.flush {
            // SAFETY: `user_data` is the one that belongs to the callback.
            Some(flush) => outcome(unsafe { flush(self.callbacks.user_data) }),
            None => Ok(()),
        }
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        match self.callbacks.discard {
            // SAFETY: `user_data` is the one that belongs to the callback.
            Some(discard) => outcome(unsafe { discard(self.callbacks.user_data, offset, length) }),
            None => Ok(()),
        }
    }
}
