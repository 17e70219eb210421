//! Tests that need a guest: a virtual machine with a kernel other than this machine's.
//!
//! `cargo xtask test --long`, or `FERROXFS_LONG=1`, runs more seeds.

#[path = "../kernel/ours.rs"]
#[allow(dead_code, reason = "the comparison of whole volumes needs more of it")]
mod ours;

mod boot;
mod quota;
mod realtime;
mod version4;

use std::process::ExitCode;

use xfs_oracle::harness;

fn main() -> ExitCode {
    let trials = [boot::trials(), quota::trials(), realtime::trials(), version4::trials()];
    harness::run(trials.into_iter().flatten().collect())
}
