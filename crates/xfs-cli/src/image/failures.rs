//! Conversion of the library's errors to failures of the program: message, hint and exit code.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ferroxfs::raw::format::superblock::Unsupported;
use ferroxfs::{OpenError, PosixError};
use xfs_device::{DeviceFailure, FindError, MetadumpError, SourceErrorKind, VolumeError};
use xfs_format::{Check, Structure};

use crate::exit::Exit;
use crate::failure::{Failure, Missing};
use crate::terminal::names;

pub(crate) fn about_image(failure: Failure, path: &Path) -> Failure {
    let path = xfs_image::without_credentials(path);
    failure.about(&names::in_message(path.as_os_str().as_bytes()))
}

impl From<ferroxfs::Error> for Failure {
    fn from(error: ferroxfs::Error) -> Self {
        let mut failure = Self::new(exit_of(&error), error.to_string());
        if matches!(error, ferroxfs::Error::Shutdown) {
            failure = failure.of_volume();
        }
        match &error {
            ferroxfs::Error::Posix(PosixError::NotFound) => failure.with_missing(Missing::Name),
            ferroxfs::Error::Posix(PosixError::NoSpace) => {
                failure.with_missing(Missing::Room(None))
            }
            _ if is_host_full(&error) => failure.hint(HOST_FULL),
            ferroxfs::Error::Unsupported(Unsupported::RealtimeData) => {
                failure.hint("name the realtime device with --rt-device")
            }
            _ => failure,
        }
    }
}

impl From<PosixError> for Failure {
    fn from(error: PosixError) -> Self {
        Self::from(ferroxfs::Error::from(error))
    }
}

/// The hint for a write that failed because the filesystem of the host is full. Changes that were
/// not durable are lost, as in a crash, so the user must repeat the command.
const HOST_FULL: &str =
    "the filesystem that holds the image is full: free space there, and repeat the command";

fn is_host_full(error: &ferroxfs::Error) -> bool {
    let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    matches!(error, ferroxfs::Error::Io(error) if kinds.contains(&error.source.kind()))
}

pub(super) fn exit_of(error: &ferroxfs::Error) -> Exit {
    match error {
        ferroxfs::Error::Corrupt(_) => Exit::Corrupt,
        ferroxfs::Error::Unsupported(_) => Exit::Refused,
        ferroxfs::Error::Io(error) => exit_of_read(error.source.kind()),
        _ => Exit::Failed,
    }
}

/// Returns the exit code of an error in reading the device of an image.
pub(crate) fn exit_of_read(error: io::ErrorKind) -> Exit {
    match error {
        // The image ends before the volume does, so part of the volume is missing. Or the tables of
        // a disk image point nowhere.
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => Exit::Corrupt,
        _ => Exit::Failed,
    }
}

pub(crate) fn open_failure(path: &Path, error: &OpenError) -> Failure {
    let (exit, message) = match error {
        OpenError::Device(error) => (exit_of_device(error.failure()), error.reason()),
        OpenError::Find(find) => (exit_of_find(find), find.to_string()),
        OpenError::Volume(inner)
        | OpenError::Log(inner)
        | OpenError::Quota(inner)
        | OpenError::Recovery(inner) => {
            if is_host_full(inner) {
                return about_image(Failure::new(exit_of(inner), inner.to_string()), path)
                    .hint(HOST_FULL);
            }
            (exit_of(inner), error.to_string())
        }
        OpenError::DirtyLog(_) => (Exit::LogDirty, error.to_string()),
        _ => (Exit::Failed, error.to_string()),
    };
    let path = match error {
        // The device may be the external log.
        OpenError::Device(error) => error.path(),
        _ => path,
    };
    let failure = about_image(Failure::new(exit, message), path);
    let hint = if has_foreign_log(error) { Some(FOREIGN_LOG.into()) } else { error.hint() };
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// The hint for a log that belongs to another volume.
const FOREIGN_LOG: &str =
    "if the log is on an external device, name the right one with --log-device";

/// Returns whether the error says that the log belongs to another volume. Replaying that log would
/// not help.
pub(crate) fn has_foreign_log(error: &OpenError) -> bool {
    let (OpenError::Log(inner) | OpenError::Recovery(inner)) = error else { return false };
    matches!(inner, ferroxfs::Error::Corrupt(corruption)
        if corruption.structure() == Structure::LogRecord
            && matches!(corruption.check(), Check::ForeignUuid { .. }))
}

fn exit_of_device(failure: &DeviceFailure) -> Exit {
    match failure {
        DeviceFailure::ForeignImage(..) | DeviceFailure::NotADevice(_) => Exit::Refused,
        DeviceFailure::Source(error) => match error.kind() {
            SourceErrorKind::Refused => Exit::Refused,
            SourceErrorKind::Damaged => Exit::Corrupt,
            _ => Exit::Failed,
        },
        DeviceFailure::Metadump(error) => exit_of_metadump(error),
        _ => Exit::Failed,
    }
}

/// Returns the exit code for a metadata image that cannot be read.
pub(crate) fn exit_of_metadump(error: &MetadumpError) -> Exit {
    match error {
        MetadumpError::Io(_) => Exit::Failed,
        MetadumpError::NotMetadump
        | MetadumpError::Version(_)
        | MetadumpError::Incompatible(_)
        | MetadumpError::OtherDevice(_)
        | MetadumpError::TooManyExtents => Exit::Refused,
        _ => Exit::Corrupt,
    }
}

fn exit_of_find(error: &FindError) -> Exit {
    match error {
        FindError::NotXfs(_)
        | FindError::NoXfsPartition(_)
        | FindError::Container(_)
        | FindError::Raid(_)
        | FindError::ReadOnlyVolume(_)
        | FindError::Volume(VolumeError::Layout { .. }) => Exit::Refused,
        FindError::Volume(VolumeError::Damaged { .. }) => Exit::Corrupt,
        FindError::NoTable { .. }
        | FindError::NoSuchPartition { .. }
        | FindError::SeveralNamed { .. }
        | FindError::OffsetPastEnd { .. }
        | FindError::Several(_)
        | FindError::SeveralVolumes(_)
        | FindError::NoMembers
        | FindError::Volume(_) => Exit::Usage,
        _ => Exit::Failed,
    }
}
