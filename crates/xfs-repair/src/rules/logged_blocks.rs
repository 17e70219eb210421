//! Rule `logged-blocks`: restores damaged metadata blocks from the chunks (128 bytes each) that the
//! log has of these blocks.
//!
//! Owns: which blocks are looked for, and writing them. Does **not** own: reading the log, and the
//! proof that a block is right (both in `xfs-evidence`).
//!
//! A block is written only if the check of this round has found damage in it. A program that does
//! not use the log, such as `xfs_repair`, may have freed the block. It may hold file data now, and
//! a damaged pointer may have led the check to it. So the rule writes no block that the reverse map
//! gives to the data fork of another file. A volume without a reverse map does not have this
//! safeguard.

use std::collections::{BTreeMap, BTreeSet};

use xfs_check::{Code, Place};
use xfs_evidence::{BlockProof, LoggedBlock};
use xfs_format::rmap::{RmapFlags, RmapOwner};
use xfs_format::{BlockKind, DiskAddr};

use crate::action::Action;
use crate::damage::Damage;
use crate::error::RepairError;
use crate::patient::Patient;

/// The name of this rule in plans and messages.
const RULE: &str = "logged-blocks";

/// Writes the damaged blocks whose contents the log proves. Headers and btree blocks of a group are
/// written only if no rule has changed the volume yet, because the other rules keep data that they
/// have read from these blocks.
///
/// # Errors
///
/// The error of the overlay.
pub(super) fn run(patient: &mut Patient, damage: &Damage) -> Result<(), RepairError> {
    let blocks = damaged_blocks(damage);
    if blocks.is_empty() {
        return Ok(());
    }
    let is_first = patient.count_actions() == 0;
    let wanted = |at: DiskAddr| blocks.contains_key(&at);
    let found =
        patient.evidence().logged_blocks(patient.shared_device(), wanted, || patient.continues());
    patient.poll()?;
    let usable = |at: DiskAddr, block: &LoggedBlock| {
        (is_first || block.inode().is_some()) && !holds_file_data(patient, at, block)
    };
    let found = Vec::from_iter(found.into_iter().filter(|(at, block)| usable(*at, block)));
    for (at, block) in found {
        patient.write(at, &block.bytes)?;
        let codes = blocks.get(&at).expect("only these blocks are wanted");
        let mut place = Place::of_address(at, patient.geometry());
        place.inode = block.inode();
        let keeps = match block.proof {
            BlockProof::Checksum => "the whole block: its checksum fits what the log has of it",
            BlockProof::NewestInLog => "the whole block: the log has its newest state",
        };
        let codes = codes.iter().copied().collect();
        patient.act(Action::new(RULE, place, codes, keeps));
    }
    if is_first && patient.count_actions() != 0 {
        patient.forget_groups();
    }
    Ok(())
}

/// Returns whether the reverse map gives a part of the block to a data fork to which the logged
/// block does not belong. A logged block belongs to a data fork only if it is of a directory or a
/// symbolic link.
fn holds_file_data(patient: &Patient, at: DiskAddr, block: &LoggedBlock) -> bool {
    let geometry = patient.geometry();
    let Some((group, start)) = geometry.split_disk_addr(at) else { return false };
    let blocks = block.bytes.len().div_ceil(geometry.block_size as usize);
    let end = u64::from(start.0) + blocks as u64;
    let is_in_data_fork = matches!(
        block.kind,
        BlockKind::Symlink
            | BlockKind::DirectoryData
            | BlockKind::DirectoryIndex
            | BlockKind::DirectoryFree
    );
    let own = block.inode().filter(|_| is_in_data_fork);
    patient.reverse_map(group).records.iter().any(|record| {
        let RmapOwner::Inode(owner) = record.owner else { return false };
        let is_data = !record.flags.intersects(RmapFlags::ATTR | RmapFlags::FORK_BTREE);
        let overlaps = u64::from(record.start.0) < end && start < record.end();
        is_data && overlaps && own != Some(owner)
    })
}

/// Returns the addresses of the blocks in which the check has found damage, each with the codes of
/// the findings.
fn damaged_blocks(damage: &Damage) -> BTreeMap<DiskAddr, BTreeSet<Code>> {
    let of_inodes = damage.inodes.values().flatten();
    let all = of_inodes.chain(damage.groups.values().flatten()).chain(&damage.volume);
    let mut blocks: BTreeMap<DiskAddr, BTreeSet<Code>> = BTreeMap::new();
    for finding in all {
        if let Some(at) = finding.place.disk_addr {
            blocks.entry(at).or_default().insert(finding.code);
        }
    }
    blocks
}
