//! Test helper: lookups in the volume that the tests read.

use std::collections::BTreeMap;

use xfs_evidence::{Evidence, InodeEvidence, Trust};
use xfs_format::directory::EntryType;
use xfs_format::inode_chunk::InodeChunks;
use xfs_format::{DiskAddr, InodeNumber, StructureAddress, Superblock};
use xfs_testkit::Image;

/// Returns the superblock of an image whose first sector is sound.
pub(crate) fn superblock(image: &Image) -> Superblock {
    let sector = image.bytes(DiskAddr(0), 512).unwrap();
    Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).unwrap()
}

/// Returns the inodes that the inode btrees list as in use.
pub(crate) fn used_inodes(evidence: &Evidence<'_>) -> Vec<InodeNumber> {
    let geometry = evidence.geometry();
    let mut numbers = Vec::new();
    for group in geometry.groups() {
        let read =
            evidence.group_records::<InodeChunks>(group, |chunk, trust| {
                assert_eq!(trust, Trust::Sound);
                let used = (0..64).filter(|bit| chunk.allocated() & (1 << bit) != 0);
                numbers.extend(used.map(|bit| {
                    geometry.join_inode(group, xfs_format::AgInode(chunk.start.0 + bit))
                }));
            });
        assert!(read.is_whole, "{:?}", read.damages);
    }
    numbers
}

/// Returns the inode at a path from the root.
pub(crate) fn lookup(evidence: &Evidence<'_>, path: &str) -> InodeEvidence {
    let mut inode = evidence.inode(evidence.superblock().root_inode);
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let directory = evidence.entries(&inode);
        let found = directory.names.iter().find(|name| *name.name == *part.as_bytes());
        inode = evidence.inode(found.unwrap_or_else(|| unreachable!("{path} exists")).child);
    }
    inode
}

/// Returns, for each name in a directory, the inode, the type of the entry, and how far the entry
/// can be believed.
pub(crate) fn names(
    evidence: &Evidence<'_>,
    directory: &InodeEvidence,
) -> BTreeMap<Vec<u8>, (InodeNumber, EntryType, Trust)> {
    let found = evidence.entries(directory).names.into_iter();
    found.map(|name| (name.name.into_vec(), (name.child, name.entry_type, name.trust))).collect()
}
