//! Open images and paths in them.
//!
//! Owns: opening an image as the options of the command line ask for. Does **not** own: the wording
//! of errors ([`failures`]), or opening volumes whose start is damaged ([`damaged`]). An [`Image`]
//! has open devices, but its volume has not been read. An [`ImageVolume`] is a volume that has been
//! read.

pub(crate) mod address;
mod damaged;
mod failures;
mod hints;
mod measure;
mod paths;
pub(crate) mod requests;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ferroxfs::admin::RecoverySummary;
use ferroxfs::admin::{
    GrowError, RealtimeGrowthError, ShrinkError, Shrunk, Staleness, Uuid, UuidChange,
};
use ferroxfs::device::{Devices, VolumeToCheck};
use ferroxfs::quota::QuotaOptions;
use ferroxfs::raw::log::{LogDevice, LogState};
use ferroxfs::{OpenError, OpenOptions, Timestamp};
use xfs_device::{PartitionChoice, SharedDevice};
use xfs_image::without_credentials;

use crate::cli::options::GlobalOptions;
use crate::exit::Exit;
use crate::failure::{Failure, Missing};
use crate::output::check_not_stdout;
use crate::terminal::console::Console;
use crate::terminal::names;
use failures::exit_of;
pub(crate) use failures::{
    about_image, exit_of_metadump, exit_of_read, has_foreign_log, open_failure,
};
pub(crate) use paths::{ImagePath, ImagePaths, change_all, change_each};
use requests::Requests;

/// An image whose devices are open. Only the bytes that were needed to find the volume have been
/// read.
pub(crate) struct Image {
    path: PathBuf,
    devices: Devices,
}

/// The volume of an image, after its metadata has been read.
#[derive(Clone)]
pub(crate) struct ImageVolume {
    path: PathBuf,
    volume: ferroxfs::Volume,
}

/// The number of inodes without a reference that stay cached while a command changes a volume. A
/// command refers to the directories on its way, and an import to files with several names; it
/// seldom needs another inode again.
const CHANGE_INODES: u64 = 4096;

/// The memory in bytes of metadata buffers that a command which changes a volume keeps for later
/// use. The default of the library is for volumes that stay open.
const CHANGE_CACHE_BYTES: usize = 16 << 20;

/// The memory in bytes that changed metadata takes, about, until it is written in place. Without
/// this limit it would be written when the log is half full. Writing early took no more time
/// (docs/internals/measurements.md).
const CHANGE_UNWRITTEN_BYTES: usize = 4 << 20;

/// Returns the options with which a command changes a volume: those of bounded memory
/// (docs/limits.md, "Memory of changes").
fn open_to_change() -> OpenOptions {
    let open = OpenOptions::new().write(true).cached_inodes(CHANGE_INODES);
    open.cache_bytes(CHANGE_CACHE_BYTES).unwritten_bytes(CHANGE_UNWRITTEN_BYTES)
}

/// How a new volume is filled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filling {
    /// The current time of the volume; `None` for the clock of the host.
    pub(crate) time: Option<Timestamp>,
    /// Whether files may take the blocks that are kept for operations that must not fail.
    pub(crate) takes_pool: bool,
    /// The types of quota whose usage is counted.
    pub(crate) quota: QuotaOptions,
}

impl Filling {
    fn open_options(self) -> OpenOptions {
        let open = open_to_change().reserve_pool(!self.takes_pool).quota(self.quota);
        match self.time {
            Some(time) => open.fixed_time(time),
            None => open,
        }
    }
}

/// Takes the filesystem from the partition that the user names.
pub(crate) fn in_partition(open: OpenOptions, choice: &PartitionChoice) -> OpenOptions {
    match choice {
        PartitionChoice::Number(number) => open.partition(*number),
        PartitionChoice::Name(name) => open.partition_named(name),
    }
}

impl Image {
    /// Opens the image at `path`.
    pub(crate) fn open(path: &Path, options: &GlobalOptions) -> Result<Self, Failure> {
        Self::open_with(path, options, options.no_recovery)
    }

    /// Opens the image at `path` to read its structures as they are on disk, even if its log is
    /// dirty.
    pub(crate) fn open_as_it_stands(path: &Path, options: &GlobalOptions) -> Result<Self, Failure> {
        Self::open_with(path, options, true)
    }

    /// Opens the image at `path` for writing, with an exclusive lock.
    pub(crate) fn open_for_writing(path: &Path, options: &GlobalOptions) -> Result<Self, Failure> {
        Self::open_writable(open_to_change(), path, options)
    }

    /// Opens the image at `path` for writing, with an exclusive lock, for a server. A server
    /// changes many files, so it has as much memory as the library takes by default.
    pub(crate) fn open_to_serve(path: &Path, options: &GlobalOptions) -> Result<Self, Failure> {
        Self::open_writable(OpenOptions::new().write(true), path, options)
    }

    fn open_writable(
        mut open: OpenOptions,
        path: &Path,
        options: &GlobalOptions,
    ) -> Result<Self, Failure> {
        if options.live || options.no_recovery {
            return Err(Failure::usage("--live and --no-recovery are for reading"));
        }
        // SOURCE_DATE_EPOCH asks for reproducible output: two runs must give the same image.
        if let Some(time) = crate::text::time::source_date_epoch()? {
            open = open.fixed_time(time);
        }
        Self::open_by(open, path, options)
    }

    /// Opens the image at `path` for writing, with quota: the usage of these types of owners is
    /// counted.
    pub(crate) fn open_counting(
        path: &Path,
        options: &GlobalOptions,
        quota: QuotaOptions,
    ) -> Result<Self, Failure> {
        let mut open = open_to_change().quota(quota);
        if let Some(time) = crate::text::time::source_date_epoch()? {
            open = open.fixed_time(time);
        }
        Self::open_by(open, path, options)
    }

    /// Opens the volume that mkfs has just made in `path`, to fill it as `filling` says. `shown` is
    /// the name of the image in messages.
    pub(crate) fn open_made(
        path: &Path,
        shown: &Path,
        log: Option<&Path>,
        filling: Filling,
    ) -> Result<Self, Failure> {
        let mut open = filling.open_options();
        if let Some(log) = log {
            open = open.log_device(log);
        }
        let image = Self::open_devices(&open, path)?;
        Ok(Self { path: shown.to_owned(), ..image })
    }

    /// Returns the image for the open device on which mkfs has just made a volume, to fill that
    /// volume as `filling` says. `log` is the device of an external log. `shown` is the name of the
    /// image in messages.
    pub(crate) fn made_on(
        device: SharedDevice,
        log: Option<SharedDevice>,
        shown: &Path,
        filling: Filling,
    ) -> Self {
        let devices = filling.open_options().with_devices(device, log);
        Self { path: shown.to_owned(), devices }
    }

    fn open_with(path: &Path, options: &GlobalOptions, no_recovery: bool) -> Result<Self, Failure> {
        let open = OpenOptions::new().live(options.live).no_recovery(no_recovery);
        Self::open_by(open, path, options)
    }

    fn open_by(open: OpenOptions, path: &Path, options: &GlobalOptions) -> Result<Self, Failure> {
        let open = Requests::with(open, options);
        Self::open_devices(&Self::with_global(open, path, options)?, path)
    }

    /// Adds to `open` the options of the command line that say where the volume is on the device.
    fn with_global(
        mut open: OpenOptions,
        path: &Path,
        options: &GlobalOptions,
    ) -> Result<OpenOptions, Failure> {
        if let Some(choice) = &options.partition {
            open = in_partition(open, choice);
        }
        if let Some(bytes) = options.offset {
            open = open.offset(bytes);
        }
        if let Some(name) = &options.logical_volume {
            open = open.logical_volume(name);
        }
        if let Some(log) = &options.log_device {
            open = open.log_device(log);
        }
        if let Some(realtime) = &options.realtime_device {
            open = open.realtime_device(realtime);
        }
        for member in &options.member {
            open = open.member(member);
        }
        for read in std::iter::once(path).chain(options.other_devices()) {
            check_not_stdout(read)?;
        }
        Ok(open)
    }

    fn open_devices(open: &OpenOptions, path: &Path) -> Result<Self, Failure> {
        match open.open_devices(path) {
            Ok(devices) => Ok(Self { path: without_credentials(path).into_owned(), devices }),
            Err(error) => Err(hints::at_address(open_failure(path, &error), path)),
        }
    }

    /// Returns the path of the image on the host. If the path is the address of a server, it
    /// contains no credentials.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the device of the volume.
    pub(crate) fn device(&self) -> &SharedDevice {
        self.devices.data()
    }

    /// Describes the volume without reading any file in it.
    pub(crate) fn describe(&self) -> Result<ferroxfs::raw::Description, Failure> {
        let description = self.devices.describe().map_err(OpenError::Volume);
        description.map_err(|error| open_failure(&self.path, &error))
    }

    /// Reads `length` bytes of the volume from `offset` on. Returns fewer bytes if the device is
    /// shorter.
    pub(crate) fn bytes_at(&self, offset: u64, length: usize) -> Result<Vec<u8>, Failure> {
        let device = self.devices.data();
        let there = device.length_bytes().saturating_sub(offset);
        let mut bytes = vec![0; length.min(usize::try_from(there).unwrap_or(usize::MAX))];
        device.read_at(&mut bytes, offset).map_err(|error| {
            self.failure(Failure::new(exit_of_read(error.kind()), error.to_string()))
        })?;
        Ok(bytes)
    }

    /// Returns the number of bytes from the first byte of the volume to the end of the device.
    pub(crate) fn length_bytes(&self) -> u64 {
        self.devices.data().length_bytes()
    }

    /// Replays a dirty log onto the volume. Returns a summary of the replay; `None` if the log was
    /// clean.
    pub(crate) fn recover(&self) -> Result<Option<RecoverySummary>, Failure> {
        self.devices.recover().map_err(|error| open_failure(&self.path, &error))
    }

    /// Changes the UUID of the volume and returns the new one.
    pub(crate) fn set_uuid(&self, change: UuidChange) -> Result<Uuid, Failure> {
        self.devices.set_uuid(change).map_err(|error| open_failure(&self.path, &error))
    }

    /// Grows the realtime section. Returns its new number of blocks.
    pub(crate) fn grow_realtime(&self, blocks: Option<u64>) -> Result<u64, Failure> {
        self.devices.grow_realtime(blocks).map_err(|error| match error {
            RealtimeGrowthError::Open(error) => open_failure(&self.path, &error),
            RealtimeGrowthError::Grow(GrowError::Failed(error)) => self.failure(error),
            refused => self.failure(Failure::new(Exit::Failed, refused.to_string())),
        })
    }

    /// Shrinks the volume to `blocks` blocks, or as far as possible.
    pub(crate) fn shrink(&self, blocks: Option<u64>) -> Result<Shrunk, Failure> {
        self.devices.shrink(blocks).map_err(|error| match error {
            ShrinkError::Open(error) => open_failure(&self.path, &error),
            ShrinkError::Failed(error) => self.failure(error),
            refused => self.failure(Failure::new(Exit::Failed, refused.to_string())),
        })
    }

    /// Converts an error about the whole image to a failure that names the image.
    pub(crate) fn failure(&self, error: impl Into<Failure>) -> Failure {
        about_image(error.into(), &self.path)
    }

    /// Opens the device of the log without reading the log.
    pub(crate) fn log(&self) -> Result<LogDevice, Failure> {
        let superblock = self.describe()?.superblock;
        match self.devices.log(&superblock) {
            Some(Ok(log)) => Ok(log),
            Some(Err(error)) => Err(about_image(Failure::from(error), &self.path)),
            None => Err(open_failure(&self.path, &OpenError::LogDeviceMissing)),
        }
    }

    /// Reads the volume without notes on standard error.
    pub(crate) fn read(&self) -> Result<ImageVolume, Failure> {
        let volume = self.devices.open().map_err(|error| open_failure(&self.path, &error))?;
        Ok(ImageVolume { path: self.path.clone(), volume })
    }

    /// Reads the volume for `check`. Also reads a volume whose log cannot be replayed, and one that
    /// is marked as needing repair.
    pub(crate) fn read_for_check(&self) -> Result<VolumeToCheck, Failure> {
        self.devices.open_to_check().map_err(|error| open_failure(&self.path, &error))
    }

    /// Reads the volume, and prints a note on standard error if the output may be stale.
    pub(crate) fn volume(&self, console: &mut Console) -> Result<ImageVolume, Failure> {
        // A recovery that opening needs may clear the torn records, so they are named first.
        self.note_torn_log(console);
        let step = console.step("opening the volume");
        let volume = self.read()?;
        drop(step);
        for note in self.devices.notes() {
            let shown = names::in_message(self.path.as_os_str().as_bytes());
            console.note(format!("{shown}: {note}"));
        }
        for finding in volume.volume.findings() {
            console.report(&self.failure(Failure::new(exit_of(finding), finding.to_string())));
        }
        let shown = names::in_message(self.path.as_os_str().as_bytes());
        match volume.volume.staleness() {
            None => {}
            Some(Staleness::Live) => console.note(format!(
                "{shown}: the volume may be in use, and its log is not replayed: the output may be stale or inconsistent"
            )),
            Some(Staleness::LogNotRecovered) => console.note(format!(
                "{shown}: the log has not been replayed: the output may be stale"
            )),
            Some(_) => console.note(format!("{shown}: the output may be stale")),
        }
        Ok(volume)
    }

    /// Prints a note if the log ends in torn records, or if whole records follow its end. No
    /// recovery replays these records. If a power failure has caused this state, none of the
    /// records was synced. A damaged log can look the same, and then the records may have been
    /// synced.
    pub(crate) fn note_torn_log(&self, console: &mut Console) {
        if let Some(text) = torn_log_of(&self.devices) {
            let shown = names::in_message(self.path.as_os_str().as_bytes());
            console.note(format!("{shown}: {text}"));
        }
    }
}

/// Returns the text of the note about a torn log, or `None` if the log is not torn or cannot be
/// read. The command that opens the volume reports a log that cannot be read.
pub(crate) fn torn_log_of(devices: &Devices) -> Option<String> {
    torn_log_text(&devices.describe().ok()?.log?.ok()?)
}

/// Returns the text of the note about records that follow the end of the log, or `None` if there
/// are none.
pub(crate) fn torn_log_text(state: &LogState) -> Option<String> {
    let (head, end) = (state.head.block(), state.torn?);
    Some(format!(
        "the log is torn at block {head}, as after a power failure; the records from there up to \
         block {end} are not replayed"
    ))
}

impl ImageVolume {
    /// Returns the library's volume.
    pub(crate) fn inner(&self) -> &ferroxfs::Volume {
        &self.volume
    }

    /// Writes all changes to their places on disk and marks the log clean. The caller must hold the
    /// only reference to the volume.
    pub(crate) fn close(self) -> Result<(), Failure> {
        let Self { path, volume } = self;
        volume.close().map_err(|error| about_image(Failure::from(error), &path))
    }

    /// Closes the volume after a change with the result `done`. If both the change and the closing
    /// failed, reports the failure of the change, and returns the failure of the closing.
    pub(crate) fn close_after<T>(
        self,
        done: Result<T, Failure>,
        console: &mut Console,
    ) -> Result<T, Failure> {
        let step = console.step("writing what is left");
        let closed = self.close();
        drop(step);
        match (done, closed) {
            (Err(done), Err(closed)) => {
                console.report(&done);
                Err(closed)
            }
            (done, closed) => closed.and(done),
        }
    }

    /// Returns the path of the image on the host.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Converts an error about the file at `path` in this volume to a failure that names both.
    pub(crate) fn failure(&self, path: &[u8], error: impl Into<Failure>) -> Failure {
        let mut failure = error.into().about(&names::in_message(path));
        if let Some(lack) = failure.take_missing() {
            failure = match lack {
                Missing::Name => hints::at_missing(failure, &self.path, path),
                Missing::Room(needed) => hints::at_room(failure, &self.volume, needed),
            };
        }
        about_image(failure, &self.path)
    }

    /// Converts an error about the whole volume to a failure that names the image.
    pub(crate) fn whole_failure(&self, error: impl Into<Failure>) -> Failure {
        let mut failure = error.into();
        if let Some(Missing::Room(needed)) = failure.take_missing() {
            failure = hints::at_room(failure, &self.volume, needed);
        }
        about_image(failure, &self.path)
    }
}
