//! What ends a scan before it is complete. What is wrong on a volume does not: it is a finding.

use std::io;

use thiserror::Error;

/// Why a scan ended early. Nothing usable was written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ScanError {
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
    /// The side output of facts could not be written.
    #[error("cannot write the facts: {0}")]
    Facts(#[source] io::Error),
    /// The spill file could not be made, written or read.
    #[error("cannot use the spill file: {0}")]
    Spill(#[source] io::Error),
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
    /// This build lacks the format.
    #[error("this build has no support for {0}")]
    FormatNotBuilt(&'static str),
    /// The memory that is allowed does not suffice for even one unit of work per thread.
    #[error("{allowed} bytes of memory are too few: {needed} are needed for {threads} threads")]
    MemoryTooSmall {
        /// What was allowed.
        allowed: u64,
        /// The least.
        needed: u64,
        /// For this many threads.
        threads: usize,
    },
    /// The inode chunks or directories of a volume take more memory than is allowed.
    #[error(
        "the tables of chunks and directories take {needed} bytes so far, {allowed} are allowed: \
         half of the memory without that of the threads"
    )]
    TablesTooLarge {
        /// What they take, as far as the scan went.
        needed: u64,
        /// What they may take.
        allowed: u64,
    },
    /// A worker stopped because of a mistake of ours.
    #[error("a worker thread stopped")]
    WorkerLost,
}
