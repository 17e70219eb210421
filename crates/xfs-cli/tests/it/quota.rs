//! Tests of the command `quota` on `testdata/quota.image`: a volume with quota of all types, 1 KiB
//! blocks and a dirty log.

use std::fs::File;
use std::os::unix::fs::FileExt;

use serde_json::Value;
use xfs_device::BlockDevice;
use xfs_format::dquot::{DQUOT_BLOCK_BYTES, seal_block};
use xfs_testkit::golden_quota;

use crate::changing::VolumeDir;

/// The size of a block of the volume in bytes.
const BLOCK_BYTES: usize = 1024;

/// Returns a directory with the volume in the file `quota`.
fn quota() -> VolumeDir {
    let place = VolumeDir::new();
    let mut bytes = vec![0; golden_quota().length_bytes()];
    golden_quota().read_at(&mut bytes, 0).unwrap();
    std::fs::write(place.path("quota"), bytes).unwrap();
    place
}

/// Runs a command and returns its exit code, and what it wrote to standard output and to standard
/// error.
fn run(place: &VolumeDir, arguments: &[&str]) -> (i32, String, String) {
    let output = place.command(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Adds a block to the recorded usage of the user 0, with a right checksum. The log must be clean.
fn falsify(place: &VolumeDir) {
    let image = File::options().read(true).write(true).open(place.path("quota")).unwrap();
    let length = usize::try_from(image.metadata().unwrap().len()).unwrap();
    let mut bytes = vec![0; length];
    image.read_exact_at(&mut bytes, 0).unwrap();
    // Magic number, version, type of users, ID 0.
    let start = b"DQ\x01\x01\0\0\0\0";
    let index = bytes.chunks(BLOCK_BYTES).position(|block| block.starts_with(start)).unwrap();
    let block =
        &mut bytes[index * BLOCK_BYTES..][..BLOCK_BYTES / DQUOT_BLOCK_BYTES * DQUOT_BLOCK_BYTES];
    block[47] += 1;
    seal_block(block);
    image.write_all_at(block, (index * BLOCK_BYTES) as u64).unwrap();
}

#[test]
fn report_shows_owners_of_a_dirty_volume_with_their_limits() {
    let place = quota();
    let (code, text, errors) = run(&place, &["quota", "-n", "quota"]);
    assert_eq!(code, 0, "{errors}");
    assert!(text.starts_with("user quota of quota: accounted, enforced, checked\n"), "{text}");
    assert!(text.contains("\ngroup quota of quota: "), "{text}");
    assert!(text.contains("\ngrace period of blocks 7days, of inodes 7days\n"), "{text}");
    // The log has the last count of the user 1: 50 KiB.
    let user = text.lines().find(|line| line.starts_with("1 ")).unwrap();
    let columns: Vec<_> = user.split_whitespace().collect();
    assert_eq!(columns, ["1", "--", "50", "100", "200", "1", "5", "9"]);
    // A report of one type has the greatest ID as well.
    let (_, users, _) = run(&place, &["quota", "report", "-u", "-n", "quota"]);
    assert!(users.contains("\n4294967294 "), "{users}");
    assert!(!users.contains("group quota"), "{users}");
}

#[test]
fn report_is_read_by_programs() {
    let place = quota();
    let (code, text, errors) = run(&place, &["quota", "report", "--json", "quota"]);
    assert_eq!(code, 0, "{errors}");
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema_version"], 1);
    assert_eq!(document["types"][2]["type"], "project");
    assert_eq!(document["types"][2]["checked"], true);
    let quotas = document["quotas"].as_array().unwrap();
    let found = quotas.iter().find(|quota| quota["type"] == "project" && quota["id"] == 3000);
    let project = found.unwrap();
    // The kernel may have allocated space past the end of the file.
    assert!(project["blocks"]["used"].as_u64().unwrap() >= 70, "{project}");
    assert_eq!(project["blocks"]["hard"], 900);
    assert_eq!(project["block_bytes"], 1024);
    let root = quotas.iter().find(|quota| quota["id"] == 0).unwrap();
    assert!(root["blocks"].get("grace_seconds").is_some(), "{root}");
    assert!(root["blocks"].get("timer").is_none(), "{root}");
}

#[test]
fn limits_of_realtime_space_are_set_and_shown() {
    let place = quota();
    let set = ["quota", "set", "-u", "7", "--realtime-soft", "1m", "--realtime-hard", "2m"];
    assert_eq!(run(&place, &[&set[..], &["quota"]].concat()).0, 0);
    let limits = || {
        let (_, text, _) = run(&place, &["quota", "report", "--json", "-u", "quota"]);
        let report: Value = serde_json::from_str(&text).unwrap();
        let quotas = report["quotas"].as_array().unwrap();
        let owner = quotas.iter().find(|quota| quota["id"] == 7).unwrap();
        (owner["realtime_blocks"]["soft"].clone(), owner["realtime_blocks"]["hard"].clone())
    };
    let blocks = 2 << 10;
    assert_eq!(limits(), (Value::from(blocks / 2), Value::from(blocks)));
    let lower = ["quota", "set", "-u", "7", "--realtime-hard", "512k", "quota"];
    let (code, _, errors) = run(&place, &lower);
    assert_eq!(code, 2);
    assert!(errors.contains("the hard limit of realtime blocks, 512, would be below"), "{errors}");
    assert_eq!(limits().1, Value::from(blocks));
}

#[test]
fn volume_without_quota_has_a_note_and_no_report() {
    let place = VolumeDir::new();
    let (code, text, errors) = run(&place, &["quota", "image"]);
    assert_eq!((code, text.as_str()), (0, ""));
    assert!(errors.contains("image has no quota"), "{errors}");
    let (code, text, errors) = run(&place, &["quota", "check", "image"]);
    assert_eq!((code, text.as_str()), (0, ""));
    assert!(errors.contains("user quota is not compared: it is not accounted"), "{errors}");
}

#[test]
fn check_of_right_counts_has_no_difference() {
    let place = quota();
    let (code, text, errors) = run(&place, &["quota", "check", "quota"]);
    assert_eq!(code, 0, "{text}{errors}");
    assert!(text.ends_with(" owners compared, 0 differences\n"), "{text}");
}

/// Checks that a wrong count is reported by `quota check` and by `check`, each time with the
/// recorded and the right number, and that no command has written to the image.
#[test]
fn wrong_count_is_shown_with_both_numbers() {
    let place = quota();
    place.check(&["recover", "-q", "quota"]);
    falsify(&place);
    let before = std::fs::read(place.path("quota")).unwrap();
    let (code, text, errors) = run(&place, &["quota", "check", "-n", "quota"]);
    assert_eq!(code, 1, "{text}{errors}");
    let line = text.lines().next().unwrap();
    assert!(line.starts_with("user 0: "), "{line}");
    assert!(text.ends_with(", 1 difference\n"), "{text}");
    let (code, text, _) = run(&place, &["quota", "check", "--json", "quota"]);
    assert_eq!(code, 1);
    let document: Value = serde_json::from_str(&text).unwrap();
    let difference = &document["differences"][0];
    let blocks = |side: &str| difference[side]["blocks"].as_u64().unwrap();
    assert_eq!(blocks("recorded"), blocks("counted") + 1);
    assert_eq!(difference["recorded"]["inodes"], difference["counted"]["inodes"]);
    let (code, text, _) = run(&place, &["check", "quota"]);
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("quota.count: "), "{text}");
    let (_, groups, _) = run(&place, &["quota", "check", "-g", "quota"]);
    assert!(groups.ends_with(", 0 differences\n"), "{groups}");
    assert!(std::fs::read(place.path("quota")).unwrap() == before, "the image has changed");
}

/// Checks `quota project` on a tree: after `--set`, new files inherit the project; a file of
/// another project is shown, with exit code 1; after `--clear`, no file has the project.
#[test]
fn project_of_a_tree_is_set_shown_and_cleared() {
    let place = VolumeDir::new();
    place.check(&["mkdir", "-p", "image:/srv/logs"]);
    place.check(&["touch", "image:/srv/logs/a", "image:/out"]);
    place.check(&["ln", "-s", "a", "image:/srv/logs/link"]);
    place.check(&["quota", "project", "--set", "42", "image:/srv"]);
    let (code, text, _) = run(&place, &["quota", "project", "image:/srv", "image:/out"]);
    assert_eq!(code, 0, "{text}");
    let columns: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(columns, [vec!["42", "inherit", "/srv"], vec!["0", "-", "/out"]]);
    // A new file inherits the project.
    place.check(&["touch", "image:/srv/logs/new"]);
    assert_eq!(run(&place, &["quota", "project", "image:/srv"]).0, 0);
    place.check(&["quota", "project", "-s", "7", "image:/srv/logs/a"]);
    let (code, text, _) = run(&place, &["quota", "project", "--json", "image:/srv"]);
    assert_eq!(code, 1, "{text}");
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["files"].as_array().unwrap().len(), 2);
    assert_eq!(document["files"][1]["path"], "/srv/logs/a");
    assert_eq!(document["files"][1]["project_id"], 7);
    place.check(&["quota", "project", "--clear", "image:/srv"]);
    let (code, text, _) = run(&place, &["quota", "project", "image:/srv"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.trim_start().starts_with("0 -"), "{text}");
}
