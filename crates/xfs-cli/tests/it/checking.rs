//! Tests of the command `check`: its verdicts, its forms of output and its exit codes.

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
    assert!(said.contains(", 1 directory, "), "{said}");
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
    // The free space is not known, so leaked space is only a consequence.
    assert!(said.contains(" consequences: "), "{said}");
    assert!(!said.contains(": space.leaked: "), "{said}");
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

/// Overwrites the first `length` bytes of the image with zeros.
fn zero(place: &VolumeDir, length: usize) {
    let image = File::options().write(true).open(place.path("image")).unwrap();
    image.write_all_at(&vec![0; length], 0).unwrap();
}

#[test]
fn consequences_are_counted_and_shown_with_all() {
    let place = filled();
    damage(&place);
    let (_, said) = run(&place, &["image"]);
    assert!(said.contains("    and "), "{said}");
    assert!(said.contains(" space.leaked"), "{said}");
    assert!(!said.contains("    space.leaked: "), "{said}");
    let (_, all) = run(&place, &["--all", "image"]);
    assert!(all.contains("    space.leaked: "), "{all}");
    let parsed = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
    let short = parsed(&run(&place, &["--json", "image"]).1);
    let long = parsed(&run(&place, &["--json", "--all", "image"]).1);
    let count = short["findings"][0]["consequences"].as_u64().unwrap();
    assert!(count > 0, "{short}");
    assert_eq!(short["findings"].as_array().unwrap().len(), 1);
    let listed = long["findings"].as_array().unwrap();
    assert_eq!(listed.len() as u64, count + 1);
    for (id, consequence) in listed.iter().enumerate().skip(1) {
        assert_eq!(consequence["id"], id);
        assert_eq!(consequence["cause"], 0);
    }
}

#[test]
fn first_superblock_that_is_lost_is_replaced_by_a_copy() {
    let place = filled();
    zero(&place, 512);
    let (code, text) = run(&place, &["--json", "image"]);
    assert_eq!(code, 4, "{text}");
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["fatal"], 1, "{text}");
    assert_eq!(document["findings"].as_array().unwrap().len(), 1, "{text}");
    let finding = &document["findings"][0];
    assert_eq!(finding["code"], "sb.magic");
    assert_eq!(finding["place"]["byte"], 0);
    assert_eq!(document["directories"], 1);
    assert_eq!(document["unchecked"][0], "counts of the superblock");
}

#[test]
fn first_sectors_that_are_lost_leave_the_rest_to_be_checked() {
    let place = filled();
    zero(&place, 2048);
    let (code, said) = run(&place, &["image"]);
    assert_eq!(code, 4, "{said}");
    for code in ["fatal: sb.magic", "fatal: agf.magic", "fatal: agi.magic"] {
        assert!(said.contains(code), "{said}");
    }
}

#[test]
fn volume_without_any_superblock_is_not_checked_and_salvage_is_named() {
    let place = VolumeDir::new();
    let image = File::options().write(true).open(place.path("image")).unwrap();
    let length = image.metadata().unwrap().len();
    image.set_len(0).unwrap();
    image.set_len(length).unwrap();
    let output = place.command(&["check", "image"]).output().unwrap();
    assert_eq!(output.status.code(), Some(8));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("is not an XFS volume"), "{said}");
    assert!(said.contains("ferroxfs salvage"), "{said}");
    let (code, text) = run(&place, &["--json", "image"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &document["complete"]), (8, &false.into()), "{text}");
    assert!(document["error"].as_str().unwrap().contains("is not an XFS volume"), "{text}");
}

#[test]
fn check_without_the_log_is_neither_accepted_nor_advised() {
    let place = filled();
    let output = place.command(&["check", "--no-recovery", "image"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(16), "{said}");
    assert!(said.contains("takes neither --live nor --no-recovery"), "{said}");
}

/// Changes the first superblock with `edit`, and then sets its checksum.
fn edit_superblock(place: &VolumeDir, edit: impl FnOnce(&mut [u8])) {
    let image = File::options().read(true).write(true).open(place.path("image")).unwrap();
    let mut sector = [0; 512];
    image.read_exact_at(&mut sector, 0).unwrap();
    edit(&mut sector);
    xfs_format::superblock::seal(&mut sector);
    image.write_all_at(&sector, 0).unwrap();
}

/// Runs `check --json` on a damaged image. Returns the JSON document, and the codes of its
/// findings.
fn document(place: &VolumeDir) -> (Value, Vec<String>) {
    let (code, text) = run(place, &["--json", "image"]);
    assert_eq!(code, 4, "{text}");
    let document: Value = serde_json::from_str(&text).unwrap();
    let findings = document["findings"].as_array().unwrap().iter();
    let codes = findings.map(|finding| finding["code"].as_str().unwrap().to_owned()).collect();
    (document, codes)
}

#[test]
fn log_older_than_the_superblock_is_a_finding_and_the_rest_is_checked() {
    let place = filled();
    edit_superblock(&place, |sector| {
        sector[240..248].copy_from_slice(&(0x7fff_u64 << 32).to_be_bytes());
    });
    let (document, codes) = document(&place);
    assert_eq!(codes, ["log.unreadable"], "{document}");
    assert_eq!(document["log"], "not_replayed");
    assert_eq!(document["directories"], 1);
    let part = &document["unchecked_parts"][0];
    assert_eq!(part["what"], "all changes that only the log has");
    assert_eq!(part["cause"], 0);
}

#[test]
fn mark_needs_repair_is_a_finding_and_the_rest_is_checked() {
    let place = filled();
    edit_superblock(&place, |sector| sector[219] |= 1 << 4);
    let (document, codes) = document(&place);
    assert_eq!(codes, ["sb.needs-repair"], "{document}");
    assert_eq!((&document["log"], &document["complete"]), (&"clean".into(), &true.into()));
}

#[test]
fn volume_without_any_superblock_is_checked_by_its_headers() {
    let place = filled();
    let image = File::options().read(true).write(true).open(place.path("image")).unwrap();
    let mut sector = [0; 512];
    image.read_exact_at(&mut sector, 0).unwrap();
    let number = |at: usize| u32::from_be_bytes(sector[at..at + 4].try_into().unwrap());
    let group_bytes = u64::from(number(84)) * u64::from(number(4));
    for group in 0..u64::from(number(88)) {
        image.write_all_at(&[0; 512], group * group_bytes).unwrap();
    }
    let (document, codes) = document(&place);
    assert_eq!(codes, ["sb.magic", "sb.copy-damaged", "sb.copy-damaged", "sb.copy-damaged"]);
    assert_eq!(document["directories"], 1, "{document}");
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
