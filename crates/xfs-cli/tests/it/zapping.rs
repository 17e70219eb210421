//! Tests of `zap`: exactly the free blocks of a volume become zeros.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use serde_json::Value;
use xfs_testkit::golden_quota;

use crate::GoldenDir;
use crate::changing::VolumeDir;

const BLOCK_BYTES: u64 = 4096;
const GROUPS: u64 = 3;
const GROUP_BLOCKS: u64 = 8192;
/// A byte that fills free blocks before they are cleared.
const GARBAGE: u8 = 0xa7;
/// The owners in the reverse map whose blocks a mount writes: headers of groups, and the log.
const WRITTEN_BY_A_MOUNT: [u64; 2] = [-3_i64 as u64, -4_i64 as u64];

/// A run of blocks in the reverse map or in the btree of free space, in bytes of the image.
struct Run {
    bytes: Range<u64>,
    owner: Option<u64>,
}

/// Makes a volume of three groups with a reverse map, in which files were removed.
fn aged() -> VolumeDir {
    let place = VolumeDir::new();
    fs::remove_file(place.path("image")).unwrap();
    let data = format!("size={},agcount={GROUPS}", GROUPS * GROUP_BLOCKS * BLOCK_BYTES);
    let made = place.run(&["mkfs", "-q", "--unsupported", "-m", "rmapbt=1", "-d", &data, "image"]);
    assert!(made.status.success());
    for number in 0..400_usize {
        let directory = place.path(&format!("tree/{}", number % 23));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("file-{number}")), vec![1; number % 29 * 3500]).unwrap();
    }
    place.check(&["import", "tree", "image:/kept"]);
    place.check(&["import", "tree", "image:/removed"]);
    place.check(&["rm", "-r", "image:/removed"]);
    place
}

/// Returns the records of a btree of all groups.
fn runs(place: &VolumeDir, btree: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    for group in 0..GROUPS {
        let text = place.check(&["dump", "image", "btree", "--json", btree, &group.to_string()]);
        let document: Value = serde_json::from_str(&text).unwrap();
        for block in document["blocks"].as_array().unwrap() {
            let fields = &block["fields"];
            if fields["level"] != 0 {
                continue;
            }
            for record in fields["records"].as_array().unwrap() {
                let number = |name: &str| record[name].as_u64();
                let start = (group * GROUP_BLOCKS + number("start").unwrap()) * BLOCK_BYTES;
                let length = number("count").unwrap() * BLOCK_BYTES;
                runs.push(Run { bytes: start..start + length, owner: number("owner") });
            }
        }
    }
    runs
}

fn length(runs: &[Run]) -> u64 {
    runs.iter().map(|run| run.bytes.end - run.bytes.start).sum()
}

fn read(image: &Path, run: &Run) -> Vec<u8> {
    let mut bytes = vec![0; (run.bytes.end - run.bytes.start) as usize];
    File::open(image).unwrap().read_exact_at(&mut bytes, run.bytes.start).unwrap();
    bytes
}

/// Fills the beginning and the last block of each free run with bytes that are not zero.
fn dirty(image: &Path, free: &[Run]) {
    let image = File::options().write(true).open(image).unwrap();
    for Range { start, end } in free.iter().map(|run| run.bytes.clone()) {
        let count = (end - start).min(1 << 20) as usize;
        image.write_all_at(&vec![GARBAGE; count], start).unwrap();
        image.write_all_at(&[GARBAGE; BLOCK_BYTES as usize], end - BLOCK_BYTES).unwrap();
    }
    image.sync_all().unwrap();
}

/// Clears the free space of a volume, and checks every block of it: a free block is zero, a block
/// that the reverse map gives to an owner is unchanged, and every block is one of both.
fn check_zap(options: &[&str]) {
    let place = aged();
    let image = place.path("image");
    let (free, used) = (runs(&place, "bno"), runs(&place, "rmap"));
    assert_eq!(length(&free) + length(&used), GROUPS * GROUP_BLOCKS * BLOCK_BYTES);
    assert!(free.len() > 3 && used.len() > 100, "{} {}", free.len(), used.len());
    dirty(&image, &free);
    let (before, files) = (fs::read(&image).unwrap(), place.run(&["tar", "image"]).stdout);
    let taken = image.metadata().unwrap().blocks() * 512;

    let command = [&["zap", "--json"], options, &["image"]].concat();
    let document: Value = serde_json::from_str(&place.check(&command)).unwrap();
    assert_eq!(document["schema_version"], 1);
    assert_eq!(document["zapped_bytes"], length(&free));
    assert_eq!(document["host_bytes_before"], taken);
    assert_eq!(document["host_bytes"], image.metadata().unwrap().blocks() * 512);

    let unchanged = runs(&place, "bno");
    assert!(unchanged.iter().map(|run| &run.bytes).eq(free.iter().map(|run| &run.bytes)));
    for run in &free {
        assert!(read(&image, run).iter().all(|byte| *byte == 0), "free: {:?}", run.bytes);
    }
    for run in &used {
        if run.owner.is_some_and(|owner| WRITTEN_BY_A_MOUNT.contains(&owner)) {
            continue;
        }
        let had = &before[run.bytes.start as usize..run.bytes.end as usize];
        assert!(read(&image, run) == had, "used: {:?} of {:?}", run.bytes, run.owner);
    }
    place.check(&["check", "image"]);
    assert!(place.run(&["tar", "image"]).stdout == files, "the files have changed");
    let left = image.metadata().unwrap().blocks() * 512;
    match options.is_empty() {
        true => assert!(left + (2 << 20) < taken, "{left} of {taken} bytes on the host"),
        false => assert!(left >= taken, "{left} of {taken} bytes on the host"),
    }
}

#[test]
fn zap_makes_holes_of_exactly_the_free_blocks() {
    check_zap(&[]);
}

#[test]
fn zap_writes_zeros_over_exactly_the_free_blocks() {
    check_zap(&["--zero"]);
}

#[test]
fn zap_reports_the_bytes_and_leaves_holes_alone() {
    let place = VolumeDir::new();
    let image = place.path("image");
    let text = place.check(&["zap", "--zero", "image"]);
    assert!(text.starts_with("image: 2"), "{text}");
    assert!(text.contains(" bytes) of free space read as zeros; the file takes "), "{text}");
    let taken = image.metadata().unwrap().blocks() * 512;
    assert!(taken < 100 << 20, "{taken} bytes of holes were written");
    assert_eq!(place.check(&["zap", "-q", "image"]), "");
    place.check_failure(&["zap", "absent"], 1, "No such file or directory");
    place.check_failure(&["--no-recovery", "zap", "image"], 2, "are for reading");
}

/// Checks that a dirty log is replayed first: blocks that only the log gives to files are not
/// cleared.
#[test]
fn zap_replays_a_dirty_log_first() {
    let place = GoldenDir::with(&golden_quota());
    let listed = |place: &GoldenDir| {
        let output = place.run(&["tar", "image"]);
        assert!(output.status.success());
        output.stdout
    };
    let before = listed(&place);
    let output = place.run(&["zap", "image"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let checked = place.run(&["check", "image"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    assert!(listed(&place) == before, "the files have changed");
    let log = place.run(&["log", "image"]);
    assert!(String::from_utf8_lossy(&log.stdout).contains("clean"));
}
