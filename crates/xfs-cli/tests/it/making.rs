//! Tests of `mkfs`.

use std::io::Read;
use std::os::unix::fs::FileExt;
use std::process::{Command, Output};

use tempfile::TempDir;

fn run(place: &TempDir, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ferroxfs"))
        .args(arguments)
        .current_dir(place.path())
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .env_remove("DETERMINISTIC_SEED")
        .output()
        .expect("the program runs")
}

#[track_caller]
fn check(place: &TempDir, arguments: &[&str], code: i32, message: &str) {
    let output = run(place, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains(message), "{arguments:?}: {said}");
}

#[test]
fn makes_a_file_and_a_volume_in_it() {
    let place = TempDir::new().unwrap();
    let made = run(&place, &["mkfs", "-d", "size=320m", "image"]);
    assert!(made.status.success(), "{made:?}");
    assert!(String::from_utf8_lossy(&made.stdout).contains("agcount=4, agsize=20480 blks"));
    let info = run(&place, &["info", "--xfs-info", "image"]);
    assert_eq!(info.stdout, made.stdout);
    assert!(run(&place, &["ls", "image"]).status.success());
}

#[test]
fn mkfs_fills_a_new_volume() {
    let place = TempDir::new().unwrap();
    std::fs::create_dir_all(place.path().join("tree/sub")).unwrap();
    std::fs::write(place.path().join("tree/sub/file"), "contents").unwrap();
    let mut tar = Command::new("tar");
    tar.args(["-cf", "tree.tar", "tree"]).current_dir(place.path());
    assert!(tar.status().unwrap().success());
    let make = |source: &str, image: &str| {
        let arguments = [
            "mkfs",
            "-q",
            "-d",
            "size=64m",
            "--unsupported",
            "--all-root",
            "--from",
            source,
            image,
        ];
        check(&place, &arguments, 0, "");
        std::fs::read(place.path().join(image)).unwrap()
    };
    assert!(make("tree", "one") == make("tree", "two"));
    assert_eq!(run(&place, &["cat", "one:/sub/file"]).stdout, b"contents");
    assert!(make("tree.tar", "three") == make("tree.tar", "four"));
    assert_eq!(run(&place, &["cat", "three:/tree/sub/file"]).stdout, b"contents");
    assert!(run(&place, &["log", "one"]).status.success());
    let big = std::fs::File::create(place.path().join("tree/big")).unwrap();
    std::io::copy(&mut std::io::repeat(1).take(80 << 20), &mut &big).unwrap();
    let full = ["mkfs", "-q", "-d", "size=64m", "--unsupported", "--from", "tree", "full"];
    check(&place, &full, 1, "/big: no space left");
    // No volume rather than a partial one.
    check(&place, &full, 1, "hint: no file was created");
    assert!(!place.path().join("full").exists());
    // A source that cannot be opened leaves no volume behind.
    check(&place, &["mkfs", "-d", "size=320m", "--from", "none", "five"], 1, "No such file");
    assert!(!place.path().join("five").exists());
}

/// Checks that `mkfs --from` with an invalid archive makes no volume, so that the command can be
/// repeated.
#[test]
fn invalid_archive_leaves_no_volume() {
    let place = TempDir::new().unwrap();
    std::fs::write(place.path().join("zip"), b"PK\x03\x04 and so on").unwrap();
    let from = |source| ["mkfs", "-q", "-d", "size=320m", "--from", source, "image"];
    check(&place, &from("zip"), 1, "zip: is a zip archive");
    assert!(!place.path().join("image").exists());
    let pipe = |input: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{input} | \"$@\""), "sh", env!("CARGO_BIN_EXE_ferroxfs")]);
        shell.args(from("-")).current_dir(place.path()).output().unwrap()
    };
    let refused = pipe("cat zip");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(!place.path().join("image").exists());
    let made = pipe("tar -cf - zip");
    assert!(made.status.success(), "{made:?}");
    assert_eq!(run(&place, &["cat", "image:/zip"]).stdout, b"PK\x03\x04 and so on");
}

/// Checks I4 in docs/internals/reproducible.md: the UUID follows from the size and the label.
#[test]
fn two_runs_give_the_same_bytes() {
    let place = TempDir::new().unwrap();
    let uuid = |image: &str, label: &str| {
        let made = run(&place, &["mkfs", "--json", "-d", "size=320m", "-L", label, image]);
        assert!(made.status.success(), "{made:?}");
        made.stdout
    };
    assert_eq!(uuid("one", "a"), uuid("two", "a"));
    assert_ne!(uuid("three", "b"), uuid("four", "a"));
    let bytes = |image: &str| std::fs::read(place.path().join(image)).unwrap();
    assert!(bytes("one") == bytes("two"));
    assert!(bytes("one") != bytes("three"));
}

#[test]
fn mkfs_refuses_to_overwrite_without_force() {
    let place = TempDir::new().unwrap();
    check(&place, &["mkfs", "-q", "-d", "size=320m", "image"], 0, "");
    check(&place, &["mkfs", "-q", "image"], 1, "use -f");
    check(&place, &["mkfs", "-q", "-f", "image"], 0, "");
}

#[test]
fn dry_run_makes_nothing() {
    let place = TempDir::new().unwrap();
    let planned = run(&place, &["mkfs", "-N", "-d", "size=1t", "image"]);
    assert!(String::from_utf8_lossy(&planned.stdout).contains("blocks=268435456"));
    assert!(!place.path().join("image").exists());
}

#[test]
fn refusals_have_their_exit_codes() {
    let place = TempDir::new().unwrap();
    let size = ["-d", "size=320m"];
    let with = |words: &[&'static str]| [&["mkfs"], &size[..], words, &["image"]].concat();
    check(&place, &with(&["-m", "crc=0"]), 3, "not supported");
    check(&place, &with(&["-n", "version=ci"]), 3, "not supported");
    check(&place, &with(&["-r", "zoned=1"]), 2, "needs at least 5 zones");
    check(&place, &with(&["-r", "start=1g"]), 2, "needs -r zoned=1");
    check(&place, &with(&["-p", "x"]), 1, "x: No such file");
    check(&place, &with(&["-p", "x", "--from", "y"]), 2, "cannot be used");
    check(&place, &with(&["-p", "x,file=y"]), 2, "one file or directory");
    check(&place, &with(&["-p", "x,slashes_are_spaces=2"]), 2, "0 or 1");
    check(&place, &with(&["--all-root"]), 2, "--all-root needs a source of files");
    check(&place, &with(&["-d", "nonsense"]), 2, "no such option");
    check(&place, &with(&["-d", "agcount=1"]), 2, "two allocation groups");
    check(&place, &["mkfs", "-d", "size=9223372036854775808", "image"], 1, "");
    check(&place, &["mkfs", "-d", "size=1m", "image"], 2, "too small");
    check(&place, &["mkfs", "image"], 1, "image: does not exist");
    check(&place, &["mkfs"], 2, "no file or device for the volume is named");
    check(&place, &["mkfs", "--from", "site"], 2, "mkfs --from site -d size=auto disk.img");
    std::fs::create_dir(place.path().join("site")).unwrap();
    check(&place, &["mkfs", "--from", "site", "x.img"], 1, "-d size=auto fits it to the files, -d");
    check(
        &place,
        &["mkfs", "-d", "size=320m", "no/image"],
        1,
        "no/image: its directory does not exist",
    );
    check(&place, &["mkfs", "-d", "size=320m", "-"], 2, "standard output");
    assert!(!place.path().join("-").exists());
    assert!(!place.path().join("image").exists());
}

#[test]
fn volume_whose_first_sector_is_damaged_is_not_overwritten() {
    let place = TempDir::new().unwrap();
    assert!(run(&place, &["mkfs", "-q", "-d", "size=320m", "image"]).status.success());
    let path = place.path().join("image");
    let image = std::fs::File::options().write(true).open(&path).unwrap();
    image.write_all_at(b"zzzz", 0).unwrap();
    drop(image);
    let before = std::fs::read(&path).unwrap();
    check(&place, &["mkfs", "image"], 1, "holds a damaged XFS volume already");
    assert!(std::fs::read(&path).unwrap() == before);
    assert!(run(&place, &["mkfs", "-q", "-f", "image"]).status.success());
}
