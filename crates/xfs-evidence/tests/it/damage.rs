//! Tests of damaged structures: everything else is still returned, and the missing parts are
//! reported.

use std::io;
use std::os::fd::BorrowedFd;

use xfs_device::{BlockDevice, Durability};
use xfs_evidence::{Absence, ByteRange, Damage, Evidence, FoundValue, InodeState, Trust};
use xfs_format::inode::ForkKind;
use xfs_format::rmap::{ReverseMap, RmapFlags, RmapOwner};
use xfs_format::{AgNumber, BlockKind, DiskAddr, FileBlock, FsBlock, btree::BtreeKind};
use xfs_testkit::{Image, golden};

use crate::support::{lookup, names, superblock};

const BLOCK: usize = 1024;

/// A device that refuses to read one range.
pub(crate) struct Unreadable<'a> {
    pub(crate) image: &'a Image,
    pub(crate) range: ByteRange,
}

impl BlockDevice for Unreadable<'_> {
    fn length_bytes(&self) -> u64 {
        BlockDevice::length_bytes(self.image)
    }

    fn sector_size(&self) -> u32 {
        self.image.sector_size()
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if offset < self.range.end && offset + buffer.len() as u64 > self.range.start {
            return Err(io::Error::other("bad sector"));
        }
        self.image.read_at(buffer, offset)
    }

    fn write_at(&self, _: &[u8], _: u64, _: Durability) -> io::Result<()> {
        unreachable!("E1 of `xfs_evidence`: evidence is never written")
    }

    fn flush(&self) -> io::Result<()> {
        unreachable!("E1 of `xfs_evidence`: evidence is never flushed")
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        unreachable!("E1 of `xfs_evidence`: evidence is never discarded")
    }

    fn splice_at(&self, _: u64, _: usize, _: BorrowedFd<'_>) -> io::Result<usize> {
        Ok(0)
    }
}

/// Zeros `count` blocks of the volume, from block `start` on.
fn zero(image: &mut Image, start: FsBlock, count: usize) {
    let at = image.geometry().block_disk_addr(start).unwrap();
    image.replace(at, &vec![0; count * BLOCK]);
}

/// Changes the byte at `offset` of the block at `at`, so that its checksum is wrong.
fn flip(image: &mut Image, at: DiskAddr, offset: usize) {
    image.edit_with(at, BLOCK, |bytes| bytes[offset] ^= 1);
}

#[test]
fn directory_block_that_is_zeroed_loses_its_names_only() {
    let mut image = golden();
    let superblock = superblock(&image);
    let (whole, map) = {
        let evidence = Evidence::new(&image, &superblock);
        let directory = lookup(&evidence, "node");
        (names(&evidence, &directory), evidence.entries(&directory).map)
    };
    let second = map.find(FileBlock(4)).copied().unwrap();
    let start = FsBlock(second.start.0 + 4 - second.file_block.0);
    zero(&mut image, start, 4);
    let evidence = Evidence::new(&image, &superblock);
    let directory = lookup(&evidence, "node");
    let found = evidence.entries(&directory);
    assert!(!found.is_whole());
    let ranges: Vec<_> = found.missing.iter().map(|range| (range.start.0, range.end.0)).collect();
    assert_eq!(ranges, [(4, 8)]);
    let left = names(&evidence, &directory);
    let lost = whole.len() - left.len();
    assert!((50..150).contains(&lost), "one block of 4 KiB was zeroed, {lost} names are gone");
    assert!(left.iter().all(|(name, found)| whole.get(name) == Some(found)));
}

#[test]
fn directory_block_with_a_wrong_checksum_gives_doubtful_names() {
    let mut image = golden();
    let superblock = superblock(&image);
    let (whole, map) = {
        let evidence = Evidence::new(&image, &superblock);
        let directory = lookup(&evidence, "block");
        (names(&evidence, &directory), evidence.entries(&directory).map)
    };
    let at = superblock.geometry.block_disk_addr(map.extents[0].start).unwrap();
    // The length of the tenth entry or so: the records do not tile any more.
    image.edit_with(at, 4 * BLOCK, |bytes| bytes[64 + 16 + 16 + 24 * 10 + 8] = 200);
    let evidence = Evidence::new(&image, &superblock);
    let left = names(&evidence, &lookup(&evidence, "block"));
    assert!(left.len() >= whole.len() - 1, "{} of {}", left.len(), whole.len());
    for (name, (child, entry_type, trust)) in left {
        assert_eq!(trust, Trust::Doubtful);
        assert_eq!(whole.get(&name).map(|found| (found.0, found.1)), Some((child, entry_type)));
    }
}

/// Checks E2 of the crate: the rest of the map is read and returned, and the map names the missing
/// range.
#[test]
fn extent_btree_with_a_zeroed_leaf_names_the_missing_range() {
    let mut image = golden();
    let superblock = superblock(&image);
    let whole = {
        let evidence = Evidence::new(&image, &superblock);
        evidence.extents(&lookup(&evidence, "files/tree"), ForkKind::Data)
    };
    assert!(whole.is_whole());
    let leaf = whole.tree_blocks.last().copied().unwrap();
    zero(&mut image, leaf, 1);
    let evidence = Evidence::new(&image, &superblock);
    let inode = lookup(&evidence, "files/tree");
    let left = evidence.extents(&inode, ForkKind::Data);
    assert_eq!(left.missing.len(), 1, "{:?}", left.missing);
    let missing = left.missing[0];
    assert!(!left.extents.is_empty());
    let is_missing = |block: FileBlock| missing.start <= block && block < missing.end;
    let expected: Vec<_> =
        whole.extents.iter().filter(|extent| !is_missing(extent.file_block)).collect();
    assert_eq!(left.extents.iter().collect::<Vec<_>>(), expected);
    // The reverse map repeats what the leaf held.
    let lost = whole.extents.iter().filter(|extent| is_missing(extent.file_block));
    let lost: u32 = lost.map(|extent| extent.length_blocks).sum();
    let mut from_map = 0;
    for group in superblock.geometry.groups() {
        evidence.group_records::<ReverseMap>(group, |record, _| {
            let is_own = record.owner == RmapOwner::Inode(inode.number);
            let is_data = !record.flags.intersects(RmapFlags::ATTR | RmapFlags::FORK_BTREE);
            if is_own && is_data && is_missing(record.offset) {
                from_map += record.count;
            }
        });
    }
    assert_eq!(from_map, lost);
}

#[test]
fn extent_btree_with_a_wrong_sibling_is_read_whole() {
    let mut image = golden();
    let superblock = superblock(&image);
    let whole = {
        let evidence = Evidence::new(&image, &superblock);
        evidence.extents(&lookup(&evidence, "files/tree"), ForkKind::Data)
    };
    let leaf = superblock.geometry.block_disk_addr(whole.tree_blocks[1]).unwrap();
    let kind = BlockKind::Btree(BtreeKind::Extent);
    let wrong = whole.extents[0].start.0.to_be_bytes();
    image.edit(leaf, BLOCK, kind, |bytes| bytes[16..24].copy_from_slice(&wrong));
    let evidence = Evidence::new(&image, &superblock);
    let left = evidence.extents(&lookup(&evidence, "files/tree"), ForkKind::Data);
    assert_eq!(left.extents, whole.extents);
}

#[test]
fn extent_leaf_with_a_wrong_checksum_gives_doubtful_extents() {
    let mut image = golden();
    let superblock = superblock(&image);
    let whole = {
        let evidence = Evidence::new(&image, &superblock);
        evidence.extents(&lookup(&evidence, "files/tree"), ForkKind::Data)
    };
    let leaf = superblock.geometry.block_disk_addr(*whole.tree_blocks.last().unwrap()).unwrap();
    flip(&mut image, leaf, BLOCK - 1);
    let evidence = Evidence::new(&image, &superblock);
    let left = evidence.extents(&lookup(&evidence, "files/tree"), ForkKind::Data);
    assert!(!left.doubtful.is_empty());
    let mut all = left.extents.clone();
    all.extend(left.doubtful);
    all.sort_by_key(|extent| extent.file_block);
    assert_eq!(all, whole.extents);
}

#[test]
fn attribute_node_that_is_zeroed_loses_no_attribute() {
    let mut image = golden();
    let superblock = superblock(&image);
    let map = {
        let evidence = Evidence::new(&image, &superblock);
        evidence.attributes(&lookup(&evidence, "attr-node")).map
    };
    zero(&mut image, map.find(FileBlock(0)).unwrap().start, 1);
    let evidence = Evidence::new(&image, &superblock);
    let found = evidence.attributes(&lookup(&evidence, "attr-node"));
    assert_eq!(found.attributes.len(), 120);
    assert_eq!(found.parents.len(), 1);
    assert!(found.attributes.iter().all(|found| found.trust == Trust::Sound));
    assert!(!found.is_whole());
}

#[test]
fn attribute_leaf_with_a_wrong_checksum_keeps_entries_that_have_their_hash() {
    let mut image = golden();
    let superblock = superblock(&image);
    let map = {
        let evidence = Evidence::new(&image, &superblock);
        evidence.attributes(&lookup(&evidence, "attr-node")).map
    };
    let name = b"node-attribute-77";
    let blocks = map.extents.iter().flat_map(|extent| {
        (0..u64::from(extent.length_blocks)).map(|index| FsBlock(extent.start.0 + index))
    });
    let addresses = blocks.filter_map(|block| superblock.geometry.block_disk_addr(block));
    let find = |bytes: &[u8]| bytes.windows(name.len()).position(|part| part == name);
    let (at, offset) = addresses
        .filter_map(|at| Some((at, find(&image.bytes(at, BLOCK)?)?)))
        .next()
        .expect("a leaf holds the name");
    flip(&mut image, at, offset);
    let evidence = Evidence::new(&image, &superblock);
    let found = evidence.attributes(&lookup(&evidence, "attr-node"));
    assert_eq!(found.attributes.len(), 119);
    let doubtful = found.attributes.iter().filter(|found| found.trust == Trust::Doubtful);
    assert!(doubtful.count() > 5, "the neighbours in the leaf are doubtful");
    assert!(found.attributes.iter().all(|found| matches!(found.value, FoundValue::Whole(_))));
    assert!(found.attributes.iter().all(|found| *found.name != *name));
}

#[test]
fn inode_that_is_zeroed_is_gone_and_its_neighbours_stay() {
    let mut image = golden();
    let superblock = superblock(&image);
    let geometry = superblock.geometry.clone();
    let place = geometry.inode_location(superblock.root_inode).unwrap();
    let at = DiskAddr(place.cluster.0 + u64::from(place.offset_bytes) / 512);
    image.replace(at, &[0; 512]);
    let evidence = Evidence::new(&image, &superblock);
    let inode = evidence.inode(superblock.root_inode);
    assert!(matches!(inode.state, InodeState::Gone(Absence::NotAnInode(_))));
    assert_eq!(inode.bytes.len(), 512);
    let next = xfs_format::InodeNumber(superblock.root_inode.0 + 1);
    assert!(evidence.inode(next).any_core().is_some());
}

#[test]
fn inode_with_a_wrong_checksum_is_doubtful() {
    let mut image = golden();
    let superblock = superblock(&image);
    let place = superblock.geometry.inode_location(superblock.root_inode).unwrap();
    let at = DiskAddr(place.cluster.0 + u64::from(place.offset_bytes) / 512);
    image.edit_with(at, 512, |bytes| bytes[9] ^= 4);
    let evidence = Evidence::new(&image, &superblock);
    let inode = evidence.inode(superblock.root_inode);
    assert!(matches!(inode.state, InodeState::Doubtful(..)), "{:?}", inode.state);
    let found = evidence.entries(&inode);
    assert!(found.names.len() > 10);
}

#[test]
fn inode_with_a_wrong_magic_number_only_is_doubtful() {
    let mut image = golden();
    let superblock = superblock(&image);
    let place = superblock.geometry.inode_location(superblock.root_inode).unwrap();
    let at = DiskAddr(place.cluster.0 + u64::from(place.offset_bytes) / 512);
    image.edit_with(at, 512, |bytes| bytes[0] ^= 0x80);
    let inode = Evidence::new(&image, &superblock).inode(superblock.root_inode);
    assert!(matches!(inode.state, InodeState::Doubtful(..)), "{:?}", inode.state);
    assert!(Evidence::new(&image, &superblock).entries(&inode).names.len() > 10);
    // With another number beside the wrong magic, nothing says that this is the inode.
    image.edit_with(at, 512, |bytes| bytes[155] ^= 1);
    let inode = Evidence::new(&image, &superblock).inode(superblock.root_inode);
    assert!(matches!(inode.state, InodeState::Gone(_)), "{:?}", inode.state);
}

/// Checks E1 and E2 of the crate with a device that panics when it is written.
#[test]
fn range_that_cannot_be_read_is_named() {
    let image = golden();
    let superblock = superblock(&image);
    let map = {
        let evidence = Evidence::new(&image, &superblock);
        evidence.entries(&lookup(&evidence, "leaf")).map
    };
    let at = superblock.geometry.block_disk_addr(map.extents[0].start).unwrap();
    let start = at.byte_offset().unwrap();
    let range = ByteRange { start, end: start + 1024 };
    let device = Unreadable { image: &image, range };
    let evidence = Evidence::new(&device, &superblock);
    let found = evidence.entries(&lookup(&evidence, "leaf"));
    assert!(found.damages.iter().any(|damage| matches!(damage, Damage::Unread { .. })));
    assert_eq!(evidence.unread(), [range]);
    assert!(found.names.len() > 50, "the later blocks are read");
}

#[test]
fn reverse_map_with_a_damaged_root_is_not_whole() {
    let mut image = golden();
    let superblock = superblock(&image);
    let root = {
        let evidence = Evidence::new(&image, &superblock);
        evidence.agf(AgNumber(0)).unwrap().reverse_map.unwrap()
    };
    let at = superblock.geometry.ag_block_disk_addr(AgNumber(0), root.block);
    image.replace(at, &[0; BLOCK]);
    let evidence = Evidence::new(&image, &superblock);
    let mut count = 0;
    let read = evidence.group_records::<ReverseMap>(AgNumber(0), |_, _| count += 1);
    assert!(!read.is_whole);
    assert_eq!(count, 0);
    let read = evidence.group_records::<ReverseMap>(AgNumber(1), |_, _| count += 1);
    assert!(read.is_whole);
    assert!(count > 0);
}
