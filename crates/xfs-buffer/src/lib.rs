//! The metadata buffer cache: lookup without a global lock, verified on read.
//!
//! Owns: metadata buffers, their lookup and their memory; the verifier after each read and before
//! each write; and the [`Error`] that every layer above passes on. Does **not** own: the meaning of
//! a buffer beyond its [`BlockKind`](xfs_format::BlockKind), or file data, which is never cached
//! here.
//!
//! The design, including the states that writing adds, is in docs/internals/buffer.md. The reasons
//! for a concurrent map of weak references are in docs/adr/0002-buffer-lookup.md.

mod buffer;
mod cache;
mod error;
mod hash;
mod map;
mod shard;
#[cfg(test)]
mod testing;

pub use buffer::{Buffer, BufferBytes, BufferBytesMut, LatchedBuffer, WeakBuffer};
pub use cache::{BufferCache, CacheStatistics, Liveness};
pub use error::{Error, IoError, PosixError, Result};
pub use hash::{AddressHash, AddressHasher};
pub use map::BufferExtent;
pub use shard::ShardStatistics;
