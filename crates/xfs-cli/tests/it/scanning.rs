//! `scan` through the program. What the rows hold is tested where they are made.

use std::fs;

use expect_test::expect;

use crate::{Place, check, shared, transcript};

#[test]
fn rows_come_one_a_line() {
    let output = shared().run(&["scan", "image", "--fields", "ino,paths", "--threads", "1"]);
    let text = transcript(&output);
    assert!(output.status.success(), "{text}");
    let row = "\"ino\":72,\"paths\":[\"/short/ccc\"]";
    assert!(text.lines().any(|line| line.contains(row)), "{text}");
    let inodes = text.lines().filter(|line| line.contains("\"row\":\"inode\"")).count();
    // As many as `info` says are used, without the two that belong to the realtime device.
    assert_eq!(inodes, 712);
}

#[test]
fn a_file_is_there_when_it_is_complete() {
    let place = Place::new();
    for format in ["csv", "ndjson", "parquet", "table"] {
        let output = place.run(&["scan", "image", "-o", format, "--format", format]);
        assert!(output.status.success(), "{}", transcript(&output));
        assert!(fs::metadata(place.path().join(format)).unwrap().len() > 10_000);
    }
    let output = place.run(&["scan", "image", "-o", "small", "--memory", "1k"]);
    assert_eq!(output.status.code(), Some(2));
    let names = fs::read_dir(place.path()).unwrap().count();
    assert_eq!(names, 5, "neither the file nor its draft is there");
}

#[test]
fn summaries_are_for_people() {
    let text = transcript(&shared().run(&["scan", "--summary", "image"]));
    assert!(text.starts_with("712 inodes"), "{text}");
}

#[test]
fn fields_are_named_when_one_is_wrong() {
    check(
        &["scan", "image", "--fields", "ino,colour"],
        &expect![[r#"
            ! ferroxfs: scan: no such field: colour; the fields are volume_uuid, volume_label, ino, generation, ag, type, mode, nlink, uid, gid, project_id, size, blocks, atime, mtime, ctime, btime, extents, attr_extents, xflags, rdev, symlink, xattrs, paths
            exit 2
        "#]],
    );
}
