//! Smoke runs of all fuzz targets, and the hand-made attacks, each in a process with limits.

mod attacks;
mod checked;
mod corpus;
mod dumped;
mod kinds;
mod planned;
mod salvaged;
mod structures;
mod volume;

use xfs_testkit::Limits;

/// The limits of every process, whatever its input. A valid image needs far less.
const LIMITS: Limits = Limits { memory_bytes: 256 << 20, cpu_seconds: 120 };
