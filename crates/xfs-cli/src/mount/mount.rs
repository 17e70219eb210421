//! `mount`: serves a volume through FUSE.
//!
//! Without `-f`, this process starts a second ferroxfs process ([`background`](super::background)),
//! which serves the mount, and waits until the mount is ready.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ferroxfs::OpenError;
use ferroxfs::device::DamagedStart;
use xfs_device::{DeviceAccess, DeviceFailure, KernelUse, PartitionChoice};
use xfs_fuse::{ACCESS_ATTRIBUTE, FuseMountOptions, MountError, MountFacts, OptionError, remount};
use xfs_image::without_credentials;

use super::background::{ServerCommand, ServerLife};
use super::predecessor::{self, Refusal};
use super::serve::ServeVolume;
use super::stats::read_attribute;
use crate::cli::{GlobalOptions, MountArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::requests::Requests;
use crate::image::{open_failure, torn_log_of};
use crate::json::{self, Object};
use crate::mount::trace;
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::names;

/// The command in the process that the user starts. It starts the serving process.
struct Start {
    device: PathBuf,
    folder: PathBuf,
    server: ServerCommand,
}

/// The changes of `mount -o remount` to an existing mount.
struct Remount {
    folder: PathBuf,
    facts: MountFacts,
}

/// Parses the mount options. In the serving process, also opens the devices.
pub(crate) fn open(
    arguments: MountArguments,
    global: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    if global.live || global.image.is_some() {
        return Err(Failure::usage("--live and --image are not for mounts"));
    }
    let mut lists = option_lists(&arguments.options, global)?;
    lists.extend(arguments.damaged.then(|| "damaged".to_owned()));
    let is_remount = lists.iter().any(|list| list.split(',').any(|option| option == "remount"));
    let folder = match (&arguments.folder, is_remount) {
        (Some(folder), _) => folder.clone(),
        // mount(8) finds the device in its table. A remount here needs no device.
        (None, true) => arguments.device.clone(),
        (None, false) => {
            return Err(
                Failure::usage("mount: the directory is missing").hint("ferroxfs mount IMAGE DIR")
            );
        }
    };
    let mut options = if is_remount {
        let options = FuseMountOptions::of_mount(&folder);
        options.map_err(|error| Failure::host(folder.as_os_str(), &error))?
    } else {
        FuseMountOptions::default()
    };
    for list in &lists {
        options.add(list).map_err(|error| option_failure(&error))?;
    }
    if is_remount {
        let facts = options.facts(arguments.device);
        return Ok(Box::new(Remount { folder, facts }));
    }
    let open = options.open_options().map_err(|error| option_failure(&error))?;
    if !arguments.foreground && !arguments.background {
        let server = ServerCommand::new(&arguments.device, &lists, &options, global);
        return Ok(Box::new(Start { device: arguments.device, folder, server }));
    }
    if arguments.foreground {
        trace::begin(arguments.verbose);
    }
    let sandbox = global.sandbox;
    let open = Requests::with(open.write(!options.is_read_only()), global);
    let devices = predecessor::open_after(
        || match options.is_damaged() {
            true => open
                .open_unrecognised_devices(&arguments.device, DamagedStart::Overwritten)
                .map(|(devices, _)| devices),
            false => open.open_devices(&arguments.device),
        },
        |message| Console::open(global.color).note(message),
    );
    let device = without_credentials(&arguments.device).into_owned();
    let devices = devices.map_err(|refusal| device_failure(&device, &refusal, &options))?;
    // The reader of a damaged volume names its log by itself.
    let torn = if options.is_damaged() { None } else { torn_log_of(&devices) };
    for note in devices.notes().iter().map(ToString::to_string).chain(torn) {
        let shown = names::in_message(device.as_os_str().as_bytes());
        Console::open(global.color).note(format!("{shown}: {note}"));
    }
    Ok(Box::new(ServeVolume {
        devices,
        device,
        folder,
        options,
        background: arguments.background,
        ends_with_input: arguments.ends_with_input,
        sandbox,
        requests: global.requests.clone(),
    }))
}

/// Returns the failure to open a device, with hints for `mount` in place of those for other
/// commands.
fn device_failure(device: &Path, refusal: &Refusal, options: &FuseMountOptions) -> Failure {
    let failure = open_failure(device, &refusal.error);
    if let Some(number) = &refusal.predecessor {
        return failure.hint(format!(
            "process {number}, which served it before, has not closed it yet: wait until it ends"
        ));
    }
    let OpenError::Device(error) = &refusal.error else { return failure };
    match error.failure() {
        DeviceFailure::Open(error)
            if error.kind() == std::io::ErrorKind::PermissionDenied
                && !options.is_read_only()
                && std::fs::File::open(device).is_ok() =>
        {
            failure.hint("you may mount it for reading: -o ro")
        }
        DeviceFailure::InUse(KernelUse::Mounted { .. }, _) => failure.hint("unmount it"),
        DeviceFailure::Locked(_) => match error.holder() {
            Some(holder) => failure.hint(holder.hint(DeviceAccess::ReadWrite)),
            None => failure
                .hint("wait until the other program has closed it (a mount: ferroxfs umount DIR)"),
        },
        _ => failure,
    }
}

/// Returns the option lists `given` to `-o`, followed by the global options in the same form.
pub(super) fn option_lists(
    given: &[String],
    global: &GlobalOptions,
) -> Result<Vec<String>, Failure> {
    let mut lists = given.to_vec();
    match &global.partition {
        Some(PartitionChoice::Number(number)) => lists.push(format!("partition={number}")),
        Some(PartitionChoice::Name(name)) if name.contains(',') => {
            return Err(Failure::usage("--partition: no commas in its name")
                .hint("give the number of the partition"));
        }
        Some(PartitionChoice::Name(name)) => lists.push(format!("partition={name}")),
        None => {}
    }
    lists.extend(global.offset.map(|bytes| format!("offset={bytes}")));
    lists.extend(global.no_recovery.then(|| "norecovery".to_owned()));
    lists.extend(global.logical_volume.as_ref().map(|name| format!("volume={name}")));
    let log = global.log_device.iter().map(|path| ("log-device", "logdev", path));
    let members = global.member.iter().map(|path| ("member", "member", path));
    for (option, name, path) in log.chain(members) {
        let path = path.to_str().filter(|path| !path.contains(','));
        let path =
            path.ok_or_else(|| Failure::usage(format!("--{option}: no commas in its name")))?;
        lists.push(format!("{name}={path}"));
    }
    if let Some(path) = &global.realtime_device {
        let path = path.to_str().filter(|path| !path.contains(','));
        let path = path.ok_or_else(|| Failure::usage("--rt-device: no commas in its name"))?;
        lists.push(format!("rtdev={path}"));
    }
    Ok(lists)
}

impl Run for Start {
    fn reach(&self) -> Reach<'_> {
        self.server.reach()
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let step = console.step("mounting");
        let started = self.server.start(&self.folder, ServerLife::UntilUnmounted)?;
        drop(step);
        console.conclude_with(self.describe())?;
        // The server has named the parts that cannot be read.
        match started.is_partial {
            true => Err(Failure::silent(Exit::Corrupt)),
            false => Ok(()),
        }
    }
}

impl Start {
    /// Returns the mount as a JSON object.
    fn describe(&self) -> Object {
        let mut object = Object::new();
        let (device, folder) = (self.device.as_os_str(), self.folder.as_os_str());
        json::insert_name(&mut object, "image", device.as_bytes());
        json::insert_name(&mut object, "mount_point", folder.as_bytes());
        object.insert("read_only".to_owned(), self.server.reads_only().into());
        object
    }
}

impl Run for Remount {
    fn reach(&self) -> Reach<'_> {
        Reach::Host
    }

    fn run(self: Box<Self>, _: &mut Console) -> Result<(), Failure> {
        let failed = |error| Failure::host(self.folder.as_os_str(), &error);
        let access = read_attribute(&self.folder, ACCESS_ATTRIBUTE)?;
        let can_write = access == b"rw";
        if !can_write && !self.facts.read_only {
            let why = match access.as_slice() {
                b"down" => "its volume was shut down",
                _ => "its volume is open for reading only",
            };
            let failure = Failure::new(Exit::Failed, why);
            let failure = failure.about(&names::in_message(self.folder.as_os_str().as_bytes()));
            return Err(failure.hint("unmount it, and mount it for writing"));
        }
        // To sync the root is to sync everything. Sync before the change, because access times in
        // memory cannot be written to a read-only mount. Sync after it, so that all earlier writes
        // are durable when nothing more can be written: the root filesystem of the machine is never
        // unmounted.
        let sync = || match self.facts.read_only && can_write {
            true => std::fs::File::open(&self.folder).and_then(|root| root.sync_all()),
            false => Ok(()),
        };
        sync().map_err(failed)?;
        remount(&self.folder, &self.facts).map_err(failed)?;
        sync().map_err(failed)
    }
}

pub(super) fn option_failure(error: &OptionError) -> Failure {
    let exit = if error.is_refusal() { Exit::Refused } else { Exit::Usage };
    let failure = Failure::new(exit, error.to_string());
    match error {
        OptionError::Unknown { .. } => {
            failure.hint("ferroxfs mount --help lists the mount options")
        }
        _ => failure,
    }
}

pub(super) fn mount_failure(folder: &Path, error: &MountError) -> Failure {
    let failure = Failure::new(Exit::Failed, error.to_string());
    let failure = failure.about(&names::in_message(folder.as_os_str().as_bytes()));
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
