//! Tests that need a guest: another kernel than this machine's, in a virtual machine.
//!
//! `cargo xtask test --long`, or `FERROXFS_LONG=1`, runs more seeds.

#[path = "../kernel/ours.rs"]
#[allow(dead_code, reason = "the comparison of whole volumes needs more of it")]
mod ours;

mod boot;
mod quota;

use std::process::ExitCode;

use xfs_oracle::harness;

fn main() -> ExitCode {
    harness::run(boot::trials().into_iter().chain(quota::trials()).collect())
}
