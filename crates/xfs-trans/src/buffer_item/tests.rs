use std::sync::Arc;

use xfs_buffer::{Buffer, BufferCache, BufferExtent};
use xfs_device::{MemoryDevice, SharedDevice};
use xfs_format::btree::BtreeKind;
use xfs_format::log_item::{BufferFlags, BufferType, HostOrder, LoggedItem as Decoded};
use xfs_format::{BlockKind, DiskAddr, StructureAddress};
use xfs_log::{CheckpointEnd, LogItem, regions_of, updated_regions};

use super::dirty::{chunks_of, mark, mark_word};
use super::{BlockState, BufferItem, JoinOutcome};
use crate::context::VolumeContext;
use crate::testing;

const BLOCK: usize = 4096;

/// Creates a buffer cache over a device of zeros, and the context that its log items need.
fn cache() -> (Arc<BufferCache>, Arc<VolumeContext>) {
    let device: SharedDevice = Arc::new(MemoryDevice::new(16 << 20));
    let geometry = Arc::new(testing::superblock(&testing::make()).geometry);
    let cache = Arc::new(BufferCache::new(device, geometry, 1 << 20));
    let context = Arc::new(VolumeContext::new(&cache));
    (cache, context)
}

fn piece(block: u64) -> BufferExtent {
    BufferExtent { at: DiskAddr(block * 8), length_bytes: BLOCK as u32 }
}

/// Claims a buffer over `blocks`, and fills each chunk of the buffer with the chunk's number,
/// counted from 1. Returns the joined buffer and its item.
fn claimed(
    cache: &BufferCache,
    context: &Arc<VolumeContext>,
    blocks: &[u64],
    kind: BlockKind,
) -> (Buffer, Arc<BufferItem>) {
    let map: Vec<_> = blocks.iter().map(|block| piece(*block)).collect();
    let buffer = cache.claim(&map, kind).unwrap();
    for (index, chunk) in buffer.bytes_mut().chunks_mut(128).enumerate() {
        chunk.fill(index as u8 + 1);
    }
    let item = BufferItem::of(context, &buffer);
    assert_eq!(item.join(), JoinOutcome::Used);
    (buffer, item)
}

/// The contents of an item's log entry. For each extent: flags, address, length in basic blocks,
/// and runs of dirty chunks. For each run: offset and length in bytes, and the first byte.
type Logged = Vec<(BufferFlags, DiskAddr, u16, Vec<(usize, usize, u8)>)>;

fn logged(item: &BufferItem) -> Logged {
    let regions = regions_of(item);
    let regions: Vec<&[u8]> = regions.iter().map(Vec::as_slice).collect();
    let mut rest = regions.as_slice();
    let mut parts = Logged::new();
    while let Some(first) = rest.first() {
        // The count is below 256, in the byte order of this machine: one of the two bytes is zero.
        let count = usize::from(first[2] | first[3]);
        let (group, after) = rest.split_at(count);
        rest = after;
        let decoded = Decoded::decode(group, HostOrder::NATIVE, StructureAddress::Log(0)).unwrap();
        let Decoded::Buffer(item) = decoded else { panic!("not a buffer: {decoded:?}") };
        let runs = item.pieces.iter();
        let runs = runs.map(|piece| (piece.offset_bytes, piece.bytes.len(), piece.bytes[0]));
        parts.push((item.format.flags, item.format.at, item.format.blocks, runs.collect()));
    }
    parts
}

#[test]
fn changed_bytes_are_logged_in_runs_of_chunks() {
    let (cache, context) = cache();
    let (buffer, item) = claimed(&cache, &context, &[20], BlockKind::Symlink);
    let flags = BufferType::Symlink.flags();
    let check = |expected: &[(usize, usize, u8)]| {
        assert_eq!(logged(&item), [(flags, DiskAddr(160), 8, expected.to_vec())]);
    };
    item.log(&buffer, 0..1);
    check(&[(0, 128, 1)]);
    item.log(&buffer, 127..129);
    check(&[(0, 256, 1)]);
    item.log(&buffer, BLOCK - 1..BLOCK);
    check(&[(0, 256, 1), (BLOCK - 128, 128, 32)]);
    item.log(&buffer, 512..640);
    check(&[(0, 256, 1), (512, 128, 5), (BLOCK - 128, 128, 32)]);
    item.log(&buffer, 0..BLOCK);
    check(&[(0, BLOCK, 1)]);
}

#[test]
fn every_chunk_that_a_range_touches_is_marked() {
    let edges = [0, 1, 127, 128, 129, 4095, 4096, 4097, 8191, 8192, 12_000];
    for start in edges {
        for end in edges.into_iter().filter(|end| *end > start) {
            let mut bitmap = [0; 3];
            mark(&mut bitmap, start..end);
            for chunk in 0..96 {
                let is_touched = chunk * 128 < end && start < (chunk + 1) * 128;
                let is_marked = bitmap[chunk / 32] & 1 << (chunk % 32) != 0;
                assert_eq!(is_marked, is_touched, "chunk {chunk} of {start}..{end}");
            }
        }
    }
}

/// The bitmap of a short buffer, which is marked as one word, equals that of a long one.
#[test]
fn chunks_of_a_short_buffer_are_marked_as_those_of_a_long_one() {
    let edges = [0, 1, 127, 128, 129, 4095, 4096, 4097, 8191, 8192];
    for start in edges {
        for end in edges.into_iter().filter(|end| *end > start) {
            let (mut long, mut short) = ([0; 2], [0; 2]);
            mark(&mut long, start..end);
            assert!(mark_word(&mut short, chunks_of(&(start..end))), "{start}..{end} is new");
            assert_eq!(short, long, "{start}..{end}");
            assert!(!mark_word(&mut short, chunks_of(&(start..end))), "{start}..{end} is known");
            if end <= 4096 {
                let mut word = [0];
                mark_word(&mut word, chunks_of(&(start..end)));
                assert_eq!(word, [long[0]], "{start}..{end} of one word");
            }
        }
    }
}

#[test]
#[should_panic(expected = "of Buffer")]
fn log_of_a_range_past_the_buffer_panics() {
    let (cache, context) = cache();
    let (buffer, item) = claimed(&cache, &context, &[20], BlockKind::Symlink);
    item.log(&buffer, 0..BLOCK + 1);
}

/// Checks that each extent is logged as if it were a buffer of its own. Log recovery knows only
/// extents of the device, not buffers.
#[test]
fn buffer_of_several_extents_is_logged_extent_by_extent() {
    let (cache, context) = cache();
    let (buffer, item) = claimed(&cache, &context, &[20, 40, 30], BlockKind::DirectoryData);
    let flags = BufferType::DirectoryData.flags();
    item.log(&buffer, 2 * BLOCK + 128..2 * BLOCK + 130);
    assert_eq!(logged(&item), [(flags, DiskAddr(240), 8, vec![(128, 128, 66)])]);
    // A change across a border gives one run on each side of it.
    item.log(&buffer, BLOCK - 10..BLOCK + 10);
    let expected = [
        (flags, DiskAddr(160), 8, vec![(BLOCK - 128, 128, 32)]),
        (flags, DiskAddr(320), 8, vec![(0, 128, 33)]),
        (flags, DiskAddr(240), 8, vec![(128, 128, 66)]),
    ];
    assert_eq!(logged(&item), expected);
    item.invalidate(&buffer);
    let cancelled = |at| (flags | BufferFlags::CANCEL, DiskAddr(at), 8, vec![]);
    assert_eq!(logged(&item), [cancelled(160), cancelled(320), cancelled(240)]);
}

#[test]
fn freed_buffer_is_cancelled_until_it_is_claimed_again() {
    let (cache, context) = cache();
    let (buffer, item) = claimed(&cache, &context, &[20], BlockKind::Attr);
    item.log(&buffer, 0..1);
    item.invalidate(&buffer);
    let cancelled = BufferType::AttrLeaf.flags() | BufferFlags::CANCEL;
    assert_eq!(logged(&item), [(cancelled, DiskAddr(160), 8, vec![])]);
    cache.renew(&buffer, BlockKind::Symlink);
    assert!(item.is_stale(), "until the new contents are logged");
    item.log(&buffer, 200..201);
    let used = BufferType::Symlink.flags();
    assert_eq!(logged(&item), [(used, DiskAddr(160), 8, vec![(128, 128, 0)])]);
}

#[test]
fn ordered_buffer_has_no_regions() {
    let (cache, context) = cache();
    let (buffer, item) = claimed(&cache, &context, &[20], BlockKind::InodeCluster);
    item.order(&buffer);
    assert!(regions_of(item.as_ref()).is_empty());
    item.log(&buffer, 96..100);
    let flags = BufferType::Inodes.flags() | BufferFlags::INODES;
    assert_eq!(logged(&item), [(flags, DiskAddr(160), 8, vec![(0, 128, 1)])]);
    item.invalidate(&buffer);
    let flags = BufferType::Inodes.flags() | BufferFlags::CANCEL;
    assert_eq!(logged(&item), [(flags, DiskAddr(160), 8, vec![])]);
}

/// Checks that a block of this kind, which has the bytes `magic` at the offset `at`, is logged with
/// the type `expected`.
fn check_type(kind: BlockKind, at: usize, magic: &[u8], expected: BufferType) {
    let mut bytes = [0; 64];
    bytes[at..at + magic.len()].copy_from_slice(magic);
    assert_eq!(BufferType::of_block(kind, &bytes), expected, "{kind:?} {magic:?}");
}

#[test]
fn every_block_kind_is_logged_with_its_type() {
    let none = b"".as_slice();
    check_type(BlockKind::Superblock, 0, none, BufferType::Superblock);
    check_type(BlockKind::Agf, 0, none, BufferType::Agf);
    check_type(BlockKind::Agi, 0, none, BufferType::Agi);
    check_type(BlockKind::Agfl, 0, none, BufferType::Agfl);
    check_type(BlockKind::Btree(BtreeKind::Refcount), 0, none, BufferType::Btree);
    check_type(BlockKind::InodeCluster, 0, none, BufferType::Inodes);
    check_type(BlockKind::DirectoryData, 0, b"XDB3", BufferType::DirectoryBlock);
    check_type(BlockKind::DirectoryData, 0, b"XDD3", BufferType::DirectoryData);
    check_type(BlockKind::DirectoryFree, 0, b"XDF3", BufferType::DirectoryFree);
    check_type(BlockKind::DirectoryIndex, 8, &[0x3d, 0xf1], BufferType::DirectoryLeaf1);
    check_type(BlockKind::DirectoryIndex, 8, &[0x3d, 0xff], BufferType::DirectoryLeafN);
    check_type(BlockKind::DirectoryIndex, 8, &[0x3e, 0xbe], BufferType::DaNode);
    check_type(BlockKind::Attr, 8, &[0x3e, 0xbe], BufferType::DaNode);
    check_type(BlockKind::Attr, 8, &[0x3b, 0xee], BufferType::AttrLeaf);
    check_type(BlockKind::AttrRemote, 0, b"XARM", BufferType::AttrRemote);
    check_type(BlockKind::Symlink, 0, b"XSLM", BufferType::Symlink);
}

/// Checks that a freed buffer leaves the cache only when its cancellation is durable and the
/// transaction has released the buffer. Tests both orders of these two events.
#[test]
fn freed_buffer_is_gone_when_durable_and_released() {
    for durable_first in [false, true] {
        let (cache, context) = cache();
        let (buffer, item) = claimed(&cache, &context, &[20], BlockKind::Attr);
        item.invalidate(&buffer);
        item.pin();
        if durable_first {
            item.unpin(CheckpointEnd::Durable);
            item.note_committed();
        } else {
            item.note_committed();
            item.leave(&buffer);
        }
        assert_eq!(item.changes.lock().blocks, BlockState::FreedInLog);
        let found = cache.read(piece(20).at, BLOCK as u32, BlockKind::Attr).unwrap();
        assert_eq!(found, buffer, "the buffer is found until then (I4)");
        if durable_first {
            item.leave(&buffer);
        } else {
            item.unpin(CheckpointEnd::Durable);
        }
        assert_eq!(item.changes.lock().blocks, BlockState::Gone);
        assert!(item.changes.lock().buffer.is_none());
        buffer.unlatch();
        assert_eq!(item.join(), JoinOutcome::Gone, "a late join is told to look again");
        let again = cache.claim(&[piece(20)], BlockKind::Attr).unwrap();
        assert_ne!(again, buffer);
    }
}

/// Checks that the end of a checkpoint does not remove a buffer from the cache that a later
/// transaction has freed: that transaction may not be committed yet.
#[test]
fn older_checkpoint_does_not_end_a_freed_buffer() {
    let (cache, context) = cache();
    let (buffer, item) = claimed(&cache, &context, &[20], BlockKind::Attr);
    item.log(&buffer, 0..1);
    item.pin();
    item.note_committed();
    item.invalidate(&buffer);
    item.unpin(CheckpointEnd::Durable);
    assert_eq!(item.changes.lock().blocks, BlockState::Freed);
    item.pin();
    item.note_committed();
    item.leave(&buffer);
    buffer.unlatch();
    assert_eq!(item.changes.lock().blocks, BlockState::FreedInLog);
    item.unpin(CheckpointEnd::Durable);
    assert_eq!(item.changes.lock().blocks, BlockState::Gone);
}

#[test]
fn unused_claim_leaves_no_trace() {
    let (cache, context) = cache();
    let (buffer, item) = claimed(&cache, &context, &[20], BlockKind::InodeCluster);
    item.unclaim(&buffer);
    buffer.unlatch();
    let read = cache.read(piece(20).at, BLOCK as u32, BlockKind::InodeCluster).unwrap();
    assert_ne!(read, buffer);
    assert!(read.bytes().iter().all(|byte| *byte == 0), "the bytes are those of the device");
}

/// Checks that an item whose changes are lost, because the log was shut down, releases its buffer.
#[test]
fn lost_buffer_is_released_by_its_item() {
    for pins in [0, 1] {
        let (cache, context) = cache();
        let (buffer, item) = claimed(&cache, &context, &[20], BlockKind::Attr);
        item.log(&buffer, 0..1);
        (0..pins).for_each(|_| item.pin());
        item.leave(&buffer);
        buffer.unlatch();
        assert!(item.changes.lock().buffer.is_some());
        item.abandon();
        (0..pins).for_each(|_| item.unpin(CheckpointEnd::Aborted));
        assert!(item.changes.lock().buffer.is_none());
        assert!(item.is_pinned(), "a lost buffer is never written");
        drop(cache);
        let weak = Arc::downgrade(&item);
        drop((item, buffer));
        assert!(weak.upgrade().is_none());
    }
}

/// Checks that a log entry is updated in place exactly if its regions stay, and that it then is the
/// entry that the buffer would format (I6).
#[test]
fn log_entry_is_updated_until_a_clean_chunk_is_changed() {
    let (cache, context) = cache();
    let (buffer, item) = claimed(&cache, &context, &[20], BlockKind::DirectoryData);
    let change = |range: std::ops::Range<usize>, byte: u8| {
        buffer.bytes_mut()[range.clone()].fill(byte);
        item.log(&buffer, range);
    };
    assert_eq!(updated_regions(item.as_ref(), &[]), None, "never formatted");
    change(0..700, 1);
    change(1500..1501, 2);
    change(3000..4096, 3);
    let mut entry = regions_of(item.as_ref());
    let ranges = [0..4, 130..131, 120..600, 1407..1408, 1535..1536, 3500..3900, 4095..4096];
    for (round, ranges) in ranges.iter().zip(ranges[1..].iter().chain(&ranges[..1])).enumerate() {
        change(ranges.0.clone(), 10 + round as u8);
        change(ranges.1.clone(), 100 + round as u8);
        let updated = updated_regions(item.as_ref(), &entry);
        if ranges.0.start == 1407 || ranges.1.start == 1407 {
            assert_eq!(updated.is_none(), ranges.1.start == 1407, "a clean chunk was changed");
        }
        entry = match updated {
            Some(updated) => {
                assert_eq!(updated_regions(item.as_ref(), &updated).as_ref(), Some(&updated));
                assert_eq!(updated, regions_of(item.as_ref()), "{ranges:?}");
                updated
            }
            None => regions_of(item.as_ref()),
        };
    }
    // The type of the entry follows the magic number.
    change(0..4, 0);
    buffer.bytes_mut()[..4].copy_from_slice(b"XDB3");
    let updated = updated_regions(item.as_ref(), &entry);
    assert_eq!(updated, Some(regions_of(item.as_ref())));
    assert_eq!(logged(&item)[0].0, BufferType::DirectoryBlock.flags());
    item.invalidate(&buffer);
    assert_eq!(updated_regions(item.as_ref(), &entry), None, "the entry is a cancellation");
    assert_eq!(regions_of(item.as_ref()).len(), 1);
    cache.renew(&buffer, BlockKind::Attr);
    item.log(&buffer, 0..1);
    assert_eq!(updated_regions(item.as_ref(), &entry), None, "the chunks are others");
}

#[test]
fn log_entry_of_several_extents_or_of_a_long_buffer_is_not_updated() {
    let (cache, context) = cache();
    let (buffer, item) = claimed(&cache, &context, &[20, 40], BlockKind::DirectoryData);
    item.log(&buffer, 0..1);
    let entry = regions_of(item.as_ref());
    assert_eq!(updated_regions(item.as_ref(), &entry), None, "two extents");
    let map = [BufferExtent { at: DiskAddr(800), length_bytes: 64 << 10 }];
    let long = cache.claim(&map, BlockKind::DirectoryData).unwrap();
    let item = BufferItem::of(&context, &long);
    item.log(&long, 0..1);
    let entry = regions_of(item.as_ref());
    assert_eq!(updated_regions(item.as_ref(), &entry), None, "64 KiB");
}
