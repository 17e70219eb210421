//! Tests of commands that read standard input to its end before they lock the image.

use std::fs;
use std::process::{Command, Output};

use crate::changing::VolumeDir;

/// Runs a line of shell commands in the directory of the image; `$0` is the program.
fn shell(place: &VolumeDir, line: &str) -> Output {
    let mut shell = Command::new("bash");
    shell.args(["-o", "pipefail", "-c", line, env!("CARGO_BIN_EXE_ferroxfs")]);
    shell.env("SOURCE_DATE_EPOCH", "1700000000");
    shell.current_dir(place.path("")).output().expect("a shell")
}

#[track_caller]
fn check(place: &VolumeDir, line: &str) {
    let output = shell(place, line);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {said}");
}

#[track_caller]
fn check_failure(place: &VolumeDir, line: &str, message: &str) {
    let output = shell(place, line);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{line}: {said}");
    assert!(said.contains(message), "{line}: {said}");
}

#[test]
fn put_at_the_end_of_a_pipe_edits_a_file_of_the_same_image() {
    let place = VolumeDir::new();
    place.put("image:/f", b"one\ntwo\nthree\n");
    // The reader starts late, and then early.
    check(&place, "(sleep .2; \"$0\" cat image:/f) | sed s/two/2/ | \"$0\" put image:/f");
    assert_eq!(place.check(&["cat", "image:/f"]), "one\n2\nthree\n");
    check(&place, "(\"$0\" cat image:/f; sleep .2) | sed s/2/II/ | \"$0\" put image:/f");
    assert_eq!(place.check(&["cat", "image:/f"]), "one\nII\nthree\n");
    // More than is kept in memory.
    check(
        &place,
        "seq 3000000 | \"$0\" put image:/f && \"$0\" cat image:/f | tac | \"$0\" put image:/f",
    );
    check(&place, "seq 3000000 | tac | cmp - <(\"$0\" cat image:/f)");
}

#[test]
fn archive_of_an_image_is_put_into_the_same_image() {
    let place = VolumeDir::new();
    place.check(&["mkdir", "image:/d"]);
    place.put("image:/d/f", &vec![7; 9 << 20]);
    check(&place, "\"$0\" tar image:/d | \"$0\" import - image:/copy");
    check(&place, "cmp <(\"$0\" cat image:/d/f) <(\"$0\" cat image:/copy/d/f)");
    check(&place, "\"$0\" import <(\"$0\" tar image:/d) image:/again");
    check(&place, "cmp <(\"$0\" cat image:/d/f) <(\"$0\" cat image:/again/d/f)");
    // A volume that replaces the one it is made from.
    check(&place, "\"$0\" tar image:/d | \"$0\" mkfs -q -f --from - image");
    check(&place, "\"$0\" cat image:/d/f | cmp - <(head -c 9M /dev/zero | tr '\\0' '\\7')");
}

#[test]
fn put_of_empty_input_keeps_the_contents() {
    let place = VolumeDir::new();
    place.put("image:/f", b"contents");
    place.check_failure(&["put", "image:/f"], 1, "--allow-empty");
    check_failure(&place, "false | \"$0\" put image:/f", "keeps its 8 bytes");
    assert_eq!(place.check(&["cat", "image:/f"]), "contents");
    place.check(&["put", "--allow-empty", "image:/f"]);
    assert_eq!(place.check(&["cat", "image:/f"]), "");
    // A file that is empty or new loses nothing.
    place.check(&["put", "image:/f"]);
    place.check(&["put", "image:/new"]);
    assert_eq!(place.check(&["find", "image", "-empty", "-type", "f"]), "/f\n/new\n");
}

#[test]
fn closed_standard_input_is_an_error() {
    let place = VolumeDir::new();
    place.put("image:/f", b"contents");
    fs::write(place.path("other"), "").unwrap();
    for line in [
        "\"$0\" put image:/f <&-",
        "\"$0\" put --allow-empty image:/f <&-",
        "\"$0\" put image:/new <&-",
        "\"$0\" import - image <&-",
        "\"$0\" mkfs -q -d size=320m --from - made <&-",
        // The descriptor is open, but not for reading.
        "\"$0\" put --allow-empty image:/f 0>other",
    ] {
        check_failure(&place, line, "standard input: Bad file descriptor");
    }
    assert_eq!(place.check(&["cat", "image:/f"]), "contents");
    assert_eq!(place.check(&["ls", "image"]), "f\n");
    assert!(!place.path("made").exists());
}

#[test]
fn rest_of_a_file_is_put_from_where_it_was_read_to() {
    let place = VolumeDir::new();
    fs::write(place.path("file"), "first\nsecond\nthird\n").unwrap();
    check(&place, "exec <file; read line; \"$0\" put image:/f");
    assert_eq!(place.check(&["cat", "image:/f"]), "second\nthird\n");
    check(&place, "\"$0\" put image:/f </proc/sys/kernel/ostype");
    assert_eq!(place.check(&["cat", "image:/f"]), "Linux\n");
}

#[test]
fn input_too_large_for_the_host_changes_nothing() {
    let place = VolumeDir::new();
    place.put("image:/f", b"contents");
    let line = "seq 3000000 | TMPDIR=/nowhere \"$0\" put image:/f";
    check_failure(&place, line, "hint: set TMPDIR");
    assert_eq!(place.check(&["cat", "image:/f"]), "contents");
}
