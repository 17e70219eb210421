//! Rule `metadata-inode`: the inodes of the metadata directory.
//!
//! Owns: the fields that follow from the path of such an inode, destroyed inodes of files to which
//! a path leads, and new inodes for files that the volume must have. Does **not** own: names (rule
//! `directory` and the rules around it), destroyed directories (rule `directory-inode`), or the
//! contents of the files (rule `realtime`).
//!
//! All inodes of the tree have the same owner, permissions and flags. So nothing that a user could
//! miss is lost with such an inode, and the rule makes it again also if losses are not allowed. An
//! exception is a file of quota some of whose blocks may be lost with their limits.

use std::collections::{BTreeMap, BTreeSet};

use xfs_check::Place;
use xfs_evidence::InodeState;
use xfs_format::directory::EntryType;
use xfs_format::dquot::QuotaKind;
use xfs_format::geometry::INODES_PER_CHUNK;
use xfs_format::inode::{ForkFormat, ForkKind, InodeCore, InodeFlags, InodeFlags2};
use xfs_format::realtime::{RealtimeBlockKind, SPACE_OWNER_BYTES};
use xfs_format::rmap::RmapOwner;
use xfs_format::timestamp::Timestamp;
use xfs_format::{AgInode, IncompatFeatures, InodeNumber};

use super::orphans::mark_used;
use super::quota;
use crate::action::Action;
use crate::error::RepairError;
use crate::fork::ForkContents;
use crate::metadata::{self, MetadirFile, MetadirFiles, MetadirKind};
use crate::model::Model;
use crate::patient::Patient;

/// The name of this rule in plans and messages.
const RULE: &str = "metadata-inode";

/// The range of bytes of an inode that hold fields of the data management API. Linux does not use
/// them.
const UNUSED: std::ops::Range<usize> = 84..90;

/// The bytes of the header of a btree block that hold the number of its inode.
const TREE_OWNER_BYTES: std::ops::Range<usize> = 56..64;

/// The number of bytes that the data fork of a new metadata inode has, on a volume with parent
/// pointers. It is the same as in a new inode that the kernel makes.
const FORK_BYTES: usize = 192;

/// Corrects the fields of inodes of the metadata directory that do not fit the paths of these
/// inodes. Makes destroyed inodes of its files again.
///
/// # Errors
///
/// The error of the overlay.
pub(super) fn run(patient: &mut Patient) -> Result<(), RepairError> {
    if !patient.superblock().has_incompat(IncompatFeatures::METADIR) {
        return Ok(());
    }
    let files = MetadirFiles::find(&patient.evidence());
    let model = patient.model()?;
    let outside = named_outside(&model, &files);
    for (inode, file) in files.by_inode() {
        let is_named = model.names.iter().any(|name| name.child == inode);
        match patient.evidence().inode(inode).state {
            InodeState::Sound(core) => {
                let is_foreign =
                    !core.flags2.contains(InodeFlags2::METADATA) && outside.contains(&inode);
                if !is_foreign {
                    set_fields(patient, inode, file, &core)?;
                }
            }
            InodeState::Gone(_) | InodeState::Free(_)
                if is_named && file != MetadirFile::DIRECTORY && !outside.contains(&inode) =>
            {
                patient.attempt(|patient| remake(patient, inode, file))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the inodes to which entries of directories outside of the metadata directory lead.
fn named_outside(model: &Model, files: &MetadirFiles) -> BTreeSet<InodeNumber> {
    let own: BTreeSet<InodeNumber> =
        files.directories.values().copied().chain(files.root).collect();
    let names = model.names.iter().filter(|name| !own.contains(&name.directory));
    names.map(|name| name.child).collect()
}

/// Sets the fields that follow from the path of an inode.
fn set_fields(
    patient: &mut Patient,
    inode: InodeNumber,
    file: MetadirFile,
    core: &InodeCore,
) -> Result<(), RepairError> {
    let mut right = core.clone();
    file.set_fields(&mut right);
    if core.mode >> 12 != right.mode >> 12 {
        // The type of the file decides what its contents mean: rule `type` settles it.
        return Ok(());
    }
    let mut bytes = patient.evidence().inode(inode).bytes;
    let unused = bytes.get_mut(UNUSED).expect("an inode is longer than its core");
    if right == *core && unused.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    unused.fill(0);
    patient.write_inode(&right, &bytes)?;
    let place = Place::of_inode(inode, patient.geometry());
    let keeps = "the contents; owner, permissions, flags and type follow from the path";
    patient.act(Action::new(RULE, place, Vec::new(), keeps));
    Ok(())
}

/// Makes the destroyed inode of a file again. Its blocks come from the reverse map, and those of a
/// quota file also from its dquots.
fn remake(patient: &mut Patient, inode: InodeNumber, file: MetadirFile) -> Result<(), RepairError> {
    let is_in_chunk = patient.geometry().split_inode(inode).is_some_and(|(group, in_group)| {
        let chunk = patient.chunk_of(group, in_group);
        chunk.is_some_and(|chunk| {
            let position = chunk.position(in_group);
            position.is_some_and(|position| chunk.present() >> position & 1 == 1)
        })
    });
    if !is_in_chunk {
        return Ok(());
    }
    let mapped = patient.mapped();
    let dquots = match QuotaKind::ALL.into_iter().find(|kind| quota::file_of(*kind) == file.kind) {
        Some(kind) => Some(quota::find(patient, inode, kind)?),
        None => None,
    };
    let is_whole = dquots.as_ref().is_none_or(|dquots| dquots.is_whole);
    if !is_whole && !patient.allows_loss() {
        return Ok(());
    }
    let data = match &dquots {
        Some(dquots) => dquots.extents.clone(),
        None => super::fork::in_order(mapped.fork(inode, ForkKind::Data)),
    };
    let attr = super::fork::in_order(mapped.fork(inode, ForkKind::Attr));
    if !file.is_tree() {
        patient.keep_extents(&data)?;
    }
    let mut core = new_core(patient, inode, file);
    let end = data.iter().map(|extent| extent.end().0).max().unwrap_or(0);
    let has_size = !file.is_tree() && dquots.is_none();
    core.size = if has_size { end << patient.geometry().block_log } else { 0 };
    patient.make_inode(&core)?;
    if !file.is_tree() && !data.is_empty() {
        patient.set_fork(inode, ForkKind::Data, ForkContents::Extents(data))?;
    }
    if !attr.is_empty() {
        patient.set_fork(inode, ForkKind::Attr, ForkContents::Extents(attr))?;
    }
    mark_used(patient, inode);
    patient.mark_group_of_inode(inode);
    let place = Place::of_inode(inode, patient.geometry());
    let keeps = match dquots {
        Some(_) => "the dquots, by the reverse map and by their types and IDs",
        None => "nothing: the contents are written from the maps of realtime files",
    };
    let action = Action::new(RULE, place, Vec::new(), keeps);
    let action = match dquots.filter(|_| !is_whole) {
        Some(dquots) => {
            dquots.unexplained.iter().for_each(|extent| patient.mark_group_of(extent.start));
            let action = action.losing(Some(inode), dquots.loss());
            action.losing_extents(patient.geometry(), &dquots.unexplained)
        }
        None => action,
    };
    patient.act(action);
    Ok(())
}

/// Makes inodes for the files of realtime groups that the volume must have, and to which neither a
/// path nor the fields of an inode lead. The next round gives them their names.
///
/// # Errors
///
/// The error of the overlay.
pub(super) fn make_missing(patient: &mut Patient) -> Result<(), RepairError> {
    let superblock = patient.superblock();
    if !superblock.has_incompat(IncompatFeatures::METADIR) || !superblock.has_realtime() {
        return Ok(());
    }
    let files = MetadirFiles::find(&patient.evidence());
    let missing: Vec<MetadirFile> = metadata::needed(superblock)
        .into_iter()
        .filter(|file| !files.files.contains_key(file))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let model = patient.model()?;
    let cores = model.inodes.values().filter_map(|inode| inode.core.as_ref());
    let own = cores.filter(|core| core.flags2.contains(InodeFlags2::METADATA));
    let stated: BTreeSet<MetadirFile> = own.filter_map(MetadirFile::of_fields).collect();
    // An inode that cannot be read may be one of the missing files.
    if model.inodes.values().any(|inode| inode.core.is_none()) {
        return Ok(());
    }
    let missing = missing.into_iter().filter(|file| !stated.contains(file));
    for (file, (inode, generation)) in missing.zip(free_inodes(patient, &model)) {
        let mut core = new_core(patient, inode, file);
        core.generation = generation;
        patient.make_inode(&core)?;
        mark_used(patient, inode);
        let place = Place::of_inode(inode, patient.geometry());
        let name = file.path().map(|(directory, name)| format!("{directory}/{name}"));
        let keeps = format!("nothing: it is the new file {}", name.unwrap_or_default());
        patient.act(Action::new(RULE, place, Vec::new(), keeps));
    }
    Ok(())
}

/// Returns whether the blocks that the reverse maps give to a destroyed inode are those of a
/// bitmap, a summary or a btree of a realtime group. All such blocks name their inode.
pub(super) fn is_file_of_section(patient: &Patient, inode: InodeNumber) -> bool {
    let geometry = patient.geometry();
    let groups = geometry.groups();
    let mut blocks = groups.filter_map(|group| {
        let map = patient.reverse_map(group);
        let own = map.records.iter().find(|record| record.owner == RmapOwner::Inode(inode));
        own.map(|record| geometry.ag_block_disk_addr(group, record.start))
    });
    let Some(at) = blocks.next() else { return false };
    let mut bytes = vec![0; geometry.block_size as usize];
    if !patient.can_read(at, &mut bytes) {
        return false;
    }
    let Some(kind) = RealtimeBlockKind::of(&bytes) else { return false };
    let owner = match kind {
        RealtimeBlockKind::Bitmap | RealtimeBlockKind::Summary => SPACE_OWNER_BYTES,
        RealtimeBlockKind::ReverseMap | RealtimeBlockKind::Refcount => TREE_OWNER_BYTES,
    };
    bytes.get(owner).is_some_and(|owner| owner == inode.0.to_be_bytes())
}

/// Returns the free inodes of the volume that no name mentions, each with the generation that it
/// gets.
fn free_inodes(patient: &Patient, model: &Model) -> Vec<(InodeNumber, u32)> {
    let evidence = patient.evidence();
    let named: BTreeMap<InodeNumber, EntryType> =
        model.names.iter().map(|name| (name.child, EntryType::Unknown)).collect();
    let mut free = Vec::new();
    for (group, chunks) in &model.chunks {
        for chunk in chunks {
            let bits = chunk.free & chunk.present();
            for index in (0..INODES_PER_CHUNK).filter(|index| bits >> index & 1 == 1) {
                let in_group = AgInode(chunk.start.0 + index);
                let number = patient.geometry().join_inode(*group, in_group);
                if let InodeState::Free(core) = evidence.inode(number).state
                    && !named.contains_key(&number)
                {
                    free.push((number, core.generation.wrapping_add(1)));
                }
            }
        }
    }
    free
}

/// Returns the core of a new inode of a file of the metadata directory.
fn new_core(patient: &Patient, number: InodeNumber, file: MetadirFile) -> InodeCore {
    let has = |feature| patient.geometry().has_incompat(feature);
    let mut flags2 = InodeFlags2::empty();
    flags2.set(InodeFlags2::BIGTIME, has(IncompatFeatures::BIGTIME));
    flags2.set(InodeFlags2::NREXT64, has(IncompatFeatures::NREXT64));
    let has_parents = has(IncompatFeatures::PARENT);
    let time = Timestamp::default();
    let data_format = if file.is_tree() { ForkFormat::MetadataBtree } else { ForkFormat::Extents };
    let mut core = InodeCore {
        number,
        mode: 0,
        data_format,
        attr_format: ForkFormat::Extents,
        fork_offset: if has_parents { (FORK_BYTES / 8) as u8 } else { 0 },
        metafile_type: 0,
        uid: 0,
        gid: 0,
        nlink: 1,
        project_id: 0,
        access_time: time,
        modify_time: time,
        change_time: time,
        birth_time: time,
        size: 0,
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
    };
    file.set_fields(&mut core);
    if file.kind == MetadirKind::ReverseMap {
        core.cow_extent_size_hint_blocks = 0;
    }
    core
}
