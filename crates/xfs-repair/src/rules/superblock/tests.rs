use xfs_device::BlockDevice;
use xfs_format::InodeNumber;
use xfs_testkit::golden;

use super::copy_of;
use crate::testing::superblock_of;

/// Checks that a copy of the superblock gets neither quota inodes nor quota flags: xfs_repair would
/// report quota inodes in a copy as damage.
#[test]
fn copy_of_the_superblock_has_no_quota() {
    let mut sector = [0; 512];
    golden().read_at(&mut sector, 0).unwrap();
    let mut superblock = superblock_of(&sector);
    superblock.quota_inodes = [Some(InodeNumber(131)); 3];
    superblock.quota_flags = 0x7;
    let copy = copy_of(&superblock);
    assert_eq!((copy.quota_inodes, copy.quota_flags), ([None; 3], 0));
    assert_eq!(copy.root_inode, superblock.root_inode);
}
