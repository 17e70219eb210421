//! Open images and paths in them.
//!
//! Owns: opening by the options of the command line. Does **not** own: the wording of errors
//! ([`failures`]). An [`Image`] is open but unread; its [`ImageVolume`] has been read.

pub(crate) mod address;
mod failures;
mod hints;
mod measure;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ferroxfs::log::{LogDevice, LogState, Summary};
use ferroxfs::{
    Devices, File, FileType, Node, OpenError, OpenOptions, PosixError, Staleness, Timestamp, Uuid,
    UuidChange,
};

use crate::cli::options::GlobalOptions;
use crate::exit::Exit;
use crate::failure::{Failure, Missing};
use crate::file::node;
use crate::file::source::SourceLocation;
use crate::image::address::Address;
use crate::image::address::last_component;
use crate::interrupt;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::terminal::tally::Work;
use failures::exit_of;
pub(crate) use failures::{about_image, exit_of_read, has_foreign_log, open_failure};

/// The number of symbolic links that are followed, as in every path resolution of Linux.
const MAX_LINKS: usize = 40;

/// An image whose devices are open. Nothing of it has been read except what finding the volume
/// took.
pub(crate) struct Image {
    path: PathBuf,
    devices: Devices,
    access: AccessMode,
}

/// How a command opens an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AccessMode {
    Read,
    Write,
}

/// A volume that has been read.
#[derive(Clone)]
pub(crate) struct ImageVolume {
    path: PathBuf,
    volume: ferroxfs::Volume,
}

/// A path inside a volume.
pub(crate) struct ImagePath {
    /// The volume.
    pub(crate) volume: ImageVolume,
    /// The path inside it.
    pub(crate) path: PathBuf,
    /// The prefix of printed paths when the command reads several images.
    pub(crate) prefix: Vec<u8>,
}

impl Image {
    /// Opens the image at `path`.
    pub(crate) fn open(path: &Path, options: &GlobalOptions) -> Result<Self, Failure> {
        Self::open_with(path, options, options.no_recovery)
    }

    /// Opens the image at `path` to read its structures, whatever the state of its log.
    pub(crate) fn open_as_it_stands(path: &Path, options: &GlobalOptions) -> Result<Self, Failure> {
        Self::open_with(path, options, true)
    }

    /// Opens the image at `path` for writing, with an exclusive lock.
    pub(crate) fn open_for_writing(path: &Path, options: &GlobalOptions) -> Result<Self, Failure> {
        if options.live || options.no_recovery {
            return Err(Failure::usage("--live and --no-recovery are for reading"));
        }
        let mut open = OpenOptions::new().writable(true);
        // SOURCE_DATE_EPOCH asks for reproducible output: two runs must give the same image.
        if let Some(time) = crate::text::time::source_date_epoch()? {
            open = open.fixed_time(time);
        }
        Self::open_by(open, AccessMode::Write, path, options)
    }

    /// Opens the volume that mkfs has just made in `path`, to fill it, with a fixed time if one is
    /// given. Messages call it `shown`.
    pub(crate) fn open_made(
        (path, shown): (&Path, &Path),
        log: Option<&Path>,
        time: Option<Timestamp>,
    ) -> Result<Self, Failure> {
        let mut open = OpenOptions::new().writable(true);
        if let Some(time) = time {
            open = open.fixed_time(time);
        }
        if let Some(log) = log {
            open = open.log_device(log);
        }
        let image = Self::open_devices(&open, AccessMode::Write, path)?;
        Ok(Self { path: shown.to_owned(), ..image })
    }

    fn open_with(path: &Path, options: &GlobalOptions, no_recovery: bool) -> Result<Self, Failure> {
        let open = OpenOptions::new().live(options.live).no_recovery(no_recovery);
        Self::open_by(open, AccessMode::Read, path, options)
    }

    fn open_by(
        mut open: OpenOptions,
        access: AccessMode,
        path: &Path,
        options: &GlobalOptions,
    ) -> Result<Self, Failure> {
        if let Some(number) = options.partition {
            open = open.partition(number);
        }
        if let Some(bytes) = options.offset {
            open = open.offset(bytes);
        }
        if let Some(log) = &options.log_device {
            open = open.log_device(log);
        }
        Self::open_devices(&open, access, path)
    }

    fn open_devices(open: &OpenOptions, access: AccessMode, path: &Path) -> Result<Self, Failure> {
        match open.open_devices(path) {
            Ok(devices) => Ok(Self { path: path.to_owned(), devices, access }),
            Err(error) => Err(hints::at_address(open_failure(path, &error), path)),
        }
    }

    /// Returns the path on the host.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Describes the volume without reading files.
    pub(crate) fn describe(&self) -> Result<ferroxfs::Description, Failure> {
        let description = self.devices.describe().map_err(OpenError::Volume);
        description.map_err(|error| open_failure(&self.path, &error))
    }

    /// Reads bytes of the volume from `offset` on; returns fewer if the device is shorter.
    pub(crate) fn bytes_at(&self, offset: u64, length: usize) -> Result<Vec<u8>, Failure> {
        let device = self.devices.data();
        let there = device.length_bytes().saturating_sub(offset);
        let mut bytes = vec![0; length.min(usize::try_from(there).unwrap_or(usize::MAX))];
        device.read_at(offset, &mut bytes).map_err(|error| {
            self.failure(Failure::new(exit_of_read(error.kind()), error.to_string()))
        })?;
        Ok(bytes)
    }

    /// Returns the length of the device, from the first byte of the volume on.
    pub(crate) fn length_bytes(&self) -> u64 {
        self.devices.data().length_bytes()
    }

    /// Replays a dirty log onto the volume. Returns what was replayed, or `None` for a clean log.
    pub(crate) fn recover(&self) -> Result<Option<Summary>, Failure> {
        self.devices.recover().map_err(|error| open_failure(&self.path, &error))
    }

    /// Changes the UUID and returns the new one.
    pub(crate) fn set_uuid(&self, change: UuidChange) -> Result<Uuid, Failure> {
        self.devices.set_uuid(change).map_err(|error| open_failure(&self.path, &error))
    }

    /// Converts an error about the image as a whole.
    pub(crate) fn failure(&self, error: impl Into<Failure>) -> Failure {
        about_image(error.into(), &self.path)
    }

    /// Opens the log without reading it.
    pub(crate) fn log(&self) -> Result<LogDevice, Failure> {
        let superblock = self.describe()?.superblock;
        match self.devices.log(&superblock) {
            Some(Ok(log)) => Ok(log),
            Some(Err(error)) => Err(about_image(Failure::from(error), &self.path)),
            None => Err(open_failure(&self.path, &OpenError::LogDeviceMissing)),
        }
    }

    /// Reads the volume and reports nothing.
    pub(crate) fn read(&self) -> Result<ImageVolume, Failure> {
        let volume = match self.access {
            AccessMode::Read => self.devices.volume(),
            AccessMode::Write => self.devices.writable_volume(),
        };
        let volume = volume.map_err(|error| open_failure(&self.path, &error))?;
        Ok(ImageVolume { path: self.path.clone(), volume })
    }

    /// Reads the volume, and notes on standard error if the output may be stale.
    pub(crate) fn volume(&self, console: &mut Console) -> Result<ImageVolume, Failure> {
        let step = console.step("opening the volume");
        let volume = self.read()?;
        drop(step);
        for finding in volume.volume.findings() {
            console.report(&self.failure(Failure::new(exit_of(finding), finding.to_string())));
        }
        if let Some(state) = volume.volume.log_state() {
            self.note_torn(state, console);
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
        }
        Ok(volume)
    }

    /// Notes if the log ends in torn records. Their contents were never durable, and no recovery
    /// replays them.
    pub(crate) fn note_torn(&self, state: &LogState, console: &mut Console) {
        let Some(end) = state.torn else { return };
        let shown = names::in_message(self.path.as_os_str().as_bytes());
        let head = state.head.block();
        console.note(format!(
            "{shown}: the log is torn at block {head}, as after a power failure; the records from there up to block {end} are not replayed"
        ));
    }
}

impl ImageVolume {
    /// Returns the library's volume.
    pub(crate) fn inner(&self) -> &ferroxfs::Volume {
        &self.volume
    }

    /// Writes everything in place and marks the log clean. The caller must hold the last reference.
    pub(crate) fn close(self) -> Result<(), Failure> {
        let Self { path, volume } = self;
        volume.close().map_err(|error| about_image(Failure::from(error), &path))
    }

    /// Closes the volume after a change. If both failed, both failures are reported, the change
    /// first.
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

    /// Converts an error about a file in this volume.
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

    /// Converts an error about the volume as a whole.
    pub(crate) fn whole_failure(&self, error: impl Into<Failure>) -> Failure {
        let mut failure = error.into();
        if let Some(Missing::Room(needed)) = failure.take_missing() {
            failure = hints::at_room(failure, &self.volume, needed);
        }
        about_image(failure, &self.path)
    }
}

impl ImagePath {
    /// Returns the inode at the path, with a symbolic link at its end followed or not.
    pub(crate) fn node(&self, follows: bool) -> Result<Node, Failure> {
        let volume = self.volume.inner();
        let found = match follows {
            true => volume.lookup(&self.path),
            false => volume.lookup_no_follow(&self.path),
        };
        found.map_err(|error| self.failure(error))
    }

    /// Opens the file at the path for reading, with symbolic links followed.
    pub(crate) fn open(&self) -> Result<File, Failure> {
        let node = self.node(true)?;
        match node.file_type() {
            FileType::Regular | FileType::Directory => {
                node.open_read_only().map_err(|error| self.failure(error))
            }
            other => {
                let kind = node::kind(other).name();
                let message = format!("is a {kind}, and has no contents in the image");
                Err(self.failure(Failure::new(Exit::Failed, message)))
            }
        }
    }

    /// Returns the parent directory of the path and the name in it. A path that ends in a slash
    /// names an existing directory.
    pub(crate) fn place(&self) -> Result<(Node, OsString), Failure> {
        self.place_of(&self.path)
    }

    /// Returns the parent directory and the name of a directory that may not exist yet.
    pub(crate) fn place_of_directory(&self) -> Result<(Node, OsString), Failure> {
        self.split(&self.path)
    }

    /// Returns where to create a file if the path leads to none: at the end of dangling symbolic
    /// links, as open(2) does.
    pub(crate) fn place_to_make(&self) -> Result<(Node, OsString), Failure> {
        let mut path = self.path.clone();
        for _ in 0..=MAX_LINKS {
            let link = match self.volume.inner().lookup_no_follow(&path) {
                Ok(node) if node.file_type() == FileType::Symlink => node,
                _ => return self.place_of(&path),
            };
            let to = link.read_link().map_err(|error| self.failure(error))?;
            if to.as_bytes().ends_with(b"/") {
                return Err(self.failure(PosixError::IsDirectory));
            }
            path = path.parent().unwrap_or(Path::new("/")).join(to);
        }
        Err(self.failure(PosixError::SymlinkLoop))
    }

    fn place_of(&self, path: &Path) -> Result<(Node, OsString), Failure> {
        let (directory, name) = self.split(path)?;
        if path.as_os_str().as_bytes().ends_with(b"/") {
            let there = directory.lookup(&name).map_err(|error| self.failure(error))?;
            if there.file_type() != FileType::Directory {
                return Err(self.failure(PosixError::NotDirectory));
            }
        }
        Ok((directory, name))
    }

    fn split(&self, path: &Path) -> Result<(Node, OsString), Failure> {
        // A path of Rust drops a dot at its end.
        if last_component(path.as_os_str().as_bytes()) == b"." {
            let failure = Failure::new(Exit::Failed, "ends in a dot, which is not a name");
            return Err(self.failure(failure.hint("write the name of the directory")));
        }
        let name = path.file_name();
        let name = name.ok_or_else(|| self.failure(PosixError::InvalidArgument))?;
        let above = path.parent().unwrap_or(Path::new("/"));
        let directory = self.volume.inner().lookup(above).map_err(|error| self.failure(error))?;
        match directory.file_type() {
            FileType::Directory => Ok((directory, name.to_owned())),
            _ => Err(self.failure(PosixError::NotDirectory)),
        }
    }

    /// Converts an error about this path.
    pub(crate) fn failure(&self, error: impl Into<Failure>) -> Failure {
        self.volume.failure(self.path.as_os_str().as_bytes(), error)
    }

    /// Returns the location for failures below this path.
    pub(crate) fn location(&self) -> SourceLocation {
        let image = names::in_message(self.volume.path.as_os_str().as_bytes()).into_owned();
        SourceLocation { image, path: self.path.as_os_str().as_bytes().to_vec() }
    }

    /// Returns the path as it is printed.
    pub(crate) fn shown(&self) -> Vec<u8> {
        [&self.prefix, self.path.as_os_str().as_bytes()].concat()
    }
}

/// Paths in images that are open but unread.
pub(crate) struct ImagePaths {
    images: HashMap<PathBuf, Image>,
    log_device: Option<PathBuf>,
    addresses: Vec<Address>,
}

impl ImagePaths {
    /// Opens each image that the arguments name, once.
    pub(crate) fn open(words: &[OsString], options: &GlobalOptions) -> Result<Self, Failure> {
        Self::open_by(Image::open, words, options)
    }

    /// Opens each image that the arguments name for writing, once and with an exclusive lock.
    pub(crate) fn open_for_writing(
        words: &[OsString],
        options: &GlobalOptions,
    ) -> Result<Self, Failure> {
        Self::open_by(Image::open_for_writing, words, options)
    }

    fn open_by(
        open: impl Fn(&Path, &GlobalOptions) -> Result<Image, Failure>,
        words: &[OsString],
        options: &GlobalOptions,
    ) -> Result<Self, Failure> {
        let addresses = Address::parse_all(words, options.image.as_deref())?;
        let mut images = HashMap::new();
        for address in &addresses {
            if !images.contains_key(&address.image) {
                let image = open(&address.image, options);
                let first = addresses.first().filter(|_| !images.is_empty());
                let image = image.map_err(|failure| hints::at_colon(failure, first, address))?;
                images.insert(address.image.clone(), image);
            }
        }
        Ok(Self { images, log_device: options.log_device.clone(), addresses })
    }

    /// Returns the files to be read: the images that the arguments name, and an external log.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.images.keys().chain(&self.log_device).map(PathBuf::as_path)
    }

    /// Returns the number of images.
    pub(crate) fn image_count(&self) -> usize {
        self.images.len()
    }

    /// Returns whether a path is the root of its image.
    pub(crate) fn has_root(&self) -> bool {
        self.addresses.iter().any(|address| address.path.iter().all(|&byte| byte == b'/'))
    }

    /// Reads the volumes. If a volume cannot be read, that is reported and its paths are left out.
    pub(crate) fn read(self, console: &mut Console) -> Vec<ImagePath> {
        let mut volumes = HashMap::new();
        for (path, image) in &self.images {
            match image.volume(console) {
                Ok(volume) => _ = volumes.insert(path, volume),
                Err(failure) => console.report(&failure),
            }
        }
        let has_several = self.images.len() > 1;
        let target = |address: &Address| {
            let prefix = match has_several {
                true => [address.image.as_os_str().as_bytes(), b":"].concat(),
                false => Vec::new(),
            };
            let path = PathBuf::from(OsStr::from_bytes(&address.path));
            Some(ImagePath { volume: volumes.get(&address.image)?.clone(), path, prefix })
        };
        self.addresses.iter().filter_map(target).collect()
    }
}

/// Changes the files at these paths, in order, and closes the images, so that everything is
/// durable. A failure for one path is reported, and the others are changed.
pub(crate) fn change_each(
    targets: ImagePaths,
    console: &mut Console,
    mut change: impl FnMut(&ImagePath) -> Result<(), Failure>,
) -> Result<(), Failure> {
    change_all(targets, console, |targets, console| {
        let tally = console.begin(Work::change("changing", "changed"));
        for target in targets {
            interrupt::check()?;
            match change(target) {
                Ok(()) => tally.add_file(),
                Err(failure) => console.report(&failure),
            }
        }
        Ok(())
    })?;
    Ok(console.conclude()?)
}

/// Works as [`change_each`], with all paths in one call. A signal stops the change between two
/// steps, and the images are still closed.
pub(crate) fn change_all(
    targets: ImagePaths,
    console: &mut Console,
    change: impl FnOnce(&[ImagePath], &mut Console) -> Result<(), Failure>,
) -> Result<(), Failure> {
    interrupt::arm()?;
    interrupt::watch()?;
    let targets = targets.read(console);
    let changed = change(&targets, console);
    let changed = match targets.last() {
        Some(target) => unless_stopped(changed, &target.volume),
        None => changed,
    };
    let mut volumes: Vec<ImageVolume> = Vec::new();
    for target in targets {
        // Close each image once: the other references are clones of the first.
        if !volumes.iter().any(|volume| volume.path == target.volume.path) {
            volumes.push(target.volume);
        }
    }
    volumes.into_iter().fold(changed, |done, volume| volume.close_after(done, console))
}

/// Reports the state of an image whose change was stopped by a signal.
fn unless_stopped(changed: Result<(), Failure>, volume: &ImageVolume) -> Result<(), Failure> {
    let is_other = changed.as_ref().is_err_and(|failure| !failure.exit().is_of_signal());
    let shown = names::in_message(volume.path.as_os_str().as_bytes());
    match interrupt::stopped(&shown) {
        Some(stopped) if !is_other => {
            Err(stopped.hint("the volume is consistent, and has all files that were complete"))
        }
        _ => changed,
    }
}
