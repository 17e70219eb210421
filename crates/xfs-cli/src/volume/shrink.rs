//! `shrink`: makes a volume smaller, and then its image file.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use ferroxfs::admin::{FreeSpaceZeros, Shrunk};

use crate::cli::{GlobalOptions, ShrinkArguments};
use crate::failure::Failure;
use crate::image::Image;
use crate::inspect::structures::{Value, fields_to_json};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::text::size;

/// An image file is shortened with its volume if it has fewer blocks than this after the volume. A
/// longer file may hold something else there.
const EXCESS_BLOCKS: u64 = 64;

struct Shrink {
    image: Image,
    blocks: Option<u64>,
    block_size: u32,
    /// Whether the free space becomes holes at the end.
    is_sparse: bool,
    /// The image file, if it is shortened.
    file: Option<File>,
}

/// Opens the image for writing, and the image file if it is to be shortened. Returns the command,
/// ready to run.
pub(crate) fn open(
    arguments: &ShrinkArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let path = &arguments.image;
    let image = Image::open_as_it_stands(path, options)?;
    let geometry = image.describe()?.superblock.geometry.clone();
    let has = image.length_bytes();
    drop(image);
    let excess = has.saturating_sub(geometry.data_bytes()) >> geometry.block_log;
    let file = match excess < EXCESS_BLOCKS {
        true => file_of(path, has).map_err(|error| Failure::host(path.as_os_str(), &error))?,
        false => None,
    };
    let blocks = arguments.to.map(|bytes| bytes >> geometry.block_log);
    let image = Image::open_for_writing(path, options)?;
    let (block_size, is_sparse) = (geometry.block_size, arguments.sparse);
    Ok(Box::new(Shrink { image, blocks, block_size, is_sparse, file }))
}

/// Opens the image file. `has` counts the bytes from the start of the volume to the end of the
/// image. Returns `None` for a device, for a disk image, and for a file in which the volume is not
/// at the start, such as a disk with partitions.
fn file_of(path: &Path, has: u64) -> std::io::Result<Option<File>> {
    let metadata = path.metadata()?;
    if !metadata.is_file() || metadata.len() != has {
        return Ok(None);
    }
    File::options().write(true).open(path).map(Some)
}

impl Run for Shrink {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let step = console.step("shrinking the volume");
        let shrunk = self.image.shrink(self.blocks);
        drop(step);
        let Shrunk { blocks_before: before, blocks: after, moved_blocks: moved, .. } = shrunk?;
        // A file that became shorter while its image is open is an error.
        let zapped = match self.is_sparse {
            true => Some(clear_free_space(&self.image, console)?),
            false => None,
        };
        if let Some(file) = self.file.filter(|_| after < before) {
            // The new size of the volume is durable.
            let shortened = file.set_len(after * u64::from(self.block_size));
            shortened.map_err(|error| self.image.failure(Failure::from(error)))?;
        }
        if console.is_json() {
            let mut fields = vec![
                ("data_blocks_before", Value::number(before)),
                ("data_blocks", Value::number(after)),
                ("block_size", Value::number(self.block_size)),
                ("moved_blocks", Value::number(moved)),
            ];
            fields.extend(zapped.map(|bytes| ("zapped_bytes", Value::number(bytes))));
            return Ok(console.conclude_with(fields_to_json(&fields))?);
        }
        if console.is_quiet() {
            return Ok(());
        }
        let mut said = if before == after {
            format!("data size unchanged: {before} blocks\n")
        } else {
            format!("data blocks changed from {before} to {after}; {moved} blocks moved\n")
        };
        if let Some(bytes) = zapped {
            said.push_str(&format!("{} of free space read as zeros\n", size::human(bytes)));
        }
        Ok(console.out().write_all(said.as_bytes())?)
    }
}

/// Makes the free space read as zeros. Returns the number of bytes.
fn clear_free_space(image: &Image, console: &mut Console) -> Result<u64, Failure> {
    let volume = image.volume(console)?;
    let step = console.step("clearing free space");
    let zapped = volume.inner().zero_free_space(FreeSpaceZeros::Holes);
    drop(step);
    let zapped = zapped.map_err(|error| volume.whole_failure(error));
    volume.close_after(zapped, console)
}
