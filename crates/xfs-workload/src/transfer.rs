//! Measures how long a cache line takes from one processor to another.

use std::time::Instant;

use xfs_sync::{AtomicU32, Ordering, Volume};

use crate::error::WorkloadError;
use crate::parallel::in_parallel;
use crate::processors::Processors;

/// Number of writes of each thread. Other work disturbs some of them, so the best of several rounds
/// counts.
const WRITES: u32 = 1 << 20;
const ROUNDS: u32 = 5;

/// Returns the time in nanoseconds of a write to a line that two threads write all the time, less
/// that of a write of one thread alone. With one processor there is no transfer, and the result is
/// 0.
///
/// # Errors
///
/// The error of confining the threads to processors.
pub fn line_transfer_ns(processors: &Processors) -> Result<f64, WorkloadError> {
    let both = 2.min(processors.count());
    processors.confine(both)?;
    let alone = write_ns(1)?;
    // Two threads make twice the writes, one after the other.
    let shared = write_ns(both)? / both as f64;
    processors.confine(processors.count())?;
    Ok((shared - alone).max(0.0))
}

/// Returns the time of a round of writes by each of `threads` threads, per write of one thread.
fn write_ns(threads: usize) -> Result<f64, WorkloadError> {
    let line = AtomicU32::<Volume>::new(0);
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        in_parallel(threads, |_| {
            for _ in 0..WRITES {
                line.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, WorkloadError>(())
        })?;
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(WRITES));
    }
    Ok(best)
}
