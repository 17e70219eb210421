//! Tests of disk images with partitions. A single XFS volume is found; if there are several, the
//! user must name one.

#![allow(clippy::little_endian_bytes, reason = "partition tables are little-endian")]

use std::fs::File;
use std::os::unix::fs::FileExt;

use expect_test::expect;
use xfs_testkit::golden;

use crate::{GoldenDir, shared, transcript, write_image_at};

const VOLUME_BYTES: u64 = 32 << 20;
const FIRST_BYTE: u64 = 1 << 20;
const LINUX: u8 = 0x83;

/// The kind of a partition table.
#[derive(Clone, Copy)]
enum Table {
    Gpt { sector: u64 },
    Mbr,
}

const TABLES: [Table; 3] = [Table::Gpt { sector: 512 }, Table::Gpt { sector: 4096 }, Table::Mbr];

/// Returns a disk image with three partitions. Those for which `has_xfs` is true hold the golden
/// volume.
fn disk(table: Table, has_xfs: [bool; 3]) -> GoldenDir {
    let place = GoldenDir::new();
    let path = place.path().join("disk");
    let disk = File::create(&path).unwrap();
    disk.set_len(FIRST_BYTE * 2 + 3 * VOLUME_BYTES).unwrap();
    let starts: [u64; 3] = std::array::from_fn(|index| FIRST_BYTE + index as u64 * VOLUME_BYTES);
    match table {
        Table::Gpt { sector } => write_gpt(&disk, sector, starts),
        Table::Mbr => {
            write_mbr(&disk, starts.map(|start| (LINUX, start / 512, VOLUME_BYTES / 512)))
        }
    }
    for (start, has_xfs) in starts.into_iter().zip(has_xfs) {
        if has_xfs {
            write_image_at(&golden(), &disk, start);
        }
    }
    place
}

/// Writes a master boot record with these partitions: type, first sector and number of sectors.
fn write_mbr(disk: &File, entries: impl IntoIterator<Item = (u8, u64, u64)>) {
    let mut record = [0; 512];
    record[510..].copy_from_slice(&[0x55, 0xaa]);
    for (index, (kind, first, count)) in entries.into_iter().enumerate() {
        let entry = &mut record[446 + 16 * index..][..16];
        entry[4] = kind;
        entry[8..12].copy_from_slice(&(first as u32).to_le_bytes());
        entry[12..].copy_from_slice(&(count as u32).to_le_bytes());
    }
    disk.write_all_at(&record, 0).unwrap();
}

/// Writes the first copy of a GPT, after a protective master boot record. `starts` are the byte
/// offsets of the partitions, and `sector` is the sector size in bytes.
fn write_gpt(disk: &File, sector: u64, starts: [u64; 3]) {
    write_mbr(disk, [(0xee, 1, u64::from(u32::MAX))]);
    let mut table = vec![0; 128 * 128];
    for (entry, start) in table.chunks_mut(128).zip(starts) {
        entry[..16].fill(0x11);
        entry[32..40].copy_from_slice(&(start / sector).to_le_bytes());
        entry[40..48].copy_from_slice(&((start + VOLUME_BYTES) / sector - 1).to_le_bytes());
        entry[56] = b'p';
    }
    let mut header = [0; 92];
    header[..8].copy_from_slice(b"EFI PART");
    header[12..16].copy_from_slice(&92_u32.to_le_bytes());
    header[24..32].copy_from_slice(&1_u64.to_le_bytes());
    header[72..80].copy_from_slice(&2_u64.to_le_bytes());
    header[80..84].copy_from_slice(&128_u32.to_le_bytes());
    header[84..88].copy_from_slice(&128_u32.to_le_bytes());
    header[88..].copy_from_slice(&crc32fast::hash(&table).to_le_bytes());
    let crc = crc32fast::hash(&header);
    header[16..20].copy_from_slice(&crc.to_le_bytes());
    disk.write_all_at(&header, sector).unwrap();
    disk.write_all_at(&table, 2 * sector).unwrap();
}

/// Checks that a command shows the same for the path `address` in a partition of the disk, and for
/// that path in the image of the volume alone.
#[track_caller]
fn check_same(place: &GoldenDir, options: &[&str], command: &[&str], address: &str) {
    let run = |place: &GoldenDir, options: &[&str], address: &str| {
        transcript(&place.run(&[options, command, &[address]].concat()))
    };
    let expected = run(shared(), &[], &format!("image{address}"));
    assert!(!expected.contains("exit"), "{expected}");
    assert_eq!(run(place, options, &format!("disk{address}")), expected);
}

#[test]
fn only_xfs_partition_is_found() {
    for table in TABLES {
        for index in 0..3 {
            let place = disk(table, std::array::from_fn(|other| other == index));
            check_same(&place, &[], &["ls", "-laRi"], ":/");
            check_same(&place, &[], &["cat"], ":/files/original");
            check_same(&place, &[], &["du", "-a"], "");
        }
    }
}

#[test]
fn one_of_several_xfs_partitions_must_be_named() {
    for table in TABLES {
        let place = disk(table, [true, false, true]);
        let found = transcript(&place.run(&["ls", "disk"]));
        assert!(found.ends_with("exit 2\n"), "{found}");
        for part in ["partition 1: 33554432 bytes", "partition 3: 33554432 bytes", "--partition"] {
            assert!(found.contains(part), "{part}: {found}");
        }
        assert!(!found.contains("partition 2"), "{found}");
        for number in ["1", "3"] {
            check_same(&place, &["--partition", number], &["ls", "-laRi"], ":/");
        }
        let offset = (FIRST_BYTE + 2 * VOLUME_BYTES).to_string();
        check_same(&place, &["--offset", &offset], &["ls", "-laRi"], ":/");
    }
}

#[test]
fn list_of_partitions_shows_their_offsets() {
    let place = disk(Table::Gpt { sector: 4096 }, [true, false, true]);
    expect![[r#"
        ! ferroxfs: disk: has several XFS partitions: partition 1: 33554432 bytes at 1048576, an XFS volume, named "p"; partition 3: 33554432 bytes at 68157440, an XFS volume, named "p"
        ! hint: choose one with --partition N
        exit 2
    "#]].assert_eq(&transcript(&place.run(&["info", "disk"])));
}

#[test]
fn missing_partition_is_a_usage_error() {
    for table in TABLES {
        let place = disk(table, [true, false, true]);
        for options in [["--partition", "4"], ["--partition", "0"], ["--offset", "1000000000"]] {
            let output = place.run(&[&options[..], &["ls", "disk"]].concat());
            assert_eq!(output.status.code(), Some(2), "{}", transcript(&output));
        }
        let output = place.run(&["--partition", "2", "ls", "disk"]);
        assert!(matches!(output.status.code(), Some(3)), "{}", transcript(&output));
    }
}

#[test]
fn disk_without_xfs_is_refused() {
    for table in TABLES {
        let output = disk(table, [false; 3]).run(&["ls", "disk"]);
        assert_eq!(output.status.code(), Some(3), "{}", transcript(&output));
    }
}

#[test]
fn truncated_disk_shows_its_remaining_partitions() {
    for table in TABLES {
        let place = disk(table, [true, true, false]);
        let file = File::options().write(true).open(place.path().join("disk")).unwrap();
        file.set_len(FIRST_BYTE + VOLUME_BYTES * 3 / 2).unwrap();
        check_same(&place, &["--partition", "1"], &["ls", "-laRi"], ":/");
        let output = place.run(&["--partition", "2", "--no-recovery", "ls", "-R", "disk"]);
        assert_eq!(output.status.code(), Some(5), "{}", transcript(&output));
        assert!(!output.stdout.is_empty());
    }
}
