//! Tests of the JSON documents that commands print with `--json`.

use std::fs;

use serde_json::Value;

use crate::changing::VolumeDir;

/// Runs a command that must succeed, and returns the JSON document that it prints.
#[track_caller]
fn document(place: &VolumeDir, arguments: &[&str]) -> Value {
    let text = place.check(arguments);
    let document: Value = serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!("{arguments:?}: {error}: {text}");
    });
    assert_eq!(document["schema_version"], 1, "{arguments:?}");
    document
}

/// Checks that the JSON document of a command has these numbers, no failures, and a duration.
#[track_caller]
fn check_numbers(place: &VolumeDir, arguments: &[&str], expected: &[(&str, u64)]) {
    let document = document(place, arguments);
    for (key, number) in expected {
        assert_eq!(document[*key].as_u64(), Some(*number), "{arguments:?}: {document}");
    }
    assert_eq!(document["failures"], 0, "{arguments:?}");
    assert!(document["duration_ns"].as_u64() > Some(0), "{arguments:?}");
}

/// Makes a tree with three files, of which one has two names, and two directories.
fn tree(place: &VolumeDir) {
    let tree = place.path("tree");
    fs::create_dir_all(tree.join("d/e")).unwrap();
    fs::write(tree.join("d/one"), vec![1; 100_000]).unwrap();
    fs::write(tree.join("d/e/two"), b"two").unwrap();
    fs::hard_link(tree.join("d/one"), tree.join("again")).unwrap();
    std::os::unix::fs::symlink("d", tree.join("link")).unwrap();
}

#[test]
fn copies_count_names_and_bytes() {
    let place = VolumeDir::new();
    tree(&place);
    // The top directory counts if the command creates it, or an archive names it.
    let copies: [(u64, &[&str]); 7] = [
        (2, &["import", "--json", "tree", "image:/of-tree"]),
        (3, &["tar", "--json", "-o", "a.tar", "image:/of-tree"]),
        (3, &["import", "--json", "a.tar", "image:/of-tar"]),
        (3, &["cp", "--json", "-a", "tree", "image:/copy"]),
        (3, &["cp", "--json", "-a", "image:/copy", "image:/inside"]),
        (3, &["cp", "--json", "-a", "--ignore-owner", "image:/copy", "out"]),
        (2, &["mkfs", "--json", "-d", "size=300m", "--from", "tree", "made"]),
    ];
    for (directories, arguments) in copies {
        let counts = [("files", 4), ("directories", directories), ("bytes", 100_003)];
        check_numbers(&place, arguments, &counts);
    }
    check_numbers(
        &place,
        &["get", "--json", "-o", "one", "image:/copy/d/one"],
        &[("bytes", 100_000)],
    );
}

#[test]
fn edit_counts_a_changed_file() {
    let place = VolumeDir::new();
    tree(&place);
    place.check(&["import", "tree", "image"]);
    let edit = |with, changed| {
        let arguments = ["edit", "--json", "--with", with, "image:/d/e/two"];
        check_numbers(&place, &arguments, &[("changed", changed)]);
    };
    edit("sed -i s/two/three/", 1);
    edit("true", 0);
}

#[test]
fn changes_count_files() {
    let place = VolumeDir::new();
    tree(&place);
    place.check(&["import", "tree", "image"]);
    let changes: [(&[&str], &str, u64); 12] = [
        (&["chmod", "--json", "-R", "u+w", "image:/d"], "changed", 4),
        (&["chown", "--json", "1:1", "image:/d", "image:/again"], "changed", 2),
        (&["setfacl", "--json", "-m", "u:3:r", "image:/d/one"], "changed", 1),
        (&["setfattr", "--json", "-n", "user.a", "image:/d"], "changed", 1),
        (&["mkdir", "--json", "image:/m", "image:/n"], "changed", 2),
        (&["touch", "--json", "image:/t"], "changed", 1),
        (&["truncate", "--json", "-s", "9", "image:/t"], "changed", 1),
        (&["fallocate", "--json", "-l", "9", "image:/t"], "changed", 1),
        (&["ln", "--json", "-s", "d", "image:/l"], "linked", 1),
        (&["mv", "--json", "image:/t", "image:/l", "image:/m"], "moved", 2),
        (&["rm", "--json", "image:/n", "-r"], "removed", 1),
        (&["rm", "--json", "-r", "image:/d", "image:/link"], "removed", 5),
    ];
    for (arguments, key, count) in changes {
        check_numbers(&place, arguments, &[(key, count)]);
    }
}

#[test]
fn document_counts_failures() {
    let place = VolumeDir::new();
    place.put("image:/file", b"x");
    let output = place
        .command(&["rm", "--json", "image:/none", "image:/file"])
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(1));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["removed"], &document["failures"]), (&1.into(), &1.into()));
}

#[test]
fn document_has_current_facts_of_the_volume() {
    let place = VolumeDir::new();
    assert_eq!(document(&place, &["label", "--json", "image", "new"])["label"], "new");
    assert_eq!(document(&place, &["label", "--json", "image"])["label"], "new");
    let nil = "00000000-0000-0000-0000-000000000000";
    assert_eq!(document(&place, &["uuid", "--json", "image", "nil"])["uuid"], nil);
    assert_eq!(document(&place, &["uuid", "--json", "image"])["uuid"], nil);
    let grown = document(&place, &["growfs", "--json", "--size", "400m", "image"]);
    assert_eq!(
        (&grown["data_blocks_before"], &grown["data_blocks"]),
        (&81_920.into(), &102_400.into())
    );
    let shrunk = document(&place, &["shrink", "--json", "--to", "320m", "image"]);
    assert_eq!(
        (&shrunk["data_blocks_before"], &shrunk["data_blocks"], &shrunk["moved_blocks"]),
        (&102_400.into(), &81_920.into(), &0.into())
    );
    assert_eq!(document(&place, &["recover", "--json", "image"])["was_clean"], true);
    assert!(
        document(&place, &["fstrim", "--json", "image"])["trimmed_bytes"].as_u64() > Some(1 << 20)
    );
    assert_eq!(place.check(&["growfs", "-q", "--size", "500m", "image"]), "");
    assert_eq!(place.check(&["recover", "-q", "image"]), "");
}

#[test]
fn scan_prints_its_counts_or_its_report() {
    let place = VolumeDir::new();
    place.put("image:/file", b"x");
    let scanned = document(&place, &["scan", "--json", "-o", "rows", "image"]);
    assert_eq!((&scanned["inodes"], &scanned["errors"]), (&2.into(), &0.into()));
    let report = document(&place, &["scan", "--json", "--summary", "image"]);
    assert_eq!(report["summary"]["total"]["inodes"], 2);
    assert_eq!(report["summary"]["biggest_files"][0]["path"], "/file");
    place.check_failure(&["scan", "--json", "image"], 2, "--format ndjson");
}

#[test]
fn json_is_refused_with_data_on_standard_output() {
    let place = VolumeDir::new();
    place.put("image:/file", b"x");
    place.check_failure(&["get", "--json", "image:/file"], 2, "--json needs -o");
    place.check_failure(&["tar", "--json", "image"], 2, "--json needs -o");
    place.check_failure(&["cp", "--json", "image:/file", "-"], 2, "standard output");
}
