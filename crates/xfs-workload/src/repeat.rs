//! Repetition of an action in all threads at once.

use std::time::Instant;

use crate::counted::{Counted, shared_writes};
use crate::error::WorkloadError;
use crate::parallel::in_parallel;
use crate::target::Performed;

/// Ratio of the measured repetitions to those of the warm-up.
const WARM_UP: u64 = 10;

/// Runs an action `times` times in each of `threads` threads, after a warm-up of a tenth as many
/// repetitions.
///
/// # Errors
///
/// The first error of the action.
pub fn repeat(
    threads: usize,
    times: u64,
    act: impl Fn() -> Result<(), WorkloadError> + Sync,
) -> Result<(Performed, Counted), WorkloadError> {
    let everywhere =
        |times: u64| in_parallel(threads, |_| (0..times).try_for_each(|_| act())).map(drop);
    everywhere(times / WARM_UP)?;
    let before = Counted { shared: shared_writes(), ..Counted::default() };
    let start = Instant::now();
    everywhere(times)?;
    let worked = start.elapsed();
    let counted = Counted { shared: shared_writes(), ..Counted::default() }.since(&before);
    let operations = times * threads as u64;
    Ok((Performed { operations, worked, drained: worked, is_certain: true }, counted))
}
