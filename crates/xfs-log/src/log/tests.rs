//! The write side as a whole, checked by what stands in the log afterwards.

mod concurrent;
mod durability;
mod history;
mod plants;
pub(super) mod rig;
mod shutdown;
mod single;
