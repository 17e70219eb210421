//! `tar`: writes an archive of a directory or file.

pub(crate) mod pax;
pub(crate) mod writer;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::Arc;

use crate::cli::{GlobalOptions, TarArguments};
use crate::export::salvage::damaged::{self, DamagedDestination};
use crate::export::tar::writer::TarWriter;
use crate::failure::Failure;
use crate::file::node::NodeSource;
use crate::image::address::{Address, last_component};
use crate::image::{ImagePath, ImagePaths};
use crate::output::{Output, unless_stdout};
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::standard_output::StandardOutput;
use crate::terminal::tally::{Measure, Tally, Work};

struct Tar {
    targets: ImagePaths,
    output: Option<Output>,
}

/// Opens the image and the output, and returns the command, ready to run.
pub(crate) fn open(
    arguments: &TarArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    if arguments.damaged {
        return open_damaged(arguments, options);
    }
    let targets = ImagePaths::open(arguments.address.as_slice(), options)?;
    let output = match unless_stdout(arguments.output.clone()) {
        None if io::stdout().is_terminal() => {
            return Err(Failure::usage("an archive cannot be written to a terminal")
                .hint("name a file with -o FILE, or use a pipe"));
        }
        None => None,
        Some(path) => Some(Output::open(&path, targets.files())?),
    };
    Ok(Box::new(Tar { targets, output }))
}

/// Opens a damaged image and the output, and returns the command, ready to run.
fn open_damaged(
    arguments: &TarArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let addresses = Address::parse_all(arguments.address.as_slice(), options.image.as_deref())?;
    let address = addresses.first().ok_or_else(|| Failure::usage("tar: the image is missing"))?;
    let output = match unless_stdout(arguments.output.clone()) {
        None if io::stdout().is_terminal() => {
            return Err(Failure::usage("an archive cannot be written to a terminal")
                .hint("name a file with -o FILE, or use a pipe"));
        }
        None => None,
        Some(path) => Some(Output::open(&path, [address.image.as_path()])?),
    };
    damaged::open(address, DamagedDestination::Archive(output), options)
}

impl Run for Tar {
    fn reach(&self) -> Reach<'_> {
        self.output.as_ref().map_or(Reach::Nothing, Output::reach)
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, output } = *self;
        if console.is_json() && output.is_none() {
            return Err(Failure::usage(
                "tar: --json needs -o, because the archive goes to standard output",
            ));
        }
        let targets = targets.read(console);
        let measure = Measure::of_targets(&targets, Measure::of_volume);
        let tally = console.begin(Work::copy("archiving", "archived", measure));
        let Some(target) = targets.first() else { return Ok(console.conclude()?) };
        let node = target.node(false)?;
        let source = NodeSource::new(node).map_err(|failure| target.failure(failure))?;
        match output {
            // The archive has its own buffer: the console flushes its buffer at each report.
            None => {
                let stdout = BufWriter::with_capacity(1 << 20, StandardOutput::open());
                write(target, source, stdout, &tally, console)?;
            }
            Some(output) => {
                write(target, source, output.buffered()?, &tally, console)
                    .map_err(|error| output.failure(&error))?;
                output.commit()?;
            }
        }
        Ok(console.conclude()?)
    }
}

/// Writes the archive of the tree at `target`.
fn write(
    target: &ImagePath,
    source: NodeSource,
    mut out: impl Write,
    tally: &Arc<Tally>,
    console: &mut Console,
) -> io::Result<()> {
    let path = target.path.as_os_str();
    let name = match last_component(std::os::unix::ffi::OsStrExt::as_bytes(path)) {
        b"/" | b".." => b".",
        name => name,
    };
    let mut report = |failure: Failure| console.report(&failure);
    let archive = TarWriter::new(&mut out, &mut report).out_of(target.location()).counted_by(tally);
    archive.write(source, name).and_then(|()| out.flush())
}
