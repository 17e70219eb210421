//! Printing of the demo: plain text, with some colour on a terminal.
//!
//! Owns: the count of printed lines. Does **not** own: output that a command writes to the terminal
//! itself.

use std::io::IsTerminal;

const BOLD: &str = "1";
const BLUE: &str = "34";
const GREEN: &str = "32";
const RED: &str = "31";

/// Prints lines to standard output and counts them.
pub(crate) struct Screen {
    has_colours: bool,
    lines: usize,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        // The command line that builds the program stands before the demo.
        Self { has_colours: is_terminal() && wanted, lines: 1 }
    }

    /// Returns the number of lines printed so far.
    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    pub(crate) fn title(&mut self, text: &str) {
        self.line(BOLD, text);
    }

    /// Prints a command as a reader types it.
    pub(crate) fn command(&mut self, text: &str) {
        self.line(BLUE, &format!("$ {text}"));
    }

    /// Prints the output of a command.
    pub(crate) fn output(&mut self, text: &str) {
        for line in text.lines() {
            self.line("", line);
        }
    }

    /// Prints the result of a scene that succeeded.
    pub(crate) fn good(&mut self, text: &str) {
        self.line(GREEN, text);
    }

    /// Prints the line for a part of the demo that was left out.
    pub(crate) fn bad(&mut self, text: &str) {
        self.line(RED, text);
    }

    fn line(&mut self, colour: &str, text: &str) {
        self.lines += 1;
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
