//! Objects of web and S3 servers as read-only devices, and files of the host as new objects.
//!
//! Owns: the addresses, the credentials, the requests and the cache of blocks. Does **not** own:
//! HTTP and TLS (`ureq`, `rustls`), or what an object holds.
//!
//! ```text
//! read_at --> BlockCache --(missing blocks)--> ReadAhead --> RangeClient --> GET, Range, If-Match
//!                 ^                                              |
//!                 +------------ blocks of 64 KiB <---------------+
//! ```
//!
//! # Invariants
//!
//! - **I1** All bytes come from one version of the object. The first response states the version
//!   (ETag or Last-Modified). Every later request asks for this version, and its response is
//!   checked again.
//! - **I2** No number from the server decides an allocation. A response has the length that the
//!   request asked for, and headers and error texts are bounded.
//! - **I3** The cache holds at most the bytes that the caller allows. A read in progress holds at
//!   most 8 MiB more.
//! - **I4** No name is looked up and no file is opened after the object has been opened. A program
//!   can give up the right to do so, and keep only that to connect to the ports that were reported
//!   to its [`ObjectObserver`].
//! - **I5** No message holds a password, a key or the query of an address: the query of a presigned
//!   address is a credential. A redirection is followed without the credentials, and never from
//!   `https` to `http`.

mod address;
mod answer;
mod cache;
mod client;
mod device;
mod error;
mod options;
mod read_ahead;
mod resolver;
mod signature;
mod upload;

#[cfg(test)]
mod tests;

pub use error::{ObjectError, RequestFailure};
pub use options::{ObjectObserver, ObjectOptions, ObjectRequest};

pub(crate) use device::ObjectDevice;
pub use upload::ObjectFolder;
