//! `fstrim`: gives free space back to the device, or to the host of an image file.

use std::io::Write;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

use crate::cli::{FstrimArguments, GlobalOptions};
use crate::failure::Failure;
use crate::image::Image;
use crate::inspect::structures::{Value, fields_to_json};
use crate::json;
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::text::size;

struct Fstrim {
    image: Image,
    range: Range<u64>,
    minimum_bytes: u64,
    is_verbose: bool,
    is_json: bool,
}

/// Opens the image for writing, with an exclusive lock, and returns the command, ready to run.
pub(crate) fn open(
    arguments: &FstrimArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let end = arguments.length.map_or(u64::MAX, |length| arguments.start.saturating_add(length));
    Ok(Box::new(Fstrim {
        image: Image::open_for_writing(&arguments.image, options)?,
        range: arguments.start..end,
        minimum_bytes: arguments.minimum,
        is_verbose: arguments.verbose,
        is_json: arguments.json.json,
    }))
}

impl Run for Fstrim {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let volume = self.image.volume(console)?;
        let step = console.step("discarding free space");
        let trimmed = volume.inner().trim(self.range, self.minimum_bytes);
        drop(step);
        let trimmed = trimmed.map_err(|error| volume.whole_failure(error));
        let bytes = volume.close_after(trimmed, console)?;
        if self.is_json {
            let fields = vec![("trimmed_bytes", Value::number(bytes))];
            json::write_document(console.out(), fields_to_json(&fields))?;
        } else if self.is_verbose {
            let shown = names::in_message(self.image.path().as_os_str().as_bytes());
            let human = size::human(bytes);
            writeln!(console.out(), "{shown}: {human} ({bytes} bytes) trimmed")?;
        }
        Ok(())
    }
}
