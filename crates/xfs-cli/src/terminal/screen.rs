//! Frames on a terminal, each of which replaces the preceding one.
//!
//! Owns: drawing from the top of the screen. Does **not** own: the contents of frames. Drawing
//! changes no mode of the terminal, so an interrupt has nothing to restore.

use std::fmt::Write;
use std::io::{IsTerminal, stdout};

/// The escape sequence that moves the cursor to the upper left corner.
const HOME: &str = "\x1b[H";
/// The escape sequence that clears to the end of the line. `CLEAR_REST` also clears all lines
/// below.
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_REST: &str = "\x1b[J";
/// The number of rows of a terminal that does not report its size.
const ROWS: u16 = 24;

/// A terminal on which frames can be drawn.
pub(crate) struct Screen(());

impl Screen {
    /// Returns a screen on standard output; `None` if that is not a terminal, or one that cannot
    /// move its cursor.
    pub(crate) fn of_stdout() -> Option<Self> {
        let moves = std::env::var_os("TERM").is_some_and(|kind| !kind.is_empty() && kind != "dumb");
        (moves && stdout().is_terminal()).then_some(Self(()))
    }

    /// Returns the text that draws a frame over the preceding one. The height of the terminal is
    /// read for each frame, because windows change their size.
    pub(crate) fn frame(&self, text: &str) -> String {
        let size = rustix::termios::tcgetwinsize(stdout());
        let rows = size.ok().map(|size| size.ws_row).filter(|rows| *rows > 0);
        frame(text, usize::from(rows.unwrap_or(ROWS)))
    }
}

/// Returns the text that draws a frame on a terminal with `rows` rows. If the frame has more lines,
/// the last row says how many are left out. A longer frame would scroll, and the next frame could
/// not replace the lines that have scrolled away. The cursor ends in the row below the last line.
fn frame(text: &str, rows: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    let room = rows.saturating_sub(1);
    let (shown, left) = match lines.len() <= room {
        true => (lines.as_slice(), 0),
        false => {
            let (shown, left) = lines.split_at(room.saturating_sub(1));
            (shown, left.len())
        }
    };
    let mut frame = HOME.to_owned();
    for line in shown {
        // Writing to a string does not fail.
        let _ = writeln!(frame, "{line}{CLEAR_LINE}");
    }
    if left > 0 {
        let _ = writeln!(frame, "({left} more lines in a higher window){CLEAR_LINE}");
    }
    frame + CLEAR_REST
}

#[cfg(test)]
mod tests;
