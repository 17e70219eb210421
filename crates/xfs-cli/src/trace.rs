//! What a mount in the foreground says of its work, on standard error.
//!
//! Owns: how much is told, and how. Does **not** own: the spans and events, which are where the work is
//! done. One that is not told costs a comparison.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::fmt::time::uptime;

/// Tells from now on: failures; with one `-v` the phases of the mount, with two each request, with three
/// transactions and log forces as well. Each is told when it ends, with how long it took.
pub(crate) fn begin(verbosity: u8) {
    let level = match verbosity {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(level)
        .with_span_events(FmtSpan::CLOSE)
        .with_target(false)
        .with_timer(uptime())
        .with_ansi(false)
        // Where nobody listens any more, what cannot be told is not worth a panic.
        .log_internal_errors(false);
    // It is asked for once in a process.
    let _ = subscriber.try_init();
}
