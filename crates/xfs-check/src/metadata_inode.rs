//! The properties of an inode of the metadata directory.
//!
//! Owns: the checks of the fields that such an inode has in common with the others of the
//! directory, or that follow from its path. Does **not** own: the paths (`metadir.rs`).

use xfs_format::IncompatFeatures;
use xfs_format::inode::{FileType, ForkFormat, InodeCore, InodeFlags, InodeFlags2};

use crate::blocks::{Findings, Volume};
use crate::code::Code;
use crate::finding::Finding;
use crate::metadata_files::MetadataKind;
use crate::used_inode::Inode;

/// The flags that every inode of the metadata directory has.
const FLAGS: InodeFlags = InodeFlags::IMMUTABLE
    .union(InodeFlags::SYNC)
    .union(InodeFlags::NOATIME)
    .union(InodeFlags::NODUMP)
    .union(InodeFlags::NODEFRAG);

/// The bytes of an inode with fields of the data management API, which Linux does not have.
const UNUSED: std::ops::Range<usize> = 84..90;

/// Checks the properties of an inode that belongs to the metadata directory by its flag or by its
/// path.
pub(crate) fn check(volume: Volume<'_>, inode: &Inode<'_>, findings: &mut Findings) {
    if !volume.superblock.has_incompat(IncompatFeatures::METADIR) {
        return;
    }
    let core = &inode.core;
    let file = volume.metadata.file(core.number);
    if !core.flags2.contains(InodeFlags2::METADATA) {
        if file.is_some() {
            let found = "a path of the metadata directory leads to it, and it has no such flag";
            let place = inode.place(volume.geometry());
            findings.push(Finding::new(Code::MetaInode, place, found));
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
    let has_records = matches!(kind, Some(MetadataKind::ReverseMap | MetadataKind::Refcounts));
    if kind.is_some() && !has_records && core.data_format == ForkFormat::MetadataBtree {
        problems.push(("the root of a btree of records".to_owned(), "a map of its blocks"));
    }
    let project = file.map_or(0, |file| file.group);
    if core.project_id != project && (is_directory || file.is_some()) {
        problems.push((format!("project {}", core.project_id), "the number of its realtime group"));
    }
    let place = inode.place(volume.geometry());
    for (found, expected) in problems {
        findings.push(Finding::new(Code::MetaInode, place, found).expected(expected));
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
