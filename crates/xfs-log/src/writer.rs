//! Appends the operations of checkpoints to records, and writes the records to the device.
//!
//! Owns: the in-core log buffers, the position of the next record, record headers, padding, flushes
//! and their order ([`closed`]). Does **not** own what the operations say, the order of checkpoints
//! ([`cil`](crate::cil)), or the tail ([`ail`](crate::ail)).
//!
//! ```text
//!             append                 no room left, or COMMIT              write
//!  free ───────────────► active ────────────────────────────► closed ──────────────► free
//!                     (one at most)                 (length, place and tail fixed)
//! ```
//!
//! The thread that closes a record fills it, without the lock, and writes it. There is no writer
//! thread here, so no closed record ever waits for a thread that waits for it. A checkpoint that
//! fills the active record computes from lengths where the record will end, closes it before
//! anything is copied, and leaves the next record to whichever thread comes first. So several
//! threads that write large checkpoints can copy at the same time. The rest of a checkpoint, which
//! does not fill a record, is copied under the lock: that is less than one record for each
//! checkpoint.
//!
//! # Invariants
//!
//! - **I1** A record with COMMIT is written after all earlier records are durable: the earlier
//!   records are written, then the device is flushed, then the record with COMMIT is written with
//!   FUA, which makes it durable by itself.
//! - **I2** A record carries a tail only if a flush has begun after that tail was reached: the
//!   items that the tail has passed are durable at their home locations on disk.
//! - **I3** Tails do not move back from one record to the next. A tail is read when its record is
//!   closed, under the lock that gives the record its position.
//! - **I4** After a failed write or flush nothing is written any more.
//! - **I5** A region that does not fit a record continues with the first operation of the next
//!   record. The format does not require it, but readers are simpler than writers. `xfs_logprint`
//!   fails if three records hold the pieces of a region and records of another checkpoint lie
//!   between them.
//! - **I6** No block of cycle 2 is written before every block of cycle 1 is durable. The kernel and
//!   xfs_repair refuse a log that starts with cycle 2 and ends with zeros. So the last record of
//!   cycle 1 is written like one with COMMIT, and records of cycle 2 wait until it is written.
//!
//! # Crash argument
//!
//! Records without COMMIT may land in any order, with holes: recovery ends at the first hole, and
//! nothing after it was promised. A torn record with COMMIT fails its checksum and does not count.
//!
//! Holes around the end of the log keep the previous cycle number, so the head is found among them.
//! The first cycle has no cycle before it: the log is zero there. I6 orders its end. A log that a
//! tool begins in a later cycle needs no such order, because the tool writes the cycle before into
//! all other blocks.

mod closed;
mod record;
mod stream;

use std::collections::BTreeMap;
use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::log_record::{LogOperation, OperationFlags, unmount_operation};
use xfs_format::{Lsn, Uuid};
use xfs_sync::{Condvar, Mutex, MutexGuard, Volume};

use crate::ail::{Ail, CommitRecord};
use crate::device::LogDevice;
use crate::health::Health;
use crate::mutant::{ActiveMutant, mutate};
use crate::unit::RecordLayout;
use crate::vector::first_region;
use closed::ClosedRecord;
use record::{OpenRecord, operation};
use stream::VectorStream;

/// The writer of one log's records.
pub(crate) struct Writer {
    log: LogDevice,
    /// The device to flush in addition to that of the log. See [`Log::open`](crate::Log::open).
    data: Option<xfs_device::SharedDevice>,
    layout: RecordLayout,
    /// The greatest number of records that may be active or closed at once.
    buffers: usize,
    health: Arc<Health>,
    ail: Arc<Ail>,
    mutant: ActiveMutant,
    state: Mutex<WriterState, Volume>,
    changed: Condvar<Volume>,
}

struct WriterState {
    active: Option<OpenRecord>,
    /// Whether the next record must begin with the rest of a region. If so, only the thread that
    /// has this rest may append (I5).
    in_pieces: bool,
    /// The LSN of the next record.
    next: Lsn,
    /// The block number of the last record; all ones before the first.
    previous_block: u32,
    /// The number that the next record gets when it is closed.
    number: u64,
    /// The LSNs of the closed records that are not written yet. The key is the record's number.
    closed: BTreeMap<u64, Lsn>,
    /// The newest of the tails that were reached before the start of a flush. A record with a newer
    /// tail needs another flush (I2).
    flushed_tail: Lsn,
    free: Vec<Vec<u8>>,
    /// The UUID that records carry: that of the volume.
    uuid: Uuid,
    written: WriterCounts,
}

/// Counters of the writer since the log was opened.
#[derive(Clone, Copy, Default)]
pub(crate) struct WriterCounts {
    pub(crate) records: u64,
    /// Number of bytes of the written records, headers and padding included.
    pub(crate) bytes: u64,
    /// Number of times that a thread waited to open a record.
    pub(crate) waits: u64,
}

/// Records that are closed already and must still be filled with bytes of one checkpoint. The
/// thread that writes this checkpoint must fill and write the records.
struct FilledRecords<'a, I> {
    transaction: u32,
    closed: Vec<ClosedRecord>,
    /// The rest of the checkpoint, starting with the bytes that belong in the first of the closed
    /// records. `None` once that record is filled.
    begin: Option<VectorStream<'a, I>>,
}

/// The components of the log that the writer of records uses, and the settings of the writer.
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
    /// Creates a writer whose first record goes to `head`. The log's last record is at block
    /// `previous_block`.
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

    /// Returns the counters of the writer.
    pub(crate) fn written(&self) -> WriterCounts {
        self.state.lock().written
    }

    pub(crate) const fn layout(&self) -> &RecordLayout {
        &self.layout
    }

    /// Appends the START operation of a checkpoint. Returns the LSN of the record that holds START.
    /// From then on, the tail of the AIL does not move past that LSN: the AIL gets the LSN before
    /// any thread can close the record.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`append`](Self::append).
    pub(crate) fn append_start(&self, transaction: u32, sequence: u64) -> Result<Lsn> {
        let start = operation(transaction, OperationFlags::START);
        let mut state = self.make_room(self.state.lock(), 0)?;
        let record = state.active.as_mut().expect("make_room() leaves an active record");
        record.append(start, &[], false);
        let lsn = record.lsn;
        mutate!(self.mutant, Mutant::TailPastStart, self.ail.begin(sequence, lsn), {});
        Ok(lsn)
    }

    /// Appends the vectors of a checkpoint, and writes the records that they fill.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Io`](xfs_buffer::Error::Io) to the thread that meets the error first, and
    /// [`Error::Shutdown`](xfs_buffer::Error::Shutdown) to all others.
    pub(crate) fn append<'a>(
        &self,
        transaction: u32,
        vectors: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<()> {
        let mut stream = VectorStream::new(vectors);
        let mut state = self.state.lock();
        while let Some((region, _)) = stream.rest().and_then(first_region) {
            state = self.make_room(state, region.len())?;
            let mut record = state.active.take().expect("make_room() leaves an active record");
            let begin = stream.clone();
            let Some(cut) = stream.cut(record.room()) else {
                record.fill(transaction, begin);
                state.active = Some(record);
                return Ok(());
            };
            let closed = self.close(&mut state, record, cut.bytes, false);
            let mut filled =
                FilledRecords { transaction, closed: vec![closed], begin: Some(begin) };
            let continued = self.continue_region(state, cut.left, &mut filled);
            let (locked, written) = self.write_all(&mut filled);
            continued.and(written)?;
            state = locked;
        }
        Ok(())
    }

    /// Appends `left`, the rest of a region, starting at the start of the next record (I5). No
    /// other thread appends meanwhile.
    fn continue_region<'s, 'a>(
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
            let mut record = state.active.take().expect("a record was opened");
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

    /// Fills and writes the records in `filled`. If one cannot be written, the others are dropped
    /// without being written, because no record may stay closed. Returns the writer's state, still
    /// locked from the last write. The caller needs the lock next, and the whole volume shares it.
    fn write_all<'s, 'a>(
        &'s self,
        filled: &mut FilledRecords<'a, impl Iterator<Item = &'a [u8]>>,
    ) -> (MutexGuard<'s, WriterState>, Result<()>) {
        if let Some(begin) = filled.begin.take() {
            let first = filled.closed.first_mut().expect("the first record is filled when written");
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

    /// Appends the operation COMMIT of a transaction and closes the record that holds it. The
    /// caller must write this record.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`append`](Self::append).
    pub(crate) fn append_commit(&self, transaction: u32) -> Result<ClosedRecord> {
        self.append_last(operation(transaction, OperationFlags::COMMIT), &[])
    }

    /// Writes the unmount record, which says that nothing before it has to be replayed. Returns the
    /// LSN of the record and the LSN of its end.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`append`](Self::append).
    pub(crate) fn write_unmount(&self) -> Result<CommitRecord> {
        let (operation, payload) = unmount_operation();
        let record = self.append_last(operation, &payload)?;
        let span = record.span();
        self.write(record).map(|()| span)
    }

    /// Sets the UUID of all records that are closed from now on.
    pub(crate) fn set_uuid(&self, uuid: Uuid) {
        self.state.lock().uuid = uuid;
    }

    fn append_last(&self, operation: LogOperation, payload: &[u8]) -> Result<ClosedRecord> {
        let mut state = self.make_room(self.state.lock(), payload.len())?;
        let mut record = state.active.take().expect("make_room() leaves an active record");
        record.append(operation, payload, false);
        Ok(self.close(&mut state, record, 0, true))
    }

    /// Waits until there is an active record with room for an operation of `bytes` bytes, or for
    /// the shortest first part into which the operation may be split. Closes and writes a record
    /// that has no room.
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

    /// Opens an empty record as the active one, to which operations are appended.
    fn open(&self, state: &mut WriterState) {
        let bytes = state.free.pop().unwrap_or_default();
        state.active = Some(OpenRecord::open(bytes, &self.layout, state.next));
    }

    /// Wakes all threads that wait in the writer, after a shutdown.
    pub(crate) fn wake_all(&self) {
        let _state = self.state.lock();
        self.changed.notify_all();
    }
}
