//! The progress bar on a terminal.
//!
//! Owns: the bar, and the thread that draws it. No bar is shown if standard error is no terminal,
//! with `-q`, or for work that ends quickly. Work that prints rows to the terminal shows no bar
//! either, because the rows would mix with it. Does **not** own: the counts
//! ([`tally`](crate::terminal::tally)).

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::terminal::names;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::tally::ProgressLine;

/// The time before the bar appears. Shorter work shows no bar.
pub(crate) const SILENCE: Duration = Duration::from_millis(500);
/// The interval between two drawings of the bar.
const REFRESH: Duration = Duration::from_millis(100);
/// The template of the bar for work whose amount is known. `SPINNER` is the template for other
/// work.
const BAR: &str = "{spinner} {percent:>3} % [{bar:20}] {wide_msg}";
const SPINNER: &str = "{spinner} {wide_msg}";

/// A progress bar on standard error. Dropping this value removes the bar.
pub(crate) struct Progress {
    bar: ProgressBar,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Returns whether a bar can be shown, that is, whether standard error is a terminal.
    pub(crate) fn is_possible() -> bool {
        io::stderr().is_terminal()
    }

    /// Shows a bar once [`SILENCE`] has passed. Its text is the line that `view` returns. The
    /// thread that draws the bar is in the sandbox if the calling thread is.
    pub(crate) fn begin(view: impl Fn() -> ProgressLine + Send + 'static) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let (stop, stopped) = channel();
        let drawn = bar.clone();
        let draw = move || {
            let mut wait = SILENCE;
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                draw(&drawn, view());
                wait = REFRESH;
            }
            drawn.finish_and_clear();
        };
        // If the thread cannot start, there is no bar, and the work is done anyway.
        let thread = Builder::new().name("progress".to_owned()).spawn(draw).ok();
        Self { bar, stop: Some(stop), thread }
    }

    /// Returns standard error for lines that are printed while the bar is shown.
    pub(crate) fn aside(&self) -> ProgressStderr {
        ProgressStderr(Some(self.bar.clone()))
    }

    /// Removes the bar while `write` writes to the terminal.
    pub(crate) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }
}

/// Standard error for lines. The bar is removed while a line is written.
#[derive(Default)]
pub(crate) struct ProgressStderr(Option<ProgressBar>);

impl Write for ProgressStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Names in it come from an image.
        let shown = names::printable_bytes(bytes);
        let write = || io::stderr().write_all(&shown);
        match &self.0 {
            Some(bar) => bar.suspend(write)?,
            None => write()?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A failure of the bar is no failure of the work.
            _ = thread.join();
        }
    }
}

/// Draws the bar. The bar becomes visible only after its template has been set.
fn draw(bar: &ProgressBar, line: ProgressLine) {
    let template = if line.fraction.is_some() { BAR } else { SPINNER };
    // The templates are constants. If one were invalid, the bar would have indicatif's default
    // form.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    if let Some((done, all)) = line.fraction {
        bar.set_length(all);
        bar.set_position(done);
    }
    bar.set_message(line.text);
    if bar.is_hidden() {
        bar.set_draw_target(ProgressDrawTarget::stderr());
    }
    bar.tick();
}
