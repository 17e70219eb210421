//! Rules *directory-inode* and *lost-and-found*. The first makes the inodes of lost directories
//! again, at their old numbers. The fields of such an inode are lost, so the rule runs only if
//! losses are allowed. The second reports the inodes that move to `lost+found`.

use xfs_check::Place;
use xfs_format::directory::index_start;
use xfs_format::extent::Extent;
use xfs_format::inode::{FileType, ForkFormat, ForkKind, InodeCore, InodeFlags, InodeFlags2};
use xfs_format::timestamp::Timestamp;
use xfs_format::{AgInode, IncompatFeatures, InodeNumber, Lsn};

use super::facts::Slot;
use super::fork;
use super::names::Names;
use crate::action::{Action, counted};
use crate::error::RepairError;
use crate::fork::ForkContents;
use crate::metadata::MetadirFile;
use crate::patient::Patient;

/// The number of bytes that the data fork of a newly made directory has in its inode. It is the
/// same as in a new inode that the kernel makes.
const MADE_FORK_BYTES: usize = 192;

/// Makes the inodes of lost directories again, and reports the inodes that move to `lost+found`
/// because no name leads to them.
///
/// # Errors
///
/// The first error of the overlay.
pub(crate) fn run(patient: &mut Patient, names: &Names<'_>) -> Result<(), RepairError> {
    for (number, generation) in &names.tree.made {
        let template = template(patient, names, *number);
        let core = made_core(&template, MadeInode::of(patient, names, *number, *generation));
        patient.make_inode(&core)?;
        mark_used(patient, *number);
        let kept = counted(names.tree.links_of(*number).len(), "name");
        let mapped = patient.mapped();
        let freed = [ForkKind::Data, ForkKind::Attr].map(|kind| mapped.fork(*number, kind));
        for extent in freed.iter().flatten() {
            patient.mark_group_of(extent.start);
        }
        report_made(patient, names, &core, MadeFrom { kept: &kept, freed: &freed.concat() });
    }
    for number in &names.tree.rescued {
        let place = Place::of_inode(*number, patient.geometry());
        let name = names.links_to(*number).next().map(|link| link.name.escape_ascii().to_string());
        let keeps =
            format!("the contents; its name is now lost+found/{}", name.unwrap_or_default());
        patient.act(Action::new("lost-and-found", place, names.damage.codes_of(*number), keeps));
    }
    Ok(())
}

/// Makes again the inodes of those lost directories whose blocks the reverse map still knows. The
/// new inodes get these blocks as their forks. Returns `true` if it made any inode: then the next
/// round of checks and repairs reads the entries and attributes in the new forks.
///
/// # Errors
///
/// The error of the overlay.
pub(crate) fn restore_forks(patient: &mut Patient, names: &Names<'_>) -> Result<bool, RepairError> {
    let mapped = patient.mapped();
    let limit = index_start(patient.geometry());
    let mut is_restored = false;
    for (number, generation) in &names.tree.made {
        if !patient.allows_loss() && !is_metadata(patient, names, *number) {
            continue;
        }
        let data = fork::in_order(mapped.fork(*number, ForkKind::Data));
        let blocks = data.iter().filter(|extent| extent.file_block < limit);
        let end = blocks.map(|extent| extent.end().0).max();
        let Some(end) = end else { continue };
        if names.facts.slot(*number) != Slot::Gone {
            continue;
        }
        let template = template(patient, names, *number);
        let made = MadeInode::of(patient, names, *number, *generation);
        let mut core = made_core(&template, made);
        let step = u64::from(patient.geometry().directory_block_size());
        core.size = (end << patient.geometry().block_log).next_multiple_of(step);
        patient.attempt(|patient| {
            patient.make_inode(&core)?;
            patient.set_fork(*number, ForkKind::Data, ForkContents::Extents(data))?;
            let attr = fork::in_order(mapped.fork(*number, ForkKind::Attr));
            if !attr.is_empty() {
                patient.set_fork(*number, ForkKind::Attr, ForkContents::Extents(attr))?;
            }
            let kept = "the blocks that the reverse map knows";
            report_made(patient, names, &core, MadeFrom { kept, freed: &[] });
            Ok(())
        })?;
        // Without room for its map, the directory waits, and all names with it: an empty directory
        // would give its blocks away.
        is_restored = true;
    }
    Ok(is_restored)
}

/// The contents that a directory keeps after its inode was made again, and the blocks that it
/// loses.
#[derive(Clone, Copy)]
struct MadeFrom<'a> {
    /// The contents that the directory keeps, in words.
    kept: &'a str,
    /// The blocks that the reverse map gives to the old directory, and that the new directory does
    /// not map.
    freed: &'a [Extent],
}

/// Adds the action for a directory whose inode was made. The old fields of the inode are reported
/// as lost, except for a new `lost+found`, which had none.
fn report_made(patient: &mut Patient, names: &Names<'_>, core: &InodeCore, from: MadeFrom<'_>) {
    let number = core.number;
    let place = Place::of_inode(number, patient.geometry());
    let mode = core.mode & 0o7777;
    let keeps = format!(
        "{}; its mode is 0{mode:o}, its owner root, and its times are those of its parent",
        from.kept
    );
    let action = Action::new("directory-inode", place, names.damage.codes_of(number), keeps);
    let is_new = names.facts.is_spare(number) || is_metadata(patient, names, number);
    patient.act(match is_new {
        true => action,
        false => action
            .losing(
                Some(number),
                "owner, permissions, times and attributes of the directory, and the names that \
                 only its blocks state",
            )
            .losing_extents(patient.geometry(), from.freed),
    });
}

/// Makes the realtime inodes again, whose numbers the superblock has, if they are lost. On a volume
/// without a realtime device they are empty files.
///
/// # Errors
///
/// The error of the overlay.
pub(crate) fn make_reserved(patient: &mut Patient, names: &Names<'_>) -> Result<(), RepairError> {
    let superblock = patient.superblock();
    if superblock.has_incompat(IncompatFeatures::METADIR) {
        return Ok(());
    }
    let bitmap = superblock.realtime_bitmap_inode;
    for number in [bitmap, superblock.realtime_summary_inode] {
        let is_there = names.facts.members.contains_key(&number);
        let is_in_chunk = matches!(names.facts.slot(number), Slot::Gone | Slot::Free);
        if is_there || !is_in_chunk {
            continue;
        }
        let template = template(patient, names, number);
        let mut core = made_core(&template, MadeInode::of(patient, names, number, 0));
        core.mode = FileType::Regular.mode_bits();
        (core.nlink, core.fork_offset) = (1, 0);
        if number == bitmap {
            core.flags = InodeFlags::NEWRTBM;
            // The access time of a new bitmap is a counter of the allocator, not a time.
            core.access_time = Timestamp::default();
        }
        patient.make_inode(&core)?;
        mark_used(patient, number);
        let place = Place::of_inode(number, patient.geometry());
        let keeps = match patient.superblock().has_realtime() {
            true => "nothing: the contents are written from the maps of realtime files",
            false => "nothing: an empty file is all that a volume without a realtime device needs",
        };
        patient.act(Action::new("realtime-inode", place, names.damage.codes_of(number), keeps));
    }
    Ok(())
}

/// Returns whether a directory that is made belongs to the metadata directory.
fn is_metadata(patient: &Patient, names: &Names<'_>, directory: InodeNumber) -> bool {
    let root = patient.superblock().metadata_directory_inode;
    names.facts.is_metadata_directory(directory)
        || root.is_some() && names.links_to(directory).any(|link| Some(link.directory) == root)
}

/// Marks the inode as in use in the record of its chunk.
pub(super) fn mark_used(patient: &mut Patient, number: InodeNumber) {
    let (group, in_group) = patient.geometry().split_inode(number).expect("the slot was found");
    let mut chunk = patient.chunk_of(group, in_group).expect("a chunk holds the slot");
    let position = chunk.position(in_group).expect("the chunk holds the slot");
    let bit = 1_u64 << position;
    if chunk.free & bit != 0 {
        chunk.free &= !bit;
        chunk.free_count -= 1;
        patient.set_chunk(group, chunk);
    }
}

/// The fields that a newly made inode copies from another inode.
struct Template {
    time: Timestamp,
    flags2: InodeFlags2,
    lsn: Lsn,
}

/// Returns the fields that a newly made directory copies: from its parent, or else from any inode
/// in use. If no inode can be read, the fields follow from the features of the volume.
fn template(patient: &Patient, names: &Names<'_>, directory: InodeNumber) -> Template {
    let parent = names.links_to(directory).find_map(|link| names.model.core(link.directory));
    let others = names.facts.members.keys().find_map(|number| names.model.core(*number));
    let forms = InodeFlags2::BIGTIME | InodeFlags2::NREXT64;
    if let Some(core) = parent.or(others) {
        return Template { time: core.modify_time, flags2: core.flags2 & forms, lsn: core.lsn };
    }
    let mut flags2 = InodeFlags2::empty();
    let has = |feature| patient.geometry().has_incompat(feature);
    flags2.set(InodeFlags2::BIGTIME, has(IncompatFeatures::BIGTIME));
    flags2.set(InodeFlags2::NREXT64, has(IncompatFeatures::NREXT64));
    Template { time: Timestamp::default(), flags2, lsn: patient.lsn() }
}

/// A directory whose inode is made: its number, its generation and its permissions.
struct MadeInode {
    number: InodeNumber,
    generation: u32,
    permissions: u16,
    /// Whether the directory belongs to the metadata directory.
    is_metadata: bool,
}

impl MadeInode {
    /// Chooses the permissions of the directory, of which no structure has a copy. The root
    /// directory gets the permissions that it has on a new volume: with fewer, only root could
    /// reach any file. All others are accessible to their owner only.
    fn of(patient: &Patient, names: &Names<'_>, number: InodeNumber, generation: u32) -> Self {
        let permissions = if number == names.facts.root { 0o755 } else { 0o700 };
        let is_metadata = is_metadata(patient, names, number);
        Self { number, generation, permissions, is_metadata }
    }
}

/// Returns the core of the inode of a directory that is made again. A field of which no other
/// structure has a copy gets a fixed value, so that the same image gives the same plan.
fn made_core(template: &Template, made: MadeInode) -> InodeCore {
    let MadeInode { number, generation, permissions, is_metadata } = made;
    let time = template.time;
    let mut core = InodeCore {
        number,
        mode: FileType::Directory.mode_bits() | permissions,
        data_format: ForkFormat::Extents,
        attr_format: ForkFormat::Extents,
        fork_offset: (MADE_FORK_BYTES / 8) as u8,
        metafile_type: 0,
        uid: 0,
        gid: 0,
        nlink: 2,
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
        flags2: template.flags2,
        generation,
        next_unlinked: AgInode::NULL,
        change_count: 1,
        lsn: template.lsn,
        rdev: None,
    };
    if is_metadata {
        MetadirFile::DIRECTORY.set_fields(&mut core);
    }
    core
}
