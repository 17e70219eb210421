//! Scans damaged images. Checks that each scan reports lost data, and that all other rows are
//! present.

use serde_json::Value;
use xfs_format::{BlockKind, DiskAddr, Geometry, InodeNumber};
use xfs_testkit::{Image, Prng, golden};

use crate::support::{Scanned, options, scan_image};

const INODE_BYTES: usize = 512;

fn place(geometry: &Geometry, ino: u64) -> DiskAddr {
    let place = geometry.inode_location(InodeNumber(ino)).unwrap();
    DiskAddr(place.cluster.0 + u64::from(place.offset_bytes / 512))
}

fn ino_of(path: &str) -> u64 {
    let paths = scan_image(&golden(), &options(1)).paths();
    let found = paths.iter().find(|(_, paths)| paths.iter().any(|found| found == path));
    *found.unwrap_or_else(|| panic!("no {path}")).0
}

/// Returns the golden image with the inode at `path` changed by `change`, and with a valid
/// checksum.
fn with_inode(path: &str, change: impl FnOnce(&mut [u8])) -> Image {
    let mut image = golden();
    let at = place(&image.geometry(), ino_of(path));
    image.edit(at, INODE_BYTES, BlockKind::InodeCluster, change);
    image
}

/// Returns the golden image after the parent pointer of `path` was set to `new_parent`. The
/// generation in the pointer is that of `new_parent` plus `generation_change`.
fn reparented(path: &str, new_parent: &str, generation_change: u32) -> Image {
    let old = path.rsplit_once('/').map_or("/", |(parent, _)| parent);
    let old_parent = ino_of(if old.is_empty() { "/" } else { old }).to_be_bytes();
    let new_parent = ino_of(new_parent);
    let image = golden();
    let parent_inode = image.bytes(place(&image.geometry(), new_parent), INODE_BYTES).unwrap();
    let generation = u32::from_be_bytes(parent_inode[92..96].try_into().unwrap());
    with_inode(path, |bytes| {
        let found =
            bytes.windows(8).skip(176).position(|window| window == old_parent).unwrap() + 176;
        bytes[found..found + 8].copy_from_slice(&new_parent.to_be_bytes());
        let generation = generation.wrapping_add(generation_change);
        bytes[found + 8..found + 12].copy_from_slice(&generation.to_be_bytes());
    })
}

fn row_of(scanned: &Scanned, ino: u64) -> Option<&Value> {
    scanned.of_kind("inode").find(|row| row["ino"] == ino)
}

#[track_caller]
fn check_orphans(image: &Image, codes: &[&str], orphans: &[&str]) {
    let scanned = scan_image(image, &options(2));
    assert_eq!(scanned.codes(), codes);
    assert_eq!(scanned.report.inodes, scan_image(&golden(), &options(2)).report.inodes);
    let found = scanned.of_kind("inode").filter(|row| row["orphan"] == true);
    let mut found: Vec<_> = found.map(|row| row["ino"].as_u64().unwrap()).collect();
    let mut expected: Vec<_> = orphans.iter().map(|path| ino_of(path)).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn parent_cycle_is_reported_and_orphans_everything_below() {
    let image = reparented("/deep/1", "/deep/1/2/3", 0);
    let orphans: Vec<String> = (1..=8)
        .map(|depth| (1..=depth).fold("/deep".to_owned(), |path, name| format!("{path}/{name}")))
        .collect();
    let orphans: Vec<&str> = orphans.iter().map(String::as_str).collect();
    // The three directories of the cycle, and the one below it.
    check_orphans(&image, &["parent_cycle"; 4], &orphans);
    check_orphans(&reparented("/deep/1/2", "/deep/1/2", 0), &["parent_cycle"; 2], &orphans[1..]);
}

#[test]
fn parent_that_is_not_a_directory_is_a_finding() {
    let image = reparented("/files/sparse", "/files/empty", 0);
    check_orphans(&image, &["parent_missing"], &["/files/sparse"]);
}

#[test]
fn parent_of_another_generation_is_a_finding() {
    let image = reparented("/files/sparse", "/files", 1);
    check_orphans(&image, &["parent_stale"], &["/files/sparse"]);
}

#[test]
fn name_with_a_slash_is_a_finding() {
    let image = with_inode("/files/sparse", |bytes| {
        let at = bytes.windows(6).position(|window| window == b"sparse").unwrap();
        bytes[at + 2] = b'/';
    });
    check_orphans(&image, &["corrupt", "parent_missing"], &["/files/sparse"]);
}

/// Checks I1 of `xfs_scan::reader`: an inode with a wrong checksum gives a finding instead of a
/// row.
#[test]
fn inode_with_a_wrong_checksum_is_a_finding_without_a_row() {
    let ino = ino_of("/files/sparse");
    let mut image = golden();
    let at = place(&image.geometry(), ino);
    image.edit_with(at, INODE_BYTES, |bytes| bytes[60] ^= 1);
    let scanned = scan_image(&image, &options(2));
    assert_eq!(scanned.codes(), ["checksum"]);
    let finding = scanned.of_kind("error").next().unwrap();
    assert_eq!((finding["ino"].as_u64(), finding["inode_count"].as_u64()), (Some(ino), Some(1)));
    assert!(row_of(&scanned, ino).is_none());
}

#[test]
fn adjacent_lost_inodes_are_one_finding() {
    // Adjacent files of `many`. The fifth after a removed one was removed too.
    let first = ino_of("/many/2");
    let mut image = golden();
    let at = place(&image.geometry(), first);
    image.replace(at, &[0; 3 * INODE_BYTES]);
    let scanned = scan_image(&image, &options(2));
    assert_eq!(scanned.codes(), ["magic"]);
    let finding = scanned.of_kind("error").next().unwrap();
    assert_eq!((finding["ino"].as_u64(), finding["inode_count"].as_u64()), (Some(first), Some(3)));
}

#[test]
fn truncated_image_loses_only_the_truncated_part() {
    let whole = scan_image(&golden(), &options(2)).report.inodes;
    for part in [1, 2, 4, 6, 7] {
        let mut image = golden();
        image.truncate(image.length_bytes() / 8 * part);
        let scanned = scan_image(&image, &options(3));
        let hidden: u64 =
            scanned.of_kind("error").map(|row| row["inode_count"].as_u64().unwrap()).sum();
        let has_lost_groups =
            scanned.of_kind("error").any(|row| row["ag"].is_u64() && row["ino"].is_null());
        assert!(scanned.report.inodes + hidden == whole || has_lost_groups, "{part} eighths");
        assert!(scanned.report.inodes > 0, "{part} eighths");
    }
}

#[test]
fn group_with_a_lost_header_is_a_finding() {
    let mut image = golden();
    let at = image.geometry().header_disk_addr(xfs_format::AgNumber(1), 2);
    image.edit_with(at, 512, |sector| sector[0] = 0);
    let scanned = scan_image(&image, &options(2));
    let finding = scanned.of_kind("error").next().unwrap();
    assert_eq!((finding["code"].as_str(), finding["ag"].as_u64()), (Some("magic"), Some(1)));
    assert!(scanned.report.inodes > 0);
}

/// Changes a few random bytes of one random structure, mostly of an inode, and makes its checksum
/// right again.
fn mutate(image: &mut Image, prng: &mut Prng, inos: &[u64]) {
    let geometry = image.geometry();
    let (at, length, kind) = match prng.within(0..4) {
        0 => {
            let block = DiskAddr(prng.within(0..geometry.ag_blocks as usize) as u64 * 2);
            (block, geometry.block_size as usize, BlockKind::DirectoryData)
        }
        1 => {
            let group = xfs_format::AgNumber(prng.within(0..geometry.ag_count as usize) as u32);
            (geometry.header_disk_addr(group, 2), 512, BlockKind::Agi)
        }
        _ => {
            let ino = *prng.choose(inos).unwrap();
            (place(&geometry, ino), INODE_BYTES, BlockKind::InodeCluster)
        }
    };
    image.edit(at, length, kind, |bytes| prng.mutate(bytes));
}

#[test]
fn corrupt_image_is_scanned_to_the_end() {
    let whole = scan_image(&golden(), &options(1));
    let inos: Vec<u64> = whole.paths().into_keys().collect();
    for seed in 0..150 {
        let mut prng = Prng::new(seed);
        let mut image = golden();
        for _ in 0..8 {
            mutate(&mut image, &mut prng, &inos);
        }
        let scanned = scan_image(&image, &options(2));
        assert_eq!(scanned.rows.last().unwrap()["row"], "end", "seed {seed}");
        assert!(scanned.report.inodes <= whole.report.inodes + 64, "seed {seed}");
    }
}
