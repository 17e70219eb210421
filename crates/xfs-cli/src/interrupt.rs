//! Being asked to stop.

use std::io;
use std::sync::Arc;
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use xfs_sync::{SetOnce, Volume as VolumeScope};

use crate::exit::Exit;
use crate::failure::Failure;

/// Whether the run is to end.
pub(crate) type Cancel = Arc<dyn Fn() -> bool + Send + Sync>;

/// Turns an interrupt into a question that a long run asks; a second one ends the program. A thread waits
/// for it as long as the program runs.
pub(crate) fn interrupt() -> Result<Cancel, Failure> {
    let failed = |error: io::Error| Failure::new(Exit::Failed, format!("signals: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let interrupted = Arc::new(SetOnce::<(), VolumeScope>::new());
    let told = Arc::clone(&interrupted);
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                // Who says it again does not want to wait until the question is asked.
                if told.set(()).is_err() {
                    _ = emulate_default_handler(signal);
                }
            }
        })
        .map_err(failed)?;
    Ok(Arc::new(move || interrupted.value().is_some()))
}
