use std::sync::Arc;

use xfs_buffer::{Buffer, Error};
use xfs_device::SharedDevice;
use xfs_format::reservation::TransactionKind;
use xfs_format::symlink::SYMLINK_MAGIC;
use xfs_format::{BlockKind, Check, DiskAddr, Lsn};
use xfs_log::{CheckpointEnd, LogItem, Shutdown};
use xfs_testkit::{FailingDevice, Fault, Persistence, RequestKind};

use crate::{Journal, Transaction, testing};

const BLOCK: u32 = 4096;
/// The offset in bytes of the target in a symbolic link block.
const TARGET: usize = 56;
/// Length in bytes of the symbolic link targets in these tests.
const TARGET_BYTES: usize = 1000;

/// Returns the address of a block that no file of the new volume uses.
fn free_block(index: u64) -> DiskAddr {
    DiskAddr((4096 + index) * 8)
}

fn begin(journal: &Arc<Journal>) -> Transaction<'_> {
    journal.begin(TransactionKind::Write, 0).unwrap()
}

/// Claims a free block and makes it a symbolic link block whose target consists of `byte`. Returns
/// the buffer.
fn add_block(tx: &mut Transaction<'_>, index: u64, byte: u8) -> Buffer {
    let uuid = tx.geometry().meta_uuid;
    let buffer = tx.claim(free_block(index), BLOCK, BlockKind::Symlink).unwrap();
    tx.change(&buffer, 0..TARGET + TARGET_BYTES, |bytes| {
        bytes[..4].copy_from_slice(&SYMLINK_MAGIC.to_be_bytes());
        bytes[8..12].copy_from_slice(&(TARGET_BYTES as u32).to_be_bytes());
        bytes[16..32].copy_from_slice(uuid.as_bytes());
        bytes[32..40].copy_from_slice(&128_u64.to_be_bytes());
        bytes[40..48].copy_from_slice(&free_block(index).0.to_be_bytes());
        bytes[TARGET..].fill(byte);
    });
    buffer
}

/// Sets one byte of the target in a symbolic link block. Returns the buffer.
fn change_block(tx: &mut Transaction<'_>, index: u64, offset: usize, byte: u8) -> Buffer {
    let buffer = tx.read(free_block(index), BLOCK, BlockKind::Symlink).unwrap();
    tx.change(&buffer, TARGET + offset..TARGET + offset + 1, |bytes| bytes.fill(byte));
    buffer
}

fn free(tx: &mut Transaction<'_>, index: u64) {
    let buffer = tx.read(free_block(index), BLOCK, BlockKind::Symlink).unwrap();
    tx.invalidate(&buffer);
}

/// Runs a change in a transaction of its own, and commits the transaction.
fn commit<R>(journal: &Arc<Journal>, change: impl FnOnce(&mut Transaction<'_>) -> R) -> R {
    begin(journal).commit_or_cancel(|tx| Ok(change(tx))).unwrap()
}

fn on_device(device: &SharedDevice, index: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK as usize];
    device.read_at(&mut bytes, free_block(index).byte_offset().unwrap()).unwrap();
    bytes
}

fn target(bytes: &[u8]) -> &[u8] {
    &bytes[TARGET..TARGET + TARGET_BYTES]
}

fn read_target(journal: &Journal, index: u64) -> Vec<u8> {
    let buffer = journal.cache().read(free_block(index), BLOCK, BlockKind::Symlink).unwrap();
    target(&buffer.bytes()).to_vec()
}

#[test]
fn change_is_written_in_place_after_the_log() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    let buffer = commit(&journal, |tx| add_block(tx, 0, b'a'));
    assert!(!buffer.is_latched());
    journal.log().quiesce().unwrap();
    let written = on_device(&device, 0);
    assert_eq!(target(&written), [b'a'; TARGET_BYTES]);
    let lsn = Lsn(u64::from_be_bytes(written[48..56].try_into().unwrap()));
    assert!(lsn.cycle() >= 1, "stamped with the LSN of its checkpoint");
    let context = journal.cache().verify_context();
    BlockKind::Symlink.verify(&written, free_block(0), &context).unwrap();
}

#[test]
fn change_is_not_in_place_before_it_is_durable() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    let before = on_device(&device, 0);
    commit(&journal, |tx| drop(add_block(tx, 0, b'a')));
    journal.log().ail().push(Lsn(u64::MAX));
    assert_eq!(on_device(&device, 0), before);
    journal.force_all().unwrap();
    assert_eq!(on_device(&device, 0), before, "durable in the log, not in place");
    let report = journal.log().ail().push(Lsn(u64::MAX));
    assert!(report.started > 0, "{report:?}");
    assert_eq!(target(&on_device(&device, 0)), [b'a'; TARGET_BYTES]);
}

#[test]
fn latched_buffer_is_not_pushed() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    commit(&journal, |tx| drop(add_block(tx, 0, b'a')));
    journal.force_all().unwrap();
    let mut tx = begin(&journal);
    let buffer = tx.read(free_block(0), BLOCK, BlockKind::Symlink).unwrap();
    assert!(journal.log().ail().push(Lsn(u64::MAX)).busy() > 0);
    tx.release(&buffer);
    assert!(!buffer.is_latched());
    tx.cancel();
    assert_eq!(journal.log().ail().push(Lsn(u64::MAX)).busy(), 0);
}

/// Changes one buffer, then reads more buffers than the cache has room for. Checks that the changed
/// buffer stays in memory.
#[test]
fn dirty_buffer_is_not_evicted() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    commit(&journal, |tx| drop(add_block(tx, 0, b'a')));
    for index in 1..4000 {
        let _ = journal.cache().read(free_block(index), BLOCK, BlockKind::InodeCluster).unwrap();
    }
    assert!(journal.cache().statistics().total().evictions > 0);
    assert_eq!(read_target(&journal, 0), [b'a'; TARGET_BYTES]);
}

#[test]
fn recovery_returns_forced_changes_only() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    commit(&journal, |tx| drop(add_block(tx, 0, b'a')));
    commit(&journal, |tx| drop(add_block(tx, 1, b'b')));
    commit(&journal, |tx| drop(change_block(tx, 0, 5, b'!')));
    journal.force_all().unwrap();
    commit(&journal, |tx| drop(change_block(tx, 1, 5, b'?')));
    let (recovered, intents) = testing::recover(&testing::crashed(&device));
    assert!(intents.is_empty());
    let mut expected = [b'a'; TARGET_BYTES];
    expected[5] = b'!';
    assert_eq!(read_target(&recovered, 0), expected);
    assert_eq!(read_target(&recovered, 1), [b'b'; TARGET_BYTES], "the last change was not forced");
}

/// Checks that each log entry of a buffer holds all changes since the buffer was last written to
/// disk, and no older ones. Also checks that recovery at any time restores all changes.
#[test]
fn changes_accumulate_until_they_are_in_place() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    commit(&journal, |tx| drop(add_block(tx, 0, b'a')));
    let mut expected = [b'a'; TARGET_BYTES];
    for round in 0..12_u8 {
        let offset = usize::from(round) * 80;
        commit(&journal, |tx| drop(change_block(tx, 0, offset, round)));
        expected[offset] = round;
        journal.force_all().unwrap();
        if round % 3 == 2 {
            journal.log().quiesce().unwrap();
            assert_eq!(target(&on_device(&device, 0)), expected);
        }
        let (recovered, _) = testing::recover(&testing::crashed(&device));
        assert_eq!(read_target(&recovered, 0), expected, "round {round} (I1)");
    }
}

#[test]
fn join_buffer_accepts_a_used_and_refuses_a_freed_buffer() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    commit(&journal, |tx| drop(add_block(tx, 0, b'a')));
    let buffer = journal.cache().read(free_block(0), BLOCK, BlockKind::Symlink).unwrap();
    commit(&journal, |tx| {
        for _ in 0..2 {
            tx.join_buffer(&buffer).unwrap();
            assert!(buffer.is_latched());
        }
        tx.change(&buffer, TARGET..TARGET + 1, |bytes| bytes.fill(b'b'));
    });
    assert!(!buffer.is_latched());
    let mut tx = begin(&journal);
    free(&mut tx, 0);
    for _ in 0..2 {
        match tx.join_buffer(&buffer) {
            Err(Error::Corrupt(found)) => assert_eq!(found.check(), &Check::BufferFreed),
            other => panic!("{other:?}"),
        }
        // The second attempt comes from another transaction.
        tx.commit().unwrap();
        tx = begin(&journal);
    }
    tx.cancel();
    assert!(!buffer.is_latched());
}

#[test]
fn read_of_a_freed_block_is_corruption() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    commit(&journal, |tx| drop(add_block(tx, 0, b'a')));
    let mut tx = begin(&journal);
    free(&mut tx, 0);
    for _ in 0..2 {
        match tx.read(free_block(0), BLOCK, BlockKind::Symlink) {
            Err(Error::Corrupt(found)) => assert_eq!(found.check(), &Check::BufferFreed),
            other => panic!("{other:?}"),
        }
        // The second attempt comes from another transaction.
        tx.commit().unwrap();
        tx = begin(&journal);
    }
    tx.cancel();
    let before = on_device(&device, 0);
    journal.log().quiesce().unwrap();
    assert_eq!(on_device(&device, 0), before, "a freed block is not written");
}

/// Frees a block and uses it again before the freeing is durable. Checks that the block keeps its
/// buffer, so that the checkpoint holds only one item for the block.
#[test]
fn block_reused_before_its_free_is_durable_keeps_its_buffer() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    let first = commit(&journal, |tx| add_block(tx, 0, b'a'));
    journal.force_all().unwrap();
    commit(&journal, |tx| free(tx, 0));
    let second = commit(&journal, |tx| add_block(tx, 0, b'b'));
    assert_eq!(second, first);
    journal.force_all().unwrap();
    let (recovered, _) = testing::recover(&testing::crashed(&device));
    assert_eq!(read_target(&recovered, 0), [b'b'; TARGET_BYTES]);
    journal.log().quiesce().unwrap();
    assert_eq!(target(&on_device(&device, 0)), [b'b'; TARGET_BYTES]);
}

/// Frees an inode cluster and uses its block again. Checks that the cancellation of the cluster
/// stays in the log. Without it, recovery would write the cluster's inodes, which are items of
/// their own, into the block.
#[test]
fn claim_of_a_freed_inode_cluster_waits_until_the_free_is_durable() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    commit(&journal, |tx| {
        let cluster = tx.claim(free_block(0), BLOCK, BlockKind::InodeCluster).unwrap();
        tx.log(&cluster, 0..BLOCK as usize);
    });
    journal.force_all().unwrap();
    let mut tx = begin(&journal);
    let cluster = tx.read(free_block(0), BLOCK, BlockKind::InodeCluster).unwrap();
    tx.stale_cluster(&cluster);
    let freed = tx.commit().unwrap().sequence;
    assert!(journal.log().durable_sequence() < freed);
    let block = commit(&journal, |tx| add_block(tx, 0, b'b'));
    assert!(journal.log().durable_sequence() >= freed);
    assert_ne!(block, cluster);
    journal.force_all().unwrap();
    let (recovered, _) = testing::recover(&testing::crashed(&device));
    assert_eq!(read_target(&recovered, 0), [b'b'; TARGET_BYTES]);
}

#[test]
fn block_freed_and_reused_in_one_transaction_is_logged_as_used() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    commit(&journal, |tx| drop(add_block(tx, 0, b'a')));
    journal.force_all().unwrap();
    commit(&journal, |tx| {
        free(tx, 0);
        let again = add_block(tx, 0, b'b');
        assert_eq!(tx.read(free_block(0), BLOCK, BlockKind::Symlink).unwrap(), again);
    });
    journal.force_all().unwrap();
    let (recovered, _) = testing::recover(&testing::crashed(&device));
    assert_eq!(read_target(&recovered, 0), [b'b'; TARGET_BYTES]);
}

#[test]
fn durably_freed_buffer_leaves_the_cache() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    let first = commit(&journal, |tx| add_block(tx, 0, b'a'));
    commit(&journal, |tx| free(tx, 0));
    journal.force_all().unwrap();
    let second = commit(&journal, |tx| add_block(tx, 0, b'b'));
    assert_ne!(second, first);
    journal.force_all().unwrap();
    let (recovered, _) = testing::recover(&testing::crashed(&device));
    assert_eq!(read_target(&recovered, 0), [b'b'; TARGET_BYTES]);
}

/// Checks that recovery does not replay log entries of a block that was freed later, because the
/// block may hold other contents by then.
#[test]
fn freed_block_is_not_replayed() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    commit(&journal, |tx| drop(add_block(tx, 0, b'a')));
    journal.force_all().unwrap();
    commit(&journal, |tx| free(tx, 0));
    journal.force_all().unwrap();
    let contents = [0xda; BLOCK as usize];
    let crashed = testing::crashed(&device);
    let offset = free_block(0).byte_offset().unwrap();
    crashed.write_at(&contents, offset, xfs_device::Durability::Cached).unwrap();
    drop(testing::recover(&crashed));
    assert_eq!(on_device(&crashed, 0), contents);
}

#[test]
fn cancelled_claim_does_not_change_the_volume() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    commit(&journal, |tx| drop(add_block(tx, 0, b'a')));
    journal.log().quiesce().unwrap();
    let mut tx = begin(&journal);
    tx.claim(free_block(0), BLOCK, BlockKind::Attr).unwrap();
    assert!(!tx.is_dirty());
    tx.cancel();
    assert!(!journal.is_shut_down());
    assert_eq!(read_target(&journal, 0), [b'a'; TARGET_BYTES]);
}

#[test]
fn cancel_of_a_dirty_buffer_shuts_the_volume_down() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    let mut tx = begin(&journal);
    let buffer = add_block(&mut tx, 0, b'a');
    let item = buffer.attached::<crate::buffer_item::BufferItem>().unwrap();
    tx.cancel();
    assert!(journal.is_shut_down());
    assert!(!buffer.is_latched());
    let weak = Arc::downgrade(&item);
    drop((item, buffer, journal));
    assert!(weak.upgrade().is_none(), "no item outlives the volume");
}

#[test]
fn joined_buffer_is_returned_without_waiting() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    commit(&journal, |tx| drop(add_block(tx, 0, b'a')));
    let mut tx = begin(&journal);
    let first = tx.read(free_block(0), BLOCK, BlockKind::Symlink).unwrap();
    let second = tx.read(free_block(0), BLOCK, BlockKind::Symlink).unwrap();
    assert_eq!(first, second);
    let other = journal.cache().read(free_block(0), BLOCK, BlockKind::Symlink).unwrap();
    assert_eq!(other, first, "a reader without a latch does not wait");
    let mut late = begin(&journal);
    assert!(late.try_read(free_block(0), BLOCK, BlockKind::Symlink).unwrap().is_none());
    tx.release(&first);
    assert!(late.try_read(free_block(0), BLOCK, BlockKind::Symlink).unwrap().is_some());
    late.cancel();
    tx.cancel();
}

#[test]
fn held_buffer_stays_latched_over_rolls() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    let mut tx = begin(&journal);
    let (kept, other) = (add_block(&mut tx, 0, b'a'), add_block(&mut tx, 1, b'b'));
    tx.hold(&kept);
    tx.release(&kept);
    tx.roll().unwrap();
    assert!(kept.is_latched());
    assert!(!other.is_latched());
    tx.change(&kept, TARGET..TARGET + 1, |bytes| bytes.fill(b'!'));
    tx.unhold(&kept);
    tx.roll().unwrap();
    assert!(!kept.is_latched());
    tx.commit().unwrap();
    journal.force_all().unwrap();
    let (recovered, _) = testing::recover(&testing::crashed(&device));
    assert_eq!(read_target(&recovered, 0)[..2], *b"!a");
}

/// Checks I4 in docs/internals/log.md: each roll logs a held buffer again, so that the tail can
/// move past the older entry.
#[test]
fn held_buffer_is_relogged_by_each_roll() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    let mut tx = begin(&journal);
    let kept = add_block(&mut tx, 0, b'a');
    tx.hold(&kept);
    tx.roll().unwrap();
    journal.force_all().unwrap();
    let before = journal.log().ail().tail();
    for _ in 0..3 {
        tx.roll().unwrap();
        journal.force_all().unwrap();
        journal.log().ail().push(Lsn(u64::MAX));
    }
    assert!(journal.log().ail().tail() > before);
    tx.commit().unwrap();
}

/// Checks I5 of `xfs_trans::buffer_item`: an ordered buffer keeps its first position in the AIL.
/// This position is the LSN of the checkpoint that created the buffer, even if the buffer is logged
/// again later.
#[test]
fn ordered_buffer_holds_the_tail() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    // Logged too, so that the checkpoints are not empty.
    let order = |tx: &mut Transaction<'_>| {
        add_block(tx, 1, b'b');
        let cluster = tx.claim(free_block(0), BLOCK, BlockKind::InodeCluster).unwrap();
        tx.order(&cluster);
        cluster
    };
    let cluster = commit(&journal, order);
    journal.force_all().unwrap();
    let item = cluster.attached::<crate::buffer_item::BufferItem>().unwrap();
    let first = item.state_lsn().unwrap();
    commit(&journal, |tx| {
        let cluster = tx.read(free_block(0), BLOCK, BlockKind::InodeCluster).unwrap();
        tx.log(&cluster, 96..100);
    });
    journal.force_all().unwrap();
    assert_eq!(item.state_lsn(), Some(first), "it keeps its first position (I5)");
    // Its blocks are freed while a checkpoint that has logged more of it is written.
    item.pin();
    commit(&journal, |tx| {
        let cluster = tx.read(free_block(0), BLOCK, BlockKind::InodeCluster).unwrap();
        tx.invalidate(&cluster);
    });
    assert_eq!(item.committed(Lsn(u64::MAX), &mut Vec::new()), Some(first));
    item.unpin(CheckpointEnd::Durable);
    journal.force_all().unwrap();
    assert_eq!(item.state_lsn(), None, "the free is durable");
}

#[test]
fn failed_write_in_place_shuts_down_and_loses_nothing() {
    let device = testing::make();
    let failing = Arc::new(FailingDevice::new(Arc::clone(&device), 0x5eed));
    let failing_device: SharedDevice = Arc::<FailingDevice>::clone(&failing);
    let journal = testing::open(&failing_device, 0);
    commit(&journal, |tx| drop(add_block(tx, 0, b'a')));
    journal.log().quiesce().unwrap();
    commit(&journal, |tx| drop(change_block(tx, 0, 5, b'!')));
    journal.force_all().unwrap();
    let fault = Fault { kind: RequestKind::Write, nth: 1, persistence: Persistence::Once };
    failing.set_fault(Some(fault));
    assert!(journal.log().quiesce().is_err());
    assert_eq!(failing.failures(), 1);
    assert!(journal.is_shut_down());
    let tx = journal.begin(TransactionKind::Write, 0);
    assert!(matches!(tx, Err(Error::Shutdown)));
    let (recovered, _) = testing::recover(&testing::crashed(&device));
    let mut expected = [b'a'; TARGET_BYTES];
    expected[5] = b'!';
    assert_eq!(read_target(&recovered, 0), expected);
}

/// Checks that a buffer with invalid contents is not written to disk, so that a bug in ferroxfs
/// does not damage the volume.
#[test]
fn buffer_that_fails_verification_is_not_written() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    commit(&journal, |tx| drop(add_block(tx, 0, b'a')));
    journal.log().quiesce().unwrap();
    let before = on_device(&device, 0);
    commit(&journal, |tx| {
        let buffer = tx.read(free_block(0), BLOCK, BlockKind::Symlink).unwrap();
        tx.change(&buffer, 8..12, |length| length.fill(0xff));
    });
    assert!(journal.log().quiesce().is_err());
    assert!(journal.is_shut_down());
    assert_eq!(on_device(&device, 0), before);
}

/// Checks that no log item stays in memory after a volume was shut down and closed: neither an item
/// of the open checkpoint nor an item in the AIL.
#[test]
fn no_item_outlives_a_volume_that_is_shut_down() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    let mut items = Vec::new();
    let mut note = |buffer: Buffer| {
        let item = buffer.attached::<crate::buffer_item::BufferItem>().unwrap();
        items.push(Arc::downgrade(&item));
    };
    note(commit(&journal, |tx| add_block(tx, 0, b'a')));
    journal.force_all().unwrap();
    note(commit(&journal, |tx| add_block(tx, 1, b'b')));
    commit(&journal, |tx| free(tx, 0));
    journal.shut_down(Shutdown::Now).unwrap();
    drop(journal);
    assert!(items.iter().all(|item| item.upgrade().is_none()));
}

/// Checks that no log item stays in memory after a journal was dropped without a shutdown: neither
/// an item of the open checkpoint nor an item in the AIL.
#[test]
fn no_item_outlives_a_volume_that_is_dropped() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    let in_place = commit(&journal, |tx| add_block(tx, 0, b'a'));
    journal.force_all().unwrap();
    let in_checkpoint = commit(&journal, |tx| add_block(tx, 1, b'b'));
    let items: Vec<_> = [in_place, in_checkpoint]
        .iter()
        .filter_map(|buffer| buffer.attached::<crate::buffer_item::BufferItem>())
        .map(|item| Arc::downgrade(&item))
        .collect();
    drop(journal);
    assert!(items.iter().all(|item| item.upgrade().is_none()));
}

/// Checks that no change is lost while threads change, free and reuse the same few blocks and the
/// log's thread writes them to disk. Each block counts its changes. A lost change shows as a wrong
/// count in memory, on disk or after a crash. Checks that none is lost.
#[test]
fn threads_lose_no_change() {
    const BLOCKS: u64 = 6;
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 300;
    let device = testing::make();
    let journal = testing::open(&device, 1);
    commit(&journal, |tx| {
        (0..BLOCKS).for_each(|index| drop(add_block(tx, index, 0)));
    });
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let journal = &journal;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let index = (round * 5 + thread) % BLOCKS;
                    let mut tx = begin(journal);
                    let buffer = tx.read(free_block(index), BLOCK, BlockKind::Symlink).unwrap();
                    let byte = buffer.bytes()[TARGET + TARGET_BYTES - 1];
                    if round % 7 == 0 {
                        // Freed and used again; the count goes up by one as usual.
                        tx.invalidate(&buffer);
                        add_block(&mut tx, index, byte);
                    }
                    let last = TARGET + TARGET_BYTES - 1;
                    tx.change(&buffer, last..last + 1, |bytes| bytes.fill(byte.wrapping_add(1)));
                    tx.commit().unwrap();
                    if round % 50 == thread {
                        journal.force_all().unwrap();
                    }
                }
            });
        }
    });
    let count = |journal: &Journal| -> u64 {
        let last = |index| u64::from(read_target(journal, index)[TARGET_BYTES - 1]);
        (0..BLOCKS).map(last).sum()
    };
    assert_eq!(count(&journal) % 256, THREADS * ROUNDS % 256);
    journal.force_all().unwrap();
    let (recovered, _) = testing::recover(&testing::crashed(&device));
    assert_eq!(count(&recovered) % 256, THREADS * ROUNDS % 256);
    journal.log().quiesce().unwrap();
    let in_place: u64 = (0..BLOCKS)
        .map(|index| u64::from(on_device(&device, index)[TARGET + TARGET_BYTES - 1]))
        .sum();
    assert_eq!(in_place % 256, THREADS * ROUNDS % 256);
}

/// Checks that changing one buffer many times rarely writes memory that operations on other objects
/// also write. Such writes would slow down unrelated threads. The writes to the buffer's own memory
/// have a separate limit.
#[cfg(feature = "count")]
#[test]
fn buffer_change_rarely_writes_volume_shared_memory() {
    const COMMITS: u64 = 4096;
    /// The greatest number of memory writes that one commit may make to a buffer's own data: for
    /// reading, latching, joining, changing, logging, pinning and releasing.
    const OBJECT_WRITES: u64 = 12;
    // On a smaller log the slots keep no log space of their own.
    let device = testing::make_sized(1 << 30, "-l size=128m");
    let journal = testing::open(&device, 1);
    commit(&journal, |tx| drop(add_block(tx, 0, b'a')));
    let before = xfs_sync::thread_counts();
    for round in 0..COMMITS {
        commit(&journal, |tx| drop(change_block(tx, 0, 5, round as u8)));
    }
    let counted = xfs_sync::thread_counts().since(&before);
    assert!(counted.volume.total() * 64 <= COMMITS, "{counted:?}");
    assert_eq!(counted.group.total(), 0, "{counted:?}");
    assert!(counted.object.total() <= OBJECT_WRITES * COMMITS, "{counted:?}");
}
