//! The fuzz targets of the programs for damaged volumes: the checker, and the readers that continue
//! past damage.
//!
//! Owns: the changes of an image, with and without a right checksum. Does **not** own: the choice
//! of the changed field, which is that of [`volume`](crate::volume).

use std::hint::black_box;

use xfs_check::{CheckOptions, check as check_volume};
use xfs_evidence::{Evidence, FoundBlock, find_superblock, sweep};
use xfs_format::free_space::{FreeSpaceByBlock, FreeSpaceBySize};
use xfs_format::inode::ForkKind;
use xfs_format::inode_chunk::{FreeInodeChunks, InodeChunks};
use xfs_format::refcount::Refcounts;
use xfs_format::rmap::ReverseMap;
use xfs_format::{AgNumber, InodeNumber, Superblock};
use xfs_testkit::{Image, golden};

use crate::volume::{MAX_CHANGES, MAX_GROUPS, apply};

/// The most inodes that are read of one image.
const MAX_INODES: usize = 4000;

/// Returns the golden image with some fields changed.
///
/// The changes have the form that [`volume`](crate::volume::volume) describes. If the highest bit
/// of a change is set, the checksum of the structure is left as it was, so it is wrong.
fn changed(input: &[u8]) -> Image {
    let mut image = golden();
    for change in input.as_chunks::<12>().0.iter().take(MAX_CHANGES) {
        let mut change = *change;
        let [first, ..] = &mut change;
        let is_resealed = *first & 0x80 == 0;
        *first &= 0x7f;
        apply(&mut image, &change, is_resealed);
    }
    image
}

/// Returns the superblock of an image, or that of a copy if the first one is damaged.
fn superblock(image: &Image) -> Option<Superblock> {
    find_superblock(image).ok().flatten().map(|found| found.superblock)
}

/// Fuzzes the checker with a whole image.
///
/// # Panics
///
/// Panics if the report contradicts itself.
pub fn check(input: &[u8]) {
    let image = changed(input);
    let Some(superblock) = superblock(&image) else { return };
    let options = CheckOptions::default().threads(1);
    let Ok(report) = check_volume(&image, &superblock, &options, &()) else { return };
    for consequence in &report.consequences {
        if let Some(cause) = consequence.cause {
            let cause = report.findings.get(cause).expect("a cause is a finding");
            assert!(cause.consequences > 0, "{cause} has the consequence {consequence}");
        }
    }
    black_box(report.findings.iter().map(ToString::to_string).collect::<Vec<_>>());
}

/// Fuzzes the readers of damaged volumes with a whole image: the sweep, the records of each group,
/// and everything about each inode that the sweep has seen.
pub fn evidence(input: &[u8]) {
    let image = changed(input);
    let Some(superblock) = superblock(&image) else { return };
    let evidence = Evidence::new(&image, &superblock);
    let mut inodes = Vec::new();
    black_box(sweep(&evidence, 0..MAX_GROUPS, &(), &mut |sighting, _| {
        let is_inode = matches!(sighting.what, FoundBlock::Inode { .. });
        if is_inode && inodes.len() < MAX_INODES {
            inodes.push(InodeNumber(sighting.owner));
        }
    }));
    for group in (0..superblock.geometry.ag_count.min(MAX_GROUPS)).map(AgNumber) {
        black_box(evidence.group_records::<InodeChunks>(group, |_, _| {}));
        black_box(evidence.group_records::<FreeInodeChunks>(group, |_, _| {}));
        black_box(evidence.group_records::<FreeSpaceByBlock>(group, |_, _| {}));
        black_box(evidence.group_records::<FreeSpaceBySize>(group, |_, _| {}));
        black_box(evidence.group_records::<ReverseMap>(group, |_, _| {}));
        black_box(evidence.group_records::<Refcounts>(group, |_, _| {}));
    }
    for number in inodes {
        inode(&evidence, number);
    }
}

fn inode(evidence: &Evidence<'_>, number: InodeNumber) {
    let inode = evidence.inode(number);
    for kind in [ForkKind::Data, ForkKind::Attr] {
        black_box(evidence.extents(&inode, kind));
        black_box(evidence.remains(&inode, kind));
    }
    black_box(evidence.entries(&inode));
    black_box(evidence.attributes(&inode));
    black_box(evidence.parents_left(&inode));
    black_box(evidence.link_target(&inode));
}
