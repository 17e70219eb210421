//! The log of a mount that runs in the foreground, written to standard error.
//!
//! Owns: the choice of logged events, and their form. Does **not** own: the spans and events, which
//! are in the code that does the work. An event that is not logged costs only a comparison.

use std::fmt::{self, Debug};
use std::io::Write;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{FmtSpan, Writer};
use tracing_subscriber::fmt::time::{FormatTime, Uptime, uptime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use crate::terminal::names;

/// Starts logging with this number of `-v` options. Without `-v`, only failures are logged; with
/// one, the phases of the mount; with two, each request; with three, also transactions and log
/// forces. Each phase, request or transaction is logged when it ends, with its duration.
pub(crate) fn begin(verbosity: u8) {
    let level = match verbosity {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_writer(|| Printable(std::io::stderr()))
        .with_max_level(level)
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false)
        // A lost line is no reason to panic: the reader of standard error may have ended.
        .log_internal_errors(false)
        .event_format(LineFormat(uptime()));
    // Called once in a process.
    let _ = subscriber.try_init();
}

/// Standard error, with escapes for bytes in names that would control a terminal. Lines are not
/// buffered.
struct Printable(std::io::Stderr);

impl Write for Printable {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write_all(&names::printable_bytes(bytes)).map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// The form of a line of the log: the time since the start, the level, the enclosing spans, and the
/// event.
struct LineFormat(Uptime);

impl<S, N> FormatEvent<S, N> for LineFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        self.0.format_time(&mut writer)?;
        write!(writer, " {:>5}", event.metadata().level())?;
        let mut end = End::default();
        event.record(&mut end);
        let mut spans = context.event_scope().into_iter().flat_map(|scope| scope.from_root());
        let mut next = spans.next();
        while let Some(span) = next {
            next = spans.next();
            let ends = end.took.as_deref().filter(|_| next.is_none());
            let verb = match (ends, span.name()) {
                (Some(_), "open") => "opened",
                (Some(_), "close") => "closed",
                (_, name) => name,
            };
            write!(writer, " {verb}")?;
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>()
                && !fields.is_empty()
            {
                write!(writer, " {fields}")?;
            }
            match (ends, verb == span.name()) {
                (Some(took), true) => write!(writer, " took {took}")?,
                (Some(took), false) => write!(writer, " in {took}")?,
                (None, _) => writer.write_char(':')?,
            }
        }
        if end.took.is_none() {
            writer.write_char(' ')?;
            context.format_fields(writer.by_ref(), event)?;
        }
        writeln!(writer)
    }
}

/// Reads the duration of a span from the fields of the event that is logged at its end.
#[derive(Default)]
struct End {
    took: Option<String>,
}

impl Visit for End {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "time.busy" {
            self.took = Some(duration(&format!("{value:?}")));
        }
    }
}

/// Rewrites a duration from the form `2.58ms` to `2.6 ms`.
fn duration(text: &str) -> String {
    let unit = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, unit) = text.split_at(unit.unwrap_or(text.len()));
    match number.parse::<f64>() {
        Ok(number) if number < 10.0 => format!("{number:.1} {unit}"),
        Ok(number) => format!("{number:.0} {unit}"),
        Err(_) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
