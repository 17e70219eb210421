//! Tests that need a guest: a virtual machine with a kernel other than this machine's.
//!
//! `cargo xtask test --long`, or `FERROXFS_LONG=1`, runs more seeds.

#[path = "../kernel/ours.rs"]
#[allow(dead_code, reason = "the comparison of whole volumes needs more of it")]
mod ours;

#[path = "../kernel/inventory.rs"]
mod inventory;

#[path = "../agreement/library.rs"]
#[allow(dead_code, reason = "the agreement needs more of it")]
mod library;

mod boot;
mod growth;
mod quota;
mod quota_script;
mod repair;
mod version4;
mod volumes;
mod zones;

use std::process::ExitCode;

use xfs_oracle::harness;

fn main() -> ExitCode {
    if let Some(code) = quota_script::run_in_guest().or_else(volumes::run_in_guest) {
        return code;
    }
    let trials = [
        boot::trials(),
        growth::trials(),
        quota::trials(),
        quota_script::trials(),
        repair::trials(),
        version4::trials(),
        volumes::trials(),
        zones::trials(),
    ];
    harness::run(trials.into_iter().flatten().collect())
}
