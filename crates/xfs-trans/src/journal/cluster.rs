//! Reading the inodes of one cluster into memory, with one lookup of the cluster for all of them.

use std::sync::Arc;

use xfs_buffer::{Buffer, PosixError, Result};
use xfs_format::geometry::InodeLocation;
use xfs_format::inode::FreeInode;
use xfs_format::{BlockKind, Corruption, InodeNumber, VerifyContext};
use xfs_sync::{Ordering, fence};

use super::Journal;
use crate::buffer_item::BufferItem;
use crate::inode_item::{InodeImage, InodeRecord};

/// The panic message for an inode that is not in the cluster that the caller named.
const IN_CLUSTER: &str = "the inode lies in this cluster";

/// A cluster of inodes, for callers that need several of its inodes.
pub struct InodeCluster {
    /// The number of the first inode in the cluster.
    first: InodeNumber,
    /// The location on disk of the first inode.
    place: InodeLocation,
    buffer: Buffer,
    item: Arc<BufferItem>,
}

/// A record whose latch is held in shared mode. The latch is released on drop, also if a caller's
/// function panics.
struct SharedRecord<'a>(&'a Arc<InodeRecord>);

impl Drop for SharedRecord<'_> {
    fn drop(&mut self) {
        self.0.latch().unlock_shared();
    }
}

impl Journal {
    /// Returns the cluster that holds an inode.
    ///
    /// # Errors
    ///
    /// Returns [`PosixError::NotFound`] for a number outside the volume, and the errors of reading
    /// the cluster.
    pub fn inode_cluster(&self, number: InodeNumber) -> Result<InodeCluster> {
        let place = self.geometry().inode_location(number).ok_or(PosixError::NotFound)?;
        let buffer =
            self.cache.read(place.cluster, place.cluster_bytes, BlockKind::InodeCluster)?;
        let item = BufferItem::of(&self.context, &buffer);
        let index = place.offset_bytes / self.geometry().inode_size;
        let first = InodeNumber(number.0 - u64::from(index));
        Ok(InodeCluster { first, place: place.at_offset(0), buffer, item })
    }
}

impl InodeCluster {
    /// Returns the index of an inode in the cluster and its location on disk, or `None` if the
    /// inode is not in this cluster.
    fn place(&self, journal: &Journal, number: InodeNumber) -> Option<(u32, InodeLocation)> {
        let index = u32::try_from(number.0.checked_sub(self.first.0)?).ok()?;
        let offset_bytes = index.checked_mul(journal.geometry().inode_size)?;
        let place = self.place.at_offset(offset_bytes);
        (offset_bytes < place.cluster_bytes).then_some((index, place))
    }

    /// Returns whether an inode is in this cluster.
    #[must_use]
    pub fn holds(&self, journal: &Journal, number: InodeNumber) -> bool {
        self.place(journal, number).is_some()
    }

    /// Returns the record of an inode of this cluster, as [`Journal::inode`] does.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Journal::inode`], and [`PosixError::NotFound`] for an inode that is
    /// not in this cluster.
    pub fn inode(&self, journal: &Journal, number: InodeNumber) -> Result<Arc<InodeRecord>> {
        let record = self.find_or_add(journal, number, |place, verify| {
            InodeRecord::read(number, place, &self.buffer, &self.item, verify)
        })?;
        self.check_in_use()?;
        Ok(record)
    }

    /// Returns the record of a free inode of this cluster that a new file is about to take, and the
    /// contents that the inode keeps for it. Returns `None` if the inode is in use. A record that
    /// was not in memory has no image: the file replaces all of it
    /// ([`replace_inode`](crate::Transaction::replace_inode)).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`inode`](Self::inode).
    pub fn free_inode(
        &self,
        journal: &Journal,
        number: InodeNumber,
    ) -> Result<Option<(Arc<InodeRecord>, FreeInode)>> {
        let mut read = None;
        let record = self.find_or_add(journal, number, |place, verify| {
            let made = InodeRecord::read_free(number, place, &self.buffer, &self.item, verify)?;
            read = Some(made.1);
            Ok(made.0)
        })?;
        self.check_in_use()?;
        let free = match read {
            Some(free) => free,
            None => record.with_core(FreeInode::of_core)?,
        };
        Ok(free.map(|free| (record, free)))
    }

    /// Calls `show` with the record of an inode of this cluster, as [`inode`](Self::inode) does,
    /// while the latch of the inode is held in shared mode. An inode that was not in memory is
    /// passed with its image, which its record does not keep.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`inode`](Self::inode).
    pub fn share_inode<R>(
        &self,
        journal: &Journal,
        number: InodeNumber,
        show: impl FnOnce(&Arc<InodeRecord>, Option<Box<InodeImage>>) -> R,
    ) -> Result<R> {
        let mut image = None;
        let record = self.find_or_add(journal, number, |place, verify| {
            let read = InodeRecord::read_shared(number, place, &self.buffer, &self.item, verify)?;
            image = Some(read.1);
            Ok(read.0)
        })?;
        if image.is_none() {
            record.latch().lock_shared();
        }
        let shared = SharedRecord(&record);
        self.check_in_use().map(|()| show(shared.0, image))
    }

    /// Returns the record of an inode of this cluster: the one in memory, or else the one that
    /// `read` makes from the location of the inode.
    fn find_or_add(
        &self,
        journal: &Journal,
        number: InodeNumber,
        read: impl FnOnce(InodeLocation, &VerifyContext<'_>) -> Result<Arc<InodeRecord>, Corruption>,
    ) -> Result<Arc<InodeRecord>> {
        let (index, place) = self.place(journal, number).ok_or(PosixError::NotFound)?;
        let make = || {
            // The thread that last wrote the inode in place raised the log head known to the cache
            // before it released the record.
            fence(Ordering::Acquire);
            read(place, &journal.cache.verify_context())
        };
        Ok(self.item.records().find_or_add(index, make)?)
    }

    /// Returns an error if the cluster is freed. Called after a record of the cluster was found or
    /// added. Freeing marks the cluster first, and then the records in memory. So this check
    /// catches a record that was created too late to be marked, from an inode that no longer
    /// exists.
    fn check_in_use(&self) -> Result<()> {
        if self.item.is_stale() { Err(PosixError::NotFound.into()) } else { Ok(()) }
    }

    /// Returns the number of inodes from inode `number` to the end of the cluster, at least 1.
    ///
    /// # Panics
    ///
    /// Panics if the inode is not in this cluster.
    #[must_use]
    pub fn count_from(&self, journal: &Journal, number: InodeNumber) -> u32 {
        let inode_size = journal.geometry().inode_size;
        let (_, place) = self.place(journal, number).expect(IN_CLUSTER);
        (place.cluster_bytes - place.offset_bytes) / inode_size
    }

    /// Calls `show` with inodes of this cluster. Bit n of `wanted` stands for inode `first` + n. An
    /// inode is passed if its bit is set and its latch can be acquired in shared mode at once. The
    /// inode is passed with the latch held; the caller must release the latch later. An inode that
    /// was not in memory is passed with its image, which its record does not keep. Damaged inodes
    /// are left out.
    ///
    /// Returns `false` if the cluster has been freed. The records that `show` got then belong to
    /// inodes that no longer exist.
    ///
    /// `show` must not wait for anything: the lock on the cluster's list of inodes is held.
    ///
    /// # Panics
    ///
    /// Panics if inode `first` is not in this cluster.
    #[must_use]
    pub fn share_inodes(
        &self,
        journal: &Journal,
        first: InodeNumber,
        wanted: u64,
        show: impl FnMut(Arc<InodeRecord>, Option<Box<InodeImage>>),
    ) -> bool {
        let (first_index, _) = self.place(journal, first).expect(IN_CLUSTER);
        let number_of = |index: u32| InodeNumber(self.first.0 + u64::from(index));
        let indexes = (0..u64::BITS.min(self.count_from(journal, first)))
            .filter(|bit| wanted >> bit & 1 != 0)
            .map(|bit| first_index + bit);
        let make = |index| {
            let (_, place) = self.place(journal, number_of(index)).expect(IN_CLUSTER);
            // As in `find_or_add`.
            fence(Ordering::Acquire);
            let verify = journal.cache.verify_context();
            InodeRecord::read_shared(number_of(index), place, &self.buffer, &self.item, &verify)
                .ok()
        };
        self.item.records().share_each(indexes, make, show);
        // Checked afterwards, as in `inode`.
        self.check_in_use().is_ok()
    }
}
