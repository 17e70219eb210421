//! Inode clusters: finding the inodes of one that are in memory, and writing them in place together.
//!
//! Owns: the list of records of a cluster, and the write. Does **not** own the image of an inode
//! ([`inode_item`](crate::inode_item)), or what else of the cluster is logged as a buffer: new
//! clusters and the links of unlinked lists ([`buffer_item`](crate::buffer_item)).
//!
//! One write brings everything in place that the log holds of a cluster: every inode that is dirty,
//! durable in the log and not held, and what was logged of the buffer itself. The buffer is not
//! written while a change of itself is not durable (write-ahead), and an inode is put into it only
//! when all that is known of it is, so what is written never runs ahead of the log.
//!
//! Lock order: the latch of the buffer, then, by trying, the latch of an inode. The AIL's thread
//! takes both by trying. The list's lock is held over neither.

use std::mem;
use std::sync::{Arc, Weak};

use xfs_buffer::Buffer;
use xfs_format::Corruption;
use xfs_log::{InPlace, LogItem, Pushed};
use xfs_sync::{Mutex, Object};

use crate::buffer_item::BufferItem;
use crate::context::VolumeContext;
use crate::inode_item::{FlushedInode, InodeImage, InodeRecord};

/// New records after which those that are gone are looked for, at least.
const SWEEP_RECORDS: usize = 8;

/// The records of a cluster that are in memory. They hold the buffer, and it does not hold them.
#[derive(Default)]
pub(crate) struct ClusterRecords(Mutex<RecordList, Object>);

#[derive(Default)]
struct RecordList {
    /// By the place of the inode in the cluster: the newest record of each.
    newest: Vec<Weak<InodeRecord>>,
    /// Those of freed inodes that have got a newer one.
    older: Vec<Weak<InodeRecord>>,
    /// Records that may come before those that are gone give their memory back.
    until_sweep: usize,
}

impl ClusterRecords {
    /// The record of the inode at this place of the cluster: the one in memory, or a new one.
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

    /// The records of the inodes at these places, one lock for all: those in memory whose latch can be shared at
    /// once, with their latch shared, and new ones, which `make` gives so, with their image.
    pub(crate) fn share_each(
        &self,
        indexes: impl Iterator<Item = u32>,
        mut make: impl FnMut(u32) -> Option<(Arc<InodeRecord>, InodeImage)>,
        mut show: impl FnMut(Arc<InodeRecord>, Option<InodeImage>),
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

    /// A record goes: what points to it would keep its memory. Whoever drops one may hold any lock, this one
    /// too, so it is not waited for; what is left then is swept.
    pub(crate) fn forget(&self, index: u32, record: *const InodeRecord) {
        let Some(mut listed) = self.0.try_lock() else { return };
        let place = listed.newest.get_mut(index as usize);
        // It may have got a newer one.
        if let Some(place) = place.filter(|place| place.as_ptr() == record) {
            *place = Weak::new();
        }
    }

    /// The records that are in memory.
    pub(crate) fn live(&self) -> Vec<Arc<InodeRecord>> {
        let listed = self.0.lock();
        listed.newest.iter().chain(&listed.older).filter_map(Weak::upgrade).collect()
    }

    /// The blocks of the cluster are freed, or become one anew: none of the inodes that it has had is
    /// written any more, or found.
    pub(crate) fn set_freed(&self) {
        let live = self.live();
        live.iter().filter(|record| record.is_live()).for_each(|record| record.set_freed());
    }

    /// That they are freed is durable. Returns the inodes, which have to leave the AIL.
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
        let Some(place) = self.newest.get_mut(index) else { return };
        let before = mem::replace(place, record);
        if before.strong_count() > 0 {
            self.older.push(before);
        }
    }

    /// Gives back the memory of those that are gone, which what points to them keeps.
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

/// Writes a cluster in place because an item of it was asked to be. Takes no lock that has to be
/// waited for.
pub(crate) fn push(
    context: &VolumeContext,
    buffer: &Buffer,
    item: &BufferItem,
    in_place: &mut InPlace,
) -> Pushed {
    if !buffer.try_latch() {
        return Pushed::Locked;
    }
    let pushed = write(context, buffer, item, in_place);
    buffer.unlatch();
    pushed
}

/// Writes a cluster in place. The caller holds the latch of its buffer.
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

/// The cluster is in place: what was written leaves the AIL, unless it has been logged again.
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
