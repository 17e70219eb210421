//! Names in directories, and the check of names that a directory can hold.

use xfs_buffer::{PosixError, Result};
use xfs_format::directory::{MAX_NAME, name_is_sound};

use crate::kind::CachedInode;

/// A directory and a name in it. An entry of this name need not exist.
#[derive(Clone, Copy)]
pub struct EntryName<'a> {
    /// The directory.
    pub directory: &'a CachedInode,
    /// The name.
    pub name: &'a [u8],
}

/// Checks that a directory can get an entry of this name.
pub fn check_name(name: &[u8]) -> Result<()> {
    match name {
        b"" => Err(PosixError::NotFound.into()),
        b"." | b".." => Err(PosixError::Exists.into()),
        _ if name.len() > MAX_NAME => Err(PosixError::NameTooLong.into()),
        _ if name_is_sound(name) => Ok(()),
        _ => Err(PosixError::InvalidArgument.into()),
    }
}
