//! The metadata buffer cache: lookup without a global lock, verified on read.
//!
//! Owns: metadata buffers, their lookup, their memory, the verifier on read and before write, and
//! the [`Error`] that every layer above passes on. Does **not** own: what a buffer means beyond its
//! [`BlockKind`](xfs_format::BlockKind), and file data, which is never cached here.
//!
//! The design, with the states that writing adds, stands in docs/internals/buffer.md; why lookup
//! is a concurrent map of weak references stands in docs/adr/0002-buffer-lookup.md.

mod buffer;
mod cache;
mod error;
mod hash;
mod map;
mod shard;
#[cfg(test)]
mod testing;

pub use buffer::{Buffer, BufferBytes, BufferBytesMut, WeakBuffer};
pub use cache::{BufferCache, CacheStatistics, Liveness};
pub use error::{Error, IoError, PosixError, Result};
pub use hash::{AddressHash, AddressHasher};
pub use map::BufferExtent;
pub use shard::ShardStatistics;
