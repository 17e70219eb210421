//! Tests of the commands `metadump` and `mdrestore`, and of commands that read a metadata image
//! directly.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{GoldenDir, transcript};

/// The name of a file in the golden image. The tests look for it in metadata images.
const NAME: &[u8] = b"a-longer-node-entry";

fn contains(path: &std::path::Path, part: &[u8]) -> bool {
    fs::read(path).unwrap().windows(part.len()).any(|window| window == part)
}

/// Runs a command that must succeed, and returns what it printed.
#[track_caller]
fn check(place: &GoldenDir, arguments: &[&str]) -> String {
    let output = place.run(arguments);
    let text = transcript(&output);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {text}");
    text
}

#[track_caller]
fn check_failure(place: &GoldenDir, arguments: &[&str], code: i32, message: &str) {
    let output = place.run(arguments);
    let text = transcript(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    assert!(text.contains(message), "{arguments:?}: {text}");
}

#[test]
fn obfuscated_image_is_sound_and_has_no_names() {
    let place = GoldenDir::new();
    for version in ["1", "2"] {
        check(&place, &["metadump", "-v", version, "image", "out"]);
        assert!(!contains(&place.path().join("out"), NAME));
        let direct = check(&place, &["check", "--json", "out"]);
        check(&place, &["mdrestore", "--force", "out", "restored"]);
        let restored = check(&place, &["check", "--json", "restored"]);
        let findings = |text: &str| {
            let document: Value = serde_json::from_str(text).unwrap();
            document["findings"].clone()
        };
        let original = findings(&check(&place, &["check", "--json", "image"]));
        assert_eq!(findings(&direct), original);
        assert_eq!(findings(&restored), original);
    }
}

#[test]
fn plain_image_shows_the_tree_of_the_volume() {
    let place = GoldenDir::new();
    check(&place, &["metadump", "--no-obfuscate", "image", "out"]);
    assert!(contains(&place.path().join("out"), NAME));
    for command in [&["tree"][..], &["ls", "-lR"], &["find"], &["parents"]] {
        let image = check(&place, &[command, &["image"]].concat());
        let dump = check(&place, &[command, &["out"]].concat());
        assert_eq!(dump.replace("out", "image"), image.replace("out", "image"), "{command:?}");
    }
    let attributes = check(&place, &["getfattr", "-d", "image:/attr-node"]);
    let found = check(&place, &["getfattr", "-d", "out:/attr-node"]);
    assert_eq!(found.replace("out:", "image:"), attributes);
}

#[test]
fn contents_are_refused_by_name() {
    let place = GoldenDir::new();
    check(&place, &["metadump", "-o", "image", "out"]);
    let absent = "a metadata image holds no file contents";
    check_failure(&place, &["cat", "out:/files/original"], 1, absent);
    check_failure(&place, &["get", "-o", "got", "out:/files/original"], 1, absent);
    assert!(!place.path().join("got").exists());
    check_failure(&place, &["cp", "out:/files/original", "got"], 1, absent);
    assert!(!place.path().join("got").exists());
    check_failure(&place, &["tar", "-o", "archive", "out:/files"], 1, absent);
    assert_eq!(check(&place, &["cat", "out:/files/empty"]), "");
    check_failure(&place, &["touch", "out:/new"], 3, "which ferroxfs does not write");
}

#[test]
fn copies_of_damaged_volumes_refuse_a_metadata_image() {
    let place = GoldenDir::new();
    check(&place, &["metadump", "-o", "image", "out"]);
    let absent = "is a metadata image, which holds no file contents";
    fs::create_dir(place.path().join("copies")).unwrap();
    fs::write(place.path().join("map"), "0x0 ? 1\n0x0 0x10000000000 +\n").unwrap();
    check_failure(&place, &["salvage", "out", "saved"], 3, absent);
    check_failure(&place, &["salvage", "--map", "map", "out", "saved"], 3, absent);
    check_failure(&place, &["salvage", "--no-recovery", "out", "saved"], 3, absent);
    check_failure(&place, &["salvage", "-o", "archive", "out"], 3, absent);
    check_failure(&place, &["cp", "-a", "--damaged", "out:/", "copies"], 3, absent);
    check_failure(&place, &["tar", "--damaged", "-o", "archive", "out:/"], 3, absent);
    for name in ["saved", "saved.manifest.ndjson", "archive", "archive.manifest.ndjson"] {
        assert!(!place.path().join(name).exists(), "{name} was written");
    }
    assert_eq!(fs::read_dir(place.path().join("copies")).unwrap().count(), 0);
}

#[test]
fn streams_give_the_same_image_as_files() {
    let place = GoldenDir::new();
    check(&place, &["metadump", "-o", "image", "out"]);
    let program = env!("CARGO_BIN_EXE_ferroxfs");
    let mut dump = Command::new(program)
        .args(["metadump", "-o", "image", "-"])
        .current_dir(place.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let restore = Command::new(program)
        .args(["mdrestore", "-", "streamed"])
        .current_dir(place.path())
        .stdin(dump.stdout.take().unwrap())
        .status()
        .unwrap();
    assert!(dump.wait().unwrap().success() && restore.success());
    check(&place, &["mdrestore", "out", "restored"]);
    let read = |name: &str| fs::read(place.path().join(name)).unwrap();
    assert!(read("streamed") == read("restored"));
}

#[test]
fn damage_is_listed_and_the_image_is_written() {
    let place = GoldenDir::new();
    let image = File::options().write(true).open(place.path().join("image")).unwrap();
    image.write_all_at(&[0xff; 512], 1024).unwrap();
    check_failure(&place, &["metadump", "image", "out"], 5, "--warnings lists them");
    check_failure(&place, &["metadump", "-w", "image", "out"], 5, "byte 1024: ");
    check(&place, &["mdrestore", "out", "restored"]);
    let kept = place.run(&["metadump", "-w", "-o", "image", "out"]);
    assert_eq!(kept.status.code(), Some(5));
    check(&place, &["mdrestore", "-f", "out", "restored"]);
    let said = transcript(&place.run(&["check", "restored"]));
    assert!(said.contains("fatal: agi."), "{said}");
}

#[test]
fn volume_without_its_first_sectors_is_dumped_by_a_copy() {
    let place = GoldenDir::new();
    let image = File::options().write(true).open(place.path().join("image")).unwrap();
    image.write_all_at(&[0; 4096], 0).unwrap();
    let options = ["--no-obfuscate", "-w"];
    check_failure(&place, &[&["metadump"], &options[..], &["image", "out"]].concat(), 5, "copy");
    check(&place, &["mdrestore", "out", "restored"]);
    check_failure(&place, &["info", "restored"], 5, "label           golden");
    let mut noise = vec![0x5a; 1 << 20];
    fs::write(place.path().join("noise"), &noise).unwrap();
    check_failure(&place, &["metadump", "noise", "out"], 3, "is not an XFS volume");
    noise.extend(fs::read(place.path().join("image")).unwrap());
    fs::write(place.path().join("later"), noise).unwrap();
    check_failure(&place, &["--offset", "1m", "metadump", "-w", "later", "out"], 5, "copy");
}

#[test]
fn damaged_metadata_images_are_refused_and_nothing_changes() {
    let place = GoldenDir::new();
    check(&place, &["metadump", "image", "out"]);
    let whole = fs::read(place.path().join("out")).unwrap();
    fs::write(place.path().join("cut"), whole.get(..whole.len() / 2).unwrap()).unwrap();
    fs::write(place.path().join("restored"), "as before").unwrap();
    check_failure(&place, &["info", "cut"], 5, "it is cut off");
    check_failure(&place, &["mdrestore", "cut", "restored"], 5, "it is cut off");
    check_failure(&place, &["mdrestore", "image", "restored"], 3, "is not a metadata image");
    assert_eq!(fs::read(place.path().join("restored")).unwrap(), b"as before");
    check_failure(&place, &["mdrestore", "out", "out"], 1, "is the image that is read");
    check_failure(&place, &["mdrestore", "out", "-"], 2, "standard output");
    check_failure(&place, &["metadump", "image", "image"], 1, "is the image that is read");
}

#[test]
fn outputs_that_hold_a_filesystem_are_kept_without_force() {
    let place = GoldenDir::new();
    check(&place, &["metadump", "image", "out"]);
    let read = |name: &str| fs::read(place.path().join(name)).unwrap();
    let (volume, dump) = (read("image"), read("out"));
    fs::write(place.path().join("other"), &volume).unwrap();
    fs::write(place.path().join("text"), "no filesystem").unwrap();
    let volume_there = "other: holds an XFS volume already";
    check_failure(&place, &["metadump", "image", "other"], 1, volume_there);
    check_failure(&place, &["mdrestore", "out", "other"], 1, volume_there);
    let swapped = "hint: out is a metadata image: ferroxfs mdrestore out other restores it";
    check_failure(&place, &["metadump", "out", "other"], 1, swapped);
    check_failure(&place, &["metadump", "out", "text"], 1, "text: exists already");
    let swapped = "hint: the metadata image comes first: ferroxfs mdrestore out other";
    check_failure(&place, &["mdrestore", "other", "out"], 1, swapped);
    assert!(read("other") == volume && read("out") == dump);
    assert_eq!(read("text"), b"no filesystem");
    check(&place, &["metadump", "--force", "image", "other"]);
    assert!(read("other").starts_with(b"XFSM"));
    check(&place, &["metadump", "-o", "image", "out"]);
    check(&place, &["mdrestore", "out", "text"]);
}

/// Returns the offset in bytes of the log, from the fields of the first superblock.
fn log_offset(image: &[u8]) -> u64 {
    let word = |at: usize| u64::from(u32::from_be_bytes(*image[at..].first_chunk().unwrap()));
    let (block_size, group_blocks, group_log) = (word(4), word(84), u64::from(image[124]));
    let start = u64::from_be_bytes(*image[48..].first_chunk().unwrap());
    let (group, block) = (start >> group_log, start & ((1 << group_log) - 1));
    (group * group_blocks + block) * block_size
}

#[test]
fn dirty_log_is_refused_unless_names_may_be_readable() {
    let place = GoldenDir::new();
    let log = log_offset(&fs::read(place.path().join("image")).unwrap());
    let image = File::options().write(true).open(place.path().join("image")).unwrap();
    image.write_all_at(b"no record: a readable name", log).unwrap();
    check_failure(&place, &["metadump", "image", "out"], 4, "cannot be obfuscated");
    assert!(!place.path().join("out").exists());
    let kept = check(&place, &["metadump", "--keep-dirty-log", "image", "out"]);
    assert!(kept.contains("with readable names"), "{kept}");
    assert!(contains(&place.path().join("out"), b"a readable name"));
    assert!(!contains(&place.path().join("out"), NAME));
    check(&place, &["metadump", "--no-obfuscate", "image", "out"]);
    check(&place, &["mdrestore", "out", "restored"]);
    let mut sector = [0; 26];
    let restored = File::open(place.path().join("restored")).unwrap();
    restored.read_exact_at(&mut sector, log).unwrap();
    assert_eq!(&sector, b"no record: a readable name");
}

#[test]
fn log_past_the_end_of_the_image_is_left_out() {
    let place = GoldenDir::new();
    let log = log_offset(&fs::read(place.path().join("image")).unwrap());
    let image = File::options().write(true).open(place.path().join("image")).unwrap();
    image.set_len(log + 65536).unwrap();
    check_failure(&place, &["metadump", "-w", "image", "out"], 5, "the log is left out: ");
    let said = transcript(&place.run(&["metadump", "image", "out"]));
    assert!(!said.contains("with readable names"), "{said}");
    assert!(!contains(&place.path().join("out"), NAME));
    let said = transcript(&place.run(&["check", "out"]));
    assert!(!said.contains("--no-recovery"), "{said}");
}
