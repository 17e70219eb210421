//! Locks and atomics that can be counted by scope: slot, object, allocation group, volume.
//!
//! Owns: the only raw locks and atomics of the workspace. Each says in its type how widely it is
//! shared ([`Scope`]), so that "this path writes nothing that the whole volume shares" is a number
//! that a test asserts; and places that are read under an epoch ([`EpochArray`]). Does **not** own: lock order
//! (stated by each user), or epochs themselves (`seize`, which the concurrent maps use too).
//!
//! # The scopes, narrowest first
//!
//! | scope | written by | cost when busy |
//! |---|---|---|
//! | [`Slot`] | mostly one thread: a share of something that is split by thread | none |
//! | [`Object`] | operations on one inode, one buffer, one open file | of that object's users |
//! | [`Group`] | operations that meet in one allocation group, or in one shard of a table that is split by address | one part in many |
//! | [`Volume`] | operations on unrelated objects of one volume | everybody waits for one cache line |
//!
//! A type parameter and not a comment, because the scope of a lock decides whether a hot path may
//! take it: at most one write of scope [`Volume`] per 64 operations.
//!
//! # Counting
//!
//! With the feature `count` each atomic store, each atomic read-modify-write and each lock taken
//! is added to a counter of the calling thread, by scope. `counts` sums over all threads,
//! `thread_counts` gives those of the calling thread, and `volume_places` says by file and line where what
//! the volume shares is written. A load is not counted: it does not take a
//! cache line away from anybody. A lock counts once, when it is taken, for reading too, since a
//! reader writes the lock's word. Reference counts of `Arc` are not seen: they have the scope of
//! what they count, so a hot path clones no `Arc` of something that the volume shares.
//!
//! # Model tests
//!
//! A build with `--cfg shuttle` puts a schedule explorer under these types (module `raw`), so that a
//! test can try the schedules of real code.
//!
//! Without either the types are those of `parking_lot` and `core` under another name and
//! cost the same.

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
pub use scope::{Group, Object, Scope, Slot, Volume};
pub use seize::Collector;
pub use slots::Slots;

/// Lets other threads go on: for who waits for a step that another one is about to take.
pub fn yield_now() {
    raw::yield_now();
}
