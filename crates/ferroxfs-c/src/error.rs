//! The error of a call, as an object of the caller.
#![allow(unsafe_code, reason = "C calls these functions by name, and gives handles back")]

use std::ffi::{CString, c_char};
use std::io;

use ferroxfs::{Error, OpenError};
use thiserror::Error as ThisError;

use crate::boundary::{Out, free};

/// The kind of an error.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FerroxfsErrorKind {
    /// The device, or the host, has failed.
    Io = 1,
    /// A structure of the volume is damaged. `ferroxfs_error_structure`, `ferroxfs_error_address`
    /// and `ferroxfs_error_check` say which one, where, and which check has failed.
    Corrupt = 2,
    /// The volume or the file has a format or feature that this library refuses.
    Unsupported = 3,
    /// The operation is not possible on this object or for this user: ENOENT, EEXIST and others.
    Posix = 4,
    /// The volume was shut down, because its log could not be written.
    Shutdown = 5,
    /// The caller has passed an argument that this function does not take.
    Argument = 6,
    /// The library has failed. The volume refuses every later call. Free its handles and close it:
    /// closing writes nothing, and the next open recovers everything that was durable.
    Internal = 7,
}

/// The error of one call. The caller owns it, and frees it with `ferroxfs_error_free`.
pub struct FerroxfsError {
    errno: i32,
    kind: FerroxfsErrorKind,
    message: CString,
    damage: Option<DamageTexts>,
}

struct DamageTexts {
    structure: CString,
    address: CString,
    check: CString,
}

/// The reason why a call has failed.
#[derive(Debug, ThisError)]
pub(crate) enum Failure {
    #[error(transparent)]
    Volume(#[from] Error),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Host(#[from] io::Error),
    /// The argument, and the values that it may have.
    #[error("invalid argument: {0}")]
    Argument(&'static str),
    #[error("invalid argument: {0}")]
    Mkfs(String),
    #[error("the device or file contains {0}; set force to overwrite it")]
    Occupied(String),
    #[error("buffer too small: {needed} bytes are needed, and it has {capacity}")]
    TooSmall { needed: usize, capacity: usize },
    #[error("{0} handle(s) of the volume are still in use")]
    Busy(usize),
    /// The text of a panic.
    #[error("the library has failed: {0}")]
    Internal(String),
    #[error("the library has failed in an earlier call for this volume")]
    Unusable,
}

impl Failure {
    fn kind(&self) -> FerroxfsErrorKind {
        match self {
            Self::Volume(error) => kind_of(error),
            Self::Open(error) => match error {
                OpenError::Volume(error)
                | OpenError::Recovery(error)
                | OpenError::Quota(error)
                | OpenError::Log(error) => kind_of(error),
                OpenError::DirtyLog(_) => FerroxfsErrorKind::Unsupported,
                OpenError::LogDeviceMissing
                | OpenError::RealtimeDevice(_)
                | OpenError::RealtimeDeviceMissing => FerroxfsErrorKind::Argument,
                OpenError::Find(_) if error.errno() == libc::EINVAL => FerroxfsErrorKind::Argument,
                _ => FerroxfsErrorKind::Io,
            },
            Self::Host(_) => FerroxfsErrorKind::Io,
            Self::Argument(_) | Self::Mkfs(_) => FerroxfsErrorKind::Argument,
            Self::Occupied(_) | Self::TooSmall { .. } | Self::Busy(_) => FerroxfsErrorKind::Posix,
            Self::Internal(_) | Self::Unusable => FerroxfsErrorKind::Internal,
        }
    }

    /// Returns the errno of Linux, a positive number.
    pub(crate) fn errno(&self) -> i32 {
        match self {
            Self::Volume(error) => error.errno(),
            Self::Open(error) => error.errno(),
            Self::Host(error) => error.raw_os_error().unwrap_or(libc::EIO),
            Self::Argument(_) | Self::Mkfs(_) => libc::EINVAL,
            Self::Occupied(_) => libc::EEXIST,
            Self::TooSmall { .. } => libc::ERANGE,
            Self::Busy(_) => libc::EBUSY,
            Self::Internal(_) | Self::Unusable => libc::EIO,
        }
    }

    fn damage(&self) -> Option<DamageTexts> {
        let (Self::Volume(error)
        | Self::Open(
            OpenError::Volume(error)
            | OpenError::Recovery(error)
            | OpenError::Quota(error)
            | OpenError::Log(error),
        )) = self
        else {
            return None;
        };
        let Error::Corrupt(corruption) = error else { return None };
        Some(DamageTexts {
            structure: text(corruption.structure().name()),
            address: text(&corruption.address().to_string()),
            check: text(&corruption.check().to_string()),
        })
    }
}

fn kind_of(error: &Error) -> FerroxfsErrorKind {
    match error {
        Error::Io(_) => FerroxfsErrorKind::Io,
        Error::Corrupt(_) => FerroxfsErrorKind::Corrupt,
        Error::Unsupported(_) => FerroxfsErrorKind::Unsupported,
        Error::Posix(_) => FerroxfsErrorKind::Posix,
        Error::Shutdown => FerroxfsErrorKind::Shutdown,
        _ => FerroxfsErrorKind::Internal,
    }
}

/// Returns a text as C takes it. A NUL inside, as in a file name of a message, becomes a space.
fn text(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().map(|byte| if byte == 0 { b' ' } else { byte }).collect();
    CString::new(bytes).unwrap_or_default()
}

impl From<&Failure> for FerroxfsError {
    fn from(failure: &Failure) -> Self {
        Self {
            errno: failure.errno(),
            kind: failure.kind(),
            message: text(&failure.to_string()),
            damage: failure.damage(),
        }
    }
}

/// The place where a function leaves its error. It may be absent.
pub(crate) type ErrorOut<'a> = Out<'a, *mut FerroxfsError>;

/// Returns the errno of the error, a positive number of Linux such as ENOENT. Damage has EUCLEAN.
/// Returns 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_error_errno(error: Option<&FerroxfsError>) -> i32 {
    error.map_or(0, |error| error.errno)
}

/// Returns the kind of the error. NULL has the kind FERROXFS_KIND_ARGUMENT.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_error_kind(error: Option<&FerroxfsError>) -> FerroxfsErrorKind {
    error.map_or(FerroxfsErrorKind::Argument, |error| error.kind)
}

/// Returns the message: one line of UTF-8, in English. It belongs to the error. Returns "" for
/// NULL, never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_error_message(error: Option<&FerroxfsError>) -> *const c_char {
    error.map_or(c"".as_ptr(), |error| error.message.as_ptr())
}

/// Returns the name of the damaged structure, such as "inode". It belongs to the error. Returns
/// NULL unless the kind is FERROXFS_KIND_CORRUPT.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_error_structure(error: Option<&FerroxfsError>) -> *const c_char {
    damage_text(error, |damage| &damage.structure)
}

/// Returns the address of the damaged structure as text. It belongs to the error. Returns NULL
/// unless the kind is FERROXFS_KIND_CORRUPT.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_error_address(error: Option<&FerroxfsError>) -> *const c_char {
    damage_text(error, |damage| &damage.address)
}

/// Returns the failed check with its values, as text. It belongs to the error. Returns NULL unless
/// the kind is FERROXFS_KIND_CORRUPT.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_error_check(error: Option<&FerroxfsError>) -> *const c_char {
    damage_text(error, |damage| &damage.check)
}

fn damage_text(
    error: Option<&FerroxfsError>,
    choose: impl FnOnce(&DamageTexts) -> &CString,
) -> *const c_char {
    let damage = error.and_then(|error| error.damage.as_ref());
    damage.map_or(std::ptr::null(), |damage| choose(damage).as_ptr())
}

/// Frees an error. NULL is allowed.
///
/// # Safety
///
/// `error` is NULL, or came from this library and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_error_free(error: *mut FerroxfsError) {
    // SAFETY: The caller gives the error back.
    unsafe { free(error) };
}

#[cfg(test)]
mod tests;
