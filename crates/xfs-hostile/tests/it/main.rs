//! Smoke runs of all fuzz targets, and the hand-made attacks, each in a process with limits.

mod attacks;
mod structures;
mod volume;

use xfs_testkit::Limits;

/// What a run may use, whatever the input: far more than an honest image needs.
const LIMITS: Limits = Limits { memory_bytes: 256 << 20, cpu_seconds: 120 };
