//! Standard output and standard error of one run.
//!
//! Owns: everything that depends on whether the outputs are terminals (colours, quoting, progress).
//! Also owns the report of failures when they occur, the result of the work, and the exit code so
//! far. Does **not** own: the formats of the output.

use std::env;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Instant;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::cli::options::{ColorWhen, Verbosity};
use crate::cli::suggestions;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::json::{self, Object};
use crate::terminal::escaping::{EscapedOutput, TerminalWrite};
use crate::terminal::names::{self, NameStyle};
use crate::terminal::progress::{Progress, ProgressStderr};
use crate::terminal::tally::{Tally, Work};

/// The outputs of a run, its work in progress, and its exit code so far.
pub(crate) struct Console {
    out: EscapedOutput,
    is_terminal: bool,
    is_coloured: bool,
    exit: Exit,
    /// Whether a failure to write to standard output has been reported. Each later attempt to write
    /// fails too and is not reported again.
    has_failed: bool,
    verbosity: Verbosity,
    /// The number of failures that have been reported.
    failures: u64,
    work: Option<CurrentWork>,
}

/// The work that is in progress, with its progress display.
struct CurrentWork {
    work: Arc<Work>,
    tally: Arc<Tally>,
    began: Instant,
    progress: Option<Progress>,
}

impl Console {
    /// Creates the outputs. Whether standard output is a terminal is checked only here.
    pub(crate) fn open(colour: ColorWhen) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let is_coloured = match colour {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => {
                is_terminal && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        };
        Self {
            out: EscapedOutput::open(),
            is_terminal,
            is_coloured,
            exit: Exit::Fine,
            has_failed: false,
            verbosity: Verbosity::default(),
            failures: 0,
            work: None,
        }
    }

    /// Sets how much the run prints.
    pub(crate) fn with_verbosity(mut self, verbosity: Verbosity) -> Self {
        self.verbosity = verbosity;
        self
    }

    /// Returns whether the result is printed as JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.verbosity.is_json
    }

    /// Returns whether progress and summary are left out.
    pub(crate) fn is_quiet(&self) -> bool {
        self.verbosity.is_quiet
    }

    /// Begins work that may take long, and shows its progress. The caller counts finished files and
    /// bytes in the returned tally.
    pub(crate) fn begin(&mut self, work: Work) -> Arc<Tally> {
        let is_shown = self.shows_progress();
        self.start(work, is_shown)
    }

    /// Begins work that prints rows. Its progress is not shown if the rows go to the terminal.
    pub(crate) fn begin_rows(&mut self, work: Work) -> Arc<Tally> {
        let is_shown = self.shows_progress() && !self.is_terminal;
        self.start(work, is_shown)
    }

    fn shows_progress(&self) -> bool {
        !self.verbosity.is_quiet && Progress::is_possible()
    }

    fn start(&mut self, work: Work, is_shown: bool) -> Arc<Tally> {
        let tally = Arc::new(Tally::default());
        tally.set(0, work.measure.expected());
        let (work, began) = (Arc::new(work), Instant::now());
        let progress = is_shown.then(|| {
            let (work, tally) = (Arc::clone(&work), Arc::clone(&tally));
            Progress::begin(move || work.line(&tally, began.elapsed()))
        });
        self.work = Some(CurrentWork { work, tally: Arc::clone(&tally), began, progress });
        tally
    }

    /// Shows that one step of the work is in progress, until the returned value is dropped. If the
    /// work already has a progress display, changes nothing and returns `None`.
    pub(crate) fn step(&self, doing: &'static str) -> Option<Progress> {
        if self.work.is_some() || !self.shows_progress() {
            return None;
        }
        let work = Work::step(doing);
        let began = Instant::now();
        Some(Progress::begin(move || work.line(&Tally::default(), began.elapsed())))
    }

    /// Returns standard error for lines that are printed during the work.
    pub(crate) fn errors(&self) -> ProgressStderr {
        match self.work.as_ref().and_then(|current| current.progress.as_ref()) {
            Some(progress) => progress.aside(),
            None => ProgressStderr::default(),
        }
    }

    /// Ends work that has no result to print.
    pub(crate) fn end(&mut self) {
        self.work = None;
    }

    /// Ends the work and writes its result: a document with `--json`, otherwise the summary line.
    pub(crate) fn conclude(&mut self) -> io::Result<()> {
        self.conclude_with(Object::new())
    }

    /// Does the same as [`conclude`](Self::conclude), but puts the keys of `object` first in the
    /// document.
    pub(crate) fn conclude_with(&mut self, mut object: Object) -> io::Result<()> {
        if let Some(mut current) = self.work.take() {
            let elapsed = current.began.elapsed();
            current.progress = None;
            let CurrentWork { work, tally, .. } = current;
            if self.verbosity.is_json {
                object.extend(work.describe(&tally, elapsed, self.failures));
            } else if self.shows_progress() && work.has_summary(elapsed) {
                self.say(work.summary(&tally, elapsed, self.failures));
            }
        }
        if self.verbosity.is_json { json::write_document(&mut self.out, object) } else { Ok(()) }
    }

    /// Writes a line to standard error, without disturbing the progress display.
    fn say(&mut self, line: impl Display) {
        let Self { out, work, .. } = self;
        let line = line.to_string();
        let mut write = || {
            // Keeps the two streams in order if both go to the same terminal.
            _ = out.flush();
            // If no program reads standard error, the exit code still reports the failure.
            _ = writeln!(io::stderr(), "{}", names::printable(&line));
        };
        match work.as_ref().and_then(|current| current.progress.as_ref()) {
            Some(progress) => progress.suspend(write),
            None => write(),
        }
    }

    /// Returns standard output. It is buffered, and escaped on a terminal.
    pub(crate) fn out(&mut self) -> &mut EscapedOutput {
        &mut self.out
    }

    /// Returns whether standard output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Returns whether colours may be used.
    pub(crate) fn is_coloured(&self) -> bool {
        self.is_coloured
    }

    /// Returns how names are shown: quoted on a terminal, unless `null` says that lines end with
    /// NUL. In that case the output is for programs, and nothing in it is escaped.
    pub(crate) fn name_style(&mut self, null: bool) -> NameStyle {
        if null {
            self.out.disarm();
        }
        if self.is_terminal && !null { NameStyle::Quoted } else { NameStyle::Raw }
    }

    /// Reports a failure on standard error, and includes it in the exit code. The run continues
    /// with the other files.
    pub(crate) fn report(&mut self, failure: &Failure) {
        let is_known = failure.is_of_output() && self.has_failed;
        self.has_failed |= failure.is_of_output();
        if !failure.is_silent() && !is_known {
            self.say(failure);
        }
        self.failures += u64::from(failure.exit() != Exit::Fine);
        self.exit = self.exit.max(failure.exit());
    }

    /// Writes a note to standard error that does not change the exit code.
    pub(crate) fn note(&mut self, message: impl Display) {
        self.say(format_args!("ferroxfs: {message}"));
    }

    /// Ends the run: writes all buffered output and returns the exit code.
    pub(crate) fn close(mut self) -> Exit {
        self.end();
        if let Err(error) = self.out.flush() {
            self.report(&Failure::from(error));
        }
        self.exit
    }
}

/// Prints the answer of clap to a command line that runs no command: help, the version, or an
/// error. Returns the exit code.
pub(crate) fn answer(mut answer: clap::Error) -> Exit {
    if answer.kind() == ErrorKind::UnknownArgument {
        // Drop clap's tip to pass the word as a value: no image and no path has a name like an
        // option.
        answer.remove(ContextKind::Suggested);
        suggestions::explain_surplus(&mut answer);
    }
    if answer.kind() == ErrorKind::InvalidSubcommand {
        suggestions::replace(&mut answer);
    }
    quote_words(&mut answer);
    let text = answer.render();
    if answer.use_stderr() {
        let shown = match io::stderr().is_terminal() {
            true => text.ansi().to_string(),
            false => text.to_string(),
        };
        let shown = with_plain_errors(shown);
        // If no program reads standard error, the exit code still reports the failure.
        _ = io::stderr().write_all(shown.as_bytes());
        return Exit::Usage;
    }
    let mut console = Console::open(ColorWhen::Auto);
    let shown = match console.is_coloured() {
        true => text.ansi().to_string(),
        false => text.to_string(),
    };
    if let Err(error) = console.out().raw().write_all(shown.as_bytes()) {
        console.report(&Failure::from(error));
    }
    console.close()
}

/// Replaces messages of the standard library about invalid values with plainer ones.
fn with_plain_errors(text: String) -> String {
    const WORDS: [(&str, &str); 5] = [
        ("invalid digit found in string", "not a number"),
        ("cannot parse integer from empty string", "not a number"),
        ("number too large to fit in target type", "too large"),
        ("number too small to fit in target type", "below zero"),
        ("invalid socket address syntax", "not an address such as 127.0.0.1:9187"),
    ];
    WORDS.iter().fold(text, |text, (theirs, ours)| text.replace(theirs, ours))
}

/// Escapes unprintable characters in those words of the command line that clap's answer repeats.
fn quote_words(answer: &mut clap::Error) {
    let quote = |word: &String| names::printable(word).into_owned();
    let words: Vec<_> = answer
        .context()
        .filter_map(|(kind, value)| match value {
            ContextValue::String(word) => Some((kind, ContextValue::String(quote(word)))),
            ContextValue::Strings(words) => {
                Some((kind, ContextValue::Strings(words.iter().map(quote).collect())))
            }
            _ => None,
        })
        .collect();
    for (kind, value) in words {
        _ = answer.insert(kind, value);
    }
}
