//! Extended attributes.
#![allow(unsafe_code, reason = "C calls these functions by name, with buffers of its own")]

use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::vec;

use ferroxfs::attr::{Attribute, SetMode};

use crate::boundary::{
    Handle, bytes, call_on, copy_out, count_on, free_handle, hand_out, name, required,
};
use crate::error::{Failure, FerroxfsError};
use crate::handle::SharedState;
use crate::node::FerroxfsNode;

/// A flag of `ferroxfs_xattr_set`: the attribute must not exist (EEXIST).
pub const FERROXFS_XATTR_CREATE: u32 = 1;
/// A flag of `ferroxfs_xattr_set`: the attribute must exist (ENODATA).
pub const FERROXFS_XATTR_REPLACE: u32 = 2;

/// A listing of the extended attributes of a node. One thread at a time may use it.
///
/// The caller owns it, and frees it with `ferroxfs_xattrs_free`.
pub struct FerroxfsXattrs {
    state: SharedState,
    attributes: vec::IntoIter<ferroxfs::Result<Attribute>>,
    /// The name of the last attribute, for the caller to read.
    name: CString,
}

impl Handle for FerroxfsXattrs {
    fn state(&self) -> &SharedState {
        &self.state
    }
}

/// An extended attribute, without its value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FerroxfsXattr {
    /// The name with its namespace, such as "user.mime_type". A NUL follows it. It belongs to the
    /// listing, until the next call for the listing.
    pub name: *const c_char,
    /// Length of the name in bytes.
    pub name_length: usize,
    /// Length of the value in bytes. That of an access control list may differ.
    pub value_length: usize,
}

/// Begins to list the extended attributes of a node.
///
/// On success `*xattrs` is a new handle; free it with `ferroxfs_xattrs_free`.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_xattrs_open(
    node: Option<&FerroxfsNode>,
    xattrs: Option<&mut MaybeUninit<*mut FerroxfsXattrs>>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(node, error, |node| {
        hand_out(xattrs, || {
            let attributes = node.node().attributes().into_iter();
            let state = node.state().clone();
            Ok(FerroxfsXattrs { state, attributes, name: CString::default() })
        })
    })
}

/// Gives the next attribute.
///
/// Returns 1 with an attribute, 0 at the end, or a negative errno. After an error about damage, the
/// next call continues with the attributes that can still be read.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_xattrs_next(
    xattrs: Option<&mut FerroxfsXattrs>,
    xattr: Option<&mut MaybeUninit<FerroxfsXattr>>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    let mut xattr = xattr;
    let Some(xattrs) = xattrs else {
        return call_on(None::<&FerroxfsXattrs>, error, |_| Ok(()));
    };
    let state = Listing(xattrs.state.clone());
    let count = count_on(Some(&state), error, |_| {
        let place = required(&mut xattr)?;
        let Some(next) = xattrs.attributes.next() else { return Ok(0) };
        let next = next?;
        // A name with a NUL cannot be asked for on Linux, either. Its length shows the whole name.
        let name_bytes = next.name.as_bytes();
        let name_length = name_bytes.len();
        let shown: Vec<u8> =
            name_bytes.iter().map(|byte| if *byte == 0 { b'?' } else { *byte }).collect();
        xattrs.name = CString::new(shown).map_err(|_| Failure::Argument("a name has a NUL"))?;
        let value_length = next.stored_length_bytes as usize;
        place.write(FerroxfsXattr { name: xattrs.name.as_ptr(), name_length, value_length });
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

/// Frees a listing, and the name of its last attribute. NULL is allowed.
///
/// # Safety
///
/// `xattrs` is NULL, or came from this library and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_xattrs_free(xattrs: *mut FerroxfsXattrs) {
    // SAFETY: The caller gives the listing back.
    unsafe { free_handle(xattrs) };
}

/// Copies the value of an extended attribute into `buffer`. The name has its namespace: "user.",
/// "trusted.", "security." or "system.".
///
/// Returns the length of the value, or a negative errno. With a `capacity` of 0 only the length is
/// returned.
///
/// Errors: ENODATA if it does not exist; ERANGE if the value is longer than `capacity`; EUCLEAN.
///
/// # Safety
///
/// `xattr` is NULL, or has as many bytes as `xattr_length` says. `buffer` is NULL, or has
/// `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_xattr_get(
    node: Option<&FerroxfsNode>,
    xattr: *const c_char,
    xattr_length: usize,
    buffer: *mut u8,
    capacity: usize,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i64 {
    count_on(node, error, |node| {
        // SAFETY: As the caller says.
        let value = node.node().attribute(unsafe { name(xattr, xattr_length) }?)?;
        // SAFETY: As the caller says.
        unsafe { copy_out(&value, buffer, capacity) }
    })
}

/// Sets an extended attribute. With `flags` of 0 an existing value is replaced.
///
/// Errors: EEXIST and ENODATA as the flags say; EPERM, ENOSPC; EROFS on a volume that is open for
/// reading. A name in no namespace gives EOPNOTSUPP, and one of more than 255 bytes ERANGE. A value
/// of more than 64 KiB gives E2BIG.
///
/// # Safety
///
/// `xattr` and `value` are NULL, or have as many bytes as their lengths say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_xattr_set(
    node: Option<&FerroxfsNode>,
    xattr: *const c_char,
    xattr_length: usize,
    value: *const u8,
    value_length: usize,
    flags: u32,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(node, error, |node| {
        let mode = match flags {
            0 => SetMode::Either,
            FERROXFS_XATTR_CREATE => SetMode::Create,
            FERROXFS_XATTR_REPLACE => SetMode::Replace,
            _ => return Err(Failure::Argument("flags are 0 or one FERROXFS_XATTR_* flag")),
        };
        // SAFETY: As the caller says.
        let (xattr, value) = unsafe { (name(xattr, xattr_length)?, bytes(value, value_length)?) };
        Ok(node.node().set_attribute(xattr, value, mode)?)
    })
}

/// Removes an extended attribute.
///
/// Errors: ENODATA if it does not exist; EPERM; EROFS on a volume that is open for reading.
///
/// # Safety
///
/// `xattr` is NULL, or has as many bytes as `xattr_length` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_xattr_remove(
    node: Option<&FerroxfsNode>,
    xattr: *const c_char,
    xattr_length: usize,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(node, error, |node| {
        // SAFETY: As the caller says.
        let xattr = unsafe { name(xattr, xattr_length) }?;
        Ok(node.node().remove_attribute(xattr)?)
    })
}
