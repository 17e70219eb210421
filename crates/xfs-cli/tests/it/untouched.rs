//! Tests that no command that reads an image writes to it, whatever the state of the image.

use std::fs;
use std::os::unix::fs::MetadataExt;

use xfs_format::DiskAddr;
use xfs_testkit::golden;

use crate::{GoldenDir, transcript};

/// The commands that read an image, with arguments that exercise different parts of the program.
const COMMANDS: [&[&str]; 37] = [
    &["info", "image"],
    &["info", "--xfs-info", "image"],
    &["info", "--json", "image"],
    &["ls", "-laRi", "image"],
    &["ls", "-U", "image:/node"],
    &["tree", "-a", "image"],
    &["stat", "image:/attr-node", "image:/null"],
    &["cat", "image:/files/original"],
    &["readlink", "image:/links-inline", "image:/links-remote"],
    &["getfacl", "image:/attr-leaf", "image:/files"],
    &["getfattr", "-d", "-m", "-", "image:/attr-leaf", "image:/attr-remote"],
    &["find", "image", "-size", "+1k", "-printf", "%p %s %T@\\n"],
    &["du", "-a", "--shared", "image"],
    &["extents", "image:/files/tree"],
    &["extents", "--bmap", "image:/files/shared"],
    &["parents", "image:/short/a"],
    &["cp", "image:/short/a", "-"],
    &["cp", "-a", "--ignore-owner", "image:/short", "out"],
    &["get", "image:/files/original"],
    &["get", "image:/files/original", "-o", "original"],
    &["label", "image"],
    &["uuid", "image"],
    &["tar", "image:/files"],
    &["tar", "image:/deep", "-o", "deep.tar"],
    &["dump", "image", "sb", "1"],
    &["dump", "image", "agf", "0"],
    &["dump", "image", "agi", "0"],
    &["dump", "image", "agfl", "1"],
    &["dump", "image", "inode", "64"],
    &["dump", "image", "btree", "ino", "0"],
    &["dump", "image", "btree", "rmap", "1"],
    &["log", "image"],
    &["log", "--dump", "image"],
    &["scan", "image", "--format", "ndjson"],
    &["scan", "image", "--format", "parquet", "-o", "rows"],
    &["scan", "image", "--format", "csv", "--by", "owner"],
    &["scan", "--summary", "image"],
];

/// The state of an image file that a write would change: contents, times, allocated blocks,
/// permissions.
#[derive(PartialEq)]
struct State {
    bytes: Vec<u8>,
    times: [(i64, i64); 2],
    blocks: u64,
    mode: u32,
}

impl State {
    fn of(place: &GoldenDir) -> Self {
        let path = place.path().join("image");
        let metadata = fs::metadata(&path).unwrap();
        Self {
            bytes: fs::read(path).unwrap(),
            times: [
                (metadata.mtime(), metadata.mtime_nsec()),
                (metadata.ctime(), metadata.ctime_nsec()),
            ],
            blocks: metadata.blocks(),
            mode: metadata.mode(),
        }
    }
}

/// Runs every command, and checks that the image is unchanged and that `code_is_due` accepts each
/// exit code.
fn check_untouched(place: &GoldenDir, options: &[&str], code_is_due: impl Fn(i32) -> bool) {
    let before = State::of(place);
    for command in COMMANDS {
        let output = place.run(&[options, command].concat());
        let code = output.status.code().unwrap_or(-1);
        assert!(code_is_due(code), "{command:?}: {}", transcript(&output));
        assert!(State::of(place) == before, "{command:?} has changed the image");
    }
}

#[test]
fn clean_image_is_not_written() {
    check_untouched(&GoldenDir::new(), &[], |code| code == 0);
}

/// Checks that every command works inside the sandbox, if the kernel supports all of it (Linux 6.12
/// with Landlock, and namespaces).
#[test]
fn clean_image_is_read_inside_the_sandbox() {
    if !xfs_testkit::has_landlock() || !xfs_testkit::has_namespaces() {
        eprintln!("skipped: no Landlock that keeps all of it (Linux 6.12), or no namespaces");
        return;
    }
    let place = GoldenDir::new();
    check_untouched(&place, &["--sandbox=always"], |code| code == 0);
}

#[test]
fn image_without_its_log_is_not_written() {
    check_untouched(&GoldenDir::new(), &["--no-recovery"], |code| code == 0);
}

#[test]
fn damaged_image_is_not_repaired() {
    let mut image = golden();
    // Spread over everything except the log, the two places needed to open it, and holes.
    for sector in (130..30_000).step_by(97) {
        image.replace(DiskAddr(sector), &[0x5a; 512]);
    }
    // Files that are named may be gone.
    check_untouched(&GoldenDir::with(&image), &[], |code| matches!(code, 0 | 1 | 5));
}
