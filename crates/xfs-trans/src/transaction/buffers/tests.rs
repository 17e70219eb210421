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
/// Where the target starts in a block of a symbolic link.
const TARGET: usize = 56;
/// How much of the target is used.
const TARGET_BYTES: usize = 1000;

/// A block that the new volume does not use.
fn free_block(index: u64) -> DiskAddr {
    DiskAddr((4096 + index) * 8)
}

fn begin(journal: &Arc<Journal>) -> Transaction<'_> {
    journal.begin(TransactionKind::Write, 0).unwrap()
}

/// Claims a free block and makes it one of a symbolic link, with a target of this byte.
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

/// Changes one byte of the target.
fn change_block(tx: &mut Transaction<'_>, index: u64, offset: usize, byte: u8) -> Buffer {
    let buffer = tx.read(free_block(index), BLOCK, BlockKind::Symlink).unwrap();
    tx.change(&buffer, TARGET + offset..TARGET + offset + 1, |bytes| bytes.fill(byte));
    buffer
}

fn free(tx: &mut Transaction<'_>, index: u64) {
    let buffer = tx.read(free_block(index), BLOCK, BlockKind::Symlink).unwrap();
    tx.invalidate(&buffer);
}

/// A transaction with this in it.
fn commit<R>(journal: &Arc<Journal>, change: impl FnOnce(&mut Transaction<'_>) -> R) -> R {
    let mut tx = begin(journal);
    let result = change(&mut tx);
    tx.commit().unwrap();
    result
}

fn on_device(device: &SharedDevice, index: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK as usize];
    device.read_at(free_block(index).byte_offset().unwrap(), &mut bytes).unwrap();
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
fn a_change_reaches_its_place_after_the_log() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    let buffer = commit(&journal, |tx| add_block(tx, 0, b'a'));
    assert!(!buffer.is_latched());
    journal.log().quiesce().unwrap();
    let written = on_device(&device, 0);
    assert_eq!(target(&written), [b'a'; TARGET_BYTES]);
    let lsn = Lsn(u64::from_be_bytes(written[48..56].try_into().unwrap()));
    assert!(lsn.cycle() >= 1, "stamped with its checkpoint");
    let context = journal.cache().verify_context();
    BlockKind::Symlink.verify(&written, free_block(0), &context).unwrap();
}

#[test]
fn nothing_is_in_place_before_it_is_durable() {
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
fn a_held_buffer_is_not_pushed() {
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

/// A dirty buffer is found in memory however little room the cache has.
#[test]
fn a_dirty_buffer_stays_in_memory() {
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
fn a_recovered_volume_has_what_was_forced() {
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
    assert_eq!(read_target(&recovered, 1), [b'b'; TARGET_BYTES], "it was not forced");
}

/// Changes add up until the buffer is in place, whatever checkpoints they came in; then they begin
/// anew. Recovery at any time gives all of them.
#[test]
fn changes_add_up_until_they_are_in_place() {
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
        assert_eq!(read_target(&recovered, 0), expected, "round {round}");
    }
}

#[test]
fn a_buffer_in_hand_is_joined_unless_it_was_freed() {
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
        // The second time it is another transaction that asks.
        tx.commit().unwrap();
        tx = begin(&journal);
    }
    tx.cancel();
    assert!(!buffer.is_latched());
}

#[test]
fn a_freed_block_is_pointed_to_by_nothing() {
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
        // The second time it is another transaction that asks.
        tx.commit().unwrap();
        tx = begin(&journal);
    }
    tx.cancel();
    let before = on_device(&device, 0);
    journal.log().quiesce().unwrap();
    assert_eq!(on_device(&device, 0), before, "a freed block is not written");
}

/// A block that is freed and used again before that is durable keeps its buffer, so that the
/// checkpoint holds one item for it.
#[test]
fn a_block_used_again_keeps_its_buffer() {
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

/// The cancellation of an inode cluster stays in the log, whatever the block becomes: inodes are items
/// of their own, which recovery would bring back into it.
#[test]
fn a_block_of_inodes_is_used_again_when_their_end_is_durable() {
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
fn a_block_freed_and_used_in_one_transaction_is_logged_as_it_is() {
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
fn a_durably_freed_buffer_is_forgotten() {
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

/// What the log has of a freed block is not replayed: the block may hold anything by then.
#[test]
fn a_freed_block_is_not_replayed() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    commit(&journal, |tx| drop(add_block(tx, 0, b'a')));
    journal.force_all().unwrap();
    commit(&journal, |tx| free(tx, 0));
    journal.force_all().unwrap();
    let contents = [0xda; BLOCK as usize];
    let crashed = testing::crashed(&device);
    let offset = free_block(0).byte_offset().unwrap();
    crashed.write_at(offset, &contents, xfs_device::Durability::Cached).unwrap();
    drop(testing::recover(&crashed));
    assert_eq!(on_device(&crashed, 0), contents);
}

#[test]
fn a_claim_that_is_cancelled_leaves_the_volume_alone() {
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
fn cancelling_a_dirty_transaction_shuts_the_volume_down() {
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
    assert!(weak.upgrade().is_none(), "nothing outlives the volume");
}

#[test]
fn a_joined_buffer_is_given_at_once() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    commit(&journal, |tx| drop(add_block(tx, 0, b'a')));
    let mut tx = begin(&journal);
    let first = tx.read(free_block(0), BLOCK, BlockKind::Symlink).unwrap();
    let second = tx.read(free_block(0), BLOCK, BlockKind::Symlink).unwrap();
    assert_eq!(first, second);
    let other = journal.cache().read(free_block(0), BLOCK, BlockKind::Symlink).unwrap();
    assert_eq!(other, first, "readers without a latch go on");
    let mut late = begin(&journal);
    assert!(late.try_read(free_block(0), BLOCK, BlockKind::Symlink).unwrap().is_none());
    tx.release(&first);
    assert!(late.try_read(free_block(0), BLOCK, BlockKind::Symlink).unwrap().is_some());
    late.cancel();
    tx.cancel();
}

#[test]
fn what_is_held_stays_over_rolls_and_the_rest_does_not() {
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

/// What stays held stands at the newest step of the chain, so that the tail can pass.
#[test]
fn what_is_held_moves_on_in_the_log() {
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

/// An ordered buffer waits for its place at the checkpoint that made it, though it is logged later.
#[test]
fn an_ordered_buffer_holds_the_tail() {
    let device = testing::make();
    let journal = testing::open(&device, 0);
    // Logged along, so that the checkpoints are not empty.
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
    assert_eq!(item.state_lsn(), Some(first));
    // Its blocks are freed while a checkpoint that has logged more of it is written.
    item.pin();
    commit(&journal, |tx| {
        let cluster = tx.read(free_block(0), BLOCK, BlockKind::InodeCluster).unwrap();
        tx.invalidate(&cluster);
    });
    assert_eq!(item.committed(Lsn(u64::MAX), &mut Vec::new()), Some(first));
    item.unpin(CheckpointEnd::Durable);
    journal.force_all().unwrap();
    assert_eq!(item.state_lsn(), None, "that they are freed is durable");
}

#[test]
fn a_failed_write_in_place_shuts_down_and_loses_nothing() {
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

/// Verifying comes before writing: a fault of ours does no harm to the volume.
#[test]
fn what_does_not_verify_is_not_written() {
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

/// Whatever has been in the log or the list when a volume is shut down, its memory comes free.
#[test]
fn nothing_outlives_a_volume_that_is_shut_down() {
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

/// The same where the journal is just dropped.
#[test]
fn nothing_outlives_a_volume_that_is_dropped() {
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

/// Threads change, free and use again the same few blocks, with the log's thread writing them in
/// place. Each block counts the changes to it; a change that is lost shows, in memory, in place or
/// after a crash.
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
                        // Freed and used again, with one more than before.
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

/// What a transaction writes that operations on other objects write too, with everything that it
/// brings about, and what it writes of its buffer.
#[cfg(feature = "count")]
#[test]
fn changing_a_buffer_seldom_writes_what_the_volume_shares() {
    const COMMITS: u64 = 4096;
    /// Reading, latching, joining, changing, logging, pinning, giving back.
    const OBJECT_WRITES: u64 = 12;
    // On a log that is small beside them slots keep no log space of their own.
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
