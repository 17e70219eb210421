//! Tests of intents that a crash left open. Recovery must resume a valid intent, and refuse an
//! intent that neither ferroxfs nor the kernel writes.

use xfs_buffer::Error;
use xfs_format::log_item::{LogItemCheck, RmapExtent};
use xfs_format::{Check, FileBlock, FsBlock};
use xfs_trans::IntentPayload;
use xfs_trans::testing::{make_with, superblock};

use crate::resume;

const INODE: u64 = 133;
/// The owner code of blocks that belong to a group itself, `XFS_RMAP_OWN_AG`.
const GROUP: u64 = -5_i64 as u64;
const MAP: u32 = 1;
const ALLOCATE: u32 = 7;
const FORK_BTREE: u32 = 1 << 30;
const ATTR: u32 = 1 << 31;

/// Resumes an intent to change the reverse map, with this owner, flags and offset. With
/// `is_resumed`, checks that the intent is accepted. Otherwise checks that it is refused as corrupt
/// because of its offset.
fn check(owner: u64, flags: u32, offset: u64, is_resumed: bool) {
    let geometry = superblock(&make_with("-m rmapbt=1")).geometry;
    let start = FsBlock(100);
    let change = RmapExtent { owner, start, offset: FileBlock(offset), length_blocks: 3, flags };
    let what = format!("{change:?}");
    match resume(&geometry, &IntentPayload::Rmap(change)) {
        Ok(work) => assert!(is_resumed && work.is_some(), "{what}"),
        Err(Error::Corrupt(corruption)) => {
            let expected = LogItemCheck::OutOfRange { field: "offset", value: offset };
            assert_eq!(corruption.check(), &Check::from(expected), "{what}");
            assert!(!is_resumed, "{what}");
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

#[test]
fn reverse_mapping_has_an_offset_only_where_its_owner_is_a_fork() {
    for flags in [MAP, MAP | ATTR] {
        check(INODE, flags, 0, true);
        check(INODE, flags, 77, true);
        check(INODE, flags, (1 << 54) - 1, true);
        check(INODE, flags, 1 << 54, false);
        check(INODE, flags | FORK_BTREE, 0, true);
        check(INODE, flags | FORK_BTREE, 77, false);
    }
    check(GROUP, ALLOCATE, 0, true);
    check(GROUP, ALLOCATE, 77, false);
    check(GROUP, ALLOCATE, 1 << 54, false);
}
