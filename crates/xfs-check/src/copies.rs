//! The copies of the superblock, one in each group.

use xfs_format::superblock::{Superblock, SuperblockError};
use xfs_format::{AgNumber, BlockKind, IncompatFeatures, InodeNumber, StructureAddress};

use crate::blocks::{Findings, Volume};
use crate::code::Code;
use crate::finding::{Finding, Place};

/// Compares the copy of a group with the superblock.
pub(crate) fn check(volume: Volume<'_>, number: AgNumber, findings: &mut Findings) {
    let geometry = volume.geometry();
    let at = geometry.header_disk_addr(number, 0);
    let place = Place::of_address(at, geometry);
    let mut sector = vec![0; geometry.sector_size as usize];
    let damaged = |findings: &mut Findings, found: String| {
        findings.push(Finding::new(Code::SbCopyDamaged, place, found));
    };
    if let Err(error) = volume.read(at, &mut sector) {
        return damaged(findings, error.to_string());
    }
    if let Err(corruption) = BlockKind::Superblock.verify(&sector, at, &volume.context()) {
        return damaged(findings, corruption.check().to_string());
    }
    let copy = match Superblock::decode(&sector, StructureAddress::Disk(at)) {
        Ok(copy) => copy,
        Err(SuperblockError::Corrupt(corruption)) => {
            return damaged(findings, corruption.check().to_string());
        }
        Err(SuperblockError::Unsupported(reason)) => return damaged(findings, reason.to_string()),
    };
    for (field, is_equal) in fields(volume.superblock, &copy) {
        if !is_equal {
            let found = format!("{field} differs from the superblock");
            findings.push(Finding::new(Code::SbCopy, place, found));
        }
    }
}

/// Returns the names of the fields that each copy repeats, each with whether the copy has the same
/// value. Counters, the flag of a running mkfs, quota and the log features are kept in the first
/// superblock only.
fn fields(first: &Superblock, copy: &Superblock) -> [(&'static str, bool); 16] {
    // A repair in progress is marked in the first superblock only.
    let mut geometry = first.geometry.clone();
    let is_marked = copy.geometry.has_incompat(IncompatFeatures::NEEDSREPAIR);
    geometry.incompat.set(IncompatFeatures::NEEDSREPAIR, is_marked);
    // mkfs writes the inodes of the volume into some of the copies only.
    let inode =
        |first: InodeNumber, copy: InodeNumber| copy.is_null() || copy.0 == 0 || first == copy;
    [
        ("the geometry", geometry == copy.geometry),
        ("the UUID", first.uuid == copy.uuid),
        ("the label", first.label == copy.label),
        ("the start of the log", first.log_start == copy.log_start),
        ("the length of the log", first.log_blocks == copy.log_blocks),
        ("the log's sector size", first.log_sector_size == copy.log_sector_size),
        ("the log's stripe unit", first.log_stripe_unit_bytes == copy.log_stripe_unit_bytes),
        ("the root inode", inode(first.root_inode, copy.root_inode)),
        (
            "the inode of the realtime bitmap",
            inode(first.realtime_bitmap_inode, copy.realtime_bitmap_inode),
        ),
        (
            "the inode of the realtime summary",
            inode(first.realtime_summary_inode, copy.realtime_summary_inode),
        ),
        ("the realtime blocks", first.realtime_blocks == copy.realtime_blocks),
        ("the limit on inodes", first.inode_max_percent == copy.inode_max_percent),
        ("the stripe unit", first.stripe_unit_blocks == copy.stripe_unit_blocks),
        ("the stripe width", first.stripe_width_blocks == copy.stripe_width_blocks),
        ("the compatible features", first.compat == copy.compat),
        ("the read-only-compatible features", first.ro_compat == copy.ro_compat),
    ]
}
