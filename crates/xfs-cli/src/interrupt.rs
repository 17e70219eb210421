//! Signals that ask a run to stop: SIGINT, SIGTERM and SIGHUP.
//!
//! Owns: catching these signals, the check that long work makes ([`check`]), and the end of the
//! program after a signal. Does **not** own: the files and volumes that a command removes or closes
//! when it stops.
//!
//! ```text
//!  default action --arm--> caught --watch--> polled by `check` --second signal--> default action
//!                                                  '--work has stopped, end--> default action
//! ```
//!
//! # Invariants
//!
//! - **I1** Until a command [arms](arm), a signal ends the program at once, because there is
//!   nothing to remove or to close.
//! - **I2** A signal that the program was started to ignore (nohup(1), a background job) stays
//!   ignored.
//! - **I3** A run that a signal has stopped ends by that same signal, so that a shell sees the
//!   reason.

use std::io;
use std::sync::{Arc, OnceLock};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use xfs_sync::{Mutex, Volume as VolumeScope};

use crate::exit::Exit;
use crate::failure::Failure;

/// A function that returns whether a signal has asked the run to stop.
pub(crate) type Cancel = Arc<dyn Fn() -> bool + Send + Sync>;

/// The handle of the caught signals, from `arm` until `watch` takes it.
static ARMED: Mutex<Option<Signals>, VolumeScope> = Mutex::new(None);
static HAS_ARMED: OnceLock<()> = OnceLock::new();
/// The first signal that arrived; unset if none has.
static STOP: OnceLock<i32> = OnceLock::new();

/// Catches the signals from here on (I1). A command must call this before it makes anything that it
/// has to remove or to close.
pub(crate) fn arm() -> Result<(), Failure> {
    if HAS_ARMED.set(()).is_err() {
        return Ok(());
    }
    let caught = not_ignored(&[SIGINT, SIGTERM, SIGHUP]);
    *ARMED.lock() = Some(Signals::new(caught).map_err(failed)?);
    Ok(())
}

/// Starts a thread that waits for the caught signals. A second signal ends the program.
///
/// Must be called after the process has entered the sandbox, because a process with several threads
/// cannot enter a user namespace.
pub(crate) fn watch() -> Result<(), Failure> {
    let Some(mut signals) = ARMED.lock().take() else { return Ok(()) };
    let wait = move || {
        for signal in signals.forever() {
            if STOP.set(signal).is_err() {
                _ = emulate_default_handler(signal);
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(failed)?;
    Ok(())
}

/// Returns an error if a signal has arrived.
pub(crate) fn check() -> Result<(), Failure> {
    match STOP.get() {
        None => Ok(()),
        Some(&signal) => Err(Failure::new(exit_of(signal), message(signal)).placed()),
    }
}

/// Does the same as [`check`], for code that returns I/O errors.
pub(crate) fn check_io() -> io::Result<()> {
    match STOP.get() {
        None => Ok(()),
        Some(&signal) => Err(io::Error::other(message(signal))),
    }
}

/// Returns the failure about `subject` if a signal has arrived; `None` otherwise.
pub(crate) fn stopped(subject: &str) -> Option<Failure> {
    STOP.get().map(|&signal| Failure::new(exit_of(signal), message(signal)).about(subject))
}

/// Returns a function with which a library checks whether a signal has arrived.
pub(crate) fn cancel() -> Cancel {
    Arc::new(|| STOP.get().is_some())
}

/// If a signal stopped the run, ends the program by that signal (I3). Does nothing if no signal
/// stopped the run, or if another failure decides the exit code.
pub(crate) fn end(exit: Exit) {
    if let Some(&signal) = STOP.get()
        && exit == exit_of(signal)
    {
        _ = emulate_default_handler(signal);
    }
}

/// Returns those of the signals that the program was not started to ignore.
pub(crate) fn not_ignored(wanted: &[i32]) -> Vec<i32> {
    let ignored = ignored();
    // A signal that is ignored stays ignored (I2).
    wanted.iter().copied().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

/// Returns the exit code that a shell shows for a program killed by this signal.
fn exit_of(signal: i32) -> Exit {
    match signal {
        SIGHUP => Exit::HungUp,
        SIGTERM => Exit::Terminated,
        _ => Exit::Interrupted,
    }
}

fn message(signal: i32) -> String {
    let name = match signal {
        SIGHUP => "SIGHUP",
        SIGTERM => "SIGTERM",
        _ => "SIGINT",
    };
    format!("interrupted ({name})")
}

/// Returns the signals that this process ignores, as a mask with bit 0 for signal 1. Without /proc
/// the mask is 0.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

fn failed(error: io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("signals: {error}"))
}
