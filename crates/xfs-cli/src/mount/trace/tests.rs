use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::{FmtSpan, LineFormat, duration, uptime};

#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl io::Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn ends_are_sentences() {
    let said = Said::default();
    let writer = said.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_max_level(tracing::Level::TRACE)
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false)
        .event_format(LineFormat(uptime()))
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        drop(tracing::info_span!("open").entered());
        let _request = tracing::debug_span!("request", of = "READ", node = 7).entered();
        drop(tracing::trace_span!("log_force").entered());
        tracing::warn!(error = 5, "it failed");
    });
    let said = said.0.lock().unwrap_or_else(PoisonError::into_inner);
    let text = String::from_utf8_lossy(&said);
    // Durations are left out.
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            let words = line.split_whitespace().skip(1);
            let words = words.filter(|word| {
                !word.starts_with(|letter: char| letter.is_ascii_digit())
                    && !["ns", "µs", "ms", "s"].contains(word)
            });
            words.collect::<Vec<_>>().join(" ")
        })
        .collect();
    assert_eq!(
        lines,
        [
            "INFO opened in",
            "TRACE request of=\"READ\" node=7: log_force took",
            "WARN request of=\"READ\" node=7: it failed error=5",
            "DEBUG request of=\"READ\" node=7 took",
        ],
        "{text}"
    );
}

#[test]
fn durations_are_short() {
    let shown = ["2.58ms", "12.3µs", "740ns", "1.04s", "odd"].map(duration);
    assert_eq!(shown, ["2.6 ms", "12 µs", "740 ns", "1.0 s", "odd"]);
}
