//! `mkdir`: creates directories.

use std::os::unix::ffi::OsStrExt;

use ferroxfs::{CreateOptions, FileType, NewKind, PosixError, SetAttributes};

use super::chmod::{changed_mode, parse_mode};
use crate::cli::{GlobalOptions, MkdirArguments};
use crate::failure::Failure;
use crate::image::{ImagePath, ImagePaths, change_each};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::text::mode::{ModeChange, umask};

struct Mkdir {
    targets: ImagePaths,
    has_parents: bool,
    mode: ModeChange,
    umask: u32,
}

/// Opens the images for writing, and returns the command, ready to run.
pub(crate) fn open(
    arguments: &MkdirArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let mode = parse_mode("mkdir", &arguments.mode)?;
    let targets = ImagePaths::open_for_writing(&arguments.addresses, options)?;
    Ok(Box::new(Mkdir { targets, has_parents: arguments.parents, mode, umask: umask() }))
}

impl Run for Mkdir {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, has_parents, mode, umask } = *self;
        // The mode starts from the default of a directory, with an inherited set-group-ID bit.
        let mode = |inherited| changed_mode(&mode, umask, 0o777 | inherited, FileType::Directory);
        change_each(targets, console, |target| make(target, has_parents, mode))
    }
}

fn make(target: &ImagePath, has_parents: bool, mode: impl Fn(u16) -> u16) -> Result<(), Failure> {
    let failed = |error| target.failure(Failure::from(error));
    if has_parents {
        let volume = target.volume.inner();
        if volume.lookup(&target.path).is_ok_and(|node| node.metadata().is_dir()) {
            return Ok(());
        }
        volume.create_dir_all(&target.path).map_err(failed)?;
        let made = volume.lookup(&target.path).map_err(failed)?;
        let mode = mode(made.metadata().mode & 0o2000);
        let changes = SetAttributes::new().mode(mode);
        return made.set_attributes(&changes).map_err(failed);
    }
    if target.path.as_os_str().as_bytes().iter().all(|byte| *byte == b'/') {
        return Err(target.failure(PosixError::Exists));
    }
    let (directory, name) = target.place_of_directory().map_err(|failure| {
        let parent = target.path.parent().map(|parent| target.volume.inner().lookup(parent));
        match parent {
            Some(Err(ferroxfs::Error::Posix(PosixError::NotFound))) if !failure.has_hint() => {
                failure.hint("ferroxfs mkdir -p makes parent directories too")
            }
            _ => failure,
        }
    })?;
    let creation = CreateOptions::new(mode(0));
    directory.create(name, &NewKind::Directory, &creation).map(drop).map_err(failed)
}
