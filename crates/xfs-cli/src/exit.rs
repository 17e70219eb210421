//! The exit codes: the one table, as in docs/exit-codes.md.

use std::process::ExitCode;

/// How a run ended. Later ones outweigh earlier ones where a run met several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Everything that was asked for was done.
    #[default]
    Fine = 0,
    /// Something failed that is none of the below: no such file, no permission, a full disk.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// The image uses a feature that is refused by name.
    Refused = 3,
    /// The log holds changes that are not in the volume yet.
    LogDirty = 4,
    /// Some structure of the image failed its checks.
    Corrupt = 5,
    /// SIGHUP has stopped the run: what a shell shows of a process that it has ended, here and below.
    HungUp = 129,
    /// SIGINT has stopped the run.
    Interrupted = 130,
    /// No process reads our output any more: what a shell shows of a process that SIGPIPE has ended.
    Unread = 141,
    /// SIGTERM has stopped the run.
    Terminated = 143,
}

impl Exit {
    /// Whether a signal has stopped the run.
    pub(crate) fn is_of_signal(self) -> bool {
        matches!(self, Self::HungUp | Self::Interrupted | Self::Terminated)
    }

    /// The exit of another process of ours.
    pub(crate) fn of_code(code: i32) -> Option<Self> {
        let all = [
            Self::Fine,
            Self::Failed,
            Self::Usage,
            Self::Refused,
            Self::LogDirty,
            Self::Corrupt,
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
