//! The files of the realtime section and of quota, found by their paths on a damaged volume.
//!
//! Owns: the kinds of these files with their names and numbers, and the search for their inodes.
//! Does **not** own: the fields of such an inode (rule `metadata-inode`), or their contents (rule
//! `realtime`).
//!
//! ```text
//! rtgroups/N.bitmap  rtgroups/N.summary  rtgroups/N.rmap  rtgroups/N.refcount
//! quota/user  quota/group  quota/project
//! ```
//!
//! On a volume without a metadata directory, the superblock names the bitmap and the summary. They
//! count as files of group 0.

use std::collections::{BTreeMap, BTreeSet};

use xfs_evidence::Evidence;
use xfs_format::inode::{InodeCore, InodeFlags, InodeFlags2};
use xfs_format::{Geometry, IncompatFeatures, InodeNumber, RoCompatFeatures, Superblock};

/// The greatest number of realtime groups whose structures are written. More of them would take too
/// long, because each rule looks at every group.
const MOST_GROUPS: u32 = 1 << 20;

/// Returns the numbers of the realtime groups of a volume. Returns none if there are more than
/// [`MOST_GROUPS`].
pub(crate) fn groups(geometry: &Geometry) -> std::ops::Range<u32> {
    let count = geometry.realtime.group_count.max(1);
    match geometry.realtime.is_present() && count <= MOST_GROUPS {
        true => 0..count,
        false => 0..0,
    }
}

/// The kind of an inode of the metadata directory, with its number on disk.
#[doc(alias = "di_metatype")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub(crate) enum MetadirKind {
    /// A directory.
    Directory = 1,
    /// The dquots of users.
    UserQuota,
    /// The dquots of groups.
    GroupQuota,
    /// The dquots of projects.
    ProjectQuota,
    /// The bitmap of free realtime extents.
    Bitmap,
    /// The counts of free runs by size.
    Summary,
    /// The reverse map of a realtime group.
    ReverseMap,
    /// The reference counts of a realtime group.
    Refcounts,
}

/// The files of each realtime group, each with the part of its name after the group number.
const OF_GROUPS: [(MetadirKind, &str); 4] = [
    (MetadirKind::Bitmap, "bitmap"),
    (MetadirKind::Summary, "summary"),
    (MetadirKind::ReverseMap, "rmap"),
    (MetadirKind::Refcounts, "refcount"),
];

/// The files of quota, with their names.
const OF_QUOTA: [(MetadirKind, &str); 3] = [
    (MetadirKind::UserQuota, "user"),
    (MetadirKind::GroupQuota, "group"),
    (MetadirKind::ProjectQuota, "project"),
];

/// The flags that every inode of the metadata directory has.
const FLAGS: InodeFlags = InodeFlags::IMMUTABLE
    .union(InodeFlags::SYNC)
    .union(InodeFlags::NOATIME)
    .union(InodeFlags::NODUMP)
    .union(InodeFlags::NODEFRAG);

/// A file or a directory of the metadata directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MetadirFile {
    /// The realtime group; 0 for directories and files of quota.
    pub(crate) group: u32,
    /// The kind.
    pub(crate) kind: MetadirKind,
}

impl MetadirFile {
    /// Stands for any directory of the metadata directory.
    pub(crate) const DIRECTORY: Self = Self { group: 0, kind: MetadirKind::Directory };

    /// Returns whether the file holds the root of a btree of records.
    pub(crate) const fn is_tree(self) -> bool {
        matches!(self.kind, MetadirKind::ReverseMap | MetadirKind::Refcounts)
    }

    /// Returns the name of the directory that contains the file, below the root of the metadata
    /// directory, and the name of the file. `None` for a directory.
    pub(crate) fn path(self) -> Option<(&'static str, String)> {
        let of = |list: &[(MetadirKind, &'static str)]| {
            list.iter().find(|(kind, _)| *kind == self.kind).map(|(_, name)| *name)
        };
        match (of(&OF_GROUPS), of(&OF_QUOTA)) {
            (Some(end), _) => Some(("rtgroups", format!("{}.{end}", self.group))),
            (None, Some(name)) => Some(("quota", name.to_owned())),
            (None, None) => None,
        }
    }

    /// Returns the file that a metadata inode is according to its own fields. `None` if the fields
    /// name no kind of file.
    pub(crate) fn of_fields(core: &InodeCore) -> Option<Self> {
        let kinds = OF_GROUPS.iter().chain(&OF_QUOTA).map(|(kind, _)| *kind);
        let kind = kinds.into_iter().find(|kind| *kind as u16 == core.metafile_type)?;
        Some(Self { group: core.project_id, kind })
    }

    /// Sets the fields of an inode that every file of this kind has.
    pub(crate) fn set_fields(self, core: &mut InodeCore) {
        use xfs_format::inode::FileType;
        let is_directory = self.kind == MetadirKind::Directory;
        let file_type = if is_directory { FileType::Directory } else { FileType::Regular };
        core.mode = file_type.mode_bits();
        (core.uid, core.gid, core.project_id) = (0, 0, self.group);
        core.metafile_type = self.kind as u16;
        core.flags = if is_directory { FLAGS | InodeFlags::NOSYMLINKS } else { FLAGS };
        core.flags2 |= InodeFlags2::METADATA;
        core.flags2 = core.flags2.difference(InodeFlags2::DAX | InodeFlags2::COWEXTSIZE);
        if self.kind != MetadirKind::ReverseMap {
            core.cow_extent_size_hint_blocks = 0;
        }
    }
}

/// The files of the realtime section and of quota, by their paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetadirFiles {
    /// The root of the metadata directory.
    pub(crate) root: Option<InodeNumber>,
    /// The directories below the root, by name.
    pub(crate) directories: BTreeMap<&'static str, InodeNumber>,
    /// The files, by group and kind.
    pub(crate) files: BTreeMap<MetadirFile, InodeNumber>,
}

impl MetadirFiles {
    /// Finds the files of a volume by their paths.
    pub(crate) fn find(evidence: &Evidence<'_>) -> Self {
        let superblock = evidence.superblock();
        let mut found = Self { root: superblock.metadata_directory_inode, ..Self::default() };
        let Some(root) = found.root else {
            if superblock.has_realtime() {
                for (kind, inode) in [
                    (MetadirKind::Bitmap, superblock.realtime_bitmap_inode),
                    (MetadirKind::Summary, superblock.realtime_summary_inode),
                ] {
                    found.files.insert(MetadirFile { group: 0, kind }, inode);
                }
            }
            return found;
        };
        for name in evidence.entries(&evidence.inode(root)).names {
            let known = ["rtgroups", "quota"].into_iter();
            if let Some(known) = known.into_iter().find(|known| known.as_bytes() == &*name.name) {
                found.directories.entry(known).or_insert(name.child);
            }
        }
        let wanted = wanted(superblock);
        let wanted: BTreeMap<(&str, Vec<u8>), MetadirFile> = wanted
            .into_iter()
            .filter_map(|file| file.path().map(|(at, name)| ((at, name.into_bytes()), file)))
            .collect();
        for (at, directory) in &found.directories {
            for name in evidence.entries(&evidence.inode(*directory)).names {
                if let Some(file) = wanted.get(&(*at, name.name.to_vec())) {
                    found.files.entry(*file).or_insert(name.child);
                }
            }
        }
        found
    }

    /// Returns the inode of a file.
    pub(crate) fn inode(&self, group: u32, kind: MetadirKind) -> Option<InodeNumber> {
        self.files.get(&MetadirFile { group, kind }).copied()
    }

    /// Returns the inodes of the metadata directory in the order of their numbers, each with the
    /// file that it is according to its path. Leaves out an inode to which two paths lead.
    pub(crate) fn by_inode(&self) -> BTreeMap<InodeNumber, MetadirFile> {
        let Some(root) = self.root else { return BTreeMap::new() };
        let directories = self.directories.values().copied().chain([root]);
        let directories = directories.map(|inode| (inode, MetadirFile::DIRECTORY));
        let files = self.files.iter().map(|(file, inode)| (*inode, *file));
        let (mut once, mut twice) = (BTreeMap::new(), BTreeSet::new());
        for (inode, file) in directories.chain(files) {
            if once.insert(inode, file).is_some() {
                twice.insert(inode);
            }
        }
        once.retain(|inode, _| !twice.contains(inode));
        once
    }
}

/// Returns the files of realtime groups that a volume must have, and those of quota that it may
/// have.
fn wanted(superblock: &Superblock) -> BTreeSet<MetadirFile> {
    let quota = OF_QUOTA.into_iter().map(|(kind, _)| MetadirFile { group: 0, kind });
    needed(superblock).into_iter().chain(quota).collect()
}

/// Returns the files of realtime groups that a volume with a metadata directory must have.
pub(crate) fn needed(superblock: &Superblock) -> BTreeSet<MetadirFile> {
    let geometry = &superblock.geometry;
    let is_zoned = superblock.has_incompat(IncompatFeatures::ZONED);
    let has_kind = |kind: MetadirKind| match kind {
        MetadirKind::Bitmap | MetadirKind::Summary => !is_zoned,
        MetadirKind::ReverseMap => geometry.has_ro_compat(RoCompatFeatures::RMAPBT),
        _ => !is_zoned && geometry.has_ro_compat(RoCompatFeatures::REFLINK),
    };
    // Only a section with groups has files in the metadata directory.
    let groups = match geometry.realtime.group_count {
        0 => 0..0,
        _ => groups(geometry),
    };
    let kinds = OF_GROUPS.into_iter().map(|(kind, _)| kind).filter(|kind| has_kind(*kind));
    let kinds: Vec<MetadirKind> = kinds.collect();
    groups
        .flat_map(|group| kinds.iter().map(move |kind| MetadirFile { group, kind: *kind }))
        .collect()
}
