//! Printing of the demo: plain text, with colours and progress on a terminal.
//!
//! Does **not** own: the output of the commands, which is captured while they run.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

const BOLD: &str = "1";
const CYAN: &str = "36";
const DIM: &str = "2";
const GREEN: &str = "32";
const YELLOW: &str = "33";

/// Interval at which the line of progress is drawn again.
const TICK: Duration = Duration::from_millis(100);
/// The signs of progress, one after another.
const SPINNER: [char; 4] = ['|', '/', '-', '\\'];

/// Prints the lines of the demo, with colours on a terminal.
pub(crate) struct Screen {
    is_terminal: bool,
    has_colours: bool,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { is_terminal: is_terminal(), has_colours: is_terminal() && wanted }
    }

    /// Prints a heading, after an empty line.
    pub(crate) fn title(&self, text: &str) {
        println!();
        self.line(BOLD, text);
    }

    /// Prints a command as a reader types it. A command of several lines continues after `>`.
    pub(crate) fn command(&self, text: &str) {
        for (index, line) in text.lines().enumerate() {
            self.line(CYAN, &format!("{} {line}", if index == 0 { "$" } else { ">" }));
        }
    }

    /// Prints the output of a command.
    pub(crate) fn output(&self, text: &str) {
        for line in text.lines() {
            self.line("", line);
        }
    }

    /// Prints the result of a scene that succeeded.
    pub(crate) fn good(&self, text: &str) {
        self.line(GREEN, text);
    }

    /// Prints that a part of the demo was left out.
    pub(crate) fn left_out(&self, text: &str) {
        self.line(YELLOW, text);
    }

    /// Runs `work`. On a terminal, a line shows how long `work` has been running.
    pub(crate) fn waiting<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        if !self.is_terminal {
            return work();
        }
        let began = Instant::now();
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            let worker = scope.spawn(move || {
                let outcome = work();
                // Dropping the sender ends the line of progress.
                drop(sender);
                outcome
            });
            while receiver.recv_timeout(TICK) == Err::<(), _>(RecvTimeoutError::Timeout) {
                self.progress(began.elapsed());
            }
            print!("\r\x1b[K");
            let _ = std::io::stdout().flush();
            match worker.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    fn progress(&self, elapsed: Duration) {
        let tick = elapsed.as_millis() / TICK.as_millis();
        let sign = SPINNER.into_iter().cycle().nth((tick % 4) as usize).unwrap_or(' ');
        let text = format!("{sign} {:.1} s", elapsed.as_secs_f64());
        print!("\r{}", coloured(if self.has_colours { DIM } else { "" }, &text));
        // A terminal that cannot be written to shows no progress; the demo itself continues.
        let _ = std::io::stdout().flush();
    }

    fn line(&self, colour: &str, text: &str) {
        println!("{}", coloured(if self.has_colours { colour } else { "" }, text));
    }
}

/// Returns whether standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

fn coloured(colour: &str, text: &str) -> String {
    if colour.is_empty() { text.to_owned() } else { format!("\x1b[{colour}m{text}\x1b[0m") }
}

#[cfg(test)]
mod tests {
    use super::coloured;

    #[test]
    fn text_without_a_colour_has_no_escape_sequence() {
        assert_eq!(coloured("", "text"), "text");
        assert_eq!(coloured("32", "text"), "\x1b[32mtext\x1b[0m");
    }
}
