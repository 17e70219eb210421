//! Flushes buffered bytes in the background, and frees preallocated blocks that are no longer
//! needed (trimming).
//!
//! Owns: which buffered bytes a pass of the flusher writes, and when preallocated blocks are given
//! back. Does **not** own: how often passes run (`flusher`).

use xfs_buffer::Result;

use super::{AHEAD, BUFFERED, ContentsState, OpenContents};
use crate::flusher::{FLUSH_PASSES, WAIT_PASSES};

/// The work that is left in one file, or in all files, after a pass of the flusher. The variants
/// are in the order of urgency, the most urgent last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remaining {
    /// Nothing is left.
    #[default]
    Nothing,
    /// The file has preallocated blocks past its end, and no buffered bytes.
    Ahead,
    /// The file has buffered bytes.
    Bytes,
    /// The file has buffered bytes that were due in an earlier pass. Another thread holds the
    /// contents lock.
    Overdue,
}

/// How a pass of the flusher treats a file whose contents lock another thread holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryOrWait {
    /// The pass skips the file.
    Try,
    /// The pass waits for the lock if bytes of the file are overdue.
    Wait,
}

impl OpenContents<'_> {
    /// Returns whether bytes are buffered.
    #[must_use]
    pub fn is_buffered(&self) -> bool {
        self.has(BUFFERED)
    }

    /// Returns whether the file may have speculatively preallocated blocks.
    #[must_use]
    pub fn is_preallocated(&self) -> bool {
        self.has(AHEAD)
    }

    /// Marks the file in the inode cache as one with work for the flusher, whose next pass looks
    /// for such marks.
    pub(super) fn note_needs_flush(&self) {
        self.entry.set_needs_flush(true);
        self.mount.flusher.begin();
    }

    /// Flushes bytes that were buffered before the previous pass. If nothing is buffered, frees
    /// preallocated blocks if the file was not written to for
    /// [`preallocation_passes`](crate::Flusher::preallocation_passes) passes. `pass` is the number
    /// of this pass of the flusher. Returns the work that is left in this file.
    pub fn flush_pass(&self, pass: u64, mode: TryOrWait) -> Remaining {
        let Some(contents) = self.entry.known_contents() else { return Remaining::Nothing };
        let Some(shown) = contents.shown() else { return self.trim_idle(pass) };
        let age = pass.saturating_sub(shown.begun);
        if age < FLUSH_PASSES {
            return Remaining::Bytes;
        }
        let is_overdue = age >= WAIT_PASSES;
        let state = match contents.state.try_write() {
            None if is_overdue && mode == TryOrWait::Wait => Some(contents.state.write()),
            tried => tried,
        };
        let Some(mut state) = state else {
            return if is_overdue { Remaining::Overdue } else { Remaining::Bytes };
        };
        // Another buffer may have begun meanwhile.
        if state
            .buffered
            .as_deref()
            .is_some_and(|buffered| pass.saturating_sub(buffered.begun) < FLUSH_PASSES)
        {
            return Remaining::Bytes;
        }
        // The next sync of the file returns the error.
        let _ = self.flush(&mut state, 0);
        if self.has(AHEAD) { Remaining::Ahead } else { Remaining::Nothing }
    }

    /// Frees preallocated blocks if the file was not written to for
    /// [`preallocation_passes`](crate::Flusher::preallocation_passes) passes. Returns `Ahead` if
    /// such blocks are left. `pass` is the number of this pass of the flusher.
    fn trim_idle(&self, pass: u64) -> Remaining {
        if !self.has(AHEAD) {
            return Remaining::Nothing;
        }
        // A frozen volume can give nothing back. Waiting for the thaw with the contents lock would
        // block readers.
        let Some(_writer) = self.mount.try_write_guard() else { return Remaining::Ahead };
        let Some(mut state) = self.contents().state.try_write() else { return Remaining::Ahead };
        if pass.saturating_sub(state.written) < self.mount.flusher.preallocation_passes() {
            return Remaining::Ahead;
        }
        self.settle_and_trim(&mut state);
        Remaining::Nothing
    }

    /// Flushes buffered bytes and frees preallocated blocks, so that other files can have the
    /// space. Does nothing if another thread holds the contents lock.
    pub(crate) fn give_back(&self) {
        let Some(mut state) = self.contents().state.try_write() else { return };
        // The next sync of the file returns the error of the flush, but not that of the trim.
        if self.flush(&mut state, 0).is_ok() {
            self.trim().unwrap_or_else(|error| self.mount.flusher.fail(error));
        }
    }

    /// Frees the preallocated blocks of this file after a write to it was refused for lack of space
    /// or quota. The caller holds the contents lock, so [`give_back`](Self::give_back) skips this
    /// file. Returns whether the file had such blocks: if so, the write may succeed when it is
    /// tried again.
    pub(super) fn free_own_ahead(&self, state: &mut ContentsState) -> Result<bool> {
        if !self.has(AHEAD) {
            return Ok(false);
        }
        self.flush(state, 0)?;
        let before = self.blocks();
        self.trim()?;
        Ok(self.blocks() < before)
    }

    /// Called when an open of the file for writing ends. If no other one is left, frees
    /// preallocated blocks. On a frozen volume, the blocks are freed after the thaw.
    pub fn end_writing(&self) {
        if !self.has(AHEAD) || self.entry.locks().opens().writes > 0 {
            return;
        }
        let Some(_writer) = self.mount.try_write_guard() else {
            return self.mount.put_off_end(self.entry);
        };
        self.settle_and_trim(&mut self.contents().state.write());
    }

    /// Flushes buffered bytes, and frees preallocated blocks past the end of the file. If a step
    /// fails, the volume keeps the error for its next sync, because no caller waits for this work.
    fn settle_and_trim(&self, state: &mut ContentsState) {
        let trimmed = self.flush(state, 0).and_then(|_| self.trim());
        trimmed.unwrap_or_else(|error| self.mount.flusher.fail(error));
    }

    /// Frees preallocated blocks past the end of the file.
    fn trim(&self) -> Result<()> {
        if !self.has(AHEAD) {
            return Ok(());
        }
        self.contents().mark(AHEAD, false);
        self.entry.set_needs_flush(false);
        // An inode without a name loses these blocks when it is freed.
        if self.entry.core().nlink == 0 {
            return Ok(());
        }
        let blocks = self.blocks();
        let trimmed = self.entry.live().trim(&self.mount.journal);
        if self.blocks() != blocks {
            self.mount.flusher.notify_listener(self.entry.number());
        }
        trimmed
    }
}
