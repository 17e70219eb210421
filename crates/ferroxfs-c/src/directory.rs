//! Listing a directory.
#![allow(unsafe_code, reason = "C calls these functions by name, and gives handles back")]

use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::ReadDir;

use crate::boundary::{Handle, call_on, count_on, free_handle, hand_out, required};
use crate::error::{Failure, FerroxfsError};
use crate::handle::SharedState;
use crate::node::FerroxfsNode;

/// A listing of a directory. One thread at a time may use it.
///
/// The caller owns it, and frees it with `ferroxfs_dir_free`.
pub struct FerroxfsDir {
    state: SharedState,
    entries: ReadDir,
    /// The name of the last entry, for the caller to read.
    name: CString,
}

impl Handle for FerroxfsDir {
    fn state(&self) -> &SharedState {
        &self.state
    }
}

/// An entry of a directory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FerroxfsDirent {
    /// The name. A NUL follows it. It belongs to the listing, until the next call for the listing.
    pub name: *const c_char,
    /// Length of the name in bytes.
    pub name_length: usize,
    /// Inode number.
    pub number: u64,
    /// The type bits of st_mode, such as S_IFREG. 0: the directory does not say.
    pub type_bits: u32,
}

/// Begins to list a directory, without "." and "..".
///
/// On success `*dir` is a new handle; free it with `ferroxfs_dir_free`.
///
/// Errors: ENOTDIR, EACCES; EUCLEAN.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_dir_open(
    directory: Option<&FerroxfsNode>,
    dir: Option<&mut MaybeUninit<*mut FerroxfsDir>>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(directory, error, |directory| {
        hand_out(dir, || {
            let entries = directory.node().entries()?;
            let state = directory.state().clone();
            Ok(FerroxfsDir { state, entries, name: CString::default() })
        })
    })
}

/// Gives the next entry.
///
/// Returns 1 with an entry, 0 at the end, or a negative errno. After an error about damage, the
/// next call continues with the entries that can still be read.
///
/// Errors: EUCLEAN; errors of the device.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_dir_next(
    dir: Option<&mut FerroxfsDir>,
    entry: Option<&mut MaybeUninit<FerroxfsDirent>>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    let mut entry = entry;
    let Some(dir) = dir else {
        return call_on(None::<&FerroxfsDir>, error, |_| Ok(()));
    };
    let state = Listing(dir.state.clone());
    let count = count_on(Some(&state), error, |_| {
        let place = required(&mut entry)?;
        let Some(next) = dir.entries.next() else { return Ok(0) };
        let next = next?;
        let number = next.number().0;
        let type_bits = next.file_type().map_or(0, |kind| u32::from(kind.mode_bits()));
        // No name on disk has a NUL: the decoder refuses it.
        dir.name = CString::new(next.name().as_bytes())
            .map_err(|_| Failure::Argument("a name has a NUL"))?;
        let name_length = dir.name.as_bytes().len();
        place.write(FerroxfsDirent { name: dir.name.as_ptr(), name_length, number, type_bits });
        Ok(1)
    });
    i32::try_from(count).unwrap_or(-libc::EIO)
}

/// The state of a listing's volume, while the listing moves on.
struct Listing(SharedState);

impl Handle for Listing {
    fn state(&self) -> &SharedState {
        &self.0
    }
}

/// Frees a listing, and the name of its last entry. NULL is allowed.
///
/// # Safety
///
/// `dir` is NULL, or came from this library and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_dir_free(dir: *mut FerroxfsDir) {
    // SAFETY: The caller gives the listing back.
    unsafe { free_handle(dir) };
}
