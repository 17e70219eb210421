//! The device of a new volume: a block device, a file or an NBD export.
//!
//! Owns: the rule that a file holds either a whole volume or its old contents: the volume is made
//! in a [staged file](crate::output::StagedFile). Block devices, NBD exports and files that cannot
//! be replaced are written in place. The message about a failure says in which state the device is
//! left.

mod request;

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;

use ferroxfs::Timestamp;
use ferroxfs::admin::Uuid;
use ring::digest::{Context, SHA256};
use xfs_device::{BlockDevice, DeviceError, FileDevice, SharedDevice};

use super::disk::DiskPlan;
use super::packaging::Packaging;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::json::Object;
use crate::output::{StagedFile, each_chunk};
use crate::terminal::names;
use crate::text::hexadecimal;
pub(super) use request::{DeviceRequest, Placement};

/// The device, file or NBD export of a new volume. With `-N` it is not opened.
pub(super) struct Device {
    /// The path that the user gave.
    pub(super) path: PathBuf,
    /// The open device; `None` with `-N`, and after the volume has been made in it.
    pub(super) device: Option<SharedDevice>,
    /// Whether the open device is also used to fill the volume, because no path leads to it: it is
    /// an NBD export, whose server may end with its first connection, or a part of a disk.
    pub(super) stays_open: bool,
    /// The disk around the volume; `None` without `--disk`.
    pub(super) disk: Option<Rc<DiskPlan>>,
    /// The whole open disk of `disk`.
    whole: Option<SharedDevice>,
    /// The staged file that will replace the file at the path; `None` if the device is written in
    /// place.
    staged: Option<StagedFile>,
    /// The format of the finished file.
    format: Packaging,
    /// The staged file that gets the finished image, and takes the place of `staged`, if the format
    /// is not that of `staged`.
    packed: Option<StagedFile>,
    /// The file at the path, which is locked until the staged file replaces it.
    _present: Option<FileDevice>,
}

/// A range of bytes of a device.
#[derive(Clone, Copy)]
struct ByteRange {
    start: u64,
    end: u64,
}

impl ByteRange {
    const fn length_bytes(self) -> u64 {
        self.end - self.start
    }
}

impl Device {
    /// Returns the device at `path`, which is not open.
    fn closed(path: PathBuf) -> Self {
        Self {
            path,
            device: None,
            stays_open: false,
            disk: None,
            whole: None,
            staged: None,
            format: Packaging::Raw,
            packed: None,
            _present: None,
        }
    }

    /// Returns the device whose old contents are overwritten: a partition, or the whole disk.
    fn contents(&self, placement: &Placement) -> &dyn BlockDevice {
        let whole = self.whole.as_ref().filter(|_| matches!(placement, Placement::NewDisk(_)));
        let open = whole.or(self.device.as_ref());
        &**open.expect("the caller has opened the device")
    }

    /// Returns the path with which this process can open the new volume: that of the staged file,
    /// if there is one.
    pub(super) fn place(&self) -> PathBuf {
        self.staged.as_ref().map_or_else(|| self.path.clone(), StagedFile::path)
    }

    /// Returns whether the volume is made in a staged file, so that the file at the path is
    /// unchanged.
    pub(super) fn is_staged(&self) -> bool {
        self.staged.is_some()
    }

    /// Adds a hint to a failure to fill the volume: the state in which the device is left.
    pub(super) fn unfilled(&self, failure: Failure) -> Failure {
        let shown = names::in_message(self.path.as_os_str().as_bytes());
        let failure = match failure.exit().is_of_signal() {
            true => interrupt::stopped(&shown).unwrap_or(failure),
            false => failure,
        };
        // A hint of the volume would need a volume that exists.
        failure.hint(match (self.is_staged(), self._present.is_some()) {
            (true, true) => "the file is unchanged",
            (true, false) => "no file was created",
            (false, _) => {
                "a volume with the files before the failure is there; mkfs -f makes it again"
            }
        })
    }

    /// Fails if a signal has arrived and the volume is made in a staged file, so that the file at
    /// the path is still unchanged.
    pub(super) fn check_stopped(&self) -> Result<(), Failure> {
        let shown = names::in_message(self.path.as_os_str().as_bytes());
        match interrupt::stopped(&shown) {
            Some(stopped) if self.is_staged() => Err(self.unfilled(stopped)),
            // The volume is complete.
            _ => Ok(()),
        }
    }

    /// Writes the parts of a new disk beside the volume, which is finished. `seed` is the UUID of
    /// the volume.
    pub(super) fn finish_disk(&self, seed: &Uuid) -> Result<(), Failure> {
        let (Some(disk), Some(whole)) = (&self.disk, &self.whole) else { return Ok(()) };
        let shown = names::in_message(self.path.as_os_str().as_bytes());
        disk.write(whole, seed).map_err(|failure| match self.is_staged() {
            true => self.unfilled(failure.about(&shown)),
            false => failure.about(&shown).hint("the disk is incomplete; mkfs -f makes it again"),
        })
    }

    /// Turns the finished raw image into an image of the format that the user asks for. `identity`
    /// is the UUID of the volume, and `time` its time.
    pub(super) fn package(&self, identity: &Uuid, time: Timestamp) -> Result<(), Failure> {
        let packaged = match (self.format, &self.staged, &self.packed) {
            (Packaging::Vhd, Some(raw), _) => Packaging::append_footer(raw.file(), identity, time),
            (Packaging::Qcow2(compression), Some(raw), Some(image)) => {
                Packaging::write_qcow2(raw.file(), image.file(), compression)
            }
            _ => Ok(()),
        };
        let shown = names::in_message(self.path.as_os_str().as_bytes());
        packaged.map_err(|error| {
            let stopped =
                interrupt::stopped(&shown).filter(|_| error.kind() == io::ErrorKind::Other);
            self.unfilled(stopped.unwrap_or_else(|| Failure::host(self.path.as_os_str(), &error)))
        })
    }

    /// Returns the facts of the finished image for a JSON document.
    pub(super) fn describe(&self) -> io::Result<Object> {
        let mut object = self.disk.as_ref().map_or_else(Object::new, |disk| disk.describe());
        if self.format != Packaging::Raw {
            object.insert("format".to_owned(), self.format.name().into());
        }
        if let Some(image) = self.image() {
            object.insert("image_bytes".to_owned(), image.metadata()?.len().into());
        }
        Ok(object)
    }

    /// Returns the finished image; `None` for a device that is written in place.
    fn image(&self) -> Option<&File> {
        self.packed.as_ref().or(self.staged.as_ref()).map(StagedFile::file)
    }

    /// Fails if the volume is written in place, or not at all: `--digest` is for a new file.
    pub(super) fn check_has_digest(&self) -> Result<(), Failure> {
        if self.is_staged() {
            return Ok(());
        }
        let shown = names::in_message(self.path.as_os_str().as_bytes());
        let message = "--digest is for a new file, and this one is written in place or not at all";
        Err(Failure::usage(message).about(&shown).hint("sha256sum(1) reads devices and files"))
    }

    /// Returns the SHA-256 of the finished image in hexadecimal digits.
    pub(super) fn digest(&self) -> Result<String, Failure> {
        let image = self.image().expect("the caller has checked that the file is staged");
        let mut context = Context::new(&SHA256);
        let taken = each_chunk(image, |bytes, _| {
            context.update(bytes);
            interrupt::check_io()
        });
        taken.map_err(|error| self.unfilled(Failure::host(self.path.as_os_str(), &error)))?;
        Ok(hexadecimal::digits(context.finish().as_ref()))
    }

    /// Puts the finished volume at the path that the user gave.
    pub(super) fn publish(self) -> Result<(), Failure> {
        let Self { path, staged, packed, .. } = self;
        let published = packed.or(staged).map_or(Ok(()), StagedFile::publish);
        published.map_err(|error| Failure::host(path.as_os_str(), &error))
    }
}

pub(super) fn device_failure(error: &DeviceError) -> Failure {
    let failure = Failure::new(Exit::Failed, error.to_string());
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
