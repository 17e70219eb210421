//! Test devices, seeded randomness, image makers and oracles for the tests of the workspace.
//!
//! Owns: what tests share and no product needs. Does **not** own: tests.

mod golden;
mod image;
mod limits;
mod pack;
mod prng;

pub use golden::golden;
pub use image::{Image, mend};
pub use limits::{Limits, run_limited};
pub use pack::{pack, unpack};
pub use prng::Prng;
