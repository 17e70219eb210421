//! The option `-p` of mkfs, which names a prototype file or a directory: the parser of its
//! arguments.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::failure::Failure;
use crate::file::facts::Time;
use crate::import::origin::ImportOrigin;
use crate::import::prototype::PrototypeOptions;
use crate::terminal::names;

/// The parsed arguments of `-p`.
pub(super) struct PrototypeArguments {
    path: PathBuf,
    slashes_are_spaces: bool,
}

/// Parses all arguments of `-p`. `None` if the option is not given.
pub(super) fn parse(lists: &[OsString]) -> Result<Option<PrototypeArguments>, Failure> {
    let (mut path, mut slashes_are_spaces) = (None, false);
    for option in lists.iter().flat_map(|list| list.as_bytes().split(|byte| *byte == b',')) {
        if let Some(value) = option.strip_prefix(b"slashes_are_spaces=") {
            slashes_are_spaces = switch(option, value)?;
        } else if let Some(value) = option.strip_prefix(b"atime=") {
            // Access times of a directory are always kept, and a prototype file has none.
            switch(option, value)?;
        } else {
            let file = option.strip_prefix(b"file=").unwrap_or(option);
            if path.replace(PathBuf::from(OsStr::from_bytes(file))).is_some() {
                return Err(Failure::usage("-p: one file or directory, not two"));
            }
        }
    }
    match path {
        Some(path) => Ok(Some(PrototypeArguments { path, slashes_are_spaces })),
        None if lists.is_empty() => Ok(None),
        None => Err(Failure::usage("-p: the file or directory is missing")),
    }
}

fn switch(option: &[u8], value: &[u8]) -> Result<bool, Failure> {
    match value {
        b"0" => Ok(false),
        b"1" => Ok(true),
        _ => Err(Failure::usage(format!("-p {}: 0 or 1", names::in_message(option)))),
    }
}

impl PrototypeArguments {
    /// Opens the prototype file or directory. Files of a prototype file get the time `time`.
    pub(super) fn open(self, time: Time) -> Result<ImportOrigin, Failure> {
        let Self { path, slashes_are_spaces } = self;
        ImportOrigin::open_prototype(&path, PrototypeOptions { slashes_are_spaces, time })
    }
}
