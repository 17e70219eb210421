//! A change of an attribute in several steps. Each step is one transaction in a chain of rolled
//! transactions.
//!
//! Owns: the steps, and the contents of a parent pointer's intent. Does **not** own the edits of a
//! step ([`AttributeChange`]).
//!
//! ```text
//!            ┌── no fork: make it ──┐  ┌── short, no room: move to a leaf ──┐
//!            ▼                      │  ▼                                    │
//!  Change ───┴──────────────────────┴──┴────────────────────────────────────┘
//!    │ └─ a long value ─► Map: one extent a step ─► Write: write it, then put ──► ─┤
//!    └─ put, exchange or take away ────────────────────────────────────────────► ─┤
//!                     done ◄── shrink ◄── Release: give back the old value's blocks
//! ```
//!
//! # Why a crash between two steps is harmless
//!
//! The one step that inserts, exchanges or removes the attribute is atomic. A crash before this
//! step leaves the fork in a larger form with the same contents, or leaves blocks that no attribute
//! names. A crash after this step leaves blocks that no attribute names. These blocks belong to the
//! fork and are freed with it. A parent pointer must follow its directory entry, so each step logs
//! an intent for the rest. Recovery runs the whole change again; steps that are already done then
//! change nothing.

use std::sync::Arc;

use xfs_buffer::{PosixError, Result};
use xfs_format::attr::leaf::is_local;
use xfs_format::attr::{AttrEntry, AttrFlags, AttrValue, Namespace, RemoteBlock};
use xfs_format::inode::{ForkKind, InodeCore};
use xfs_format::log_item::{AttrOperation, LogItemCheck};
use xfs_format::{Corruption, FileBlock, Geometry, Structure, StructureAddress};
use xfs_inode::{BlockRange, LiveInode};
use xfs_trans::{AttrPayload, Deferred, Finish, IntentPayload, Transaction};

use super::change::{AttributeChange, AttributeKey, ValueBlocks};
use super::remote;
use crate::store::live::LiveFork;
use crate::store::{ForkPlacement, ForkStore};

/// An attribute that owns its name and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedAttribute {
    pub(crate) namespace: Namespace,
    pub(crate) name: Box<[u8]>,
    pub(crate) value: Box<[u8]>,
}

impl OwnedAttribute {
    pub(crate) fn key(&self) -> AttributeKey<'_> {
        AttributeKey { namespace: self.namespace, name: &self.name, value: &self.value }
    }

    /// Returns the attribute as an entry that contains the value, even if the value will be remote.
    pub(crate) fn entry(&self) -> AttrEntry<'_> {
        let value = AttrValue::Local(&self.value);
        AttrEntry { namespace: self.namespace, name: &self.name, value }
    }
}

/// A change of the inode's core that is made in the same transaction as the change of an attribute.
pub(crate) type CoreChange = Box<dyn FnOnce(&mut InodeCore) + Send>;

/// The next step in the change of an attribute.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Change,
    /// The next step maps one extent of the value's blocks. The value's blocks start at file block
    /// `first`. The blocks in `rest` are not mapped yet. With one extent per step, the reservation
    /// of a step depends neither on the length of the value nor on the fragmentation of free space.
    Map {
        first: FileBlock,
        rest: BlockRange,
    },
    /// The next step writes the value to its blocks, which start at this file block and are mapped,
    /// and sets the attribute.
    Write(FileBlock),
    /// The next step frees these blocks of an old value, which no attribute names any more.
    Release(BlockRange),
}

/// The deferred work of changing an attribute.
pub(crate) struct AttributeWork {
    file: Arc<LiveInode>,
    /// The attribute to remove if it exists; `None` to remove nothing.
    old: Option<OwnedAttribute>,
    /// The attribute to insert; `None` to insert nothing.
    new: Option<OwnedAttribute>,
    /// The change of the inode's core to make in the step that inserts, exchanges or removes the
    /// attribute. After a crash either both changes are present or neither is.
    along: Option<CoreChange>,
    stage: Stage,
}

impl AttributeWork {
    /// Creates work that removes `old`, if it exists, and inserts `new`.
    pub(crate) fn new(
        file: &Arc<LiveInode>,
        old: Option<OwnedAttribute>,
        new: Option<OwnedAttribute>,
    ) -> Box<Self> {
        Box::new(Self { file: Arc::clone(file), old, new, along: None, stage: Stage::Change })
    }

    /// Adds a change of the inode's core to the work. The transaction that changes the attribute
    /// makes this change too.
    pub(crate) fn along(mut self: Box<Self>, change: CoreChange) -> Box<Self> {
        self.along = Some(change);
        self
    }

    /// Does the first step of the change in this transaction. Defers the other steps to later
    /// transactions of the chain.
    pub(crate) fn begin(self: Box<Self>, tx: &mut Transaction<'_>) -> Result<()> {
        if let Finish::Again(rest) = self.finish(tx)? {
            tx.defer(rest);
        }
        Ok(())
    }

    /// Inserts the new attribute into an inode that is being created, if the attribute fits in the
    /// inode. Otherwise defers all of the work, because this transaction has reserved log space
    /// only for creating the inode.
    pub(crate) fn begin_on_new(self: Box<Self>, tx: &mut Transaction<'_>) -> Result<()> {
        let mut store = LiveFork::new(tx, &self.file, ForkKind::Attr);
        store.note_attributes()?;
        let new = self.new.as_ref().map(OwnedAttribute::entry);
        if !AttributeChange::new(&mut store).change_short(None, new.as_ref())? {
            tx.defer(self);
        }
        Ok(())
    }

    fn again(mut self: Box<Self>, stage: Stage) -> Finish {
        self.stage = stage;
        Finish::Again(self)
    }

    /// Applies the change of the inode's core, if there is one. Called in the transaction that
    /// changes the attribute.
    fn change_core(&mut self, store: &mut LiveFork<'_, '_>) {
        if let Some(change) = self.along.take() {
            store.change_core(change);
        }
    }

    fn change(
        mut self: Box<Self>,
        tx: &mut Transaction<'_>,
        written: Option<FileBlock>,
    ) -> Result<Finish> {
        let file = Arc::clone(&self.file);
        let mut store = LiveFork::new(tx, &file, ForkKind::Attr);
        let contents = store.contents()?;
        if self.new.is_some() && matches!(contents, ForkPlacement::Absent | ForkPlacement::NoBlocks)
        {
            store.note_attributes()?;
        }
        match (contents, &self.new) {
            (ForkPlacement::Absent | ForkPlacement::NoBlocks, None) => {
                self.change_core(&mut store);
                Ok(Finish::Done)
            }
            (ForkPlacement::Absent, Some(new)) => {
                store.make_fork(SHORT_HEADER + SHORT_ENTRY + new.name.len() + new.value.len())?;
                Ok(self.again(Stage::Change))
            }
            (ForkPlacement::Inline(_) | ForkPlacement::NoBlocks, new) => {
                let mut change = AttributeChange::new(&mut store);
                let (old, new) = (self.old.as_ref(), new.as_ref());
                let old = old.map(OwnedAttribute::key);
                if change.change_short(old.as_ref(), new.map(OwnedAttribute::entry).as_ref())? {
                    self.change_core(&mut store);
                    return Ok(Finish::Done);
                }
                change.short_to_leaf()?;
                Ok(self.again(Stage::Change))
            }
            (ForkPlacement::Blocks, _) => self.change_leaves(&mut store, written),
        }
    }

    fn change_leaves(
        mut self: Box<Self>,
        store: &mut LiveFork<'_, '_>,
        written: Option<FileBlock>,
    ) -> Result<Finish> {
        let block_size = store.geometry().block_size;
        let Some(new) = self.new.clone() else {
            let mut change = AttributeChange::new(store);
            let old = self.old.as_ref().map(OwnedAttribute::key);
            let found = old.map_or(Ok(None), |old| change.remove(&old))?;
            self.change_core(store);
            let mut change = AttributeChange::new(store);
            return match found.and_then(|found| found.run) {
                Some(run) => Ok(self.again(release(run, store.geometry()))),
                None => change.shrink().map(|()| Finish::Done),
            };
        };
        let mut change = AttributeChange::new(store);
        if new.namespace == Namespace::Parent {
            // The new pointer has another hash and perhaps another leaf, so it takes a step of its
            // own. It exists already if recovery repeats a change after a crash.
            if let Some(old) = self.old.take() {
                change.remove(&old.key())?;
                change.shrink()?;
                return Ok(self.again(Stage::Change));
            }
            if change.find(&new.key())?.is_some() {
                return Ok(Finish::Done);
            }
        }
        let length_bytes = new.value.len() as u32;
        let is_local = is_local(new.name.len(), new.value.len(), block_size as usize);
        let value = match written {
            _ if is_local => AttrValue::Local(&new.value),
            Some(first_block) => AttrValue::Remote { first_block, length_bytes },
            None => {
                let blocks = value_blocks(store.geometry(), length_bytes);
                let first = store.first_unused(FileBlock(0), blocks)?;
                let hole = BlockRange { start: first, length_blocks: blocks.into() };
                return self.map(store, hole, first);
            }
        };
        let entry = AttrEntry { value, ..new.entry() };
        let old = self.old.as_ref().map(OwnedAttribute::key);
        let released = change.exchange(old.as_ref(), &entry)?;
        let is_exchange = old.is_some();
        self.change_core(store);
        match released {
            Some(run) => Ok(self.again(release(run, store.geometry()))),
            // The replacement may be shorter.
            None if is_exchange => AttributeChange::new(store).shrink().map(|()| Finish::Done),
            None => Ok(Finish::Done),
        }
    }

    /// Allocates and maps the next extent of the value's blocks, at the start of `hole`. The blocks
    /// of the value start at file block `first`.
    fn map(
        self: Box<Self>,
        store: &mut LiveFork<'_, '_>,
        hole: BlockRange,
        first: FileBlock,
    ) -> Result<Finish> {
        let rest = store.map_head(hole)?;
        let stage = match rest.is_empty() {
            true => Stage::Write(first),
            false => Stage::Map { first, rest },
        };
        Ok(self.again(stage))
    }

    /// Frees blocks of a value that no attribute names any more (I2 of `attributes::change`: blocks
    /// are freed after the attribute is gone).
    fn release(self: Box<Self>, tx: &mut Transaction<'_>, range: BlockRange) -> Result<Finish> {
        // I2 of `xfs_dir::attributes::change`: the attribute is gone, and the blocks follow.
        if let Some(rest) = self.file.unmap(tx, ForkKind::Attr, range)? {
            return Ok(self.again(Stage::Release(rest)));
        }
        let mut store = LiveFork::new(tx, &self.file, ForkKind::Attr);
        AttributeChange::new(&mut store).shrink()?;
        Ok(Finish::Done)
    }
}

/// Number of bytes in the header of the short form.
const SHORT_HEADER: usize = 4;
/// Number of bytes in the header of one entry of the short form.
const SHORT_ENTRY: usize = 3;

fn release(run: ValueBlocks, geometry: &Geometry) -> Stage {
    let length_blocks = value_blocks(geometry, run.length_bytes).into();
    Stage::Release(BlockRange { start: run.first, length_blocks })
}

/// Returns the number of blocks that a remote value of `length_bytes` bytes takes.
pub(crate) fn value_blocks(geometry: &Geometry, length_bytes: u32) -> u32 {
    length_bytes.div_ceil(RemoteBlock::capacity(geometry))
}

impl Deferred for AttributeWork {
    /// Returns the payload of the intent; `None` for work without an intent. Only changes of parent
    /// pointers have intents: the change of the directory entry is in the log already, and the
    /// parent pointer must follow.
    fn intent_payload(&self) -> Option<IntentPayload> {
        let sets = |attribute: &OwnedAttribute| attribute.namespace == Namespace::Parent;
        let (old, new) = (self.old.as_ref(), self.new.as_ref());
        let is_parent = old.or(new).is_some_and(sets);
        if !is_parent || matches!(self.stage, Stage::Release(_)) {
            return None;
        }
        let (operation, attribute, replaced_by) = match (old, new) {
            (None, None) => return None,
            (None, Some(new)) => (AttrOperation::ParentSet, new, None),
            (Some(old), None) => (AttrOperation::ParentRemove, old, None),
            (Some(old), Some(new)) => (AttrOperation::ParentReplace, old, Some(new)),
        };
        Some(IntentPayload::Attr(Box::new(AttrPayload {
            inode: self.file.number(),
            generation: self.file.inode().core().generation,
            operation,
            filter: Namespace::Parent.flags().bits().into(),
            name: attribute.name.to_vec(),
            new_name: replaced_by.map(|new| new.name.to_vec()),
            value: attribute.value.to_vec(),
            new_value: replaced_by.map(|new| new.value.to_vec()),
        })))
    }

    fn finish(self: Box<Self>, tx: &mut Transaction<'_>) -> Result<Finish> {
        tx.join(self.file.log_item());
        match self.stage {
            Stage::Change => self.change(tx, None),
            Stage::Map { first, rest } => {
                let file = Arc::clone(&self.file);
                self.map(&mut LiveFork::new(tx, &file, ForkKind::Attr), rest, first)
            }
            Stage::Write(first) => {
                let new = self.new.as_ref().expect("blocks are mapped for a new value only");
                // I1 of the changes: before the transaction step that names the value.
                remote::write(tx.cache(), &self.file, first, &new.value)?;
                self.change(tx, Some(first))
            }
            Stage::Release(range) => self.release(tx, range),
        }
    }
}

/// Returns the work of an attribute intent that a crash has left open. `file` is the inode that the
/// intent names.
///
/// # Errors
///
/// Returns [`PosixError::Stale`] if the intent is about an earlier file with this inode number, and
/// a corruption if the intent names no namespace, or more than one.
///
/// # Panics
///
/// Panics if `file` is not the inode that the intent names.
pub fn resume_attribute(file: &Arc<LiveInode>, promise: &AttrPayload) -> Result<Box<dyn Deferred>> {
    let AttrPayload { operation, filter, name, new_name, value, new_value, .. } = promise;
    let generation = file.inode().core().generation;
    let is_same = !operation.is_parent() || generation == promise.generation;
    assert!(file.number() == promise.inode, "the file was loaded by the number in the intent");
    if !is_same {
        return Err(PosixError::Stale.into());
    }
    let flags = u8::try_from(*filter).ok().and_then(AttrFlags::from_bits);
    let namespace = flags.and_then(Namespace::from_flags).ok_or_else(|| {
        let check = LogItemCheck::AttrFilter { filter: *filter };
        Corruption::new(Structure::LogRecord, StructureAddress::Inode(promise.inode), check)
    })?;
    let attribute = |name: &[u8], value: &[u8]| {
        Some(OwnedAttribute { namespace, name: name.into(), value: value.into() })
    };
    let (old, new) = match operation {
        AttrOperation::ParentSet => (None, attribute(name, value)),
        AttrOperation::ParentReplace => {
            let new = new_name.as_deref().zip(new_value.as_deref());
            (attribute(name, value), new.and_then(|(name, value)| attribute(name, value)))
        }
        AttrOperation::Set | AttrOperation::Replace => {
            (attribute(name, &[]), attribute(name, value))
        }
        AttrOperation::Remove | AttrOperation::ParentRemove => (attribute(name, value), None),
    };
    Ok(AttributeWork::new(file, old, new))
}
