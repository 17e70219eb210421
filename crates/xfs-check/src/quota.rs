//! The contents of a quota inode: blocks of dquots.
//!
//! Owns: the checks of each block of dquots, the check that its dquots have the owners that the
//! place of the block in the file implies, and the facts about the usage of owners. Does **not**
//! own: the comparison of these facts.
//!
//! A kernel trusts dquots only while the superblock says that the counts of their type were
//! checked. Otherwise the next mount with quota writes every dquot again, and damage does no harm.

use xfs_format::dquot::{self, QuotaFlags, QuotaKind};
use xfs_format::inode::InodeFlags2;
use xfs_format::{
    BlockKind, Check, DiskAddr, FileBlock, FormatVersion, FsBlock, InodeNumber, Superblock,
};

use crate::blocks::Volume;
use crate::code::Code;
use crate::facts::{Facts, Gap, QuotaOwner, Usage};
use crate::finding::Finding;
use crate::fork::ForkMap;
use crate::inode::Pass;
use crate::used_inode::Inode;

/// Returns the type of quota that an inode holds, or `None` for every other inode. A volume of
/// version 4 has one inode for groups or projects, whichever it counts.
pub(crate) fn kind_of(volume: Volume<'_>, number: InodeNumber) -> Option<QuotaKind> {
    let superblock = volume.superblock;
    let mut kinds = QuotaKind::ALL.into_iter().zip(volume.quota_inodes());
    let (kind, _) = kinds.find(|(_, inode)| *inode == Some(number))?;
    let flags = QuotaFlags::from_bits_retain(superblock.quota_flags);
    let is_shared = kind == QuotaKind::Group && superblock.geometry.version == FormatVersion::V4;
    let counts_projects = flags.contains(QuotaFlags::PROJECT_ACCOUNTED);
    Some(if is_shared && counts_projects { QuotaKind::Project } else { kind })
}

/// Returns whether the superblock says that the counts of a type of quota are right, so that they
/// are compared with the inodes.
fn is_trusted(superblock: &Superblock, kind: QuotaKind) -> bool {
    let flags = QuotaFlags::from_bits_retain(superblock.quota_flags);
    flags.contains(kind.checked_flag(superblock.geometry.version))
}

/// Returns the types of quota whose counts are compared with the inodes: those that have a quota
/// inode and are marked as checked.
fn compared(volume: Volume<'_>) -> impl Iterator<Item = QuotaKind> {
    let inodes = volume.quota_inodes().into_iter().flatten();
    let kinds = inodes.filter_map(move |inode| kind_of(volume, inode));
    kinds.filter(move |kind| is_trusted(volume.superblock, *kind))
}

/// Passes the usage that an inode adds to its owners to the receiver of facts. `data` is the map of
/// its data fork; `None` if nothing of the map could be read. The quota inodes and the metadata
/// directory count for no owner.
pub(crate) fn count<T: Facts>(pass: &mut Pass<'_, T>, inode: &Inode<'_>, data: Option<&ForkMap>) {
    let (superblock, core) = (pass.volume.superblock, &inode.core);
    let is_metadata = core.flags2.contains(InodeFlags2::METADATA);
    if superblock.quota_flags == 0 || is_metadata || kind_of(pass.volume, inode.number()).is_some()
    {
        return;
    }
    // Only the map tells how many of the inode's blocks are in the realtime section.
    if core.is_realtime() && data.is_none_or(|map| !map.is_whole) {
        lose(pass);
    }
    let realtime_blocks = data.map_or(0, |map| map.realtime_blocks);
    let blocks = core.blocks.saturating_sub(realtime_blocks);
    let usage = Usage { inodes: 1, blocks, realtime_blocks };
    for kind in compared(pass.volume) {
        let id = match kind {
            QuotaKind::User => core.uid,
            QuotaKind::Group => core.gid,
            QuotaKind::Project => core.project_id,
        };
        pass.facts.usage(QuotaOwner { kind, id }, &usage);
    }
}

/// Records that the usage of an inode or the dquots of a block are not known.
pub(crate) fn lose<T: Facts>(pass: &mut Pass<'_, T>) {
    if compared(pass.volume).next().is_some() {
        pass.facts.gap(Gap::Usage);
    }
}

/// Checks the blocks of a quota inode. The size of the inode is 0, whatever blocks it maps. `map`
/// is `None` if the extents cannot be read.
pub(crate) fn check<T: Facts>(
    pass: &mut Pass<'_, T>,
    inode: &Inode<'_>,
    map: Option<&ForkMap>,
    kind: QuotaKind,
) {
    let Some(map) = map else { return lose(pass) };
    if !map.is_whole {
        lose(pass);
    }
    for extent in &map.extents {
        for index in 0..extent.length_blocks {
            if !pass.take_reads(1) {
                lose(pass);
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
            Ok(()) => return state(pass, &bytes, placed.kind),
            Err(check) => (Code::QuotaDquot, check.to_string()),
        },
    };
    let is_trusted = is_trusted(pass.volume.superblock, placed.kind);
    let code = if is_trusted { code } else { Code::QuotaStale };
    lose(pass);
    pass.findings.push(Finding::new(code, place, found));
}

/// Passes the usage that the dquots of a verified block state to the receiver of facts.
fn state<T: Facts>(pass: &mut Pass<'_, T>, bytes: &[u8], kind: QuotaKind) {
    if !is_trusted(pass.volume.superblock, kind) {
        return;
    }
    for index in 0..dquot::dquots_per_block(pass.geometry()) {
        let dquot = dquot::dquot_at(bytes, index).expect("a verified block has all dquots");
        let usage = Usage {
            inodes: dquot.inodes.get(),
            blocks: dquot.blocks.get(),
            realtime_blocks: dquot.realtime_blocks.get(),
        };
        // Most dquots of a block are unused.
        if usage != Usage::default() {
            pass.facts.dquot(QuotaOwner { kind, id: dquot.id.get() }, &usage);
        }
    }
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
