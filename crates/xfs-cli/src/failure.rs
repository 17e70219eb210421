//! Errors in the form in which the program reports them: a message of one line, a hint, an exit
//! code.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::exit::Exit;
use crate::output::space;
use crate::terminal::names;
use crate::text::size;

/// The reason why a command stopped.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: Option<String>,
    hint: Option<String>,
    /// Whether writing to standard output has failed, so that the command can print nothing more.
    is_of_output: bool,
    /// Whether the message already names the image or file, and the location in it.
    is_placed: bool,
    /// Whether the volume is shut down, so that no further file in it can be changed.
    is_of_volume: bool,
    /// The file or the free space that was missing in the volume, if that caused the failure.
    lack: Option<Missing>,
    /// Whether the volume had no space left.
    is_of_room: bool,
}

/// A thing that was missing in a volume and caused a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// A file or directory.
    Name,
    /// Free space. The number is that of the bytes that were to be written; `None` if it is
    /// unknown.
    Room(Option<u64>),
}

impl Failure {
    /// Creates a failure that ends the program with `exit`.
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
            is_of_room: false,
        }
    }

    /// Returns the message without the name of the program and without the hint.
    pub(crate) fn message(&self) -> &str {
        self.message.as_deref().unwrap_or("interrupted")
    }

    /// Creates a failure for an invalid command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Creates the failure of an I/O error on a file of the host, not of an image.
    pub(crate) fn host(file: &OsStr, error: &io::Error) -> Self {
        let mut message = format!("{}: {error}", names::in_message(file.as_bytes()));
        if error.kind() == io::ErrorKind::StorageFull
            && let Some(bytes) = space::free_bytes(Path::new(file))
        {
            message += &format!(" ({} free)", size::human(bytes));
        }
        Self::new(Exit::Failed, message).placed()
    }

    /// Creates a failure that this process does not print, because another process has already
    /// reported it.
    pub(crate) fn silent(exit: Exit) -> Self {
        Self { message: None, ..Self::new(exit, "") }
    }

    /// Puts the subject in front of the message, unless the message already names its location
    /// ([`placed`](Self::placed)).
    pub(crate) fn about(mut self, subject: &str) -> Self {
        if !self.is_placed {
            self.message = self.message.map(|message| format!("{subject}: {message}"));
        }
        self
    }

    /// Marks that the message names its location in full, so that `about` adds none.
    pub(crate) fn placed(mut self) -> Self {
        self.is_placed = true;
        self
    }

    /// Sets the hint, which says what the user can do about the failure.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Records the thing that was missing in the volume and so caused the failure.
    pub(crate) fn with_missing(mut self, lack: Missing) -> Self {
        self.lack = Some(lack);
        self.is_of_room = matches!(lack, Missing::Room(_));
        self
    }

    /// Returns whether the volume had no space left.
    pub(crate) fn is_of_room(&self) -> bool {
        self.is_of_room
    }

    /// Records the number of bytes to be written, if the failure is a lack of free space and no
    /// number is known yet.
    pub(crate) fn needing(mut self, bytes: Option<u64>) -> Self {
        if let Some(Missing::Room(None)) = self.lack {
            self.lack = Some(Missing::Room(bytes));
        }
        self
    }

    /// Returns whether a file or directory that does not exist caused the failure.
    pub(crate) fn lacks_name(&self) -> bool {
        self.lack == Some(Missing::Name)
    }

    /// Takes the thing that was missing in the volume, if that caused the failure. The caller adds
    /// a hint about this thing. The next call returns `None`, so no second hint is added.
    pub(crate) fn take_missing(&mut self) -> Option<Missing> {
        self.lack.take()
    }

    /// Appends `text` to the message.
    pub(crate) fn more(mut self, text: &str) -> Self {
        self.message = self.message.map(|message| message + text);
        self
    }

    /// Marks that the volume is shut down and cannot be changed any more.
    pub(crate) fn of_volume(mut self) -> Self {
        self.is_of_volume = true;
        self
    }

    /// Returns whether the volume is shut down and cannot be changed any more.
    pub(crate) fn is_of_volume(&self) -> bool {
        self.is_of_volume
    }

    /// Returns whether the failure has a hint.
    pub(crate) fn has_hint(&self) -> bool {
        self.hint.is_some()
    }

    /// Returns the same failure with another exit code.
    pub(crate) fn with_exit(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    /// Returns the exit code of this failure.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Returns whether this is a failure to write to standard output.
    pub(crate) fn is_of_output(&self) -> bool {
        self.is_of_output
    }

    /// Returns whether the program prints nothing about this failure. Either the reader of standard
    /// output closed the pipe, or another process has reported the failure.
    pub(crate) fn is_silent(&self) -> bool {
        self.message.is_none()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ferroxfs: {}", without_numbers(self.message()))?;
        match &self.hint {
            None => Ok(()),
            Some(hint) => write!(f, "\nhint: {hint}"),
        }
    }
}

/// Creates the failure for an error in writing to standard output. Commands convert every other I/O
/// error themselves, so a plain I/O error always comes from standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let failure = match error.kind() {
            io::ErrorKind::BrokenPipe => Self::silent(Exit::Unread),
            _ => Self::new(Exit::Failed, format!("standard output: {error}")),
        };
        Self { is_of_output: true, ..failure }
    }
}

/// Removes the error number that the standard library appends to a message, such as ` (os error
/// 2)`.
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
