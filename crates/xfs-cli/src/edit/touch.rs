//! `touch`: sets the times of files, and creates missing files.

use ferroxfs::{CreateOptions, Error, NewKind, Node, PosixError, SetAttributes, Timestamp};

use crate::cli::{GlobalOptions, TouchArguments};
use crate::failure::Failure;
use crate::image::{ImagePath, ImagePaths, change_each};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::text::time::{Clock, source_date_epoch};

struct Touch {
    targets: ImagePaths,
    changes: SetAttributes,
    makes: bool,
    follows: bool,
}

/// Opens the images for writing, and returns the command, ready to run.
pub(crate) fn open(
    arguments: &TouchArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let time = time_of(arguments.date.as_deref())?;
    let both = arguments.accessed == arguments.modified;
    let mut changes = SetAttributes::new();
    changes.accessed = (both || arguments.accessed).then_some(time);
    changes.modified = (both || arguments.modified).then_some(time);
    let targets = ImagePaths::open_for_writing(&arguments.addresses, options)?;
    let (makes, follows) = (!arguments.no_create, !arguments.no_dereference);
    Ok(Box::new(Touch { targets, changes, makes, follows }))
}

fn time_of(date: Option<&str>) -> Result<Timestamp, Failure> {
    let clock = Clock::open();
    let time = match date {
        None => match source_date_epoch()? {
            Some(epoch) => return Ok(epoch),
            None => clock.now(),
        },
        Some(text) => {
            let wrong = || {
                Failure::usage(format!("touch: \"{text}\" is not a time"))
                    .hint("such as 2026-01-31, 2026-01-31T12:00 or @SECONDS")
            };
            clock.parse(text).ok_or_else(wrong)?
        }
    };
    Ok(Timestamp::new(time.seconds, time.nanoseconds).unwrap_or_default())
}

impl Run for Touch {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, changes, makes, follows } = *self;
        change_each(targets, console, |target| {
            let found = if follows { find_or_make(target, makes) } else { find(target, makes) };
            let Some(node) = found? else { return Ok(()) };
            node.set_attributes(&changes).map_err(|error| target.failure(error))
        })
    }
}

/// Returns the file at the path. A symbolic link at the end of the path is not followed. `None` if
/// the file does not exist and `is_needed` is false.
fn find(target: &ImagePath, is_needed: bool) -> Result<Option<Node>, Failure> {
    match target.volume.inner().lookup_no_follow(&target.path) {
        Ok(node) => Ok(Some(node)),
        Err(Error::Posix(PosixError::NotFound)) if !is_needed => Ok(None),
        Err(error) => Err(target.failure(error)),
    }
}

/// Returns the file at the path. If `makes` is true, the function creates a missing file, also as
/// the target of a dangling symbolic link. Returns `None` if the file does not exist and `makes` is
/// false.
pub(crate) fn find_or_make(target: &ImagePath, makes: bool) -> Result<Option<Node>, Failure> {
    match target.volume.inner().lookup(&target.path) {
        Ok(node) => Ok(Some(node)),
        Err(Error::Posix(PosixError::NotFound)) if !makes => Ok(None),
        Err(Error::Posix(PosixError::NotFound)) => {
            let (directory, name) = target.place_to_make()?;
            let creation = CreateOptions::new(0o644);
            let made = directory.create(name, &NewKind::Regular, &creation);
            made.map(Some).map_err(|error| target.failure(error))
        }
        Err(error) => Err(target.failure(error)),
    }
}
