//! Freezing a volume, so that its device can be copied.
//!
//! Owns: which operations proceed and which wait, and the order in which the volume comes to rest.
//! Does **not** own how the journal rests (`xfs-trans`).
//!
//! ```text
//!           gate closed               journal frozen
//!  thawed ──────────────► changing ──────────────────► frozen
//!    ▲     no operation      │      no transaction is    │
//!    │     is inside         │ failed open; log covered  │ thaw
//!    └───────────────────────┴───────────────────────────┘
//! ```
//!
//! **Two levels.** Every operation that changes something passes the gate before it takes any lock.
//! An operation that waits at the gate therefore holds no lock that a reader could need. Other
//! transactions (inodes that are freed in the background, the upkeep of the log) wait in the
//! journal. Buffered bytes are written and inodes are freed after the gate is closed and before the
//! journal is frozen, because both need transactions.
//!
//! A reader must not wait for the thaw. While the gate is closed, a reader does not note the time
//! of its access. A dropped handle puts off its end of writing until the thaw.

mod freezer;

use std::sync::Arc;

use xfs_buffer::{PosixError, Result};
use xfs_format::Geometry;
use xfs_sync::GateGuard;
use xfs_trans::Journal;

use crate::kind::{CacheRef, CachedInode};
use crate::mount::Mount;
pub(crate) use freezer::{FreezePhase, Freezer};

/// Permission to change the volume. While such a guard exists, a freeze waits.
pub struct WriteGuard<'a> {
    mount: &'a Mount,
    _inside: GateGuard<'a>,
}

impl<'a> WriteGuard<'a> {
    /// Returns the mount.
    #[inline]
    #[must_use]
    pub fn mount(&self) -> &'a Mount {
        self.mount
    }
}

impl Mount {
    /// Begins an operation that changes something, and waits while the volume is frozen. The caller
    /// must hold no lock and no other [`WriteGuard`].
    #[doc(alias = "sb_start_write")]
    pub fn write_guard(&self) -> WriteGuard<'_> {
        WriteGuard { mount: self, _inside: self.freezer.gate.enter() }
    }

    /// Begins an operation as [`write_guard`](Self::write_guard) does, but does not wait. Returns
    /// `None` if the volume is frozen or is being frozen.
    #[doc(alias = "sb_start_write_trylock")]
    pub fn try_write_guard(&self) -> Option<WriteGuard<'_>> {
        self.freezer.gate.try_enter().map(|inside| WriteGuard { mount: self, _inside: inside })
    }

    /// Freezes the volume. If an error is returned, the volume is not frozen.
    ///
    /// # Errors
    ///
    /// Returns EBUSY if the volume is frozen already; the error of a flush, or of the log.
    pub fn freeze(&self) -> Result<()> {
        self.come_to_rest(FreezePhase::Frozen)
    }

    /// Thaws the volume: waiting operations proceed.
    ///
    /// # Errors
    ///
    /// Returns EINVAL if the volume is not frozen.
    pub fn thaw(&self) -> Result<()> {
        self.end_rest(FreezePhase::Frozen)
    }

    /// Grows the volume to the blocks and allocation groups of `geometry`, while it is frozen.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`freeze`](Self::freeze) and of [`xfs_alloc::grow`].
    pub fn grow(&self, geometry: &Geometry) -> Result<()> {
        self.at_rest(FreezePhase::Growing, |journal| {
            let grown = xfs_alloc::grow(journal, geometry);
            self.inode_cache.extend_groups();
            grown
        })?
    }

    /// Freezes the volume, runs `work`, and thaws the volume. `phase` says for which purpose the
    /// volume is frozen. Calls of [`thaw`](Self::thaw) do not end such a freeze.
    pub(crate) fn at_rest<T>(
        &self,
        phase: FreezePhase,
        work: impl FnOnce(&Arc<Journal>) -> Result<T>,
    ) -> Result<T> {
        self.come_to_rest(phase)?;
        let done = work(&self.journal);
        let ended = self.end_rest(phase);
        done.and_then(|done| ended.map(|()| done))
    }

    fn come_to_rest(&self, rest: FreezePhase) -> Result<()> {
        if !self.freezer.change_phase(FreezePhase::Thawed, FreezePhase::Changing) {
            return Err(PosixError::Busy.into());
        }
        self.freezer.gate.close();
        // Inodes without a name and a reference are freed before the journal rests.
        let _passes = self.flusher.hold_passes();
        let frozen = self.write_back_all().and_then(|()| {
            self.inode_cache.drain();
            self.journal.freeze()
        });
        if frozen.is_ok() {
            self.freezer.change_phase(FreezePhase::Changing, rest);
        } else {
            self.open_gate();
        }
        frozen
    }

    fn end_rest(&self, rest: FreezePhase) -> Result<()> {
        if !self.freezer.change_phase(rest, FreezePhase::Changing) {
            return Err(PosixError::InvalidArgument.into());
        }
        self.journal.thaw();
        self.open_gate();
        Ok(())
    }

    fn open_gate(&self) {
        self.freezer.gate.open();
        self.freezer.change_phase(FreezePhase::Changing, FreezePhase::Thawed);
        self.end_put_off();
    }

    /// Puts off the freeing of a file's preallocated blocks until the volume is thawed. Called at
    /// the end of an open for writing, which would free these blocks at once if the volume were not
    /// frozen. The caller holds a reference to the file.
    pub(crate) fn put_off_end(&self, entry: &Arc<CachedInode>) {
        let hold = || CacheRef::of_referenced(&self.inode_cache, entry).store();
        self.freezer.put_off.lock().entry(entry.number().0).or_insert_with(hold);
        // A thread that opened the gate meanwhile may have read the map before this file was added.
        if self.try_write_guard().is_some() {
            self.end_put_off();
        }
    }

    /// Frees, after a thaw, the preallocated blocks that were to be freed while the volume was
    /// frozen.
    fn end_put_off(&self) {
        let put_off = std::mem::take(&mut *self.freezer.put_off.lock());
        for stored in put_off.into_values() {
            let entry = CacheRef::restore(&self.inode_cache, stored);
            self.contents(&entry).end_writing();
        }
    }
}
