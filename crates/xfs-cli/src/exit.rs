//! The exit codes of the program. This is the only table of them in code, and it is the same as in
//! docs/exit-codes.md.

use std::process::ExitCode;

/// The outcome of a run, which decides the exit code. If several outcomes apply, the one with the
/// greatest code counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// The command did everything that was requested.
    #[default]
    Fine = 0,
    /// A failure without an exit code of its own: no such file, no permission, a full disk.
    Failed = 1,
    /// The command line is invalid.
    Usage = 2,
    /// The image is no XFS volume of version 4 or 5, or uses an unsupported feature, which the
    /// message names.
    Refused = 3,
    /// The log holds changes that are not in the volume yet.
    LogDirty = 4,
    /// A structure of the image failed its checks.
    Corrupt = 5,
    /// A repair has changed the volume, and no damage is left. `main` converts the code to 1, as in
    /// fsck(8).
    Repaired = 6,
    /// `diff` has found a difference. `main` converts the code to the 1 of diff(1).
    Different = 7,
    /// SIGHUP stopped the run. The code for each signal is the one that a shell shows for a process
    /// killed by that signal.
    HungUp = 129,
    /// SIGINT stopped the run.
    Interrupted = 130,
    /// The reader of standard output closed the pipe. The code is that of a process killed by
    /// SIGPIPE.
    Unread = 141,
    /// SIGTERM stopped the run.
    Terminated = 143,
}

impl Exit {
    /// Returns whether this outcome means that a signal stopped the run.
    pub(crate) fn is_of_signal(self) -> bool {
        matches!(self, Self::HungUp | Self::Interrupted | Self::Terminated)
    }

    /// Returns the outcome that an exit code of another ferroxfs process stands for; `None` for a
    /// code that is not in the table.
    pub(crate) fn of_code(code: i32) -> Option<Self> {
        let all = [
            Self::Fine,
            Self::Failed,
            Self::Usage,
            Self::Refused,
            Self::LogDirty,
            Self::Corrupt,
            Self::Repaired,
            Self::Different,
            Self::HungUp,
            Self::Interrupted,
            Self::Unread,
            Self::Terminated,
        ];
        all.into_iter().find(|exit| *exit as i32 == code)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
