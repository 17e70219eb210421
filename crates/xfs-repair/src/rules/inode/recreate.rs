//! Makes destroyed inodes again.
//!
//! Owns: the choice of the type of such an inode, and the search for contents that are left of it.
//! Does **not** own: inodes that must be directories according to a name or a child (rule
//! `directory-inode`).
//!
//! | left of the inode | the new inode |
//! |---|---|
//! | its number in the superblock, or blocks of dquots | a quota inode (`quota`) |
//! | a first block of a target or of entries, with this owner | a symbolic link or a directory |
//! | an entry | the type of the entry |
//! | other blocks in the reverse map | a regular file |
//! | blocks of attributes only | a regular file; a parent pointer may name it |
//! | nothing | the inode is freed |

use xfs_check::{Code, Place};
use xfs_evidence::InodeEvidence;
use xfs_format::directory::{DataBlock, EntryType, index_start};
use xfs_format::extent::Extent;
use xfs_format::inode::{FileType, ForkFormat, ForkKind, InodeCore, InodeFlags, InodeFlags2};
use xfs_format::rmap::RmapOwner;
use xfs_format::timestamp::Timestamp;
use xfs_format::{AgInode, IncompatFeatures, InodeNumber, StructureAddress};

use super::{Known, RULE, clear, fork};
use crate::action::Action;
use crate::error::RepairError;
use crate::fork::ForkContents;
use crate::patient::Patient;
use crate::rules::metadata;
use crate::rules::quota::{self, LostInode};
use crate::rules::symlink::{self, LinkTarget};

/// The fields that are lost with an inode, as the plan names them. No other structure has a copy.
const LOST_FIELDS: &str = "owner, permissions, times and attributes in the inode";

/// Makes a new inode in place of a destroyed one, from the names that lead to it and from the
/// reverse map. Clears the inode if neither of these mentions it. Leaves inodes that must be
/// directories according to a name or a child to rule `directory-inode`.
pub(super) fn recreate(
    patient: &mut Patient,
    known: &Known,
    found: &InodeEvidence,
    codes: Vec<Code>,
) -> Result<(), RepairError> {
    let number = found.number;
    if known.directories.contains(&number) {
        return Ok(());
    }
    if known.names(number).is_empty() && metadata::is_file_of_section(patient, number) {
        clear(patient, number)?;
        mapped_groups(patient, number);
        let place = Place::of_inode(number, patient.geometry());
        let keeps = "nothing: a new inode gets the file, which is written from the maps of files";
        patient.act(Action::new(RULE, place, codes, keeps));
        return Ok(());
    }
    let is_nameless = known.names(number).is_empty() && !known.has_lost_directory;
    let lost = LostInode { number, is_nameless, loose: &known.loose_dquots };
    if let Some(kind) = quota::lost_kind(patient, &lost) {
        return quota::remake(patient, number, kind, codes);
    }
    if !patient.allows_loss() {
        return Ok(());
    }
    let remains = Remains::of(patient, known, number);
    let place = Place::of_inode(number, patient.geometry());
    let Some(file_type) = remains.file_type else {
        // A directory that rule `directory-inode` restores may have the name of the inode.
        if known.has_lost_directory {
            return Ok(());
        }
        clear(patient, number)?;
        let action = Action::new(RULE, place, codes, "nothing: no bytes of the inode are left");
        patient.act(action.losing(Some(number), "the inode and its contents"));
        return Ok(());
    };
    let Some(made) = remains.make(patient, file_type)? else { return Ok(()) };
    let action = Action::new(RULE, place, codes, made.keeps).losing(Some(number), made.loses);
    patient.act(action.losing_extents(patient.geometry(), &made.freed));
    Ok(())
}

/// Marks the groups of all blocks that the reverse maps give to an inode.
fn mapped_groups(patient: &mut Patient, number: InodeNumber) {
    let groups: Vec<_> = patient.geometry().groups().collect();
    for group in groups {
        let map = patient.reverse_map(group);
        if map.records.iter().any(|record| record.owner == RmapOwner::Inode(number)) {
            patient.mark_group(group);
        }
    }
}

/// The structures outside of a destroyed inode that belong to it.
struct Remains {
    number: InodeNumber,
    links: u32,
    /// The extents of the data fork in the reverse map, in the order of the file.
    data: Vec<Extent>,
    /// The extents of the attribute fork in the reverse map.
    attr: Vec<Extent>,
    /// The type of the new inode. `None` if nothing is left.
    file_type: Option<FileType>,
}

/// A new inode in place of a destroyed one.
struct Made {
    /// The contents that the inode keeps, in words.
    keeps: String,
    /// The contents that are lost, in words.
    loses: String,
    /// The blocks of the destroyed inode that the new inode does not map.
    freed: Vec<Extent>,
}

impl Remains {
    fn of(patient: &Patient, known: &Known, number: InodeNumber) -> Self {
        let mapped = patient.mapped();
        let data = fork::in_order(mapped.fork(number, ForkKind::Data));
        let attr = fork::in_order(mapped.fork(number, ForkKind::Attr));
        let names = known.names(number);
        let stated = names
            .iter()
            .find_map(|name| EntryType::from_disk(name.entry_type).and_then(EntryType::file_type));
        let by_contents = data.first().map(|first| type_of_block(patient, number, first));
        // A name proves the inode, and so do attributes. Among them may be a parent pointer.
        let is_there = !names.is_empty() || !attr.is_empty();
        let file_type = match (by_contents, stated) {
            // The first block has a header that names this inode.
            (Some(proven @ (FileType::Symlink | FileType::Directory)), _) => Some(proven),
            (_, Some(stated @ (FileType::Regular | FileType::Symlink))) => Some(stated),
            // Pipes, sockets and devices have no blocks, so the entry is damaged.
            (Some(found), _) => Some(found),
            (None, stated) => stated.or(is_there.then_some(FileType::Regular)),
        };
        let links = u32::try_from(names.len().max(1)).unwrap_or(u32::MAX);
        Self { number, links, data, attr, file_type }
    }

    /// Writes the new inode, and returns its description. Returns `None`, and changes nothing, if
    /// the inode's counters cannot hold the number of its extents.
    fn make(self, patient: &mut Patient, file_type: FileType) -> Result<Option<Made>, RepairError> {
        let mut core = new_core(patient, self.number, self.links, file_type);
        let counts = [(ForkKind::Data, self.data.len()), (ForkKind::Attr, self.attr.len())];
        if counts.into_iter().any(|(kind, count)| !fork::fits_count(&core, kind, count)) {
            return Ok(None);
        }
        let block_log = patient.geometry().block_log;
        let end_of = |extents: &mut dyn Iterator<Item = &Extent>| {
            extents.map(|extent| extent.end().0).max().unwrap_or(0)
        };
        let made = match file_type {
            FileType::Regular => {
                let end = end_of(&mut self.data.iter().filter(|extent| !extent.unwritten));
                core.size = end.saturating_mul(1 << block_log).min(i64::MAX.cast_unsigned());
                self.write(patient, &core)?;
                Made::with_map(patient, "file")
            }
            FileType::Directory => {
                let limit = index_start(patient.geometry());
                let end = end_of(&mut self.data.iter().filter(|e| e.file_block < limit));
                let step = u64::from(patient.geometry().directory_block_size());
                core.size = (end << block_log).next_multiple_of(step);
                self.write(patient, &core)?;
                Made::with_map(patient, "directory")
            }
            FileType::Symlink => self.make_link(patient, core)?,
            FileType::Fifo | FileType::Socket | FileType::CharDevice | FileType::BlockDevice => {
                self.write(patient, &core)?;
                let is_device = matches!(file_type, FileType::CharDevice | FileType::BlockDevice);
                let number = if is_device { ", and the device number, which is 0 now" } else { "" };
                let keeps = "all names; the type is the one that they state".to_owned();
                Made { keeps, loses: format!("{LOST_FIELDS}{number}"), freed: Vec::new() }
            }
        };
        for extent in &made.freed {
            patient.mark_group_of(extent.start);
        }
        Ok(Some(made))
    }

    /// Writes the new inode, with its extents as its forks.
    fn write(self, patient: &mut Patient, core: &InodeCore) -> Result<(), RepairError> {
        patient.make_inode(core)?;
        for (kind, extents) in [(ForkKind::Data, self.data), (ForkKind::Attr, self.attr)] {
            if !extents.is_empty() {
                patient.set_fork(self.number, kind, ForkContents::Extents(extents))?;
            }
        }
        Ok(())
    }

    /// Writes the new inode of a symbolic link, with all bytes of the target that are left.
    fn make_link(
        mut self,
        patient: &mut Patient,
        mut core: InodeCore,
    ) -> Result<Made, RepairError> {
        let data = std::mem::take(&mut self.data);
        let number = self.number;
        let target = LinkTarget::of_lost_inode(patient, number, &data);
        core.size = target.length();
        self.write(patient, &core)?;
        let is_kept = symlink::put_target(patient, number, &data, &target)?;
        let keeps = match target.is_whole() {
            true => "the target and all names of the link".to_owned(),
            false => format!("all names of the link, and {}", target.describe()),
        };
        let loses = match target.is_whole() {
            true => LOST_FIELDS.to_owned(),
            false => format!("{LOST_FIELDS}, and the rest of the target"),
        };
        Ok(Made { keeps, loses, freed: if is_kept { Vec::new() } else { data } })
    }
}

impl Made {
    /// Describes an inode whose contents come from the reverse map. `noun` is its type.
    fn with_map(patient: &Patient, noun: &str) -> Self {
        let keeps = format!("the contents by the reverse map, and all names of the {noun}");
        let rest = match has_whole_maps(patient) {
            true => ", and the exact size",
            false => ", the exact size, and the contents that no reverse map has",
        };
        Self { keeps, loses: format!("{LOST_FIELDS}{rest}"), freed: Vec::new() }
    }
}

/// Returns the type of an inode whose data fork begins with this block. The contents of the block
/// decide.
fn type_of_block(patient: &Patient, owner: InodeNumber, first: &Extent) -> FileType {
    let geometry = patient.geometry();
    let mut bytes = vec![0; geometry.block_size as usize];
    // Only files have blocks in the realtime section.
    if patient.mapped().is_realtime(owner) {
        return FileType::Regular;
    }
    let at = geometry.block_disk_addr(first.start);
    let Some(at) = at.filter(|at| patient.can_read(*at, &mut bytes)) else {
        return FileType::Regular;
    };
    if xfs_evidence::is_block_of_symlink(&bytes, owner, at, geometry) {
        return FileType::Symlink;
    }
    let form = geometry.directory_form;
    let directory = DataBlock::decode(&bytes, 0, StructureAddress::Disk(at), form);
    if directory.is_ok_and(|block| block.owner() == Some(owner)) {
        return FileType::Directory;
    }
    FileType::Regular
}

/// Returns whether the reverse maps of all groups can be read without damage.
fn has_whole_maps(patient: &Patient) -> bool {
    patient.geometry().groups().all(|group| patient.reverse_map(group).is_whole)
}

/// Returns the core of an inode of which only contents and names are known. The owner of the inode
/// is root, and no other user can read the file. A symbolic link gets all permission bits, as from
/// the kernel, because its permissions have no effect.
pub(in crate::rules) fn new_core(
    patient: &Patient,
    number: InodeNumber,
    links: u32,
    file_type: FileType,
) -> InodeCore {
    let mut flags2 = InodeFlags2::empty();
    let mut flags = InodeFlags::empty();
    let is_realtime = file_type == FileType::Regular && patient.mapped().is_realtime(number);
    flags.set(InodeFlags::REALTIME, is_realtime);
    let has = |feature| patient.geometry().has_incompat(feature);
    flags2.set(InodeFlags2::BIGTIME, has(IncompatFeatures::BIGTIME));
    flags2.set(InodeFlags2::NREXT64, has(IncompatFeatures::NREXT64));
    let epoch = Timestamp::default();
    let permissions = match file_type {
        FileType::Directory => 0o700,
        FileType::Symlink => 0o777,
        _ => 0o600,
    };
    let data_format = match file_type {
        FileType::Regular | FileType::Directory | FileType::Symlink => ForkFormat::Extents,
        _ => ForkFormat::Device,
    };
    InodeCore {
        number,
        mode: file_type.mode_bits() | permissions,
        data_format,
        attr_format: ForkFormat::Extents,
        fork_offset: 0,
        metafile_type: 0,
        uid: 0,
        gid: 0,
        nlink: if file_type == FileType::Directory { links + 1 } else { links },
        project_id: 0,
        access_time: epoch,
        modify_time: epoch,
        change_time: epoch,
        birth_time: epoch,
        size: 0,
        blocks: 0,
        extent_size_hint_blocks: 0,
        cow_extent_size_hint_blocks: 0,
        extents: 0,
        attr_extents: 0,
        flags,
        flags2,
        generation: 1,
        next_unlinked: AgInode::NULL,
        change_count: 1,
        lsn: patient.lsn(),
        rdev: None,
    }
}
