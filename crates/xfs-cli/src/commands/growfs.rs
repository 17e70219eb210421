//! `growfs`: makes a volume larger.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use ferroxfs::GrowError;

use super::Run;
use crate::cli::{GlobalOptions, GrowfsArguments};
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::Image;

struct Growfs {
    image: Image,
    blocks: Option<u64>,
}

/// Makes an image file long enough, and opens it.
pub(super) fn open(
    arguments: &GrowfsArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let path = &arguments.image;
    let blocks = match (arguments.blocks, arguments.size) {
        (None, None) => None,
        (blocks, bytes) => {
            let image = Image::open_as_it_stands(path, options)?;
            let block_log = image.describe()?.superblock.geometry.block_log;
            let blocks = blocks.or(bytes.map(|bytes| bytes >> block_log));
            let needed = blocks.and_then(|blocks| blocks.checked_mul(1 << block_log));
            let has = image.length_bytes();
            drop(image);
            if let Some(needed) = needed.filter(|needed| *needed > has) {
                lengthen(path, has, needed)
                    .map_err(|error| Failure::host(path.as_os_str(), &error))?;
            }
            blocks
        }
    };
    Ok(Box::new(Growfs { image: Image::open_for_writing(path, options)?, blocks }))
}

/// Makes a file longer that is the volume's and nothing else's. Of any other it is said later that the device
/// is too short.
fn lengthen(path: &Path, has: u64, needed: u64) -> std::io::Result<()> {
    let metadata = path.metadata()?;
    if metadata.is_file() && metadata.len() == has {
        File::options().write(true).open(path)?.set_len(needed)?;
    }
    Ok(())
}

impl Run for Growfs {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let volume = self.image.volume(console)?;
        let before = volume.inner().geometry().data_blocks;
        let grown = volume.inner().grow(self.blocks).map_err(|error| match error {
            GrowError::Failed(error) => volume.whole_failure(error),
            refused => volume.whole_failure(Failure::new(Exit::Failed, refused.to_string())),
        });
        volume.close()?;
        let after = grown?;
        let said = if before == after {
            format!("data size unchanged: {before} blocks\n")
        } else {
            format!("data blocks changed from {before} to {after}\n")
        };
        Ok(console.out().write_all(said.as_bytes())?)
    }
}
