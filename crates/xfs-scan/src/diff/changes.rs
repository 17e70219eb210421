//! The comparison of one inode in both states.
//!
//! Owns: the kinds of changes, the aspects of a change, and what counts as evidence of changed
//! contents. Does **not** own: the order of inodes, or the output.
//!
//! A row has no contents. A regular file whose size or modification time differs counts as changed.
//! Programs can set the modification time back, but not the change time (`ctime`) and the change
//! count. So a difference of any of these four is *evidence*, for which a caller may compare the
//! bytes. Without that, a difference of the change time alone is reported as [`Aspect::Times`]: a
//! value of an attribute may have changed, or nothing at all. Some kernels raise the change count
//! when a file is read. So a difference of the count alone is no change.
//!
//! The entries of a directory are no aspect of the directory. Each new, missing or renamed entry is
//! a change of the inode that it names.

use std::collections::BTreeSet;

use xfs_format::inode::{ExtendedFlags, FileType};

use super::ContentsAnswer;
use super::entries::EntryView;
use crate::row::{ParentDirectory, Row};

/// The kind of a change. An inode has one; if several apply, the first in the order of
/// [`ChangeKind::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ChangeKind {
    /// The inode is new.
    Created,
    /// The inode is gone.
    Removed,
    /// At least one name of the inode is gone, and at least one is new.
    Renamed,
    /// The inode has a further name, and all names that it had.
    Linked,
    /// The inode has lost a name, and has no new one.
    Unlinked,
    /// The names are the same, but another part of the inode differs.
    Changed,
    /// Only a directory above the inode was renamed.
    Moved,
}

impl ChangeKind {
    /// All kinds of changes.
    pub const ALL: [Self; 7] = [
        Self::Created,
        Self::Removed,
        Self::Renamed,
        Self::Linked,
        Self::Unlinked,
        Self::Changed,
        Self::Moved,
    ];

    /// Returns the word for this kind in the output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Removed => "removed",
            Self::Renamed => "renamed",
            Self::Linked => "linked",
            Self::Unlinked => "unlinked",
            Self::Changed => "changed",
            Self::Moved => "moved",
        }
    }
}

/// A part of an inode that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Aspect {
    /// The contents of a regular file: by its size and modification time, or by its bytes if they
    /// were compared.
    Contents,
    /// The size of a regular file.
    Size,
    /// The user or the group.
    Owner,
    /// The permissions.
    Mode,
    /// The project.
    Project,
    /// The number of links of an inode that is not a directory.
    Links,
    /// The flags that `FS_IOC_FSGETXATTR` shows.
    Flags,
    /// The extended attributes: their names, and their values if these were compared.
    Attributes,
    /// The device number.
    Device,
    /// The modification time or the change time, without another difference that explains it.
    Times,
}

impl Aspect {
    /// All aspects, in the order of the output.
    pub const ALL: [Self; 10] = [
        Self::Contents,
        Self::Size,
        Self::Owner,
        Self::Mode,
        Self::Project,
        Self::Links,
        Self::Flags,
        Self::Attributes,
        Self::Device,
        Self::Times,
    ];

    /// Returns the word for this aspect in the output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Contents => "contents",
            Self::Size => "size",
            Self::Owner => "owner",
            Self::Mode => "mode",
            Self::Project => "project",
            Self::Links => "links",
            Self::Flags => "flags",
            Self::Attributes => "attributes",
            Self::Device => "device",
            Self::Times => "times",
        }
    }
}

/// A set of aspects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aspects(u16);

impl Aspects {
    /// Adds `aspect` if `differs`.
    const fn set(&mut self, aspect: Aspect, differs: bool) {
        let bit = 1 << aspect as u16;
        self.0 = if differs { self.0 | bit } else { self.0 & !bit };
    }

    /// Returns whether the set has `aspect`.
    #[must_use]
    pub const fn contains(self, aspect: Aspect) -> bool {
        self.0 & (1 << aspect as u16) != 0
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the aspects in the order of the output.
    pub fn iter(self) -> impl Iterator<Item = Aspect> {
        Aspect::ALL.into_iter().filter(move |aspect| self.contains(*aspect))
    }
}

/// A change of one inode.
#[derive(Clone, Debug)]
pub struct Change<'a> {
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The parts of the inode that differ. Empty if the inode is in one state only.
    pub aspects: Aspects,
    /// The inode in the first state.
    pub old: Option<EntryView<'a>>,
    /// The inode in the second state.
    pub new: Option<EntryView<'a>>,
    /// The paths of the first state whose names are gone.
    pub removed_paths: Vec<&'a [u8]>,
    /// The paths of the second state whose names are new.
    pub added_paths: Vec<&'a [u8]>,
}

impl<'a> Change<'a> {
    fn of_one(kind: ChangeKind, old: Option<EntryView<'a>>, new: Option<EntryView<'a>>) -> Self {
        let aspects = Aspects::default();
        Self { kind, aspects, old, new, removed_paths: Vec::new(), added_paths: Vec::new() }
    }

    pub(super) fn created(new: EntryView<'a>) -> Self {
        Self::of_one(ChangeKind::Created, None, Some(new))
    }

    pub(super) fn removed(old: EntryView<'a>) -> Self {
        Self::of_one(ChangeKind::Removed, Some(old), None)
    }

    /// Returns the inode as it is in the second state, or in the first state if it was removed.
    #[must_use]
    pub fn latest(&self) -> EntryView<'a> {
        self.new.or(self.old).expect("a change has at least one state of its inode")
    }
}

/// The result of comparing the rows of an inode.
pub(super) struct Compared<'a> {
    aspects: Aspects,
    /// The paths whose names only the first state has. The next field has those of the second
    /// state.
    removed: Vec<&'a [u8]>,
    added: Vec<&'a [u8]>,
    /// Whether the modification or the change time differs. It is reported only if no other
    /// difference explains it.
    has_other_times: bool,
    /// Whether there is evidence that contents or attribute values changed, so that comparing the
    /// bytes is worthwhile.
    pub(super) has_evidence: bool,
}

/// Compares two rows of the same inode.
pub(super) fn compare<'a>(old: EntryView<'a>, new: EntryView<'a>) -> Compared<'a> {
    let (a, b) = (old.row(), new.row());
    let is_file = b.file_type() == Some(FileType::Regular);
    let is_directory = b.file_type() == Some(FileType::Directory);
    // Compare as Arrow holds them, so that a time that one state cannot hold is no difference.
    let has_other_mtime = a.mtime.nanoseconds() != b.mtime.nanoseconds();
    let has_other_ctime = a.ctime.nanoseconds() != b.ctime.nanoseconds();
    let mut aspects = Aspects::default();
    aspects.set(Aspect::Contents, is_file && (a.size != b.size || has_other_mtime));
    aspects.set(Aspect::Size, is_file && a.size != b.size);
    aspects.set(Aspect::Owner, (a.uid, a.gid) != (b.uid, b.gid));
    aspects.set(Aspect::Mode, a.mode != b.mode);
    aspects.set(Aspect::Project, a.project_id != b.project_id);
    aspects.set(Aspect::Links, !is_directory && a.nlink != b.nlink);
    aspects.set(Aspect::Flags, shown_flags(a) != shown_flags(b));
    aspects.set(Aspect::Attributes, has_other_attribute_names(old, new));
    aspects.set(Aspect::Device, a.packed_rdev != b.packed_rdev);
    let (removed, added) = compare_names(old, new);
    // The modification time of a directory says that its entries changed, which is reported for the
    // entries.
    let has_other_times = match is_directory {
        true => has_other_ctime && !has_other_mtime,
        false => has_other_ctime || has_other_mtime,
    };
    let has_other_count = a.change_count != b.change_count;
    let has_evidence = has_other_mtime || has_other_ctime || has_other_count || a.size != b.size;
    Compared { aspects, removed, added, has_other_times, has_evidence }
}

impl<'a> Compared<'a> {
    /// Records `answer`, the result of comparing contents and attributes byte by byte. It replaces
    /// the evidence that the rows gave.
    pub(super) fn settle(&mut self, answer: ContentsAnswer) {
        let has_other_size = self.aspects.contains(Aspect::Size);
        self.aspects.set(Aspect::Contents, has_other_size || !answer.has_same_bytes);
        self.aspects.set(Aspect::Attributes, !answer.has_same_attributes);
    }

    /// Returns the change; `None` if the inode is the same in both states. With `below_moved`, an
    /// inode also counts as changed if only a directory above it was renamed.
    pub(super) fn into_change(
        mut self,
        old: EntryView<'a>,
        new: EntryView<'a>,
        below_moved: bool,
    ) -> Option<Change<'a>> {
        let has_same_names = self.removed.is_empty() && self.added.is_empty();
        let is_unexplained = self.aspects.is_empty() && has_same_names;
        self.aspects.set(Aspect::Times, self.has_other_times && is_unexplained);
        let Self { aspects, removed, added, .. } = self;
        let kind = match (removed.is_empty(), added.is_empty()) {
            (false, false) => ChangeKind::Renamed,
            (true, false) => ChangeKind::Linked,
            (false, true) => ChangeKind::Unlinked,
            (true, true) if !aspects.is_empty() => ChangeKind::Changed,
            (true, true) if below_moved && !has_same_paths(old, new) => ChangeKind::Moved,
            (true, true) => return None,
        };
        let (old, new) = (Some(old), Some(new));
        Some(Change { kind, aspects, old, new, removed_paths: removed, added_paths: added })
    }
}

/// Returns the flags that a user can set. The flag for an attribute fork is left out, because the
/// fork stays when its last attribute is removed.
fn shown_flags(row: &Row) -> u32 {
    row.xflags & !ExtendedFlags::HAS_ATTR.bits()
}

fn has_other_attribute_names(old: EntryView<'_>, new: EntryView<'_>) -> bool {
    let (Some(old), Some(new)) = (old.xattrs(), new.xattrs()) else { return false };
    // The order on disk depends on the history.
    !old.clone().eq(new.clone()) && old.collect::<BTreeSet<_>>() != new.collect::<BTreeSet<_>>()
}

fn has_same_paths(old: EntryView<'_>, new: EntryView<'_>) -> bool {
    old.paths().eq(new.paths())
        || old.paths().collect::<BTreeSet<_>>() == new.paths().collect::<BTreeSet<_>>()
}

/// A name of an inode: its directory and the last component of its path.
type Name<'a> = (ParentDirectory, &'a [u8]);

fn names(entry: EntryView<'_>) -> impl Iterator<Item = (Name<'_>, &[u8])> {
    entry.parents().iter().copied().zip(entry.paths()).map(|(parent, path)| {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        ((parent, name), path)
    })
}

/// Returns the paths of the names that are only in `old`, and of those that are only in `new`.
fn compare_names<'a>(old: EntryView<'a>, new: EntryView<'a>) -> (Vec<&'a [u8]>, Vec<&'a [u8]>) {
    if names(old).map(|(name, _)| name).eq(names(new).map(|(name, _)| name)) {
        return (Vec::new(), Vec::new());
    }
    let (before, after): (BTreeSet<Name<'_>>, BTreeSet<Name<'_>>) =
        (names(old).map(|(name, _)| name).collect(), names(new).map(|(name, _)| name).collect());
    let removed = names(old).filter(|(name, _)| !after.contains(name)).map(|(_, path)| path);
    let added = names(new).filter(|(name, _)| !before.contains(name)).map(|(_, path)| path);
    (removed.collect(), added.collect())
}
