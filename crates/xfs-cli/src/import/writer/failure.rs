//! Failures of writing a file into an image. Each says whether it concerns one file or all further
//! files.

use ferroxfs::{Error, PosixError};

use crate::failure::Failure;

/// A failure to write a file. The variant says which files it concerns.
pub(crate) enum WriteFailure {
    /// The failure concerns one file.
    One(Failure),
    /// The failure concerns one file, whose source cannot be read.
    Source(Failure),
    /// The failure would repeat for all further files.
    All(Failure),
}

impl WriteFailure {
    /// If the volume was full, adds to the message the number of bytes that were to be written.
    pub(super) fn needing(self, bytes: Option<u64>) -> Self {
        match self {
            Self::One(failure) => Self::One(failure.needing(bytes)),
            Self::Source(failure) => Self::Source(failure),
            Self::All(failure) => Self::All(failure.needing(bytes)),
        }
    }

    /// Puts the subject in front of the message of the failure.
    pub(crate) fn about(self, subject: &str) -> Self {
        match self {
            Self::One(failure) => Self::One(failure.about(subject)),
            Self::Source(failure) => Self::Source(failure.about(subject)),
            Self::All(failure) => Self::All(failure.about(subject)),
        }
    }
}

impl From<Error> for WriteFailure {
    fn from(error: Error) -> Self {
        match error {
            Error::Posix(PosixError::NoSpace) | Error::Io(_) | Error::Shutdown => {
                Self::All(error.into())
            }
            _ => Self::One(error.into()),
        }
    }
}

impl From<PosixError> for WriteFailure {
    fn from(error: PosixError) -> Self {
        Error::from(error).into()
    }
}
