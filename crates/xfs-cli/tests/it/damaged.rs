//! Tests of volumes whose blocks have correct checksums but contradict each other. Each command
//! that meets the damage exits with 5 and prints everything that it could read.

use std::fs;

use xfs_format::{BlockKind, DiskAddr};
use xfs_testkit::{Image, golden};

use crate::{GoldenDir, write_image};

/// Returns the address of the first block of the image for which `is_it` holds. `is_it` gets the
/// bytes from the start of the block on, `length` of them.
fn find_block(image: &Image, length: usize, is_it: impl Fn(&[u8]) -> bool) -> DiskAddr {
    let blocks =
        (0..image.length_bytes()).step_by(1024).map(|offset| DiskAddr(offset as u64 / 512));
    let mut found = blocks.filter(|at| image.bytes(*at, length).is_some_and(|bytes| is_it(&bytes)));
    found.next().expect("there is such a block")
}

fn holds(bytes: &[u8], text: &[u8]) -> bool {
    position(bytes, text).is_some()
}

fn position(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}

/// Runs a command and checks that it succeeds.
#[track_caller]
pub(crate) fn succeed(place: &GoldenDir, arguments: &[&str]) {
    let output = place.run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Checks that a command exits with `code` and prints `said` on standard error. Returns its
/// standard output.
#[track_caller]
fn check_damaged(place: &GoldenDir, arguments: &[&str], code: i32, said: &str) -> Vec<u8> {
    let output = place.run(arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
    assert!(errors.contains(said), "{arguments:?}: {errors}");
    output.stdout
}

/// Returns an image with a short form directory that has the name `dup1` twice: for a symbolic
/// link, and for the directory whose name was `dup2`.
fn doubled_in_short_form() -> GoldenDir {
    let place = GoldenDir::new();
    double_in_short_form(&place);
    place
}

fn double_in_short_form(place: &GoldenDir) {
    succeed(place, &["mkdir", "image:/d"]);
    succeed(place, &["ln", "-s", "/outside", "image:/d/dup1"]);
    succeed(place, &["mkdir", "image:/d/dup2"]);
    fs::write(place.path().join("pwned"), b"contents").unwrap();
    succeed(place, &["cp", "pwned", "image:/d/dup2/pwned"]);
    let mut image = Image::new(fs::read(place.path().join("image")).unwrap());
    let is_inode =
        |bytes: &[u8]| bytes.starts_with(b"IN") && holds(bytes, b"dup1") && holds(bytes, b"dup2");
    let at = find_block(&image, 1024, is_inode);
    // The name is also in the parent pointer of the directory, in an inode of its own.
    image.edit(at, 1024, BlockKind::InodeCluster, |bytes| {
        for inode in bytes.chunks_exact_mut(512).filter(|inode| holds(inode, b"dup1")) {
            if let Some(at) = position(inode, b"dup2") {
                inode[at..at + 4].copy_from_slice(b"dup1");
            }
        }
    });
    write_image(&image, &place.path().join("image"));
}

#[test]
fn scan_of_a_directory_with_a_name_twice_ends_with_5() {
    let place = GoldenDir::new();
    // With parent pointers a scan reads no directories.
    let size = ["-d", "file,size=300m", "-b", "size=1024", "-n", "parent=0"];
    succeed(&place, &[&["mkfs", "-q", "-f"], &size[..], &["image"]].concat());
    double_in_short_form(&place);
    let twice = "has the same name as the entry at offset";
    check_damaged(&place, &["scan", "image", "--format", "csv"], 5, twice);
    let output = check_damaged(&place, &["scan", "image"], 5, "1 finding");
    assert!(holds(&output, b"\"code\":\"corrupt\""));
}

#[test]
fn second_entry_of_a_name_is_reported_and_left_out() {
    let place = doubled_in_short_form();
    let twice = "has the same name as the entry at offset";
    let listed = check_damaged(&place, &["ls", "image:/d"], 5, twice);
    assert_eq!(listed, b"dup1\n");
    let found = check_damaged(&place, &["find", "image:/d"], 5, twice);
    assert_eq!(found, b"/d\n/d/dup1\n");
    check_damaged(&place, &["tree", "image:/d"], 5, twice);
    check_damaged(&place, &["du", "-a", "image:/d"], 5, twice);
    let archive = check_damaged(&place, &["tar", "image:/d"], 5, twice);
    assert!(!holds(&archive, b"pwned"), "the second entry is in the archive");
    check_damaged(&place, &["cp", "-r", "image:/d", "out"], 5, twice);
    assert!(fs::symlink_metadata(place.path().join("out/dup1")).unwrap().is_symlink());
}

#[test]
fn entries_missing_from_the_index_are_reported() {
    let mut image = golden();
    let (old, new) = (b"leaf-entry-142", b"leaf-entry-121");
    let at = find_block(&image, 4096, |bytes| bytes.starts_with(b"XDD3") && holds(bytes, old));
    image.edit(at, 4096, BlockKind::DirectoryData, |bytes| {
        let at = position(bytes, old).unwrap();
        bytes[at..at + new.len()].copy_from_slice(new);
    });
    let place = GoldenDir::with(&image);
    let differs = "index (202 entries)";
    for command in [&["ls", "image:/leaf"][..], &["find", "image:/leaf"], &["tree", "image:/leaf"]]
    {
        let listed = check_damaged(&place, command, 5, differs);
        assert!(holds(&listed, b"leaf-entry-200"), "{command:?}");
    }
    check_damaged(&place, &["du", "image:/leaf"], 5, differs);
    check_damaged(&place, &["tar", "image:/leaf"], 5, differs);
    check_damaged(&place, &["cp", "-r", "image:/leaf", "out"], 5, differs);
    // The name in the index leads to an entry with another name.
    check_damaged(&place, &["stat", "image:/leaf/leaf-entry-142"], 5, "index entry");
    check_damaged(&place, &["stat", "image:/leaf/absent"], 1, "no such file");
}

#[test]
fn attributes_in_exchanged_leaves_are_reported_as_damage() {
    let mut image = golden();
    let place = GoldenDir::with(&image);
    let stat = String::from_utf8(place.run(&["stat", "image:/attr-node"]).stdout).unwrap();
    let number = stat.split_whitespace().skip_while(|word| *word != "Inode:").nth(1).unwrap();
    let number: u64 = number.parse().unwrap();
    let is_leaf =
        |bytes: &[u8]| bytes[8..10] == [0x3b, 0xee] && bytes[48..56] == number.to_be_bytes();
    let leaves: Vec<_> = (0..image.length_bytes())
        .step_by(1024)
        .map(|offset| DiskAddr(offset as u64 / 512))
        .filter(|at| image.bytes(*at, 1024).is_some_and(|bytes| is_leaf(&bytes)))
        .collect();
    assert!(leaves.len() > 2);
    let ends = [leaves[0], leaves[leaves.len() - 1]];
    let contents = ends.map(|at| image.bytes(at, 1024).unwrap()[56..].to_vec());
    for (at, contents) in ends.into_iter().zip(contents.iter().rev()) {
        image.edit(at, 1024, BlockKind::Attr, |bytes| bytes[56..].copy_from_slice(contents));
    }
    let place = GoldenDir::with(&image);
    let said = "but the parent has";
    check_damaged(&place, &["getfattr", "image:/attr-node"], 5, said);
    let values = check_damaged(&place, &["getfattr", "-d", "image:/attr-node"], 5, said);
    assert!(holds(&values, b"user.node-attribute-"));
    check_damaged(&place, &["tar", "image:/attr-node"], 5, said);
    check_damaged(&place, &["cp", "-a", "image:/attr-node", "out"], 5, said);
    check_damaged(&place, &["parents", "image:/attr-node"], 5, said);
    check_damaged(
        &place,
        &["scan", "--fields", "paths,xattrs", "-o", "rows", "image"],
        5,
        "finding",
    );
    check_damaged(
        &place,
        &["getfattr", "-n", "user.absent", "image:/attr-short"],
        1,
        "no such attribute",
    );
}
