//! Attempts: the changes of one object, which are taken back together if the volume has too few
//! free blocks for them.
//!
//! Owns: the journal of an attempt. Does **not** own: which changes belong together (the rules).
//!
//! Most objects of a volume with few free blocks can still be repaired, because their repair needs
//! no block. So if an object needs more blocks than are free, the repair leaves the object and its
//! findings as they are, and the rules continue with the next object.

use std::collections::BTreeSet;

use xfs_format::{AgNumber, DiskAddr};

use super::Patient;
use crate::error::RepairError;

/// The changes since the start of an attempt.
#[derive(Debug, Default)]
pub(super) struct AttemptRecord {
    /// For each write, the bytes that it has overwritten.
    writes: Vec<OldBytes>,
    /// The blocks that the attempt has taken.
    taken: Vec<(AgNumber, u32)>,
    /// The groups that the attempt has marked for a rebuild. `true` stands for a rebuild of the
    /// inode btrees, `false` for one of the space btrees.
    marks: Vec<(AgNumber, bool)>,
    /// The number of actions in the plan at the start of the attempt.
    actions: usize,
    /// The groups from which blocks had been taken blindly at the start of the attempt. If the
    /// attempt is undone, the plan must not name losses of its blocks.
    taken_blindly: BTreeSet<AgNumber>,
}

#[derive(Debug)]
struct OldBytes {
    at: DiskAddr,
    bytes: Vec<u8>,
}

impl Patient<'_> {
    /// Calls `change` to make the changes of one object. If they need more blocks than are free,
    /// undoes all these changes and returns `false`. `change` must take all its blocks before it
    /// sets the chunks of a group.
    ///
    /// # Errors
    ///
    /// The errors of `change`, except [`RepairError::NoSpace`], and those of the overlay.
    ///
    /// # Panics
    ///
    /// Panics if `change` starts an attempt of its own.
    pub(crate) fn attempt(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<(), RepairError>,
    ) -> Result<bool, RepairError> {
        assert!(self.journal.is_none(), "attempts are not nested");
        let (actions, taken_blindly) = (self.actions.len(), self.taken_blindly.clone());
        self.journal = Some(AttemptRecord { actions, taken_blindly, ..AttemptRecord::default() });
        let changed = change(self);
        let journal = self.journal.take().expect("the attempt has started it");
        match changed {
            Ok(()) => Ok(true),
            Err(RepairError::NoSpace { .. }) => self.take_back(journal).map(|()| false),
            Err(error) => Err(error),
        }
    }

    fn take_back(&mut self, journal: AttemptRecord) -> Result<(), RepairError> {
        for old in journal.writes.iter().rev() {
            self.write(old.at, &old.bytes)?;
        }
        for (group, is_inodes) in journal.marks {
            match is_inodes {
                true => self.marked_inodes.remove(&group),
                false => self.marked.remove(&group),
            };
        }
        self.actions.truncate(journal.actions);
        self.taken_blindly = journal.taken_blindly;
        let Some(free) = &mut self.free else { return Ok(()) };
        for (group, block) in journal.taken {
            free.entry(group).or_default().push((block, block + 1));
        }
        for runs in free.values_mut() {
            runs.sort_unstable();
            runs.dedup_by(|next, last| {
                let touches = last.1 == next.0;
                if touches {
                    last.1 = next.1;
                }
                touches
            });
        }
        Ok(())
    }

    /// Records in the journal the `length` bytes at `at` before they are overwritten, so that the
    /// write can be undone.
    pub(super) fn note_write(&mut self, at: DiskAddr, length: usize) -> Result<(), RepairError> {
        if self.journal.is_none() {
            return Ok(());
        }
        let mut bytes = vec![0; length];
        self.read(at, &mut bytes)?;
        let journal = self.journal.as_mut().expect("an attempt has its journal");
        journal.writes.push(OldBytes { at, bytes });
        Ok(())
    }

    /// Records in the journal that a group was marked for a rebuild and did not have this mark
    /// before. If `is_inodes` is `true`, the mark is for the inode btrees, and otherwise for the
    /// space btrees.
    pub(super) fn note_mark(&mut self, group: AgNumber, is_inodes: bool) {
        if let Some(journal) = &mut self.journal {
            journal.marks.push((group, is_inodes));
        }
    }

    /// Records in the journal that blocks of a group were taken from the free blocks.
    pub(super) fn note_taken(&mut self, group: AgNumber, blocks: &[u32]) {
        if let Some(journal) = &mut self.journal {
            journal.taken.extend(blocks.iter().map(|block| (group, *block)));
        }
    }
}

#[cfg(test)]
mod tests;
