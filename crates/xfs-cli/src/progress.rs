//! How far a command has come, on a terminal.
//!
//! Owns: the bar, and the thread that draws it. Nothing is shown where standard error is no terminal, with `-q`, or
//! for work that ends before a person wonders. Nor is anything shown where rows go to a terminal while the work
//! goes on: the two would mix. Does **not** own: what is counted ([`tally`](crate::tally)).

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::names;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::tally::Line;

/// Work that ends within this shows nothing.
pub(crate) const SILENCE: Duration = Duration::from_millis(500);
/// How often the bar is drawn.
const REFRESH: Duration = Duration::from_millis(100);
/// Work whose end is known, and other work.
const BAR: &str = "{spinner} {percent:>3} % [{bar:20}] {wide_msg}";
const SPINNER: &str = "{spinner} {wide_msg}";

/// A bar on standard error, which goes away when this is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Whether standard error is a terminal.
    pub(crate) fn is_possible() -> bool {
        io::stderr().is_terminal()
    }

    /// Shows what `view` says, from [`SILENCE`] on. The thread begins inside of the sandbox, where the command is.
    pub(crate) fn begin(view: impl Fn() -> Line + Send + 'static) -> Self {
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
        // Without the thread there is no bar, and the work is done all the same.
        let thread = Builder::new().name("progress".to_owned()).spawn(draw).ok();
        Self { bar, stop: Some(stop), thread }
    }

    /// Standard error beside the bar.
    pub(crate) fn aside(&self) -> Aside {
        Aside(Some(self.bar.clone()))
    }

    /// Writes something else to the terminal.
    pub(crate) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }
}

/// Standard error, where the bar makes room for what is written.
#[derive(Default)]
pub(crate) struct Aside(Option<ProgressBar>);

impl Write for Aside {
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
            // A bar that has failed is no failure of the work.
            _ = thread.join();
        }
    }
}

/// Draws the bar; the first time it is shown only when it has its form.
fn draw(bar: &ProgressBar, line: Line) {
    let template = if line.fraction.is_some() { BAR } else { SPINNER };
    // The templates are constants; without them the bar has indicatif's own form.
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
