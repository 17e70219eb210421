//! The device of a new volume as the command line asks for it, and opening it.
//!
//! Owns: the length of the device, the checks of its old contents, and the decision whether the
//! volume is made in a staged file. Does **not** own: the open device ([`Device`]).

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use xfs_device::{
    BlockDevice, ChoiceError, Contents, DeviceError, FileDevice, FileOptions, Partition,
    PartitionChoice, SharedDevice, WindowDevice,
};

use super::{ByteRange, Device, device_failure};
use crate::cli::MkfsArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{StagedFile, space};
use crate::terminal::names;
use crate::volume::mkfs::asked::SECTOR_BYTES;
use crate::volume::mkfs::disk::DiskPlan;
use crate::volume::mkfs::packaging::Packaging;

/// Returns whether a loop device is attached to a file.
fn has_loop_device(file: &Metadata) -> bool {
    let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    devices.filter_map(|device| std::fs::read(device.path().join("loop/backing_file")).ok()).any(
        |backing| {
            let path = Path::new(std::ffi::OsStr::from_bytes(backing.trim_ascii_end()));
            std::fs::metadata(path)
                .is_ok_and(|other| (other.dev(), other.ino()) == (file.dev(), file.ino()))
        },
    )
}

/// The part of a device that a volume is made in.
pub(in crate::volume::mkfs) enum Placement {
    /// All of it.
    Whole,
    /// A partition of a new disk.
    NewDisk(Rc<DiskPlan>),
    /// The partition with this number or name of a disk that exists.
    Partition(PartitionChoice),
}

/// The device that the command line names, before it is opened.
pub(in crate::volume::mkfs) struct DeviceRequest<'a> {
    pub(in crate::volume::mkfs) path: &'a Path,
    /// The length in bytes that the options ask for; `None` if they ask for none.
    pub(in crate::volume::mkfs) bytes: Option<u64>,
    /// Whether an existing file that is shorter than `bytes` is extended to that length.
    pub(in crate::volume::mkfs) grows: bool,
    /// Whether a new file has exactly `bytes`, although the file that it replaces is longer.
    pub(in crate::volume::mkfs) is_exact: bool,
    /// Whether the length can be chosen to fit the files of `--from`.
    pub(in crate::volume::mkfs) is_filled: bool,
    pub(in crate::volume::mkfs) placement: Placement,
    /// The format of the finished file.
    pub(in crate::volume::mkfs) format: Packaging,
    /// The open NBD export, if the path is the address of one. A server may end with its first
    /// connection, so this connection is used for all purposes.
    remote: Option<SharedDevice>,
}

impl<'a> DeviceRequest<'a> {
    /// Creates the request for the device at `path`. If `path` is an address, connects to the
    /// server.
    pub(in crate::volume::mkfs) fn new(
        path: &'a Path,
        arguments: &MkfsArguments,
        bytes: Option<u64>,
        grows: bool,
    ) -> Result<Self, Failure> {
        let options =
            if arguments.dry_run { FileOptions::read_only() } else { FileOptions::read_write() };
        let remote = match xfs_image::is_address(path) {
            true => {
                let opened = xfs_image::open_remote(path, options);
                Some(opened.map_err(|error| device_failure(&error))?)
            }
            false => None,
        };
        Ok(Self {
            path,
            bytes,
            grows,
            is_exact: false,
            is_filled: false,
            placement: Placement::Whole,
            format: Packaging::Raw,
            remote,
        })
    }

    /// Returns the length in bytes that the device of the volume will have.
    pub(in crate::volume::mkfs) fn length(&self) -> Result<u64, Failure> {
        if self.format != Packaging::Raw {
            return self.new_length();
        }
        if let Some(remote) = &self.remote {
            return Ok(self.range(&**remote)?.length_bytes());
        }
        match std::fs::metadata(self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.has_folder() => {
                Err(self.failure(Exit::Failed, "its directory does not exist".to_owned()))
            }
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && matches!(self.placement, Placement::Partition(_)) =>
            {
                Err(Failure::host(self.path.as_os_str(), &error))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.bytes.ok_or_else(|| {
                self.failure(Exit::Failed, "does not exist".to_owned()).hint(match self.is_filled {
                    true => {
                        "give the length of a new file: -d size=auto fits it to the files, \
                         -d size=BYTES sets it"
                    }
                    false => "give the length of a new file: -d size=BYTES, -l size=BYTES",
                })
            }),
            Err(error) => Err(Failure::host(self.path.as_os_str(), &error)),
            Ok(metadata) if metadata.file_type().is_fifo() => self.piped_length(),
            Ok(metadata) if metadata.is_file() && self.grows => {
                let there = match &self.placement {
                    Placement::Whole => metadata.len(),
                    // A disk that is too small grows with the volume.
                    Placement::NewDisk(disk) => {
                        disk.volume_range(metadata.len()).map_or(0, |range| range.end - range.start)
                    }
                    Placement::Partition(_) => return self.present_length(),
                };
                Ok(there.max(self.bytes.unwrap_or(0)))
            }
            Ok(_) => self.present_length(),
        }
    }

    /// Returns the length in bytes of the volume that is written to a named pipe.
    fn piped_length(&self) -> Result<u64, Failure> {
        if matches!(self.placement, Placement::Partition(_)) {
            return Err(self.failure(Exit::Usage, "a named pipe has no partitions".to_owned()));
        }
        self.bytes.ok_or_else(|| {
            self.failure(Exit::Usage, "a named pipe needs the size of the volume".to_owned())
                .hint("-d size=BYTES gives it, -d size=auto and --minimize fit it to the files")
        })
    }

    pub(in crate::volume::mkfs) fn is_pipe(&self) -> bool {
        std::fs::metadata(self.path).is_ok_and(|metadata| metadata.file_type().is_fifo())
    }

    /// Creates a staged file; `None` if the device is written in place.
    fn staged(&self) -> io::Result<Option<StagedFile>> {
        match self.is_pipe() {
            true => StagedFile::of_pipe(self.path).map(Some),
            false => StagedFile::of_image(self.path),
        }
    }

    /// Returns the length in bytes of the volume of a new image whose format is not raw. The file
    /// that it replaces says nothing about it.
    fn new_length(&self) -> Result<u64, Failure> {
        let name = self.format.name();
        if matches!(self.placement, Placement::Partition(_)) {
            let message = format!("--format {name} makes a new image, --partition uses a disk");
            return Err(Failure::usage(message));
        }
        if self.remote.is_some() {
            let message =
                format!("--format {name} makes a file, and this is the address of a server");
            return Err(self.failure(Exit::Usage, message));
        }
        if !self.has_folder() {
            return Err(self.failure(Exit::Failed, "its directory does not exist".to_owned()));
        }
        let bytes = self.bytes.ok_or_else(|| {
            self.failure(Exit::Usage, format!("--format {name} needs the size of the volume"))
                .hint("-d size=BYTES gives it, -d size=auto and --minimize fit it to the files")
        })?;
        self.format.verify(self.file_bytes(bytes))?;
        Ok(bytes)
    }

    /// Returns the length in bytes of the device of the volume, which exists.
    fn present_length(&self) -> Result<u64, Failure> {
        Ok(self.range(&self.open_read_only()?)?.length_bytes())
    }

    /// Returns the place of the volume on an open device.
    fn range(&self, device: &dyn BlockDevice) -> Result<ByteRange, Failure> {
        let all = device.length_bytes();
        let choice = match &self.placement {
            Placement::Whole => return Ok(ByteRange { start: 0, end: all }),
            Placement::NewDisk(disk) => {
                let shown = names::in_message(self.path.as_os_str().as_bytes());
                let Range { start, end } =
                    disk.volume_range(all).map_err(|failure| failure.about(&shown))?;
                return Ok(ByteRange { start, end });
            }
            Placement::Partition(choice) => choice,
        };
        let table = xfs_device::partitions(device)
            .map_err(|error| self.failure(Exit::Failed, error.to_string()))?;
        let Some(table) = table else {
            return Err(self.failure(Exit::Usage, "has no partition table".to_owned()));
        };
        let found = table
            .choose(choice)
            .map_err(|error| self.choice_failure(choice, &table.partitions, error))?;
        let end = found.start.checked_add(found.length_bytes).filter(|end| *end <= all);
        match end.filter(|end| found.start > 0 && found.start < *end) {
            Some(end) => Ok(ByteRange { start: found.start, end }),
            None => {
                let message = format!("partition {choice} does not lie on the disk");
                Err(self.failure(Exit::Corrupt, message))
            }
        }
    }

    /// Returns the failure of a request for a partition that `partitions` does not have, or for a
    /// name that several of them have.
    fn choice_failure(
        &self,
        choice: &PartitionChoice,
        partitions: &[Partition],
        error: ChoiceError,
    ) -> Failure {
        let show = |partition: &Partition| match partition.name.as_str() {
            "" => partition.number.to_string(),
            name => format!("{} ({name:?})", partition.number),
        };
        let listed = |wanted: &dyn Fn(&&Partition) -> bool| {
            partitions.iter().filter(wanted).map(show).collect::<Vec<_>>().join(", ")
        };
        match (error, choice) {
            (ChoiceError::Ambiguous, PartitionChoice::Name(name)) => self
                .failure(Exit::Usage, format!("has several partitions named {name:?}"))
                .hint(format!("choose one by its number: {}", listed(&|one| one.name == *name))),
            _ => self
                .failure(Exit::Usage, format!("has no partition {choice}"))
                .hint(format!("it has: {}", listed(&|_| true))),
        }
    }

    /// Returns the length of the file for a volume of `bytes` bytes.
    fn file_bytes(&self, bytes: u64) -> u64 {
        match &self.placement {
            Placement::NewDisk(disk) => disk.disk_bytes(bytes),
            Placement::Whole | Placement::Partition(_) => bytes,
        }
    }

    fn has_folder(&self) -> bool {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.is_none_or(Path::is_dir)
    }

    pub(in crate::volume::mkfs) fn sector_size(&self) -> Result<u32, Failure> {
        if let Some(remote) = &self.remote {
            return Ok(remote.sector_size());
        }
        if self.path.exists() && self.format == Packaging::Raw && !self.is_pipe() {
            return Ok(self.open_read_only()?.sector_size());
        }
        Ok(SECTOR_BYTES)
    }

    fn open_read_only(&self) -> Result<FileDevice, Failure> {
        FileDevice::open(self.path, FileOptions::read_only().live())
            .map_err(|error| device_failure(&error))
    }

    /// Opens the device, or creates a staged file that will replace the file at the path. With -N,
    /// does neither. Without -f, fails if the device or file has contents of a known kind.
    pub(in crate::volume::mkfs) fn open(
        self,
        arguments: &MkfsArguments,
    ) -> Result<Device, Failure> {
        let path = self.path.to_owned();
        if arguments.dry_run {
            return Ok(Device { disk: self.disk(), format: self.format, ..Device::closed(path) });
        }
        if let Some(remote) = &self.remote {
            let made = self.part_of(Arc::clone(remote), path)?;
            self.check_contents(made.contents(&self.placement), arguments)?;
            return Ok(Device { stays_open: true, ..made });
        }
        let failed = |error: io::Error| Failure::host(self.path.as_os_str(), &error);
        if matches!(self.placement, Placement::Partition(_)) {
            let made = self.part_of(Arc::new(self.open_at(&path)?), path)?;
            self.check_contents(made.contents(&self.placement), arguments)?;
            return Ok(made);
        }
        let mut present = match path.exists() && !self.is_pipe() {
            true => Some(self.open_present(arguments)?),
            false => None,
        };
        let mut staged = None;
        if self.can_be_replaced(arguments) {
            staged = self.staged().map_err(failed)?;
        }
        let packed = match self.format {
            Packaging::Raw | Packaging::Vhd => None,
            Packaging::Qcow2(_) => self.staged().map_err(failed)?,
        };
        let Some(made) = &staged else {
            if self.format != Packaging::Raw {
                let message = format!(
                    "--format {} makes a new file, which cannot replace this one",
                    self.format.name()
                );
                return Err(self.failure(Exit::Failed, message).hint(
                    "it is a device, has several names or a loop device, or -K keeps its blocks",
                ));
            }
            if self.lengthen().map_err(failed)? {
                // The device is measured when it is opened, and its lock would prevent that.
                drop(present.take());
            }
            let device = present.map_or_else(|| self.open_at(&path), Ok)?;
            return self.part_of(Arc::new(device), path);
        };
        let there = present.as_ref().map_or(0, BlockDevice::length_bytes);
        let is_new = present.is_none() || self.format != Packaging::Raw;
        let grown = self.bytes.filter(|_| self.grows || is_new);
        let grown = grown.map(|bytes| self.file_bytes(bytes));
        let length = match grown {
            Some(grown) if self.is_exact || self.format != Packaging::Raw => grown,
            grown => there.max(grown.unwrap_or(0)),
        };
        space::lengthen(made.file(), length).map_err(failed)?;
        let device = Arc::new(self.open_at(&made.path())?);
        let part = self.part_of(device, path)?;
        Ok(Device { staged, packed, format: self.format, _present: present, ..part })
    }

    /// Returns the device of the volume, which is all or a part of `whole`.
    fn part_of(&self, whole: SharedDevice, path: PathBuf) -> Result<Device, Failure> {
        let range = self.range(&*whole)?;
        let closed = Device { disk: self.disk(), ..Device::closed(path) };
        if matches!(self.placement, Placement::Whole) {
            return Ok(Device { device: Some(whole), ..closed });
        }
        if let Some(disk) = &closed.disk {
            let shown = names::in_message(self.path.as_os_str().as_bytes());
            disk.verify(&*whole).map_err(|failure| failure.about(&shown))?;
        }
        let part = WindowDevice::new(Arc::clone(&whole), range.start, range.length_bytes());
        let part: SharedDevice = Arc::new(part);
        Ok(Device { device: Some(part), whole: Some(whole), stays_open: true, ..closed })
    }

    fn disk(&self) -> Option<Rc<DiskPlan>> {
        match &self.placement {
            Placement::NewDisk(disk) => Some(Rc::clone(disk)),
            Placement::Whole | Placement::Partition(_) => None,
        }
    }

    /// Opens an existing device or file. Without -f, fails if it has contents of a known kind.
    fn open_present(&self, arguments: &MkfsArguments) -> Result<FileDevice, Failure> {
        let device = self.open_at(self.path)?;
        self.check_contents(&device, arguments)?;
        Ok(device)
    }

    /// Without -f, fails if the device has contents of a known kind.
    fn check_contents(
        &self,
        device: &dyn BlockDevice,
        arguments: &MkfsArguments,
    ) -> Result<(), Failure> {
        let contents = xfs_mkfs::find_contents(device)
            .map_err(|error| Failure::host(self.path.as_os_str(), &error))?;
        if contents.is_none() && !arguments.force && self.holds_data(device)? {
            let message = "holds data of no known kind".to_owned();
            return Err(self.failure(Exit::Failed, message).hint("use -f to overwrite it"));
        }
        match contents {
            Some(contents) if !arguments.force => {
                let message = match &self.placement {
                    Placement::Partition(choice) => {
                        format!("partition {choice} holds {contents} already")
                    }
                    Placement::Whole | Placement::NewDisk(_) => format!("holds {contents} already"),
                };
                Err(self.failure(Exit::Failed, message).hint("use -f to overwrite it"))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a regular file begins with bytes other than zeros. Devices often hold the
    /// rest of what they once held.
    fn holds_data(&self, device: &dyn BlockDevice) -> Result<bool, Failure> {
        let is_file = std::fs::metadata(self.path).is_ok_and(|metadata| metadata.is_file());
        if !is_file || matches!(self.placement, Placement::Partition(_)) {
            return Ok(false);
        }
        match xfs_device::detect(device, 0) {
            Ok(contents) => Ok(contents == Contents::Unknown),
            Err(error) => Err(Failure::host(self.path.as_os_str(), &error)),
        }
    }

    fn open_at(&self, path: &Path) -> Result<FileDevice, Failure> {
        FileDevice::open(path, FileOptions::read_write()).map_err(|error| {
            let error = DeviceError::new(self.path, error.into_failure());
            device_failure(&error)
        })
    }

    /// Returns whether a new file may replace the file at the path. A file with a loop device is
    /// not replaced, because the loop device would keep the old file. With -K the file is also not
    /// replaced, so that it keeps its blocks.
    fn can_be_replaced(&self, arguments: &MkfsArguments) -> bool {
        match std::fs::metadata(self.path) {
            Ok(metadata) if metadata.file_type().is_fifo() => true,
            Ok(metadata) => metadata.is_file() && !arguments.keep && !has_loop_device(&metadata),
            Err(_) => true,
        }
    }

    /// Extends an existing file if the options ask for that. Returns whether the file was shorter.
    fn lengthen(&self) -> io::Result<bool> {
        let Some(bytes) = self.bytes.filter(|_| self.grows) else { return Ok(false) };
        let bytes = self.file_bytes(bytes);
        let metadata = std::fs::metadata(self.path)?;
        let is_shorter = metadata.is_file() && metadata.len() < bytes;
        if is_shorter {
            space::lengthen(&File::options().write(true).open(self.path)?, bytes)?;
        }
        Ok(is_shorter)
    }

    fn failure(&self, exit: Exit, message: String) -> Failure {
        Failure::new(exit, message).about(&names::in_message(self.path.as_os_str().as_bytes()))
    }
}
