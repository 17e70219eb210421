//! Tests of two promises that no finding shows: the checker shares no code with the writer, and
//! writes nothing.

use xfs_check::{CheckOptions, check};
use xfs_device::BlockDevice;
use xfs_format::{AgNumber, BlockKind, DiskAddr, StructureAddress, Superblock};
use xfs_testkit::{Image, NeverWritten, golden};

const SECTOR_BYTES: usize = 512;

/// Checks C1 of the crate: of the crates of the project, it depends only on these three. None of
/// them writes volumes or depends on a crate that does.
#[test]
fn manifest_names_no_crate_that_writes_volumes() {
    let (_, rest) = include_str!("../../Cargo.toml").split_once("[dependencies]\n").unwrap();
    let (dependencies, _) = rest.split_once("\n[").unwrap();
    let names = dependencies.lines().filter_map(|line| line.split(['.', ' ']).next());
    let own: Vec<_> = names.filter(|name| name.starts_with("xfs-")).collect();
    assert_eq!(own, ["xfs-device", "xfs-format", "xfs-sync"]);
}

/// Returns whether a whole check of the image finds nothing. The device panics when it is written.
fn is_clean(image: Image, threads: usize) -> bool {
    let device = NeverWritten::new(image);
    let mut sector = [0; SECTOR_BYTES];
    device.read_at(&mut sector, 0).expect("an image has a first sector");
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0)))
        .expect("the superblock is sound");
    let options = CheckOptions::default().threads(threads);
    check(&device, &superblock, &options, &()).expect("known features").is_clean()
}

/// Checks C2 of the crate: a check writes nothing, neither on a sound volume nor on one with a
/// wrong count of free blocks.
#[test]
fn whole_check_writes_nothing() {
    let mut damaged = golden();
    let at = damaged.geometry().header_disk_addr(AgNumber(0), 1);
    damaged.edit(at, SECTOR_BYTES, BlockKind::Agf, |agf| agf[55] ^= 1);
    for threads in [1, 3] {
        assert!(is_clean(golden(), threads));
        assert!(!is_clean(damaged.clone(), threads));
    }
}
