//! Writes buffered bytes of all files to the device: on request, and by passes of the flusher.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_icache::{InodeWalk, WalkFilter};

use crate::contents::{Remaining, TryOrWait};
use crate::kind::CachedInode;
use crate::mount::Mount;

impl Mount {
    /// Writes the buffered bytes of every file to the device.
    ///
    /// # Errors
    ///
    /// Returns the first error of a file. All other files are written nevertheless.
    pub fn write_back_all(&self) -> Result<()> {
        let mut written = self.flusher.take_failure();
        self.for_each_unflushed(|entry| {
            let result = self.contents(entry).write_back();
            if written.is_ok() {
                written = result;
            }
        });
        written
    }

    /// Calls `f` with each file that has buffered bytes or preallocated blocks.
    pub(crate) fn for_each_unflushed(&self, f: impl FnMut(&Arc<CachedInode>)) {
        self.inode_cache.for_each_inode(WalkFilter::NeedsFlush, f);
    }

    /// Runs one pass of the flusher over all files. Forces the log if written bytes may not be
    /// durable yet. `before` is the work that the previous pass left. Returns the work that this
    /// pass leaves.
    pub fn flush_pass(&self, before: Remaining) -> Remaining {
        let _passing = self.flusher.hold_passes();
        let pass = self.flusher.begin_pass();
        let left = self.pass_over_all(pass.number, TryOrWait::Try);
        if pass.after_begin || before >= Remaining::Bytes {
            self.force();
        }
        if left < Remaining::Overdue {
            return left;
        }
        // Only now that everything else is durable: it may take long.
        let left = self.pass_over_all(pass.number, TryOrWait::Wait);
        self.force();
        left
    }

    fn pass_over_all(&self, number: u64, mode: TryOrWait) -> Remaining {
        let mut left = Remaining::Nothing;
        self.for_each_unflushed(|entry| {
            left = left.max(self.contents(entry).flush_pass(number, mode))
        });
        left
    }

    /// Forces the log for the flusher, which has no caller for an error. A failure shuts the volume
    /// down, so that the next operation fails.
    fn force(&self) {
        let _ = self.journal.force_all();
    }
}
