//! Why a benchmark gave no figure.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use thiserror::Error;
use xfs_oracle::OracleError;

/// Why a benchmark gave no figure.
#[derive(Debug, Error)]
pub(crate) enum BenchError {
    /// The kernel or xfsprogs failed, or is not there.
    #[error(transparent)]
    Oracle(#[from] OracleError),
    /// A file could not be used.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the host said.
        source: io::Error,
    },
    /// A contender did not run to its end.
    #[error("{name} ended with {status}")]
    Failed {
        /// Which.
        name: String,
        /// How.
        status: ExitStatus,
    },
    /// Our own code failed.
    #[error(transparent)]
    Volume(#[from] xfs_buffer::Error),
    /// A volume could not be opened.
    #[error(transparent)]
    Open(#[from] ferroxfs::OpenError),
    /// A workload failed.
    #[error(transparent)]
    Workload(#[from] xfs_workload::WorkloadError),
    /// A Parquet file could not be read back.
    #[error(transparent)]
    Parquet(#[from] parquet::errors::ParquetError),
}

impl BenchError {
    /// An error of the host about a path.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::File { path: path.to_owned(), source }
    }
}
