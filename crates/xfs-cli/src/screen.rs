//! What is shown in place of what was there, on a terminal.
//!
//! Owns: one frame after the other from the top of the screen. Does **not** own: what is in them. It takes nothing
//! from the terminal that an interrupt would have to give back.

use std::fmt::Write;
use std::io::{IsTerminal, stdout};

/// To the upper left corner.
const HOME: &str = "\x1b[H";
/// What stands behind on the line, and below.
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_REST: &str = "\x1b[J";
/// Where the terminal does not say how high it is.
const ROWS: u16 = 24;

/// A terminal that frames can be drawn on.
pub(crate) struct Screen(());

impl Screen {
    /// Standard output, if it is a terminal that moves its cursor.
    pub(crate) fn of_stdout() -> Option<Self> {
        let moves = std::env::var_os("TERM").is_some_and(|kind| !kind.is_empty() && kind != "dumb");
        (moves && stdout().is_terminal()).then_some(Self(()))
    }

    /// What draws these lines over those before. It is asked each time how high it is: windows change.
    pub(crate) fn frame(&self, text: &str) -> String {
        let size = rustix::termios::tcgetwinsize(stdout());
        let rows = size.ok().map(|size| size.ws_row).filter(|rows| *rows > 0);
        frame(text, usize::from(rows.unwrap_or(ROWS)))
    }
}

/// Of more lines than there are rows the last row says how many are left out: what scrolls away would be drawn
/// over by nothing. The row below the last line is where the cursor comes to stand.
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
