//! `tar`: an archive of a directory or file.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;

use super::Run;
use crate::archive::Archive;
use crate::cli::{GlobalOptions, TarArguments};
use crate::console::Console;
use crate::failure::Failure;
use crate::image::{Target, Targets};
use crate::node::NodeSource;
use crate::predicate::last_component;

struct Tar {
    targets: Targets,
    output: Option<(PathBuf, File)>,
}

/// Opens the image and the output.
pub(super) fn open(
    arguments: &TarArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let targets = Targets::open(arguments.address.as_slice(), options)?;
    let output = match &arguments.output {
        None if io::stdout().is_terminal() => {
            return Err(Failure::usage("an archive is not for a terminal")
                .hint("say where it goes with -o FILE, or pass it on with |"));
        }
        None => None,
        Some(path) => {
            let file =
                File::create(path).map_err(|error| Failure::host(path.as_os_str(), &error))?;
            Some((path.clone(), file))
        }
    };
    Ok(Box::new(Tar { targets, output }))
}

impl Run for Tar {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, output } = *self;
        let Some((path, file)) = output else {
            for target in targets.read(console) {
                // The archive has a buffer of its own: the console's is flushed at each report.
                let stdout = BufWriter::with_capacity(1 << 20, io::stdout().lock());
                write(&target, stdout, console)??;
            }
            return Ok(());
        };
        for target in targets.read(console) {
            let file = file.try_clone().map_err(|error| Failure::host(path.as_os_str(), &error))?;
            write(&target, BufWriter::with_capacity(1 << 20, file), console)?
                .map_err(|error| Failure::host(path.as_os_str(), &error))?;
        }
        Ok(())
    }
}

/// Writes one archive; the inner error is that of writing.
fn write(
    target: &Target,
    mut out: impl Write,
    console: &mut Console,
) -> Result<io::Result<()>, Failure> {
    let node = target.node(false)?;
    let source = NodeSource::new(node).map_err(|failure| target.failure(failure))?;
    let path = target.path.as_os_str();
    let name = match last_component(std::os::unix::ffi::OsStrExt::as_bytes(path)) {
        b"/" | b".." => b".",
        name => name,
    };
    let volume = &target.volume;
    let mut report = |failure: Failure| console.report(&volume.whole_failure(failure));
    let written = Archive::new(&mut out, &mut report).write(source, name);
    Ok(written.and_then(|()| out.flush()))
}
