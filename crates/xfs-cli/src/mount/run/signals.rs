//! Signals during `run`.
//!
//! ```text
//!                 no program runs          a program runs
//!  from a user    kept, ends the run       passed on to the program
//!  from a key     kept, ends the run       the kernel has sent it to the program too
//! ```
//!
//! A signal that was kept before the program began is passed on to it when it begins. A signal that
//! is kept afterwards ends the wait for other users of the mount.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::fd::OwnedFd;
use rustix::process::{Signal, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::iterator::{Handle, SignalsInfo};
use signal_hook::low_level::siginfo::{Cause, Origin};
use xfs_sync::{Mutex, Volume as VolumeScope};

use crate::interrupt;

/// The signals that are passed on. Without a handler, each of them would end this process and leave
/// the mount behind.
const FORWARDED: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// A thread that receives the signals of this process until the value is dropped.
pub(super) struct ForwardedSignals {
    state: Arc<Mutex<SignalState, VolumeScope>>,
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct SignalState {
    /// The running program.
    program: Option<OwnedFd>,
    /// The first signal that arrived while no program ran.
    kept: Option<i32>,
}

impl ForwardedSignals {
    /// Catches the signals from here on, except those that this process was started to ignore.
    pub(super) fn catch() -> io::Result<Self> {
        let mut signals = SignalsInfo::<WithOrigin>::new(interrupt::not_ignored(&FORWARDED))?;
        let handle = signals.handle();
        let state = Arc::new(Mutex::new(SignalState::default()));
        let shared = Arc::clone(&state);
        let receive = move || {
            for origin in signals.forever() {
                shared.lock().receive(&origin);
            }
        };
        let thread = thread::Builder::new().name("signals".to_owned()).spawn(receive)?;
        Ok(Self { state, handle, thread: Some(thread) })
    }

    /// Passes signals on to `program` from here on, beginning with a signal that was kept.
    pub(super) fn begin(&self, program: OwnedFd) {
        let mut state = self.state.lock();
        if let Some(signal) = state.kept.take() {
            send(&program, signal);
        }
        state.program = Some(program);
    }

    /// Keeps signals from here on, because the program has ended.
    pub(super) fn end(&self) {
        self.state.lock().program = None;
    }

    /// Returns the signal that was kept.
    pub(super) fn kept(&self) -> Option<i32> {
        self.state.lock().kept
    }
}

impl Drop for ForwardedSignals {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has printed its message.
            _ = thread.join();
        }
    }
}

impl SignalState {
    fn receive(&mut self, origin: &Origin) {
        match &self.program {
            // A key of the terminal, which sends its signal to all processes of the foreground.
            Some(_) if matches!(origin.cause, Cause::Kernel) => {}
            Some(program) => send(program, origin.signal),
            None => self.kept = self.kept.or(Some(origin.signal)),
        }
    }
}

fn send(program: &OwnedFd, signal: i32) {
    if let Some(signal) = Signal::from_named_raw(signal) {
        // A program that has just ended needs no signal.
        _ = pidfd_send_signal(program, signal);
    }
}
