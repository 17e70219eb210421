//! The metadata directory: the tree of inodes that hold the files of the realtime section and of
//! quota.
//!
//! Owns: the search for these inodes by their paths, and the names that the tree may have. Does
//! **not** own: the properties of its inodes (`metadata_inode.rs`), links between the tree and the
//! other directories, which the balance of links compares, or the contents of the files
//! (`realtime.rs`, `quota.rs`).
//!
//! ```text
//! rtgroups/N.bitmap  rtgroups/N.summary  rtgroups/N.rmap  rtgroups/N.refcount
//! quota/user  quota/group  quota/project
//! ```
//!
//! On a volume without the tree, the superblock names the bitmap and the summary. They are found
//! here too, as the files of group 0.

use xfs_format::directory::EntryType;
use xfs_format::inode::{FileType, ForkFormat, ForkKind};
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::refcount::Refcount;
use xfs_format::{AgBlock, AgNumber, IncompatFeatures, InodeNumber, RoCompatFeatures};

use crate::blocks::{Findings, Volume};
use crate::code::Code;
use crate::directory;
use crate::facts::{
    Claim, DirectoryLinks, Facts, Gap, Name, ParentPointer, QuotaOwner, Usage, UsedInode,
};
use crate::finding::{Finding, Place};
use crate::fork::{ForkMap, walk};
use crate::inode::Pass;
use crate::metadata_files::{MetadataFile, MetadataFiles, MetadataKind};
use crate::realtime::summary::RealtimeSummaries;
use crate::region::Region;
use crate::used_inode::{Inode, read_inode};

/// The most names of one directory of the tree that are kept.
const MOST_NAMES: usize = 1 << 20;

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
    let mut found = MetadataFiles::NONE;
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
            match MetadataFile::of_group(&name) {
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

/// Returns the state for reading a single inode during the search, before the pass over all inodes
/// has begun.
fn silent_pass<'a>(
    volume: Volume<'a>,
    realtime: &'a RealtimeSummaries,
    facts: &'a mut MetadirNames,
    findings: &'a mut Findings,
) -> Pass<'a, MetadirNames> {
    Pass { volume, groups: &[], realtime, facts, findings, has_shared: false }
}

/// Reads the map of the data fork of an inode. Reports neither findings nor facts.
pub(crate) fn read_map(volume: Volume<'_>, inode: &Inode<'_>) -> Option<ForkMap> {
    let (mut names, mut silent) = (MetadirNames::default(), Findings::silent());
    let none = RealtimeSummaries::new();
    let mut pass = silent_pass(volume, &none, &mut names, &mut silent);
    matches!(inode.core.data_format, ForkFormat::Extents | ForkFormat::Btree)
        .then(|| walk(&mut pass, inode, ForkKind::Data))
        .flatten()
}

/// Returns the names of a directory. Reports no findings.
fn names_of(volume: Volume<'_>, number: InodeNumber) -> MetadirNames {
    let mut names = MetadirNames::default();
    let lost = || MetadirNames { is_whole: false, ..MetadirNames::default() };
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
struct MetadirNames {
    list: Vec<(Vec<u8>, InodeNumber)>,
    is_whole: bool,
}

impl Default for MetadirNames {
    fn default() -> Self {
        Self { list: Vec::new(), is_whole: true }
    }
}

impl Facts for MetadirNames {
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
