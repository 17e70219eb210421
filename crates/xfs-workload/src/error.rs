//! Errors of a run of workloads.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The reason why a measurement failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// A file on the machine could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// The system call and its purpose.
        what: &'static str,
        /// The error of the system call.
        source: io::Error,
    },
    /// This machine, or this user, cannot make the measurement.
    #[error("{what}: {why}")]
    Unavailable {
        /// Name of the measurement.
        what: String,
        /// The reason why the measurement is not possible.
        why: String,
    },
    /// Two variants of the measured step did different work. They must do the same. The text says
    /// how the work differs.
    #[error("{0}")]
    Disagreement(String),
    /// The requested volume cannot be created.
    #[error("cannot create a volume for this workload: {0}")]
    Geometry(#[from] xfs_mkfs::GeometryError),
    /// The log has this size in bytes, which is too small or too large for the measurement.
    #[error("a log of {0} bytes cannot be measured: use 8m to 2038m")]
    LogSize(u64),
    /// An operation of the library failed.
    #[error(transparent)]
    Volume(#[from] ferroxfs::Error),
    /// A volume could not be opened.
    #[error(transparent)]
    Open(#[from] ferroxfs::OpenError),
    /// The device of a volume could not be opened.
    #[error(transparent)]
    Device(#[from] ferroxfs::error::DeviceError),
    /// The caller of the run cancelled it.
    #[error("interrupted")]
    Interrupted,
}

impl WorkloadError {
    /// Returns a function that turns a host error about `path` into a workload error.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::File { path: path.to_owned(), source }
    }
}
