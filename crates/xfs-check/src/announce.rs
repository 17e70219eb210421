//! Announcing blocks to the device before they are read.
//!
//! Owns: the order of announcements, which is that of addresses, and their limit. Does **not** own:
//! reading the blocks, which the checks of each inode do in the order of inodes and file blocks.
//!
//! The extents of most forks lie in their inodes, so a run of inodes tells which blocks of
//! directories, attributes and links are read next. A disk then reads them in one sweep. Where an
//! extent btree has the extents, they are announced when the btree was read.

use std::mem::offset_of;

use xfs_format::extent::{Extent, ExtentList, ExtentRoot};
use xfs_format::inode::{self, FileType, ForkFormat, ForkKind, InodeCore, InodeDisk};
use xfs_format::{DiskAddr, FsBlock, InodeNumber};

use crate::blocks::Volume;

/// The most bytes that are announced at once. A damaged map may lead anywhere, and the host may
/// drop what is announced long before it is read.
const MOST_BYTES: u64 = 8 << 20;

/// The number on disk of the format of a fork whose extents lie in the inode.
const EXTENTS: u8 = 2;

/// The number on disk of the format of a fork with an extent btree.
const BTREE: u8 = 3;

/// The first four bits of the mode of a regular file.
const FILE_TYPE: u8 = 0o10;

/// Announces the blocks of metadata that some inodes in use map. `inodes` are their numbers and
/// their bytes.
pub(crate) fn blocks_of<'b>(
    volume: Volume<'_>,
    inodes: impl Iterator<Item = (InodeNumber, &'b [u8])>,
) {
    let mut runs = Vec::new();
    for (number, bytes) in inodes.filter(|(_, bytes)| may_map_metadata(bytes)) {
        // Damaged inodes are reported when they are checked.
        if let Ok(core) = InodeCore::decode(bytes, number, volume.geometry()) {
            for kind in [ForkKind::Data, ForkKind::Attr] {
                take_fork(&core, bytes, kind, &mut runs);
            }
        }
    }
    announce(volume, runs);
}

/// Announces the blocks of extents.
pub(crate) fn extents(volume: Volume<'_>, extents: &[Extent]) {
    announce(volume, extents.iter().map(|extent| (extent.start, extent.length_blocks)).collect());
}

/// Returns whether an inode may have blocks of metadata. Most files have none, and are not decoded
/// for this.
fn may_map_metadata(bytes: &[u8]) -> bool {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
    let is_file = byte(offset_of!(InodeDisk, mode)) >> 4 == FILE_TYPE;
    let data = byte(offset_of!(InodeDisk, data_format));
    let attr = byte(offset_of!(InodeDisk, attr_format));
    let has_attr = byte(offset_of!(InodeDisk, fork_offset)) != 0;
    data == BTREE || (data == EXTENTS && !is_file) || (has_attr && [EXTENTS, BTREE].contains(&attr))
}

fn take_fork(core: &InodeCore, bytes: &[u8], kind: ForkKind, runs: &mut Vec<(FsBlock, u32)>) {
    let fork = inode::fork(bytes, core, kind);
    let is_contents = kind == ForkKind::Data && core.file_type() == Some(FileType::Regular);
    match core.fork_format(kind) {
        Some(ForkFormat::Extents) if !is_contents => {
            let Ok(list) = ExtentList::decode(fork, core.fork_extents(kind)) else { return };
            runs.extend(list.iter().map(|extent| (extent.start, extent.length_blocks)));
        }
        Some(ForkFormat::Btree) => {
            let Ok(root) = ExtentRoot::decode(fork) else { return };
            runs.extend(root.iter().map(|(_, child)| (child, 1)));
        }
        _ => {}
    }
}

/// Announces runs of blocks in the order of their addresses. Neighbours are announced together.
fn announce(volume: Volume<'_>, mut runs: Vec<(FsBlock, u32)>) {
    runs.sort_unstable();
    let geometry = volume.geometry();
    let mut left = MOST_BYTES;
    let mut open: Option<(DiskAddr, u64)> = None;
    for (start, length_blocks) in runs {
        let Some(at) = geometry.block_disk_addr(start).filter(|_| left > 0) else { continue };
        let length = (u64::from(length_blocks) << geometry.block_log).min(left);
        left -= length;
        match &mut open {
            Some((first, bytes)) if first.0 + *bytes / 512 == at.0 => *bytes += length,
            _ => {
                if let Some((first, bytes)) = open.replace((at, length)) {
                    volume.prefetch(first, bytes);
                }
            }
        }
    }
    if let Some((first, bytes)) = open {
        volume.prefetch(first, bytes);
    }
}
