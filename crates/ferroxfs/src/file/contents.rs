//! The contents of one file that is written to.
//!
//! Owns: the lock of the contents, small writes that are joined to large ones before they go to the
//! device, how far ahead of the end of a file space is allocated, and the errors of writes that were
//! made later than they were asked for. Does **not** own: the order of space, data and size
//! (`xfs-inode`), or which files have something to write (a tag in
//! `xfs-icache`).
//!
//! ```text
//!            put: its blocks are earmarked         flush: space, data, size
//!   write ─────────────────────────────► buffered ─────────────────────────► on the device
//!     └──────────────────────────────────────────────────────────────────────────▲
//!       a long one; one that goes on from no other; no blocks to earmark; direct
//! ```
//!
//! A flush comes when the buffer is full or a write goes elsewhere, before a read that meets it and
//! before everything else that is done to the contents, with a sync, when a [`File`](crate::File) is
//! dropped, and from a thread after one or two seconds ([`unsettled`](super::unsettled)).
//!
//! # Invariants
//!
//! - **I1** Bytes are buffered only while a `File` of theirs is open: each flushes when it is dropped. So
//!   an inode that nobody uses has none.
//! - **I2** For what is buffered blocks are earmarked, those of the map in the worst case included: a
//!   volume that is full says so when a write is asked for.
//! - **I3** What is buffered counts for nobody but readers of this file: on disk neither size nor
//!   blocks change before the data is there.
//! - **I4** Who wants to know the size looks for buffered bytes first and at the inode after that: a flush
//!   between the two is seen there.

mod buffered;
mod idle;
mod pieces;

use std::sync::Arc;

use xfs_buffer::{Error, PosixError, Result};
use xfs_format::extent::MAX_EXTENT_BLOCKS;
use xfs_format::timestamp::Timestamp;
use xfs_format::{FileBlock, Geometry};
use xfs_inode::{BlockRange, Inode, WriteTerms, map_blocks_at_worst};
use xfs_locks::{Breaker, OpenMode};
use xfs_sync::{AtomicU32, Mutex, Object, Ordering, RwLock, RwLockReadGuard, RwLockWriteGuard};
use xfs_trans::Earmark;

use self::buffered::{BUFFER_BYTES, Buffered};
pub(crate) use self::idle::{Left, Patience};
use self::pieces::write_pieces;
use super::LateTimes;
use super::unsettled::repeat;
use crate::kind::CachedInode;
use crate::metadata::Metadata;
use crate::writing::{Parts, break_and_wait, check_writable_from};

/// Of a file that is shorter nothing is allocated ahead.
#[doc(alias = "m_allocsize_log")]
const LEAST_AHEAD_BYTES: u64 = 64 << 10;

/// What somebody is about to do to layouts who changes contents.
const TO_CHANGE: Breaker = Breaker::Layout(OpenMode::Write);

/// Bytes are buffered.
const BUFFERED: u32 = 1;
/// Blocks may be mapped past the end of the file that nobody asked for.
const AHEAD: u32 = 2;
/// A flush has failed, and nobody was told who asks for that.
const FAILED: u32 = 4;
/// Of that failure the volume knows, for a handle that was dropped.
const LEFT: u32 = 8;

/// What there is of the contents in memory.
#[derive(Default)]
pub(crate) struct Contents {
    /// Held shared to read contents, exclusively to change them or where they lie. Taken before any
    /// transaction begins.
    state: RwLock<State, Object>,
    marks: AtomicU32<Object>,
    notes: Mutex<Notes, Object>,
}

/// What the lock of the contents protects.
#[derive(Default)]
pub(crate) struct State {
    buffered: Option<Box<Buffered>>,
    /// Where the last write ended: the next one is expected there.
    next: Option<u64>,
    /// How many looks the volume had had by then.
    written: u64,
}

/// What is asked without waiting for a write.
#[derive(Default)]
struct Notes {
    shown: Shown,
    failure: Option<Box<Error>>,
}

/// What is buffered, as metadata shows it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Shown {
    end: u64,
    blocks: u64,
    now: Timestamp,
    /// How many looks the volume had had when it began.
    begun: u64,
}

/// Whether a write may wait for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Joined,
    Direct,
    /// As `Joined`, of what somebody has acknowledged before: what the file forbids since is too late.
    Acknowledged(LateTimes),
}

/// The lock of the contents, held to read them.
pub(crate) enum Reading<'a> {
    Shared { _guard: RwLockReadGuard<'a, State> },
    Alone { _guard: RwLockWriteGuard<'a, State> },
}

/// The contents of an inode, with what is needed to work on them.
#[derive(Clone, Copy)]
pub(crate) struct OpenContents<'a> {
    parts: &'a Parts,
    entry: &'a Arc<CachedInode>,
}

impl Contents {
    fn has(&self, marks: u32) -> bool {
        self.marks.load(Ordering::Acquire) & marks != 0
    }

    fn mark(&self, marks: u32, is_set: bool) {
        if is_set {
            self.marks.fetch_or(marks, Ordering::Release);
        } else {
            self.marks.fetch_and(!marks, Ordering::Release);
        }
    }

    /// What is buffered, if anything. Asked before the inode is looked at (I4).
    pub(crate) fn shown(&self) -> Option<Shown> {
        self.has(BUFFERED).then(|| self.notes.lock().shown)
    }
}

impl Shown {
    /// Adds what is buffered to what the inode says.
    pub(crate) fn add_to(self, metadata: &mut Metadata, geometry: &Geometry) {
        metadata.size = metadata.size.max(self.end);
        metadata.blocks += self.blocks * u64::from(geometry.block_basic_blocks());
        metadata.modified = self.now;
        metadata.changed = metadata.changed.max(self.now);
    }
}

impl<'a> OpenContents<'a> {
    pub(crate) fn new(parts: &'a Parts, entry: &'a Arc<CachedInode>) -> Self {
        Self { parts, entry }
    }

    fn contents(&self) -> &'a Contents {
        self.entry.contents()
    }

    fn has(&self, marks: u32) -> bool {
        self.entry.known_contents().is_some_and(|contents| contents.has(marks))
    }

    /// The contents, alone, with everything that was written on the device.
    pub(crate) fn settle(&self) -> Result<RwLockWriteGuard<'a, State>> {
        let mut state = self.contents().state.write();
        self.flush(&mut state, 0)?;
        Ok(state)
    }

    /// The contents, alone, to change them: where they lie is given to nobody. Who is given it holds their lock
    /// [shared](Self::unchanging), so none comes in between. What was given between the caller's look and this one
    /// is taken back here, with the lock free.
    pub(crate) fn change(&self) -> Result<RwLockWriteGuard<'a, State>> {
        loop {
            let state = self.contents().state.write();
            if !self.is_given_away() {
                return Ok(state);
            }
            drop(state);
            self.take_back()?;
        }
    }

    /// The same, with everything that was written on the device.
    pub(crate) fn settle_to_change(&self) -> Result<RwLockWriteGuard<'a, State>> {
        let mut state = self.change()?;
        self.flush(&mut state, 0)?;
        Ok(state)
    }

    /// Keeps everybody from changing the contents.
    pub(crate) fn unchanging(&self) -> Reading<'a> {
        Reading::Shared { _guard: self.contents().state.read() }
    }

    /// Whether somebody counts on where the contents lie.
    pub(crate) fn is_given_away(&self) -> bool {
        self.entry.locks().is_leased_against(TO_CHANGE)
    }

    /// Takes back what was given away of where the contents lie.
    pub(crate) fn take_back(&self) -> Result<()> {
        break_and_wait(self.entry, TO_CHANGE, self.parts.lease_grace)
    }

    /// Writes what is buffered to the device, if anything is. Nothing is waited for if nothing is.
    pub(crate) fn write_back(&self) -> Result<()> {
        if self.has(BUFFERED) { self.settle().map(drop) } else { Ok(()) }
    }

    /// The end of a handle that is dropped, and can be told nothing: the volume keeps the error. A
    /// failed flush may have lost what another handle wrote, so the next sync of the file is told too.
    pub(crate) fn leave(&self) {
        let ended = self.write_back();
        let failure = if !self.has(FAILED) {
            ended.err()
        } else if self.has(LEFT) {
            None
        } else {
            self.contents().notes.lock().failure.as_deref().map(repeat)
        };
        if let Some(error) = failure {
            self.contents().mark(LEFT, self.has(FAILED));
            self.parts.unsettled.fail(error);
        }
    }

    /// Everything on the device, or the error of a flush that nobody was told of yet.
    pub(crate) fn flush_for_sync(&self) -> Result<()> {
        let flushed = self.write_back();
        self.take_failure().and(flushed)
    }

    /// The lock to read contents, with nothing buffered.
    pub(crate) fn read_all(&self) -> Result<Reading<'a>> {
        self.read(|_| true)
    }

    /// Reads bytes of the inode, where what was written there before lies on the device.
    pub(crate) fn read_with<T>(
        &self,
        offset: u64,
        length: usize,
        read: impl FnOnce(&Inode) -> Result<T>,
    ) -> Result<T> {
        let end = offset.saturating_add(length as u64);
        // Past the inode's size the file is as long as what is buffered says.
        let meets = |buffered: &Buffered| {
            end > buffered.offset || end > self.entry.live().inode().core().size
        };
        let _reading = self.read(meets)?;
        self.parts.note_map_read();
        let _latch = self.entry.live().record().latch().shared();
        read(&self.entry.live().inode())
    }

    fn read(&self, meets: impl Fn(&Buffered) -> bool) -> Result<Reading<'a>> {
        let guard = self.contents().state.read();
        if !guard.buffered.as_deref().is_some_and(meets) {
            return Ok(Reading::Shared { _guard: guard });
        }
        drop(guard);
        Ok(Reading::Alone { _guard: self.settle()? })
    }

    /// Writes slices one behind the other.
    pub(crate) fn write<'b>(
        &self,
        offset: u64,
        slices: impl Iterator<Item = &'b [u8]>,
        way: Way,
    ) -> Result<usize> {
        let mut state = self.change()?;
        write_pieces(offset, slices, |at, bytes| self.write_piece(&mut state, at, bytes, way))
    }

    fn write_piece(&self, state: &mut State, offset: u64, bytes: &[u8], way: Way) -> Result<usize> {
        let mut core = self.entry.core();
        core.size = core.size.max(state.buffered.as_ref().map_or(0, |buffered| buffered.end()));
        if !matches!(way, Way::Acknowledged(_)) {
            check_writable_from(&core, offset)?;
        }
        let now = match (way, state.buffered.as_deref()) {
            (Way::Acknowledged(LateTimes::Told), Some(buffered)) => buffered.now,
            (Way::Acknowledged(LateTimes::Told), None) => core.modify_time,
            _ => self.parts.clock.now(),
        };
        self.entry.live().check_write(&self.parts.journal, offset, bytes.len() as u64)?;
        let goes_on = state.next == Some(offset);
        state.written = self.parts.unsettled.looks();
        let is_expected = goes_on
            || offset == core.size
            || state.buffered.as_ref().is_some_and(|buffered| buffered.takes(offset));
        let joins = is_expected && way != Way::Direct && self.parts.joins_writes;
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let at = offset + done as u64;
            let buffered = if joins { self.buffer(state, (at, rest), now) } else { Ok(None) };
            let written = match buffered {
                Ok(Some(count)) => Ok(count),
                Ok(None) => self.write_through(state, (at, rest), (goes_on && joins, now)),
                Err(error) => Err(error),
            };
            match written {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
            state.next = Some(offset + done as u64);
        }
        Ok(done)
    }

    /// Puts the head of `bytes` into the buffer, and says how much. `None`: they do not belong there, or
    /// there are no blocks to earmark for them, or no memory.
    fn buffer(
        &self,
        state: &mut State,
        (at, bytes): (u64, &[u8]),
        now: Timestamp,
    ) -> Result<Option<usize>> {
        let mut memory = Vec::new();
        if let Some(buffered) = state.buffered.as_deref().filter(|buffered| !buffered.takes(at)) {
            let ahead = if buffered.end() == at { self.ahead(at) } else { 0 };
            memory = self.flush(state, ahead)?;
        }
        if state.buffered.is_none() && bytes.len() as u64 >= BUFFER_BYTES {
            return Ok(None);
        }
        let buffered = state.buffered.get_or_insert_with(|| {
            Box::new(Buffered {
                offset: at,
                bytes: memory,
                now,
                counted: self.geometry().file_block(at),
                needed_blocks: 0,
                earmark: Earmark::default(),
                claimed_bytes: 0,
                begun: self.parts.unsettled.looks(),
            })
        });
        let room = usize::try_from(buffered.limit() - at).unwrap_or(usize::MAX);
        let (head, _) = bytes.split_at(room.min(bytes.len()));
        let end = at + head.len() as u64;
        let is_set_aside = match self.earmark(buffered, end) {
            Ok(()) => {
                let length = end - buffered.offset;
                self.parts.unsettled.claim(&mut buffered.claimed_bytes, length)
            }
            Err(Error::Posix(PosixError::NoSpace)) => false,
            Err(error) => return Err(error),
        };
        if !is_set_aside {
            self.flush(state, 0)?;
            return Ok(None);
        }
        buffered.put(at, head);
        buffered.now = now;
        let (blocks, begun) = (buffered.needed_blocks, buffered.begun);
        let shown = Shown { end: buffered.end(), blocks, now, begun };
        self.contents().notes.lock().shown = shown;
        if !self.has(BUFFERED) {
            self.contents().mark(BUFFERED, true);
            self.note_unsettled();
        }
        Ok(Some(head.len()))
    }

    /// Sets blocks aside for what will be buffered up to byte `end` (I2).
    fn earmark(&self, buffered: &mut Buffered, end: u64) -> Result<()> {
        let until = FileBlock(end.div_ceil(self.geometry().block_size.into()));
        if until <= buffered.counted {
            return Ok(());
        }
        let journal = &self.parts.journal;
        let new = BlockRange::between(buffered.counted, until);
        let needed = buffered.needed_blocks + self.entry.live().blocks_to_write(journal, new)?;
        let all = needed + map_blocks_at_worst(self.geometry(), needed);
        let missing = all.saturating_sub(buffered.earmark.blocks());
        buffered.earmark.add(self.parts.with_room(|| journal.earmark(missing))?);
        (buffered.counted, buffered.needed_blocks) = (until, needed);
        Ok(())
    }

    /// Writes to the device at once. What is buffered goes first.
    fn write_through(
        &self,
        state: &mut State,
        (offset, bytes): (u64, &[u8]),
        (goes_on, now): (bool, Timestamp),
    ) -> Result<usize> {
        self.flush(state, 0)?;
        let (live, journal) = (self.entry.live(), &self.parts.journal);
        let end = offset + bytes.len() as u64;
        let ahead_blocks = if goes_on { self.ahead(end) } else { 0 };
        let written = self.parts.with_room(|| {
            let terms = WriteTerms { ahead_blocks, ..WriteTerms::at(now) };
            live.write_on(journal, (offset, bytes), terms)
        });
        self.note_ahead(false);
        written
    }

    /// Writes what is buffered, and allocates so much more behind it. Returns the memory, empty, for who
    /// goes on at once.
    fn flush(&self, state: &mut State, ahead_blocks: u64) -> Result<Vec<u8>> {
        let Some(buffered) = state.buffered.take() else { return Ok(Vec::new()) };
        let Buffered { offset, mut bytes, now, earmark, claimed_bytes, .. } = *buffered;
        let terms = WriteTerms { now, earmark, ahead_blocks };
        let shown_blocks = self.blocks() + buffered.needed_blocks;
        let written = self.entry.live().write_on(&self.parts.journal, (offset, &bytes), terms);
        let flushed = match written {
            Ok(count) if count == bytes.len() => Ok(()),
            Ok(_) => Err(PosixError::NoSpace.into()),
            Err(error) => Err(error),
        };
        bytes.clear();
        self.parts.unsettled.unclaim(claimed_bytes);
        self.note_ahead(self.has(BUFFERED));
        if let Err(error) = &flushed {
            self.contents().notes.lock().failure.get_or_insert_with(|| Box::new(repeat(error)));
            self.contents().mark(LEFT, false);
            self.contents().mark(FAILED, true);
        }
        // Last, since a handle that ends and finds nothing buffered does not wait for this: it takes what else is
        // marked for all there is.
        self.contents().mark(BUFFERED, false);
        // A write that goes on, and so has space ahead, is asked for.
        if ahead_blocks == 0 && self.blocks() != shown_blocks {
            self.parts.unsettled.tell(self.entry.number());
        }
        flushed.map(|()| bytes)
    }

    /// Notes whether the file has blocks past its end. Nothing of it waits in the buffer any more.
    fn note_ahead(&self, was_buffered: bool) {
        let is_ahead = self.entry.live().ends_past_size(self.geometry());
        let was_ahead = self.has(AHEAD);
        if is_ahead != was_ahead {
            self.contents().mark(AHEAD, is_ahead);
        }
        match (was_buffered || was_ahead, is_ahead) {
            (false, true) => self.note_unsettled(),
            (true, false) => self.entry.set_unsettled(false),
            _ => {}
        }
    }

    /// How many blocks to allocate past `end`: as many as the file has, as a power of two; fewer where
    /// the volume has little room. None where something is mapped there.
    #[doc(alias = "xfs_iomap_prealloc_size")]
    fn ahead(&self, end: u64) -> u64 {
        let live = self.entry.live();
        let blocks = self.geometry().file_block(end).0;
        if end < LEAST_AHEAD_BYTES || end < live.inode().core().size || live.reaches(blocks) {
            return 0;
        }
        let power = 1 << blocks.max(1).ilog2();
        let free = self.parts.free_blocks();
        let percent = free.saturating_mul(100) / self.geometry().data_blocks.max(1);
        let shift = if percent < 5 { 2 * (6 - percent as u32) } else { 0 };
        (power.min(MAX_EXTENT_BLOCKS.into()) >> shift).min(free / 16)
    }

    fn take_failure(&self) -> Result<()> {
        if !self.has(FAILED) {
            return Ok(());
        }
        self.contents().mark(FAILED | LEFT, false);
        let failure = self.contents().notes.lock().failure.take();
        failure.map_or(Ok(()), |error| Err(*error))
    }

    /// The blocks that the inode has.
    fn blocks(&self) -> u64 {
        self.entry.live().inode().core().blocks
    }

    fn geometry(&self) -> &'a Geometry {
        self.parts.geometry()
    }
}

#[cfg(test)]
mod tests;
