//! Tests of the memory that commands take, as docs/limits.md states it ("Memory of changes").

use std::path::Path;
use std::process::{Command, Stdio};

use ferroxfs::{CreateOptions, NewKind, OpenOptions};
use wait4::Wait4;

/// Without a bound, the inodes of so many files take more memory than `MOST_BYTES`.
const FILES: u32 = 40_000;

/// The most memory of a command that changes all of these files. It takes 46 MB.
const MOST_BYTES: u64 = 64 << 20;

/// Runs the program, which must succeed. Returns the most memory that it had.
fn peak_bytes(place: &Path, arguments: &[&str]) -> u64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferroxfs"));
    command.args(arguments).current_dir(place).stdout(Stdio::null());
    let ended = command.spawn().unwrap().wait4().unwrap();
    assert!(ended.status.success(), "{arguments:?} ended with {}", ended.status);
    ended.rusage.maxrss
}

fn make_files(image: &Path) {
    let volume = OpenOptions::new().write(true).open(image).unwrap();
    let creation = CreateOptions::new(0o755);
    let folder = volume.root().unwrap().create("folder", &NewKind::Directory, &creation).unwrap();
    for number in 0..FILES {
        folder.create(format!("file-{number}"), &NewKind::Regular, &creation).unwrap();
    }
    drop(folder);
    volume.close().unwrap();
}

#[test]
fn changes_of_many_files_keep_to_their_memory() {
    let place = tempfile::tempdir().unwrap();
    peak_bytes(place.path(), &["mkfs", "-d", "size=400m", "image"]);
    make_files(&place.path().join("image"));
    for arguments in [["chmod", "-R", "700", "image:/folder"], ["rm", "-r", "-f", "image:/folder"]]
    {
        let bytes = peak_bytes(place.path(), &arguments);
        assert!(bytes <= MOST_BYTES, "{arguments:?} had {} MB", bytes >> 20);
    }
    peak_bytes(place.path(), &["check", "image"]);
}
