//! Why a witness could not be heard.

use std::io;

/// A failure of the machinery around a test; never a difference between us and the witness.
#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    /// The machine lacks something; the test is to be skipped with this reason.
    #[error("{0}")]
    Unavailable(String),
    /// The kernel does not do what the model of it says.
    #[error("the kernel and its model differ: {0}")]
    Disagreement(String),
    /// A program of the witness failed.
    #[error("{line}: {status}: {stderr}")]
    Command {
        /// The command line.
        line: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it said.
        stderr: String,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Says what was being done when a system call failed.
pub(crate) trait Context<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, OracleError>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, OracleError> {
        self.map_err(|source| OracleError::Io { what: what(), source: source.into() })
    }
}
