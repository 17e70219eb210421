//! `mkfs`: makes a volume, empty or filled with files.

mod configuration;
mod device;
mod disk;
mod esp;
mod minimize;
mod packaging;
mod prototype;
mod sizing;

use std::cell::Cell;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use ferroxfs::Timestamp;
use ferroxfs::raw::Superblock;
use xfs_device::{SharedDevice, share_bytes};
use xfs_image::is_address;
use xfs_mkfs::{
    Devices, Discard, Generations, GeometryError, Identity, OptionError, Options, Plan, Reader,
    Size, TargetDevice,
};

use crate::cli::{GlobalOptions, MkfsArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::Time;
use crate::image::{Filling, Image};
use crate::import::container::Platform;
use crate::import::origin::{PipeReading, SourceReading};
use crate::import::policy::Policy;
use crate::import::sources::{ImportSources, no_source};
use crate::import::writer::{ImageWriter, WriterOptions};
use crate::input::{self, Spool};
use crate::inspect::info::{geometry_object, xfs_info};
use crate::interrupt;
use crate::json::{self, Object};
use crate::output::is_same_file;
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::terminal::tally::Work;
use crate::text::size;
use crate::text::time::{Clock, source_date_epoch};
use device::{Device, DeviceRequest, Placement};
use disk::DiskPlan;
use packaging::Packaging;
use sizing::{FreeSpace, Sizing};

/// The inode generation that mkfs.xfs sets if `DETERMINISTIC_SEED` is in its environment.
const DETERMINISTIC_GENERATION: u32 = 0x5345_4544;
const DEFAULT_BLOCK_BYTES: u32 = 4096;
const SECTOR_BYTES: u32 = 512;

struct Mkfs {
    arguments: MkfsArguments,
    plan: Plan,
    /// The time of the new volume.
    time: Timestamp,
    data: Device,
    log: Option<Device>,
    realtime: Option<Device>,
    fill: Option<Fill>,
    global: GlobalOptions,
    /// The size of the data, if it was chosen to fit the files; `None` if the user has chosen it.
    chosen: Option<ChosenSize>,
}

/// The size of a volume that was chosen to fit its files.
#[derive(Clone, Default)]
struct ChosenSize {
    bytes: u64,
    /// Standard input, if it is a source. It is read twice.
    standard_input: Option<Arc<Spool>>,
    /// How often the size was too small.
    retries: u32,
    reported: ReportCount,
}

impl ChosenSize {
    /// Returns the next size to try after this one was too small; `None` if there were too many.
    fn larger(self, arguments: &MkfsArguments) -> Option<Self> {
        let bytes = match arguments.minimize {
            true => minimize::larger(self.bytes, self.retries)?,
            false => sizing::larger(self.bytes, self.retries)?,
        };
        Some(Self { bytes, retries: self.retries + 1, ..self })
    }
}

/// The source of the files with which the new volume is filled.
struct Fill {
    sources: ImportSources,
    policy: Rc<Policy>,
    writer_options: WriterOptions,
    filling: Filling,
    reported: ReportCount,
}

/// The number of failures of single files that were reported. A volume that was too small is filled
/// again, with the same failures in the same order, and each is reported once.
type ReportCount = Rc<Cell<u64>>;

/// The open devices of the new volume.
struct MadeDevices {
    data: SharedDevice,
    log: Option<SharedDevice>,
}

/// Parses the options, plans the volume and opens its devices. A new file is created only after all
/// checks have passed.
pub(crate) fn open(
    arguments: MkfsArguments,
    global: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let names_another_part = global.logical_volume.is_some() || !global.member.is_empty();
    if names_another_part || global.offset.is_some() || global.image.is_some() {
        return Err(Failure::usage(
            "mkfs makes a volume of a whole file or device, or a partition",
        ));
    }
    if global.partition.is_some() && arguments.whole_disk.disk.is_some() {
        return Err(Failure::usage("--disk makes a new disk, --partition uses one that exists"));
    }
    open_sized(arguments, global, None).map(|mkfs| -> Box<dyn Run> { Box::new(mkfs) })
}

/// Works as [`open`]. With `chosen`, an earlier run has chosen the size of the data.
fn open_sized(
    arguments: MkfsArguments,
    global: &GlobalOptions,
    chosen: Option<ChosenSize>,
) -> Result<Mkfs, Failure> {
    let (mut options, free) = read_options(&arguments, global)?;
    let data_path = match (&arguments.device, &options.data.name) {
        (Some(path), None) | (None, Some(path)) => path.clone(),
        (None, None) => return Err(no_device(&arguments)),
        (Some(_), Some(_)) => {
            return Err(Failure::usage("the device is named twice, once by -d name"));
        }
    };
    if data_path.as_os_str() == "-" {
        return Err(Failure::usage("-: a volume cannot be made on standard output")
            .hint("name a file; ./- is a file of that name"));
    }
    let chosen = match (chosen, free) {
        (None, Some(free)) => Some(choose_size(&arguments, &options, &data_path, free)?),
        (chosen, _) => chosen,
    };
    if let Some(chosen) = &chosen {
        options.data.size = Some(Size::bytes(chosen.bytes));
        options.data.file = data_path.is_file();
    }
    let bytes = |size: Option<Size>| asked_bytes(&options, size);
    let log_path = options.log.device.as_deref();
    let realtime_path = options.realtime.device.as_deref();
    check_distinct(&data_path, log_path, realtime_path)?;
    let request = |path, size, grows| DeviceRequest::new(path, &arguments, bytes(size), grows);
    let mut data = request(&data_path, options.data.size, options.data.file)?;
    data.is_exact = chosen.is_some();
    data.placement = match (
        global.partition.clone(),
        DiskPlan::parse(&arguments.whole_disk, asked_time(&arguments)?)?,
    ) {
        (Some(choice), _) => Placement::Partition(choice),
        (None, Some(disk)) => Placement::NewDisk(disk),
        (None, None) => Placement::Whole,
    };
    data.is_filled = !arguments.from.is_empty();
    data.format = Packaging::parse(&arguments.whole_disk)?;
    let log = log_path.map(|path| request(path, options.log.size, options.log.file));
    let log = log.transpose()?;
    let realtime =
        realtime_path.map(|path| request(path, options.realtime.size, options.realtime.file));
    let realtime = realtime.transpose()?;
    let target = TargetDevice {
        data_bytes: data.length()?,
        sector_size: data.sector_size()?,
        log_bytes: log.as_ref().map(DeviceRequest::length).transpose()?,
        realtime_bytes: realtime.as_ref().map(DeviceRequest::length).transpose()?,
    };
    let identity = identity(&arguments, &options, &target)?;
    let plan = Plan::new(&options, &target, &identity)
        .map_err(|error| geometry_failure(&data_path, &error))?;
    let is_new = !data_path.exists() && !is_address(&data_path);
    // A volume that does not exist yet cannot be the input of the pipe.
    let pipes = if is_new { PipeReading::Stream } else { PipeReading::Whole };
    let standard_input = chosen.as_ref().and_then(|chosen| chosen.standard_input.clone());
    let mut fill = Fill::open(&arguments, pipes, standard_input)?;
    if let (Some(fill), Some(chosen)) = (&mut fill, &chosen) {
        fill.reported = Rc::clone(&chosen.reported);
    }
    if fill.is_some() {
        check_fillable(&data_path, &plan)?;
    }
    interrupt::arm()?;
    let data = data.open(&arguments)?;
    let log = log.map(|log| log.open(&arguments)).transpose()?;
    let realtime = realtime.map(|realtime| realtime.open(&arguments)).transpose()?;
    let (global, time) = (global.clone(), identity.time);
    Ok(Mkfs { arguments, plan, time, data, log, realtime, fill, global, chosen })
}

/// Returns the failure of a command line that names no file or device for the volume.
fn no_device(arguments: &MkfsArguments) -> Failure {
    let failure = Failure::usage("no file or device for the volume is named");
    match arguments.from.first() {
        Some(source) => failure.hint(format!(
            "name it last: ferroxfs mkfs --from {} -d size=auto disk.img",
            names::in_message(source.as_os_str().as_bytes())
        )),
        None => failure.hint("name it last: ferroxfs mkfs -d size=1g disk.img"),
    }
}

/// Chooses the size of the data so that the volume holds the files of the sources and has `free`
/// space left.
fn choose_size(
    arguments: &MkfsArguments,
    options: &Options,
    path: &Path,
    free: FreeSpace,
) -> Result<ChosenSize, Failure> {
    if let Some(pipe) = arguments.from.iter().find(|from| is_named_pipe(from)) {
        let name = names::in_message(pipe.as_os_str().as_bytes());
        let message = format!("{name}: a named pipe can be read only once, not also for its size");
        return Err(Failure::usage(message).hint("give it as standard input: --from -"));
    }
    let reads_input = arguments.from.iter().any(|from| from.as_os_str() == "-");
    let standard_input = match reads_input {
        true => Some(Arc::new(input::standard_input()?)),
        false => None,
    };
    let sizing = Sizing {
        arguments,
        options,
        path,
        target: TargetDevice {
            data_bytes: 0,
            sector_size: SECTOR_BYTES,
            log_bytes: options
                .log
                .device
                .as_ref()
                .and_then(|_| asked_bytes(options, options.log.size)),
            realtime_bytes: None,
        },
        standard_input: standard_input.clone(),
    };
    let bytes = match arguments.minimize {
        true => sizing.smallest_bytes(free)?,
        false => sizing.bytes(free)?,
    };
    Ok(ChosenSize { bytes, standard_input, ..ChosenSize::default() })
}

/// Checks that data, log and realtime section have devices of their own.
fn check_distinct(data: &Path, log: Option<&Path>, realtime: Option<&Path>) -> Result<(), Failure> {
    let is_same = |one: &Path, other: &Path| {
        one == other || share_bytes(one, other) || is_same_file(one, other)
    };
    if log.is_some_and(|log| is_same(data, log)) {
        return Err(Failure::usage("-l logdev names the device of the data")
            .hint("without -l logdev the log is inside"));
    }
    let Some(realtime) = realtime else { return Ok(()) };
    if is_same(data, realtime) {
        return Err(Failure::usage("-r rtdev names the device of the data"));
    }
    if log.is_some_and(|log| is_same(log, realtime)) {
        return Err(Failure::usage("-r rtdev names the device of the log"));
    }
    Ok(())
}

/// Refuses to fill a volume that ferroxfs cannot write.
fn check_fillable(path: &Path, plan: &Plan) -> Result<(), Failure> {
    let superblock = plan.superblock();
    let what = match () {
        () if superblock.has_realtime() => "a realtime section",
        () if superblock.metadata_directory_inode.is_some() => "a metadata directory",
        () => return Ok(()),
    };
    let message = format!("--from and -p are not supported: files of a volume with {what}");
    let failure = Failure::new(Exit::Refused, message);
    Err(failure.about(&names::in_message(path.as_os_str().as_bytes())))
}

impl Run for Mkfs {
    fn reach(&self) -> Reach<'_> {
        Reach::Host
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let mut mkfs = *self;
        loop {
            let again = (mkfs.arguments.clone(), mkfs.global.clone(), mkfs.chosen.clone());
            let made = mkfs.make(console);
            let (mut arguments, global, chosen) = again;
            match (made, chosen) {
                // The estimate was too small. Nothing is in place yet (I1 of `minimize`).
                (Err(failure), Some(chosen)) if failure.is_of_room() => {
                    let Some(chosen) = chosen.larger(&arguments) else { return Err(failure) };
                    // The first run has seen that it may overwrite the device.
                    arguments.force = true;
                    mkfs = open_sized(arguments, &global, Some(chosen))?;
                }
                (Err(failure), None) if failure.is_of_room() => {
                    return Err(with_needed_size(failure, &arguments, &global));
                }
                (made, _) => return made,
            }
        }
    }
}

/// Adds to a failure for lack of space the size of a volume that holds all files, if the sources
/// can be read once more.
fn with_needed_size(
    failure: Failure,
    arguments: &MkfsArguments,
    global: &GlobalOptions,
) -> Failure {
    let is_stream = |from: &PathBuf| from.as_os_str() == "-" || is_named_pipe(from);
    if arguments.from.iter().any(is_stream) {
        return failure;
    }
    let needed = read_options(arguments, global).and_then(|(options, _)| {
        choose_size(arguments, &options, &std::env::temp_dir(), FreeSpace::Bytes(0))
    });
    match needed {
        Ok(ChosenSize { bytes, .. }) => failure.more(&format!(
            "; all files need a volume of about {}, which {} makes",
            size::human(bytes),
            if arguments.minimize { "--minimize without -d size=" } else { "-d size=auto" }
        )),
        // The failure itself is what the user needs to know.
        Err(_) => failure,
    }
}

fn is_named_pipe(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

impl Mkfs {
    /// Makes the volume once.
    fn make(self, console: &mut Console) -> Result<(), Failure> {
        for warning in self.plan.warnings() {
            console.note(format!("warning: {warning}"));
        }
        let superblock = self.plan.superblock();
        let mut facts = describe(superblock);
        if !console.is_json() && !console.is_quiet() {
            let style = console.name_style(false);
            let show = |path: &Path| style.show(path.as_os_str().as_bytes()).into_owned();
            let name = show(&self.data.path);
            let log = self.log.as_ref().map(|log| show(&log.path));
            xfs_info::print(console.out(), &name, log.as_deref(), superblock)?;
        }
        let Self { arguments, plan, time, mut data, mut log, mut realtime, fill, .. } = self;
        let Some(device) = data.device.take() else {
            facts.extend(
                data.describe().map_err(|error| Failure::host(data.path.as_os_str(), &error))?,
            );
            return Ok(console.conclude_with(facts)?);
        };
        let log_device = log.as_mut().and_then(|log| log.device.take());
        let realtime_device = realtime.as_mut().and_then(|realtime| realtime.device.take());
        let devices = Devices {
            data: &*device,
            log: log_device.as_deref(),
            realtime: realtime_device.as_deref(),
        };
        let discard = if arguments.keep { Discard::No } else { Discard::Yes };
        let step = console.step("making the volume");
        xfs_mkfs::write(&plan, devices, discard)
            .map_err(|error| Failure::host(data.path.as_os_str(), &error))?;
        drop((step, realtime_device));
        let stays_open = data.stays_open || log.as_ref().is_some_and(|log| log.stays_open);
        let made = stays_open.then_some(MadeDevices { data: device, log: log_device });
        if let Some(fill) = fill {
            fill.run(&data, log.as_ref(), made, console)?;
        }
        data.check_stopped()?;
        let step = console.step("writing the disk");
        data.finish_disk(&plan.superblock().uuid)?;
        data.package(&plan.superblock().uuid, time)?;
        let failed = |error| Failure::host(data.path.as_os_str(), &error);
        facts.extend(data.describe().map_err(failed)?);
        drop(step);
        // The volume is not valid before its log and its realtime section exist.
        log.map_or(Ok(()), Device::publish)?;
        realtime.map_or(Ok(()), Device::publish)?;
        data.publish()?;
        Ok(console.conclude_with(facts)?)
    }
}

impl Fill {
    /// Opens the source of files that the arguments name. `None` if they name none, or if nothing
    /// is to be written (`-N`).
    fn open(
        arguments: &MkfsArguments,
        pipes: PipeReading,
        standard_input: Option<Arc<Spool>>,
    ) -> Result<Option<Self>, Failure> {
        if arguments.dry_run {
            Self::check_has_sources(arguments)?;
            return Ok(None);
        }
        let policy = Self::policy(arguments)?;
        let sources = Self::open_sources(arguments, pipes, standard_input, &policy)?;
        if sources.is_empty() {
            Self::check_has_sources(arguments)?;
            return Ok(None);
        }
        Ok(Some(Self::new(arguments, sources, policy)?))
    }

    fn new(
        arguments: &MkfsArguments,
        sources: ImportSources,
        policy: Rc<Policy>,
    ) -> Result<Self, Failure> {
        let time = asked_time(arguments)?;
        Ok(Self {
            sources,
            policy,
            writer_options: WriterOptions::faithful(arguments.all_root, time),
            filling: Filling { time, takes_pool: arguments.minimize },
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

    fn policy(arguments: &MkfsArguments) -> Result<Rc<Policy>, Failure> {
        Ok(Rc::new(Policy::parse(&arguments.policy, asked_time(arguments)?.is_some())?))
    }

    /// Opens the sources of the files, to fill a trial volume.
    fn of_sources(
        arguments: &MkfsArguments,
        standard_input: Option<Arc<Spool>>,
    ) -> Result<Self, Failure> {
        let sources = Self::sources(arguments, standard_input)?;
        Self::new(arguments, sources, Self::policy(arguments)?)
    }

    /// Opens the sources of the files, to measure them.
    fn sources(
        arguments: &MkfsArguments,
        standard_input: Option<Arc<Spool>>,
    ) -> Result<ImportSources, Failure> {
        let policy = Self::policy(arguments)?;
        let sources = Self::open_sources(arguments, PipeReading::Whole, standard_input, &policy)?;
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
    fn run(
        self,
        data: &Device,
        log: Option<&Device>,
        made: Option<MadeDevices>,
        console: &mut Console,
    ) -> Result<(), Failure> {
        let Self { sources, policy, writer_options, filling, reported } = self;
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
        let filled = filled.map_err(|failure| data.unfilled(volume.whole_failure(failure)));
        drop(writer);
        match filled {
            // A file that is discarded need not be closed.
            Err(failure) if data.is_staged() => Err(failure),
            filled => volume.close_after(filled, console),
        }
    }
}

/// Reads the options of the command line and of files. Returns them, and the free space of a volume
/// whose size is chosen to fit the files.
fn read_options(
    arguments: &MkfsArguments,
    global: &GlobalOptions,
) -> Result<(Options, Option<FreeSpace>), Failure> {
    let (data, free) = sizing::split_automatic(arguments)?;
    let mut options = Options::default();
    configuration::read_defaults(&arguments.configuration, &mut options)?;
    options.allow_small = arguments.unsupported;
    options.minimize = arguments.minimize;
    let groups = [
        ('b', &arguments.block),
        ('d', &data),
        ('i', &arguments.inode),
        ('l', &arguments.log),
        ('m', &arguments.metadata),
        ('n', &arguments.naming),
        ('r', &arguments.realtime),
        ('s', &arguments.sector),
    ];
    for (letter, texts) in groups {
        for text in texts {
            options.parse(letter, text).map_err(|error| option_failure(&error))?;
        }
    }
    configuration::read(&arguments.configuration, &mut options)?;
    if let Some(label) = &arguments.label {
        options.parse_label(label.as_bytes()).map_err(|error| option_failure(&error))?;
    }
    if let Some(realtime) = &global.realtime_device
        && options.realtime.device.replace(realtime.clone()).is_some()
    {
        return Err(Failure::usage("-r rtdev and --rt-device exclude each other"));
    }
    if let Some(log) = &global.log_device
        && options.log.device.replace(log.clone()).is_some()
    {
        return Err(Failure::usage("-l logdev and --log-device exclude each other"));
    }
    restrict(&mut options, &arguments.readers)?;
    match (options.data.size, free) {
        (Some(_), Some(_)) if sizing::is_automatic(arguments) => {
            Err(Failure::usage("-d size= is given twice, once as auto"))
        }
        (Some(_), Some(_)) if arguments.free.is_some() => {
            Err(Failure::usage("-d size= and --free exclude each other"))
        }
        // Without overhead, and of this size.
        (Some(_), _) => Ok((options, None)),
        (None, free) => Ok((options, free)),
    }
}

/// Applies the options `--for`: turns features off that a named reader cannot mount.
fn restrict(options: &mut Options, names: &[String]) -> Result<(), Failure> {
    let parse = |name: &String| name.parse::<Reader>();
    let readers: Result<Vec<_>, _> = names.iter().map(parse).collect();
    let restricted = readers.and_then(|readers| options.restrict_to(&readers));
    restricted.map_err(|error| Failure::usage(format!("--for: {error}")))
}

/// Returns the number of bytes that an option asks for. `None` if the option is not given, or if
/// the size cannot be computed. In the latter case, the planning of the volume reports the reason.
fn asked_bytes(options: &Options, size: Option<Size>) -> Option<u64> {
    let number = |size: Option<Size>, otherwise: u32| {
        size.and_then(|size| u32::try_from(size.number).ok()).unwrap_or(otherwise)
    };
    let block = number(options.block_size, DEFAULT_BLOCK_BYTES);
    size?.to_bytes(block, number(options.sector_size, SECTOR_BYTES))
}

/// Returns the time that all files get: from the options, or from the environment. `None` if
/// neither gives one.
fn asked_time(arguments: &MkfsArguments) -> Result<Option<Timestamp>, Failure> {
    let time = match arguments.time {
        Some(seconds) => Some(Timestamp::new(seconds, 0).unwrap_or_default()),
        None => source_date_epoch()?,
    };
    if arguments.epoch.is_some() && time.is_none() {
        return Err(Failure::usage("mkfs: --epoch needs a fixed time")
            .hint("give it with --time or SOURCE_DATE_EPOCH"));
    }
    Ok(time)
}

/// Returns the UUID, the time and the inode generations of the new volume. Without options or
/// environment variables for them, the UUID and the generations are random, and the time is the
/// current time.
fn identity(
    arguments: &MkfsArguments,
    options: &Options,
    target: &TargetDevice,
) -> Result<Identity, Failure> {
    let random = || {
        Identity::random()
            .map_err(|error| Failure::new(Exit::Failed, format!("no random numbers: {error}")))
    };
    let mut identity = match (asked_time(arguments)?, arguments.seed) {
        (None, None) => random()?,
        (Some(time), seed) => {
            let length = target.data_bytes.to_be_bytes();
            let seed = seed.unwrap_or(0).to_be_bytes();
            let salt = [&seed, &length, options.label.as_bytes()].concat();
            Identity::reproducible(time, &salt)
        }
        (None, Some(seed)) => Identity {
            time: random()?.time,
            ..Identity::reproducible(Timestamp::default(), &seed.to_be_bytes())
        },
    };
    if std::env::var_os("DETERMINISTIC_SEED").is_some() {
        identity.generations = Generations::Fixed(DETERMINISTIC_GENERATION);
    }
    Ok(identity)
}

fn describe(superblock: &Superblock) -> Object {
    let mut object = geometry_object(superblock);
    let mut insert = |key: &str, value: serde_json::Value| object.insert(key.to_owned(), value);
    insert("log_blocks", superblock.log_blocks.into());
    insert("log_external", superblock.has_external_log().into());
    insert("free_blocks", superblock.free_blocks.into());
    json::insert_name(&mut object, "label", superblock.label.as_bytes());
    object
}

fn option_failure(error: &OptionError) -> Failure {
    let exit = match error {
        OptionError::NotSupported(_) => Exit::Refused,
        _ => Exit::Usage,
    };
    let failure = Failure::new(exit, error.to_string());
    match error {
        OptionError::Unknown { .. } => {
            failure.hint("ferroxfs mkfs --help lists the options; they are those of mkfs.xfs(8)")
        }
        _ => failure,
    }
}

fn geometry_failure(path: &Path, error: &GeometryError) -> Failure {
    let failure =
        Failure::usage(error.to_string()).about(&names::in_message(path.as_os_str().as_bytes()));
    match error {
        GeometryError::TooSmall { .. }
        | GeometryError::SmallLog { .. }
        | GeometryError::OneGroup => failure.hint("--unsupported makes it anyway, for tests only"),
        GeometryError::NoRoomForLog { .. } => {
            failure.hint("make fewer allocation groups, or a larger volume")
        }
        GeometryError::DeviceTooShort { .. } => failure.hint(
            "-d file,size=BYTES sets the length of the data's file, -l file,size=BYTES the log's",
        ),
        _ => failure,
    }
}
