//! Colours of file names on a terminal: the default colours of ls(1), which apply without
//! LS_COLORS.

use std::io;

use crate::file::facts::{Facts, FileKind};
use crate::terminal::escaping::TerminalWrite;

/// Returns the colour of a file's name, as parameters of an escape sequence; empty for no colour.
pub(crate) fn of(kind: FileKind, facts: Option<&Facts>) -> &'static str {
    match kind {
        FileKind::Directory => "01;34",
        FileKind::Symlink => "01;36",
        FileKind::BlockDevice | FileKind::CharDevice => "40;33;01",
        FileKind::Fifo => "40;33",
        FileKind::Socket => "01;35",
        FileKind::Unknown => "01;31",
        FileKind::Regular => match facts.map_or(0, |facts| facts.mode) {
            mode if mode & 0o4000 != 0 => "37;41",
            mode if mode & 0o2000 != 0 => "30;43",
            mode if mode & 0o111 != 0 => "01;32",
            _ => "",
        },
    }
}

/// Writes `text` in a colour, given in the form that `of` returns.
pub(crate) fn write(out: &mut impl TerminalWrite, colour: &str, text: &[u8]) -> io::Result<()> {
    if colour.is_empty() {
        return out.write_all(text);
    }
    write!(out.raw(), "\x1b[{colour}m")?;
    out.write_all(text)?;
    out.raw().write_all(b"\x1b[0m")
}
