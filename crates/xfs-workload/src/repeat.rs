//! Repeats an action in several threads at the same time.

use std::time::Instant;

use crate::counted::{Counted, shared_writes};
use crate::error::WorkloadError;
use crate::parallel::in_parallel;
use crate::target::Performed;

/// The ratio of measured repetitions to repetitions of the warm-up.
const WARM_UP: u64 = 10;

/// Performs an action `times` times in each of `threads` threads. Before that, a warm-up performs
/// it a tenth as many times.
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
