//! Tests of the command `salvage`: copies of damaged volumes, manifests and exit codes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};

use ferroxfs::OpenOptions;
use serde_json::Value;
use xfs_format::{BlockKind, DiskAddr};
use xfs_testkit::{Image, Prng, golden};

use crate::changing::VolumeDir;
use crate::damaged::succeed;
use crate::{GoldenDir, write_image};

/// Length of the noise that destroys the start of a golden image, in bytes.
const NOISE_BYTES: u64 = 192 << 10;

/// Runs `salvage` and returns its exit code and what it wrote to standard error.
fn run(place: &GoldenDir, arguments: &[&str]) -> (i32, String) {
    let output = place.run(&[&["salvage", "--ignore-owner"], arguments].concat());
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// Returns the lines of a manifest.
fn manifest(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the contents of all regular files of at most a megabyte below a directory.
fn contents(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            let path = entry.path();
            if metadata.is_dir() {
                open.push(path);
            } else if metadata.is_file() && metadata.size() <= 1 << 20 {
                let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Returns a golden image and its tree as `cp -a` copies it. Two files are left out that many
/// filesystems of the host cannot hold: one of seven exbibytes, and one with 120 attributes.
fn place() -> (GoldenDir, BTreeMap<String, Vec<u8>>) {
    let place = GoldenDir::new();
    succeed(&place, &["rm", "image:/files/long", "image:/attr-node"]);
    fs::create_dir(place.path().join("copy")).unwrap();
    let output = place.run(&["cp", "-a", "--ignore-owner", "image:/", "copy"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let copied = contents(&place.path().join("copy"));
    assert!(copied.len() > 500, "{}", copied.len());
    (place, copied)
}

#[test]
fn sound_volume_is_copied_as_by_cp_and_stays_as_it_is() {
    let (place, copied) = place();
    let before = fs::read(place.path().join("image")).unwrap();
    let (code, said) = run(&place, &["image", "saved"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(contents(&place.path().join("saved")), copied);
    let lines = manifest(&place.path().join("saved.manifest.ndjson"));
    let totals = lines.last().unwrap();
    assert_eq!(totals["complete"], lines.len() - 1);
    assert_eq!(totals["missing_bytes"], 0);
    assert!(fs::read(place.path().join("image")).unwrap() == before, "the image has changed");
}

#[test]
fn noise_at_the_start_costs_only_what_lay_there() {
    let (place, copied) = place();
    run(&place, &["image", "whole"]);
    let mut random = Prng::new(0x5eed);
    let noise: Vec<u8> = (0..NOISE_BYTES / 8).flat_map(|_| random.number().to_be_bytes()).collect();
    let image = fs::File::options().write(true).open(place.path().join("image")).unwrap();
    image.write_all_at(&noise, 0).unwrap();
    let (code, said) = run(&place, &["image", "saved"]);
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("the superblock is damaged; 1 of 1 copies"), "{said}");
    let saved = contents(&place.path().join("saved"));
    let whole = manifest(&place.path().join("whole.manifest.ndjson"));
    let of_inode: BTreeMap<u64, String> = whole
        .iter()
        .filter_map(|line| Some((line["ino"].as_u64()?, line["path"].as_str()?.to_owned())))
        .collect();
    let mut checked = 0;
    // The manifest is truthful: files with all their bytes have the original contents.
    for line in manifest(&place.path().join("saved.manifest.ndjson")) {
        // Without the btrees of its group, a file may have been deleted, so it is doubtful.
        let is_delivered = line["status"] == "complete" || line["status"] == "doubtful";
        if line["type"] != "file" || !is_delivered {
            continue;
        }
        let Some(path) = line["path"].as_str() else { continue };
        let Some(original) = of_inode.get(&line["ino"].as_u64().unwrap()) else { continue };
        if let (Some(found), Some(expected)) = (saved.get(path), copied.get(original)) {
            assert_eq!(found, expected, "{path}");
            checked += 1;
        }
    }
    let lines = manifest(&place.path().join("saved.manifest.ndjson"));
    assert!(checked > 500, "{checked}: {:?}", lines.last());
}

/// Returns the path of everything below a directory, but not of the directory itself.
fn paths(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap();
            found.insert(format!("/{}", name.to_string_lossy()));
            if path.symlink_metadata().unwrap().is_dir() {
                open.push(path);
            }
        }
    }
    found
}

/// Checks that `ls`, `scan` and `salvage --new-volume` give the same tree as `salvage` for a volume
/// whose start is destroyed.
#[test]
fn damaged_volume_is_listed_scanned_and_salvaged_alike() {
    let (place, _) = place();
    let mut random = Prng::new(0x11);
    let noise: Vec<u8> = (0..NOISE_BYTES / 8).flat_map(|_| random.number().to_be_bytes()).collect();
    let image = fs::File::options().write(true).open(place.path().join("image")).unwrap();
    image.write_all_at(&noise, 0).unwrap();
    let (code, said) = run(&place, &["image", "saved"]);
    assert_eq!(code, 5, "{said}");
    let saved = place.path().join("saved");
    let expected = paths(&saved);
    assert!(expected.len() > 500, "{}", expected.len());

    let output = place.run(&["ls", "--damaged", "-R", "-A", "--json", "image"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("ferroxfs: image: /"), "{said}");
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let listed = listed["entries"].as_array().unwrap().iter();
    // A name whose file is gone has a row without a mode.
    let listed: BTreeSet<String> = listed
        .filter(|entry| entry["mode"].is_u64())
        .filter_map(|entry| Some(entry["path"].as_str()?.to_owned()))
        .collect();
    let is_text = |path: &&String| !path.contains('\u{fffd}');
    assert!(expected.iter().filter(is_text).all(|path| listed.contains(path)));

    let output = place.run(&["scan", "--damaged", "--format", "ndjson", "image"]);
    assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let scanned: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| row["paths"].as_array())
        .flat_map(|paths| paths.iter().filter_map(Value::as_str))
        .collect();
    let messages: Vec<&str> = rows.iter().filter_map(|row| row["message"].as_str()).collect();
    let is_orphan = |path: &&String| path.starts_with("/orphans");
    for path in expected.iter().filter(is_text).filter(|path| !is_orphan(path)) {
        // A directory or file that only names prove has no inode, and so no row of an inode.
        let is_proven = messages.iter().any(|message| message.starts_with(&format!("{path}: ")));
        assert!(
            scanned.contains(path.as_str())
                || is_proven
                || saved.join(path.trim_start_matches('/')).is_dir(),
            "{path}"
        );
    }
    let last = rows.last().unwrap();
    assert_eq!(last["row"], "end");
    assert!(last["errors"].as_u64().unwrap() > 0, "{last}");

    let (code, said) = run(&place, &["--new-volume", "made", "image"]);
    assert_eq!(code, 5, "{said}");
    succeed(&place, &["check", "made"]);
    fs::create_dir(place.path().join("out")).unwrap();
    succeed(&place, &["cp", "-a", "--ignore-owner", "made:/", "out"]);
    assert_eq!(paths(&place.path().join("out")), expected);
    assert!(contents(&place.path().join("out")) == contents(&saved), "contents differ");
    let lines = manifest(&place.path().join("made.manifest.ndjson"));
    let copied = manifest(&place.path().join("saved.manifest.ndjson"));
    assert_eq!(lines.last(), copied.last());
}

#[test]
fn new_volume_replaces_nothing_and_is_not_left_half_done() {
    let place = GoldenDir::new();
    fs::write(place.path().join("there"), "text").unwrap();
    let (code, said) = run(&place, &["--new-volume", "there", "image"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("there: exists already"), "{said}");
    assert_eq!(fs::read(place.path().join("there")).unwrap(), b"text");
    // A volume of this length has no room for the files.
    let (code, said) =
        run(&place, &["--new-volume", "small", "--new-volume-size", "100m", "image"]);
    assert_ne!(code, 0, "{said}");
    assert!(!place.path().join("small").exists());
    let (code, said) = run(&place, &["--new-volume", "one", "-o", "two", "image"]);
    assert_eq!(code, 2, "{said}");
}

#[test]
fn options_that_read_damage_exclude_what_needs_a_sound_volume() {
    let place = GoldenDir::new();
    for arguments in [
        ["scan", "--damaged", "--summary", "image"],
        ["scan", "--damaged", "--by=owner", "image"],
        ["mount", "--damaged", "-orw", "image"],
    ] {
        let output = place.run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
    let output = place.run(&["ls", "--damaged", "image:/none"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("/none: no such file or directory, as far as"), "{said}");
}

#[test]
fn range_that_ddrescue_did_not_copy_is_a_hole_with_a_name() {
    let (place, copied) = place();
    let name = "files/original";
    let bytes = fs::read(place.path().join("image")).unwrap();
    let at = bytes.windows(40 << 10).position(|part| part.iter().all(|byte| *byte == b'a'));
    let at = at.expect("the contents lie in one piece") + (8 << 10);
    let map = format!(
        "# Mapfile. Created by GNU ddrescue\n0x0 + 1\n0x0 {at:#x} +\n{at:#x} 0x400 -\n{:#x} {:#x} +\n",
        at + 0x400,
        bytes.len() - at - 0x400
    );
    fs::write(place.path().join("map"), map).unwrap();
    let (code, said) = run(&place, &["--map", "map", "image", "saved"]);
    assert_eq!(code, 5, "{said}");
    let saved = contents(&place.path().join("saved"));
    let mut expected = copied[name].clone();
    expected[8 << 10..9 << 10].fill(0);
    assert_eq!(saved[name], expected);
    let lines = manifest(&place.path().join("saved.manifest.ndjson"));
    let line = lines.iter().find(|line| line["path"] == name).unwrap();
    assert_eq!(line["status"], "partial");
    assert_eq!(line["missing"], serde_json::json!([[8 << 10, 9 << 10]]));
    let others = saved.iter().filter(|(path, _)| !path.starts_with("files/"));
    for (path, bytes) in others {
        assert_eq!(Some(bytes), copied.get(path), "{path}");
    }
}

#[test]
fn archive_holds_the_same_files() {
    let (place, copied) = place();
    let (code, said) = run(&place, &["-o", "saved.tar", "image"]);
    assert_eq!(code, 0, "{said}");
    let mut archive = tar::Archive::new(fs::File::open(place.path().join("saved.tar")).unwrap());
    let names: Vec<String> = archive
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().to_string_lossy().into_owned())
        .collect();
    for path in ["short/bb", "deep/1/2/3/4/5/6/7/8", "files/original", "fifo"] {
        assert!(names.iter().any(|name| name.trim_matches(['.', '/']) == path), "{path}");
    }
    assert!(names.len() > copied.len());
    assert!(place.path().join("saved.tar.manifest.ndjson").is_file());
}

#[test]
fn tree_of_a_damaged_volume_is_copied_and_archived() {
    let (place, copied) = place();
    let image = fs::File::options().write(true).open(place.path().join("image")).unwrap();
    // The superblock and the headers of the first group.
    image.write_all_at(&[0; 2048], 0).unwrap();
    for command in [&["cp", "-a", "--ignore-owner"][..], &["tar"]] {
        assert_ne!(place.run(&[command, &["image:/short", "x"]].concat()).status.code(), Some(0));
    }
    let output = place.run(&["cp", "-a", "--ignore-owner", "--damaged", "image:/short", "part"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("the superblock is damaged"), "{said}");
    let part = contents(&place.path().join("part"));
    let below = |path: &str| Some(path.strip_prefix("short/")?.to_owned());
    let expected = copied.iter().filter_map(|(path, bytes)| Some((below(path)?, bytes.clone())));
    assert_eq!(part, expected.collect());
    // As with a sound volume, the copy of one file takes the name of the destination.
    let (name, bytes) = part.iter().next().unwrap();
    let from = format!("image:/short/{name}");
    let output = place.run(&["cp", "--damaged", &from, "one"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read(place.path().join("one")).unwrap(), *bytes);
    let output = place.run(&["cp", "--damaged", "image:/short", "none"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!place.path().join("none").exists());
    let output = place.run(&["tar", "--damaged", "-o", "part.tar", "image:/short"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut archive = tar::Archive::new(fs::File::open(place.path().join("part.tar")).unwrap());
    assert_eq!(archive.entries().unwrap().count(), part.len() + 1);
    let output = place.run(&["tar", "--damaged", "-o", "none.tar", "image:/nothing"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!place.path().join("none.tar").exists());
}

/// Checks that each command that reads damaged volumes finds a file under both of its names, if the
/// entry of the directory and the parent pointer of the file have different ones.
#[test]
fn name_that_only_a_parent_pointer_has_is_found_by_each_command() {
    let mut image = golden();
    let blocks = (0..image.length_bytes()).step_by(512).map(|offset| DiskAddr(offset as u64 / 512));
    let is_directory = |bytes: &[u8]| {
        let has = |name: &[u8]| bytes.windows(name.len()).any(|window| window == name);
        bytes.starts_with(b"IN") && has(b"original") && has(b"unwritten")
    };
    let mut found = blocks.filter(|at| image.bytes(*at, 512).is_some_and(|b| is_directory(&b)));
    let at = found.next().expect("the golden image has a short directory with these names");
    image.edit(at, 512, BlockKind::InodeCluster, |inode| {
        let start = inode.windows(8).position(|bytes| bytes == b"original").unwrap();
        inode[start + 7] = b'w';
    });
    let place = GoldenDir::with(&image);
    let text = |arguments: &[&str]| {
        let output = place.run(arguments);
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    for name in ["original", "originaw"] {
        let path = format!("image:/files/{name}");
        let shown = text(&["ls", "--damaged", "image:/files"]);
        assert!(shown.lines().any(|line| line == name), "{shown}");
        let shown = text(&["scan", "--damaged", "--format", "ndjson", "image"]);
        assert!(shown.contains(&format!("\"/files/{name}\"")), "{name} has no row");
        let output = place.run(&["cp", "--damaged", &path, name]);
        assert!(place.path().join(name).is_file(), "{}", String::from_utf8_lossy(&output.stderr));
        let archive = format!("{name}.tar");
        let output = place.run(&["tar", "--damaged", "-o", &archive, &path]);
        assert!(
            place.path().join(archive).is_file(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let copied = ["original", "originaw"].map(|name| fs::read(place.path().join(name)).unwrap());
    assert_eq!(copied[0], copied[1]);
    assert_eq!(copied[0].len(), 40 << 10);
}

/// Lets the second entry of a file lead to another file. One entry is left, but the file has two
/// links. Its parent pointers show which entry is wrong, so both names must get the contents.
#[test]
fn second_name_of_a_file_that_leads_to_a_wrong_file_is_corrected() {
    let place = GoldenDir::new();
    succeed(&place, &["ln", "image:/files/original", "image:/files/second"]);
    let path = place.path().join("image");
    let mut image = Image::new(fs::read(&path).unwrap());
    let volume = OpenOptions::new().open(&path).unwrap();
    let number = |path: &str| volume.lookup(path).unwrap().number();
    let (directory, wrong) = (number("files"), number("files/empty"));
    let location = volume.geometry().inode_location(directory).unwrap();
    let at = DiskAddr(location.cluster.0 + u64::from(location.offset_bytes) / 512);
    image.edit(at, 512, BlockKind::InodeCluster, |inode| {
        let name = inode.windows(6).position(|bytes| bytes == b"second").unwrap();
        // The type of the file lies between the name and the inode number.
        inode[name + 7..name + 11].copy_from_slice(&u32::try_from(wrong.0).unwrap().to_be_bytes());
    });
    drop(volume);
    write_image(&image, &path);
    let (_, said) = run(&place, &["image", "saved"]);
    let saved = |name: &str| fs::read(place.path().join("saved/files").join(name)).unwrap();
    assert_eq!(saved("original").len(), 40 << 10);
    assert!(saved("second") == saved("original"), "{said}");
    assert_eq!(saved("empty"), b"");
}

#[test]
fn destination_with_files_is_refused() {
    let place = GoldenDir::new();
    fs::create_dir(place.path().join("saved")).unwrap();
    fs::write(place.path().join("saved/old"), "old").unwrap();
    let (code, said) = run(&place, &["image", "saved"]);
    assert_eq!(code, 1);
    assert!(said.contains("saved: is not empty"), "{said}");
    assert_eq!(fs::read_dir(place.path().join("saved")).unwrap().count(), 1);
}

#[test]
fn image_is_refused_as_its_own_manifest() {
    let place = GoldenDir::new();
    let before = fs::read(place.path().join("image")).unwrap();
    let (code, said) = run(&place, &["--manifest", "image", "image", "saved"]);
    assert_eq!(code, 1, "{said}");
    assert!(fs::read(place.path().join("image")).unwrap() == before, "the image has changed");
}

#[test]
fn file_without_a_volume_is_refused_by_name() {
    let place = GoldenDir::new();
    fs::write(place.path().join("noise"), vec![0xa5; 1 << 20]).unwrap();
    let (code, said) = run(&place, &["noise", "saved"]);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("no superblock was found"), "{said}");
}

#[test]
fn deleted_files_come_back() {
    const FILES: usize = 1000;
    let place = VolumeDir::new();
    fs::create_dir(place.path("tree")).unwrap();
    let mut random = Prng::new(0xde1);
    let mut originals = BTreeMap::new();
    for number in 0..FILES {
        let words = random.within(1..1500);
        let bytes: Vec<u8> = (0..words).flat_map(|_| random.number().to_be_bytes()).collect();
        let name = format!("victim-{number}");
        fs::write(place.path("tree").join(&name), &bytes).unwrap();
        originals.insert(name, bytes);
    }
    place.check(&["mkdir", "image:/gone"]);
    place.check(&["import", "tree", "image:/gone"]);
    place.check(&["rm", "-r", "image:/gone"]);
    let saved = place.command(&["salvage", "--ignore-owner", "--deleted", "image", "saved"]);
    let output = { saved }.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut found: Vec<Vec<u8>> = contents(&place.path("saved/deleted")).into_values().collect();
    found.sort_unstable();
    // The size may not be known. Then the contents end with a whole block, filled with zeros.
    let is_back = |bytes: &Vec<u8>| {
        let next = found.partition_point(|other| other < bytes);
        found.get(next).is_some_and(|other| {
            other.starts_with(bytes) && other[bytes.len()..].iter().all(|byte| *byte == 0)
        })
    };
    let back = originals.values().filter(|bytes| is_back(bytes)).count();
    assert!(back * 100 >= FILES * 95, "{back} of {FILES} files are back");
    let lines = manifest(&place.path("saved.manifest.ndjson"));
    let deleted = lines.iter().filter(|line| line["origin"] == "deleted");
    let named = deleted.filter(|line| line["last_name"].is_string()).count();
    assert!(named * 100 >= FILES * 95, "{named} of {FILES} names are known");
    assert_eq!(lines.last().unwrap()["deleted"].as_u64().unwrap() as usize, found.len());
}

/// Checks the manifest of a volume with a file of seven exbibytes, which many filesystems of the
/// host refuse. The manifest must report that the file is not copied.
#[test]
fn file_that_the_host_refuses_is_not_copied_in_the_manifest() {
    let place = GoldenDir::new();
    let (_, said) = run(&place, &["image", "saved"]);
    let is_there = place.path().join("saved/files/long").exists();
    assert_ne!(is_there, said.contains("saved/files/long"), "{said}");
    let lines = manifest(&place.path().join("saved.manifest.ndjson"));
    let line = lines.iter().find(|line| line["path"] == "files/long").unwrap();
    assert_eq!(line["status"], if is_there { "complete" } else { "not_copied" });
    assert_eq!(lines.last().unwrap()["not_copied"], u64::from(!is_there));
}

/// Checks the manifest of a run that writes an archive to a pipe whose reader closes it before the
/// end.
#[test]
fn manifest_of_a_stopped_run_ends_with_the_reason() {
    let place = GoldenDir::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferroxfs"));
    command.args(["salvage", "-o", "-", "--manifest", "kept", "image"]).current_dir(place.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(!child.wait().unwrap().success());
    let lines = manifest(&place.path().join("kept"));
    let last = lines.last().unwrap();
    assert!(last["stopped"].is_string(), "{last}");
    assert!(lines.iter().any(|line| line["status"] == "not_copied"));
}
