use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Weak};

use xfs_format::reservation::TransactionKind;
use xfs_format::{BlockKind, InodeNumber};
use xfs_log::{InPlace, LogItem};

use super::{RecordList, SWEEP_RECORDS};
use crate::buffer_item::BufferItem;
use crate::testing::{change_core, crashed, make, open, recover};
use crate::{InodeRecord, Journal};

fn record(journal: &Arc<Journal>, index: u64) -> Arc<InodeRecord> {
    let InodeNumber(root) = journal.superblock().root_inode;
    journal.inode(InodeNumber(root + index)).unwrap()
}

fn set_owner(journal: &Arc<Journal>, record: &Arc<InodeRecord>, uid: u32) {
    let mut tx = journal.begin(TransactionKind::ChangeInode, 0).unwrap();
    tx.join(record);
    change_core(&mut tx, record, |core| core.uid = uid);
    let _ = tx.commit().unwrap();
}

/// Returns the user ID of an inode's owner, as read from the disk.
fn owner_on_disk(journal: &Journal, record: &InodeRecord) -> u32 {
    let place = journal.geometry().inode_location(record.number()).unwrap();
    let cache = journal.cache();
    let kind = BlockKind::InodeCluster;
    let fresh = cache.read_fresh(place.cluster, place.cluster_bytes, kind).unwrap();
    let bytes = fresh.bytes();
    u32::from_be_bytes(bytes[place.offset_bytes as usize + 8..][..4].try_into().unwrap())
}

/// Checks I1 of `xfs_trans::inode_item`: an inode in memory has only one record.
#[test]
fn inode_in_memory_has_one_record() {
    let journal = open(&make(), 0);
    let first = record(&journal, 5);
    assert!(Arc::ptr_eq(&first, &record(&journal, 5)), "an inode has one record (I1)");
    assert!(!Arc::ptr_eq(&first, &record(&journal, 6)));
    set_owner(&journal, &first, 9);
    // Only the log holds the record now, and it is still found.
    drop(first);
    assert_eq!(record(&journal, 5).core().unwrap().uid, 9);
}

#[test]
fn dropped_records_release_their_memory() {
    let journal = open(&make(), 0);
    let kept = record(&journal, 1);
    (0..32).for_each(|index| drop(record(&journal, index)));
    let InodeNumber(root) = journal.superblock().root_inode;
    let place = journal.geometry().inode_location(InodeNumber(root)).unwrap();
    let kind = BlockKind::InodeCluster;
    let buffer = journal.cache().read(place.cluster, place.cluster_bytes, kind).unwrap();
    let item = buffer.attached::<BufferItem>().unwrap();
    let none = Weak::new();
    let left = |listed: &RecordList| listed.newest.iter().filter(|one| !one.ptr_eq(&none)).count();
    assert_eq!(left(&item.records().0.lock()), 1);
    assert!(Arc::ptr_eq(&kept, &record(&journal, 1)));
    // Records that are dropped while another thread holds the list stay in it until new ones are
    // added.
    let others: Vec<_> = (2..32).map(|index| record(&journal, index)).collect();
    let listed = item.records().0.lock();
    drop(others);
    assert_eq!(left(&listed), 31);
    drop(listed);
    (0..32).for_each(|index| drop(record(&journal, index)));
    let left = left(&item.records().0.lock());
    assert!(left <= SWEEP_RECORDS + 1, "{left} of 32");
}

#[test]
fn one_push_writes_all_unlatched_unpinned_inodes_of_a_cluster() {
    let journal = open(&make(), 0);
    let records: Vec<_> = (4..8).map(|index| record(&journal, index)).collect();
    for record in &records {
        set_owner(&journal, record, 7);
    }
    journal.force_all().unwrap();
    let held = &records[1];
    held.latch().lock_exclusive();
    set_owner(&journal, &records[2], 8);
    let report = journal.log().ail().push(journal.log().ail().head());
    assert!(report.started > 0);
    let owners = records.each_owner(&journal);
    assert_eq!(owners, [7, 0, 0, 7], "neither the latched nor the pinned inode is written");
    assert!(records[0].state().lsn().is_none(), "the inode is in place");
    assert!(held.state().lsn().is_some());
    held.latch().unlock_exclusive();
    journal.log().quiesce().unwrap();
    assert_eq!(records.each_owner(&journal), [7, 7, 8, 7]);
}

/// Changes four inodes of one cluster and pushes the AIL once. Checks that all four are then on
/// disk and out of the AIL: the push of the first one writes the whole cluster.
#[test]
fn push_of_the_ail_writes_a_cluster_once() {
    let journal = open(&make(), 0);
    let records: Vec<_> = (4..8).map(|index| record(&journal, index)).collect();
    for record in &records {
        set_owner(&journal, record, 7);
    }
    journal.force_all().unwrap();
    let report = journal.log().ail().push(journal.log().ail().head());
    assert_eq!((report.started, report.busy(), report.pinned), (4, 0, 0));
    assert!(journal.log().ail().is_empty());
    assert_eq!(records.each_owner(&journal), [7; 4]);
}

trait Owners {
    fn each_owner(&self, journal: &Journal) -> Vec<u32>;
}

impl Owners for Vec<Arc<InodeRecord>> {
    fn each_owner(&self, journal: &Journal) -> Vec<u32> {
        self.iter().map(|record| owner_on_disk(journal, record)).collect()
    }
}

/// Checks I3 of `xfs_trans::inode_item`: an inode that is logged again while it is being written
/// stays in the AIL.
#[test]
fn inode_logged_during_its_write_stays_in_the_ail() {
    let journal = open(&make(), 0);
    let record = record(&journal, 5);
    set_owner(&journal, &record, 1);
    journal.force_all().unwrap();
    let lsn = record.state().lsn();
    let place = journal.geometry().inode_location(record.number()).unwrap();
    let mut cluster = vec![0; place.cluster_bytes as usize];
    let taken = record.flush_into(&mut cluster).unwrap();
    assert_eq!(Some(taken.lsn), lsn);
    assert!(record.flush_into(&mut cluster).is_none(), "the inode is being written");
    set_owner(&journal, &record, 2);
    journal.force_all().unwrap();
    record.written();
    InPlace::default().note(record.state(), taken.lsn);
    assert!(record.state().lsn() > lsn);
    let again = record.flush_into(&mut cluster).unwrap();
    assert_eq!(Some(again.lsn), record.state().lsn(), "the newest entry has all changes (I3)");
}

#[test]
fn inode_in_place_has_no_image_in_memory() {
    let device = make();
    let journal = open(&device, 0);
    let record = record(&journal, 5);
    let view = record.take_image().unwrap();
    assert!(record.known_core().is_none(), "the view has taken the image");
    assert_eq!(record.image().unwrap(), view);
    for owner in 1..4 {
        set_owner(&journal, &record, owner);
        assert!(record.known_core().is_some());
        assert_eq!(record.take_image().unwrap().core.uid, owner);
        assert!(record.known_core().is_some(), "an inode that is not in place keeps its image");
        journal.force_all().unwrap();
        if owner == 3 {
            break;
        }
        let _ = journal.log().ail().push(journal.log().ail().head());
        assert!(record.known_core().is_none());
        assert_eq!(record.core().unwrap().uid, owner);
    }
    let (recovered, _) = recover(&crashed(&device));
    assert_eq!(owner_on_disk(&recovered, &record), 3);
}

#[test]
fn inode_changed_during_its_write_keeps_its_image() {
    let journal = open(&make(), 0);
    let record = record(&journal, 5);
    set_owner(&journal, &record, 1);
    journal.force_all().unwrap();
    let mut cluster = vec![0; 1 << 16];
    assert!(record.flush_into(&mut cluster).is_some());
    assert_eq!(record.take_image().unwrap().core.uid, 1);
    assert!(record.known_core().is_some(), "the inode is not written yet");
    set_owner(&journal, &record, 2);
    record.written();
    assert_eq!((record.known_core().is_some(), record.core().unwrap().uid), (true, 2));
}

/// Calls `share_each` with a function that panics, once while the inode is in memory and once while
/// it is not. Checks that the latch of the inode is free after each panic.
#[test]
fn shared_inode_is_unlatched_after_a_panic() {
    let journal = open(&make(), 0);
    let InodeNumber(root) = journal.superblock().root_inode;
    let number = InodeNumber(root + 5);
    let cluster = journal.inode_cluster(number).unwrap();
    for is_in_memory in [false, true] {
        let kept = is_in_memory.then(|| record(&journal, 5));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            cluster.share_inode(&journal, number, |_, image| {
                assert_ne!(image.is_some(), is_in_memory);
                resume_unwind(Box::new(()));
            })
        }));
        assert!(panicked.is_err_and(|payload| payload.is::<()>()), "only the function panics");
        drop(kept);
        let record = record(&journal, 5);
        assert!(record.latch().try_lock_exclusive(), "in memory: {is_in_memory}");
        record.latch().unlock_exclusive();
    }
}

/// Checks that an inode is not copied into its cluster after a transaction that changed it was
/// cancelled, although an older change of the inode is in the AIL.
#[test]
fn inode_of_a_cancelled_dirty_transaction_is_not_written() {
    let journal = open(&make(), 0);
    let record = record(&journal, 5);
    set_owner(&journal, &record, 1);
    journal.force_all().unwrap();
    let mut tx = journal.begin(TransactionKind::ChangeInode, 0).unwrap();
    tx.join(&record);
    change_core(&mut tx, &record, |core| core.uid = 2);
    tx.cancel();
    assert!(record.latch().try_lock_shared());
    record.latch().unlock_shared();
    let mut cluster = vec![0; 1 << 16];
    assert!(record.flush_into(&mut cluster).is_none(), "the image is ahead of the log (I4)");
}

/// Checks that the roll of a transaction does not log an inode again that has been written to its
/// home location, although the inode is still in the AIL.
#[test]
fn inode_written_in_place_before_a_roll_is_not_relogged() {
    let device = make();
    let journal = open(&device, 0);
    let record = record(&journal, 5);
    set_owner(&journal, &record, 1);
    journal.force_all().unwrap();
    let mut cluster = vec![0; 1 << 16];
    let taken = record.flush_into(&mut cluster).unwrap();
    let mut tx = journal.begin(TransactionKind::ChangeInode, 0).unwrap();
    tx.join(&record);
    let sequence = record.sequence();
    record.written();
    tx.roll().unwrap();
    assert_eq!(record.sequence(), sequence);
    InPlace::default().note(record.state(), taken.lsn);
    let _ = tx.commit().unwrap();
    assert!(!journal.is_shut_down());
}

/// Frees the cluster that holds the inode `of`. No file of the new volume uses this cluster.
fn free_cluster(journal: &Arc<Journal>, of: &InodeRecord) {
    let place = journal.geometry().inode_location(of.number()).unwrap();
    let mut tx = journal.begin(TransactionKind::FreeInode, 0).unwrap();
    let kind = BlockKind::InodeCluster;
    let buffer = tx.read(place.cluster, place.cluster_bytes, kind).unwrap();
    tx.stale_cluster(&buffer);
    let _ = tx.commit().unwrap();
}

#[test]
fn inodes_of_a_freed_cluster_hold_the_tail_until_the_free_is_durable() {
    let device = make();
    let journal = open(&device, 0);
    let record = record(&journal, 40);
    set_owner(&journal, &record, 7);
    journal.force_all().unwrap();
    let place = journal.geometry().inode_location(record.number()).unwrap();
    free_cluster(&journal, &record);
    let report = journal.log().ail().push(journal.log().ail().head());
    assert_eq!((report.started, report.pinned), (0, 1), "its change must not leave the log yet");
    journal.force_all().unwrap();
    journal.log().quiesce().unwrap();
    assert!(record.state().lsn().is_none());
    let mut on_disk = vec![0; 4];
    let at = place.cluster.byte_offset().unwrap() + u64::from(place.offset_bytes) + 8;
    device.read_at(&mut on_disk, at).unwrap();
    assert_eq!(on_disk, [0; 4]);
}

#[test]
fn inodes_of_a_freed_cluster_are_not_replayed() {
    let device = make();
    let journal = open(&device, 0);
    let record = record(&journal, 40);
    set_owner(&journal, &record, 7);
    journal.force_all().unwrap();
    free_cluster(&journal, &record);
    journal.force_all().unwrap();
    let (recovered, _) = recover(&crashed(&device));
    assert_eq!(owner_on_disk(&recovered, &record), 0);
}

/// Checks that changing one inode many times rarely writes memory that operations on other objects
/// also write. Such writes would slow down unrelated threads.
#[cfg(feature = "count")]
#[test]
fn inode_change_rarely_writes_volume_shared_memory() {
    const COMMITS: u32 = 4096;
    /// The greatest number of memory writes that one commit may make to an inode's record: for
    /// latching, joining, changing, logging, pinning and releasing.
    const OBJECT_WRITES: u64 = 16;
    // On a smaller log the slots keep no log space of their own.
    let device = crate::testing::make_sized(1 << 30, "-l size=128m");
    let journal = open(&device, 1);
    let record = record(&journal, 5);
    set_owner(&journal, &record, 1);
    let before = xfs_sync::thread_counts();
    for round in 0..COMMITS {
        set_owner(&journal, &record, round);
    }
    let counted = xfs_sync::thread_counts().since(&before);
    assert!(counted.volume.total() * 64 <= u64::from(COMMITS), "{counted:?}");
    assert_eq!(counted.group.total(), 0, "{counted:?}");
    assert!(counted.object.total() <= OBJECT_WRITES * u64::from(COMMITS), "{counted:?}");
}
