//! Rule `inode`: restores the inodes whose own bytes are damaged.
//!
//! Owns: the order in which the ways to restore an inode are tried. Does **not** own: forks of
//! inodes that decode (rule `fork`), or inodes of directories that are gone (rule
//! `directory-inode`): their children still state them.
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

mod fields;
mod logged;

use std::collections::{BTreeMap, BTreeSet};

use xfs_check::{Area, Code, Place};
use xfs_evidence::{InodeEvidence, InodeState, LoggedInode};
use xfs_format::directory::EntryType;
use xfs_format::inode::{FileType, ForkFormat, ForkKind, InodeCore, InodeFlags, InodeFlags2};
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::timestamp::Timestamp;
use xfs_format::{AgInode, IncompatFeatures, InodeNumber};

use super::fork;
use crate::action::Action;
use crate::damage::Damage;
use crate::error::RepairError;
use crate::fork::ForkContents;
use crate::model::{ModelName, holds_something};
use crate::patient::Patient;

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
        if !codes.is_empty() {
            let known = known.get_or_insert_with(|| Known::of(patient, damage));
            patient.attempt(|patient| repair(patient, known, number, codes))?;
        }
    }
    Ok(())
}

/// The evidence that the rule uses: the names that lead to inodes before the rule changes an inode,
/// and the copies of damaged inodes in the log.
struct Known {
    /// The names that lead to each inode.
    names: BTreeMap<InodeNumber, Vec<ModelName>>,
    /// The directories to which a parent pointer or `..` leads.
    parents: BTreeSet<InodeNumber>,
    /// The copies in the log of damaged inodes, by inode number.
    logged: BTreeMap<InodeNumber, LoggedInode>,
}

impl Known {
    fn of(patient: &mut Patient, damage: &Damage) -> Self {
        let is_damaged = |number| damage.inodes.contains_key(&number);
        let logged = patient.evidence().logged_inodes(patient.shared_device(), is_damaged);
        let model = patient.model();
        let mut names: BTreeMap<InodeNumber, Vec<ModelName>> = BTreeMap::new();
        for name in &model.names {
            names.entry(name.child).or_default().push(name.clone());
        }
        let mut parents: BTreeSet<InodeNumber> = model.dotdots.values().copied().collect();
        parents.extend(model.parents.iter().map(|parent| parent.directory));
        Self { names, parents, logged }
    }

    fn names(&self, inode: InodeNumber) -> &[ModelName] {
        self.names.get(&inode).map_or(&[], Vec::as_slice)
    }
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
        InodeState::Sound(core)
            if codes.contains(&Code::InodeFlags) || codes.contains(&Code::InodeFeature) =>
        {
            let core = fields::with_possible_flags(core, patient.superblock());
            patient.write_inode(&core, &found.bytes)?;
            let keeps = "all fields but the flags that this inode cannot have";
            patient.act(Action::new(RULE, place, codes, keeps));
            return Ok(());
        }
        InodeState::Sound(_) => return Ok(()),
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
        return recreate(patient, known, &found, codes);
    }
    if let Some(bytes) = fields::correct(patient, known.names(number), &found) {
        patient.write_raw_inode(number, &bytes)?;
        for kind in [ForkKind::Data, ForkKind::Attr] {
            fork::rebuild(patient, number, kind)?;
        }
        fork::count_blocks(patient, number)?;
        let keeps = "the fields that pass their checks; the others are set from forks and names";
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

/// Restores the type of an inode whose mode is 0. It is the type that a name states, or else one
/// that the contents of the inode's forks fit. Returns `false` if there is no such type.
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

/// Frees an inode that was in use, whose mode is lost, and whose contents fit no file type. The
/// inode and the blocks of its forks are listed as lost, so that the caller copies them to the
/// quarantine.
fn lose(patient: &mut Patient, found: &InodeEvidence, codes: Vec<Code>) -> Result<(), RepairError> {
    let place = Place::of_inode(found.number, patient.geometry());
    let action = Action::new(RULE, place, codes, "nothing: no type fits the inode");
    let mut action = action.losing(Some(found.number), "the inode and its contents");
    for kind in [ForkKind::Data, ForkKind::Attr] {
        for extent in patient.evidence().extents(found, kind).extents {
            let Some(at) = patient.geometry().block_disk_addr(extent.start) else { continue };
            let bytes = u64::from(extent.length_blocks) << patient.geometry().block_log;
            action = action.losing_bytes(at.0 * 512..at.0 * 512 + bytes);
        }
    }
    clear(patient, found.number)?;
    patient.act(action);
    Ok(())
}

/// Returns whether an inode is free according to its record in the inode btree.
fn is_free(patient: &mut Patient, number: InodeNumber) -> bool {
    let Some((group, inode)) = patient.geometry().split_inode(number) else { return false };
    let chunks = &patient.chunks(group).chunks;
    let position = chunks.iter().find_map(|chunk| Some((chunk, chunk.position(inode)?)));
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

/// Frees an inode of which nothing is left, and marks it as free in its chunk.
fn clear(patient: &mut Patient, number: InodeNumber) -> Result<(), RepairError> {
    make_free(patient, number, 0)?;
    let Some((group, inode)) = patient.geometry().split_inode(number) else { return Ok(()) };
    let mut chunks = patient.chunks(group).chunks.clone();
    for chunk in &mut chunks {
        free_position(chunk, inode);
    }
    patient.set_chunks(group, chunks);
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

/// Makes a new inode in place of a destroyed one, from the names that lead to it and from the
/// reverse map. Clears the inode if neither of them knows a regular file of this number.
/// Directories are left to rule `directory-inode`.
fn recreate(
    patient: &mut Patient,
    known: &Known,
    found: &InodeEvidence,
    codes: Vec<Code>,
) -> Result<(), RepairError> {
    let number = found.number;
    let names = known.names(number);
    let has_type = |wanted: EntryType| names.iter().any(|name| name.entry_type == wanted.to_disk());
    let is_parent = number == patient.superblock().root_inode || known.parents.contains(&number);
    if is_parent || has_type(EntryType::Directory) || !patient.allows_loss() {
        return Ok(());
    }
    let mapped = patient.mapped();
    let data = mapped.fork(number, ForkKind::Data);
    let attr = mapped.fork(number, ForkKind::Attr);
    let is_file = has_type(EntryType::Regular) || (names.is_empty() && !data.is_empty());
    let place = Place::of_inode(number, patient.geometry());
    if !is_file {
        clear(patient, number)?;
        let action = Action::new(RULE, place, codes, "nothing: no bytes of the inode are left");
        patient.act(action.losing(Some(number), "the inode and its contents"));
        return Ok(());
    }
    let end = data.iter().filter(|e| !e.unwritten).map(|e| e.end().0).max().unwrap_or(0);
    let links = u32::try_from(names.len().max(1)).unwrap_or(u32::MAX);
    let block_size = u64::from(patient.geometry().block_size);
    let size = end.saturating_mul(block_size).min(i64::MAX.cast_unsigned());
    let core = new_file(patient, number, links, size);
    let counts = [(ForkKind::Data, data.len()), (ForkKind::Attr, attr.len())];
    if counts.into_iter().any(|(kind, count)| !fork::fits_count(&core, kind, count)) {
        return Ok(());
    }
    patient.make_inode(&core)?;
    patient.set_fork(number, ForkKind::Data, ForkContents::Extents(fork::in_order(data)))?;
    if !attr.is_empty() {
        let extents = fork::in_order(attr);
        patient.set_fork(number, ForkKind::Attr, ForkContents::Extents(extents))?;
    }
    let keeps = "the contents by the reverse map, and all names of the file";
    let what = match has_whole_maps(patient) {
        true => "owner, permissions, times, attributes in the inode, and the exact size",
        false => {
            "owner, permissions, times, attributes in the inode, the exact size, and the contents \
             that no reverse map has"
        }
    };
    patient.act(Action::new(RULE, place, codes, keeps).losing(Some(number), what));
    Ok(())
}

/// Returns whether the reverse maps of all groups are whole.
fn has_whole_maps(patient: &Patient) -> bool {
    patient.geometry().groups().all(|group| patient.reverse_map(group).is_whole)
}

/// Returns the core of a regular file of which only contents and names are known. Its owner is
/// root, and no other user can read it.
fn new_file(patient: &Patient, number: InodeNumber, links: u32, size: u64) -> InodeCore {
    let mut flags2 = InodeFlags2::empty();
    let has = |feature| patient.geometry().has_incompat(feature);
    flags2.set(InodeFlags2::BIGTIME, has(IncompatFeatures::BIGTIME));
    flags2.set(InodeFlags2::NREXT64, has(IncompatFeatures::NREXT64));
    let epoch = Timestamp::default();
    InodeCore {
        number,
        mode: FileType::Regular.mode_bits() | 0o600,
        data_format: ForkFormat::Extents,
        attr_format: ForkFormat::Extents,
        fork_offset: 0,
        metafile_type: 0,
        uid: 0,
        gid: 0,
        nlink: links,
        project_id: 0,
        access_time: epoch,
        modify_time: epoch,
        change_time: epoch,
        birth_time: epoch,
        size,
        blocks: 0,
        extent_size_hint_blocks: 0,
        cow_extent_size_hint_blocks: 0,
        extents: 0,
        attr_extents: 0,
        flags: InodeFlags::empty(),
        flags2,
        generation: 1,
        next_unlinked: AgInode::NULL,
        change_count: 1,
        lsn: patient.lsn(),
        rdev: None,
    }
}
