//! Tests that need a guest: another kernel than this machine's, in a virtual machine.

mod boot;

use std::process::ExitCode;

use xfs_oracle::harness;

fn main() -> ExitCode {
    harness::run(boot::trials())
}
