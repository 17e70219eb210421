//! A volume that stands still for a while, so that its device can be copied.
//!
//! Owns: who may change something and who waits, and the order in which the volume comes to rest. Does
//! **not** own what the journal does for that (`xfs-trans`).
//!
//! ```text
//!           gate closed               journal frozen
//!  thawed ──────────────► changing ──────────────────► frozen
//!    ▲     nobody is in      │      nothing is under     │
//!    │     an operation      │ failed way; log covered   │ thaw
//!    └───────────────────────┴───────────────────────────┘
//! ```
//!
//! **Two levels.** Every operation that changes something passes the gate before it takes any lock, and so
//! holds none while it waits, which a reader could need. Whatever begins a transaction besides (inodes
//! that are freed in the background, the upkeep of the log) waits in the journal. In between what
//! is buffered is written and what waits to be freed is freed: both need transactions.
//!
//! What must not wait, because it belongs to something that only reads (the time of an access, a handle
//! that is dropped), is left out or put off while the gate is closed.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use xfs_buffer::{PosixError, Result};
use xfs_format::Geometry;
use xfs_sync::{Gate, Inside, Mutex, Volume};
use xfs_trans::Journal;

use super::Parts;
use crate::kind::CachedInode;

/// Whether a volume stands still.
#[derive(Default)]
pub(crate) struct Freezer {
    gate: Gate,
    phase: Mutex<Phase, Volume>,
    /// Files by number whose end of writing was put off, each with a use, so that it stays in memory:
    /// nobody would know any more what was allocated ahead of it.
    put_off: Mutex<BTreeMap<u64, Arc<CachedInode>>, Volume>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Thawed,
    /// Coming to rest, or waking up.
    Changing,
    Frozen,
    /// At rest, while it gets more blocks.
    Growing,
    /// At rest, while it gets another UUID.
    Renaming,
}

/// What a volume is written with, for an operation under way: the volume is not frozen meanwhile.
pub(crate) struct Writer<'a> {
    parts: &'a Parts,
    _inside: Inside<'a>,
}

impl<'a> Writer<'a> {
    pub(crate) fn parts(&self) -> &'a Parts {
        self.parts
    }
}

impl Deref for Writer<'_> {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        self.parts
    }
}

impl Freezer {
    pub(crate) fn is_frozen(&self) -> bool {
        *self.phase.lock() == Phase::Frozen
    }

    fn change_phase(&self, from: Phase, to: Phase) -> bool {
        let mut phase = self.phase.lock();
        let is_so = *phase == from;
        if is_so {
            *phase = to;
        }
        is_so
    }
}

impl Parts {
    /// Begins an operation that changes something, and waits while the volume is frozen. To be called
    /// before any lock is taken, and not by who has a [`Writer`] already.
    #[doc(alias = "sb_start_write")]
    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer { parts: self, _inside: self.freezer.gate.enter() }
    }

    /// The same, unless the volume is frozen or about to be.
    #[doc(alias = "sb_start_write_trylock")]
    pub(crate) fn try_writer(&self) -> Option<Writer<'_>> {
        self.freezer.gate.try_enter().map(|inside| Writer { parts: self, _inside: inside })
    }

    /// Brings the volume to rest.
    ///
    /// # Errors
    ///
    /// EBUSY if it is already; what a flush met, or what stopped the log: then it goes on as before.
    pub(crate) fn freeze(&self) -> Result<()> {
        self.come_to_rest(Phase::Frozen)
    }

    /// Ends that.
    ///
    /// # Errors
    ///
    /// EINVAL if the volume is not frozen.
    pub(crate) fn thaw(&self) -> Result<()> {
        self.go_on(Phase::Frozen)
    }

    /// Gives the volume the blocks and groups of `geometry`, at rest.
    ///
    /// # Errors
    ///
    /// As [`freeze`](Self::freeze); what [`xfs_alloc::grow`] meets.
    pub(crate) fn grow(&self, geometry: &Geometry) -> Result<()> {
        self.at_rest(Phase::Growing, |journal| {
            let grown = xfs_alloc::grow(journal, geometry);
            self.inode_cache.extend_groups();
            grown
        })?
    }

    /// Does something while nothing is under way.
    pub(super) fn at_rest<T>(
        &self,
        phase: Phase,
        work: impl FnOnce(&Arc<Journal>) -> Result<T>,
    ) -> Result<T> {
        self.come_to_rest(phase)?;
        let done = work(&self.journal);
        let went_on = self.go_on(phase);
        done.and_then(|done| went_on.map(|()| done))
    }

    fn come_to_rest(&self, rest: Phase) -> Result<()> {
        if !self.freezer.change_phase(Phase::Thawed, Phase::Changing) {
            return Err(PosixError::Busy.into());
        }
        self.freezer.gate.close();
        // What has lost its name and its last user is freed before the journal rests.
        let _looks = self.unsettled.hold_looks();
        let frozen = self.write_back_all().and_then(|()| {
            self.inode_cache.drain();
            self.journal.freeze()
        });
        if frozen.is_ok() {
            self.freezer.change_phase(Phase::Changing, rest);
        } else {
            self.open_gate();
        }
        frozen
    }

    fn go_on(&self, rest: Phase) -> Result<()> {
        if !self.freezer.change_phase(rest, Phase::Changing) {
            return Err(PosixError::InvalidArgument.into());
        }
        self.journal.thaw();
        self.open_gate();
        Ok(())
    }

    fn open_gate(&self) {
        self.freezer.gate.open();
        self.freezer.change_phase(Phase::Changing, Phase::Thawed);
        self.end_put_off();
    }

    /// Leaves the end of writing to a file for when the volume is thawed. The caller uses the file.
    pub(crate) fn put_off_end(&self, entry: &Arc<CachedInode>) {
        self.freezer.put_off.lock().entry(entry.number().0).or_insert_with(|| {
            entry.share();
            Arc::clone(entry)
        });
        // Who has opened the gate meanwhile may have looked before.
        if self.try_writer().is_some() {
            self.end_put_off();
        }
    }

    /// Gives back what handles have left that were closed while the gate was.
    fn end_put_off(&self) {
        let put_off = std::mem::take(&mut *self.freezer.put_off.lock());
        for entry in put_off.into_values() {
            self.contents(&entry).end_writing();
            self.release(entry);
        }
    }
}
