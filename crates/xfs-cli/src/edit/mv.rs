//! `mv`: moves and renames files inside an image.

use std::os::unix::ffi::OsStrExt;

use ferroxfs::{Error, FileType, Node, PosixError, RenameMode};

use crate::cli::{GlobalOptions, MvArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::{ImagePath, ImagePaths, change_all};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::terminal::tally::Work;

struct Mv {
    targets: ImagePaths,
    mode: RenameMode,
}

/// Opens the image for writing, and returns the command, ready to run.
pub(crate) fn open(
    arguments: &MvArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let targets = ImagePaths::open_for_writing(&arguments.addresses, options)?;
    if targets.image_count() > 1 {
        return Err(Failure::usage("mv: source and destination must be in the same image")
            .hint("copy it with cp -a, then remove it"));
    }
    let mode = match (arguments.no_clobber, arguments.exchange) {
        (_, true) => RenameMode::Exchange,
        (true, false) => RenameMode::NoReplace,
        (false, false) => RenameMode::Replace,
    };
    Ok(Box::new(Mv { targets, mode }))
}

impl Run for Mv {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, mode } = *self;
        change_all(targets, console, |targets, console| {
            let Some((destination, sources)) = targets.split_last() else { return Ok(()) };
            let directory = match destination.node(true) {
                Ok(node) if mode != RenameMode::Exchange => {
                    Some(node).filter(|node| node.file_type() == FileType::Directory)
                }
                _ => None,
            };
            if sources.len() > 1 && directory.is_none() {
                let failure = Failure::new(Exit::Failed, "is not a directory");
                return Err(destination.failure(failure));
            }
            let tally = console.begin(Work::change("moving", "moved"));
            for source in sources {
                match rename(source, destination, directory.as_ref(), mode) {
                    Ok(()) => tally.add_file(),
                    Err(failure) => console.report(&failure),
                }
            }
            Ok(())
        })?;
        Ok(console.conclude()?)
    }
}

fn rename(
    source: &ImagePath,
    destination: &ImagePath,
    directory: Option<&Node>,
    mode: RenameMode,
) -> Result<(), Failure> {
    let (from, name) = source.place()?;
    let (to, new_name) = match directory {
        Some(directory) => (directory.clone(), name.clone()),
        None if from.lookup(&name).is_ok_and(|node| node.file_type() == FileType::Directory) => {
            destination.place_of_directory()?
        }
        None => destination.place()?,
    };
    // rename(2) leaves two names of one file alone and reports success.
    if mode == RenameMode::Replace
        && let (Ok(old), Ok(present)) = (from.lookup(&name), to.lookup(&new_name))
        && old.number() == present.number()
    {
        let there = match directory {
            Some(_) => destination.path.join(&new_name),
            None => destination.path.clone(),
        };
        let there = names::in_message(there.as_os_str().as_bytes());
        let failure = Failure::new(Exit::Failed, format!("is the same file as {there}"));
        return Err(source.failure(failure));
    }
    from.rename(&name, &to, &new_name, mode).map_err(|error| match error {
        Error::Posix(PosixError::InvalidArgument) => {
            source.failure(Failure::new(Exit::Failed, "cannot be moved into itself"))
        }
        error => source.failure(error),
    })
}
