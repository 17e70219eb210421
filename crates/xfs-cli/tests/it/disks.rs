//! Tests of `mkfs --disk` and `mkfs --partition`: volumes in partitions of disks.

use std::fs::{self, File};
use std::io::{self, Cursor, Read};
use std::os::unix::fs::{FileExt, symlink};

use fatfs::{Dir, FatType, FileSystem, FsOptions};
use serde_json::Value;

use crate::changing::VolumeDir;

const MIB: u64 = 1 << 20;
const VOLUME_BYTES: u64 = 300 * MIB;
const UUID: &str = "uuid=0123abcd-0123-4567-89ab-0123456789ab";

/// The command line of a volume of 300 MiB with the files of `tree`.
const MKFS: [&str; 8] = ["mkfs", "-q", "-d", "size=300m", "-m", UUID, "--from", "tree"];

/// Returns a directory with the trees `tree` and `boot`.
fn place() -> VolumeDir {
    let place = VolumeDir::new();
    fs::create_dir_all(place.path("tree/etc")).unwrap();
    fs::write(place.path("tree/etc/hosts"), "127.0.0.1 localhost\n").unwrap();
    fs::create_dir_all(place.path("boot/EFI/BOOT")).unwrap();
    fs::write(place.path("boot/EFI/BOOT/BOOTX64.EFI"), contents(300_000)).unwrap();
    fs::write(place.path("boot/a long name, with spaces.conf"), "title x\n").unwrap();
    fs::write(place.path("boot/empty"), "").unwrap();
    place
}

fn contents(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

fn make(place: &VolumeDir, options: &[&str], disk: &str) {
    place.check(&[&MKFS[..], options, &[disk]].concat());
}

fn read(place: &VolumeDir, disk: &str, start: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    File::open(place.path(disk)).unwrap().read_exact_at(&mut bytes, start).unwrap();
    bytes
}

/// Adds the files below a directory of the EFI system partition, sorted: path and contents.
fn list(dir: &Dir<'_, Cursor<Vec<u8>>>, prefix: &str, files: &mut Vec<(String, Vec<u8>)>) {
    for entry in dir.iter().map(io::Result::unwrap) {
        let path = format!("{prefix}{}", entry.file_name());
        match entry.file_name().as_str() {
            "." | ".." => {}
            _ if entry.is_dir() => list(&entry.to_dir(), &format!("{path}/"), files),
            _ => {
                let mut bytes = Vec::new();
                entry.to_file().read_to_end(&mut bytes).unwrap();
                files.push((path, bytes));
            }
        }
    }
    files.sort();
}

#[test]
fn partition_has_the_bytes_of_a_volume_alone() {
    let place = place();
    make(&place, &[], "alone");
    let alone = read(&place, "alone", 0, VOLUME_BYTES);
    for (kind, options) in [("gpt", &["--esp", "boot"][..]), ("gpt", &[]), ("mbr", &[])] {
        let start = if options.is_empty() { MIB } else { 65 * MIB };
        _ = fs::remove_file(place.path("disk"));
        make(&place, &[&["--disk", kind], options].concat(), "disk");
        assert_eq!(place.path("disk").metadata().unwrap().len(), start + VOLUME_BYTES + MIB);
        assert!(read(&place, "disk", start, VOLUME_BYTES) == alone, "{kind}");
        assert_eq!(place.check(&["cat", "disk:/etc/hosts"]), "127.0.0.1 localhost\n");
        place.check(&["check", "disk"]);
        place.check(&["mkdir", "disk:/new"]);
    }
}

#[test]
fn esp_holds_the_files_of_its_directory() {
    let place = place();
    make(&place, &["--disk", "gpt", "--esp", "boot"], "disk");
    let esp = Cursor::new(read(&place, "disk", MIB, 64 * MIB));
    let filesystem = FileSystem::new(esp, FsOptions::new()).unwrap();
    assert_eq!(filesystem.fat_type(), FatType::Fat32);
    let mut files = Vec::new();
    list(&filesystem.root_dir(), "", &mut files);
    let expected = [
        ("EFI/BOOT/BOOTX64.EFI", contents(300_000)),
        ("a long name, with spaces.conf", b"title x\n".to_vec()),
        ("empty", Vec::new()),
    ];
    assert!(files == expected.map(|(path, bytes)| (path.to_owned(), bytes)));
    // SOURCE_DATE_EPOCH is older than the files.
    let root = filesystem.root_dir();
    let entry = root.iter().map(io::Result::unwrap).find(|entry| entry.file_name() == "empty");
    let date = entry.unwrap().modified().date;
    assert_eq!((date.year, date.month, date.day), (2023, 11, 14));
}

#[test]
fn same_input_makes_the_same_disk() {
    let place = place();
    let options = ["--disk", "gpt", "--esp", "boot", "--partition-name", "root"];
    make(&place, &options, "one");
    fs::create_dir(place.path("other")).unwrap();
    for tree in ["tree", "boot"] {
        let mut copy = std::process::Command::new("cp");
        copy.arg("-r").arg(place.path(tree)).arg(place.path("other"));
        assert!(copy.status().unwrap().success());
    }
    let from = ["mkfs", "-q", "-d", "size=300m", "-m", UUID, "--from", "other/tree"];
    let other = ["--disk", "gpt", "--esp", "other/boot", "--partition-name", "root", "two"];
    place.check(&[&from[..], &other].concat());
    assert!(fs::read(place.path("one")).unwrap() == fs::read(place.path("two")).unwrap());
}

#[test]
fn size_of_the_volume_fits_its_files_on_a_disk() {
    let place = place();
    let auto = ["mkfs", "-q", "--from", "tree", "-d", "size=auto", "--disk", "gpt", "disk"];
    place.check(&auto);
    assert_eq!(place.path("disk").metadata().unwrap().len(), 302 * MIB);
    place.check(&["check", "disk"]);
    let small = ["mkfs", "-q", "--from", "tree", "--minimize", "--disk", "mbr", "small"];
    place.check(&small);
    let length = place.path("small").metadata().unwrap().len();
    assert!((34 * MIB..40 * MIB).contains(&length) && length.is_multiple_of(MIB), "{length}");
    assert_eq!(place.check(&["cat", "small:/etc/hosts"]), "127.0.0.1 localhost\n");
}

#[test]
fn volume_fills_a_disk_that_exists() {
    let place = place();
    File::create(place.path("disk")).unwrap().set_len(400 * MIB + 12345).unwrap();
    let text = place.check(&["mkfs", "--json", "--disk", "gpt", "--esp", "boot", "disk"]);
    let facts: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(facts["disk"], "gpt");
    assert_eq!(
        (facts["partition"].as_u64(), facts["esp_bytes"].as_u64()),
        (Some(2), Some(64 * MIB))
    );
    assert_eq!(facts["partition_offset"], 65 * MIB);
    assert_eq!(facts["data_blocks"], (400 - 1 - 65) * MIB / 4096);
    place.check(&["check", "disk"]);
}

#[test]
fn volume_is_made_in_a_partition_that_exists() {
    let place = place();
    make(&place, &["--disk", "gpt", "--esp", "boot"], "disk");
    let before = fs::read(place.path("disk")).unwrap();
    let mkfs = |number, options: &[&'static str]| {
        [&["mkfs", "-q", "--partition", number], options, &["disk"]].concat()
    };
    place.check_failure(&mkfs("2", &[]), 1, "partition 2 holds");
    place.check_failure(&mkfs("3", &["-f"]), 2, "has no partition 3\nhint: it has: 1 (\"ESP\"), 2");
    place.check_failure(&mkfs("1", &["-f"]), 2, "disk");
    fs::create_dir(place.path("large")).unwrap();
    fs::write(place.path("large/file"), vec![1; (290 * MIB) as usize]).unwrap();
    let shortage = "no space left on the volume; nothing was written; all files need a volume of";
    place.check_failure(&mkfs("2", &["-f", "--from", "large"]), 1, shortage);
    assert!(fs::read(place.path("disk")).unwrap() == before, "a refusal has written");
    place.check(&mkfs("2", &["-f", "-L", "second", "--from", "boot"]));
    assert_eq!(place.check(&["label", "disk"]), "second\n");
    assert!(place.check(&["ls", "disk:/"]).contains("empty"));
    place.check(&["check", "disk"]);
    let after = fs::read(place.path("disk")).unwrap();
    let (start, end) = ((65 * MIB) as usize, before.len() - MIB as usize);
    assert!(before[..start] == after[..start], "the table or the other partition has changed");
    assert!(before[end..] == after[end..], "the end of the disk has changed");
    place.check_failure(&["mkfs", "--partition", "1", "image"], 2, "has no partition table");
    place.check_failure(&["mkfs", "--partition", "1", "absent"], 1, "No such file");
}

#[test]
fn partition_is_named_by_its_name_in_the_table() {
    let place = place();
    let named = |name| ["--disk", "gpt", "--esp", "boot", "--partition-name", name];
    make(&place, &named("root fs"), "disk");
    let before = fs::read(place.path("disk")).unwrap();
    let mkfs = |name, options: &[&'static str]| {
        [&["mkfs", "-q", "--partition", name], options, &["disk"]].concat()
    };
    let held = "partition \"root fs\" holds an XFS volume already";
    place.check_failure(&mkfs("root fs", &[]), 1, held);
    for name in ["root", "ROOT FS", "root fs "] {
        let listed =
            format!("has no partition {name:?}\nhint: it has: 1 (\"ESP\"), 2 (\"root fs\")");
        place.check_failure(&mkfs(name, &["-f"]), 2, &listed);
    }
    place.check_failure(&mkfs("", &["-f"]), 2, "neither the number of a partition nor a name");
    assert!(fs::read(place.path("disk")).unwrap() == before, "a refusal has written");
    place.check(&mkfs("root fs", &["-f", "-L", "second"]));
    assert_eq!(place.check(&["label", "--partition", "root fs", "disk"]), "second\n");
    assert_eq!(place.check(&["label", "--partition", "2", "disk"]), "second\n");
    // The name of the other partition is taken twice.
    make(&place, &[&named("ESP")[..], &["-f"]].concat(), "disk");
    let twice = "has several partitions named \"ESP\"\nhint: choose one by its number: 1 (\"ESP\"), \
                 2 (\"ESP\")";
    place.check_failure(&mkfs("ESP", &["-f"]), 2, twice);
    place.check_failure(&["ls", "--partition", "ESP", "disk"], 2, "has several partitions named");
    _ = fs::remove_file(place.path("disk"));
    make(&place, &["--disk", "mbr"], "disk");
    place.check_failure(&mkfs("root", &["-f"]), 2, "has no partition \"root\"\nhint: it has: 1");
}

#[test]
fn impossible_disks_are_refused_before_anything_is_written() {
    let place = place();
    symlink("x", place.path("tree/link")).unwrap();
    for (options, code, message) in [
        (&["--disk", "mbr", "--partition-name", "x"][..], 2, "have no names"),
        (&["--disk", "mbr", "--partition-type", "linux-home"], 2, "not a type of an MBR"),
        (&["--disk", "gpt", "--partition-type", "0x83"], 2, "not a type of a GPT"),
        (&["--disk", "gpt", "--partition-name", "0123456789012345678901234567890123456"], 2, "36"),
        (&["--disk", "gpt", "--partition", "1"], 2, "--disk makes a new disk"),
        (&["--disk", "gpt", "--esp", "tree"], 3, "tree/link: FAT holds only files"),
        (&["--disk", "gpt", "--esp", "absent"], 1, "absent: No such file"),
        (&["--disk", "gpt", "--esp", "boot", "--esp-size", "1m"], 2, "34.0 MiB"),
        (&["--esp", "boot"], 2, "--disk"),
        (&["--disk", "apm"], 2, "gpt, mbr"),
    ] {
        let command = [&MKFS[..], options, &["disk"]].concat();
        place.check_failure(&command, code, message);
        assert!(!place.path("disk").exists(), "{options:?}");
    }
    let tiny = File::create(place.path("tiny")).unwrap();
    tiny.set_len(2 * MIB).unwrap();
    place.check_failure(&["mkfs", "--disk", "gpt", "tiny"], 2, "tiny: is too small for a disk");
}
