//! Standard output and standard error of one run.
//!
//! Owns: what depends on whether these are terminals (colours, quoting, progress), findings as they
//! come, and the exit code that a run has earned so far. Does **not** own: formats.

use std::env;
use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};

use clap::error::{ContextKind, ErrorKind};

use crate::cli::{ColorWhen, suggestions};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::names::NameStyle;
use crate::standard_output::StandardOutput;

/// The outputs of a run.
pub(crate) struct Console {
    out: BufWriter<StandardOutput>,
    is_terminal: bool,
    is_coloured: bool,
    exit: Exit,
    /// That it cannot be written has been said: each later attempt fails as well.
    has_failed: bool,
}

impl Console {
    /// Looks at standard output once.
    pub(crate) fn open(colour: ColorWhen) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let is_coloured = match colour {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => {
                is_terminal && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        };
        let out = BufWriter::with_capacity(64 << 10, StandardOutput::open());
        Self { out, is_terminal, is_coloured, exit: Exit::Fine, has_failed: false }
    }

    /// Standard output, buffered.
    pub(crate) fn out(&mut self) -> &mut impl Write {
        &mut self.out
    }

    /// Whether standard output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Whether colours may be used.
    pub(crate) fn is_coloured(&self) -> bool {
        self.is_coloured
    }

    /// How names are shown: quoted on a terminal, unless the caller asked for NUL-ended lists.
    pub(crate) fn name_style(&self, null: bool) -> NameStyle {
        if self.is_terminal && !null { NameStyle::Quoted } else { NameStyle::Raw }
    }

    /// Says on standard error what went wrong with one item, while the rest goes on.
    pub(crate) fn report(&mut self, failure: &Failure) {
        // Keeps the two streams in order where they lead to the same terminal.
        _ = self.out.flush();
        let is_known = failure.is_of_output() && self.has_failed;
        self.has_failed |= failure.is_of_output();
        if !failure.is_silent() && !is_known {
            // Where nobody listens, the exit code still tells.
            _ = writeln!(io::stderr(), "{failure}");
        }
        self.exit = self.exit.max(failure.exit());
    }

    /// Says something on standard error that changes nothing.
    pub(crate) fn note(&mut self, message: impl Display) {
        _ = self.out.flush();
        _ = writeln!(io::stderr(), "ferroxfs: {message}");
    }

    /// Ends the run: everything is written, and the exit code is known.
    pub(crate) fn close(mut self) -> Exit {
        if let Err(error) = self.out.flush() {
            self.report(&Failure::from(error));
        }
        self.exit
    }
}

/// Prints what clap answers instead of a command line: help, the version, or what is wrong.
pub(crate) fn answer(mut answer: clap::Error) -> Exit {
    if answer.kind() == ErrorKind::UnknownArgument {
        // That a word could be meant as a name. No image and no path is called as options are.
        answer.remove(ContextKind::Suggested);
    }
    if answer.kind() == ErrorKind::InvalidSubcommand {
        suggestions::replace(&mut answer);
    }
    let text = answer.render();
    if answer.use_stderr() {
        let shown = match io::stderr().is_terminal() {
            true => text.ansi().to_string(),
            false => text.to_string(),
        };
        let shown = in_our_words(shown);
        // Where nobody listens, the exit code still tells.
        _ = io::stderr().write_all(shown.as_bytes());
        return Exit::Usage;
    }
    let mut console = Console::open(ColorWhen::Auto);
    let shown = match console.is_coloured() {
        true => text.ansi().to_string(),
        false => text.to_string(),
    };
    if let Err(error) = console.out().write_all(shown.as_bytes()) {
        console.report(&Failure::from(error));
    }
    console.close()
}

/// What the standard library says of a number that is none, in other words.
fn in_our_words(text: String) -> String {
    const WORDS: [(&str, &str); 5] = [
        ("invalid digit found in string", "not a number"),
        ("cannot parse integer from empty string", "not a number"),
        ("number too large to fit in target type", "too large"),
        ("number too small to fit in target type", "below zero"),
        ("invalid socket address syntax", "not an address such as 127.0.0.1:9187"),
    ];
    WORDS.iter().fold(text, |text, (theirs, ours)| text.replace(theirs, ours))
}
