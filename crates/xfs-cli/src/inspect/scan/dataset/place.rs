//! The place of a dataset: a directory of the host, or a folder of a web or S3 server.
//!
//! Owns: staging directories, and the step in which a complete file appears at its place. Does
//! **not** own: which files there are, and the requests to a server (`xfs-image`).
//!
//! On a server, a PUT stores a whole object or nothing, and replaces an earlier one in one step. So
//! the invariants of [`dataset`](super) hold there too.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;
#[cfg(feature = "object_store")]
use xfs_device::{SourceError, SourceErrorKind};
#[cfg(feature = "object_store")]
use xfs_image::{ObjectError, ObjectFolder, ObjectOptions};

use super::{failed, shown};
use crate::exit::Exit;
use crate::failure::Failure;

const STAGING: &str = ".staging";
/// The name of a table's file below the directories of its date and volume.
pub(super) const PART: &str = "part-00000.parquet";
/// The file of a staging directory that its process keeps locked.
const LOCK: &str = "lock";

/// The place of a dataset.
pub(super) enum Place {
    Directory(PathBuf),
    #[cfg(feature = "object_store")]
    Store(ObjectFolder),
}

/// A directory for the files of a running scan. It is removed when it is dropped.
pub(super) struct Staging {
    directory: TempDir,
    _lock: File,
}

impl Staging {
    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn close(self) -> Result<(), Failure> {
        let path = self.path().to_owned();
        self.directory.close().map_err(failed(&path))
    }
}

impl Place {
    /// Creates the directory if it does not exist. A server is not asked yet.
    pub(super) fn open(place: &Path) -> Result<Self, Failure> {
        let Some((scheme, _)) = place.to_str().and_then(|text| text.split_once("://")) else {
            fs::create_dir_all(place).map_err(failed(place))?;
            return Ok(Self::Directory(place.to_owned()));
        };
        match scheme {
            #[cfg(feature = "object_store")]
            "s3" | "http" | "https" => {
                let address = place.to_string_lossy();
                let folder = ObjectFolder::new(&address, &ObjectOptions::new());
                folder.map(Self::Store).map_err(|error| refused(&error))
            }
            _ => Err(Failure::usage(format!("scan: --dataset cannot write to {scheme}://"))
                .hint("it writes to a directory, s3://, http:// and https://")),
        }
    }

    /// Returns a new staging directory. In a directory of the host, those of processes that have
    /// ended are removed before.
    pub(super) fn staging(&self) -> Result<Staging, Failure> {
        let all = match self {
            Self::Directory(directory) => directory.join(STAGING),
            #[cfg(feature = "object_store")]
            Self::Store(_) => return staging_in(&std::env::temp_dir()),
        };
        fs::create_dir_all(&all).map_err(failed(&all))?;
        for entry in fs::read_dir(&all).map_err(failed(&all))? {
            let path = entry.map_err(failed(&all))?.path();
            // One without a lock was made a moment ago.
            let Ok(lock) = File::open(path.join(LOCK)) else { continue };
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                fs::remove_dir_all(&path).map_err(failed(&path))?;
            }
        }
        staging_in(&all)
    }

    /// Lets a complete file appear as the part of a partition, such as
    /// `scans/scan_date=2026-11-30/volume_uuid=…`, in one step. Returns its path or address.
    pub(super) fn publish(&self, file: &Path, partition: &str) -> Result<PathBuf, Failure> {
        match self {
            Self::Directory(directory) => publish_in(&directory.join(partition), file),
            #[cfg(feature = "object_store")]
            Self::Store(folder) => {
                let contents = File::open(file).map_err(failed(file))?;
                let stored = folder.store(&format!("{partition}/{PART}"), &contents);
                stored.map(PathBuf::from).map_err(|error| refused(&error))
            }
        }
    }
}

fn staging_in(all: &Path) -> Result<Staging, Failure> {
    let directory = TempDir::new_in(all).map_err(failed(all))?;
    // The file gets its name when it is locked. Another run removes a directory with an unlocked
    // one.
    let path = directory.path().join("new");
    let lock = File::create_new(&path).map_err(failed(&path))?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(&path)(error.into()))?;
    fs::rename(&path, directory.path().join(LOCK)).map_err(failed(&path))?;
    Ok(Staging { directory, _lock: lock })
}

fn publish_in(place: &Path, file: &Path) -> Result<PathBuf, Failure> {
    fs::create_dir_all(place).map_err(failed(place))?;
    let path = place.join(PART);
    match path.symlink_metadata() {
        Ok(present) if !present.is_file() => {
            let message = format!("{}: not a regular file", shown(&path));
            return Err(Failure::new(Exit::Refused, message));
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(&path)(error)),
    }
    let sync = |path: &Path| File::open(path).and_then(|file| file.sync_all());
    sync(file).map_err(failed(file))?;
    fs::rename(file, &path).map_err(failed(&path))?;
    // The directories of the date and the volume may be new.
    for directory in place.ancestors().take(4) {
        sync(directory).map_err(failed(directory))?;
    }
    Ok(path)
}

/// Returns the failure of a folder on a server.
#[cfg(feature = "object_store")]
fn refused(error: &ObjectError) -> Failure {
    let exit = match error.kind() {
        SourceErrorKind::Refused => Exit::Refused,
        _ => Exit::Failed,
    };
    let failure = Failure::new(exit, format!("scan: {error}"));
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
