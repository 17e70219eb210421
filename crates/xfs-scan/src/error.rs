//! Errors that end a scan early. Damage on a volume does not end a scan: it becomes a finding.

use std::io;

use thiserror::Error;

/// The reason why a scan ended early. No usable output was written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ScanError {
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
    /// The facts (findings, accounts, totals) could not be written to their own output.
    #[error("cannot write the facts: {0}")]
    Facts(#[source] io::Error),
    /// The spill file could not be created, written or read.
    #[error("cannot use the spill file: {0}")]
    Spill(#[source] io::Error),
    /// The caller cancelled the scan.
    #[error("the scan was interrupted")]
    Cancelled,
    /// This build does not support the output format with this name.
    #[error("this build of ferroxfs does not support {0}")]
    FormatNotBuilt(&'static str),
    /// The memory limit does not suffice for even one unit of work per thread.
    #[error(
        "the memory limit of {allowed} bytes is too small: {threads} threads need {needed}; raise the limit or use fewer threads"
    )]
    MemoryTooSmall {
        /// The memory limit in bytes.
        allowed: u64,
        /// The smallest sufficient limit in bytes.
        needed: u64,
        /// The number of threads.
        threads: usize,
    },
    /// The tables of inode chunks or directories of a volume need more memory than the limit
    /// allows.
    #[error(
        "the tables of chunks and directories need more than the {allowed} bytes that the memory \
         limit leaves them ({needed} so far): raise the limit"
    )]
    TablesTooLarge {
        /// Bytes needed by the tables so far. They may need more, because the scan stopped here.
        needed: u64,
        /// Memory allowed for tables in bytes.
        allowed: u64,
    },
    /// A worker thread panicked because of a bug.
    #[error("a worker thread panicked")]
    WorkerLost,
}
