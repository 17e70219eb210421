//! `uuid`: shows or changes the UUID of a volume.

use std::io::Write;

use ferroxfs::admin::{Uuid, UuidChange};

use crate::cli::{GlobalOptions, UuidArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::Image;
use crate::json::Object;
use crate::run::Run;
use crate::terminal::console::Console;

struct ShowUuid(Image);

struct SetUuid {
    image: Image,
    change: UuidChange,
}

/// Opens the image and returns the command, ready to run. The image is opened for writing only if
/// the command line asks for a change.
pub(crate) fn open(
    arguments: &UuidArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let Some(word) = &arguments.uuid else {
        return Ok(Box::new(ShowUuid(Image::open_as_it_stands(&arguments.image, options)?)));
    };
    let change = parse(word)?;
    Ok(Box::new(SetUuid { image: Image::open_for_writing(&arguments.image, options)?, change }))
}

fn parse(word: &str) -> Result<UuidChange, Failure> {
    Ok(match word {
        "restore" => UuidChange::Restore,
        "nil" => UuidChange::To(Uuid::nil()),
        "generate" => {
            let random = xfs_mkfs::Identity::random();
            let failed = |error| Failure::new(Exit::Failed, format!("no random numbers: {error}"));
            UuidChange::To(random.map_err(failed)?.uuid)
        }
        text => UuidChange::To(Uuid::parse_str(text).map_err(|_| {
            Failure::usage(format!("uuid: \"{text}\" is not a UUID"))
                .hint("one looks like 01234567-89ab-cdef-0123-456789abcdef; also valid are generate, restore and nil")
        })?),
    })
}

impl Run for ShowUuid {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        print(&self.0.describe()?.superblock.uuid, console)
    }
}

impl Run for SetUuid {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        self.image.note_torn_log(console);
        print(&self.image.set_uuid(self.change)?, console)
    }
}

/// Prints a UUID.
fn print(uuid: &Uuid, console: &mut Console) -> Result<(), Failure> {
    if console.is_json() {
        let mut object = Object::new();
        object.insert("uuid".to_owned(), uuid.to_string().into());
        return Ok(console.conclude_with(object)?);
    }
    Ok(writeln!(console.out(), "{uuid}")?)
}
