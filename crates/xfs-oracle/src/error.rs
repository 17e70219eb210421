//! Failures of the programs and the machine that a test uses.

use std::io;

/// A failure of the test machinery. A difference between ferroxfs and the reference is never one of
/// these.
#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    /// The machine lacks what the test needs, as this text says. The test must be skipped.
    #[error("{0}")]
    Unavailable(String),
    /// The kernel behaves differently from its model.
    #[error("the kernel and its model differ: {0}")]
    Disagreement(String),
    /// A guest did not run its script to a successful end.
    #[error("guest: {0}")]
    Guest(String),
    /// An external program failed.
    #[error("{line}: {status}: {stderr}")]
    Command {
        /// The command line of the program.
        line: String,
        /// Exit status of the program.
        status: std::process::ExitStatus,
        /// Standard error of the program.
        stderr: String,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// The action that failed.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

/// Adds the failed action to the error of a system call.
pub(crate) trait Context<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, OracleError>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, OracleError> {
        self.map_err(|source| OracleError::Io { what: what(), source: source.into() })
    }
}
