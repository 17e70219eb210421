//! The option `--damaged` of `cp` and `tar`: copies one file or tree of a damaged volume, as far as
//! it can be read.
//!
//! Owns: finding the path in the damaged volume. Does **not** own: the destinations, which `cp` and
//! `tar` have opened, or the messages about files that are not whole ([`Shortfalls`]).

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::Arc;

use xfs_salvage::Node;

use crate::cli::GlobalOptions;
use crate::damaged::shortfalls::Shortfalls;
use crate::damaged::source::SalvageSource;
use crate::damaged::volume::DamagedImage;
use crate::damaged::{find, survey};
use crate::exit::Exit;
use crate::export::cp::only_files;
use crate::export::host::{Directory, Fidelity, HostWriter};
use crate::export::tar::writer::TarWriter;
use crate::failure::Failure;
use crate::file::facts::FileKind;
use crate::file::source::{InodeSpace, Source, SourceLocation};
use crate::image::address::{Address, last_component};
use crate::interrupt;
use crate::output::Output;
use crate::run::Run;
use crate::sandbox::{Reach, Rights};
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::terminal::standard_output::StandardOutput;
use crate::terminal::tally::{Measure, Tally, Work};

/// The destination of the copies: a directory of the host, or an archive.
pub(crate) enum DamagedDestination {
    /// Copies in a directory of the host.
    Copies(DamagedCopies),
    /// An archive in a file, or on standard output (`None`).
    Archive(Option<Output>),
}

/// The destination and the options of the copies that `cp --damaged` makes.
pub(crate) struct DamagedCopies {
    pub(crate) directory: Directory,
    /// The name of the copy; `None` if the copy keeps the name of its source.
    pub(crate) name: Option<OsString>,
    /// Whether directories are copied.
    pub(crate) is_recursive: bool,
    pub(crate) fidelity: Fidelity,
}

struct Damaged {
    image: DamagedImage,
    path: Vec<u8>,
    destination: DamagedDestination,
}

/// Opens the damaged image that an address names, and returns the command, ready to run.
pub(crate) fn open(
    address: &Address,
    destination: DamagedDestination,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let image = DamagedImage::open(&address.image, None, options)?;
    interrupt::arm()?;
    Ok(Box::new(Damaged { image, path: address.path.clone(), destination }))
}

impl Run for Damaged {
    fn reach(&self) -> Reach<'_> {
        match &self.destination {
            DamagedDestination::Copies(copies) => {
                Reach::Beneath(copies.directory.as_fd(), Rights::TreesAndDevices)
            }
            DamagedDestination::Archive(output) => {
                output.as_ref().map_or(Reach::Nothing, Output::reach)
            }
        }
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { image, path, destination } = *self;
        let shown = image.shown();
        let volume = image.read(|note| console.note(format!("{shown}: {note}")))?;
        let survey = survey(&volume, volume.survey_options(), &shown, console)?;
        let node = find(&survey, &path, console)?.ok_or_else(|| {
            let subject = names::in_message(&path).into_owned();
            let message = "no such file or directory, as far as the volume can be read";
            Failure::new(Exit::Failed, message).about(&subject).about(&shown)
        })?;
        let shortfalls: Rc<RefCell<Shortfalls>> = Rc::default();
        let sink = Rc::clone(&shortfalls);
        survey.report_to(move |report| sink.borrow_mut().take(report));
        let measure = Measure::Files(survey.inode_count());
        let tally = console.begin(Work::copy("copying", "copied", measure));
        let location = SourceLocation { image: shown.clone(), path };
        copy(node, destination, &location, &tally, console)?;
        shortfalls.take().print(&shown, console, |_| true);
        Ok(console.conclude()?)
    }
}

fn copy(
    node: Node<'_>,
    destination: DamagedDestination,
    location: &SourceLocation,
    tally: &Arc<Tally>,
    console: &mut Console,
) -> Result<(), Failure> {
    let name = match last_component(&location.path) {
        b"/" | b".." => b".",
        name => name,
    };
    let source = SalvageSource::new(node);
    let output = match destination {
        DamagedDestination::Copies(copies) => {
            let DamagedCopies { directory, name: new_name, is_recursive, fidelity } = copies;
            let kind = source.facts().kind();
            if kind == FileKind::Directory && !is_recursive {
                let shown = names::in_message(&location.path);
                return Err(only_files(kind).about(&shown).about(&location.image));
            }
            let console = RefCell::new(console);
            let mut report = |failure: Failure| console.borrow_mut().report(&failure);
            let mut writer = HostWriter::new(fidelity, &directory, &mut report, tally);
            writer.start_source(InodeSpace::default(), location.clone());
            let copied = match (&new_name, name) {
                (Some(new_name), _) => writer.copy(source, new_name.as_bytes()),
                (None, b".") => writer.copy_contents(source),
                (None, name) => writer.copy(source, name),
            };
            let shortfalls = writer.finish();
            if let Some(shortfalls) = shortfalls {
                console.borrow_mut().report(&shortfalls.about(&location.image));
            }
            return copied;
        }
        DamagedDestination::Archive(output) => output,
    };
    let write = |out: &mut dyn Write| -> io::Result<()> {
        let mut report = |failure: Failure| console.report(&failure);
        let writer = TarWriter::new(out, &mut report).out_of(location.clone()).counted_by(tally);
        writer.write(source, name)
    };
    match output {
        None => {
            let mut stdout = BufWriter::with_capacity(1 << 20, StandardOutput::open());
            write(&mut stdout)?;
            Ok(stdout.flush()?)
        }
        Some(output) => {
            let mut file = output.buffered()?;
            let written = write(&mut file).and_then(|()| file.flush());
            written.map_err(|error| output.failure(&error))?;
            drop(file);
            output.commit()
        }
    }
}
