//! `mkfs`: makes a volume, empty or filled with files.

mod asked;
mod chosen;
mod configuration;
mod device;
mod disk;
mod esp;
mod fill;
mod free_space;
mod minimize;
mod options;
mod packaging;
mod prototype;
mod quota;
mod sizing;

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use ferroxfs::Timestamp;
use ferroxfs::raw::Superblock;
use xfs_device::share_bytes;
use xfs_image::is_address;
use xfs_mkfs::{Devices, Discard, Plan, Size, TargetDevice};

use crate::cli::{DiskOptions, GlobalOptions, MkfsArguments};
use crate::failure::Failure;
use crate::import::origin::PipeReading;
use crate::inspect::info::{geometry_object, xfs_info};
use crate::interrupt;
use crate::json::{self, Object};
use crate::output::is_same_file;
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::names;
use asked::{asked_bytes, asked_time, geometry_failure, identity};
use chosen::{ChosenSize, choose_size, reads_pipe, with_needed_size};
use device::{Device, DeviceRequest, Placement};
use disk::DiskPlan;
use fill::{Fill, MadeDevices, check_fillable};
use options::read_options;
use packaging::Packaging;
use quota::NewQuota;
use sizing::Sizing;

struct Mkfs {
    arguments: MkfsArguments,
    plan: Plan,
    target: TargetDevice,
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

/// Checks the options, and opens nothing that they name.
pub(crate) fn check_options(
    arguments: &MkfsArguments,
    global: &GlobalOptions,
) -> Result<(), Failure> {
    let (options, _) = read_options(arguments, global)?;
    // The files of the EFI system partition need not exist yet.
    let disk = DiskOptions { esp: None, ..arguments.whole_disk.clone() };
    DiskPlan::parse(&disk, asked_time(arguments)?)?;
    Packaging::parse(&disk)?;
    NewQuota::parse(arguments, &options.quota).map(drop)
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
    data.placement = placement(&arguments, global)?;
    data.is_filled = !arguments.from.is_empty();
    data.format = Packaging::parse(&arguments.whole_disk)?;
    let log = log_path.map(|path| request(path, options.log.size, options.log.file));
    let log = log.transpose()?;
    let realtime =
        realtime_path.map(|path| request(path, options.realtime.size, options.realtime.file));
    let realtime = realtime.transpose()?;
    if data.is_pipe() && (log.is_some() || realtime.is_some()) {
        let message =
            "a named pipe cannot hold a volume with a log or a realtime section elsewhere";
        return Err(Failure::usage(message));
    }
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
    let mut fill = Fill::open(&arguments, &options, pipes, standard_input)?;
    if let (Some(fill), Some(chosen)) = (&mut fill, &chosen) {
        fill.reported = Rc::clone(&chosen.reported);
    }
    if fill.is_some() {
        check_fillable(&data_path, &plan)?;
    }
    interrupt::arm()?;
    let data = data.open(&arguments)?;
    if arguments.digest {
        data.check_has_digest()?;
    }
    let log = log.map(|log| log.open(&arguments)).transpose()?;
    let realtime = realtime.map(|realtime| realtime.open(&arguments)).transpose()?;
    let (global, time) = (global.clone(), identity.time);
    Ok(Mkfs { arguments, plan, target, time, data, log, realtime, fill, global, chosen })
}

/// Returns the part of the device that the volume takes.
fn placement(arguments: &MkfsArguments, global: &GlobalOptions) -> Result<Placement, Failure> {
    let disk = DiskPlan::parse(&arguments.whole_disk, asked_time(arguments)?)?;
    Ok(match (global.partition.clone(), disk) {
        (Some(choice), _) => Placement::Partition(choice),
        (None, Some(disk)) => Placement::NewDisk(disk),
        (None, None) => Placement::Whole,
    })
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

impl Run for Mkfs {
    fn reach(&self) -> Reach<'_> {
        Reach::Host
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let mut mkfs = *self;
        loop {
            let again = (mkfs.arguments.clone(), mkfs.global.clone(), mkfs.chosen.clone());
            let made = mkfs.check_fits(console).and_then(|()| mkfs.make(console));
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

impl Mkfs {
    /// Fails if the files do not fit a volume that is written in place: what the device holds now
    /// stays. Files from a pipe can be read only once, so their space is not known before. A size
    /// that was chosen for the files fits them.
    fn check_fits(&self, console: &mut Console) -> Result<(), Failure> {
        let has_files = self.fill.as_ref().is_some_and(|fill| !fill.sources.is_empty());
        let is_chosen = self.chosen.is_some();
        if self.data.is_staged() || !has_files || is_chosen || reads_pipe(&self.arguments) {
            return Ok(());
        }
        let (options, _) = read_options(&self.arguments, &self.global)?;
        let step = console.step("measuring the files");
        let sizing = Sizing {
            arguments: &self.arguments,
            options: &options,
            path: &self.data.path,
            target: self.target,
            standard_input: None,
        };
        let unknown = sizing.check_fits(&self.plan)?;
        drop(step);
        if let Some(failure) = unknown {
            let why = failure.message();
            console.note(format!("warning: whether the files fit was not measured: {why}"));
        }
        Ok(())
    }

    /// Makes the volume once.
    fn make(self, console: &mut Console) -> Result<(), Failure> {
        let mut facts = describe(self.plan.superblock());
        // A chosen size may be too small. Then another volume is made, and the last one is printed.
        let prints_last = self.chosen.is_some() && !self.arguments.dry_run;
        if !prints_last {
            print_geometry(&self.plan, &self.data, self.log.as_ref(), console)?;
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
        if prints_last {
            print_geometry(&plan, &data, log.as_ref(), console)?;
        }
        if arguments.digest {
            let digest = data.digest()?;
            if !console.is_json() {
                writeln!(console.out(), "sha256:{digest}")?;
            }
            facts.insert("sha256".to_owned(), digest.into());
        }
        // The volume is not valid before its log and its realtime section exist.
        log.map_or(Ok(()), Device::publish)?;
        realtime.map_or(Ok(()), Device::publish)?;
        data.publish()?;
        Ok(console.conclude_with(facts)?)
    }
}

/// Prints the warnings about a volume, and its geometry as mkfs.xfs(8) does.
fn print_geometry(
    plan: &Plan,
    data: &Device,
    log: Option<&Device>,
    console: &mut Console,
) -> Result<(), Failure> {
    for warning in plan.warnings() {
        console.note(format!("warning: {warning}"));
    }
    if console.is_json() || console.is_quiet() {
        return Ok(());
    }
    let style = console.name_style(false);
    let show = |path: &Path| style.show(path.as_os_str().as_bytes()).into_owned();
    let (name, log) = (show(&data.path), log.map(|log| show(&log.path)));
    Ok(xfs_info::print(console.out(), &name, log.as_deref(), plan.superblock())?)
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
