//! Damaged blocks of dquots.
//!
//! Owns: the dquots in blocks to which the map of a quota inode leads. Does **not** own: that map
//! (`search`), or counts. A kernel that finds a damaged dquot while it counts replaces the dquot by
//! one without limits, so the limits must be repaired before.
//!
//! | state of a dquot | result |
//! |---|---|
//! | passes all checks | stays |
//! | right checksum, another wrong field, in a block with a sound dquot | follows from the place |
//! | one bit is wrong | the bit is flipped |
//! | wrong checksum, right type and ID, possible limits | the limits stay, and may be wrong |
//! | anything else | a dquot without limits, with `--allow-loss` only |
//!
//! Counts and timers need no care: every plan with a change clears the flag of counts that were
//! checked, and the next mount with quota counts again.

use xfs_check::{Code, Finding, Place};
use xfs_evidence::InodeEvidence;
use xfs_format::dquot::{
    DQUOT_BLOCK_BYTES, DquotCheck, DquotDisk, QuotaKind, dquot_at, dquots_per_block, seal_block,
};
use xfs_format::inode::{FileType, ForkKind};
use xfs_format::rmap::RmapOwner;
use xfs_format::{Check, DiskAddr, FileBlock, FsBlock, InodeNumber, VerifyContext};
use zerocopy::IntoBytes;

use super::{RULE, text};
use crate::action::Action;
use crate::claims;
use crate::damage::Damage;
use crate::error::RepairError;
use crate::patient::Patient;

/// The result of a look at all blocks of dquots.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// Whether any block was written.
    pub(super) is_changed: bool,
    /// The damaged blocks that stay, because limits in them would be lost.
    pub(super) left: Vec<(QuotaKind, Finding)>,
}

/// A block of a quota inode.
#[derive(Clone, Copy, Debug)]
struct BlockOfDquots {
    kind: QuotaKind,
    inode: InodeNumber,
    file_block: FileBlock,
    block: FsBlock,
    at: DiskAddr,
    /// The ID of the first dquot.
    first: u32,
}

/// Repairs the damaged dquots in all blocks of the readable quota inodes.
///
/// # Errors
///
/// The error of the overlay. [`RepairError::Stopped`] if the caller stops the repair.
pub(super) fn run(patient: &mut Patient, damage: &Damage) -> Result<Settled, RepairError> {
    let mut settled = Settled::default();
    for (kind, inode) in super::inodes(patient) {
        let found = patient.evidence().inode(inode);
        let is_file = |found: &InodeEvidence| {
            found.core().is_some_and(|core| {
                core.file_type() == Some(FileType::Regular) && !core.is_realtime()
            })
        };
        if !found.is_sound() || !is_file(&found) {
            continue;
        }
        for placed in blocks_of(patient, &found, kind) {
            patient.poll()?;
            repair(patient, damage, placed, &mut settled)?;
        }
    }
    Ok(settled)
}

fn blocks_of(patient: &Patient, found: &InodeEvidence, kind: QuotaKind) -> Vec<BlockOfDquots> {
    let geometry = patient.geometry();
    let per_block = u64::from(dquots_per_block(geometry));
    let extents = patient.evidence().extents(found, ForkKind::Data).extents;
    let blocks = extents.into_iter().flat_map(|extent| {
        (0..u64::from(extent.length_blocks)).map(move |index| {
            (FileBlock(extent.file_block.0 + index), FsBlock(extent.start.0 + index))
        })
    });
    let placed = blocks.filter_map(|(file_block, block)| {
        let first = u32::try_from(file_block.0.checked_mul(per_block)?).ok()?;
        let at = geometry.block_disk_addr(block)?;
        Some(BlockOfDquots { kind, inode: found.number, file_block, block, at, first })
    });
    placed.collect()
}

fn repair(
    patient: &mut Patient,
    damage: &Damage,
    placed: BlockOfDquots,
    settled: &mut Settled,
) -> Result<(), RepairError> {
    let mut bytes = vec![0; patient.geometry().block_size as usize];
    if !patient.can_read(placed.at, &mut bytes) {
        return Ok(());
    }
    let Some(repaired) = repaired(&bytes, placed.kind, placed.first, &patient.context()) else {
        return Ok(());
    };
    let owners = format!("{}s", placed.kind.name());
    let lost = text::ranges(repaired.lost.iter().map(|id| (*id, *id)));
    let place = Place::of_inode(placed.inode, patient.geometry());
    let mut place = place.at_file_block(placed.file_block, false);
    place.disk_addr = Some(placed.at);
    let is_lossy = !repaired.lost.is_empty();
    // No dquot shows that the block belongs to the inode.
    let is_unproven = repaired.lost.len() == dquots_per_block(patient.geometry()) as usize;
    if (is_lossy && !patient.allows_loss()) || (is_unproven && !is_only_owner(patient, placed)?) {
        let found = format!("the limits of {owners} {lost} cannot be read");
        settled.left.push((placed.kind, Finding::new(Code::QuotaDquot, place, found)));
        return Ok(());
    }
    patient.write(placed.at, &repaired.bytes)?;
    settled.is_changed = true;
    let doubtful = match repaired.doubtful.as_slice() {
        [] => String::new(),
        ids => {
            let ids = text::ranges(ids.iter().map(|id| (*id, *id)));
            format!("; those of {owners} {ids} may be wrong, because their checksum is")
        }
    };
    let codes = damage.codes_of(placed.inode).into_iter().filter(super::is_quota).collect();
    let action = Action::new(RULE, place, codes, format!("all limits that can be read{doubtful}"));
    patient.act(match is_lossy {
        true => action.losing(Some(placed.inode), format!("the limits of {owners} {lost}")),
        false => action,
    });
    Ok(())
}

/// Returns whether no other owner can claim a block. A block in which no dquot is left is written
/// only then: the map that leads to it may be damaged.
fn is_only_owner(patient: &mut Patient, placed: BlockOfDquots) -> Result<bool, RepairError> {
    let model = patient.model()?;
    if claims::has_unknown_owner(&model) {
        return Ok(false);
    }
    let Some((group, block)) = patient.geometry().split_block(placed.block) else {
        return Ok(false);
    };
    let claims = claims::of_volume(patient, &model);
    let of_group = claims.get(&group).into_iter().flatten();
    let mut owners = of_group
        .into_iter()
        .filter(|claim| claim.start <= block && block < claim.end())
        .map(|claim| claim.owner);
    Ok(owners.all(|owner| owner == RmapOwner::Inode(placed.inode)))
}

/// A block of dquots after its repair.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RepairedBlock {
    bytes: Vec<u8>,
    /// The IDs of the dquots whose limits may be wrong.
    doubtful: Vec<u32>,
    /// The IDs of the dquots whose limits are lost.
    lost: Vec<u32>,
}

/// Repairs the dquots of a block. `first` is the ID of the first one. Returns `None` if no dquot is
/// damaged.
fn repaired(
    block: &[u8],
    kind: QuotaKind,
    first: u32,
    context: &VerifyContext<'_>,
) -> Option<RepairedBlock> {
    let count = dquots_per_block(context.geometry);
    let ids = (0..count).map(|index| (index, first.wrapping_add(index)));
    let owners = ids.map(|(index, id)| {
        let dquot = *dquot_at(block, index).expect("a block has all its dquots");
        (dquot, Owner { kind, id, context })
    });
    let owners: Vec<(DquotDisk, Owner<'_>)> = owners.collect();
    let is_own = owners.iter().any(|(dquot, owner)| owner.passes(dquot));
    if owners.iter().all(|(dquot, owner)| owner.passes(dquot)) {
        return None;
    }
    let mut bytes = block.to_vec();
    let (mut doubtful, mut lost) = (Vec::new(), Vec::new());
    for ((dquot, owner), target) in owners.iter().zip(bytes.chunks_exact_mut(DQUOT_BLOCK_BYTES)) {
        let new = match owner.restore(dquot, is_own) {
            Restored::Right(dquot) => dquot,
            Restored::Doubtful(dquot) => {
                doubtful.push(owner.id);
                dquot
            }
            Restored::Lost => {
                lost.push(owner.id);
                DquotDisk::unused(kind, owner.id, context.geometry)
            }
        };
        target.copy_from_slice(new.as_bytes());
    }
    let dquots = count as usize * DQUOT_BLOCK_BYTES;
    seal_block(bytes.get_mut(..dquots).expect("a block has all its dquots"));
    Some(RepairedBlock { bytes, doubtful, lost })
}

/// A dquot after its repair.
#[derive(Clone, Copy, Debug)]
enum Restored {
    /// All limits are right.
    Right(DquotDisk),
    /// The limits are possible, but their checksum is wrong.
    Doubtful(DquotDisk),
    /// The limits cannot be read.
    Lost,
}

/// The user, group or project to which a place in a quota inode belongs.
#[derive(Clone, Copy, Debug)]
struct Owner<'a> {
    kind: QuotaKind,
    id: u32,
    context: &'a VerifyContext<'a>,
}

impl Owner<'_> {
    fn passes(&self, dquot: &DquotDisk) -> bool {
        dquot.verify_owner(self.kind, self.id).is_ok()
            && dquot.verify_fields(self.context.geometry).is_ok()
            && dquot.verify_seal(self.context).is_ok()
    }

    /// Repairs a dquot. `is_own` says that another dquot of the block is sound and in its place, so
    /// the block as a whole is in its place, too.
    fn restore(&self, dquot: &DquotDisk, is_own: bool) -> Restored {
        if self.passes(dquot) {
            return Restored::Right(*dquot);
        }
        let is_sealed = !matches!(dquot.verify_seal(self.context), Err(Check::Checksum { .. }));
        if !is_sealed && let Some(right) = self.one_bit(dquot) {
            return Restored::Right(right);
        }
        let named = self.named(dquot);
        let is_named = named.fields() == dquot.fields();
        // If only the LSN is wrong, the dquot needs no other dquot as a witness.
        let is_in_place = is_own || (is_named && named.uuid == dquot.uuid);
        match self.possible(dquot) {
            Some(right) if is_sealed && is_in_place => Restored::Right(right),
            Some(possible) if !is_sealed && is_named => Restored::Doubtful(possible),
            _ => Restored::Lost,
        }
    }

    /// Returns the dquot with the fields that follow from its place, and the LSN 0.
    fn named(&self, dquot: &DquotDisk) -> DquotDisk {
        let unused = DquotDisk::unused(self.kind, self.id, self.context.geometry);
        // An old dquot keeps timers of its old form on a volume with bigtime.
        let is_old_form = dquot.kind == self.kind.bits();
        let kind = if is_old_form { dquot.kind } else { unused.kind };
        DquotDisk {
            magic: unused.magic,
            version: unused.version,
            kind,
            id: unused.id,
            lsn: 0.into(),
            uuid: unused.uuid,
            ..*dquot
        }
    }

    /// Returns the dquot with the fields that follow from its place. Its counts become 0 if a timer
    /// is missing for them: the next mount with quota counts again. Returns `None` if the limits
    /// are not possible.
    fn possible(&self, dquot: &DquotDisk) -> Option<DquotDisk> {
        let mut named = self.named(dquot);
        let geometry = self.context.geometry;
        if let Err(Check::Dquot(DquotCheck::Timer { .. })) = named.verify_fields(geometry) {
            (named.blocks, named.inodes, named.realtime_blocks) = (0.into(), 0.into(), 0.into());
        }
        named.verify_fields(geometry).ok()?;
        let limits = [
            (named.block_soft_limit, named.block_hard_limit),
            (named.inode_soft_limit, named.inode_hard_limit),
            (named.realtime_soft_limit, named.realtime_hard_limit),
        ];
        let is_possible = limits.iter().all(|(soft, hard)| hard.get() == 0 || soft <= hard);
        is_possible.then_some(named)
    }

    /// Returns the dquot that differs in one bit and passes all checks.
    fn one_bit(&self, dquot: &DquotDisk) -> Option<DquotDisk> {
        let bits = (0..DQUOT_BLOCK_BYTES).flat_map(|byte| (0..8).map(move |bit| (byte, 1 << bit)));
        bits.map(|(byte, mask)| {
            let mut flipped = *dquot;
            let target = flipped.as_mut_bytes().get_mut(byte);
            *target.expect("the byte lies in the dquot") ^= mask;
            flipped
        })
        .find(|flipped| self.passes(flipped))
    }
}

#[cfg(test)]
mod tests;
