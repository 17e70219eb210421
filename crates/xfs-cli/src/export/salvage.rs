//! `salvage`: copies everything that can be read from a damaged volume.
//!
//! Owns: the destination, the manifest file, and the exit code. Does **not** own: reading the
//! damaged volume (`xfs-salvage`), or the writers of trees and archives, which `cp` and `tar` also
//! use.
//!
//! The volume is only read. A dirty log is replayed in memory where that is possible.

pub(crate) mod damaged;
mod manifest;
mod new_volume;

use std::cell::RefCell;
use std::fs;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use xfs_salvage::{Salvage as Survey, SalvageOptions, Totals};

use crate::cli::{GlobalOptions, SalvageArguments};
use crate::damaged::source::SalvageSource;
use crate::damaged::survey;
use crate::damaged::volume::{DamagedImage, DamagedVolume};
use crate::exit::Exit;
use crate::export::host::{Directory, Existing, Fidelity, HostWriter};
use crate::export::tar::writer::TarWriter;
use crate::failure::Failure;
use crate::file::source::{InodeSpace, SourceLocation};
use crate::interrupt;
use crate::output::{Output, unless_stdout};
use crate::run::Run;
use crate::sandbox::{Reach, Rights};
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::terminal::standard_output::StandardOutput;
use crate::terminal::tally::{Measure, Tally, Work};
use manifest::Manifest;
use new_volume::NewVolume;

struct Salvage {
    image: DamagedImage,
    destination: Destination,
    manifest: Option<Manifest>,
    deleted: bool,
    ignores_owner: bool,
}

/// The destination of the salvaged files.
enum Destination {
    Directory(Directory),
    /// An archive in a file, or on standard output (`None`).
    Archive(Option<Output>),
    /// A new volume in a file.
    Volume(NewVolume),
}

/// Opens the image, the destination and the manifest. Returns the command, ready to run.
pub(crate) fn open(
    arguments: SalvageArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let image = DamagedImage::open(&arguments.image, arguments.map.as_deref(), options)?;
    let read = [Some(arguments.image.as_path()), arguments.map.as_deref()];
    let read: Vec<&Path> = read.into_iter().flatten().collect();
    let beside = arguments.directory.as_ref().or(arguments.output.as_ref());
    let beside = beside.or(arguments.new_volume.as_ref());
    let named = arguments.manifest.clone().or_else(|| {
        let path = unless_stdout(beside.cloned())?;
        Some(beside_copies(&path))
    });
    let destination = match (arguments.directory, arguments.new_volume) {
        (Some(path), _) => Destination::Directory(open_directory(&path)?),
        (None, Some(path)) => {
            let bytes = image.length_bytes();
            Destination::Volume(NewVolume::open(&path, arguments.new_volume_size, bytes)?)
        }
        (None, None) => match unless_stdout(arguments.output) {
            None if io::stdout().is_terminal() => {
                return Err(Failure::usage("an archive cannot be written to a terminal")
                    .hint("name a file with -o FILE, or use a pipe"));
            }
            None => Destination::Archive(None),
            Some(path) => Destination::Archive(Some(Output::open(&path, read.iter().copied())?)),
        },
    };
    let manifest = named.map(|path| Manifest::open(&path, &read)).transpose()?;
    interrupt::arm()?;
    Ok(Box::new(Salvage {
        image,
        destination,
        manifest,
        deleted: arguments.deleted,
        ignores_owner: arguments.ignore_owner,
    }))
}

/// Returns the default path of the manifest: beside the copies at `path`.
fn beside_copies(path: &Path) -> PathBuf {
    let mut name = path.components().as_path().as_os_str().to_owned();
    name.push(".manifest.ndjson");
    name.into()
}

/// Opens the directory for the copies, and makes it if it does not exist. Copies must not mix with
/// other files, so an existing directory must be empty.
fn open_directory(path: &Path) -> Result<Directory, Failure> {
    let failed = |error: io::Error| Failure::host(path.as_os_str(), &error);
    fs::create_dir_all(path).map_err(failed)?;
    if fs::read_dir(path).map_err(failed)?.next().is_some() {
        let shown = names::in_message(path.as_os_str().as_encoded_bytes());
        return Err(Failure::new(Exit::Failed, format!("{shown}: is not empty"))
            .hint("choose a new directory, so that the copies do not mix with other files"));
    }
    Directory::open(path)
}

impl Run for Salvage {
    fn reach(&self) -> Reach<'_> {
        match &self.destination {
            Destination::Directory(directory) => {
                Reach::Beneath(directory.as_fd(), Rights::TreesAndDevices)
            }
            Destination::Archive(output) => output.as_ref().map_or(Reach::Nothing, Output::reach),
            Destination::Volume(volume) => volume.reach(),
        }
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { image, destination, manifest, deleted, ignores_owner } = *self;
        if console.is_json() && matches!(destination, Destination::Archive(None)) {
            return Err(Failure::usage(
                "salvage: --json needs -o FILE, because the archive goes to standard output",
            ));
        }
        let shown = image.shown();
        let volume = image.read(|note| console.note(format!("{shown}: {note}")))?;
        let options = SalvageOptions { deleted, ..volume.survey_options() };
        let survey = survey(&volume, options, &shown, console)?;
        let manifest = Rc::new(RefCell::new(manifest));
        let sink = Rc::clone(&manifest);
        survey.report_to(move |report| {
            if let Some(manifest) = sink.borrow_mut().as_mut() {
                manifest.write(report);
            }
        });
        let measure = Measure::Files(survey.inode_count());
        let tally = console.begin(Work::copy("salvaging", "salvaged", measure));
        let location = SourceLocation { image: shown.clone(), path: b"/".to_vec() };
        let job = Job { survey: &survey, location, tally: &tally };
        let copied = match destination {
            Destination::Directory(root) => job.copy(&root, ignores_owner, console),
            Destination::Archive(output) => job.archive(output, console),
            Destination::Volume(volume) => {
                volume.fill(&survey, job.location.clone(), &tally, console)
            }
        };
        if let Err(failure) = copied {
            if let Some(manifest) = manifest.borrow_mut().take() {
                manifest.stop(failure.message());
            }
            return Err(failure);
        }
        let totals = survey.totals();
        let object = manifest::totals(&totals, &volume);
        if let Some(manifest) = manifest.borrow_mut().take() {
            manifest.finish(&object)?;
        }
        console.conclude_with(object)?;
        conclude(&totals, &volume, &shown)
    }
}

/// The copying of files, which follows the survey of the damaged volume.
struct Job<'a> {
    survey: &'a Survey<'a>,
    location: SourceLocation,
    tally: &'a Arc<Tally>,
}

impl Job<'_> {
    /// Copies everything that can be read from the damaged volume into the directory `root`.
    fn copy(
        &self,
        root: &Directory,
        ignores_owner: bool,
        console: &mut Console,
    ) -> Result<(), Failure> {
        let fidelity = Fidelity { is_archive: true, ignores_owner, existing: Existing::Replace };
        let console = RefCell::new(console);
        let mut report = |failure: Failure| console.borrow_mut().report(&failure);
        let mut writer = HostWriter::new(fidelity, root, &mut report, self.tally);
        writer.start_source(InodeSpace::default(), self.location.clone());
        let copied = writer.copy_contents(SalvageSource::new(self.survey.top()));
        let shortfalls = writer.finish();
        if let Some(shortfalls) = shortfalls {
            console.borrow_mut().report(&shortfalls.about(&self.location.image));
        }
        copied
    }

    /// Writes everything that can be read from the damaged volume to `output`, as an archive.
    /// `None` means standard output.
    fn archive(&self, output: Option<Output>, console: &mut Console) -> Result<(), Failure> {
        match output {
            None => {
                let stdout = BufWriter::with_capacity(1 << 20, StandardOutput::open());
                Ok(self.write(stdout, console)?)
            }
            Some(output) => {
                let written = self.write(output.buffered()?, console);
                written.map_err(|error| output.failure(&error))?;
                output.commit()
            }
        }
    }

    fn write(&self, mut out: impl Write, console: &mut Console) -> io::Result<()> {
        let mut report = |failure: Failure| console.report(&failure);
        let writer = TarWriter::new(&mut out, &mut report)
            .out_of(self.location.clone())
            .counted_by(self.tally);
        writer.write(SalvageSource::new(self.survey.top()), b".").and_then(|()| out.flush())
    }
}

/// Returns a failure if the copy may be incomplete. If files are doubtful, partial, lost or without
/// a name, the message has their numbers. If all files are whole, the failure is that they may lack
/// changes that only the log has.
fn conclude(totals: &Totals, volume: &DamagedVolume, shown: &str) -> Result<(), Failure> {
    if totals.is_whole() && !volume.replay.is_lacking() {
        return Ok(());
    }
    if totals.is_whole() {
        let message = format!(
            "{shown}: {} complete, but the log was not replayed whole: files may be older than the \
             last changes",
            totals.complete
        );
        return Err(Failure::new(Exit::Corrupt, message));
    }
    let Totals { complete, doubtful, partial, not_copied, lost, orphans, .. } = *totals;
    let message = format!(
        "{shown}: {complete} complete, {doubtful} doubtful, {partial} partial, {not_copied} not \
         copied, {lost} lost; {orphans} of them without a name"
    );
    Err(Failure::new(Exit::Corrupt, message).hint("the manifest says what is missing, and why"))
}
