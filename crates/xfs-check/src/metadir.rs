//! The metadata directory: the tree of inodes that hold the files of the realtime section and of
//! quota.
//!
//! Owns: the search for these inodes by their paths, the names that the tree may have, and the
//! properties of its inodes. Does **not** own: links between the tree and the other directories,
//! which the balance of links compares, or the contents of the files (`realtime.rs`, `quota.rs`).
//!
//! ```text
//! rtgroups/N.bitmap  rtgroups/N.summary  rtgroups/N.rmap  rtgroups/N.refcount
//! quota/user  quota/group  quota/project
//! ```
//!
//! On a volume without the tree, the superblock names the bitmap and the summary. They are found
//! here too, as the files of group 0.

use std::collections::BTreeMap;

use xfs_format::directory::EntryType;
use xfs_format::inode::{FileType, ForkFormat, ForkKind, InodeCore, InodeFlags, InodeFlags2};
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::refcount::Refcount;
use xfs_format::{AgBlock, AgNumber, DiskAddr, IncompatFeatures, InodeNumber, RoCompatFeatures};

use crate::blocks::{Evidence, Findings, Volume};
use crate::code::Code;
use crate::directory;
use crate::facts::{
    Claim, DirectoryLinks, Facts, Gap, Name, ParentPointer, QuotaOwner, Usage, UsedInode,
};
use crate::finding::{Finding, Place};
use crate::fork::{ForkMap, walk};
use crate::inode::{Inode, Pass};
use crate::realtime::RealtimeSummaries;
use crate::region::Region;

/// The most names of one directory of the tree that are kept.
const MOST_NAMES: usize = 1 << 20;

/// The flags that every inode of the tree has.
const FLAGS: InodeFlags = InodeFlags::IMMUTABLE
    .union(InodeFlags::SYNC)
    .union(InodeFlags::NOATIME)
    .union(InodeFlags::NODUMP)
    .union(InodeFlags::NODEFRAG);

/// The bytes of an inode with fields of the data management API, which Linux does not have.
const UNUSED: std::ops::Range<usize> = 84..90;

/// The kind of an inode of the metadata directory, with its number on disk.
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
    const QUOTA: [(Self, &'static str); 3] =
        [(Self::UserQuota, "user"), (Self::GroupQuota, "group"), (Self::ProjectQuota, "project")];
    const OF_GROUPS: [(Self, &'static str); 4] = [
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
    /// Whether the whole tree could be read.
    pub(crate) is_whole: bool,
}

impl MetadataFiles {
    /// The files of a volume that has none.
    pub(crate) const NONE: Self =
        Self { quota: [None; 3], groups: BTreeMap::new(), files: BTreeMap::new(), is_whole: true };

    /// Returns the file that an inode holds according to the path that leads to it.
    pub(crate) fn file(&self, inode: InodeNumber) -> Option<MetadataFile> {
        self.files.get(&inode).copied()
    }

    fn insert(&mut self, file: MetadataFile, inode: InodeNumber) {
        self.files.entry(inode).or_insert(file);
        if file.kind >= MetadataKind::Bitmap {
            self.groups.entry(file.group).or_default().insert(file.kind, inode);
        }
    }
}

/// Returns the kinds of files that each realtime group of a volume has.
pub(crate) fn kinds_of_groups(volume: Volume<'_>) -> Vec<MetadataKind> {
    let superblock = volume.superblock;
    let geometry = &superblock.geometry;
    let is_zoned = superblock.has_incompat(IncompatFeatures::ZONED);
    let has_groups = geometry.realtime.group_count != 0;
    let has_kind = |kind: &MetadataKind| match kind {
        MetadataKind::Bitmap | MetadataKind::Summary => !is_zoned,
        MetadataKind::ReverseMap => has_groups && geometry.has_ro_compat(RoCompatFeatures::RMAPBT),
        _ => has_groups && !is_zoned && geometry.has_ro_compat(RoCompatFeatures::REFLINK),
    };
    MetadataKind::OF_GROUPS.into_iter().map(|(kind, _)| kind).filter(has_kind).collect()
}

/// Finds the files of the realtime section and of quota. Reports names that do not belong into the
/// metadata directory, and files that are missing. The passes report damage of the directories.
pub(crate) fn find(volume: Volume<'_>, findings: &mut Findings) -> MetadataFiles {
    let superblock = volume.superblock;
    let mut found = MetadataFiles { is_whole: true, ..MetadataFiles::default() };
    let Some(root) = superblock.metadata_directory_inode else {
        found.quota = superblock.quota_inodes;
        if superblock.has_realtime() {
            for (kind, inode) in [
                (MetadataKind::Bitmap, superblock.realtime_bitmap_inode),
                (MetadataKind::Summary, superblock.realtime_summary_inode),
            ] {
                found.insert(MetadataFile { kind, group: 0 }, inode);
            }
        }
        return found;
    };
    let mut search = Search { volume, findings, found };
    search.root(root);
    search.missing(root);
    search.found
}

/// The search for the files of the metadata directory.
struct Search<'a, 'f> {
    volume: Volume<'a>,
    findings: &'f mut Findings,
    found: MetadataFiles,
}

impl Search<'_, '_> {
    fn names(&mut self, directory: InodeNumber) -> Vec<(Vec<u8>, InodeNumber)> {
        let names = names_of(self.volume, directory);
        self.found.is_whole &= names.is_whole;
        names.list
    }

    fn stray(&mut self, directory: InodeNumber, path: &str, name: &[u8]) {
        let place = Place::of_inode(directory, self.volume.geometry());
        let found = format!("the name {path}{}", name.escape_ascii());
        self.findings.push(Finding::new(Code::MetaName, place, found));
    }

    fn root(&mut self, root: InodeNumber) {
        for (name, inode) in self.names(root) {
            match name.as_slice() {
                b"rtgroups" => self.groups(inode),
                b"quota" => self.quota(inode),
                _ => self.stray(root, "", &name),
            }
        }
    }

    fn quota(&mut self, directory: InodeNumber) {
        for (name, inode) in self.names(directory) {
            let kinds = MetadataKind::QUOTA.into_iter().zip(&mut self.found.quota);
            let known = kinds.into_iter().find(|((_, known), _)| known.as_bytes() == name);
            match known {
                Some(((kind, _), place)) => {
                    *place = Some(inode);
                    self.found.insert(MetadataFile { kind, group: 0 }, inode);
                }
                None => self.stray(directory, "quota/", &name),
            }
        }
    }

    fn groups(&mut self, directory: InodeNumber) {
        let expected = kinds_of_groups(self.volume);
        let count = self.volume.geometry().realtime.group_count;
        for (name, inode) in self.names(directory) {
            match group_file(&name) {
                Some(file) if file.group < count && expected.contains(&file.kind) => {
                    self.found.insert(file, inode);
                }
                _ => self.stray(directory, "rtgroups/", &name),
            }
        }
    }

    /// Reports the files that are missing, if all names are known.
    fn missing(&mut self, root: InodeNumber) {
        if !self.found.is_whole {
            return;
        }
        let place = Place::of_inode(root, self.volume.geometry());
        let expected = kinds_of_groups(self.volume);
        let count = self.volume.geometry().realtime.group_count;
        let mut missing = Vec::new();
        for (group, files) in &self.found.groups {
            let names = MetadataKind::OF_GROUPS.into_iter();
            let absent =
                names.filter(|(kind, _)| expected.contains(kind) && !files.contains_key(kind));
            missing.extend(absent.map(|(_, name)| format!("no file rtgroups/{group}.{name}")));
        }
        let present = u32::try_from(self.found.groups.len()).unwrap_or(u32::MAX);
        if present < count {
            missing.push(format!("{} of {count} realtime groups have no file", count - present));
        }
        for found in missing {
            self.findings.push(Finding::new(Code::MetaMissing, place, found));
        }
    }
}

/// Parses the name of a file in the directory of realtime groups.
fn group_file(name: &[u8]) -> Option<MetadataFile> {
    let (group, suffix) = str::from_utf8(name).ok()?.split_once('.')?;
    let number: u32 = group.parse().ok()?;
    let (kind, _) = MetadataKind::OF_GROUPS.into_iter().find(|(_, known)| *known == suffix)?;
    (number.to_string() == group).then_some(MetadataFile { kind, group: number })
}

/// Reads and verifies an inode, without any finding. Returns `None` for an inode that cannot be
/// used.
pub(crate) fn read_inode(volume: Volume<'_>, number: InodeNumber) -> Option<(InodeCore, Vec<u8>)> {
    let geometry = volume.geometry();
    let location = geometry.inode_location(number)?;
    let at = DiskAddr(location.cluster.0 + u64::from(location.offset_bytes / 512));
    let mut bytes = vec![0; geometry.inode_size as usize];
    volume.read(at, &mut bytes).ok()?;
    let core = InodeCore::decode(&bytes, number, geometry).ok()?;
    let verdict = core.verify(&bytes, &volume.context());
    let is_usable =
        verdict.err().is_none_or(|corruption| Evidence::left_by(&corruption) != Evidence::None);
    is_usable.then_some((core, bytes))
}

/// Returns a pass over one inode outside of the pass over all inodes.
fn silent_pass<'a>(
    volume: Volume<'a>,
    realtime: &'a RealtimeSummaries,
    facts: &'a mut Names,
    findings: &'a mut Findings,
) -> Pass<'a, Names> {
    Pass { volume, groups: &[], realtime, facts, findings, has_shared: false }
}

/// Reads the map of the data fork of an inode, without any finding or fact.
pub(crate) fn read_map(volume: Volume<'_>, inode: &Inode<'_>) -> Option<ForkMap> {
    let (mut names, mut silent) = (Names::default(), Findings::silent());
    let none = RealtimeSummaries::new();
    let mut pass = silent_pass(volume, &none, &mut names, &mut silent);
    matches!(inode.core.data_format, ForkFormat::Extents | ForkFormat::Btree)
        .then(|| walk(&mut pass, inode, ForkKind::Data))
        .flatten()
}

/// Returns the names of a directory, without any finding.
fn names_of(volume: Volume<'_>, number: InodeNumber) -> Names {
    let mut names = Names::default();
    let lost = || Names { is_whole: false, ..Names::default() };
    let Some((core, bytes)) = read_inode(volume, number) else { return lost() };
    if core.file_type() != Some(FileType::Directory) {
        return lost();
    }
    let inode = Inode { core, bytes: &bytes, file_type: FileType::Directory };
    let map = match inode.core.data_format {
        ForkFormat::Local => ForkMap { is_whole: true, ..ForkMap::default() },
        _ => match read_map(volume, &inode) {
            Some(map) => map,
            None => return lost(),
        },
    };
    let mut silent = Findings::silent();
    let none = RealtimeSummaries::new();
    let mut pass = silent_pass(volume, &none, &mut names, &mut silent);
    directory::check(&mut pass, &inode, &map);
    names.is_whole &= map.is_whole;
    names
}

/// A receiver that keeps names, and ignores all other facts.
struct Names {
    list: Vec<(Vec<u8>, InodeNumber)>,
    is_whole: bool,
}

impl Default for Names {
    fn default() -> Self {
        Self { list: Vec::new(), is_whole: true }
    }
}

impl Facts for Names {
    fn name(&mut self, name: &Name<'_>) {
        if self.list.len() < MOST_NAMES {
            self.list.push((name.name.to_vec(), name.child));
        } else {
            self.is_whole = false;
        }
    }

    fn gap(&mut self, _gap: Gap) {
        self.is_whole = false;
    }

    fn claim(&mut self, _claim: &Claim) {}
    fn mapping(&mut self, _record: &Claim) {}
    fn shared(&mut self, _region: Region, _record: &Refcount) {}
    fn free_by_size(&mut self, _group: AgNumber, _start: AgBlock, _count: u32) {}
    fn chunk_with_free(&mut self, _group: AgNumber, _chunk: &InodeChunk) {}
    fn free_chunk(&mut self, _group: AgNumber, _chunk: &InodeChunk) {}
    fn directory(&mut self, _links: &DirectoryLinks) {}
    fn superblock_link(&mut self, _inode: InodeNumber, _entry_type: EntryType) {}
    fn inode(&mut self, _inode: &UsedInode) {}
    fn parent(&mut self, _pointer: &ParentPointer<'_>) {}
    fn on_unlinked_list(&mut self, _inode: InodeNumber) {}
    fn usage(&mut self, _owner: QuotaOwner, _usage: &Usage) {}
    fn dquot(&mut self, _owner: QuotaOwner, _usage: &Usage) {}
}

/// Checks the properties of an inode that belongs to the metadata directory by its flag or by its
/// path.
pub(crate) fn check_inode<T: Facts>(pass: &mut Pass<'_, T>, inode: &Inode<'_>) {
    let volume = pass.volume;
    if !volume.superblock.has_incompat(IncompatFeatures::METADIR) {
        return;
    }
    let core = &inode.core;
    let file = volume.metadata.file(core.number);
    if !core.flags2.contains(InodeFlags2::METADATA) {
        if file.is_some() {
            let found = "a path of the metadata directory leads to it, and it has no such flag";
            let place = inode.place(volume.geometry());
            pass.findings.push(Finding::new(Code::MetaInode, place, found));
        }
        return;
    }
    let is_directory = inode.file_type == FileType::Directory;
    let mut problems = Vec::new();
    if core.mode != inode.file_type.mode_bits()
        || !matches!(inode.file_type, FileType::Directory | FileType::Regular)
    {
        problems.push((format!("mode {:o}", core.mode), "a file or directory without permissions"));
    }
    if (core.uid, core.gid) != (0, 0) {
        problems.push((format!("user {}, group {}", core.uid, core.gid), "user 0, group 0"));
    }
    let kind =
        if is_directory { Some(MetadataKind::Directory) } else { file.map(|file| file.kind) };
    problems.extend(flag_problems(core, is_directory));
    let unused = inode.bytes.get(UNUSED).unwrap_or_default();
    if unused.iter().any(|byte| *byte != 0) {
        problems.push(("a field of the data management API is set".to_owned(), "0"));
    }
    // Zoned sections count the used blocks of a group there.
    let is_zoned = volume.superblock.has_incompat(IncompatFeatures::ZONED);
    let counts_used = is_zoned && kind == Some(MetadataKind::ReverseMap);
    let hint = core.cow_extent_size_hint_blocks;
    if hint != 0 && !counts_used {
        problems.push((format!("an extent size hint of {hint} blocks for copies"), "0"));
    }
    match kind {
        Some(kind) if core.metafile_type != kind as u16 => {
            let found = format!("type {} of metadata inodes", core.metafile_type);
            problems.push((found, "the type that follows from its path"));
        }
        None if volume.metadata.is_whole => {
            problems.push(("no path leads to it".to_owned(), "a path of the metadata directory"));
        }
        _ => {}
    }
    let project = file.map_or(0, |file| file.group);
    if core.project_id != project && (is_directory || file.is_some()) {
        problems.push((format!("project {}", core.project_id), "the number of its realtime group"));
    }
    let place = inode.place(volume.geometry());
    for (found, expected) in problems {
        pass.findings.push(Finding::new(Code::MetaInode, place, found).expected(expected));
    }
}

/// Returns what is wrong with the flags of a metadata inode, and what was expected.
fn flag_problems(core: &InodeCore, is_directory: bool) -> Vec<(String, &'static str)> {
    let wanted = if is_directory { FLAGS | InodeFlags::NOSYMLINKS } else { FLAGS };
    let mut problems = Vec::new();
    if core.flags != wanted {
        problems.push((format!("flags {:#x}", core.flags.bits()), "the flags of metadata inodes"));
    }
    let extra = InodeFlags2::DAX | InodeFlags2::COWEXTSIZE;
    if core.flags2.intersects(extra) {
        problems.push((format!("flags {:#x}", core.flags2.bits()), "neither DAX nor COWEXTSIZE"));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::{MetadataKind, group_file};

    #[test]
    fn names_of_group_files_are_parsed_exactly() {
        let file = group_file(b"17.rmap").unwrap();
        assert_eq!((file.kind, file.group), (MetadataKind::ReverseMap, 17));
        for name in ["017.rmap", "+1.rmap", "1.rmap2", "1", ".rmap", "4294967296.bitmap"] {
            assert!(group_file(name.as_bytes()).is_none(), "{name}");
        }
    }
}
