//! Tests of truncated images: existing parts are shown, missing parts are reported, and the exit
//! code is 5.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::process::Output;
use std::sync::Arc;

use ferroxfs::contents::ForkKind;
use ferroxfs::{Node, OpenOptions, Volume};
use xfs_testkit::golden;

use crate::{GoldenDir, shared, transcript};

/// The lengths in bytes to which the image is cut. Some lengths are no multiple of the sector size.
/// The image is cut among the inodes of the first group, after these inodes, between the groups, in
/// the log, and after the log. Each cut loses inodes.
const LENGTHS: [u64; 6] = [500_000, 9_123_457, 16_777_216, 17_000_000, 22_000_000, 22_058_000];

fn cut(length: u64) -> GoldenDir {
    let place = GoldenDir::new();
    let image = File::options().write(true).open(place.path().join("image")).unwrap();
    image.set_len(length).unwrap();
    place
}

fn lines(output: &Output) -> BTreeSet<String> {
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// Returns the paths that a walk can reach without reading anything past `length` bytes.
fn reachable(volume: &Volume, length: u64) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    let mut walk = volume.walk("/").unwrap();
    while let Some(entry) = walk.next() {
        let entry = entry.unwrap();
        let place = volume.geometry().inode_location(entry.node.number()).unwrap();
        let end = place.cluster.byte_offset().unwrap() + u64::from(place.cluster_bytes);
        if end > length {
            walk.skip_subtree();
            continue;
        }
        paths.insert(entry.path.to_string_lossy().into_owned());
        if !is_whole(&entry.node, length) {
            walk.skip_subtree();
        }
    }
    paths
}

/// Returns whether all contents of a file or directory are in the first `length` bytes of the
/// image.
fn is_whole(node: &Node, length: u64) -> bool {
    node.extents(ForkKind::Data)
        .map(Result::unwrap)
        .all(|extent| extent.device_offset_bytes + extent.length_bytes <= length)
}

#[test]
fn everything_whose_blocks_exist_is_found() {
    let whole = lines(&shared().run(&["find", "image"]));
    let devices = OpenOptions::new().with_devices(Arc::new(golden()), None);
    let volume = devices.open().unwrap();
    for length in LENGTHS {
        let output = cut(length).run(&["--no-recovery", "find", "image"]);
        assert_eq!(output.status.code(), Some(5), "{length}: {}", transcript(&output));
        let found = lines(&output);
        assert!(found.is_subset(&whole), "{length}: something is shown that is not there");
        for path in reachable(&volume, length) {
            // Names that are not text are printed as bytes.
            assert!(found.contains(&path), "{length}: {path} is not shown");
        }
    }
}

#[test]
fn contents_are_complete_or_reported_missing() {
    let devices = OpenOptions::new().with_devices(Arc::new(golden()), None);
    let volume = devices.open().unwrap();
    for length in LENGTHS {
        let (place, reachable) = (cut(length), reachable(&volume, length));
        for path in ["/short/a", "/short/ccc", "/files/original", "/files/sparse", "/attr-node"] {
            let address = format!("image:{path}");
            let whole = shared().run(&["cat", &address]);
            let output = place.run(&["--no-recovery", "cat", &address]);
            let node = volume.lookup(path).unwrap();
            if reachable.contains(path) && is_whole(&node, length) {
                assert_eq!(output.status.code(), Some(0), "{length}: {}", transcript(&output));
                assert!(output.stdout == whole.stdout, "{length}: {path}");
            } else {
                assert_eq!(output.status.code(), Some(5), "{length}: {}", transcript(&output));
                assert!(whole.stdout.starts_with(&output.stdout), "{length}: {path}");
            }
        }
    }
}

#[test]
fn command_exits_with_5_if_it_needs_a_missing_block() {
    for length in LENGTHS {
        let place = cut(length);
        for command in [
            &["scan", "image"][..],
            &["scan", "--summary", "image"],
            &["tar", "image"],
            &["du", "image"],
            &["tree", "image"],
            &["ls", "-laR", "image"],
        ] {
            let output = place.run(&[&["--no-recovery"], command].concat());
            // A scan exits with 1 if none of the unreadable inodes is corrupt.
            let due = if command[0] == "scan" { [1, 5] } else { [5, 5] };
            let code = output.status.code().unwrap_or(-1);
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(due.contains(&code), "{length} {command:?}: {code} {told}");
            assert!(!output.stdout.is_empty(), "{length} {command:?} shows nothing");
        }
    }
}

#[test]
fn image_without_its_log_is_shown_and_exits_with_5() {
    for length in [17_000_000, 32_000_000] {
        let output = cut(length).run(&["ls", "image"]);
        assert_eq!(output.status.code(), Some(5), "{}", transcript(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains("short\n"));
        assert!(String::from_utf8_lossy(&output.stderr).contains("truncated"));
    }
}

#[test]
fn holes_are_zeros() {
    let (sparse, dense) = (GoldenDir::new(), GoldenDir::new());
    let path = dense.path().join("image");
    // Reading and rewriting the file fills its holes.
    fs::write(&path, fs::read(&path).unwrap()).unwrap();
    for command in [&["tar", "image"][..], &["scan", "image", "--fields", "ino,paths,size,blocks"]]
    {
        let (sparse, dense) = (sparse.run(command), dense.run(command));
        assert_eq!(sparse.status.code(), Some(0), "{}", transcript(&sparse));
        assert_eq!(sparse.stdout.len(), dense.stdout.len());
        if command[0] == "tar" {
            assert!(sparse.stdout == dense.stdout);
        }
    }
}
