//! A log that goes on for a volume that gets another UUID.
//!
//! Owns: the order in which that happens. Does **not** own where else the UUID stands.
//!
//! # Crash argument
//!
//! Every record carries the UUID of its volume, and a recovery refuses records of another one. So no
//! record that has to be replayed may lie before the change: the log is at rest and ended like that of a
//! volume that is unmounted, by a record without a UUID, which every reader takes for that of any volume.
//! From there on it is as if the volume had been closed and opened again: the tail is behind that record
//! ([`Ail::restart`](crate::ail::Ail::restart)). Then the UUID changes, and another such record carries
//! the new one. Whenever the power goes, the log is clean and goes with the old UUID or with the new one.

use xfs_buffer::Result;
use xfs_format::Uuid;

use super::{Log, UNMOUNT_BYTES};

impl Log {
    /// Has `change` give the volume another UUID, which the records from then on carry. The caller has
    /// [suspended](Self::suspend) the log, and everything is in place.
    ///
    /// # Errors
    ///
    /// What `change` returns, or what stopped the log. It is shut down then, and clean: whether the volume
    /// has got the UUID is not known.
    ///
    /// # Panics
    ///
    /// If something is not in place.
    pub fn change_uuid(&self, uuid: Uuid, change: impl FnOnce() -> Result<()>) -> Result<()> {
        let ended = self.end_with(Uuid::nil());
        let changed = ended.and_then(|()| change()).and_then(|()| self.end_with(uuid));
        changed.inspect_err(|_| self.inner.shut_down())
    }

    /// Ends the log with a record of this UUID, and has it begin anew behind that.
    fn end_with(&self, uuid: Uuid) -> Result<()> {
        assert!(self.inner.cil.is_idle(), "a log in use");
        let ticket = self.reserve_while_suspended(UNMOUNT_BYTES)?;
        self.inner.writer.set_uuid(uuid);
        let written = self.inner.writer.write_unmount();
        let restarted = written.map(|record| self.inner.ail.restart(record.end));
        self.release(ticket);
        restarted
    }
}
