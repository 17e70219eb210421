//! The metadata buffer cache: lookup without a global lock, verified on read.
//!
//! Owns: metadata buffers, their lookup, their memory, the verifier on read and before write, and
//! the [`Error`] that every layer above passes on. Does **not** own: what a buffer means beyond its
//! [`BlockKind`](xfs_format::BlockKind), and file data, which is never cached here.

mod cache;
mod error;

pub use cache::{Buffer, BufferBytes, BufferCache, BufferExtent};
pub use error::{Error, IoError, PosixError, Result};
