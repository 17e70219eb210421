//! Writes closed records, in the order in which they may reach the device.
//!
//! Owns: fixing the length, the position and the tail of a record, and the waits, flushes and
//! writes that invariants I1, I2, I4 and I6 of the [writer](super) need. Does **not** own the bytes
//! of a record ([`record`](super::record)).
//!
//! A closed record waits only for records with lower numbers. A thread that has several closed
//! records writes them in the order of their numbers, and waits for nothing else meanwhile. So no
//! two threads wait for each other.

use xfs_buffer::{Error, IoError, Result};
use xfs_device::Durability;
use xfs_format::{DiskAddr, Lsn, Uuid};
use xfs_sync::MutexGuard;

use super::record::OpenRecord;
use super::{Writer, WriterState};
use crate::ail::CommitRecord;
use crate::mutant::mutate;
use crate::state::START;

/// The first cycle of a log. Before this cycle is written, the log is all zeros.
const FIRST_CYCLE: u32 = START.cycle();

/// A closed record. The thread that closed it must write it.
#[must_use = "a record that is never written stops all later ones"]
pub(crate) struct ClosedRecord {
    number: u64,
    pub(super) record: OpenRecord,
    tail: Lsn,
    end: Lsn,
    previous_block: u32,
    uuid: Uuid,
    /// Whether all earlier records must be durable before this record is written, and this record
    /// must be durable when its write returns. The field is `true` for a record with COMMIT (I1),
    /// and for the last record of the first cycle (I6).
    durable: bool,
    /// Whether this record is of the second cycle, and some records of the first cycle were not
    /// written yet when this record was closed. If so, this record must be written after those of
    /// the first cycle (I6).
    awaits_first_cycle: bool,
    /// Whether the devices must be flushed before the record is written. The flush makes durable
    /// the items that the tail has passed, and also earlier records if `durable` is `true`.
    must_flush: bool,
}

impl ClosedRecord {
    /// Returns the LSN at which the record starts, and the LSN at which the next record starts.
    pub(crate) const fn span(&self) -> CommitRecord {
        CommitRecord { start: self.record.lsn, end: self.end }
    }
}

impl WriterState {
    /// Returns whether a record of the first cycle is closed and not yet written.
    fn is_first_cycle_open(&self) -> bool {
        self.closed.first_key_value().is_some_and(|(_, lsn)| lsn.cycle() == FIRST_CYCLE)
    }

    /// Asserts I6 after the record at `lsn` has been written.
    ///
    /// # Panics
    ///
    /// Panics if the record is of the second cycle and one of the first is still to be written.
    fn assert_cycles_in_turn(&self, lsn: Lsn) {
        let is_in_turn = lsn.cycle() == FIRST_CYCLE || !self.is_first_cycle_open();
        assert!(is_in_turn, "the record at {lsn} was written before the first cycle ended (I6)");
    }
}

impl Writer {
    /// Closes a record: fixes its length, and with it the LSN of the next record. `more` is the
    /// number of bytes of the record that are still missing. The calling thread must fill them in
    /// before it writes the record. `has_commit` is `true` if the record contains a COMMIT.
    pub(super) fn close(
        &self,
        state: &mut WriterState,
        mut record: OpenRecord,
        more: usize,
        has_commit: bool,
    ) -> ClosedRecord {
        let end = record.close(more, &self.layout, self.log.length_blocks());
        let ends_first_cycle = record.lsn.cycle() == FIRST_CYCLE && end.cycle() != FIRST_CYCLE;
        let durable =
            has_commit || mutate!(self.mutant, Mutant::FirstCycleCached, ends_first_cycle, false);
        let awaits_first_cycle = record.lsn.cycle() != FIRST_CYCLE && state.is_first_cycle_open();
        let (number, previous_block, uuid) = (state.number, state.previous_block, state.uuid);
        state.number += 1;
        state.next = end;
        state.previous_block = record.lsn.block();
        state.closed.insert(number, record.lsn);
        let tail = self.ail.tail();
        debug_assert!(tail >= state.flushed_tail, "the tail {tail} has moved back (I3)");
        let must_flush = durable || tail > state.flushed_tail;
        ClosedRecord {
            number,
            record,
            tail,
            end,
            previous_block,
            uuid,
            durable,
            awaits_first_cycle,
            must_flush,
        }
    }

    /// Writes a closed record. When this function returns, a record with COMMIT is durable, and so
    /// are all earlier records (I1).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`append`](Self::append).
    pub(crate) fn write(&self, closed: ClosedRecord) -> Result<()> {
        self.write_and_lock(closed).1
    }

    /// Writes a closed record as [`write`](Self::write) does. Returns the locked state and the
    /// result.
    pub(super) fn write_and_lock(
        &self,
        mut closed: ClosedRecord,
    ) -> (MutexGuard<'_, WriterState>, Result<()>) {
        let result = self.write_in_turn(&mut closed);
        if result.is_err() {
            // Later records find the log down and are not written (I4).
            self.health.set_down();
        }
        let mut state = self.state.lock();
        let removed = state.closed.remove(&closed.number);
        assert!(removed.is_some(), "record {} was written twice", closed.number);
        if result.is_ok() {
            let lsn = closed.record.lsn;
            mutate!(self.mutant, Mutant::SecondCycleEarly, state.assert_cycles_in_turn(lsn), {});
        }
        let bytes = closed.record.into_bytes();
        state.written.records += 1;
        state.written.bytes += bytes.len() as u64;
        state.free.push(bytes);
        self.changed.notify_all();
        (state, result)
    }

    fn write_in_turn(&self, closed: &mut ClosedRecord) -> Result<()> {
        self.await_earlier(closed)?;
        self.health.check()?;
        if mutate!(self.mutant, Mutant::NoPreflush, closed.must_flush, false) {
            self.flush(closed.record.lsn)?;
            let mut state = self.state.lock();
            state.flushed_tail = state.flushed_tail.max(closed.tail);
        }
        closed.record.pad(&self.layout);
        let header = closed.record.header(closed.uuid, closed.tail, closed.previous_block);
        let bytes = closed.record.bytes_mut();
        header.encode(bytes, self.log.length_blocks());
        // The part of a durable record that precedes the end of the log is durable before the rest
        // is written (I6).
        let durability = if closed.durable { Durability::Durable } else { Durability::Cached };
        self.log.write_blocks(header.lsn.block(), bytes, durability)
    }

    /// Waits until all earlier records that must precede this one on the device have been written.
    fn await_earlier(&self, closed: &ClosedRecord) -> Result<()> {
        let awaits_all = mutate!(self.mutant, Mutant::CommitBeforeRecords, closed.durable, false);
        let awaits_first =
            mutate!(self.mutant, Mutant::SecondCycleEarly, closed.awaits_first_cycle, false);
        if !awaits_all && !awaits_first {
            return Ok(());
        }
        let mut state = self.state.lock();
        while (awaits_all && state.closed.range(..closed.number).next().is_some())
            || (awaits_first && state.is_first_cycle_open())
        {
            self.health.check()?;
            self.changed.wait(&mut state);
        }
        Ok(())
    }

    /// Makes all earlier writes durable, on the devices of metadata and file data and on that of
    /// the log. `at` is the LSN to name in an error.
    fn flush(&self, at: Lsn) -> Result<()> {
        let at = DiskAddr(self.log.geometry().start.0 + u64::from(at.block()));
        if let Some(data) = &self.data {
            data.flush().map_err(|source| flush_failed(at, source))?;
        }
        self.log.flush().map_err(|source| flush_failed(at, source))
    }

    /// Makes all earlier writes to the devices of metadata and file data durable. An internal log
    /// is on the device of metadata.
    pub(crate) fn flush_device(&self) -> Result<()> {
        let other = self.data.as_ref().map_or(Ok(()), |data| data.flush());
        let is_internal = self.log.geometry().start != DiskAddr(0);
        let flushed = other.and_then(|()| if is_internal { self.log.flush() } else { Ok(()) });
        flushed.map_err(|source| flush_failed(DiskAddr(0), source))
    }
}

fn flush_failed(at: DiskAddr, source: std::io::Error) -> Error {
    Error::Io(IoError::new("flush", at, 0, source))
}
