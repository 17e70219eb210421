use xfs_format::AgInode;
use xfs_format::inode_chunk::InodeChunk;

use super::{InodeState, state_in};

/// A chunk of inodes 64 to 127. Inodes 64 to 67 are not on disk, inode 68 is free, and the others
/// are in use.
const CHUNK: InodeChunk =
    InodeChunk { start: AgInode(64), holes: 1, count: 60, free_count: 1, free: 0b1_1111 };

#[test]
fn state_of_an_inode_follows_the_masks_of_its_chunk() {
    let states = [64, 68, 69].map(|inode| state_in(&CHUNK, AgInode(inode)));
    assert_eq!(states, [InodeState::Absent, InodeState::Free, InodeState::Allocated]);
}

#[test]
#[should_panic(expected = "the chunk was found by this inode")]
fn state_of_an_inode_outside_of_the_chunk_panics() {
    state_in(&CHUNK, AgInode(128));
}
