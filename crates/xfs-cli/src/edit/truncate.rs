//! `truncate`: sets the length of files.

use ferroxfs::PosixError;

use super::touch::find_or_make;
use crate::cli::{GlobalOptions, TruncateArguments};
use crate::failure::Failure;
use crate::image::{ImagePaths, change_each};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::text::size;

/// The new length of a file: a number of bytes, or a change of the present length.
#[derive(Clone, Copy)]
enum Length {
    Set(u64),
    Add(u64),
    Take(u64),
}

struct Truncate {
    targets: ImagePaths,
    length: Length,
    makes: bool,
}

/// Opens the images for writing, and returns the command, ready to run.
pub(crate) fn open(
    arguments: &TruncateArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let length = parse(&arguments.size)?;
    let targets = ImagePaths::open_for_writing(&arguments.addresses, options)?;
    Ok(Box::new(Truncate { targets, length, makes: !arguments.no_create }))
}

fn parse(text: &str) -> Result<Length, Failure> {
    let bytes = |text: &str| {
        size::parse(text).map_err(|message| Failure::usage(format!("truncate: {message}")))
    };
    match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(more), _) => Ok(Length::Add(bytes(more)?)),
        (_, Some(less)) => Ok(Length::Take(bytes(less)?)),
        _ => Ok(Length::Set(bytes(text)?)),
    }
}

impl Run for Truncate {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, length, makes } = *self;
        change_each(targets, console, |target| {
            let Some(node) = find_or_make(target, makes)? else { return Ok(()) };
            let before = node.metadata().size;
            let after = match length {
                Length::Set(bytes) => Some(bytes),
                Length::Add(bytes) => before.checked_add(bytes),
                Length::Take(bytes) => Some(before.saturating_sub(bytes)),
            };
            let after = after.ok_or_else(|| target.failure(PosixError::FileTooLarge))?;
            node.open().and_then(|file| file.set_len(after)).map_err(|error| target.failure(error))
        })
    }
}
