//! Restores damaged inodes from the copies of them that the log still has.
//!
//! Owns: the decision whether the log states an inode completely. Does **not** own: reading the
//! log (`xfs-evidence`).
//!
//! Only the newest state of an inode is used. Its core is exact. A fork that the log lacks comes
//! from the damaged inode if it can be read there, or else from the reverse map. If a fork is in
//! neither of them, the log does not help, and the inode is restored in another way.

use xfs_check::{Code, Place};
use xfs_evidence::{InodeEvidence, LoggedInode};
use xfs_format::extent::{Extent, ExtentRules};
use xfs_format::inode::{self, CORE_BYTES, FORK_OFFSET_BYTES, ForkFormat, ForkKind, InodeCore};

use super::{RULE, fields};
use crate::action::Action;
use crate::error::RepairError;
use crate::fork::ForkContents;
use crate::patient::Patient;
use crate::rules::fork::{fits_count, in_order};

/// An inode that can be restored from the log. Its core is known, and the forks in `from_map` must
/// be rebuilt from the reverse map.
struct Candidate {
    core: InodeCore,
    bytes: Vec<u8>,
    /// The forks that neither the log nor the damaged inode has, each with its extents from the
    /// reverse map.
    from_map: Vec<(ForkKind, Vec<Extent>)>,
}

/// Restores an inode from the log. Returns `false`, and changes nothing, if the log does not have
/// the newest core, or if the extents of a fork are not known from any source.
///
/// # Errors
///
/// The errors of [`Patient::set_fork`].
pub(super) fn restore(
    patient: &mut Patient,
    logged: &LoggedInode,
    found: &InodeEvidence,
    codes: &[Code],
) -> Result<bool, RepairError> {
    let Some(candidate) = candidate(patient, logged, found) else { return Ok(false) };
    let Candidate { mut core, bytes, from_map } = candidate;
    if from_map.is_empty() {
        patient.write_raw_inode(found.number, &bytes)?;
    } else {
        for (kind, _) in &from_map {
            match kind {
                ForkKind::Data => (core.data_format, core.extents) = (ForkFormat::Extents, 0),
                ForkKind::Attr => (core.attr_format, core.attr_extents) = (ForkFormat::Extents, 0),
            }
        }
        patient.write_inode(&core, &bytes)?;
        for (kind, extents) in from_map {
            patient.set_fork(found.number, kind, ForkContents::Extents(extents))?;
        }
    }
    let place = Place::of_inode(found.number, patient.geometry());
    let keeps = "all fields: the log has the newest state of the inode";
    patient.act(Action::new(RULE, place, codes.to_vec(), keeps));
    Ok(true)
}

/// Returns the inode as it can be restored with the help of the log. `None` if the log does not
/// have its newest state, or if the extents of a fork are not known from any source.
fn candidate(patient: &Patient, logged: &LoggedInode, found: &InodeEvidence) -> Option<Candidate> {
    let core = InodeCore::decode(&logged.bytes, found.number, patient.geometry()).ok()?;
    if !logged.is_newest || core.mode == 0 {
        return None;
    }
    let is_missing = |kind: &ForkKind| !logged.has_fork(&core, *kind);
    let missing: Vec<ForkKind> =
        [ForkKind::Data, ForkKind::Attr].into_iter().filter(is_missing).collect();
    if missing.is_empty() {
        // Contents in other blocks may be damaged too: they have rules of their own.
        let bytes = logged.bytes.clone();
        let passes = fields::passes(patient, found.number, &bytes).is_ok();
        return passes.then_some(Candidate { core, bytes, from_map: Vec::new() });
    }
    let bytes = with_forks_in_place(&core, logged, found, &missing);
    if let Some(bytes) = bytes.filter(|bytes| fields::is_readable(patient, found.number, bytes)) {
        return Some(Candidate { core, bytes, from_map: Vec::new() });
    }
    let from_map = missing.iter().map(|kind| Some((*kind, mapped(patient, &core, *kind)?)));
    let from_map = from_map.collect::<Option<Vec<_>>>()?;
    let candidate = Candidate { core, bytes: logged.bytes.clone(), from_map };
    has_all_blocks(patient, &candidate).then_some(candidate)
}

/// Returns the bytes of the inode from the log. The forks in `missing`, which the log lacks, are
/// copied from the damaged inode. `None` if the bytes of the damaged inode could not be read.
fn with_forks_in_place(
    core: &InodeCore,
    logged: &LoggedInode,
    found: &InodeEvidence,
    missing: &[ForkKind],
) -> Option<Vec<u8>> {
    let mut bytes = logged.bytes.clone();
    let middle = match core.has_attr_fork() {
        true => CORE_BYTES + usize::from(core.fork_offset) * FORK_OFFSET_BYTES,
        false => bytes.len(),
    };
    let end = bytes.len();
    for kind in missing {
        let range = if *kind == ForkKind::Data { CORE_BYTES..middle } else { middle..end };
        let source = found.bytes.get(range.clone())?;
        bytes.get_mut(range)?.copy_from_slice(source);
    }
    inode::seal(&mut bytes, core.lsn);
    Some(bytes)
}

/// Returns the extents of a fork according to the reverse map. `None` if the fork's format has no
/// extents, or if one of these extents is impossible in such a fork.
fn mapped(patient: &Patient, core: &InodeCore, kind: ForkKind) -> Option<Vec<Extent>> {
    let has_extents =
        matches!(core.fork_format(kind), Some(ForkFormat::Extents | ForkFormat::Btree));
    let extents = has_extents.then(|| in_order(patient.mapped().fork(core.number, kind)))?;
    let rules = ExtentRules::of(core, kind, patient.geometry());
    let fits = |extent: &Extent| extent.verify(&rules).is_ok();
    (extents.iter().all(fits) && fits_count(core, kind, extents.len())).then_some(extents)
}

/// Returns whether the extents of the reverse map add up to the number of blocks that the core
/// states. If a fork from the reverse map has an extent btree, whose own blocks would count too,
/// returns whether the reverse maps are undamaged.
fn has_all_blocks(patient: &Patient, candidate: &Candidate) -> bool {
    let core = &candidate.core;
    let evidence = patient.evidence();
    let found = evidence.judge_inode(core.number, candidate.bytes.clone());
    let mut blocks = 0_u64;
    for kind in [ForkKind::Data, ForkKind::Attr] {
        let from_map = candidate.from_map.iter().find(|(own, _)| *own == kind);
        if from_map.is_some() && core.fork_format(kind) == Some(ForkFormat::Btree) {
            return patient.mapped().is_whole;
        }
        blocks += match from_map {
            Some((_, extents)) => extents.iter().map(|e| u64::from(e.length_blocks)).sum::<u64>(),
            None => {
                let fork = evidence.extents(&found, kind);
                let extents = fork.extents.iter().map(|e| u64::from(e.length_blocks));
                extents.sum::<u64>() + fork.tree_blocks.len() as u64
            }
        };
    }
    blocks == core.blocks
}
