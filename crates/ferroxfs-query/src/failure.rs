//! Errors in the form in which the program reports them, and the exit codes of docs/exit-codes.md.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// A failure without an exit code of its own: a missing file, a full disk.
    Failed = 1,
    /// The command line is invalid, also the SQL in it.
    Usage = 2,
    /// The directory is no dataset, or has a schema that this version does not know.
    Refused = 3,
    /// A file of the dataset is damaged.
    Corrupt = 5,
    /// The reader of standard output closed the pipe.
    Unread = 141,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The reason why a run stopped.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// Creates a failure that ends the program with `exit`.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None }
    }

    /// Creates a failure for an invalid command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Adds a line that says what the user can do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Creates the failure of an I/O error on a file.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |error| match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(Exit::Unread, "the reader has gone"),
            _ => Self::new(Exit::Failed, format!("{}: {error}", shown(path))),
        }
    }

    /// Reports the failure on standard error. A closed pipe is silent.
    pub(crate) fn report(&self) {
        if self.exit != Exit::Unread {
            eprintln!("{self}");
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ferroxfs-query: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Returns the path for a message: control characters are escaped.
pub(crate) fn shown(path: &Path) -> String {
    escaped(&path.to_string_lossy())
}

/// Returns the text with escaped control characters, so that no name can move the cursor.
pub(crate) fn escaped(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => result.extend(character.escape_default()),
            false => result.push(character),
        }
    }
    result
}
