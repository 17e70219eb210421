//! Rule `inode`: restores the inodes whose own bytes are damaged.
//!
//! Owns: the order in which the ways to restore an inode are tried. Does **not** own: forks of
//! inodes that decode (rule `fork`), or destroyed inodes of directories (rule `directory-inode`),
//! whose numbers the parent pointers of their children still have.
//!
//! ```text
//!  checksum wrong ─→ one bit? ─→ restored
//!        │ no
//!  the log has its newest state ─→ restored
//!        │ no
//!  it is this inode ─→ fields that fail a check are set from forks and names ─→ fixed
//!        │ no
//!  gone ─→ the reverse map or a name knows a file ─→ made again: contents and names are kept
//!        └→ nothing knows it ─→ cleared
//! ```
//!
//! Only the last two lose something. An inode whose field cannot be set is left as it is.

mod doubt;
mod fields;
mod logged;
mod recreate;

use std::collections::{BTreeMap, BTreeSet};

use xfs_check::{Area, Code, Place};
use xfs_evidence::{InodeEvidence, InodeState, LoggedInode};
use xfs_format::directory::EntryType;
use xfs_format::dquot::QuotaKind;
use xfs_format::inode::{ForkKind, InodeCore};
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::timestamp::Timestamp;
use xfs_format::{AgInode, InodeNumber};

use super::{fork, quota, superblock};
use crate::action::Action;
use crate::damage::Damage;
use crate::error::RepairError;
use crate::model::{InodeState as ModelState, Model, ModelName, holds_something};
use crate::patient::Patient;

pub(super) use recreate::new_core;

/// The name of this rule in plans and messages.
const RULE: &str = "inode";

/// Repairs the inodes that have findings about their own bytes.
///
/// # Errors
///
/// The error of the overlay.
pub(crate) fn run(patient: &mut Patient, damage: &Damage) -> Result<(), RepairError> {
    let mut known = None;
    for number in damage.inodes.keys().copied() {
        let is_sound = patient.evidence().inode(number).is_sound();
        let codes: Vec<Code> = damage
            .codes_of(number)
            .into_iter()
            .filter(|code| is_of_inode(*code) || (!is_sound && code.area() == Area::Inode))
            .collect();
        if !codes.is_empty() && patient.has_inode(number) {
            patient.poll()?;
            let evidence = match known.take() {
                Some(evidence) => evidence,
                None => Known::of(patient, damage)?,
            };
            let evidence = known.insert(evidence);
            patient.attempt(|patient| repair(patient, evidence, number, codes))?;
        }
    }
    Ok(())
}

/// The evidence that the rule uses: the names that lead to inodes before the rule changes an inode,
/// and the copies of damaged inodes in the log.
struct Known {
    /// The names that lead to each inode.
    names: BTreeMap<InodeNumber, Vec<ModelName>>,
    /// The inodes that must be directories: the root, those that are directories according to an
    /// entry, and those that hold the only name of a child. Rule `directory-inode` makes them
    /// again.
    directories: BTreeSet<InodeNumber>,
    /// Whether one of `directories` is destroyed, and the reverse map has blocks of it. Rule
    /// `directory-inode` restores such a directory, and names in its blocks are known only after
    /// that.
    has_lost_directory: bool,
    /// The newest time in any sound inode.
    newest: Timestamp,
    /// The copies in the log of damaged inodes, by inode number.
    logged: BTreeMap<InodeNumber, LoggedInode>,
    /// The types of the dquots in blocks without an owner. Empty unless a destroyed inode without a
    /// name may be their quota inode.
    loose_dquots: BTreeSet<QuotaKind>,
}

impl Known {
    fn of(patient: &mut Patient, damage: &Damage) -> Result<Self, RepairError> {
        let is_damaged = |number| damage.inodes.contains_key(&number);
        let poll = || patient.continues();
        let logged = patient.evidence().logged_inodes(patient.shared_device(), is_damaged, poll);
        patient.poll()?;
        let model = patient.model()?;
        let mut names: BTreeMap<InodeNumber, Vec<ModelName>> = BTreeMap::new();
        for name in &model.names {
            names.entry(name.child).or_default().push(name.clone());
        }
        let is_directory = |name: &&ModelName| name.entry_type == EntryType::Directory.to_disk();
        let mut directories: BTreeSet<InodeNumber> =
            model.names.iter().filter(is_directory).map(|name| name.child).collect();
        directories.insert(patient.superblock().root_inode);
        directories.extend(patient.superblock().metadata_directory_inode);
        let nameless = model.parents.iter().filter(|parent| !names.contains_key(&parent.child));
        directories.extend(nameless.map(|parent| parent.directory));
        let is_gone = |number: &InodeNumber| {
            model.inodes.get(number).is_some_and(|inode| inode.state == ModelState::Gone)
        };
        let mut gone = directories.iter().copied().filter(is_gone).peekable();
        let has_lost_directory = gone.peek().is_some() && {
            let mapped = patient.mapped();
            gone.any(|number| !mapped.fork(number, ForkKind::Data).is_empty())
        };
        let may_be_quota =
            model.inodes.iter().any(|(number, inode)| {
                inode.state == ModelState::Gone && !names.contains_key(number)
            }) && superblock::lacks_quota_inode(patient.superblock());
        let loose_dquots = match may_be_quota {
            true => quota::loose_kinds(patient)?,
            false => BTreeSet::new(),
        };
        let newest = newest_time(&model);
        Ok(Self { names, directories, has_lost_directory, newest, logged, loose_dquots })
    }

    fn names(&self, inode: InodeNumber) -> &[ModelName] {
        self.names.get(&inode).map_or(&[], Vec::as_slice)
    }
}

/// Returns the newest time in any sound inode, or 1970 if there is no such inode.
fn newest_time(model: &Model) -> Timestamp {
    let sound = model.inodes.values().filter(|inode| inode.state == ModelState::Sound);
    let times = sound
        .filter_map(|inode| inode.core.as_ref())
        .flat_map(|core| [core.access_time, core.modify_time, core.change_time, core.birth_time]);
    times.max().unwrap_or_default()
}

const fn is_of_inode(code: Code) -> bool {
    matches!(code.area(), Area::Inode)
        && !matches!(
            code,
            Code::InodeLinks
                | Code::InodeUnlinked
                | Code::InodeBlocks
                | Code::InodeNextents
                | Code::InodeReflink
        )
}

fn repair(
    patient: &mut Patient,
    known: &Known,
    number: InodeNumber,
    codes: Vec<Code>,
) -> Result<(), RepairError> {
    let found = patient.evidence().inode(number);
    let place = Place::of_inode(number, patient.geometry());
    let is_free = is_free(patient, number);
    match &found.state {
        InodeState::Free(core) => {
            if !is_free && holds_something(core) {
                if restore_logged(patient, known, &found, &codes)? {
                    return Ok(());
                }
                if !restore_mode(patient, known, &found, &codes)? && patient.allows_loss() {
                    lose(patient, &found, codes)?;
                }
                return Ok(());
            }
            let generation = core.generation;
            make_free(patient, number, generation)?;
            patient.act(Action::new(RULE, place, codes, "nothing: the inode is free"));
            return Ok(());
        }
        InodeState::Sound(_) if codes.contains(&Code::InodeLsn) => {
            let lsn = patient.lsn();
            patient.set_inode(number, |core| core.lsn = lsn)?;
            patient.act(Action::new(RULE, place, codes, "all fields but the LSN"));
            return Ok(());
        }
        InodeState::Sound(core) => {
            let possible = fields::with_possible_values(core, patient.superblock());
            if possible != *core {
                patient.write_inode(&possible, &found.bytes)?;
                let keeps = "all fields but the values that this inode cannot have";
                patient.act(Action::new(RULE, place, codes, keeps));
            }
            return Ok(());
        }
        InodeState::Doubtful(..) | InodeState::Gone(_) => {}
    }
    if let Some(bytes) = fields::one_bit(patient, &found) {
        patient.write_raw_inode(number, &bytes)?;
        patient.act(Action::new(RULE, place, codes, "all fields: one bit was wrong"));
        return Ok(());
    }
    if is_free {
        make_free(patient, number, 0)?;
        patient.act(Action::new(RULE, place, codes, "nothing: the inode is free"));
        return Ok(());
    }
    if restore_logged(patient, known, &found, &codes)? {
        return Ok(());
    }
    if !fields::is_this_inode(patient, &found) {
        return recreate::recreate(patient, known, &found, codes);
    }
    if let Some(bytes) = fields::correct(patient, known.names(number), &found) {
        patient.write_raw_inode(number, &bytes)?;
        for kind in [ForkKind::Data, ForkKind::Attr] {
            fork::rebuild(patient, number, kind)?;
        }
        fork::count_blocks(patient, number)?;
        let doubts = doubt::settle(patient, known, &found)?;
        let keeps = format!(
            "the fields that pass their checks; the others are set from forks and names{doubts}"
        );
        patient.act(Action::new(RULE, place, codes, keeps));
    }
    Ok(())
}

/// Restores an inode from its copy in the log. Returns `false`, and changes nothing, if the log has
/// no complete copy of the newest state.
fn restore_logged(
    patient: &mut Patient,
    known: &Known,
    found: &InodeEvidence,
    codes: &[Code],
) -> Result<bool, RepairError> {
    match known.logged.get(&found.number) {
        Some(inode) => logged::restore(patient, inode, found, codes),
        None => Ok(false),
    }
}

/// Restores the type of an inode whose mode is 0. It is the type in a directory entry of the inode,
/// or else one that the contents of the inode's forks fit. Returns `false` if there is no such
/// type.
fn restore_mode(
    patient: &mut Patient,
    known: &Known,
    found: &InodeEvidence,
    codes: &[Code],
) -> Result<bool, RepairError> {
    let Some(bytes) = fields::with_mode(patient, known.names(found.number), found) else {
        return Ok(false);
    };
    patient.write_raw_inode(found.number, &bytes)?;
    let place = Place::of_inode(found.number, patient.geometry());
    let keeps =
        "all fields but the mode: the type is that of the names or forks, for the owner only";
    patient.act(Action::new(RULE, place, codes.to_vec(), keeps));
    Ok(true)
}

/// Frees an inode that was in use, if its mode is lost and its contents fit no file type. Lists the
/// inode and the blocks of its forks as lost, so that the caller of the repair copies them to the
/// quarantine.
fn lose(patient: &mut Patient, found: &InodeEvidence, codes: Vec<Code>) -> Result<(), RepairError> {
    let place = Place::of_inode(found.number, patient.geometry());
    let action = Action::new(RULE, place, codes, "nothing: no type fits the inode");
    let mut action = action.losing(Some(found.number), "the inode and its contents");
    for kind in [ForkKind::Data, ForkKind::Attr] {
        let is_realtime = found.any_core().is_some_and(InodeCore::is_realtime);
        if kind == ForkKind::Data && is_realtime {
            continue;
        }
        let extents = patient.evidence().extents(found, kind).extents;
        action = action.losing_extents(patient.geometry(), &extents);
    }
    clear(patient, found.number)?;
    patient.act(action);
    Ok(())
}

/// Returns whether an inode is free according to its record in the inode btree.
fn is_free(patient: &mut Patient, number: InodeNumber) -> bool {
    let Some((group, inode)) = patient.geometry().split_inode(number) else { return false };
    let chunk = patient.chunk_of(group, inode);
    let position = chunk.and_then(|chunk| Some((chunk, chunk.position(inode)?)));
    position.is_some_and(|(chunk, position)| chunk.free >> position & 1 != 0)
}

/// Overwrites an inode by a free inode with this generation.
fn make_free(
    patient: &mut Patient,
    number: InodeNumber,
    generation: u32,
) -> Result<(), RepairError> {
    let mut bytes = vec![0; patient.geometry().inode_size as usize];
    xfs_format::inode::encode_free(number, generation, patient.geometry(), &mut bytes);
    patient.write_raw_inode(number, &bytes)
}

/// Replaces an inode of which nothing is left by a free inode, and marks it as free in its chunk.
fn clear(patient: &mut Patient, number: InodeNumber) -> Result<(), RepairError> {
    make_free(patient, number, 0)?;
    let Some((group, inode)) = patient.geometry().split_inode(number) else { return Ok(()) };
    if let Some(mut chunk) = patient.chunk_of(group, inode) {
        free_position(&mut chunk, inode);
        patient.set_chunk(group, chunk);
    }
    Ok(())
}

fn free_position(chunk: &mut InodeChunk, inode: AgInode) {
    if let Some(position) = chunk.position(inode) {
        let bit = 1_u64 << position;
        if chunk.present() & bit != 0 && chunk.free & bit == 0 {
            chunk.free |= bit;
            chunk.free_count += 1;
        }
    }
}
