//! Tests of the field `cause` of findings: each difference that follows from damage names the
//! finding of that damage as its cause.

use xfs_check::{CheckOptions, Code, Report, check};
use xfs_device::BlockDevice;
use xfs_format::{BlockKind, DiskAddr, StructureAddress, Superblock};
use xfs_testkit::{Image, golden};

const SECTOR_BYTES: usize = 512;

/// The magic numbers with which group headers, btree blocks, inodes and directory blocks begin.
const MAGICS: [&[u8]; 14] = [
    b"XAGF", b"XAGI", b"XAFL", b"AB3B", b"AB3C", b"IAB3", b"FIB3", b"RMB3", b"R3FC", b"BMA3",
    b"IN", b"XDD3", b"XDB3", b"XDF3",
];

fn report(image: &Image, threads: usize) -> Report {
    let mut sector = vec![0; SECTOR_BYTES];
    image.read_at(&mut sector, 0).expect("an image has a first sector");
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0)))
        .expect("the superblock is sound");
    let options = CheckOptions::default().threads(threads).key(1, 2);
    check(image, &superblock, &options, &()).expect("the volume is supported")
}

/// Returns the addresses of structures that begin with `magic`.
fn structures(image: &Image, magic: &[u8]) -> Vec<DiskAddr> {
    let sectors = image.length_bytes() / SECTOR_BYTES;
    let begins = |at: &DiskAddr| image.bytes(*at, magic.len()).is_some_and(|bytes| bytes == magic);
    (0..sectors as u64).map(DiskAddr).filter(begins).collect()
}

/// Returns a copy of `clean` in which one byte of the structure at `at` is changed, so that the
/// checksum of the structure is wrong.
fn damaged(clean: &Image, at: DiskAddr) -> Image {
    let mut image = clean.clone();
    image.edit_with(at, SECTOR_BYTES, |bytes| {
        let byte = bytes.get_mut(100).expect("a sector is longer");
        *byte ^= 0x10;
    });
    image
}

/// Checks C6 of `xfs_check::check`: the findings are the same with one thread and with several.
/// Also checks that each consequence names the finding at the damaged structure as its cause.
#[test]
fn each_consequence_of_damage_has_its_cause_with_any_number_of_threads() {
    let clean = golden();
    let mut consequences = 0;
    for magic in MAGICS {
        let all = structures(&clean, magic);
        assert!(!all.is_empty(), "{}", magic.escape_ascii());
        for at in all.into_iter().take(2) {
            let image = damaged(&clean, at);
            let (one, three) = (report(&image, 1), report(&image, 3));
            assert_eq!(one.findings, three.findings, "{at:?}");
            assert_eq!(one.consequences, three.consequences, "{at:?}");
            for consequence in &one.consequences {
                let cause = consequence.cause.and_then(|cause| one.findings.get(cause));
                let cause = cause.unwrap_or_else(|| panic!("{at:?}: {consequence}"));
                assert_eq!(cause.place.disk_addr, Some(at), "{consequence} by {cause}");
            }
            let counted: u64 = one.findings.iter().map(|finding| finding.consequences).sum();
            assert_eq!(counted, one.consequences.len() as u64, "{at:?}");
            consequences += counted;
        }
    }
    assert!(consequences > 100, "only {consequences} consequences");
}

#[test]
fn lost_inode_header_is_one_finding_with_the_names_of_its_inodes_as_consequences() {
    let clean = golden();
    let at = structures(&clean, b"XAGI").into_iter().next().expect("a group has an AGI");
    let report = report(&damaged(&clean, at), 2);
    let codes: Vec<Code> = report.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::AgiChecksum]);
    assert!(report.findings.first().is_some_and(|agi| agi.consequences > 10));
    assert!(!report.is_complete());
}

#[test]
fn finding_of_two_structures_says_what_each_of_them_states() {
    let mut image = golden();
    let at = structures(&image, b"XAGF").into_iter().next().expect("a group has an AGF");
    image.edit(at, SECTOR_BYTES, BlockKind::Agf, |bytes| {
        let byte = bytes.get_mut(55).expect("the count of free blocks");
        *byte ^= 1;
    });
    let report = report(&image, 1);
    let finding = report.findings.iter().find(|finding| finding.code == Code::AgfFreeBlocks);
    let finding = finding.expect("the count is a finding");
    let by: Vec<&str> = finding.evidence.iter().map(|witness| witness.by.as_str()).collect();
    assert_eq!(by, ["the AGF", "the btree of free space by block"]);
    let says: Vec<&str> = finding.evidence.iter().map(|witness| witness.says.as_str()).collect();
    assert_eq!(says, [finding.found.as_str(), finding.expected.as_str()]);
}

/// Changes the map of the first directory that has blocks: the map names the blocks of the first
/// group, from block 64 on, again and again. So the directory has more blocks than a check reads.
/// Returns the address of the directory's inode.
fn alias_a_directory(image: &mut Image) -> DiskAddr {
    let geometry = image.geometry();
    let is_directory = |at: &DiskAddr| {
        let inode = image.bytes(*at, 8).expect("a structure of the image");
        inode.get(2) == Some(&0x41) && inode.get(5) == Some(&2)
    };
    let at = structures(image, b"IN").into_iter().find(is_directory).expect("a directory");
    let length = u64::from(geometry.ag_blocks) - 64;
    let count = 2 * geometry.data_blocks / length + 2;
    image.edit(at, geometry.inode_size as usize, BlockKind::InodeCluster, |inode| {
        // No attribute fork, so that the map has room.
        put(inode, 76, &[0; 8]);
        put(inode, 24, &count.to_be_bytes());
        for index in 0..count {
            let extent = u128::from(index * length) << 73 | 64_u128 << 21 | u128::from(length);
            let offset = 176 + 16 * usize::try_from(index).expect("a few extents");
            put(inode, offset, &extent.to_be_bytes());
        }
    });
    at
}

fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    let field = bytes.get_mut(offset..offset + value.len()).expect("the field lies in the inode");
    field.copy_from_slice(value);
}

/// Checks C3 of the crate: the unread directory is a finding, and the report is not complete.
#[test]
fn directory_that_maps_the_same_blocks_many_times_is_left_unread() {
    let mut image = golden();
    let at = alias_a_directory(&mut image);
    let report = report(&image, 1);
    let aliased: Vec<_> =
        report.findings.iter().filter(|finding| finding.code == Code::DirAliased).collect();
    assert_eq!(aliased.len(), 1, "{at:?}");
    assert!(!report.is_complete() && !report.is_clean());
}

#[test]
fn findings_do_not_depend_on_the_number_of_rounds() {
    let clean = golden();
    let mut image = clean.clone();
    // An AGF, a leaf of a reverse map and a directory block: differences in every balance.
    for magic in [b"XAGF", b"RMB3", b"XDD3"] {
        let at = structures(&clean, magic).last().copied().expect("the image has the structure");
        image = damaged(&image, at);
    }
    let mut sector = vec![0; SECTOR_BYTES];
    image.read_at(&mut sector, 0).expect("an image has a first sector");
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0)))
        .expect("the superblock is sound");
    let options = CheckOptions::default().threads(2).key(1, 2);
    let at_once = check(&image, &superblock, &options, &()).expect("the volume is supported");
    let options = options.round_bytes(1);
    let in_rounds = check(&image, &superblock, &options, &()).expect("the volume is supported");
    assert!(!at_once.consequences.is_empty());
    assert_eq!(in_rounds.findings, at_once.findings);
    assert_eq!(in_rounds.consequences, at_once.consequences);
    assert_eq!(in_rounds.unchecked, at_once.unchecked);
}
