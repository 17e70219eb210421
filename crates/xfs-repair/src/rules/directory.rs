//! Rule *directory*: writes a whole directory again.
//!
//! A directory is written if a finding says that its blocks are damaged, or if its entries, their
//! types or `..` differ from the decided tree (the tree of names that `resolve` has chosen). A
//! directory that would lose names is written only if losses are allowed.

use std::ops::Range;

use xfs_check::{Area, Code, Place};
use xfs_format::inode::ForkKind;
use xfs_format::{BASIC_BLOCK_BYTES, FsBlock, InodeNumber};

use super::facts::Name;
use super::names::Names;
use super::pieces::{self, ForkPlace, WrittenBlock};
use crate::action::{Action, counted};
use crate::build::directory::{DirectoryForm, NewDirectory, NewEntry, build};
use crate::error::RepairError;
use crate::fork::ForkContents;
use crate::patient::Patient;

/// Writes again the directories that are damaged, or whose entries differ from the names that
/// `resolve` has decided on.
///
/// # Errors
///
/// The first error of the overlay.
pub(crate) fn run(patient: &mut Patient, names: &Names<'_>) -> Result<(), RepairError> {
    let members = names.facts.members.iter().filter(|(_, member)| member.is_directory());
    let mut directories: Vec<InodeNumber> = members.map(|(number, _)| *number).collect();
    directories.extend(names.tree.made.keys());
    directories.sort_unstable();
    directories.dedup();
    for directory in directories {
        if names.tree.is_held && waits(names, directory) {
            continue;
        }
        let wanted = DirectoryPlan::of(names, directory);
        if is_damaged(names, directory) || !wanted.is_there(names) {
            patient.attempt(|patient| write(patient, names, &wanted))?;
        }
    }
    Ok(())
}

/// Returns whether a directory may be written only if losses are allowed. That is so if the inode
/// of the directory is made again, if entries of the directory are lost, or if the decided tree
/// gives up one of its names.
fn waits(names: &Names<'_>, directory: InodeNumber) -> bool {
    let is_dropped = names.tree.dropped.iter().any(|dropped| dropped.link.directory == directory);
    let member = names.facts.members.get(&directory);
    is_dropped || member.is_none_or(|member| names.facts.loses_names(member))
}

/// The contents that a directory must have after the repair.
struct DirectoryPlan {
    directory: InodeNumber,
    parent: InodeNumber,
    entries: Vec<NewEntry>,
    /// For each entry that the directory must have, the index of this entry in the directory on
    /// disk now. `None` if the directory on disk lacks the entry.
    positions: Vec<Option<usize>>,
}

impl DirectoryPlan {
    fn of(names: &Names<'_>, directory: InodeNumber) -> Self {
        let links = names.tree.links_of(directory);
        let entries = links.iter().map(|link| NewEntry {
            name: link.name.to_vec(),
            child: link.child,
            entry_type: names.tree.entry_type(names.facts, link),
        });
        Self {
            directory,
            parent: parent_of(names, directory),
            entries: entries.collect(),
            positions: links.iter().map(|link| link.position).collect(),
        }
    }

    /// Returns whether the directory on disk has exactly these contents already.
    fn is_there(&self, names: &Names<'_>) -> bool {
        let Some(member) = names.facts.members.get(&self.directory) else { return false };
        let old = old_names(names, self.directory);
        let is_same = |(index, (entry, position)): (usize, (&NewEntry, &Option<usize>))| {
            *position == Some(index)
                && old.get(index).is_some_and(|old| {
                    let is_same_type = old.entry_type == entry.entry_type;
                    is_same_type && old.child == entry.child && *old.name == *entry.name
                })
        };
        member.is_directory()
            && member.dotdot == Some(self.parent)
            && old.len() == self.entries.len()
            && self.entries.iter().zip(&self.positions).enumerate().all(is_same)
    }
}

/// Returns the entries that the directory has on disk now. Finds them by a binary search in the
/// list of all entries, which is sorted by directory.
fn old_names<'n>(names: &'n Names<'_>, directory: InodeNumber) -> &'n [Name] {
    let all = &names.facts.names;
    let start = all.partition_point(|name| name.directory < directory);
    let end = all.partition_point(|name| name.directory <= directory);
    all.get(start..end).unwrap_or(&[])
}

/// Returns the directory to which `..` must lead. A directory to which no name leads keeps the `..`
/// that it has.
fn parent_of(names: &Names<'_>, directory: InodeNumber) -> InodeNumber {
    if names.facts.is_root(directory) {
        return directory;
    }
    let by_name = names.links_to(directory).next().map(|link| link.directory);
    let stored = names.facts.members.get(&directory).and_then(|member| member.dotdot);
    by_name.or(stored).unwrap_or(names.facts.root)
}

/// Returns whether a finding says that the blocks of a directory are damaged. Findings about single
/// names do not count: `resolve` has already decided on these names.
fn is_damaged(names: &Names<'_>, directory: InodeNumber) -> bool {
    names.damage.codes_of(directory).into_iter().any(is_about_blocks)
}

fn is_about_blocks(code: Code) -> bool {
    let is_about_names = matches!(
        code,
        Code::DirType
            | Code::DirTarget
            | Code::DirParent
            | Code::DirTwice
            | Code::DirUnreachable
            | Code::DirRing
    );
    code.area() == Area::Directory && !is_about_names
}

fn write(
    patient: &mut Patient,
    names: &Names<'_>,
    wanted: &DirectoryPlan,
) -> Result<(), RepairError> {
    let geometry = patient.geometry().clone();
    let directory =
        NewDirectory { number: wanted.directory, parent: wanted.parent, entries: &wanted.entries };
    let room = patient.fork_room(wanted.directory, ForkKind::Data);
    let Some(form) = build(&directory, &geometry, room) else { return Ok(()) };
    let inode = wanted.directory;
    let lost = Lost::of(patient, names, inode);
    let size = match form {
        DirectoryForm::Short(bytes) => {
            let size = bytes.len() as u64;
            patient.set_fork(inode, ForkKind::Data, ForkContents::Local(bytes))?;
            size
        }
        DirectoryForm::Blocks { blocks, size } => {
            let blocks = blocks.into_iter().map(WrittenBlock::Block).collect();
            let fork = ForkPlace { inode, kind: ForkKind::Data };
            pieces::write(patient, names.model, fork, blocks)?;
            size
        }
    };
    patient.set_inode(inode, |core| core.size = size)?;
    report(patient, names, wanted, lost);
    Ok(())
}

/// The blocks of a directory whose entries cannot be read.
struct Lost {
    /// Whether names are lost with these unreadable blocks, because no parent pointer has them.
    is_loss: bool,
    /// The byte ranges that these blocks occupy on the device.
    ranges: Vec<Range<u64>>,
}

impl Lost {
    /// Finds the unreadable blocks of a directory on disk, before the directory is written again.
    fn of(patient: &Patient, names: &Names<'_>, directory: InodeNumber) -> Self {
        let member = names.facts.members.get(&directory);
        let is_loss = member.is_some_and(|member| names.facts.loses_names(member));
        let mut ranges = Vec::new();
        if is_loss {
            let evidence = patient.evidence();
            let found = evidence.entries(&evidence.inode(directory));
            let geometry = patient.geometry();
            for (extent, lost) in found
                .map
                .extents
                .iter()
                .flat_map(|extent| found.missing.iter().map(move |missing| (extent, missing)))
            {
                let start = extent.file_block.max(lost.start).0;
                let end = extent.end().min(lost.end).0;
                let first = FsBlock(extent.start.0 + start.saturating_sub(extent.file_block.0));
                let at = geometry.block_disk_addr(first).filter(|_| start < end);
                ranges.extend(at.map(|at| {
                    let at = at.0 * u64::from(BASIC_BLOCK_BYTES);
                    at..at + ((end - start) << geometry.block_log)
                }));
            }
        }
        Self { is_loss, ranges }
    }
}

fn report(patient: &mut Patient, names: &Names<'_>, wanted: &DirectoryPlan, lost: Lost) {
    let place = Place::of_inode(wanted.directory, patient.geometry());
    let restored = wanted.positions.iter().filter(|position| position.is_none()).count();
    let all = wanted.entries.len();
    let keeps = match restored {
        0 => format!("{} from its entries", counted(all, "name")),
        _ => format!(
            "{} from its entries, {restored} from parent pointers",
            counted(all - restored, "name")
        ),
    };
    let codes = names.damage.codes_of(wanted.directory);
    let mut action = Action::new("directory", place, codes, keeps);
    if lost.is_loss {
        let what = "the names in damaged blocks of the directory that nothing else states";
        action = action.losing(Some(wanted.directory), what);
        action = lost.ranges.into_iter().fold(action, Action::losing_bytes);
    }
    patient.act(action);
}
