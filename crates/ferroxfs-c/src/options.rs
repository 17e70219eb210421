//! Options of opening a volume.
#![allow(unsafe_code, reason = "C calls these functions by name, with strings of its own")]

use std::ffi::c_char;
use std::mem::MaybeUninit;

use ferroxfs::OpenOptions;

use crate::boundary::{call, free, host_path};
use crate::error::{Failure, FerroxfsError};

/// Options of opening a volume. Without options a volume is opened for reading.
///
/// The caller owns them, and may use them for any number of volumes. One thread at a time may use
/// them.
#[derive(Default)]
pub struct FerroxfsOptions {
    options: OpenOptions,
    /// Whether the options say where on a disk the volume starts.
    has_start: bool,
}

impl FerroxfsOptions {
    /// Changes the options. Every method of [`OpenOptions`] takes them and returns them.
    fn change(&mut self, change: impl FnOnce(OpenOptions) -> OpenOptions) {
        self.options = change(std::mem::take(&mut self.options));
    }

    pub(crate) fn open_options(&self) -> &OpenOptions {
        &self.options
    }

    /// Returns whether the options say where on a disk the volume starts.
    pub(crate) fn has_start(&self) -> bool {
        self.has_start
    }
}

/// Returns new options: open for reading. Never returns NULL. Free them with
/// `ferroxfs_options_free`.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_options_new() -> *mut FerroxfsOptions {
    Box::into_raw(Box::default())
}

/// Frees options. NULL is allowed. Volumes that were opened with them stay open.
///
/// # Safety
///
/// `options` is NULL, or came from `ferroxfs_options_new` and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_options_free(options: *mut FerroxfsOptions) {
    // SAFETY: The caller gives the options back.
    unsafe { free(options) };
}

fn set(options: Option<&mut FerroxfsOptions>, change: impl FnOnce(OpenOptions) -> OpenOptions) {
    // NULL has no options to change. Opening with NULL is opening with the defaults.
    if let Some(options) = options {
        options.change(change);
    }
}

fn set_start(
    options: Option<&mut FerroxfsOptions>,
    change: impl FnOnce(OpenOptions) -> OpenOptions,
) {
    if let Some(options) = options {
        options.has_start = true;
        options.change(change);
    }
}

/// Sets whether the volume is opened for writing. The library then replays a dirty log, and starts
/// threads that stop when the volume is closed. For reading, nothing is ever written: a dirty log
/// is replayed in memory.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_options_set_write(options: Option<&mut FerroxfsOptions>, write: bool) {
    set(options, |options| options.write(write));
}

/// Sets whether a dirty log is ignored. The volume is then read as it stands. Only for reading.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_options_set_no_recovery(
    options: Option<&mut FerroxfsOptions>,
    no_recovery: bool,
) {
    set(options, |options| options.no_recovery(no_recovery));
}

/// Sets whether a device that another program uses is read nevertheless. The bytes may be stale.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_options_set_live(options: Option<&mut FerroxfsOptions>, live: bool) {
    set(options, |options| options.live(live));
}

/// Sets the byte of the file or device at which the volume starts.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_options_set_offset(options: Option<&mut FerroxfsOptions>, bytes: u64) {
    set_start(options, |options| options.offset(bytes));
}

/// Sets the number of the partition that holds the volume, from 1 on. It is only needed if several
/// partitions hold XFS.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_options_set_partition(
    options: Option<&mut FerroxfsOptions>,
    number: u32,
) {
    set_start(options, |options| options.partition(number));
}

/// Sets the size of the cache of metadata, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_options_set_cache_bytes(
    options: Option<&mut FerroxfsOptions>,
    bytes: usize,
) {
    set(options, |options| options.cache_bytes(bytes));
}

/// Sets the path of the device of an external log. The library copies the path.
///
/// Errors: EINVAL for NULL.
///
/// # Safety
///
/// `path` is NULL or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_options_set_log_device(
    options: Option<&mut FerroxfsOptions>,
    path: *const c_char,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call(error, || {
        let options = options.ok_or(Failure::Argument("the options are NULL"))?;
        // SAFETY: A NUL ends the path.
        let path = unsafe { host_path(path) }?;
        options.change(|options| options.log_device(path));
        Ok(())
    })
}

/// Sets the path of the device of the realtime section. The library copies the path.
///
/// Errors: EINVAL for NULL.
///
/// # Safety
///
/// `path` is NULL or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_options_set_realtime_device(
    options: Option<&mut FerroxfsOptions>,
    path: *const c_char,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call(error, || {
        let options = options.ok_or(Failure::Argument("the options are NULL"))?;
        // SAFETY: A NUL ends the path.
        let path = unsafe { host_path(path) }?;
        options.change(|options| options.realtime_device(path));
        Ok(())
    })
}
