//! How far a command has come, on a terminal.
//!
//! Owns: whether that is shown. It is not where what the command writes goes to a terminal as well, which
//! would mix the two, and not for work that has ended before anybody wonders.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Work that ends within this shows nothing.
const SILENCE: Duration = Duration::from_millis(500);

/// What stands on a terminal and changes while a command works.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// When the work began; nothing where nothing is ever shown.
    began: Option<Instant>,
    shown: OnceLock<()>,
}

impl Progress {
    /// By a template of indicatif, to which `whole_per_sec` is added.
    pub(crate) fn new(template: &str) -> Self {
        let began = io::stderr().is_terminal().then(Instant::now);
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        // The template is a constant; without it the bar has indicatif's own form.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.with_key("whole_per_sec", write_whole_rate));
        }
        Self { bar, began, shown: OnceLock::new() }
    }

    /// One that is never shown.
    pub(crate) fn hidden() -> Self {
        Self { bar: ProgressBar::hidden(), began: None, shown: OnceLock::new() }
    }

    /// So much of all that there is to do is done.
    pub(crate) fn set(&self, done: u64, all: u64) {
        self.show_late();
        self.bar.set_length(all);
        self.bar.set_position(done);
    }

    /// So much more is done.
    pub(crate) fn advance(&self, by: u64) {
        self.show_late();
        self.bar.inc(by);
    }

    /// Writes something else to the terminal.
    pub(crate) fn suspend(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }

    /// Takes it away.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn show_late(&self) {
        if self.began.is_some_and(|began| began.elapsed() >= SILENCE) {
            self.shown.get_or_init(|| self.bar.set_draw_target(ProgressDrawTarget::stderr()));
        }
    }
}

fn write_whole_rate(state: &ProgressState, out: &mut dyn Write) {
    // It goes into a buffer of the bar.
    _ = write!(out, "{:.0}/s", state.per_sec());
}
