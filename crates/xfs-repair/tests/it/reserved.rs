//! Tests of a repair that must not use the blocks of inodes that cannot be read, on a volume whose
//! reverse map is lost.

use xfs_device::BlockDevice;
use xfs_evidence::{Evidence, Trust, find_superblock};
use xfs_format::extent::Extent;
use xfs_format::free_space::FreeSpaceByBlock;
use xfs_format::inode::{FileType, ForkFormat, InodeCore};
use xfs_format::{AgBlock, AgNumber};

use crate::volume::{Repaired, SECTOR_BYTES, TestVolume, report};

/// The magic number of a block of a reverse-map btree.
const MAP_MAGIC: &[u8] = b"RMB3";

/// A volume without a reverse map, and the extents of a file whose inode is lost.
struct Case {
    volume: TestVolume,
    extents: Vec<Extent>,
}

impl Case {
    /// Zeroes the inode of a file, and all blocks of the reverse maps. `with_headers` zeroes the
    /// AGFs too, so that the free-space btrees are lost as well.
    fn new(with_headers: bool) -> Self {
        let volume = TestVolume::golden();
        let file = file();
        let extents = volume.extents_of(&*volume.device, file.number);
        for group in volume.geometry.groups() {
            for block in (0..volume.geometry.ag_length(group)).map(AgBlock) {
                let at = volume.geometry.ag_block_disk_addr(group, block);
                if volume.bytes(at, MAP_MAGIC.len()) == MAP_MAGIC {
                    volume.zero(at, volume.geometry.block_size as usize);
                }
            }
            if with_headers {
                volume.zero(volume.geometry.header_disk_addr(group, 1), SECTOR_BYTES);
            }
        }
        volume.zero(volume.inode_at(file.number), volume.geometry.inode_size as usize);
        Self { volume, extents }
    }

    /// Returns the blocks of the file that are free on the repaired volume, or whose bytes the
    /// repair has changed.
    fn given_away(&self, repaired: &Repaired) -> Vec<u64> {
        let free = free_blocks(&*repaired.device, &self.volume);
        let blocks = self.extents.iter().flat_map(|extent| {
            (0..u64::from(extent.length_blocks)).map(|index| extent.start.0 + index)
        });
        let size = self.volume.geometry.block_size as usize;
        let is_changed = |block: u64| {
            let at = self.volume.geometry.block_disk_addr(xfs_format::FsBlock(block));
            let at = at.expect("the block lies in the volume");
            let mut after = vec![0; size];
            repaired.device.read_at(&mut after, at.0 * 512).expect("the block can be read");
            after != self.volume.bytes(at, size)
        };
        blocks.filter(|block| free.contains(block) || is_changed(*block)).collect()
    }
}

/// Returns the file of the golden image with the most blocks, among those whose extent records are
/// in the inode.
fn file() -> InodeCore {
    let files = TestVolume::inodes(|core| {
        core.data_format == ForkFormat::Extents && core.file_type() == Some(FileType::Regular)
    });
    files.into_iter().max_by_key(|core| core.blocks).expect("the image has such a file")
}

/// Returns the blocks that the free-space btrees of a device list as free.
fn free_blocks(device: &dyn BlockDevice, volume: &TestVolume) -> Vec<u64> {
    let superblock = find_superblock(device).expect("a known version");
    let superblock = superblock.expect("a sound superblock").superblock;
    let evidence = Evidence::new(device, &superblock);
    let mut blocks = Vec::new();
    for group in volume.geometry.groups() {
        evidence.group_records::<FreeSpaceByBlock>(group, |free, trust| {
            if trust == Trust::Sound {
                let start = volume.geometry.join_block(group, free.start).0;
                blocks.extend(start..start + u64::from(free.count));
            }
        });
    }
    blocks
}

#[test]
fn blocks_of_a_lost_inode_without_a_reverse_map_stay_out_of_the_free_space() {
    let case = Case::new(false);
    let repaired = case.volume.repair(false);
    assert!(repaired.rules().contains(&"space"), "{:?}", repaired.rules());
    assert!(!free_blocks(&*repaired.device, &case.volume).is_empty());
    assert_eq!(case.given_away(&repaired), Vec::<u64>::new());
}

#[test]
fn group_without_records_of_free_space_is_not_rebuilt_while_an_inode_is_lost() {
    let case = Case::new(true);
    let repaired = case.volume.repair(false);
    assert_eq!(case.given_away(&repaired), Vec::<u64>::new());
    assert!(!report(&*repaired.device).is_clean(), "a loss needs a permission");
    let at = case.volume.geometry.header_disk_addr(AgNumber(0), 1);
    let mut header = [1; SECTOR_BYTES];
    repaired.device.read_at(&mut header, at.0 * 512).expect("the header can be read");
    assert_eq!(header, [0; SECTOR_BYTES]);
}

#[test]
fn contents_of_a_lost_inode_without_a_reverse_map_are_lost_by_name() {
    for with_headers in [false, true] {
        let case = Case::new(with_headers);
        let repaired = case.volume.repair(true);
        let losses: Vec<&str> = repaired
            .rehearsed
            .actions
            .iter()
            .flat_map(|action| &action.loses)
            .map(|loss| loss.what.as_str())
            .collect();
        assert!(losses.iter().any(|what| what.contains("contents")), "{losses:?}");
        assert!(report(&*repaired.device).is_clean());
    }
}
