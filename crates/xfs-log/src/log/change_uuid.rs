//! Giving the volume another UUID while its log is open.
//!
//! Owns: the order of the steps. Does **not** own the other structures that hold the UUID.
//!
//! # Crash argument
//!
//! Every record carries the UUID of its volume, and recovery refuses records with another UUID. So
//! no record that has to be replayed may lie before the change. The log is idle. Before the change,
//! the log is ended like that of an unmounted volume: by a record without a UUID, which every
//! reader accepts for any volume. After that record, the log is as if the volume had been closed
//! and opened again: the tail is past that record ([`Ail::restart`](crate::ail::Ail::restart)).
//! Then the UUID changes, and another unmount record carries the new UUID. At whatever point the
//! power fails, the log is clean and fits the old UUID or the new one.

use xfs_buffer::Result;
use xfs_format::Uuid;

use super::{Log, UNMOUNT_BYTES};

impl Log {
    /// Calls `change` to give the volume another UUID, which later records carry. The caller has
    /// [suspended](Self::suspend) the log, and every item is at its home location on disk.
    ///
    /// # Errors
    ///
    /// Returns the error of `change`, or the error that stopped the log. The log is then shut down,
    /// and clean: whether the volume has the new UUID is unknown.
    ///
    /// # Panics
    ///
    /// Panics if an item is not at its home location on disk.
    pub fn change_uuid(&self, uuid: Uuid, change: impl FnOnce() -> Result<()>) -> Result<()> {
        let ended = self.end_with(Uuid::nil());
        let changed = ended.and_then(|()| change()).and_then(|()| self.end_with(uuid));
        changed.inspect_err(|_| self.inner.shut_down())
    }

    /// Ends the log with an unmount record that carries `uuid`, and restarts the log after that
    /// record.
    fn end_with(&self, uuid: Uuid) -> Result<()> {
        assert!(self.inner.cil.is_idle(), "the UUID of a log in use was changed");
        let ticket = self.reserve_while_suspended(UNMOUNT_BYTES)?;
        self.inner.writer.set_uuid(uuid);
        let written = self.inner.writer.write_unmount();
        let restarted = written.map(|record| self.inner.ail.restart(record.end));
        self.release(ticket);
        restarted
    }
}
