//! `get`: the contents of a file.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use super::{Run, cat};
use crate::cli::{GetArguments, GlobalOptions};
use crate::console::Console;
use crate::failure::Failure;
use crate::image::Targets;

struct Get {
    targets: Targets,
    output: Option<(PathBuf, File)>,
}

/// Opens the image and the output.
pub(super) fn open(
    arguments: GetArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let GetArguments { address, output } = arguments;
    let targets = Targets::open(&[address], options)?;
    let create = |path: PathBuf| match File::create(&path) {
        Ok(file) => Ok((path, file)),
        Err(error) => Err(Failure::host(path.as_os_str(), &error)),
    };
    Ok(Box::new(Get { targets, output: output.map(create).transpose()? }))
}

impl Run for Get {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, output } = *self;
        for target in targets.read(console) {
            let Some((path, file)) = &output else {
                cat::copy_to(&target, console)?;
                continue;
            };
            let opened = target.node(true)?.open();
            let mut source = opened.map_err(|error| target.failure(error))?;
            let mut writer = io::BufWriter::with_capacity(1 << 20, file);
            io::copy(&mut source, &mut writer)
                .and_then(|_| writer.flush())
                .map_err(|error| Failure::host(path.as_os_str(), &error))?;
        }
        Ok(())
    }
}
