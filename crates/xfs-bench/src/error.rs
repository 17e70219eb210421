//! Errors of benchmarks.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use thiserror::Error;
use xfs_oracle::OracleError;

/// The reason why a benchmark failed.
#[derive(Debug, Error)]
pub(crate) enum BenchError {
    /// The kernel or xfsprogs failed, or is missing.
    #[error(transparent)]
    Oracle(#[from] OracleError),
    /// A file of the host could not be used.
    #[error("{path}: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The error of the host's operating system.
        source: io::Error,
    },
    /// A contender (one of the compared programs) failed.
    #[error("{name} ended with {status}")]
    Failed {
        /// Name of the contender.
        name: String,
        /// Exit status of the contender.
        status: ExitStatus,
    },
    /// An operation of the library failed.
    #[error(transparent)]
    Volume(#[from] xfs_buffer::Error),
    /// A volume could not be opened.
    #[error(transparent)]
    Open(#[from] ferroxfs::OpenError),
    /// A workload failed.
    #[error(transparent)]
    Workload(#[from] xfs_workload::WorkloadError),
    /// A file is no report that the model can use.
    #[error("{path}: {why}")]
    Unsuitable {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A report has not the measurement with this name.
    #[error("the report has no measurement of {0}")]
    NotInReport(String),
    /// A Parquet file could not be read back.
    #[error(transparent)]
    Parquet(#[from] parquet::errors::ParquetError),
}

impl BenchError {
    /// Returns a function that turns a host error about `path` into a benchmark error.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::File { path: path.to_owned(), source }
    }
}
