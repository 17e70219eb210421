//! Why there is no figure.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why there is no figure.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// A file of the host could not be used.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the host said.
        source: io::Error,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was asked.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// This machine, or this user, cannot do it.
    #[error("{what}: {why}")]
    Unavailable {
        /// What.
        what: String,
        /// Why not.
        why: String,
    },
    /// Two that should have done the same did not.
    #[error("{0}")]
    Disagreement(String),
    /// The volume that was asked for cannot be made.
    #[error("no volume can be made for this: {0}")]
    Geometry(#[from] xfs_mkfs::GeometryError),
    /// A log of so many bytes is too small or too large to be measured.
    #[error("a log of {0} bytes: from 8m to 2038m can be measured")]
    LogSize(u64),
    /// Our own code failed.
    #[error(transparent)]
    Volume(#[from] ferroxfs::Error),
    /// A volume could not be opened.
    #[error(transparent)]
    Open(#[from] ferroxfs::OpenError),
    /// The device of a volume could not be opened.
    #[error(transparent)]
    Device(#[from] ferroxfs::DeviceError),
    /// Whoever started the run wants it to end.
    #[error("interrupted")]
    Interrupted,
}

impl WorkloadError {
    /// An error of the host about a path.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::File { path: path.to_owned(), source }
    }
}
