//! Counting of the instructions of a run of this program, by valgrind.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::error::BenchError;

/// Runs this program with `arguments` under callgrind, and returns the number of instructions of
/// all its user-space code.
pub(crate) fn count(arguments: &[OsString]) -> Result<u64, BenchError> {
    let program = std::env::current_exe().map_err(BenchError::file(Path::new("xfs-bench")))?;
    let folder = tempfile::tempdir().map_err(BenchError::file(Path::new("a temporary folder")))?;
    let mut profile = OsString::from("--callgrind-out-file=");
    profile.push(folder.path().join("profile"));
    let mut valgrind = Command::new("valgrind");
    valgrind.arg("--tool=callgrind").arg(profile).arg(program).args(arguments);
    let output = valgrind.output().map_err(BenchError::file(Path::new("valgrind")))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let count = text.lines().find_map(|line| line.split("Collected : ").nth(1));
    match count.and_then(|count| count.trim().parse().ok()) {
        Some(count) if output.status.success() => Ok(count),
        _ => Err(BenchError::Failed { name: "valgrind".to_owned(), status: output.status }),
    }
}
