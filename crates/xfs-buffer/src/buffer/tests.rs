use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use xfs_format::btree::BtreeKind;
use xfs_format::{BlockKind, DiskAddr};
use xfs_sync::{AtomicBool, AtomicU64, Object, Ordering};

use super::{Buffer, BufferCore, KINDS, KindCell};
use crate::map::{BufferExtent, BufferMap};

fn buffer(kind: BlockKind) -> Buffer {
    let piece = BufferExtent { at: DiskAddr(8), length_bytes: 4096 };
    let core = BufferCore::new(BufferMap::new(&[piece]).unwrap(), kind);
    core.finish_load(core.begin_load(), vec![7; 4096].into());
    Buffer::new(Arc::new(core))
}

/// Returns whether a kind is in `KINDS`. If `BlockKind` or `BtreeKind` gets a new variant, this
/// function no longer compiles, so that the variant cannot be forgotten in `KINDS`.
fn is_listed(kind: BlockKind) -> bool {
    match kind {
        BlockKind::Superblock
        | BlockKind::Agf
        | BlockKind::Agi
        | BlockKind::Agfl
        | BlockKind::InodeCluster
        | BlockKind::DirectoryData
        | BlockKind::DirectoryIndex
        | BlockKind::DirectoryFree
        | BlockKind::Attr
        | BlockKind::AttrRemote
        | BlockKind::Symlink
        | BlockKind::Dquots
        | BlockKind::RealtimeBitmap
        | BlockKind::RealtimeSummary
        | BlockKind::RealtimeGroupBitmap
        | BlockKind::RealtimeGroupSummary
        | BlockKind::Btree(
            BtreeKind::FreeSpaceByBlock
            | BtreeKind::FreeSpaceBySize
            | BtreeKind::Inode
            | BtreeKind::FreeInode
            | BtreeKind::ReverseMap
            | BtreeKind::Refcount
            | BtreeKind::Extent
            | BtreeKind::RealtimeReverseMap
            | BtreeKind::RealtimeRefcount,
        ) => KINDS.contains(&kind),
    }
}

#[test]
fn kind_cell_returns_every_kind_that_was_stored() {
    for kind in KINDS {
        assert!(is_listed(kind));
        assert_eq!(KindCell::new(kind).value(), kind);
    }
}

#[test]
fn latched_buffer_can_be_changed_and_read() {
    let buffer = buffer(BlockKind::Attr);
    assert!(!buffer.is_latched());
    buffer.latch();
    assert!(!buffer.try_latch());
    buffer.bytes_mut()[5] = 1;
    assert_eq!((buffer.bytes()[4], buffer.bytes()[5]), (7, 1));
    buffer.unlatch();
    assert!(buffer.try_latch());
}

#[test]
#[should_panic(expected = "without its latch")]
fn bytes_mut_without_the_latch_panics() {
    buffer(BlockKind::Attr).bytes_mut()[0] = 1;
}

#[test]
fn references_are_equal_if_they_refer_to_one_buffer() {
    let first = buffer(BlockKind::Attr);
    assert_eq!(first, first.clone());
    assert_ne!(first, buffer(BlockKind::Attr));
    assert_eq!((first.length_bytes(), first.extents().count()), (4096, 1));
}

#[test]
fn second_attachment_of_the_same_type_returns_the_first() {
    let buffer = buffer(BlockKind::Attr);
    assert!(buffer.attached::<AtomicU64<Object>>().is_none());
    let first = buffer.attach_with(|| AtomicU64::<Object>::new(1));
    let second = buffer.attach_with(|| AtomicU64::<Object>::new(2));
    assert!(Arc::ptr_eq(&first, &second));
    assert!(buffer.attached::<AtomicU64<Object>>().is_some());
    assert!(buffer.attached::<AtomicBool<Object>>().is_none());
}

/// Checks that a thread that holds the bytes of a buffer for reading can lock them for reading
/// again while another thread waits to change them. Neither thread waits for ever.
#[test]
fn nested_read_succeeds_while_a_writer_waits() {
    let buffer = buffer(BlockKind::Attr);
    let writing = AtomicBool::<Object>::new(false);
    buffer.latch();
    let outer = buffer.bytes();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            writing.store(true, Ordering::Release);
            buffer.bytes_mut()[0] = 9;
        });
        while !writing.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        for _ in 0..10_000 {
            assert_eq!(buffer.bytes()[0], 7);
            std::thread::yield_now();
        }
        drop(outer);
    });
    assert_eq!(buffer.bytes()[0], 9);
}

#[test]
fn latch_guard_releases_the_latch_also_in_a_panic() {
    let buffer = buffer(BlockKind::Attr);
    let guard = buffer.latched();
    assert!(buffer.is_latched());
    assert!(buffer.try_latched().is_none());
    drop(guard);
    let fail = || {
        let _guard = buffer.try_latched().unwrap();
        panic!("the holder of the latch fails");
    };
    assert!(catch_unwind(AssertUnwindSafe(fail)).is_err());
    assert!(!buffer.is_latched());
}
