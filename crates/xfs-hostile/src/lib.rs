//! Fuzz targets and hand-made attacks: no image makes the library panic, hang or eat memory.
//!
//! Owns: the bodies of all fuzz targets, one per structure and one for whole images; where their
//! seeds come from; images that lie on purpose. Does **not** own: the fuzzer (the crate `fuzz`
//! calls what stands here), or limits on the process (`xfs-testkit`).
//!
//! A body is an ordinary function of bytes, so a smoke run of each is an ordinary test. What a body
//! shows is what does *not* happen: it looks at everything a structure offers, whether its verifier
//! passed or not, and drops what it gets.

pub mod attacks;
mod forge;
pub mod seeds;
pub mod structures;
pub mod volume;

pub use structures::{FuzzTarget, TARGETS};
pub use volume::{Finding, Survey, survey};
