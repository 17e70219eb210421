//! `growfs`: enlarges a volume.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use ferroxfs::admin::GrowError;

use crate::cli::{GlobalOptions, GrowfsArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::Image;
use crate::inspect::structures::{Value, fields_to_json};
use crate::output::space;
use crate::run::Run;
use crate::terminal::console::Console;

struct Growfs {
    image: Image,
    blocks: Option<u64>,
    lengthened: Option<Lengthened>,
}

/// An image file that was extended, and the length that it had before. Dropping this value
/// truncates the file to that length again, unless the volume has grown.
struct Lengthened {
    file: File,
    had: u64,
    is_needed: bool,
}

impl Drop for Lengthened {
    fn drop(&mut self) {
        if !self.is_needed {
            // The error of the volume is the one to report.
            let _ = self.file.set_len(self.had);
        }
    }
}

/// Extends the image file if the new size needs it, and opens the image for writing. Returns the
/// command, ready to run.
pub(crate) fn open(
    arguments: &GrowfsArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let path = &arguments.image;
    if arguments.realtime {
        let image = Image::open_for_writing(path, options)?;
        return Ok(Box::new(GrowRealtime { image, blocks: arguments.realtime_blocks }));
    }
    let (blocks, lengthened) = match (arguments.blocks, arguments.size) {
        (None, None) => (None, None),
        (blocks, bytes) => {
            let image = Image::open_as_it_stands(path, options)?;
            let block_log = image.describe()?.superblock.geometry.block_log;
            let blocks = blocks.or(bytes.map(|bytes| bytes >> block_log));
            let needed = blocks.and_then(|blocks| blocks.checked_mul(1 << block_log));
            let has = image.length_bytes();
            drop(image);
            let lengthened = match needed.filter(|needed| *needed > has) {
                Some(needed) => lengthen(path, has, needed)
                    .map_err(|error| Failure::host(path.as_os_str(), &error))?,
                None => None,
            };
            (blocks, lengthened)
        }
    };
    let image = Image::open_for_writing(path, options)?;
    Ok(Box::new(Growfs { image, blocks, lengthened }))
}

/// Extends the image file from `has` to `needed` bytes; `has` counts from the start of the volume
/// to the end of the file. Returns `None` for a device, and for a file in which the volume is not
/// at the start, such as a disk with partitions. If such a device or file is too short, the library
/// later returns the error.
fn lengthen(path: &Path, has: u64, needed: u64) -> std::io::Result<Option<Lengthened>> {
    let metadata = path.metadata()?;
    if !metadata.is_file() || metadata.len() != has {
        return Ok(None);
    }
    let file = File::options().write(true).open(path)?;
    space::lengthen(&file, needed)?;
    Ok(Some(Lengthened { file, had: has, is_needed: false }))
}

struct GrowRealtime {
    image: Image,
    blocks: Option<u64>,
}

impl Run for GrowRealtime {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let before = self.image.describe()?.superblock.realtime_blocks;
        let step = console.step("growing the realtime section");
        let grown = self.image.grow_realtime(self.blocks);
        drop(step);
        let after = grown?;
        if console.is_json() {
            let fields = vec![
                ("realtime_blocks_before", Value::number(before)),
                ("realtime_blocks", Value::number(after)),
            ];
            return Ok(console.conclude_with(fields_to_json(&fields))?);
        }
        if console.is_quiet() {
            return Ok(());
        }
        let said = if before == after {
            format!("realtime size unchanged: {before} blocks\n")
        } else {
            format!("realtime blocks changed from {before} to {after}\n")
        };
        Ok(console.out().write_all(said.as_bytes())?)
    }
}

impl Run for Growfs {
    fn run(mut self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let volume = self.image.volume(console)?;
        let before = volume.inner().geometry().data_blocks;
        let step = console.step("growing the volume");
        let grown = volume.inner().grow(self.blocks).map_err(|error| match error {
            GrowError::Failed(error) => volume.whole_failure(error),
            refused => volume.whole_failure(Failure::new(Exit::Failed, refused.to_string())),
        });
        drop(step);
        if let Some(lengthened) = &mut self.lengthened {
            // The volume may have grown before the failure, for example at a copy of the
            // superblock.
            lengthened.is_needed = volume.inner().geometry().data_blocks > before;
        }
        let block_size = volume.inner().geometry().block_size;
        let after = volume.close_after(grown, console)?;
        if console.is_json() {
            let fields = vec![
                ("data_blocks_before", Value::number(before)),
                ("data_blocks", Value::number(after)),
                ("block_size", Value::number(block_size)),
            ];
            return Ok(console.conclude_with(fields_to_json(&fields))?);
        }
        if console.is_quiet() {
            return Ok(());
        }
        let said = if before == after {
            format!("data size unchanged: {before} blocks\n")
        } else {
            format!("data blocks changed from {before} to {after}\n")
        };
        Ok(console.out().write_all(said.as_bytes())?)
    }
}
