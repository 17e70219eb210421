//! The files of the realtime section and of quota: their kinds, and the inodes that hold them.
//!
//! Owns: the kinds and names of these files, and the map from inodes to files. Does **not** own:
//! the search for them (`metadir.rs`), or their contents (`realtime.rs`, `quota.rs`).

use std::collections::BTreeMap;

use xfs_format::InodeNumber;

/// The kind of an inode of the metadata directory. The value of a variant is the number that stands
/// for the kind on disk.
#[doc(alias = "di_metatype")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub(crate) enum MetadataKind {
    Directory = 1,
    UserQuota,
    GroupQuota,
    ProjectQuota,
    Bitmap,
    Summary,
    ReverseMap,
    Refcounts,
}

impl MetadataKind {
    pub(crate) const QUOTA: [(Self, &'static str); 3] =
        [(Self::UserQuota, "user"), (Self::GroupQuota, "group"), (Self::ProjectQuota, "project")];
    pub(crate) const OF_GROUPS: [(Self, &'static str); 4] = [
        (Self::Bitmap, "bitmap"),
        (Self::Summary, "summary"),
        (Self::ReverseMap, "rmap"),
        (Self::Refcounts, "refcount"),
    ];
}

/// A file of the realtime section or of quota: its kind, and its realtime group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetadataFile {
    pub(crate) kind: MetadataKind,
    /// The number of the realtime group; 0 for a file of quota.
    pub(crate) group: u32,
}

impl MetadataFile {
    /// Parses the name of a file in the directory of realtime groups. Returns `None` for a name
    /// that no such file has.
    pub(crate) fn of_group(name: &[u8]) -> Option<Self> {
        let (group, suffix) = str::from_utf8(name).ok()?.split_once('.')?;
        let number: u32 = group.parse().ok()?;
        let (kind, _) = MetadataKind::OF_GROUPS.into_iter().find(|(_, known)| *known == suffix)?;
        (number.to_string() == group).then_some(Self { kind, group: number })
    }
}

/// The inodes that hold the files of a realtime group.
pub(crate) type GroupFiles = BTreeMap<MetadataKind, InodeNumber>;

/// The files of the realtime section and of quota, by their paths.
#[derive(Debug, Default)]
pub(crate) struct MetadataFiles {
    /// The inodes of quota of users, groups and projects.
    pub(crate) quota: [Option<InodeNumber>; 3],
    /// The files of each realtime group that has any.
    pub(crate) groups: BTreeMap<u32, GroupFiles>,
    files: BTreeMap<InodeNumber, MetadataFile>,
    /// Whether all names in the metadata directory could be read.
    pub(crate) is_whole: bool,
}

impl MetadataFiles {
    /// An empty set of files. `is_whole` is `true`: nothing was left unread.
    pub(crate) const NONE: Self =
        Self { quota: [None; 3], groups: BTreeMap::new(), files: BTreeMap::new(), is_whole: true };

    /// Returns the file that an inode holds according to the path that leads to it.
    pub(crate) fn file(&self, inode: InodeNumber) -> Option<MetadataFile> {
        self.files.get(&inode).copied()
    }

    /// Adds a file, and the inode to which its path leads.
    pub(crate) fn insert(&mut self, file: MetadataFile, inode: InodeNumber) {
        self.files.entry(inode).or_insert(file);
        if file.kind >= MetadataKind::Bitmap {
            self.groups.entry(file.group).or_default().insert(file.kind, inode);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MetadataFile, MetadataKind};

    #[test]
    fn names_of_group_files_are_parsed_exactly() {
        let file = MetadataFile::of_group(b"17.rmap").unwrap();
        assert_eq!((file.kind, file.group), (MetadataKind::ReverseMap, 17));
        for name in ["017.rmap", "+1.rmap", "1.rmap2", "1", ".rmap", "4294967296.bitmap"] {
            assert!(MetadataFile::of_group(name.as_bytes()).is_none(), "{name}");
        }
    }
}
