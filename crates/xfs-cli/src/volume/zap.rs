//! `zap`: makes the free space of a volume read as zeros, so that a copy of the image is small.

use ferroxfs::admin::FreeSpaceZeros;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use crate::cli::{GlobalOptions, ZapArguments};
use crate::failure::Failure;
use crate::image::Image;
use crate::inspect::structures::{Fields, Value, fields_to_json};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::text::size;

/// The unit in which the host counts the space of a file.
const HOST_BLOCK_BYTES: u64 = 512;

struct Zap {
    image: Image,
    /// The file of the image, to ask how much space it takes. `None` for a server.
    file: Option<File>,
    zeros: FreeSpaceZeros,
}

/// Opens the image for writing, with an exclusive lock, and returns the command, ready to run.
pub(crate) fn open(
    arguments: &ZapArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let zeros = if arguments.zero { FreeSpaceZeros::Written } else { FreeSpaceZeros::Holes };
    let image = Image::open_for_writing(&arguments.image, options)?;
    let file = File::open(&arguments.image).ok();
    Ok(Box::new(Zap { image, file, zeros }))
}

impl Run for Zap {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let before = host_bytes(self.file.as_ref());
        let volume = self.image.volume(console)?;
        let step = console.step("clearing free space");
        let zapped = volume.inner().zero_free_space(self.zeros);
        drop(step);
        let zapped = zapped.map_err(|error| volume.whole_failure(error));
        let bytes = volume.close_after(zapped, console)?;
        let after = host_bytes(self.file.as_ref());
        if console.is_json() {
            let fields = fields(bytes, before, after);
            return Ok(console.conclude_with(fields_to_json(&fields))?);
        }
        if console.is_quiet() {
            return Ok(());
        }
        let shown = names::in_message(self.image.path().as_os_str().as_bytes());
        let human = size::human(bytes);
        let on_host = match (before, after) {
            (Some(before), Some(after)) => format!(
                "; the file takes {} on its host, and took {} before",
                size::human(after),
                size::human(before)
            ),
            _ => String::new(),
        };
        Ok(writeln!(
            console.out(),
            "{shown}: {human} ({bytes} bytes) of free space read as zeros{on_host}"
        )?)
    }
}

/// Returns the bytes that an image takes on the filesystem of its host. `None` if the image is not
/// a file.
fn host_bytes(image: Option<&File>) -> Option<u64> {
    let metadata = image?.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some(metadata.blocks() * HOST_BLOCK_BYTES)
}

fn fields(zapped_bytes: u64, before: Option<u64>, after: Option<u64>) -> Fields {
    let number =
        |bytes: Option<u64>| bytes.map_or(Value::Number { value: 0, is_null: true }, Value::number);
    vec![
        ("zapped_bytes", Value::number(zapped_bytes)),
        ("host_bytes_before", number(before)),
        ("host_bytes", number(after)),
    ]
}
