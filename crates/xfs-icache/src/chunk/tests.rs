use std::sync::Arc;

use xfs_format::InodeNumber;
use xfs_sync::Collector;

use super::{Chunk, ChunkSlot};
use crate::cached_inode::{CachedInode, Keep, Phase};
use crate::filter::Tag;
use crate::testing::{FakeKind, FakeStore, Mutant};

/// Removes several inodes of a chunk together. Checks I2 of `xfs_icache::chunk`: the removed inodes
/// lose their tags, and the other inodes keep theirs.
#[test]
fn inodes_removed_together_take_only_their_own_tags() {
    let (collector, store) = (Collector::new(), FakeStore::new(1, Mutant::None));
    let chunk = Arc::new(Chunk::<FakeKind>::new(&collector));
    let entries = [3_u64, 5, 9, 63].map(|place| {
        let slot = ChunkSlot { chunk: Arc::clone(&chunk), bit: 1 << place };
        let live = store.create(InodeNumber(64 + place), |inode| inode).unwrap();
        Arc::new(CachedInode::new(live, Phase::Live, Keep::Cached, Some(slot)))
    });
    let bits = |places: &[u64]| places.iter().fold(0, |all, place| all | 1_u64 << place);
    let tags = || [Tag::Present, Tag::Idle, Tag::NeedsFlush].map(|tag| chunk.tagged(tag));
    chunk.enter_all(&collector, &entries);
    for entry in entries.iter().take(3) {
        entry.slot().unwrap().set_idle();
    }
    for entry in entries.iter().skip(1) {
        entry.slot().unwrap().set_needs_flush(true);
    }
    assert_eq!(tags(), [bits(&[3, 5, 9, 63]), bits(&[3, 5, 9]), bits(&[5, 9, 63])]);
    assert_eq!(chunk.leave_all(&collector, &entries[1..2]), bits(&[5]));
    assert_eq!(tags(), [bits(&[3, 9, 63]), bits(&[3, 9]), bits(&[9, 63])]);
    // One that has left already is not counted again.
    assert_eq!(chunk.leave_all(&collector, &entries[1..3]), bits(&[9]));
    assert_eq!(tags(), [bits(&[3, 63]), bits(&[3]), bits(&[63])]);
    assert_eq!(chunk.leave_all(&collector, &entries), bits(&[3, 63]));
    assert_eq!(tags(), [0; 3]);
}
