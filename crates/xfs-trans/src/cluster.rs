//! Inode clusters: finds the in-memory records of the inodes of a cluster, and writes these inodes
//! together to their home location on disk ("in place").
//!
//! Owns: the list of records of a cluster, and the write. Does **not** own the image of an inode
//! ([`inode_item`](crate::inode_item)), or the parts of a cluster that are logged as a buffer: new
//! clusters and the links of unlinked lists ([`buffer_item`](crate::buffer_item)).
//!
//! One write brings everything in place that the log holds of a cluster: every inode that is dirty,
//! durable in the log and not latched, and the logged changes of the buffer itself. The buffer is
//! not written while a change of its own is not durable (write-ahead). An inode is copied into the
//! buffer only when all of its changes are durable. So the disk never gets a change that is not
//! durable in the log.
//!
//! Lock order: the latch of the buffer, then the latch of an inode. The latch of the inode is only
//! tried, without waiting. The thread that pushes the AIL only tries both latches. The lock of the
//! list is not held while either latch is acquired.

use std::mem;
use std::sync::{Arc, Weak};

use xfs_buffer::Buffer;
use xfs_format::Corruption;
use xfs_log::{InPlace, LogItem, Pushed};
use xfs_sync::{Mutex, Object};

use crate::buffer_item::BufferItem;
use crate::context::VolumeContext;
use crate::inode_item::{FlushedInode, InodeImage, InodeRecord};

/// The least number of records that are added between two sweeps of the list. A sweep removes the
/// entries of dropped records.
const SWEEP_RECORDS: usize = 8;

/// The records in memory of the inodes of one cluster. Each record keeps the cluster's buffer in
/// memory; the buffer does not keep the records.
#[derive(Default)]
pub(crate) struct ClusterRecords(Mutex<RecordList, Object>);

#[derive(Default)]
struct RecordList {
    /// The newest record of each inode, by the inode's index in the cluster.
    newest: Vec<Weak<InodeRecord>>,
    /// Records of freed inodes, whose index in the cluster now belongs to a newer record.
    older: Vec<Weak<InodeRecord>>,
    /// Number of records that may be added before the entries of dropped records are removed.
    until_sweep: usize,
}

impl ClusterRecords {
    /// Returns the record of the inode at this index of the cluster. If none is in memory, adds the
    /// one that `make` returns.
    pub(crate) fn find_or_add(
        &self,
        index: u32,
        make: impl FnOnce() -> Result<Arc<InodeRecord>, Corruption>,
    ) -> Result<Arc<InodeRecord>, Corruption> {
        let index = index as usize;
        let mut listed = self.0.lock();
        let found = listed.newest.get(index).and_then(Weak::upgrade);
        if let Some(record) = found.filter(|record| record.is_live()) {
            return Ok(record);
        }
        let record = make()?;
        listed.add(index, Arc::downgrade(&record));
        Ok(record)
    }

    /// Calls `show` with the records of the inodes at these indexes of the cluster, all under one
    /// lock. Each record is passed with its latch held in shared mode. A record in memory is left
    /// out if its latch cannot be acquired at once. For an inode without a record in memory, `make`
    /// must return a new record, whose latch `make` has acquired in shared mode, and the inode's
    /// image.
    pub(crate) fn share_each(
        &self,
        indexes: impl Iterator<Item = u32>,
        mut make: impl FnMut(u32) -> Option<(Arc<InodeRecord>, Box<InodeImage>)>,
        mut show: impl FnMut(Arc<InodeRecord>, Option<Box<InodeImage>>),
    ) {
        let mut listed = self.0.lock();
        for index in indexes {
            let place = index as usize;
            let found = listed.newest.get(place).and_then(Weak::upgrade);
            if let Some(record) = found.filter(|record| record.is_live()) {
                if record.latch().try_lock_shared() {
                    show(record, None);
                }
            } else if let Some((record, image)) = make(index) {
                listed.add(place, Arc::downgrade(&record));
                show(record, Some(image));
            }
        }
    }

    /// Removes the list entry of a record that is being dropped, because the weak reference in it
    /// keeps memory allocated. If the list is locked, does nothing, because this thread may be the
    /// one that holds the lock. `RecordList::sweep` removes the entry later.
    pub(crate) fn forget(&self, index: u32, record: *const InodeRecord) {
        let Some(mut listed) = self.0.try_lock() else { return };
        let place = listed.newest.get_mut(index as usize);
        // The index may have a newer record.
        if let Some(place) = place.filter(|place| place.as_ptr() == record) {
            *place = Weak::new();
        }
    }

    /// Returns the records in memory of all inodes of the cluster, including freed inodes.
    pub(crate) fn live(&self) -> Vec<Arc<InodeRecord>> {
        let listed = self.0.lock();
        listed.newest.iter().chain(&listed.older).filter_map(Weak::upgrade).collect()
    }

    /// Records that the blocks of the cluster are freed, or become a new cluster. The inodes that
    /// the cluster had until then are never written or found again.
    pub(crate) fn set_freed(&self) {
        let live = self.live();
        live.iter().filter(|record| record.is_live()).for_each(|record| record.set_freed());
    }

    /// Records that the freeing of the cluster is durable. Returns the freed inodes, which must
    /// leave the AIL.
    pub(crate) fn set_gone(&self) -> Vec<Arc<dyn LogItem>> {
        let gone = self.live().into_iter().filter(|record| !record.is_live());
        gone.inspect(|record| record.set_gone()).map(|record| record as Arc<dyn LogItem>).collect()
    }
}

impl RecordList {
    fn add(&mut self, index: usize, record: Weak<InodeRecord>) {
        if self.until_sweep == 0 {
            self.sweep();
        }
        self.until_sweep -= 1;
        if index >= self.newest.len() {
            self.newest.resize_with((index + 1).next_power_of_two(), Weak::new);
        }
        let place = self.newest.get_mut(index).expect("the list has room for the index");
        let before = mem::replace(place, record);
        if before.strong_count() > 0 {
            self.older.push(before);
        }
    }

    /// Removes the entries of dropped records, whose weak references keep memory allocated.
    fn sweep(&mut self) {
        self.older.retain(|record| record.strong_count() > 0);
        let mut left = self.older.len();
        for record in &mut self.newest {
            if record.strong_count() > 0 {
                left += 1;
            } else {
                *record = Weak::new();
            }
        }
        self.until_sweep = left.max(SWEEP_RECORDS);
    }
}

/// Writes a cluster to its home location when the AIL (the list of items that are durable in the
/// log but not in place) pushes its buffer or an inode in it. Does not wait for locks.
pub(crate) fn push(
    context: &VolumeContext,
    buffer: &Buffer,
    item: &BufferItem,
    in_place: &mut InPlace,
) -> Pushed {
    let Some(_latched) = buffer.try_latched() else { return Pushed::Locked };
    write(context, buffer, item, in_place)
}

/// Writes a cluster to its home location on disk. The caller holds the latch of its buffer.
fn write(
    context: &VolumeContext,
    buffer: &Buffer,
    item: &BufferItem,
    in_place: &mut InPlace,
) -> Pushed {
    if item.is_pinned() || item.is_stale() {
        return Pushed::Pinned;
    }
    let Some(cache) = context.cache() else { return Pushed::Locked };
    let records = item.records().live();
    let flushed: Vec<FlushedInode> = {
        let mut bytes = buffer.bytes_mut();
        records.iter().filter_map(|record| record.flush_into(&mut bytes)).collect()
    };
    let own = item.state_lsn();
    let newest = flushed.iter().map(|flushed| flushed.lsn).chain(own).max();
    let Some(newest) = newest else { return Pushed::Locked };
    if cache.write(buffer, newest).is_err() {
        return Pushed::Failed;
    }
    finish(item, &flushed, in_place);
    Pushed::Started
}

/// Ends the write of a cluster: removes the written items from the AIL, unless they have been
/// logged again meanwhile.
fn finish(item: &BufferItem, flushed: &[FlushedInode], in_place: &mut InPlace) {
    for flushed in flushed {
        flushed.record.written();
        in_place.note(flushed.record.state_of(), flushed.lsn);
    }
    if let Some(lsn) = item.note_written() {
        in_place.note(item.state(), lsn);
    }
}

#[cfg(test)]
mod tests;
