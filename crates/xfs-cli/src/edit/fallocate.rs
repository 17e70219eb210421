//! `fallocate`: reserves and frees ranges of files.

use std::ffi::OsString;

use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::{Error, Node, PosixError};

use super::touch::find_or_make;
use crate::cli::{FallocateArguments, GlobalOptions};
use crate::failure::Failure;
use crate::image::{ImagePath, ImagePaths, change_each};
use crate::run::Run;
use crate::terminal::console::Console;

struct Fallocate {
    targets: ImagePaths,
    offset: u64,
    length: u64,
    mode: RangeMode,
}

/// Opens the image for writing, and returns the command, ready to run.
pub(crate) fn open(
    arguments: &FallocateArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let size = if arguments.keep_size { AllocateMode::KeepSize } else { AllocateMode::Extend };
    let mode = if arguments.punch_hole {
        RangeMode::Punch
    } else if arguments.zero_range {
        RangeMode::Zero(size)
    } else if arguments.collapse_range {
        RangeMode::Collapse
    } else if arguments.insert_range {
        RangeMode::Insert
    } else if arguments.unshare_range {
        RangeMode::Unshare(size)
    } else {
        RangeMode::Allocate(size)
    };
    let words = std::slice::from_ref(&arguments.address);
    let targets = ImagePaths::open_for_writing(words, options)?;
    let (offset, length) = (arguments.start, arguments.length);
    Ok(Box::new(Fallocate { targets, offset, length, mode }))
}

impl Run for Fallocate {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, offset, length, mode } = *self;
        change_each(targets, console, |target| {
            let end = offset.checked_add(length);
            let end = end.ok_or_else(|| target.failure(PosixError::FileTooLarge))?;
            let makes = matches!(mode, RangeMode::Allocate(_));
            let missing = missing(target).filter(|_| makes);
            let node = find_or_make(target, makes)?;
            let node = node.ok_or_else(|| target.failure(PosixError::NotFound))?;
            let file = node.open().map_err(|error| target.failure(error))?;
            let changed = file.change_range(offset..end, mode);
            if let (Err(_), Some((directory, name))) = (&changed, missing) {
                // The first error is the one to report.
                let _ = directory.remove_file(name);
            }
            changed.map_err(|error| target.failure(Failure::from(error).needing(Some(length))))
        })
    }
}

/// Returns the directory and name under which to create the file; `None` if the file exists.
fn missing(target: &ImagePath) -> Option<(Node, OsString)> {
    match target.volume.inner().lookup(&target.path) {
        Err(Error::Posix(PosixError::NotFound)) => target.place_to_make().ok(),
        _ => None,
    }
}
