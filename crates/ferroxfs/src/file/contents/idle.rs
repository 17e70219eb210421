//! What is done for a file while nobody asks for it.
//!
//! Owns: when what is buffered goes to the device by itself, and when what is allocated ahead of the end is
//! given back. Does **not** own: how often that is looked at ([`unsettled`](crate::file::unsettled)).

use xfs_buffer::Result;

use super::{AHEAD, OpenContents, State};
use crate::file::unsettled::{FLUSH_LOOKS, WAIT_LOOKS};

/// What a look leaves of a file, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Left {
    #[default]
    Nothing,
    /// Blocks past the end.
    Ahead,
    /// Bytes in memory.
    Bytes,
    /// Bytes that should not be there any more: somebody works on the file.
    Overdue,
}

/// What a look does where somebody works on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// It passes over it.
    None,
    /// It waits for him, where the bytes are overdue.
    Waits,
}

impl OpenContents<'_> {
    /// Has the file looked at now and then.
    pub(super) fn note_unsettled(&self) {
        self.entry.set_unsettled(true);
        self.parts.unsettled.begin();
    }

    /// Writes what has been buffered for a while to the device, and gives back what is allocated ahead of a
    /// file that nobody has written to for long. `look` says how many looks there have been.
    pub(crate) fn look(&self, look: u64, patience: Patience) -> Left {
        let Some(contents) = self.entry.known_contents() else { return Left::Nothing };
        let Some(shown) = contents.shown() else { return self.look_ahead(look) };
        let age = look.saturating_sub(shown.begun);
        if age < FLUSH_LOOKS {
            return Left::Bytes;
        }
        let is_overdue = age >= WAIT_LOOKS;
        let state = match contents.state.try_write() {
            None if is_overdue && patience == Patience::Waits => Some(contents.state.write()),
            tried => tried,
        };
        let Some(mut state) = state else {
            return if is_overdue { Left::Overdue } else { Left::Bytes };
        };
        // Another buffer may have begun meanwhile.
        if state
            .buffered
            .as_deref()
            .is_some_and(|buffered| look.saturating_sub(buffered.begun) < FLUSH_LOOKS)
        {
            return Left::Bytes;
        }
        // Who asks for it next is told of a failure.
        let _ = self.flush(&mut state, 0);
        if self.has(AHEAD) { Left::Ahead } else { Left::Nothing }
    }

    /// Gives back what is allocated ahead, if it has been of no use for long.
    fn look_ahead(&self, look: u64) -> Left {
        if !self.has(AHEAD) {
            return Left::Nothing;
        }
        // While the volume is frozen nothing can be given back, and who would wait for that with the lock of
        // the contents would keep readers out.
        let Some(_writer) = self.parts.try_writer() else { return Left::Ahead };
        let Some(mut state) = self.contents().state.try_write() else { return Left::Ahead };
        if look.saturating_sub(state.written) < self.parts.unsettled.ahead_looks() {
            return Left::Ahead;
        }
        self.settle_and_trim(&mut state);
        Left::Nothing
    }

    /// Gives back what is set aside for the file and not needed at once, if nobody works on it.
    pub(crate) fn give_back(&self) {
        let Some(mut state) = self.contents().state.try_write() else { return };
        let _ = self.flush(&mut state, 0).and_then(|_| self.trim());
    }

    /// The end of an open for writing. With the last of them goes what is allocated ahead, or when a volume
    /// is thawed that is frozen just now.
    pub(crate) fn end_writing(&self) {
        if !self.has(AHEAD) || self.entry.locks().opens().writes > 0 {
            return;
        }
        let Some(_writer) = self.parts.try_writer() else {
            return self.parts.put_off_end(self.entry);
        };
        self.settle_and_trim(&mut self.contents().state.write());
    }

    /// Writes what is buffered, and frees blocks past the end. Nobody asks for it, so the volume keeps the
    /// error.
    fn settle_and_trim(&self, state: &mut State) {
        let trimmed = self.flush(state, 0).and_then(|_| self.trim());
        trimmed.unwrap_or_else(|error| self.parts.unsettled.fail(error));
    }

    /// Frees blocks past the end that nobody asked for.
    fn trim(&self) -> Result<()> {
        if !self.has(AHEAD) {
            return Ok(());
        }
        self.contents().mark(AHEAD, false);
        self.entry.set_unsettled(false);
        // What has no name any more loses them with everything else.
        if self.entry.core().nlink == 0 {
            return Ok(());
        }
        let blocks = self.blocks();
        let trimmed = self.entry.live().trim(&self.parts.journal);
        if self.blocks() != blocks {
            self.parts.unsettled.tell(self.entry.number());
        }
        trimmed
    }
}
