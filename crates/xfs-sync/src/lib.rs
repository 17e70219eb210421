//! Locks and atomics that can be counted by scope: slot, object, allocation group, volume.
//!
//! Owns: the only raw locks and atomics of the workspace, and an array that is read under an epoch
//! ([`EpochArray`]). The type of each lock and atomic states how widely it is shared
//! ([`CountScope`]). A test can therefore assert that a path writes nothing that the whole volume
//! shares. Does **not** own: lock order (stated by each user), or epochs themselves (`seize`, which
//! the concurrent maps use too).
//!
//! # The scopes, narrowest first
//!
//! | scope | written by | cost when busy |
//! |---|---|---|
//! | [`Slot`] | mostly one thread: its part of a value that is split by thread | none |
//! | [`Object`] | operations on one inode, one buffer, one open file | users of that object wait |
//! | [`Group`] | operations in one allocation group or one shard of a table | its users wait |
//! | [`Volume`] | operations on unrelated objects | all threads wait for one cache line |
//!
//! The scope is a type parameter and not a comment, because it decides whether a hot path may take
//! the lock: at most one write of scope [`Volume`] per 64 operations.
//!
//! # Counting
//!
//! With the feature `count`, a counter of the calling thread counts each atomic store, each atomic
//! read-modify-write and each lock acquisition, by scope. `counts` returns the sums over all
//! threads and `thread_counts` those of the calling thread. `volume_places` returns the writes of
//! scope [`Volume`] by file and line. A load is not counted: it does not take a cache line away
//! from another thread. A lock counts once, when it is acquired, and for reading too, since a
//! reader writes the lock's word. Reference counts of `Arc` are not counted. They have the scope of
//! the value that they count, so a hot path must not clone an `Arc` that the whole volume shares.
//!
//! # Model tests
//!
//! A build with `--cfg shuttle` puts a schedule explorer under these types (module `raw`), so that
//! a test can explore the schedules of production code (module `schedules`).
//!
//! Without `count` and `shuttle` the types wrap those of `parking_lot` and `core` at no cost.

mod append_only;
mod atomic;
mod cell;
mod counters;
mod epoch_array;
mod gate;
mod latch;
mod lock;
mod raw;
mod recursive;
#[cfg(shuttle)]
pub mod schedules;
mod scope;
mod slots;

#[cfg(feature = "count")]
mod count;

pub use append_only::{AppendOnlyVec, VersionChain};
pub use atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
pub use cell::SetOnce;
pub use core::sync::atomic::{Ordering, fence};
#[cfg(feature = "count")]
pub use count::{Counts, Tally, counts, thread_counts, volume_places};
pub use counters::SlotCounters;
pub use crossbeam_utils::CachePadded;
pub use epoch_array::EpochArray;
pub use gate::{Gate, GateGuard};
pub use latch::{ExclusiveLatch, Latch, SharedLatch};
pub use lock::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeout,
};
pub use recursive::{RecursiveReadGuard, RecursiveRwLock, RecursiveWriteGuard};
pub use scope::{CountScope, Group, Object, Slot, Volume};
pub use seize::Collector;
pub use slots::Slots;

/// Yields the processor to other threads. Called by a thread in a loop that waits until another
/// thread completes a short operation.
pub fn yield_now() {
    raw::yield_now();
}
