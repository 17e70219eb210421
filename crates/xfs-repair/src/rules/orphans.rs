//! Rules *directory-inode* and *lost-and-found*: makes directories whose inode is gone again in
//! their own place, and reports the inodes that move to `lost+found`.

use xfs_check::Place;
use xfs_format::directory::index_start;
use xfs_format::inode::{FileType, ForkFormat, ForkKind, InodeCore, InodeFlags, InodeFlags2};
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::timestamp::Timestamp;
use xfs_format::{AgInode, InodeNumber};

use super::facts::Slot;
use super::fork;
use super::names::Names;
use crate::action::Action;
use crate::error::RepairError;
use crate::fork::ForkContents;
use crate::patient::Patient;

/// The bytes of the data fork of a directory that is made: the same as in a new inode of the
/// kernel's.
const MADE_FORK_BYTES: usize = 192;

/// Makes the inodes of directories that are gone, and reports the inodes without a name.
///
/// # Errors
///
/// The first error of the overlay.
pub(crate) fn run(patient: &mut Patient, names: &Names<'_>) -> Result<(), RepairError> {
    for (number, generation) in &names.tree.made {
        let Some(template) = template(names, *number) else { continue };
        let core = made_core(template, *number, *generation);
        patient.make_inode(&core)?;
        mark_used(patient, *number);
        let kept = format!("{} names", names.tree.links_of(*number).len());
        report_made(patient, names, *number, &kept);
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

/// Makes the directories again whose blocks the reverse map still knows, with these blocks as their
/// forks. Returns whether there are any: their entries and attributes are read in the next round.
///
/// # Errors
///
/// The error of the overlay.
pub(crate) fn restore_forks(patient: &mut Patient, names: &Names<'_>) -> Result<bool, RepairError> {
    let mapped = patient.mapped();
    let limit = index_start(patient.geometry());
    let mut is_restored = false;
    for (number, generation) in &names.tree.made {
        let data = fork::in_order(mapped.fork(*number, ForkKind::Data));
        let blocks = data.iter().filter(|extent| extent.file_block < limit);
        let end = blocks.map(|extent| extent.end().0).max();
        let (Some(end), Some(template)) = (end, template(names, *number)) else { continue };
        if names.facts.slot(*number) != Slot::Gone {
            continue;
        }
        let mut core = made_core(template, *number, *generation);
        let step = u64::from(patient.geometry().directory_block_size());
        core.size = (end << patient.geometry().block_log).next_multiple_of(step);
        patient.make_inode(&core)?;
        patient.set_fork(*number, ForkKind::Data, ForkContents::Extents(data))?;
        let attr = fork::in_order(mapped.fork(*number, ForkKind::Attr));
        if !attr.is_empty() {
            patient.set_fork(*number, ForkKind::Attr, ForkContents::Extents(attr))?;
        }
        let keeps = "the blocks that the reverse map knows";
        report_made(patient, names, *number, keeps);
        is_restored = true;
    }
    Ok(is_restored)
}

/// Reports a directory that was made again.
fn report_made(patient: &mut Patient, names: &Names<'_>, number: InodeNumber, kept: &str) {
    let place = Place::of_inode(number, patient.geometry());
    let keeps =
        format!("{kept}; its mode is 0755, its owner root, and its times are those of its parent");
    patient.act(Action::new("directory-inode", place, names.damage.codes_of(number), keeps));
}

/// Makes the realtime inodes again, which the superblock names. Without a realtime device they are
/// empty files.
///
/// # Errors
///
/// The error of the overlay.
pub(crate) fn make_reserved(patient: &mut Patient, names: &Names<'_>) -> Result<(), RepairError> {
    let superblock = patient.superblock();
    let bitmap = superblock.realtime_bitmap_inode;
    for number in [bitmap, superblock.realtime_summary_inode] {
        let is_there = names.facts.members.contains_key(&number);
        let is_in_chunk = matches!(names.facts.slot(number), Slot::Gone | Slot::Free);
        let Some(template) = names.facts.members.keys().find_map(|n| names.model.core(*n)) else {
            continue;
        };
        if is_there || !is_in_chunk {
            continue;
        }
        let mut core = made_core(template, number, 0);
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
        let keeps = "nothing: an empty file is all that a volume without a realtime device needs";
        patient.act(Action::new("realtime-inode", place, names.damage.codes_of(number), keeps));
    }
    Ok(())
}

/// Records in the chunk of an inode that the inode is in use.
fn mark_used(patient: &mut Patient, number: InodeNumber) {
    let (group, in_group) = patient.geometry().split_inode(number).expect("the slot was found");
    let mut chunks = patient.chunks(group).chunks.clone();
    let bit_of = |chunk: &InodeChunk| chunk.position(in_group).map(|position| 1_u64 << position);
    let holding = chunks.iter_mut().find_map(|chunk| bit_of(chunk).map(|bit| (chunk, bit)));
    let (chunk, bit) = holding.expect("a chunk holds the slot");
    if chunk.free & bit != 0 {
        chunk.free &= !bit;
        chunk.free_count -= 1;
        patient.set_chunks(group, chunks);
    }
}

/// Returns the inode from which a new directory takes its times and the form of its counters: its
/// parent, else any inode in use.
fn template<'n>(names: &'n Names<'_>, directory: InodeNumber) -> Option<&'n InodeCore> {
    let parent = names.links_to(directory).find_map(|link| names.model.core(link.directory));
    let others = names.facts.members.keys().find_map(|number| names.model.core(*number));
    parent.or(others)
}

/// Returns the core of a directory that is made again. Each field that no structure repeats has a
/// fixed value, so that the same image gives the same plan.
fn made_core(template: &InodeCore, number: InodeNumber, generation: u32) -> InodeCore {
    let time = template.modify_time;
    InodeCore {
        number,
        mode: FileType::Directory.mode_bits() | 0o755,
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
        flags2: template.flags2 & (InodeFlags2::BIGTIME | InodeFlags2::NREXT64),
        generation,
        next_unlinked: AgInode::NULL,
        change_count: 1,
        lsn: template.lsn,
        rdev: None,
    }
}
