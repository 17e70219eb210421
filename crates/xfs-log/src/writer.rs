//! Writing records: from operations to the device.
//!
//! Owns: the in-core log buffers, the place of the next record, record headers, padding, flushes and
//! their order. Does **not** own what the operations say, in which order checkpoints come
//! ([`cil`](crate::cil)), or the tail ([`ail`](crate::ail)).
//!
//! ```text
//!             append                 no room left, or COMMIT              write
//!  free ───────────────► active ────────────────────────────► closed ──────────────► free
//!                     (one at most)                 (length, place and tail fixed)
//! ```
//!
//! Who closes a record fills it, without the lock, and writes it: there is no thread here, and never a
//! closed record that waits for somebody who waits for it. A checkpoint that fills the active record
//! finds out by lengths where it will end, closes it before anything is copied, and leaves the next
//! one to whoever comes. So large checkpoints that are written at once copy at once. What does not fill
//! a record is copied under the lock: it is less than one for each checkpoint.
//!
//! # Invariants
//!
//! - **I1** A record with COMMIT is written after all earlier records are durable: they have been
//!   written, then a flush, then this one, durable by itself (FUA).
//! - **I2** A tail stands in a record only if a flush has begun after that tail was reached: what it
//!   leaves behind is durable in place.
//! - **I3** Tails do not go back from one record to the next, since they are read when a record is
//!   closed, under the lock that gives it its place.
//! - **I4** After a write or a flush that failed nothing is written any more.
//! - **I5** A region that does not fit a record goes on with the first operation of the next record.
//!   The format does not ask for it, but readers are simpler than writers: `xfs_logprint` loses its
//!   place where three records hold the pieces of a region and those of another checkpoint lie between.
//!
//! # Crash
//!
//! Records without COMMIT may land in any order, with holes: recovery ends at the first hole, and
//! nothing behind it was promised. A torn record with COMMIT fails its checksum and is not there.

mod record;
mod stream;

use std::collections::BTreeMap;
use std::sync::Arc;

use xfs_buffer::{Error, IoError, Result};
use xfs_device::Durability;
use xfs_format::log_record::{LogOperation, OperationFlags, unmount_operation};
use xfs_format::{DiskAddr, Lsn, Uuid};
use xfs_sync::{Condvar, Mutex, MutexGuard, Volume};

use crate::ail::{Ail, CommitRecord};
use crate::device::LogDevice;
use crate::health::Health;
use crate::mutant::{ActiveMutant, mutate};
use crate::unit::RecordLayout;
use crate::vector::first_region;
use record::{Record, operation};
use stream::VectorStream;

/// Writes the records of one log.
pub(crate) struct Writer {
    log: LogDevice,
    /// The device of metadata and data, if the log has one of its own.
    data: Option<xfs_device::SharedDevice>,
    layout: RecordLayout,
    /// Records that may be active or closed at once.
    buffers: usize,
    health: Arc<Health>,
    ail: Arc<Ail>,
    mutant: ActiveMutant,
    state: Mutex<WriterState, Volume>,
    changed: Condvar<Volume>,
}

struct WriterState {
    active: Option<Record>,
    /// The next record begins with the rest of a region: only who has that may append to it.
    in_pieces: bool,
    /// Where the next record goes.
    next: Lsn,
    /// The block of the last record; all ones before the first.
    previous_block: u32,
    /// Number of the next record to be closed.
    number: u64,
    /// Closed records that are not written yet, and where they start.
    closed: BTreeMap<u64, Lsn>,
    /// The newest tail before which a flush has been.
    flushed_tail: Lsn,
    free: Vec<Vec<u8>>,
    /// Of the volume.
    uuid: Uuid,
    written: WriterCounts,
}

/// What was written since the log was opened.
#[derive(Clone, Copy, Default)]
pub(crate) struct WriterCounts {
    pub(crate) records: u64,
    /// Headers and padding included.
    pub(crate) bytes: u64,
    /// Waits for a record that can be begun.
    pub(crate) waits: u64,
}

/// A closed record, which its owner must write.
#[must_use = "a record that is never written stops all later ones"]
pub(crate) struct ClosedRecord {
    number: u64,
    record: Record,
    tail: Lsn,
    end: Lsn,
    previous_block: u32,
    uuid: Uuid,
    durable: bool,
    /// Whether a flush has to go before it: of the records before a COMMIT, or of what the tail has
    /// left behind.
    must_flush: bool,
}

impl ClosedRecord {
    /// Where it lies.
    pub(crate) const fn span(&self) -> CommitRecord {
        CommitRecord { start: self.record.lsn, end: self.end }
    }
}

/// Closed records that a checkpoint has filled, which it must write.
struct FilledRecords<'a, I> {
    transaction: u32,
    closed: Vec<ClosedRecord>,
    /// Where in the checkpoint the first of them begins, as long as that is not in it.
    begin: Option<VectorStream<'a, I>>,
}

/// What a writer needs.
pub(crate) struct WriterParts {
    pub(crate) log: LogDevice,
    pub(crate) data: Option<xfs_device::SharedDevice>,
    pub(crate) layout: RecordLayout,
    pub(crate) buffers: usize,
    pub(crate) health: Arc<Health>,
    pub(crate) ail: Arc<Ail>,
    pub(crate) mutant: ActiveMutant,
}

impl Writer {
    /// A writer whose first record goes to `head`; the last one is at `previous_block`.
    pub(crate) fn new(parts: WriterParts, head: Lsn, previous_block: u32) -> Self {
        let state = WriterState {
            active: None,
            in_pieces: false,
            next: head,
            previous_block,
            number: 0,
            closed: BTreeMap::new(),
            flushed_tail: Lsn(0),
            free: Vec::new(),
            uuid: parts.log.geometry().uuid,
            written: WriterCounts::default(),
        };
        let WriterParts { log, data, layout, buffers, health, ail, mutant } = parts;
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Self { log, data, layout, buffers, health, ail, mutant, state, changed }
    }

    /// What was written to the log.
    pub(crate) fn written(&self) -> WriterCounts {
        self.state.lock().written
    }

    pub(crate) const fn layout(&self) -> &RecordLayout {
        &self.layout
    }

    /// Appends START of a checkpoint, and returns where the record with it starts. The tail waits
    /// there from now on: nobody can close that record before it is known.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub(crate) fn append_start(&self, transaction: u32, sequence: u64) -> Result<Lsn> {
        let start = operation(transaction, OperationFlags::START);
        let mut state = self.make_room(self.state.lock(), 0)?;
        let Some(record) = &mut state.active else { return Err(Error::Shutdown) };
        record.append(start, &[], false);
        let lsn = record.lsn;
        mutate!(self.mutant, Mutant::TailPastStart, self.ail.begin(sequence, lsn), {});
        Ok(lsn)
    }

    /// Appends vectors, and writes the records that this fills.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] for whoever meets it first, [`Error::Shutdown`] for everybody else.
    pub(crate) fn append<'a>(
        &self,
        transaction: u32,
        vectors: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<()> {
        let mut stream = VectorStream::new(vectors);
        let mut state = self.state.lock();
        while let Some((region, _)) = stream.rest().and_then(first_region) {
            state = self.make_room(state, region.len())?;
            let Some(mut record) = state.active.take() else { return Err(Error::Shutdown) };
            let begin = stream.clone();
            let Some(cut) = stream.cut(record.room()) else {
                record.fill(transaction, begin);
                state.active = Some(record);
                return Ok(());
            };
            let closed = self.close(&mut state, record, cut.bytes, false);
            let mut filled =
                FilledRecords { transaction, closed: vec![closed], begin: Some(begin) };
            let continued = self.go_on(state, cut.left, &mut filled);
            let (locked, written) = self.write_all(&mut filled);
            continued.and(written)?;
            state = locked;
        }
        Ok(())
    }

    /// Puts the rest of a region where the next record starts. There is nothing in between (I5):
    /// nobody else appends meanwhile.
    fn go_on<'s, 'a>(
        &'s self,
        mut state: MutexGuard<'s, WriterState>,
        mut left: &[u8],
        filled: &mut FilledRecords<'a, impl Iterator<Item = &'a [u8]>>,
    ) -> Result<()> {
        let piece = operation(filled.transaction, OperationFlags::empty());
        mutate!(self.mutant, Mutant::PiecesApart, {}, {
            drop(state);
            state = self.state.lock();
        });
        while !left.is_empty() {
            if state.closed.len() + 1 >= self.buffers {
                // All later records wait for these to be written, so this cannot wait for them.
                state.in_pieces = true;
                drop(state);
                let written;
                (state, written) = self.write_all(filled);
                while state.closed.len() + 1 >= self.buffers && !self.health.is_down() {
                    self.changed.wait(&mut state);
                }
                state.in_pieces = false;
                self.changed.notify_all();
                written?;
                self.health.check()?;
            }
            if state.active.is_none() {
                self.open(&mut state);
            }
            let Some(mut record) = state.active.take() else { return Err(Error::Shutdown) };
            if let Some(rest) = record.append(piece, left, true) {
                left = rest;
                filled.closed.push(self.close(&mut state, record, 0, false));
            } else {
                left = &[];
                state.active = Some(record);
            }
        }
        Ok(())
    }

    /// Fills and writes these records, or, once one has failed, lets them go: none of them may stay
    /// closed. The state comes with it, as after the last of them: the whole volume shares its lock, so
    /// it is not taken once more for the next record.
    fn write_all<'s, 'a>(
        &'s self,
        filled: &mut FilledRecords<'a, impl Iterator<Item = &'a [u8]>>,
    ) -> (MutexGuard<'s, WriterState>, Result<()>) {
        if let Some((begin, first)) = filled.begin.take().zip(filled.closed.first_mut()) {
            first.record.fill(filled.transaction, begin);
        }
        let mut result = Ok(());
        let mut state = None;
        for closed in filled.closed.drain(..) {
            drop(state.take());
            let (locked, written) = self.write_and_lock(closed);
            state = Some(locked);
            result = result.and(written);
        }
        (state.unwrap_or_else(|| self.state.lock()), result)
    }

    /// Appends COMMIT and closes the record, which the caller must write.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub(crate) fn append_commit(&self, transaction: u32) -> Result<ClosedRecord> {
        self.append_last(operation(transaction, OperationFlags::COMMIT), &[])
    }

    /// Writes the record of an unmount: nothing before it has to be replayed. Returns where it lies.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub(crate) fn write_unmount(&self) -> Result<CommitRecord> {
        let (operation, payload) = unmount_operation();
        let record = self.append_last(operation, &payload)?;
        let span = record.span();
        self.write(record).map(|()| span)
    }

    /// Has records that are closed from now on carry this UUID.
    pub(crate) fn set_uuid(&self, uuid: Uuid) {
        self.state.lock().uuid = uuid;
    }

    fn append_last(&self, operation: LogOperation, payload: &[u8]) -> Result<ClosedRecord> {
        let mut state = self.make_room(self.state.lock(), payload.len())?;
        let Some(mut record) = state.active.take() else { return Err(Error::Shutdown) };
        record.append(operation, payload, false);
        Ok(self.close(&mut state, record, 0, true))
    }

    /// Makes sure that there is an active record with room for an operation and the least of its bytes.
    fn make_room<'a>(
        &'a self,
        mut state: MutexGuard<'a, WriterState>,
        bytes: usize,
    ) -> Result<MutexGuard<'a, WriterState>> {
        loop {
            self.health.check()?;
            if state.in_pieces {
                self.changed.wait(&mut state);
                continue;
            }
            match state.active.take() {
                Some(record) if record.has_room(bytes) => {
                    state.active = Some(record);
                    return Ok(state);
                }
                Some(record) => {
                    let closed = self.close(&mut state, record, 0, false);
                    drop(state);
                    let (locked, written) = self.write_and_lock(closed);
                    written?;
                    state = locked;
                }
                None if state.closed.len() + 1 < self.buffers => {
                    self.open(&mut state);
                }
                None => {
                    state.written.waits += 1;
                    self.changed.wait(&mut state);
                }
            }
        }
    }

    /// Begins a record.
    fn open(&self, state: &mut WriterState) {
        let bytes = state.free.pop().unwrap_or_default();
        state.active = Some(Record::open(bytes, &self.layout, state.next));
    }

    /// Fixes a record's length, and with it the place of the next one. `more` bytes are not there yet:
    /// who closes it so fills it.
    fn close(
        &self,
        state: &mut WriterState,
        mut record: Record,
        more: usize,
        durable: bool,
    ) -> ClosedRecord {
        let end = record.close(more, &self.layout, self.log.length_blocks());
        let (number, previous_block, uuid) = (state.number, state.previous_block, state.uuid);
        state.number += 1;
        state.next = end;
        state.previous_block = record.lsn.block();
        state.closed.insert(number, record.lsn);
        let tail = self.ail.tail();
        let must_flush = durable || tail > state.flushed_tail;
        ClosedRecord { number, record, tail, end, previous_block, uuid, durable, must_flush }
    }

    /// Writes a closed record. When it returns, a record with COMMIT is durable, and so is every
    /// record before it.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub(crate) fn write(&self, closed: ClosedRecord) -> Result<()> {
        self.write_and_lock(closed).1
    }

    /// The same, for who needs the state afterwards.
    fn write_and_lock(
        &self,
        mut closed: ClosedRecord,
    ) -> (MutexGuard<'_, WriterState>, Result<()>) {
        let result = self.write_in_turn(&mut closed);
        if result.is_err() {
            self.health.set_down();
        }
        let mut state = self.state.lock();
        state.closed.remove(&closed.number);
        let bytes = closed.record.into_bytes();
        state.written.records += 1;
        state.written.bytes += bytes.len() as u64;
        state.free.push(bytes);
        self.changed.notify_all();
        (state, result)
    }

    fn write_in_turn(&self, closed: &mut ClosedRecord) -> Result<()> {
        if mutate!(self.mutant, Mutant::CommitBeforeRecords, closed.durable, false) {
            let mut state = self.state.lock();
            while state.closed.range(..closed.number).next().is_some() {
                self.health.check()?;
                self.changed.wait(&mut state);
            }
        }
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
        let durability = if closed.durable { Durability::Durable } else { Durability::Cached };
        self.log.write_blocks(header.lsn.block(), bytes, durability)
    }

    /// Makes all that was written before durable, on both devices.
    fn flush(&self, at: Lsn) -> Result<()> {
        let at = DiskAddr(self.log.geometry().start.0 + u64::from(at.block()));
        if let Some(data) = &self.data {
            data.flush().map_err(|source| flush_failed(at, source))?;
        }
        self.log.flush().map_err(|source| flush_failed(at, source))
    }

    /// The same of the device of metadata and data alone.
    pub(crate) fn flush_device(&self) -> Result<()> {
        let flushed = self.data.as_ref().map_or_else(|| self.log.flush(), |data| data.flush());
        flushed.map_err(|source| flush_failed(DiskAddr(0), source))
    }

    /// Lets all waiters look again, when the log has been shut down.
    pub(crate) fn wake_all(&self) {
        let _state = self.state.lock();
        self.changed.notify_all();
    }
}

fn flush_failed(at: DiskAddr, source: std::io::Error) -> Error {
    Error::Io(IoError { operation: "flush", at, length_bytes: 0, source })
}
