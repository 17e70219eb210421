//! Images and the files in them, as commands get hold of them.
//!
//! Owns: opening by the options of the command line. Does **not** own: what its errors look like
//! ([`failures`]). An [`Image`] is open but unread; its [`Volume`] has been read.

mod failures;
mod hints;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ferroxfs::log::{LogDevice, LogState, Summary};
use ferroxfs::{
    Devices, File, FileType, Node, OpenError, OpenOptions, PosixError, Staleness, Timestamp, Uuid,
    UuidChange,
};

use crate::address::Address;
use crate::cli::GlobalOptions;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::{Failure, Lack};
use crate::interrupt;
use crate::names;
use crate::node;
use crate::output::check_not_stdout;
use crate::predicate::last_component;
use crate::source::Whence;
use crate::tally::Work;
use failures::exit_of;
pub(crate) use failures::{about_image, exit_of_read, has_foreign_log, open_failure};

/// As many links are followed, as in every resolution of a path.
const MAX_LINKS: usize = 40;

/// An image whose devices are open, and of which nothing has been read but what it took to find
/// the volume in it.
pub(crate) struct Image {
    path: PathBuf,
    devices: Devices,
    access: Access,
}

/// What a command does with an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// A volume that has been read.
#[derive(Clone)]
pub(crate) struct Volume {
    path: PathBuf,
    volume: ferroxfs::Volume,
}

/// A place inside an image.
pub(crate) struct Target {
    /// The volume.
    pub(crate) volume: Volume,
    /// The path inside it.
    pub(crate) path: PathBuf,
    /// What stands in front of paths that are shown, where several images are looked at.
    pub(crate) prefix: Vec<u8>,
}

impl Image {
    /// Opens the image at `path`.
    pub(crate) fn open(path: &Path, options: &GlobalOptions) -> Result<Self, Failure> {
        Self::open_with(path, options, options.no_recovery)
    }

    /// Opens the image at `path` for a look at its structures, whatever state its log is in.
    pub(crate) fn open_as_it_stands(path: &Path, options: &GlobalOptions) -> Result<Self, Failure> {
        Self::open_with(path, options, true)
    }

    /// Opens the image at `path` to change it, alone.
    pub(crate) fn open_for_writing(path: &Path, options: &GlobalOptions) -> Result<Self, Failure> {
        if options.live || options.no_recovery {
            return Err(Failure::usage("--live and --no-recovery are for reading"));
        }
        let mut open = OpenOptions::new().writable(true);
        // Who builds an image says with this that two runs shall give the same.
        if let Some(time) = crate::time::source_date_epoch()? {
            open = open.fixed_time(time);
        }
        Self::open_by(open, Access::Write, path, options)
    }

    /// Opens the volume that has just been made in `path`, to fill it, at this time if one is given. Messages call it
    /// `shown`.
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
        let image = Self::open_devices(&open, Access::Write, path)?;
        Ok(Self { path: shown.to_owned(), ..image })
    }

    fn open_with(path: &Path, options: &GlobalOptions, no_recovery: bool) -> Result<Self, Failure> {
        let open = OpenOptions::new().live(options.live).no_recovery(no_recovery);
        Self::open_by(open, Access::Read, path, options)
    }

    fn open_by(
        mut open: OpenOptions,
        access: Access,
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
        for read in [Some(path), options.log_device.as_deref()].into_iter().flatten() {
            check_not_stdout(read)?;
        }
        Self::open_devices(&open, access, path)
    }

    fn open_devices(open: &OpenOptions, access: Access, path: &Path) -> Result<Self, Failure> {
        match open.open_devices(path) {
            Ok(devices) => Ok(Self { path: path.to_owned(), devices, access }),
            Err(error) => Err(hints::at_address(open_failure(path, &error), path)),
        }
    }

    /// The path on the host.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What can be said of the volume without reading files.
    pub(crate) fn describe(&self) -> Result<ferroxfs::Description, Failure> {
        let description = self.devices.describe().map_err(OpenError::Volume);
        description.map_err(|error| open_failure(&self.path, &error))
    }

    /// Bytes of the volume from one on, whatever they are; fewer where the device is shorter.
    pub(crate) fn bytes_at(&self, offset: u64, length: usize) -> Result<Vec<u8>, Failure> {
        let device = self.devices.data();
        let there = device.length_bytes().saturating_sub(offset);
        let mut bytes = vec![0; length.min(usize::try_from(there).unwrap_or(usize::MAX))];
        device.read_at(offset, &mut bytes).map_err(|error| {
            self.failure(Failure::new(exit_of_read(error.kind()), error.to_string()))
        })?;
        Ok(bytes)
    }

    /// The length of the device, from the first byte of the volume on.
    pub(crate) fn length_bytes(&self) -> u64 {
        self.devices.data().length_bytes()
    }

    /// Replays a dirty log onto the volume; says what was done, or nothing for a clean log.
    pub(crate) fn recover(&self) -> Result<Option<Summary>, Failure> {
        self.devices.recover().map_err(|error| open_failure(&self.path, &error))
    }

    /// Changes the UUID, and returns the new one.
    pub(crate) fn set_uuid(&self, change: UuidChange) -> Result<Uuid, Failure> {
        self.devices.set_uuid(change).map_err(|error| open_failure(&self.path, &error))
    }

    /// An error about the image as a whole.
    pub(crate) fn failure(&self, error: impl Into<Failure>) -> Failure {
        about_image(error.into(), &self.path)
    }

    /// The log, of which only its place is known yet.
    pub(crate) fn log(&self) -> Result<LogDevice, Failure> {
        let superblock = self.describe()?.superblock;
        match self.devices.log(&superblock) {
            Some(Ok(log)) => Ok(log),
            Some(Err(error)) => Err(about_image(Failure::from(error), &self.path)),
            None => Err(open_failure(&self.path, &OpenError::LogDeviceMissing)),
        }
    }

    /// Reads the volume without a word.
    pub(crate) fn read(&self) -> Result<Volume, Failure> {
        let volume = match self.access {
            Access::Read => self.devices.volume(),
            Access::Write => self.devices.writable_volume(),
        };
        let volume = volume.map_err(|error| open_failure(&self.path, &error))?;
        Ok(Volume { path: self.path.clone(), volume })
    }

    /// Reads the volume; says it where what is shown may be stale.
    pub(crate) fn volume(&self, console: &mut Console) -> Result<Volume, Failure> {
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
                "{shown}: the volume may be in use, and its log is not replayed; what is shown may be \
                 stale, or not fit together"
            )),
            Some(Staleness::LogNotRecovered) => console.note(format!(
                "{shown}: the log has not been replayed; what is shown may be stale"
            )),
        }
        Ok(volume)
    }

    /// Says where the log ends in torn records. What they hold was never durable, and no recovery replays it.
    pub(crate) fn note_torn(&self, state: &LogState, console: &mut Console) {
        let Some(end) = state.torn else { return };
        let shown = names::in_message(self.path.as_os_str().as_bytes());
        let head = state.head.block();
        console.note(format!(
            "{shown}: the log is torn at block {head}, as a power failure leaves it; what is written from there up \
             to block {end} is not replayed"
        ));
    }
}

impl Volume {
    /// The library's volume.
    pub(crate) fn inner(&self) -> &ferroxfs::Volume {
        &self.volume
    }

    /// Writes everything in place and marks the log clean. Nobody else holds the volume any more.
    pub(crate) fn close(self) -> Result<(), Failure> {
        let Self { path, volume } = self;
        volume.close().map_err(|error| about_image(Failure::from(error), &path))
    }

    /// The same after something was done: where both failed, both are said, and what was done first.
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

    /// The image on the host.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// An error about a file in this volume.
    pub(crate) fn failure(&self, path: &[u8], error: impl Into<Failure>) -> Failure {
        let mut failure = error.into().about(&names::in_message(path));
        if let Some(lack) = failure.take_lack() {
            failure = match lack {
                Lack::Name => hints::at_missing(failure, &self.path, path),
                Lack::Room(needed) => hints::at_room(failure, &self.volume, needed),
            };
        }
        about_image(failure, &self.path)
    }

    /// An error about the volume as a whole.
    pub(crate) fn whole_failure(&self, error: impl Into<Failure>) -> Failure {
        let mut failure = error.into();
        if let Some(Lack::Room(needed)) = failure.take_lack() {
            failure = hints::at_room(failure, &self.volume, needed);
        }
        about_image(failure, &self.path)
    }
}

impl Target {
    /// The inode that the path means, links followed or not.
    pub(crate) fn node(&self, follows: bool) -> Result<Node, Failure> {
        let volume = self.volume.inner();
        let found = match follows {
            true => volume.lookup(&self.path),
            false => volume.lookup_no_follow(&self.path),
        };
        found.map_err(|error| self.failure(error))
    }

    /// The file that the path means, links followed, to read its contents.
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

    /// The directory that the path lies in, and the name there. With a slash behind it that is the name of a directory
    /// that there is.
    pub(crate) fn place(&self) -> Result<(Node, OsString), Failure> {
        self.place_of(&self.path)
    }

    /// The same of a directory that may be about to be made.
    pub(crate) fn place_of_directory(&self) -> Result<(Node, OsString), Failure> {
        self.split(&self.path)
    }

    /// Where a file is made if the path leads to none: behind links that lead to nothing, as by open(2).
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
        // Of which a path of Rust knows nothing.
        if last_component(path.as_os_str().as_bytes()) == b"." {
            let failure = Failure::new(Exit::Failed, "ends in a dot, which is no name");
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

    /// An error about this place.
    pub(crate) fn failure(&self, error: impl Into<Failure>) -> Failure {
        self.volume.failure(self.path.as_os_str().as_bytes(), error)
    }

    /// The same, for what is below it.
    pub(crate) fn whence(&self) -> Whence {
        let image = names::in_message(self.volume.path.as_os_str().as_bytes()).into_owned();
        Whence { image, path: self.path.as_os_str().as_bytes().to_vec() }
    }

    /// The path as it is shown.
    pub(crate) fn shown(&self) -> Vec<u8> {
        [&self.prefix, self.path.as_os_str().as_bytes()].concat()
    }
}

/// Places in images that are open but unread.
pub(crate) struct Targets {
    images: HashMap<PathBuf, Image>,
    log_device: Option<PathBuf>,
    addresses: Vec<Address>,
}

impl Targets {
    /// Opens every image that the words name, each once.
    pub(crate) fn open(words: &[OsString], options: &GlobalOptions) -> Result<Self, Failure> {
        Self::open_by(Image::open, words, options)
    }

    /// Opens every image that the words name for writing, each once and alone.
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

    /// The files that are read: the images that the words name, and the log of one.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.images.keys().chain(&self.log_device).map(PathBuf::as_path)
    }

    /// How many images the words name.
    pub(crate) fn image_count(&self) -> usize {
        self.images.len()
    }

    /// Whether the root of an image is among the places.
    pub(crate) fn has_root(&self) -> bool {
        self.addresses.iter().any(|address| address.path.iter().all(|&byte| byte == b'/'))
    }

    /// Reads the volumes. One that cannot be read is reported, and its places are left out.
    pub(crate) fn read(self, console: &mut Console) -> Vec<Target> {
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
            Some(Target { volume: volumes.get(&address.image)?.clone(), path, prefix })
        };
        self.addresses.iter().filter_map(target).collect()
    }
}

/// Changes what is at these places, in their order, and closes the images, so that everything is
/// durable. What fails for one place is reported, and the others go on.
pub(crate) fn change_each(
    targets: Targets,
    console: &mut Console,
    mut change: impl FnMut(&Target) -> Result<(), Failure>,
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

/// As [`change_each`], with all places at once. A signal stops the change between two steps, and the images are closed
/// all the same.
pub(crate) fn change_all(
    targets: Targets,
    console: &mut Console,
    change: impl FnOnce(&[Target], &mut Console) -> Result<(), Failure>,
) -> Result<(), Failure> {
    interrupt::arm()?;
    interrupt::watch()?;
    let targets = targets.read(console);
    let changed = change(&targets, console);
    let changed = match targets.last() {
        Some(target) => unless_stopped(changed, &target.volume),
        None => changed,
    };
    let mut volumes: Vec<Volume> = Vec::new();
    for target in targets {
        // Each image once: the others are its clones.
        if !volumes.iter().any(|volume| volume.path == target.volume.path) {
            volumes.push(target.volume);
        }
    }
    volumes.into_iter().fold(changed, |done, volume| volume.close_after(done, console))
}

/// Says in which state an image is whose change a signal has stopped.
fn unless_stopped(changed: Result<(), Failure>, volume: &Volume) -> Result<(), Failure> {
    let is_other = changed.as_ref().is_err_and(|failure| !failure.exit().is_of_signal());
    let shown = names::in_message(volume.path.as_os_str().as_bytes());
    match interrupt::stopped(&shown) {
        Some(stopped) if !is_other => {
            Err(stopped.hint("the volume is sound, and has what was complete before"))
        }
        _ => changed,
    }
}
