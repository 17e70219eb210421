//! The contents of a quota inode: blocks of dquots.
//!
//! Owns: the checks of each block of dquots, and the check that its dquots have the owners that the
//! place of the block in the file implies. Does **not** own: the counts. xfs_repair compares them
//! with the inodes.
//!
//! A kernel trusts dquots only while the superblock says that the counts of their type were
//! checked. Otherwise the next mount with quota writes every dquot again, and damage does no harm.

use xfs_format::dquot::{self, QuotaFlags, QuotaKind};
use xfs_format::{
    BlockKind, Check, DiskAddr, FileBlock, FormatVersion, FsBlock, InodeNumber, Superblock,
};

use crate::code::Code;
use crate::facts::Facts;
use crate::finding::Finding;
use crate::fork::ForkMap;
use crate::inode::{Inode, Pass};

/// Returns the type of quota that an inode holds, or `None` for every other inode. A volume of
/// version 4 has one inode for groups or projects, whichever it counts.
pub(crate) fn kind_of(superblock: &Superblock, number: InodeNumber) -> Option<QuotaKind> {
    let mut kinds = QuotaKind::ALL.into_iter().zip(superblock.quota_inodes);
    let (kind, _) = kinds.find(|(_, inode)| *inode == Some(number))?;
    let flags = QuotaFlags::from_bits_retain(superblock.quota_flags);
    let is_shared = kind == QuotaKind::Group && superblock.geometry.version == FormatVersion::V4;
    let counts_projects = flags.contains(QuotaFlags::PROJECT_ACCOUNTED);
    Some(if is_shared && counts_projects { QuotaKind::Project } else { kind })
}

/// Checks the blocks of a quota inode. The size of the inode is 0, whatever blocks it maps.
pub(crate) fn check<T: Facts>(
    pass: &mut Pass<'_, T>,
    inode: &Inode<'_>,
    map: &ForkMap,
    kind: QuotaKind,
) {
    for extent in &map.extents {
        for index in 0..extent.length_blocks {
            if !pass.take_reads(1) {
                return;
            }
            let block = FileBlock(extent.file_block.0 + u64::from(index));
            let start = FsBlock(extent.start.0 + u64::from(index));
            let Some(at) = pass.geometry().block_disk_addr(start) else { continue };
            check_block(pass, inode, PlacedDquots { kind, block, at });
        }
    }
}

/// A block of dquots: the type of quota that its inode holds, its block number in that inode, and
/// its disk address.
#[derive(Clone, Copy)]
struct PlacedDquots {
    kind: QuotaKind,
    block: FileBlock,
    at: DiskAddr,
}

fn check_block<T: Facts>(pass: &mut Pass<'_, T>, inode: &Inode<'_>, placed: PlacedDquots) {
    let mut place = inode.place(pass.geometry()).at_file_block(placed.block, false);
    place.disk_addr = Some(placed.at);
    let mut bytes = vec![0; pass.geometry().block_size as usize];
    let (code, found) = match pass.volume.read(placed.at, &mut bytes) {
        Err(error) => (Code::QuotaUnreadable, error.to_string()),
        Ok(()) => match verify(pass, &bytes, placed) {
            Ok(()) => return,
            Err(check) => (Code::QuotaDquot, check.to_string()),
        },
    };
    let flags = QuotaFlags::from_bits_retain(pass.volume.superblock.quota_flags);
    let is_trusted = flags.contains(placed.kind.checked_flag(pass.geometry().version));
    let code = if is_trusted { code } else { Code::QuotaStale };
    pass.findings.push(Finding::new(code, place, found));
}

/// Verifies a block of dquots, and checks that its first dquot has the owner that the place of the
/// block in the file implies. The verifier checks that the owners of the other dquots follow in
/// order.
fn verify<T: Facts>(pass: &Pass<'_, T>, bytes: &[u8], placed: PlacedDquots) -> Result<(), Check> {
    let verdict = BlockKind::Dquots.verify(bytes, placed.at, &pass.volume.context());
    verdict.map_err(|corruption| corruption.check().clone())?;
    let first = dquot::dquot_at(bytes, 0).expect("a verified block has a dquot");
    let id = placed.block.0 * u64::from(dquot::dquots_per_block(pass.geometry()));
    // No owner has a greater ID than the last block of 32-bit IDs holds.
    first.verify_owner(placed.kind, u32::try_from(id).unwrap_or(u32::MAX))
}
