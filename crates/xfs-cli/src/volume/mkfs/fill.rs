//! Filling a new volume with the files of the sources.
//!
//! Owns: opening the sources, and the order in which files and quota are written. Does **not** own:
//! the size of the volume, or its device.

use std::cell::Cell;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use xfs_device::SharedDevice;
use xfs_mkfs::{Options, Plan};

use super::asked::asked_time;
use super::device::Device;
use super::prototype;
use super::quota::NewQuota;
use crate::cli::MkfsArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::Time;
use crate::image::{Filling, Image};
use crate::import::container::Platform;
use crate::import::origin::{PipeReading, SourceReading, is_named_pipe, is_standard_input};
use crate::import::policy::Policy;
use crate::import::policy::id_tables::IdTables;
use crate::import::sources::{ImportSources, no_source};
use crate::import::tables_of_image;
use crate::import::writer::{ImageWriter, WriterOptions};
use crate::input::Spool;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::terminal::tally::Work;
use crate::text::time::Clock;

/// The source of the files with which the new volume is filled.
pub(super) struct Fill {
    pub(super) sources: ImportSources,
    pub(super) policy: Rc<Policy>,
    pub(super) writer_options: WriterOptions,
    pub(super) quota: NewQuota,
    pub(super) filling: Filling,
    pub(super) reported: ReportCount,
}

/// The number of failures of single files that were reported. A volume that was too small is filled
/// again, with the same failures in the same order, and each is reported once.
pub(super) type ReportCount = Rc<Cell<u64>>;

/// The open devices of the new volume.
pub(super) struct MadeDevices {
    pub(super) data: SharedDevice,
    pub(super) log: Option<SharedDevice>,
}

impl Fill {
    /// Opens the source of files that the arguments name. `None` if they name none, or if nothing
    /// is to be written (`-N`).
    pub(super) fn open(
        arguments: &MkfsArguments,
        options: &Options,
        pipes: PipeReading,
        standard_input: Option<Arc<Spool>>,
    ) -> Result<Option<Self>, Failure> {
        let quota = NewQuota::parse(arguments, &options.quota)?;
        if arguments.dry_run {
            Self::check_has_sources(arguments)?;
            return Ok(None);
        }
        let policy = Self::policy(arguments, standard_input.as_ref())?;
        let sources = Self::open_sources(arguments, pipes, standard_input, &policy)?;
        if sources.is_empty() {
            Self::check_has_sources(arguments)?;
            if !quota.is_asked() {
                return Ok(None);
            }
        }
        Ok(Some(Self::new(arguments, sources, policy, quota)?))
    }

    fn new(
        arguments: &MkfsArguments,
        sources: ImportSources,
        policy: Rc<Policy>,
        quota: NewQuota,
    ) -> Result<Self, Failure> {
        let time = asked_time(arguments)?;
        Ok(Self {
            sources,
            policy,
            writer_options: WriterOptions::faithful(arguments.all_root, time),
            filling: Filling { time, takes_pool: arguments.minimize, quota: quota.options },
            quota,
            reported: ReportCount::default(),
        })
    }

    /// Fails if options for files are given without a source of files.
    fn check_has_sources(arguments: &MkfsArguments) -> Result<(), Failure> {
        let has_sources = !arguments.from.is_empty()
            || !arguments.add.is_empty()
            || !arguments.prototype.is_empty();
        let given = arguments.policy.first_given();
        match given.or(arguments.all_root.then_some("--all-root")).filter(|_| !has_sources) {
            Some(option) => Err(no_source(option)),
            None => Ok(()),
        }
    }

    pub(super) fn policy(
        arguments: &MkfsArguments,
        standard_input: Option<&Arc<Spool>>,
    ) -> Result<Rc<Policy>, Failure> {
        let tables = if arguments.policy.passwd_from_image {
            let is_stream = |from: &PathBuf| {
                is_named_pipe(from) || is_standard_input(from) && standard_input.is_none()
            };
            if arguments.from.iter().any(is_stream) {
                let message = "--passwd-from-image reads the sources twice, and a pipe only once";
                return Err(Failure::usage(message).hint("write the archive to a file first"));
            }
            tables_of_image(&arguments.policy, |policy| {
                let (whole, input) = (PipeReading::Whole, standard_input.cloned());
                Self::open_sources(arguments, whole, input, policy)
            })?
        } else {
            IdTables::of_options(&arguments.policy)?
        };
        let has_latest = asked_time(arguments)?.is_some();
        Ok(Rc::new(Policy::parse(&arguments.policy, has_latest, &tables)?))
    }

    /// Opens the sources of the files, to fill a trial volume.
    pub(super) fn of_sources(
        arguments: &MkfsArguments,
        options: &Options,
        standard_input: Option<Arc<Spool>>,
    ) -> Result<Self, Failure> {
        let policy = Self::policy(arguments, standard_input.as_ref())?;
        let sources = Self::sources(arguments, standard_input, &policy)?;
        let quota = NewQuota::parse(arguments, &options.quota)?;
        Self::new(arguments, sources, policy, quota)
    }

    /// Opens the sources of the files, to measure them.
    pub(super) fn sources(
        arguments: &MkfsArguments,
        standard_input: Option<Arc<Spool>>,
        policy: &Rc<Policy>,
    ) -> Result<ImportSources, Failure> {
        let sources = Self::open_sources(arguments, PipeReading::Whole, standard_input, policy)?;
        match sources.is_empty() {
            true => Err(no_source(match arguments.minimize {
                true => "--minimize",
                false => "-d size=auto",
            })),
            false => Ok(sources),
        }
    }

    fn open_sources(
        arguments: &MkfsArguments,
        pipes: PipeReading,
        standard_input: Option<Arc<Spool>>,
        policy: &Rc<Policy>,
    ) -> Result<ImportSources, Failure> {
        if let Some(asked) = prototype::parse(&arguments.prototype)? {
            let time = asked_time(arguments)?;
            let chosen =
                time.map(|time| Time { seconds: time.seconds(), nanoseconds: time.nanoseconds() });
            return Ok(ImportSources::one(
                asked.open(chosen.unwrap_or_else(|| Clock::open().now()))?,
            ));
        }
        let platform = arguments.policy.platform.as_deref().map(Platform::parse).transpose()?;
        let (archive, policy) = (arguments.archive, Rc::clone(policy));
        let objects = arguments.policy.composefs_objects.clone();
        let reading = SourceReading { pipes, archive, platform, policy, objects, standard_input };
        ImportSources::open(&arguments.from, &arguments.add, &reading)
    }

    /// Fills the new volume. `made` has the open data device and log device; without it, they are
    /// opened by their paths.
    pub(super) fn run(
        self,
        data: &Device,
        log: Option<&Device>,
        made: Option<MadeDevices>,
        console: &mut Console,
    ) -> Result<(), Failure> {
        let Self { sources, policy, writer_options, quota, filling, reported } = self;
        let (path, log_path) = (data.place(), log.map(Device::place));
        let written = [Some(path.as_path()), log_path.as_deref(), Some(&data.path)];
        let written = written.into_iter().flatten().chain(log.map(|log| log.path.as_path()));
        let sources = sources.without(&written.collect::<Vec<_>>());
        let image = match made {
            Some(MadeDevices { data: made, log }) => Image::made_on(made, log, &data.path, filling),
            None => Image::open_made(&path, &data.path, log_path.as_deref(), filling)?,
        };
        let volume = image.read()?;
        let tally = console.begin(Work::copy("filling", "imported", sources.measure()));
        let mut failures = 0;
        let mut report = |failure: Failure| {
            failures += 1;
            if failures > reported.get() {
                reported.set(failures);
                console.report(&volume.whole_failure(failure));
            }
        };
        let mut writer =
            ImageWriter::new(writer_options, &mut report).counted_by(&tally).governed_by(&policy);
        let leaves_garbage = sources.are_layers() && data.is_staged();
        let root = volume.inner().root().map_err(Failure::from);
        let filled = root.and_then(|root| sources.fill(&root, &mut writer)).and_then(|()| {
            // The contents of files that a layer has replaced or hidden must not stay in the image.
            let trimmed = leaves_garbage.then(|| volume.inner().trim(0..u64::MAX, 0));
            trimmed.transpose().map_err(Failure::from).map(drop)
        });
        drop(writer);
        let filled = filled.and_then(|()| quota.set_limits(&volume)).map(|notes| {
            notes.into_iter().for_each(|note| console.note(format!("warning: {note}")));
        });
        let filled = filled.map_err(|failure| data.unfilled(volume.whole_failure(failure)));
        match filled {
            // A file that is discarded need not be closed.
            Err(failure) if data.is_staged() => Err(failure),
            filled => volume.close_after(filled, console),
        }
    }
}

/// Refuses to fill a volume that ferroxfs cannot write.
pub(super) fn check_fillable(path: &Path, plan: &Plan) -> Result<(), Failure> {
    let superblock = plan.superblock();
    if !superblock.has_realtime() {
        return Ok(());
    }
    let message = "--from and -p are not supported: files of a volume with a realtime section";
    let failure = Failure::new(Exit::Refused, message);
    Err(failure.about(&names::in_message(path.as_os_str().as_bytes())))
}
