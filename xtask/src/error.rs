//! Errors of the project's chores.

use std::io;
use std::path::PathBuf;

/// The reason for which a chore failed. It is printed as one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// A program could not be started.
    #[error("cannot run {program}: {source}")]
    Start { program: String, source: io::Error },
    /// A program ended with a failure.
    #[error("{line}: {status}")]
    Command { line: String, status: std::process::ExitStatus },
    /// `cargo metadata` printed something unexpected.
    #[error("cargo metadata: {0}")]
    Metadata(#[from] serde_json::Error),
    /// The machine has no Debian mirror to take newer programs from.
    #[error("apt-get knows no mirror of Debian")]
    NoMirror,
    /// The kernel of a guest could not be unpacked.
    #[error("kernel of a guest: {0}")]
    Kernel(String),
    /// A scene of the demo had a wrong result.
    #[error("demo: {0}")]
    Demo(String),
    /// A file that `dist` made breaks a rule.
    #[error("dist: {0}")]
    Dist(String),
    /// The wheel of the Python module was not made.
    #[error("python: {0}")]
    Python(String),
    /// A program is missing, and only root can install it.
    #[error("{program} is not installed: install the Debian package {package}")]
    Missing { program: &'static str, package: &'static str },
    /// The timestamp for the files of `dist` is not known. It must not be the current time, so that
    /// two runs make the same files.
    #[error("this tree has no commits: set SOURCE_DATE_EPOCH")]
    NoEpoch,
    /// A file with the records of test runs is damaged.
    #[error("{}: {source}", path.display())]
    Record { path: PathBuf, source: serde_json::Error },
    /// The user asked for a suite of tests that this project cannot run. The results of such a
    /// suite are recorded by hand.
    #[error("this suite is run by hand: add its result to {0}, then run without --run")]
    ByHand(String),
    /// A page does not have the marks between which a chore writes.
    #[error("{0} has no marks for its results")]
    NoMarks(&'static str),
    /// The chore needs root.
    #[error("run this as root: {0}")]
    NotRoot(&'static str),
    /// One of the deliberate mistakes of `cargo xtask mutants` cannot be put into the sources, or
    /// the checker does not find it.
    #[error("mutants: {0}")]
    Mutants(String),
    /// The sources of the public API could not be read.
    #[error("api: {0}")]
    Api(String),
    /// Some links of the site lead nowhere. The number is that of these links, which have been
    /// printed.
    #[error("site: {0} broken link(s)")]
    BrokenLinks(usize),
    /// Some rule of `tidy` does not hold. The number is that of the findings, which have been
    /// printed.
    #[error("tidy: {0} finding(s)")]
    Untidy(usize),
    /// A published crate lacks a field or a file, or has a file too many. The findings have been
    /// printed.
    #[error("package: {0} finding(s)")]
    Unpublishable(usize),
    /// The disk has too little space for a first run of the tests.
    #[error("a first run takes {needed_gib} GiB of disk space, and {free_gib} GiB are free")]
    DiskFull { needed_gib: u64, free_gib: u64 },
    /// df(1) printed something unexpected.
    #[error("df printed no free space")]
    FreeSpace,
    /// A part that ran beside the tests ended without a report.
    #[error("the part ended without a report")]
    NoReport,
    /// A test failed. The report has been printed.
    #[error("tests failed")]
    TestsFailed,
}

impl Error {
    /// Returns a function that converts an I/O error on `path` into an error of this type.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}
