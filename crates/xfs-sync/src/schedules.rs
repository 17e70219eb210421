//! Exploration of the schedules of a model test, in a build with `--cfg shuttle`.
//!
//! Owns: how many schedules a model runs under, and from which seeds. Does **not** own: the models.
//!
//! A model runs under random schedules, and under schedules with few, well-placed preemptions,
//! which find bugs that need a certain order of few events. All seeds are fixed: a test that passes
//! once passes again. `SHUTTLE_RANDOM_SEED` chooses other schedules.

use std::panic::{AssertUnwindSafe, catch_unwind};

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

/// Number of schedules of each of the two kinds that a model must hold under.
const SCHEDULES: usize = 2000;

/// Number of schedules of each kind in a batch. Between two batches, a search for a bug changes its
/// seed.
const BATCH: usize = 250;

/// Number of batches until a search for a bug gives up. The rarest bug of today is found in the
/// second batch.
const MAX_BATCHES: u64 = 100;

/// Number of preemptions in a schedule with few preemptions.
const PREEMPTIONS: usize = 3;

/// Bytes of stack of each thread of a model.
const STACK_BYTES: usize = 1 << 19;

fn run(seed: u64, schedules: usize, model: impl Fn() + Send + Sync + Clone + 'static) {
    let config = || {
        let mut config = Config::new();
        config.stack_size = STACK_BYTES;
        config
    };
    let preempting = PctScheduler::new_from_seed(seed, PREEMPTIONS, schedules);
    Runner::new(preempting, config()).run(model.clone());
    Runner::new(RandomScheduler::new_from_seed(seed, schedules), config()).run(model);
}

/// Runs `model` under many schedules of its threads.
///
/// # Panics
///
/// Panics if the model panics or deadlocks under one of them.
pub fn explore(model: impl Fn() + Send + Sync + Clone + 'static) {
    run(0, SCHEDULES, model);
}

/// Checks that some schedule of `model`, which has a deliberate bug, fails with a message that
/// contains `symptom`.
///
/// # Panics
///
/// Panics if no schedule fails, or if one fails with another message.
pub fn check_found(symptom: &str, model: impl Fn() + Send + Sync + Clone + 'static) {
    let explore = |seed| catch_unwind(AssertUnwindSafe(|| run(seed, BATCH, model.clone()))).err();
    let failure = (0..MAX_BATCHES).find_map(explore).expect("no schedule has exposed the bug");
    let plain = failure.downcast_ref::<&str>().copied().unwrap_or_default();
    let message = failure.downcast_ref::<String>().map_or(plain, String::as_str);
    assert!(message.contains(symptom), "another failure than the expected one: {message}");
}
