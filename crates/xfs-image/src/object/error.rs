//! The reasons why an object is not opened or not read.

use std::fmt;
use std::io;

use xfs_device::{DeviceFailure, SourceError, SourceErrorKind};

/// The reason why an object is not opened, read or stored.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The address is not the address of an object.
    #[error("is not the address of an object: {0}")]
    Address(&'static str),
    /// A variable of the environment is missing or has a value that cannot be used.
    #[error("the environment variable {name} {problem}")]
    Environment {
        /// The name of the variable.
        name: &'static str,
        /// The problem with its value.
        problem: String,
    },
    /// The object was opened for writing, but objects can only be read.
    #[error("is an object on a web or S3 server, which ferroxfs does not write")]
    ReadOnly,
    /// A request failed.
    #[error("GET {url} (bytes {first}-{last}): {failure}{}", Attempts(*attempts))]
    Request {
        /// The address of the object on its server, without credentials.
        url: String,
        /// The first byte of the range that was asked for.
        first: u64,
        /// The last byte of the range that was asked for.
        last: u64,
        /// The number of attempts that were made.
        attempts: u32,
        /// The failure of the last attempt.
        failure: RequestFailure,
    },
    /// A file is longer than a server takes in one request.
    #[error(
        "{url}: the file has {length} bytes, and S3 takes at most {MAX_PUT_BYTES} in a request"
    )]
    TooLong {
        /// The address of the object on its server, without credentials.
        url: String,
        /// The length of the file in bytes.
        length: u64,
    },
    /// An object was not stored.
    #[error("{method} {url}: {failure}{}", Attempts(*attempts))]
    Upload {
        /// The method of the request that failed.
        method: &'static str,
        /// The address of the object on its server, without credentials.
        url: String,
        /// The number of attempts that were made.
        attempts: u32,
        /// The failure of the last attempt.
        failure: RequestFailure,
    },
    /// The file to store cannot be read.
    #[error("{url}: the file that is stored there cannot be read: {reason}")]
    File {
        /// The address of the object on its server, without credentials.
        url: String,
        /// The error of the host.
        reason: String,
    },
}

/// The most bytes that S3 takes in one request.
pub(super) const MAX_PUT_BYTES: u64 = 5 << 30;

/// The failure of a request for a range of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestFailure {
    /// The server cannot be reached, or the connection failed.
    Connection(String),
    /// The identity of the server cannot be verified, or TLS failed.
    Tls(String),
    /// The server did not answer in time.
    TimedOut,
    /// The server refused the request.
    Status {
        /// The HTTP status.
        code: u16,
        /// The error code of S3, or the region of the bucket, if the server sent one.
        detail: Option<String>,
    },
    /// The server sends the whole object in place of the requested range.
    NoRanges,
    /// The object was replaced after it had been opened.
    Changed,
    /// The server sends no version of the object: neither a strong ETag nor Last-Modified.
    NoVersion,
    /// The user name, the password or the key has a character that no HTTP header can hold.
    BadCredentials,
    /// The server sent something other than the requested range.
    WrongAnswer(&'static str),
}

/// The end of an error message: the number of attempts, or nothing if there was only one.
struct Attempts(u32);

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 > 1 { write!(f, " ({} attempts)", self.0) } else { Ok(()) }
    }
}

impl RequestFailure {
    /// Returns whether the same request can succeed when it is sent again.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Connection(_) | Self::TimedOut => true,
            Self::Status { code, .. } => matches!(code, 408 | 429 | 500 | 502 | 503 | 504),
            Self::Tls(_)
            | Self::BadCredentials
            | Self::NoRanges
            | Self::Changed
            | Self::NoVersion
            | Self::WrongAnswer(_) => false,
        }
    }
}

impl fmt::Display for RequestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(reason) => write!(f, "the connection failed: {reason}"),
            Self::Tls(reason) => write!(f, "TLS failed: {reason}"),
            Self::TimedOut => f.write_str("the server did not answer in time"),
            Self::Status { code, detail: Some(detail) } => {
                write!(f, "the server answered with HTTP status {code} ({detail})")
            }
            Self::Status { code, detail: None } => {
                write!(f, "the server answered with HTTP status {code}")
            }
            Self::NoRanges => f.write_str("the server does not serve ranges of the object"),
            Self::Changed => f.write_str("the object has changed since it was opened"),
            Self::NoVersion => f.write_str(
                "the server sends neither a strong ETag nor Last-Modified, so a change of the \
                 object would go unnoticed",
            ),
            Self::BadCredentials => {
                f.write_str("the credentials have a character that HTTP does not allow")
            }
            Self::WrongAnswer(problem) => write!(f, "the answer of the server is wrong: {problem}"),
        }
    }
}

impl SourceError for ObjectError {
    fn kind(&self) -> SourceErrorKind {
        match self {
            Self::Address(_) | Self::ReadOnly | Self::Environment { .. } | Self::TooLong { .. } => {
                SourceErrorKind::Refused
            }
            Self::File { .. } => SourceErrorKind::Failed,
            Self::Request { failure, .. } | Self::Upload { failure, .. } => match failure {
                RequestFailure::NoRanges | RequestFailure::NoVersion => SourceErrorKind::Refused,
                _ => SourceErrorKind::Failed,
            },
        }
    }

    fn hint(&self) -> Option<&'static str> {
        let failure = match self {
            Self::Address(_) => {
                return Some("write http://HOST/PATH, https://HOST/PATH or s3://BUCKET/KEY");
            }
            Self::ReadOnly => {
                return Some("copy the image to this machine, or mount it with -o ro");
            }
            Self::TooLong { .. } => return Some("leave out columns with --fields"),
            Self::Environment { .. } | Self::File { .. } => return None,
            Self::Request { failure, .. } | Self::Upload { failure, .. } => failure,
        };
        Some(match failure {
            RequestFailure::NoRanges | RequestFailure::NoVersion => {
                "copy the image to this machine with another program"
            }
            RequestFailure::Connection(_) | RequestFailure::TimedOut => {
                "check that the server runs and that the address is right"
            }
            RequestFailure::Status { code: 401 | 403, .. } | RequestFailure::BadCredentials => {
                "check the credentials: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and \
                 AWS_SESSION_TOKEN for s3://, or the address itself"
            }
            RequestFailure::Status { code: 301 | 307 | 400, .. } => {
                "check the region of the bucket (AWS_REGION) and the endpoint (AWS_ENDPOINT_URL)"
            }
            RequestFailure::Tls(_) => {
                "for a server with a certificate of your own authority, set AWS_CA_BUNDLE to its \
                 file"
            }
            RequestFailure::Changed => "start the command again",
            RequestFailure::Status { .. } | RequestFailure::WrongAnswer(_) => return None,
        })
    }
}

impl From<ObjectError> for DeviceFailure {
    fn from(error: ObjectError) -> Self {
        Self::Source(Box::new(error))
    }
}

impl From<ObjectError> for io::Error {
    fn from(error: ObjectError) -> Self {
        let kind = match &error {
            ObjectError::Request { failure: RequestFailure::TimedOut, .. }
            | ObjectError::Upload { failure: RequestFailure::TimedOut, .. } => {
                io::ErrorKind::TimedOut
            }
            ObjectError::Request { failure: RequestFailure::Changed, .. } => {
                io::ErrorKind::StaleNetworkFileHandle
            }
            ObjectError::Request { failure: RequestFailure::Connection(_), .. } => {
                io::ErrorKind::ConnectionAborted
            }
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
