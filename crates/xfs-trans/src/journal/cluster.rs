//! Bringing the inodes of one cluster into memory: the cluster is looked up once for all of them.

use std::sync::Arc;

use xfs_buffer::{Buffer, PosixError, Result};
use xfs_format::geometry::InodeLocation;
use xfs_format::{BlockKind, InodeNumber};
use xfs_sync::{Ordering, fence};

use super::Journal;
use crate::buffer_item::BufferItem;
use crate::inode_item::{InodeImage, InodeRecord};

/// A cluster of inodes, kept in memory for who wants several of them.
pub struct InodeCluster {
    /// Its first inode.
    first: InodeNumber,
    /// Of that one.
    place: InodeLocation,
    buffer: Buffer,
    item: Arc<BufferItem>,
}

impl Journal {
    /// The cluster that an inode lies in.
    ///
    /// # Errors
    ///
    /// [`PosixError::NotFound`] for a number outside the volume; what reading the cluster meets.
    pub fn inode_cluster(&self, number: InodeNumber) -> Result<InodeCluster> {
        let place = self.geometry().inode_location(number).ok_or(PosixError::NotFound)?;
        let buffer =
            self.cache.read(place.cluster, place.cluster_bytes, BlockKind::InodeCluster)?;
        let item = BufferItem::of(&self.context, &buffer);
        let index = place.offset_bytes / self.geometry().inode_size;
        let first = InodeNumber(number.0 - u64::from(index));
        Ok(InodeCluster { first, place: InodeLocation { offset_bytes: 0, ..place }, buffer, item })
    }
}

impl InodeCluster {
    /// Which inode of the cluster this is, and where it lies, if it is one.
    fn place(&self, journal: &Journal, number: InodeNumber) -> Option<(u32, InodeLocation)> {
        let index = u32::try_from(number.0.checked_sub(self.first.0)?).ok()?;
        let offset_bytes = index.checked_mul(journal.geometry().inode_size)?;
        let place = InodeLocation { offset_bytes, ..self.place };
        (offset_bytes < place.cluster_bytes).then_some((index, place))
    }

    /// Whether an inode is one of this cluster.
    #[must_use]
    pub fn holds(&self, journal: &Journal, number: InodeNumber) -> bool {
        self.place(journal, number).is_some()
    }

    /// As [`Journal::inode`], for an inode of this cluster.
    ///
    /// # Errors
    ///
    /// As [`Journal::inode`], and [`PosixError::NotFound`] for an inode of another cluster.
    pub fn inode(&self, journal: &Journal, number: InodeNumber) -> Result<Arc<InodeRecord>> {
        let (index, place) = self.place(journal, number).ok_or(PosixError::NotFound)?;
        let make = || {
            // Whoever has written it in place last has said how far the log goes before it let go of the record.
            fence(Ordering::Acquire);
            let verify = journal.cache.verify_context();
            InodeRecord::read((number, place), &self.buffer, &self.item, &verify)
        };
        let record = self.item.records().find_or_add(index, make)?;
        // After that: a cluster is freed before its records are, so one that was made too late for
        // them is met here. Its bytes are still those of the inodes that were.
        if self.item.is_stale() {
            return Err(PosixError::NotFound.into());
        }
        Ok(record)
    }

    /// How many inodes from this one on lie in the cluster.
    #[must_use]
    pub fn count_from(&self, journal: &Journal, number: InodeNumber) -> u32 {
        let inode_size = journal.geometry().inode_size;
        let place = self.place(journal, number);
        place.map_or(0, |(_, place)| (place.cluster_bytes - place.offset_bytes) / inode_size)
    }

    /// Gives those inodes of the cluster, among 64 from `first` on, whose latch can be shared at once to `show`, with
    /// their latch shared, which the caller gives back. One that was not in memory comes with its image, and its
    /// record has none. What is damaged is left out, and so is everything if the cluster has been freed: then this is
    /// `false`, and nothing that `show` got is an inode.
    ///
    /// `show` waits for nothing: the list of the cluster's inodes is held.
    #[must_use]
    pub fn share_inodes(
        &self,
        journal: &Journal,
        (first, wanted): (InodeNumber, u64),
        show: impl FnMut(Arc<InodeRecord>, Option<InodeImage>),
    ) -> bool {
        let Some((first_index, _)) = self.place(journal, first) else { return true };
        let number_of = |index: u32| InodeNumber(self.first.0 + u64::from(index));
        let indexes = (0..u64::BITS.min(self.count_from(journal, first)))
            .filter(|bit| wanted >> bit & 1 != 0)
            .map(|bit| first_index + bit);
        let make = |index| {
            let (_, place) = self.place(journal, number_of(index))?;
            // As in `inode`.
            fence(Ordering::Acquire);
            let verify = journal.cache.verify_context();
            InodeRecord::read_shared((number_of(index), place), &self.buffer, &self.item, &verify)
                .ok()
        };
        self.item.records().share_each(indexes, make, show);
        // After that, as in `inode`.
        !self.item.is_stale()
    }
}
