//! Fuzz targets and hand-made attacks: no image makes the library panic, hang or exhaust memory.
//!
//! Owns: the bodies of all fuzz targets (one per structure, and six for whole images), their
//! seeds, and hand-made hostile images. Does **not** own: the fuzzer (the crate `fuzz` calls these
//! bodies), or limits on the process (`xfs-testkit`).
//!
//! A body is an ordinary function of bytes, so a smoke run of each is an ordinary test. A body
//! reads everything that a structure offers, whether its verifier passed or not, and discards the
//! results. A run of a body shows only that nothing panics, hangs or exhausts memory.

pub mod attacks;
pub mod damaged;
mod forge;
pub mod kinds;
pub mod seeds;
pub mod structures;
pub mod volume;

pub use kinds::{HostileKind, KindAttack, KindVolume};
pub use structures::{FuzzTarget, TARGETS};
pub use volume::{Finding, Survey, WHOLE_IMAGES, survey};
