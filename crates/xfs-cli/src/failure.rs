//! Errors in the form in which they leave the program: one line, a hint, an exit code.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::exit::Exit;
use crate::host;
use crate::names;
use crate::size;

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
    /// What was missing in the volume, where that is the failure.
    lack: Option<Lack>,
}

/// What was not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// A file or directory.
    Name,
    /// Room, and how many bytes were to be written, if that is known.
    Room(Option<u64>),
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
            lack: None,
        }
    }

    /// A command line that makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// A failure of the host on one of its own files.
    pub(crate) fn host(file: &OsStr, error: &io::Error) -> Self {
        let mut message = format!("{}: {error}", names::in_message(file.as_bytes()));
        if error.kind() == io::ErrorKind::StorageFull
            && let Some(bytes) = host::free_bytes(Path::new(file))
        {
            message += &format!(" ({} free)", size::human(bytes));
        }
        Self::new(Exit::Failed, message).placed()
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

    /// Says that something was missing in the volume.
    pub(crate) fn lacking(mut self, lack: Lack) -> Self {
        self.lack = Some(lack);
        self
    }

    /// Says how many bytes were to be written, where the room was missing for them.
    pub(crate) fn needing(mut self, bytes: Option<u64>) -> Self {
        if let Some(Lack::Room(None)) = self.lack {
            self.lack = Some(Lack::Room(bytes));
        }
        self
    }

    /// What was missing, once: whoever asks says what there is.
    pub(crate) fn take_lack(&mut self) -> Option<Lack> {
        self.lack.take()
    }

    /// Adds to the message.
    pub(crate) fn more(mut self, text: &str) -> Self {
        self.message = self.message.map(|message| message + text);
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
        let message = self.message.as_deref().unwrap_or("interrupted");
        write!(f, "ferroxfs: {}", without_numbers(message))?;
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

/// The message without the numbers that the standard library puts behind the words of the system: ` (os error 2)`.
fn without_numbers(message: &str) -> String {
    let mut parts = message.split(" (os error ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                text += rest;
            }
            _ => {
                text += " (os error ";
                text += part;
            }
        }
    }
    text
}

#[cfg(test)]
mod tests;
