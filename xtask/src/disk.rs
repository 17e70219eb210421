//! Checks that the disk has enough space for the first run of the tests in a clone.
//!
//! On a full disk, some fifty tests would fail without a clear reason. So the space is checked
//! first.

use std::path::Path;
use std::process::Command;

use crate::command;
use crate::error::Error;

/// The disk space in GiB that the folder `target` of a fresh clone takes in a run of all tests,
/// scratch files of tests included.
const FIRST_RUN_GIB: u64 = 12;

const GIB_BYTES: u64 = 1 << 30;

/// Checks that the disk has room for the first run of the tests. A clone that has built its tests
/// before is not checked: it has most of its files already.
pub(crate) fn check_first_run(root: &Path) -> Result<(), Error> {
    if root.join("target/debug/deps").exists() && root.join("target/minimum-rust").exists() {
        return Ok(());
    }
    let mut df = Command::new("df");
    let text = command::quiet_output(df.args(["--block-size=1", "--output=avail"]).arg(root))?;
    let free_gib = free_bytes(&text).ok_or(Error::FreeSpace)? / GIB_BYTES;
    if free_gib < FIRST_RUN_GIB {
        return Err(Error::DiskFull { needed_gib: FIRST_RUN_GIB, free_gib });
    }
    Ok(())
}

/// Returns the number in the second line of what df prints: the first line is a heading. Returns
/// `None` if there is no such number.
fn free_bytes(printed: &str) -> Option<u64> {
    printed.lines().nth(1)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::free_bytes;

    #[test]
    fn number_below_the_heading_is_the_free_space() {
        assert_eq!(free_bytes("     Avail\n5497558138\n"), Some(5_497_558_138));
        assert_eq!(free_bytes("Avail\n"), None);
    }
}
