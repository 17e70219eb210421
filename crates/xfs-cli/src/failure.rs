//! Errors in the form in which they leave the program: one line, a hint, an exit code.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;

use crate::exit::Exit;
use crate::names;

/// Why a command stopped.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: Option<String>,
    hint: Option<String>,
    /// Whether it is of writing to standard output, which no item that is left can do either.
    is_of_output: bool,
    /// Whether it says already where in which image or file it is.
    is_placed: bool,
    /// Whether the volume is shut down, so that nothing that is left can be done to it.
    is_of_volume: bool,
}

impl Failure {
    /// A failure that ends the program with `exit`.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        let message = Some(message.into());
        Self {
            exit,
            message,
            hint: None,
            is_of_output: false,
            is_placed: false,
            is_of_volume: false,
        }
    }

    /// A command line that makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// A failure of the host on one of its own files.
    pub(crate) fn host(file: &OsStr, error: &io::Error) -> Self {
        Self::new(Exit::Failed, format!("{}: {error}", names::in_message(file.as_bytes()))).placed()
    }

    /// A failure of which another process has told already.
    pub(crate) fn silent(exit: Exit) -> Self {
        Self { message: None, ..Self::new(exit, "") }
    }

    /// Says what the failure is about, in front of it, unless that is [said](Self::placed).
    pub(crate) fn about(mut self, subject: &str) -> Self {
        if !self.is_placed {
            self.message = self.message.map(|message| format!("{subject}: {message}"));
        }
        self
    }

    /// Says that it names its place in full: whoever copies from there would put another one in front.
    pub(crate) fn placed(mut self) -> Self {
        self.is_placed = true;
        self
    }

    /// Adds what the caller can do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says that nothing more can be done to the volume.
    pub(crate) fn of_volume(mut self) -> Self {
        self.is_of_volume = true;
        self
    }

    /// Whether nothing more can be done to the volume.
    pub(crate) fn is_of_volume(&self) -> bool {
        self.is_of_volume
    }

    /// Whether it says what the caller can do.
    pub(crate) fn has_hint(&self) -> bool {
        self.hint.is_some()
    }

    /// The exit code that this failure asks for.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Whether standard output cannot be written.
    pub(crate) fn is_of_output(&self) -> bool {
        self.is_of_output
    }

    /// Whether there is nothing to say: the reader of our output went away, or another
    /// process has said it.
    pub(crate) fn is_silent(&self) -> bool {
        self.message.is_none()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ferroxfs: {}", self.message.as_deref().unwrap_or("interrupted"))?;
        match &self.hint {
            None => Ok(()),
            Some(hint) => write!(f, "\nhint: {hint}"),
        }
    }
}

/// Errors of writing to standard output are the only plain I/O errors that commands pass on.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let failure = match error.kind() {
            io::ErrorKind::BrokenPipe => Self::silent(Exit::Unread),
            _ => Self::new(Exit::Failed, format!("standard output: {error}")),
        };
        Self { is_of_output: true, ..failure }
    }
}
