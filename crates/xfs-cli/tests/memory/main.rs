//! Tests of the memory that commands take, as docs/limits.md states it ("Memory of changes").
//!
//! The system counts the memory of a program from before it was started, which is that of the
//! program that starts it. So these tests are a small program of their own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use wait4::Wait4;

/// Without a bound, `chmod -R` of this number of files takes 107 MB.
const FILES: u32 = 40_000;

/// The most memory of a command that changes all of these files. Without optimisations it takes
/// 59 MB.
const MOST_BYTES: u64 = 72 << 20;

/// Runs the program, which must succeed. Returns the most memory that it had.
fn peak_bytes(place: &Path, arguments: &[&str]) -> u64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferroxfs"));
    command.args(arguments).current_dir(place).stdout(Stdio::null());
    let ended = command.spawn().unwrap().wait4().unwrap();
    assert!(ended.status.success(), "{arguments:?} ended with {}", ended.status);
    ended.rusage.maxrss
}

#[test]
fn changes_of_many_files_keep_to_their_memory() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("source/folder");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..FILES {
        File::create(folder.join(format!("file-{number}"))).unwrap();
    }
    let commands: [&[&str]; 4] = [
        &["mkfs", "-d", "size=400m", "image"],
        &["import", "source", "image:/"],
        &["chmod", "-R", "700", "image:/folder"],
        &["rm", "-r", "-f", "image:/folder"],
    ];
    for arguments in commands {
        let bytes = peak_bytes(place.path(), arguments);
        assert!(bytes <= MOST_BYTES, "{arguments:?} had {} MiB", bytes >> 20);
    }
    peak_bytes(place.path(), &["check", "image"]);
}
