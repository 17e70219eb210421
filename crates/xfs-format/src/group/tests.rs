//! Tests of the last group of a volume, which may be shorter than the other groups.

use crate::addr::{AgBlock, AgInode, AgNumber, InodeNumber};
use crate::golden::{self, golden};
use crate::group::Group;

#[test]
fn last_group_ends_where_the_volume_does() {
    let mut geometry = golden::geometry(golden!("plain.headers"));
    geometry.data_blocks -= 100;
    let group = Group::new(&geometry, AgNumber(3)).unwrap();
    assert_eq!(group.length_blocks(), 19100);
    assert!(group.contains_block(AgBlock(19099)) && !group.contains_block(AgBlock(19100)));
    assert!(!group.contains_block(AgBlock(0)) && group.contains_block(AgBlock(1)));
    assert!(group.contains_extent(AgBlock(19000), 100));
    assert!(!group.contains_extent(AgBlock(19000), 101));
    assert!(!group.contains_extent(AgBlock(19000), u32::MAX));
    assert!(!group.contains_extent(AgBlock(19000), 0));
    assert_eq!(group.join_inode(AgInode(8)), InodeNumber(3 << 18 | 8));
    assert!(Group::new(&geometry, AgNumber(4)).is_none());
    assert!(Group::new(&geometry, AgNumber(u32::MAX)).is_none());
}

#[test]
fn inodes_lie_in_whole_alignments_of_a_group() {
    let mut geometry = golden::geometry(golden!("plain.headers"));
    geometry.data_blocks -= 100;
    assert_eq!(geometry.inode_alignment_blocks, 8);
    let group = Group::new(&geometry, AgNumber(3)).unwrap();
    assert!(group.contains_inode(AgInode(19095 * 8 + 7)));
    // The last four blocks have no room for a chunk, not even for a sparse one.
    assert!(!group.contains_inode(AgInode(19096 * 8)));
    assert!(group.contains_inode(AgInode(64)) && !group.contains_inode(AgInode(63)));
    // Chunks that are aligned to less than a cluster may start at every block.
    geometry.inode_alignment_blocks = 2;
    let group = Group::new(&geometry, AgNumber(3)).unwrap();
    assert!(group.contains_inode(AgInode(19099 * 8 + 7)));
    assert!(!group.contains_inode(AgInode(19100 * 8)));
}

#[test]
fn disk_addresses_split_into_group_and_block() {
    let geometry = golden::geometry(golden!("plain.headers"));
    let (group, block) = (AgNumber(2), AgBlock(77));
    let at = geometry.ag_block_disk_addr(group, block);
    assert_eq!(geometry.split_disk_addr(at), Some((group, block)));
    let end = crate::DiskAddr(76800 * 8);
    assert_eq!(geometry.split_disk_addr(end), None);
    assert_eq!(geometry.split_disk_addr(crate::DiskAddr::NULL), None);
}
