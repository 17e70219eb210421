//! The inodes of a transaction.

use std::sync::Arc;

use xfs_format::log_item::{InodeCreate, LoggedFields};
use xfs_log::LogItem;

use super::Transaction;
use crate::create_item::CreateItem;
use crate::inode_item::{InodeImage, InodeRecord};

/// An inode that a transaction holds latched.
struct JoinedInode {
    record: Arc<InodeRecord>,
    /// Changed in this step.
    dirty: bool,
    /// Given back after this step.
    leaving: bool,
}

/// The inodes that a transaction holds latched, in the order in which they were joined.
#[derive(Default)]
pub(super) struct JoinedInodes(Vec<JoinedInode>);

impl JoinedInodes {
    fn find(&mut self, record: &InodeRecord) -> Option<&mut JoinedInode> {
        self.0.iter_mut().find(|joined| std::ptr::eq(Arc::as_ptr(&joined.record), record))
    }

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// How many fit the memory that the list has.
    pub(super) const fn capacity(&self) -> usize {
        self.0.capacity()
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.0.iter().any(|joined| joined.dirty)
    }

    /// Before a roll: what stays latched and stands in the log is logged again. It could not be
    /// written in place, and the chain may wait for the tail.
    pub(super) fn relog(&mut self) {
        for joined in self.0.iter_mut().filter(|joined| !joined.leaving && !joined.dirty) {
            joined.dirty = joined.record.mark_again();
        }
    }

    /// Encodes what is logged. `false` if the format cannot hold a value.
    pub(super) fn encode(&self) -> bool {
        self.0.iter().filter(|joined| joined.dirty).all(|joined| joined.record.encode())
    }

    pub(super) fn collect(&self, items: &mut Vec<Arc<dyn LogItem>>) {
        let dirty = self.0.iter().filter(|joined| joined.dirty);
        items.extend(dirty.map(|joined| Arc::clone(&joined.record) as Arc<dyn LogItem>));
    }

    /// The step is committed.
    pub(super) fn end_step(&mut self) {
        self.0.retain_mut(|joined| {
            joined.dirty = false;
            if joined.leaving {
                joined.record.latch().unlock_exclusive();
            }
            !joined.leaving
        });
    }

    pub(super) fn release_all(&mut self) {
        while let Some(joined) = self.0.pop() {
            joined.record.latch().unlock_exclusive();
        }
    }
}

impl Transaction<'_> {
    /// Latches an inode until the end of the chain. An inode that is joined already stays so.
    pub fn join(&mut self, record: &Arc<InodeRecord>) {
        if self.inodes.find(record).is_none() {
            record.latch().lock_exclusive();
            self.add_inode(record);
        }
    }

    /// Latches an inode if nobody holds it.
    #[must_use]
    pub fn try_join(&mut self, record: &Arc<InodeRecord>) -> bool {
        if self.is_joined(record) {
            return true;
        }
        let latched = record.latch().try_lock_exclusive();
        if latched {
            self.add_inode(record);
        }
        latched
    }

    fn add_inode(&mut self, record: &Arc<InodeRecord>) {
        let record = Arc::clone(record);
        self.inodes.0.push(JoinedInode { record, dirty: false, leaving: false });
    }

    /// Whether this transaction holds the inode.
    #[must_use]
    pub fn is_joined(&self, record: &Arc<InodeRecord>) -> bool {
        self.inodes.0.iter().any(|joined| Arc::ptr_eq(&joined.record, record))
    }

    /// Changes an inode that is joined. `fields` says what besides its core, `view` how it is now: that is
    /// asked if its record does not know.
    ///
    /// # Panics
    ///
    /// If it is not joined.
    pub fn change_inode<R>(
        &mut self,
        record: &Arc<InodeRecord>,
        fields: LoggedFields,
        view: impl FnOnce() -> InodeImage,
        change: impl FnOnce(&mut InodeImage) -> R,
    ) -> R {
        let Some(joined) = self.inodes.find(record) else {
            unreachable!("inode {} changed without being joined", record.number())
        };
        joined.dirty = true;
        record.change(fields, view, change)
    }

    /// Whether an inode has been changed in this step.
    #[must_use]
    pub fn has_changed(&self, record: &InodeRecord) -> bool {
        let is_it = |joined: &&JoinedInode| std::ptr::eq(Arc::as_ptr(&joined.record), record);
        self.inodes.0.iter().find(is_it).is_some_and(|joined| joined.dirty)
    }

    /// Gives an inode back after this step, because it was freed in it. It must not be logged again:
    /// another transaction may free its cluster by then, and recovery would write the inode into
    /// blocks of another life.
    ///
    /// # Panics
    ///
    /// If it is not joined.
    pub fn leave(&mut self, record: &Arc<InodeRecord>) {
        match self.inodes.find(record) {
            Some(joined) => joined.leaving = true,
            None => unreachable!("inode {} left without being joined", record.number()),
        }
    }

    /// Logs that the blocks of a chunk became inodes.
    pub fn log_inode_create(&mut self, create: &InodeCreate) {
        self.items.push(Arc::new(CreateItem::new(create)));
    }
}
