//! Tests of the whole write side of the log, checked by the contents of the log afterwards.
//!
//! Under `--cfg shuttle` every lock belongs to the schedule explorer, and only the model tests run.

#[cfg(not(shuttle))]
mod concurrent;
#[cfg(all(feature = "count", not(shuttle)))]
mod counting;
#[cfg(not(shuttle))]
mod durability;
mod first_cycle;
#[cfg(not(shuttle))]
mod group;
mod history;
#[cfg(not(shuttle))]
mod large;
#[cfg(shuttle)]
mod model;
#[cfg(not(shuttle))]
mod mutants;
#[cfg(not(shuttle))]
mod paced;
#[cfg(not(shuttle))]
mod reordered;
mod rig;
#[cfg(not(shuttle))]
mod shutdown;
#[cfg(not(shuttle))]
mod single;
#[cfg(not(shuttle))]
mod threads;
#[cfg(not(shuttle))]
mod wrap;
