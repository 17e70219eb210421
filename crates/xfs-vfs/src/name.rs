//! Checks of the names that a directory can hold.

use xfs_buffer::{PosixError, Result};
use xfs_format::directory::name_is_sound;

/// The longest name in a directory, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 255;

/// Checks that a directory can get an entry of this name.
pub fn check_name(name: &[u8]) -> Result<()> {
    match name {
        b"" => Err(PosixError::NotFound.into()),
        b"." | b".." => Err(PosixError::Exists.into()),
        _ if name.len() > MAX_NAME_BYTES => Err(PosixError::NameTooLong.into()),
        _ if name_is_sound(name) => Ok(()),
        _ => Err(PosixError::InvalidArgument.into()),
    }
}
