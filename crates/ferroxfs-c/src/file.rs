//! Open files: reading, writing, truncating, syncing.
#![allow(unsafe_code, reason = "C calls these functions by name, with buffers of its own")]

use ferroxfs::File;
use std::mem::MaybeUninit;

use crate::boundary::{Handle, buffer, bytes, call, call_on, count_on, hand_out};
use crate::error::{Failure, FerroxfsError};
use crate::handle::SharedState;
use crate::node::FerroxfsNode;

/// A flag of `ferroxfs_file_open`: the file is opened for reading.
pub const FERROXFS_READ: u32 = 1;
/// A flag of `ferroxfs_file_open`: the file is opened for writing.
pub const FERROXFS_WRITE: u32 = 2;

/// An open regular file. Any number of threads may read and write it at the same time.
///
/// The caller owns it, and gives it back with `ferroxfs_file_close`.
pub struct FerroxfsFile {
    state: SharedState,
    file: File,
}

impl Handle for FerroxfsFile {
    fn state(&self) -> &SharedState {
        &self.state
    }
}

/// Opens a regular file. `flags` are FERROXFS_READ, FERROXFS_WRITE, or both.
///
/// On success `*file` is a new handle, which the caller gives back with `ferroxfs_file_close`.
///
/// Errors: EISDIR for a directory, EINVAL for another file that is not regular, EACCES; EROFS for
/// writing on a volume that is open for reading.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_file_open(
    node: Option<&FerroxfsNode>,
    flags: u32,
    file: Option<&mut MaybeUninit<*mut FerroxfsFile>>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    const BOTH: u32 = FERROXFS_READ | FERROXFS_WRITE;
    call_on(node, error, |node| {
        hand_out(file, || {
            let opened = match flags {
                FERROXFS_READ => node.node().open_read_only()?,
                FERROXFS_WRITE => node.node().open_write_only()?,
                BOTH => node.node().open()?,
                _ => {
                    let rule = "flags are FERROXFS_READ, FERROXFS_WRITE or both";
                    return Err(Failure::Argument(rule));
                }
            };
            // A volume that is open for reading gives a file that only reads.
            if flags & FERROXFS_WRITE != 0 && !opened.is_writable() {
                return Err(ferroxfs::Error::from(ferroxfs::PosixError::ReadOnly).into());
            }
            Ok(FerroxfsFile { state: node.state().clone(), file: opened })
        })
    })
}

/// Reads up to `length` bytes from byte `offset` on.
///
/// Returns the number of bytes, or a negative errno. It is less than `length` only at the end of
/// the file. Holes read as zeros.
///
/// Errors: EBADF for a file that is not open for reading; EUCLEAN; errors of the device.
///
/// # Safety
///
/// `place` is NULL, or has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_file_read(
    file: Option<&FerroxfsFile>,
    place: *mut u8,
    length: usize,
    offset: u64,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i64 {
    count_on(file, error, |file| {
        // SAFETY: As the caller says.
        let place = unsafe { buffer(place, length) }?;
        Ok(file.file.read_at(place, offset)?)
    })
}

/// Writes bytes at byte `offset`. The file grows as needed.
///
/// Returns the number of bytes that were written, or a negative errno. It is less than `length`
/// only if the volume became full on the way.
///
/// Errors: EBADF for a file that is not open for writing; ENOSPC, EFBIG, EPERM; EROFS.
///
/// # Safety
///
/// `contents` is NULL, or has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_file_write(
    file: Option<&FerroxfsFile>,
    contents: *const u8,
    length: usize,
    offset: u64,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i64 {
    count_on(file, error, |file| {
        if length == usize::MAX {
            return Err(Failure::Argument("contents have a length, not FERROXFS_STRLEN"));
        }
        // SAFETY: As the caller says.
        let contents = unsafe { bytes(contents, length) }?;
        Ok(file.file.write_at(contents, offset)?)
    })
}

/// Sets the length of a file. Bytes that are added read as zeros.
///
/// Errors: EBADF for a file that is not open for writing; ENOSPC, EFBIG, EPERM; EROFS.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_file_truncate(
    file: Option<&FerroxfsFile>,
    length_bytes: u64,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(file, error, |file| Ok(file.file.set_len(length_bytes)?))
}

/// Makes a file durable, as fsync(2) does. With `data_only`, only its contents and its size, as
/// fdatasync(2) does.
///
/// Errors: the error of a write that was lost; errors of the log and the device.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_file_sync(
    file: Option<&FerroxfsFile>,
    data_only: bool,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(file, error, |file| {
        Ok(if data_only { file.file.sync_data() } else { file.file.sync_all() }?)
    })
}

/// Closes a file. The handle is gone, also after an error. NULL is allowed.
///
/// Bytes that were written are with the device, and durable after the next sync.
///
/// Errors: the error of a write that was lost.
///
/// # Safety
///
/// `file` is NULL, or came from this library and was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_file_close(
    file: *mut FerroxfsFile,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    // SAFETY: The caller says that the file is NULL or open.
    let Some(handle) = (unsafe { file.as_ref() }) else {
        return call(error, || Ok(()));
    };
    let state = handle.state.clone();
    call_on(Some(&ClosingFile(state)), error, |_| {
        // SAFETY: The file came from `Box::into_raw`, and the caller gives it back. An unusable
        // volume does not get here, and its files stay in memory.
        let handle = unsafe { Box::from_raw(file) };
        Ok(handle.file.close()?)
    })
}

/// The state of a file's volume, while the file itself goes.
struct ClosingFile(SharedState);

impl Handle for ClosingFile {
    fn state(&self) -> &SharedState {
        &self.0
    }
}
