//! The command `check`: its verdicts, its forms of output and its exit codes.

use std::fs::File;
use std::os::unix::fs::{FileExt, symlink};
use std::process::Command;

use serde_json::Value;

use crate::changing::VolumeDir;

/// The offset in bytes of the count of free blocks (`agf_freeblks`) of the first AGF, which is in
/// the second sector of the image.
const FREE_BLOCKS: u64 = 512 + 52;

/// Returns a directory with a volume that has some files.
fn filled() -> VolumeDir {
    let place = VolumeDir::new();
    std::fs::create_dir(place.path("tree")).unwrap();
    for number in 0..200 {
        std::fs::write(place.path("tree").join(number.to_string()), number.to_string()).unwrap();
    }
    place.check(&["import", "tree", "image:/"]);
    place
}

/// Changes a byte of the image, so that the checksum of its sector is wrong.
fn damage(place: &VolumeDir) {
    let image = File::options().read(true).write(true).open(place.path("image")).unwrap();
    let mut byte = [0];
    image.read_exact_at(&mut byte, FREE_BLOCKS).unwrap();
    image.write_all_at(&[byte[0] ^ 0x40], FREE_BLOCKS).unwrap();
}

/// Runs `check` and returns its exit code and what it wrote to standard output.
fn run(place: &VolumeDir, arguments: &[&str]) -> (i32, String) {
    let output = place.command(&[&["check"], arguments].concat()).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn sound_volume_is_clean() {
    let place = filled();
    let (code, said) = run(&place, &["image"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.starts_with("image: clean: 4 groups, "), "{said}");
    assert!(said.contains(", 1 directories, "), "{said}");
}

#[test]
fn damaged_header_is_named_with_its_consequences() {
    let place = filled();
    damage(&place);
    let (code, said) = run(&place, &["image"]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("fatal: agf.checksum: "), "{said}");
    assert!(said.contains("AG 0, block 0, byte 512: checksum is "), "{said}");
    assert!(said.contains("not checked: free space of AG 0"), "{said}");
    assert!(said.contains("image: damaged or unread: "), "{said}");
    // The free space is not known, so nothing is said to be leaked.
    assert!(!said.contains("space.leaked"), "{said}");
}

#[test]
fn findings_are_read_by_programs() {
    let place = filled();
    damage(&place);
    let (code, text) = run(&place, &["--json", "image"]);
    assert_eq!(code, 4);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema"], "ferroxfs.check/1");
    assert_eq!(document["clean"], false);
    let finding = &document["findings"][0];
    assert_eq!(finding["code"], "agf.checksum");
    assert_eq!(finding["place"]["byte"], 512);
    let (_, lines) = run(&place, &["--ndjson", "image"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["code"], "agf.checksum");
    assert_eq!(lines.last().unwrap()["clean"], false);
}

#[test]
fn exit_codes_are_those_of_fsck() {
    let place = filled();
    assert_eq!(run(&place, &["none"]).0, 8);
    assert_eq!(run(&place, &["--nonsense", "image"]).0, 16);
    assert_eq!(run(&place, &["--no-recovery", "image"]).0, 16);
    std::fs::write(place.path("text"), "no volume at all").unwrap();
    assert_eq!(run(&place, &["text"]).0, 8);
}

#[test]
fn program_named_fsck_checks() {
    let place = filled();
    let program = place.path("fsck.ferroxfs");
    symlink(env!("CARGO_BIN_EXE_ferroxfs"), &program).unwrap();
    let run = |arguments: &[&str]| {
        Command::new(&program).args(arguments).current_dir(place.path(".")).output().unwrap()
    };
    let output = run(&["-a", "-C0", "image"]);
    assert!(output.status.success(), "{output:?}");
    damage(&place);
    assert_eq!(run(&["-p", "image"]).status.code(), Some(4));
}
