//! Tests of `diff`: with two images, with an image and a scan, in each format, and with the exit
//! codes of diff(1).

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;

use serde_json::Value;

use crate::changing::VolumeDir;
use crate::{GoldenDir, transcript};

/// Makes a volume with some files, keeps a copy and a scan of it, and changes it.
fn changed_volume() -> VolumeDir {
    let place = VolumeDir::new();
    fs::create_dir_all(place.path("tree/d")).unwrap();
    for name in ["kept", "old", "gone", "grown", "linked", "d/below"] {
        fs::write(place.path("tree").join(name), name).unwrap();
    }
    place.check(&["mkfs", "-q", "--from", "tree", "-d", "size=300m", "disk.img"]);
    fs::copy(place.path("disk.img"), place.path("before.img")).unwrap();
    place.check(&["scan", "-q", "-o", "before.parquet", "before.img"]);
    place.check(&["mv", "disk.img:/old", "disk.img:/new"]);
    place.check(&["rm", "disk.img:/gone"]);
    place.check(&["truncate", "-s", "9000", "disk.img:/grown"]);
    place.check(&["ln", "disk.img:/linked", "disk.img:/d/second"]);
    place.check(&["mv", "disk.img:/d", "disk.img:/moved"]);
    place.check(&["mkdir", "disk.img:/fresh"]);
    place
}

#[track_caller]
fn check_diff(place: &VolumeDir, arguments: &[&str], code: i32, lines: &[&str]) {
    let output = place.run(&[&["diff"], arguments].concat());
    assert_eq!(output.status.code(), Some(code), "{}", transcript(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut found: Vec<&str> = text.lines().collect();
    found.sort_unstable();
    assert_eq!(found, lines);
}

const CHANGES: [&str; 6] = [
    "changed:  /grown (contents, size)",
    "created:  /fresh",
    "linked:   /moved/second, also /linked (links)",
    "removed:  /gone",
    "renamed:  /d -> /moved",
    "renamed:  /old -> /new",
];

#[test]
fn changes_are_the_same_from_an_image_and_from_a_scan() {
    let place = changed_volume();
    check_diff(&place, &["before.img", "disk.img"], 1, &CHANGES);
    check_diff(&place, &["before.parquet", "disk.img"], 1, &CHANGES);
    check_diff(&place, &["--contents", "before.img", "disk.img"], 1, &CHANGES);
    place.check(&["scan", "-q", "-o", "after.parquet", "disk.img"]);
    check_diff(&place, &["before.parquet", "after.parquet"], 1, &CHANGES);
    check_diff(&place, &["after.parquet", "disk.img"], 0, &[]);
    let mut below = CHANGES.to_vec();
    below.insert(3, "moved:    /d/below -> /moved/below");
    check_diff(&place, &["--paths", "before.img", "disk.img"], 1, &below);
}

#[test]
fn failures_have_the_exit_codes_of_diff() {
    let place = changed_volume();
    let code = |arguments: &[&str]| place.run(arguments).status.code();
    assert_eq!(code(&["diff", "nothing.img", "disk.img"]), Some(2));
    assert_eq!(code(&["diff", "disk.img"]), Some(2));
    assert_eq!(code(&["diff", "--contents", "before.parquet", "disk.img"]), Some(2));
    assert_eq!(code(&["diff", "-o", "no/such", "before.img", "disk.img"]), Some(2));
    let other = GoldenDir::new();
    fs::copy(other.path().join("image"), place.path("other.img")).unwrap();
    let output = place.run(&["diff", "other.img", "disk.img"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(transcript(&output).contains("--any-volume"), "{}", transcript(&output));
}

#[test]
fn output_file_appears_when_complete_in_the_format_of_its_ending() {
    let place = changed_volume();
    for name in ["changes.parquet", "changes.ndjson", "changes.json", "changes"] {
        let output = place.run(&["diff", "-o", name, "before.img", "disk.img"]);
        assert_eq!(output.status.code(), Some(1), "{}", transcript(&output));
        assert_eq!(transcript(&output), "exit 1\n");
    }
    let read = |name: &str| fs::read(place.path(name)).unwrap();
    assert!(read("changes.parquet").starts_with(b"PAR1"));
    let document: Value = serde_json::from_slice(&read("changes.json")).unwrap();
    assert_eq!(document["rows"].as_array().unwrap().len(), CHANGES.len());
    assert_eq!((&document["renamed"], &document["errors"]), (&2.into(), &0.into()));
    assert_eq!(read("changes.ndjson").split(|byte| *byte == b'\n').count(), CHANGES.len() + 3);
    assert_eq!(read("changes").split(|byte| *byte == b'\n').count(), CHANGES.len() + 1);
}

#[test]
fn damage_is_a_row_and_decides_the_exit_code() {
    let place = GoldenDir::new();
    fs::copy(place.path().join("image"), place.path().join("damaged")).unwrap();
    let image = fs::File::options().write(true).open(place.path().join("damaged")).unwrap();
    let volume = ferroxfs::OpenOptions::new()
        .open_device(std::sync::Arc::new(xfs_testkit::golden()))
        .unwrap();
    let numbers = volume.walk("/").unwrap().map(|entry| entry.unwrap().node.number());
    let location = volume.geometry().inode_location(numbers.max().unwrap()).unwrap();
    image.write_all_at(&[0xff; 2048], location.cluster.byte_offset().unwrap()).unwrap();
    let output = place.run(&["diff", "image", "damaged"]);
    assert_eq!(output.status.code(), Some(5), "{}", transcript(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().any(|line| line.starts_with("error:    b: ")), "{text}");
    assert_eq!(place.run(&["diff", "image", "image"]).status.code(), Some(0));
}

#[test]
fn owners_are_named_by_a_table_of_the_host_or_of_the_image() {
    let place = VolumeDir::new();
    fs::create_dir_all(place.path("tree/etc")).unwrap();
    fs::write(place.path("tree/etc/passwd"), "admin:x:0:0::/:/bin/sh\n").unwrap();
    fs::write(place.path("tree/etc/group"), "wheel:x:0:\n").unwrap();
    fs::write(place.path("table"), "ruth:x:0:0::/:/bin/sh\n").unwrap();
    place.check(&["mkfs", "-q", "--from", "tree", "-d", "size=300m", "disk.img"]);
    place.check(&["chown", "-R", "0:0", "disk.img:/"]);
    let rows = |more: &[&str]| {
        let words = [&["scan", "disk.img", "--format", "csv", "--fields", "type"], more].concat();
        place.check(&words).lines().nth(1).unwrap().to_owned()
    };
    assert_eq!(rows(&["--passwd-from-image"]), "directory,admin,wheel");
    assert_eq!(rows(&["--passwd", "table"]), "directory,ruth");
    assert_eq!(rows(&[]), "directory");
    let accounts = |more: &[&str]| {
        let words = [&["scan", "-q", "disk.img", "--by", "owner", "--passwd", "table"], more];
        place.check(&words.concat())
    };
    assert!(accounts(&["--summary"]).contains("  ruth (0) "), "{}", accounts(&["--summary"]));
    assert!(accounts(&["--summary"]).contains("  ruth (0)\n"));
    let json: serde_json::Value =
        serde_json::from_str(&accounts(&["--summary", "--json"])).unwrap();
    assert_eq!(json["summary"]["by_owner"][0]["owner"], "ruth");
    assert_eq!(json["summary"]["accounts"][0]["owner"], "ruth");
    let rows = accounts(&["--format", "ndjson"]);
    let row = rows.lines().find(|row| row.starts_with("{\"row\":\"account\"")).unwrap();
    assert!(row.contains("\"key\":0,") && row.contains("\"owner\":\"ruth\""), "{row}");
    assert!(
        accounts(&["--format", "table"])
            .lines()
            .any(|line| { line.starts_with("owner ") && line.ends_with(" ruth") })
    );
    let output = place.run(&["scan", "disk.img", "--fields", "owner"]);
    assert_eq!(output.status.code(), Some(2), "{}", transcript(&output));
    assert!(transcript(&output).contains("--passwd FILE"), "{}", transcript(&output));
}

#[test]
fn summary_goes_to_a_file_and_shows_directories_up_to_a_depth() {
    let place = changed_volume();
    let words = ["scan", "--summary", "--by", "dir", "--depth", "1", "-o"];
    place.check(&[&words[..], &["report.json", "disk.img"]].concat());
    let document = fs::read(place.path("report.json")).unwrap();
    let document: Value = serde_json::from_slice(&document).unwrap();
    let accounts = document["summary"]["accounts"].as_array().unwrap();
    let paths: BTreeSet<&str> = accounts.iter().map(|it| it["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/", "/fresh", "/moved"].into());
    // A file with two names counts once.
    assert_eq!(accounts[0]["inodes"], document["summary"]["total"]["inodes"]);
    place.check(&[&words[..], &["report.txt", "disk.img"]].concat());
    let text = fs::read_to_string(place.path("report.txt")).unwrap();
    assert!(text.contains("  by dir\n") && text.contains("  /moved\n"), "{text}");
    let output = place.run(&["scan", "--by", "owner", "--depth", "1", "disk.img"]);
    assert_eq!(output.status.code(), Some(2), "{}", transcript(&output));
}
