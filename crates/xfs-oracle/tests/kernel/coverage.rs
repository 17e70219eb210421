//! Checks which formats a compared volume contains. A volume that lacks a format proves nothing
//! about that format.

use std::collections::BTreeSet;

use ferroxfs::raw::format::RoCompatFeatures;
use ferroxfs::{FileType, InodeNumber, Node, Result, Volume};
use xfs_format::inode::{ForkFormat, ForkKind};
use xfs_inode::Fork;
use xfs_oracle::{Differences, Geometry, GeometryFeature, Tree};

/// Names of the formats that every volume must contain.
const ALWAYS: [&str; 15] = [
    "attributes in the inode",
    "attributes in one leaf",
    "attributes in a tree",
    "attributes in a tree of extents",
    "directory in the inode",
    "directory of one block",
    "directory with one leaf",
    "directory with a tree",
    "file of extents",
    "file with a tree of extents",
    "hard links",
    "link in the inode",
    "sparse file",
    "symbolic link with attributes",
    "unwritten extents",
];

/// Looks for all formats on a volume. Adds a difference for each format that this kind of volume
/// should contain and does not.
pub(crate) fn check(
    geometry: &Geometry,
    volume: &Volume,
    kernel: &Tree,
    differences: &mut Differences,
) -> Result<()> {
    let seen = formats(volume, kernel)?;
    let shape = volume.geometry();
    let mut wanted: Vec<_> = ALWAYS.to_vec();
    // Larger blocks have room for more records, so fewer levels suffice.
    if shape.block_size <= 4096 {
        wanted.push("file with a tree of two levels");
    }
    if shape.directory_block_size() <= 1024 {
        wanted.push("directory with a tree of extents");
    }
    // The longest symbolic link fits into an inode of 2 KiB.
    if shape.inode_size < 2048 {
        wanted.push("link in blocks");
    }
    if shape.has_ro_compat(RoCompatFeatures::REFLINK) {
        wanted.push("shared extents");
    }
    if geometry.feature == GeometryFeature::Full {
        wanted.push("partial chunks of inodes");
    }
    for format in wanted.into_iter().filter(|format| !seen.contains(format)) {
        differences.add(format!("never seen: {format}"));
    }
    Ok(())
}

fn formats(volume: &Volume, kernel: &Tree) -> Result<BTreeSet<&'static str>> {
    let mut seen = BTreeSet::new();
    for number in kernel.nodes.keys() {
        let node = volume.node(InodeNumber(*number))?;
        let metadata = node.metadata();
        match metadata.file_type {
            FileType::Directory => drop(seen.insert(directory(volume, &node)?)),
            FileType::Regular => file(&node, &mut seen)?,
            FileType::Symlink => drop(seen.insert(link(&node))),
            _ => {}
        }
        if metadata.nlink > 1 && !metadata.is_dir() {
            seen.insert("hard links");
        }
        if node.inode().core().has_attr_fork() {
            seen.insert(attributes(volume, &node)?);
            if metadata.is_symlink() {
                seen.insert("symbolic link with attributes");
            }
        }
    }
    for group in volume.geometry().groups() {
        for chunk in xfs_alloc::inode_chunks(volume.cache(), group)? {
            if chunk?.holes != 0 {
                seen.insert("partial chunks of inodes");
            }
        }
    }
    Ok(seen)
}

fn directory(volume: &Volume, node: &Node) -> Result<&'static str> {
    Ok(match node.inode().core().data_format {
        ForkFormat::Local => "directory in the inode",
        ForkFormat::Btree => "directory with a tree of extents",
        _ => {
            // The leaf or the root of the tree is at 32 GiB.
            let mut extents = node.extents(ForkKind::Data);
            let root = extents.find(|extent| {
                extent.as_ref().map_or(true, |extent| extent.offset_bytes == 32 << 30)
            });
            match root.transpose()? {
                None => "directory of one block",
                Some(root) => match magic(volume, root.device_offset_bytes) {
                    [0x3d, 0xf1] => "directory with one leaf",
                    _ => "directory with a tree",
                },
            }
        }
    })
}

fn attributes(volume: &Volume, node: &Node) -> Result<&'static str> {
    Ok(match node.inode().core().attr_format {
        ForkFormat::Local => "attributes in the inode",
        ForkFormat::Btree => "attributes in a tree of extents",
        _ => match node.extents(ForkKind::Attr).next().transpose()? {
            None => "no attributes any more",
            Some(first) => match magic(volume, first.device_offset_bytes) {
                [0x3b, 0xee] => "attributes in one leaf",
                _ => "attributes in a tree",
            },
        },
    })
}

/// Returns the magic number of the directory or attribute block at filesystem block `at`.
fn magic(volume: &Volume, at: u64) -> [u8; 2] {
    let mut magic = [0; 2];
    let read = volume.device().read_at(&mut magic, at + 8);
    read.map_or([0; 2], |()| magic)
}

fn link(node: &Node) -> &'static str {
    match node.inode().core().data_format {
        ForkFormat::Local => "link in the inode",
        _ => "link in blocks",
    }
}

fn file(node: &Node, seen: &mut BTreeSet<&'static str>) -> Result<()> {
    match node.inode().fork(ForkKind::Data) {
        Fork::Btree(tree) if matches!(tree.root(), [0, 2, ..]) => {
            seen.insert("file with a tree of two levels");
        }
        Fork::Btree(_) => drop(seen.insert("file with a tree of extents")),
        _ => drop(seen.insert("file of extents")),
    }
    let mut end = 0;
    for extent in node.extents(ForkKind::Data) {
        let extent = extent?;
        if extent.offset_bytes > end {
            seen.insert("sparse file");
        }
        if extent.unwritten {
            seen.insert("unwritten extents");
        }
        if extent.shared {
            seen.insert("shared extents");
        }
        end = extent.offset_bytes + extent.length_bytes;
    }
    Ok(())
}
