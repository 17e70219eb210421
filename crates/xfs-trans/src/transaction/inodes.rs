//! The inodes that a transaction holds.

use std::sync::Arc;

use xfs_format::log_item::{InodeCreate, LoggedFields};
use xfs_log::LogItem;

use super::Transaction;
use super::quota::{Charge, RealtimeBlocks};
use crate::create_item::CreateItem;
use crate::inode_item::{InodeImage, InodeRecord};

/// An inode that a transaction holds latched.
struct JoinedInode {
    record: Arc<InodeRecord>,
    /// Whether the inode was changed in the current step of the chain.
    dirty: bool,
    /// Whether the inode is unlatched at the end of the current transaction of the chain.
    leaving: bool,
    /// The quota charge of the inode before its first change in the current step. `None` if there
    /// was no such change, or if the volume does not count usage.
    charge: Option<Charge>,
    /// Its blocks in the realtime section, as far as the current step has changed or moved them.
    realtime: RealtimeBlocks,
}

/// The inodes that a transaction holds latched, in the order in which they were joined.
#[derive(Default)]
pub(super) struct JoinedInodes(Vec<JoinedInode>);

impl JoinedInodes {
    #[inline]
    fn find(&mut self, record: &InodeRecord) -> Option<&mut JoinedInode> {
        self.0.iter_mut().find(|joined| std::ptr::eq(Arc::as_ptr(&joined.record), record))
    }

    /// Returns the number of inodes in the list.
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of inodes that fit into the allocated memory of the list.
    pub(super) const fn capacity(&self) -> usize {
        self.0.capacity()
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.0.iter().any(|joined| joined.dirty)
    }

    /// Marks every inode that stays latched and is in the log as dirty, so that the roll logs it
    /// again. Without this, a roll could wait for ever: a latched inode cannot be written to its
    /// home location, so the tail could not move.
    pub(super) fn relog(&mut self) {
        for joined in self.0.iter_mut().filter(|joined| !joined.leaving && !joined.dirty) {
            joined.dirty = joined.record.mark_again();
        }
    }

    /// Returns whether the disk format can hold the cores of the dirty inodes.
    pub(super) fn are_encodable(&self) -> bool {
        self.0.iter().filter(|joined| joined.dirty).all(|joined| joined.record.is_encodable())
    }

    /// Stores the quota charge of an inode for the comparison at the commit, unless it is already
    /// stored for this step.
    ///
    /// # Panics
    ///
    /// Panics if the inode is not joined.
    pub(super) fn remember(&mut self, record: &InodeRecord, charge: impl FnOnce() -> Charge) {
        let Some(joined) = self.find(record) else {
            unreachable!("inode {} charged without being joined (I2)", record.number())
        };
        joined.charge.get_or_insert_with(charge);
    }

    /// Returns the blocks of a joined inode in the realtime section.
    ///
    /// # Panics
    ///
    /// Panics if the inode is not joined.
    pub(super) fn realtime(&mut self, record: &InodeRecord) -> &mut RealtimeBlocks {
        let Some(joined) = self.find(record) else {
            unreachable!("inode {} charged without being joined (I2)", record.number())
        };
        &mut joined.realtime
    }

    /// Takes the quota charges and the realtime blocks that were stored in this step. Returns them
    /// with their inodes.
    pub(super) fn charges(
        &mut self,
    ) -> impl Iterator<Item = (&InodeRecord, Charge, RealtimeBlocks)> {
        self.0.iter_mut().filter_map(|joined| {
            let charge = joined.charge.take()?;
            Some((&*joined.record, charge, core::mem::take(&mut joined.realtime)))
        })
    }

    pub(super) fn collect(&self, items: &mut Vec<Arc<dyn LogItem>>) {
        // Not `extend`: the caller has reserved memory, and the number of dirty inodes is unknown.
        for joined in self.0.iter().filter(|joined| joined.dirty) {
            items.push(Arc::clone(&joined.record) as Arc<dyn LogItem>);
        }
    }

    /// Ends a committed transaction of the chain: unlatches the inodes marked as leaving, and marks
    /// the other inodes as clean.
    pub(super) fn end_step(&mut self) {
        self.0.retain_mut(|joined| {
            joined.dirty = false;
            if joined.leaving {
                joined.record.latch().unlock_exclusive();
            }
            !joined.leaving
        });
    }

    /// Excludes from write-back all inodes that the current transaction of the chain has changed.
    /// Called if this transaction is not committed, because its changes must not reach the disk.
    pub(super) fn abandon(&self) {
        for joined in self.0.iter().filter(|joined| joined.dirty) {
            joined.record.abandon();
        }
    }

    pub(super) fn release_all(&mut self) {
        while let Some(joined) = self.0.pop() {
            joined.record.latch().unlock_exclusive();
        }
    }
}

impl Transaction<'_> {
    /// Latches an inode until the end of the chain. Does nothing if this transaction already holds
    /// the inode.
    pub fn join(&mut self, record: &Arc<InodeRecord>) {
        if self.inodes.find(record).is_none() {
            record.latch().lock_exclusive();
            self.add_inode(record);
        }
    }

    /// Latches an inode if its latch is free. Returns whether this transaction now holds the latch.
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
        let realtime = RealtimeBlocks::default();
        let (dirty, leaving, charge) = (false, false, None);
        self.inodes.0.push(JoinedInode { record, dirty, leaving, charge, realtime });
    }

    /// Returns whether this transaction holds the inode.
    #[must_use]
    pub fn is_joined(&self, record: &Arc<InodeRecord>) -> bool {
        self.inodes.0.iter().any(|joined| Arc::ptr_eq(&joined.record, record))
    }

    /// Changes a joined inode. `fields` says which parts other than the core are changed. `view`
    /// returns the current image; it is called only if the record has no image.
    ///
    /// # Panics
    ///
    /// Panics if the inode is not joined.
    pub fn change_inode<R>(
        &mut self,
        record: &Arc<InodeRecord>,
        fields: LoggedFields,
        view: impl FnOnce() -> InodeImage,
        change: impl FnOnce(&mut InodeImage) -> R,
    ) -> R {
        let Some(joined) = self.inodes.find(record) else {
            unreachable!("inode {} changed without being joined (I2)", record.number())
        };
        joined.dirty = true;
        record.change(fields, view, change)
    }

    /// Replaces the whole image of a joined inode. `fields` says which parts other than the core
    /// the new image has.
    ///
    /// # Panics
    ///
    /// Panics if the inode is not joined.
    pub fn replace_inode(
        &mut self,
        record: &Arc<InodeRecord>,
        fields: LoggedFields,
        image: InodeImage,
    ) {
        let Some(joined) = self.inodes.find(record) else {
            unreachable!("inode {} replaced without being joined (I2)", record.number())
        };
        joined.dirty = true;
        record.replace(fields, image);
    }

    /// Returns whether the current transaction of the chain has changed the inode.
    #[must_use]
    pub fn has_changed(&self, record: &InodeRecord) -> bool {
        let is_it = |joined: &&JoinedInode| std::ptr::eq(Arc::as_ptr(&joined.record), record);
        self.inodes.0.iter().find(is_it).is_some_and(|joined| joined.dirty)
    }

    /// Unlatches an inode at the end of the current transaction of the chain, without logging it
    /// again. There are two cases:
    ///
    /// - The current transaction has freed the inode. The chain must not log the inode again: after
    ///   the current transaction, another one may free the inode's cluster. Recovery would then
    ///   write the inode into blocks that are used for something else.
    /// - The latch of the inode protects something else, and the inode is not changed. The next
    ///   transaction of the chain may join the inode again.
    ///
    /// # Panics
    ///
    /// Panics if the inode is not joined.
    pub fn leave(&mut self, record: &Arc<InodeRecord>) {
        match self.inodes.find(record) {
            Some(joined) => joined.leaving = true,
            None => unreachable!("inode {} left without being joined", record.number()),
        }
    }

    /// Unlatches an inode that the current transaction of the chain has joined and not changed: the
    /// transaction needed the latch for something else that it protects.
    ///
    /// # Panics
    ///
    /// Panics if the inode is not joined, or was changed.
    pub fn unjoin(&mut self, record: &Arc<InodeRecord>) {
        let is_it = |joined: &JoinedInode| Arc::ptr_eq(&joined.record, record);
        let index = self.inodes.0.iter().position(is_it);
        let joined = self.inodes.0.remove(index.expect("only a joined inode is released (I2)"));
        assert!(!joined.dirty, "a changed inode stays latched until it is in the log (I2)");
        record.latch().unlock_exclusive();
    }

    /// Logs that the blocks of an inode chunk have become inodes.
    pub fn log_inode_create(&mut self, create: &InodeCreate) {
        self.items.push(Arc::new(CreateItem::new(create)));
    }
}
