//! The program that `run` runs, and the exit codes of `run`.
//!
//! The codes are those of env(1) and timeout(1): the code of the program, or 125 if ferroxfs has
//! failed, 126 if the program cannot be executed, and 127 if it does not exist.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::OnceLock;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::emulate_default_handler;

use super::signals::ForwardedSignals;
use crate::cli;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::terminal::names;

/// The environment variable with the path of the mount.
const MOUNT_VARIABLE: &str = "FERROXFS_MOUNT";

/// The code for a failure of ferroxfs itself.
const FAILED: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
/// The code of a shell for a program that a signal has killed is this number plus the signal.
const KILLED: i32 = 128;

/// How the program ended, after which the whole run has ended well.
static END: OnceLock<ProgramEnd> = OnceLock::new();

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramEnd {
    Code(u8),
    /// This signal has killed the program, or ended the run before it began.
    Signal(i32),
}

impl ProgramEnd {
    fn of(status: ExitStatus) -> Self {
        match status.signal() {
            Some(signal) => Self::Signal(signal),
            None => {
                Self::Code(status.code().and_then(|code| code.try_into().ok()).unwrap_or(FAILED))
            }
        }
    }

    /// Makes this end the exit code of the process, unless ferroxfs itself fails.
    pub(super) fn conclude(self) {
        // A run has one program.
        _ = END.set(self);
    }
}

/// Runs a program in the directory `folder` until it ends. Signals are passed on to it.
///
/// # Errors
///
/// Errors of the system. If the program cannot be started, the run has the code for that.
pub(super) fn run(
    words: &[OsString],
    folder: &Path,
    signals: &ForwardedSignals,
) -> Result<ProgramEnd, Failure> {
    let [program, arguments @ ..] = words else {
        return Err(Failure::usage("run: the program is missing"));
    };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env(MOUNT_VARIABLE, folder);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            ProgramEnd::Code(if is_missing { NOT_FOUND } else { NOT_EXECUTABLE }).conclude();
            return Err(not_started(program, &error));
        }
    };
    let failed = |error: io::Error| Failure::new(Exit::Failed, format!("run: {error}"));
    let number = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // The process has not been waited for, so the PID is its own.
    match number.map(|number| pidfd_open(number, PidfdFlags::empty())) {
        Some(Ok(process)) => signals.begin(process),
        Some(Err(errno)) => return Err(failed(errno.into())),
        None => return Err(failed(io::ErrorKind::InvalidData.into())),
    }
    let status = child.wait();
    signals.end();
    status.map(ProgramEnd::of).map_err(failed)
}

fn not_started(program: &OsString, error: &io::Error) -> Failure {
    let shown = names::in_message(program.as_bytes());
    let failure = Failure::new(Exit::Failed, format!("cannot run {shown}: {error}"));
    match Path::new(program).is_relative() && program.as_bytes().contains(&b'/') {
        true => failure.hint("a relative path starts at the root directory of the volume"),
        false => failure,
    }
}

/// Returns whether these arguments, which are not valid, name the command `run`.
pub(crate) fn names_run(arguments: &[OsString]) -> bool {
    cli::command_word(arguments).is_some_and(|word| word == "run")
}

/// Returns the exit code of `run`. If a signal that a user sends to end a program has killed the
/// program, ends this process by that signal, so that a shell sees the reason.
pub(crate) fn code_of(exit: Exit) -> ExitCode {
    let end = match (exit, END.get()) {
        (Exit::Fine, None) => ProgramEnd::Code(0),
        (Exit::Fine, Some(end)) => *end,
        (_, Some(&ProgramEnd::Code(code @ (NOT_EXECUTABLE | NOT_FOUND)))) => ProgramEnd::Code(code),
        _ => ProgramEnd::Code(FAILED),
    };
    match end {
        ProgramEnd::Code(code) => code.into(),
        ProgramEnd::Signal(signal) => {
            if matches!(signal, SIGHUP | SIGINT | SIGTERM) {
                _ = emulate_default_handler(signal);
            }
            u8::try_from(KILLED + signal).unwrap_or(FAILED).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::{ProgramEnd, names_run};

    #[test]
    fn status_is_a_code_or_a_signal() {
        assert_eq!(ProgramEnd::of(ExitStatus::from_raw(7 << 8)), ProgramEnd::Code(7));
        assert_eq!(ProgramEnd::of(ExitStatus::from_raw(0)), ProgramEnd::Code(0));
        assert_eq!(ProgramEnd::of(ExitStatus::from_raw(9)), ProgramEnd::Signal(9));
    }

    #[test]
    fn command_run_is_recognised() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert!(names_run(&words("ferroxfs -q run disk.img")));
        assert!(!names_run(&words("ferroxfs ls run")));
    }
}
