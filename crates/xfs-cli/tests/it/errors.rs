//! Tests of runs that fail: a message of one line, a hint, and the exit code.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use expect_test::expect;
use xfs_format::DiskAddr;
use xfs_testkit::{golden, golden_version_4};

use crate::{GoldenDir, check, shared, transcript, write_image};

#[test]
fn mistakes_exit_with_2() {
    check(
        &["ls"],
        &expect![[r#"
        ! ferroxfs: the image and the path are missing
        ! hint: an address is written IMAGE:/path, or --image IMAGE PATH
        exit 2
    "#]],
    );
    check(
        &["find", "image", "-nmae", "x"],
        &expect![[r#"
        ! ferroxfs: find: unknown predicate -nmae
        ! hint: `ferroxfs find --help` lists them
        exit 2
    "#]],
    );
    check(
        &["tree", "-L", "0", "image"],
        &expect![[r#"
        ! ferroxfs: tree: invalid level, must be greater than 0
        exit 2
    "#]],
    );
    check(
        &["parents", "--ino", "128", "image:/short"],
        &expect![[r#"
        ! ferroxfs: parents: --ino takes an image without a path
        ! hint: leave out --ino, or the path
        exit 2
    "#]],
    );
    check(
        &["find", "-P", "-L", "image"],
        &expect![[r#"
        ! ferroxfs: find: -L: symbolic links are not followed
        ! hint: name the target of the link
        exit 2
    "#]],
    );
    assert!(shared().run(&["find", "-P", "image"]).stdout.starts_with(b"/\n"));
    check(
        &["mount", "image"],
        &expect![[r#"
        ! ferroxfs: mount: the directory is missing
        ! hint: ferroxfs mount IMAGE DIR
        exit 2
    "#]],
    );
    assert_eq!(shared().run(&["ls", "--no-such"]).status.code(), Some(2));
    assert_eq!(shared().run(&[]).status.code(), Some(2));
}

#[test]
fn missing_file_exits_with_1() {
    check(
        &["cp", "image:/short", "other:/x"],
        &expect![[r#"
        ! ferroxfs: other: cannot be opened: No such file or directory
        exit 1
    "#]],
    );
    check(
        &["cat", "image:/none", "image:/short/bb"],
        &expect![[r#"
        bb
        ! ferroxfs: image: /none: no such file or directory
        exit 1
    "#]],
    );
    check(
        &["ls", "none.img"],
        &expect![[r#"
        ! ferroxfs: none.img: cannot be opened: No such file or directory
        exit 1
    "#]],
    );
    check(
        &["cat", "image:/short"],
        &expect![[r#"
        ! ferroxfs: image: /short: is a directory
        exit 1
    "#]],
    );
    check(
        &["dump", "image", "agf", "7"],
        &expect![[r#"
        ! ferroxfs: image: there is no group 7; the last is 1
        exit 1
    "#]],
    );
}

#[test]
fn other_format_exits_with_3() {
    let place = GoldenDir::new();
    fs::write(place.path().join("text"), "text\n".repeat(20_000)).unwrap();
    expect![[r#"
        ! ferroxfs: text: is not an XFS volume: it holds data of an unknown format
        ! hint: if the first sectors of a volume are damaged, ferroxfs check looks for a copy of the superblock, and ferroxfs repair restores it
        exit 3
    "#]]
    .assert_eq(&transcript(&place.run(&["ls", "text"])));
}

#[test]
fn write_to_version_4_is_refused_by_name() {
    let place = GoldenDir::with(&golden_version_4());
    let before = fs::read(place.path().join("image")).unwrap();
    expect![[r#"
        ! ferroxfs: image: XFS version 4 volumes (-m crc=0) can only be read
        exit 3
    "#]]
    .assert_eq(&transcript(&place.run(&["touch", "image:/new"])));
    fs::create_dir(place.path().join("mnt")).unwrap();
    expect![[r#"
        ! ferroxfs: image: XFS version 4 volumes (-m crc=0) can only be read
        ! hint: mount it for reading: -o ro
        exit 3
    "#]]
    .assert_eq(&transcript(&place.run(&["mount", "image", "mnt"])));
    assert_eq!(fs::read(place.path().join("image")).unwrap(), before);
}

#[test]
fn damage_is_reported_and_other_files_are_shown() {
    let mut image = golden();
    // The AGF of the first group, which reading files does not need.
    let mut sector = image.bytes(DiskAddr(1), 512).unwrap();
    sector[40] ^= 1;
    image.replace(DiskAddr(1), &sector);
    let place = GoldenDir::with(&image);
    expect![[r#"
        {
          "schema_version": 1,
          "structure": "agf",
          "disk_address": 1,
          "length_bytes": 512,
          "fields": {
            "magic": 1480673094,
            "version": 1,
            "group": 0,
            "length": 16384,
            "by_block_root": 100,
            "by_size_root": 102,
            "reverse_map_root": 95,
            "by_block_levels": 1,
            "by_size_levels": 1,
            "reverse_map_levels": 2,
            "free_list_first": 16777217,
            "free_list_last": 8,
            "free_list_count": 8,
            "free_blocks": 15731,
            "longest": 15648,
            "btree_blocks": 3,
            "uuid": "f0000000-0000-4000-8000-00000000c0de",
            "reverse_map_blocks": 4,
            "refcount_blocks": 1,
            "refcount_root": 98,
            "refcount_levels": 1,
            "lsn": "0:0",
            "crc": 3848420710
          },
          "verified": false,
          "finding": "AGF at disk address 1: checksum is 0xe5623d66, but the bytes give 0x5681114e"
        }
        ! ferroxfs: image: AGF at disk address 1: checksum is 0xe5623d66, but the bytes give 0x5681114e
        exit 5
    "#]].assert_eq(&transcript(&place.run(&["dump", "--json", "image", "agf", "0"])));
    assert_eq!(place.run(&["dump", "image", "agf", "0", "--json"]).stdout.first(), Some(&b'{'));
    assert_eq!(place.run(&["info", "image"]).status.code(), Some(5));
    assert_eq!(place.run(&["ls", "image"]).status.code(), Some(0));
}

#[test]
fn truncated_image_shows_its_remaining_files() {
    let place = GoldenDir::new();
    let image = fs::OpenOptions::new().write(true).open(place.path().join("image")).unwrap();
    image.set_len(43_125 * 512).unwrap();
    let output = place.run(&["find", "image", "-type", "f"]);
    assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!output.stdout.is_empty());
    assert!(!output.stderr.is_empty());
}

#[test]
fn header_past_the_end_of_the_image_exits_with_5() {
    let place = GoldenDir::new();
    let image = fs::OpenOptions::new().write(true).open(place.path().join("image")).unwrap();
    image.set_len(image.metadata().unwrap().len() / 2).unwrap();
    assert_eq!(place.run(&["dump", "image", "agf", "1"]).status.code(), Some(5));
}

#[test]
fn closed_output_pipe_is_not_reported() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ferroxfs"))
        .args(["find", "image"])
        .current_dir(shared().path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.stderr.is_empty(), "{}", transcript(&output));
}

#[test]
fn address_that_is_also_a_file_asks_for_image() {
    let place = GoldenDir::new();
    fs::create_dir(place.path().join("a:")).unwrap();
    fs::File::create(place.path().join("a:/b")).unwrap().write_all(b"x").unwrap();
    expect![[r#"
        ! ferroxfs: a:/b: is this a file, or a path in an image?
        ! hint: a file of this whole name exists: use --image IMAGE PATH
        exit 2
    "#]]
    .assert_eq(&transcript(&place.run(&["ls", "a:/b"])));
}

#[test]
fn damaged_superblock_is_shown_field_by_field() {
    let mut image = golden();
    let mut sector = image.bytes(DiskAddr(0), 512).unwrap();
    // The count of free blocks.
    sector[151] ^= 1;
    image.replace(DiskAddr(0), &sector);
    let place = GoldenDir::with(&image);
    let output = place.run(&["dump", "image", "sb"]);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(5), "{shown}");
    assert!(shown.contains("block_size = 1024\n"), "{shown}");
    assert!(shown.contains("verification: failed: superblock"), "{shown}");
    let sound = shared().run(&["dump", "image", "sb"]);
    let lines = |text: &str| text.lines().count();
    assert_eq!(lines(&shown), lines(&String::from_utf8_lossy(&sound.stdout)));
    let copy = place.run(&["dump", "image", "sb", "1"]);
    assert_eq!(copy.status.code(), Some(5), "the first one is still damaged");
    assert_eq!(copy.stdout, shared().run(&["dump", "image", "sb", "1"]).stdout);
    let beyond = transcript(&place.run(&["dump", "image", "sb", "70000"]));
    assert!(beyond.contains("hint: each allocation group starts with a copy"), "{beyond}");
}

#[test]
fn copy_of_a_superblock_is_shown_by_its_place() {
    let mut image = golden();
    let copy = image.bytes(DiskAddr(0), 512).unwrap();
    image.replace(DiskAddr(0), &[0; 512]);
    let place = GoldenDir::with(&image);
    let lost = transcript(&place.run(&["dump", "image", "sb", "1"]));
    assert!(lost.contains("hint: each allocation group starts with a copy"), "{lost}");
    let group_bytes = {
        let field = |range: std::ops::Range<usize>| {
            u64::from(u32::from_be_bytes(copy[range].try_into().unwrap()))
        };
        field(4..8) * field(84..88)
    };
    let offset = format!("--offset={group_bytes}");
    let shown = transcript(&place.run(&["dump", &offset, "image", "sb"]));
    assert!(shown.contains("block_size = 1024\n"), "{shown}");
    assert!(shown.contains("verification: passed\n"), "{shown}");
}

/// Checks the table of docs/exit-codes.md: for each row, commands of several kinds exit with the
/// code of the row.
#[test]
fn exit_codes_are_as_documented() {
    let place = GoldenDir::new();
    let write = |name: &str, bytes: &[u8]| fs::write(place.path().join(name), bytes).unwrap();
    write("zeros", &[0; 1 << 20]);
    write("text", "text\n".repeat(20_000).as_bytes());
    let mut headless = golden();
    headless.replace(DiskAddr(0), &[0; 512]);
    write_image(&headless, &place.path().join("headless"));
    let reading = ["info", "ls", "tree", "stat", "find", "du", "getfattr", "getfacl", "log"];
    let changing = [["mkdir", ":/d"], ["touch", ":/f"], ["rm", ":/f"], ["label", ""], ["uuid", ""]];
    let check = |arguments: &[&str], code: i32| {
        let output = place.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", transcript(&output));
    };
    for command in reading {
        check(&[command, "image"], 0);
        check(&[command, "none"], 1);
        check(&[command, "--partition", "1", "image"], 2);
        check(&[command, "--offset", "1t", "image"], 2);
        check(&[command, "--no-such-option", "image"], 2);
        for not_xfs in ["text", "zeros"] {
            check(&[command, not_xfs], 3);
            check(&[command, "--offset", "0", not_xfs], 3);
            check(&[command, "--offset", "1k", not_xfs], 3);
        }
        check(&[command, "headless"], 5);
        check(&[command, "--offset", "0", "headless"], 5);
    }
    for [command, path] in changing {
        for (image, code) in [("none", 1), ("text", 3), ("zeros", 3), ("headless", 5)] {
            check(&[command, &format!("{image}{path}")], code);
        }
        check(&[command, "--offset", "0", &format!("text{path}")], 3);
    }
    for options in [["-dagcount=1000000", "new"], ["-bsize=3000", "new"], ["-isize=7", "new"]] {
        check(&[&["mkfs", "-dsize=300m"][..], &options].concat(), 2);
        assert!(!place.path().join("new").exists(), "{options:?}");
    }
    check(&["mkfs", "-dsize=1m", "new"], 2);
    check(&["mkfs", "new"], 1);
    check(&["mkfs", "--unsupported", "image"], 1);
    check(&["mkfs", "-dsize=320m", "-rzoned=1", "new"], 2);
}

#[test]
fn volume_without_its_first_sector_says_what_can_be_done() {
    let mut image = golden();
    image.replace(DiskAddr(0), &[0; 512]);
    let place = GoldenDir::with(&image);
    for command in ["ls", "info"] {
        expect![[r#"
            ! ferroxfs: image: superblock at disk address 0: magic number is 0x0, not 0x58465342
            ! hint: ferroxfs check looks for a copy of the superblock, and ferroxfs repair restores it
            exit 5
        "#]]
        .assert_eq(&transcript(&place.run(&[command, "image"])));
    }
}

#[test]
fn volume_without_its_first_sectors_gets_the_hint_of_check_and_repair() {
    let mut image = golden();
    image.replace(DiskAddr(0), &[0; 4096]);
    let place = GoldenDir::with(&image);
    for command in ["ls", "info", "log", "recover"] {
        let said = transcript(&place.run(&[command, "image"]));
        assert!(said.contains("ferroxfs check looks for a copy of the superblock"), "{said}");
        assert!(said.contains("ferroxfs repair"), "{said}");
    }
    assert_eq!(place.run(&["repair", "--yes", "image"]).status.code(), Some(1));
    assert!(place.run(&["ls", "image"]).status.success());
}
