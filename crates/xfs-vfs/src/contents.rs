//! The contents of one file on a mounted volume.
//!
//! Owns: the contents lock, joining small writes into large ones before they go to the device,
//! speculative preallocation past the end of a file, and errors of writes that fail after they were
//! acknowledged. Does **not** own: the order in which a flush writes space, data and size
//! (`xfs-inode`), or the list of files with buffered bytes (a tag in `xfs-icache`).
//!
//! ```text
//!            put: its blocks are reserved          flush: space, data, size
//!   write ─────────────────────────────► buffered ─────────────────────────► on the device
//!     └──────────────────────────────────────────────────────────────────────────▲
//!       a long write; one that continues no other; no blocks to reserve; direct
//! ```
//!
//! A buffer is flushed when it is full, when a write does not continue it, and before a read that
//! overlaps it. Any other change of the contents, a sync and the drop of a `File` also flush the
//! buffer. Otherwise the flusher flushes it after one or two seconds (`flusher`).
//!
//! # Invariants
//!
//! - **I1** Bytes are buffered only while a `File` that wrote them is open: a `File` flushes when
//!   it is dropped. So an inode without references has no buffered bytes.
//! - **I2** Blocks are reserved for buffered bytes, the worst case of map blocks included. A full
//!   volume therefore refuses the write itself.
//! - **I3** Only readers of this file see buffered bytes. On disk neither size nor blocks change
//!   before the data is there.
//! - **I4** A reader of the size looks for buffered bytes first, and reads the inode afterwards. If
//!   a flush runs in between, the inode has the new size.

mod buffered;
mod idle;
mod pieces;
mod state;

use std::sync::Arc;

use xfs_buffer::{Error, PosixError, Result};
use xfs_format::extent::MAX_EXTENT_BLOCKS;
use xfs_format::timestamp::Timestamp;
use xfs_format::{FileBlock, Geometry};
use xfs_inode::{BlockRange, Inode, WriteOptions, map_blocks_at_worst};
use xfs_locks::{Breaker, OpenMode};
use xfs_sync::{RwLockReadGuard, RwLockWriteGuard};
use xfs_trans::{BlockReservation, QuotaReservation};

use crate::inode_flags::check_writable_from;
use crate::kind::CachedInode;
use crate::leases::break_and_wait;
use crate::mount::Mount;
use buffered::{BUFFER_BYTES, Buffered};
pub use idle::{Remaining, TryOrWait};
use pieces::write_pieces;
use state::{AHEAD, BUFFERED, FAILED, LEFT};
pub use state::{Contents, ContentsState, Shown};

/// Files shorter than this number of bytes get no speculative preallocation.
#[doc(alias = "m_allocsize_log")]
const LEAST_AHEAD_BYTES: u64 = 64 << 10;

/// The operation for which a change of contents breaks layout leases: a write.
const TO_CHANGE: Breaker = Breaker::Layout(OpenMode::Write);

/// When the bytes of a write reach the device, and which checks they pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// The bytes may be buffered, and then reach the device together with bytes of other writes.
    Buffered,
    /// The bytes go to the device at once.
    Direct,
    /// The same as `Buffered`, for bytes that the kernel's page cache, or another cache in front of
    /// the volume, has already acknowledged to the program. The write succeeds even if the file has
    /// become immutable or append-only since.
    Writeback(LateTimes),
}

/// The modification time that a write of the mode `Writeback` gives to its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LateTimes {
    /// The write sets no time: the caller sets the time separately, by `Node::note_modified`.
    FromCaller,
    /// The write sets the current time.
    Now,
}

impl Mount {
    /// Returns access to the contents of a file.
    #[inline]
    pub fn contents<'a>(&'a self, entry: &'a Arc<CachedInode>) -> OpenContents<'a> {
        OpenContents::new(self, entry)
    }
}

/// The contents lock of a file while a reader holds it, in one of two modes.
pub enum Reading<'a> {
    /// The lock is held shared: no bytes were buffered in the range that is read.
    Shared {
        /// The guard of the lock, which is held in shared mode.
        _guard: RwLockReadGuard<'a, ContentsState>,
    },
    /// The lock is held exclusively: the reader has flushed the buffer.
    Alone {
        /// The guard of the lock, which is held exclusively.
        _guard: RwLockWriteGuard<'a, ContentsState>,
    },
}

/// Access to the contents of an inode, with the mount to which the inode belongs.
#[derive(Clone, Copy)]
pub struct OpenContents<'a> {
    mount: &'a Mount,
    entry: &'a Arc<CachedInode>,
}

/// A write that goes to the device at once.
struct DirectWrite<'a> {
    offset: u64,
    bytes: &'a [u8],
    /// Whether the next write probably continues where this one ends. If so, blocks are
    /// preallocated after this write.
    continues: bool,
    now: Timestamp,
}

impl<'a> OpenContents<'a> {
    pub(crate) fn new(mount: &'a Mount, entry: &'a Arc<CachedInode>) -> Self {
        Self { mount, entry }
    }

    fn contents(&self) -> &'a Contents {
        self.entry.contents()
    }

    fn has(&self, marks: u32) -> bool {
        self.entry.known_contents().is_some_and(|contents| contents.has(marks))
    }

    /// Locks the contents exclusively, and flushes all buffered bytes to the device. Returns the
    /// held lock.
    pub fn settle(&self) -> Result<RwLockWriteGuard<'a, ContentsState>> {
        let mut state = self.contents().state.write();
        self.flush(&mut state, 0)?;
        Ok(state)
    }

    /// Locks the contents exclusively, to change them. While the lock is held, no program has a
    /// layout lease. Such a lease tells a program where the contents lie on disk. Leases are given
    /// only under the shared lock ([`unchanging`](Self::unchanging)). If a lease exists when the
    /// lock is acquired, releases the lock, breaks the lease, and acquires the lock again.
    pub fn change(&self) -> Result<RwLockWriteGuard<'a, ContentsState>> {
        loop {
            let state = self.contents().state.write();
            if !self.is_given_away() {
                return Ok(state);
            }
            drop(state);
            self.take_back()?;
        }
    }

    /// Locks the contents as [`change`](Self::change) does, and flushes all buffered bytes to the
    /// device.
    pub fn settle_to_change(&self) -> Result<RwLockWriteGuard<'a, ContentsState>> {
        let mut state = self.change()?;
        self.flush(&mut state, 0)?;
        Ok(state)
    }

    /// Locks the contents shared, so that no thread changes them while the caller holds the result.
    pub fn unchanging(&self) -> Reading<'a> {
        Reading::Shared { _guard: self.contents().state.read() }
    }

    /// Returns whether a program has a layout lease on the file. Such a program may access the
    /// contents on the device directly.
    pub fn is_given_away(&self) -> bool {
        self.entry.locks().is_leased_against(TO_CHANGE)
    }

    /// Breaks the layout leases on the file, and waits until their holders have returned them.
    pub fn take_back(&self) -> Result<()> {
        break_and_wait(self.entry, TO_CHANGE, self.mount.lease_grace)
    }

    /// Flushes buffered bytes to the device. Returns at once if nothing is buffered.
    pub fn write_back(&self) -> Result<()> {
        if self.has(BUFFERED) { self.settle().map(drop) } else { Ok(()) }
    }

    /// Flushes buffered bytes for a handle that is dropped (I1). The drop cannot return an error,
    /// so the volume keeps the error of a failed flush. The next sync of the file also returns the
    /// error, because bytes of another handle may be lost.
    pub fn leave(&self) {
        let ended = self.write_back();
        let failure = if !self.has(FAILED) {
            ended.err()
        } else if self.has(LEFT) {
            None
        } else {
            self.contents().notes.lock().failure.as_deref().map(Error::duplicate)
        };
        if let Some(error) = failure {
            self.contents().mark(LEFT, self.has(FAILED));
            self.mount.flusher.fail(error);
        }
    }

    /// Flushes buffered bytes to the device. If an earlier flush has failed and no caller got its
    /// error, returns that error.
    pub fn flush_for_sync(&self) -> Result<()> {
        let flushed = self.write_back();
        self.take_failure().and(flushed)
    }

    /// Locks the contents for reading, after all buffered bytes are flushed to the device.
    pub fn read_all(&self) -> Result<Reading<'a>> {
        self.read(|_| true)
    }

    /// Calls `read` with the inode, and returns the result of `read`. Before that, flushes buffered
    /// bytes to the device if they overlap the `length` bytes from `offset` on.
    pub fn read_with<T>(
        &self,
        offset: u64,
        length: usize,
        read: impl FnOnce(&Inode) -> Result<T>,
    ) -> Result<T> {
        let end = offset.saturating_add(length as u64);
        // Past the size of the inode, buffered bytes determine the end of the file.
        let meets = |buffered: &Buffered| {
            end > buffered.offset || end > self.entry.live().inode().core().size
        };
        let _reading = self.read(meets)?;
        self.mount.note_map_read();
        let _latch = self.entry.live().log_item().latch().shared();
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

    /// Writes slices one after the other, from byte `offset` of the file on. Returns the number of
    /// bytes written.
    pub fn write<'b>(
        &self,
        offset: u64,
        slices: impl Iterator<Item = &'b [u8]>,
        mode: WriteMode,
    ) -> Result<usize> {
        let mut state = self.change()?;
        write_pieces(offset, slices, |at, bytes| {
            match self.write_piece(&mut state, at, bytes, mode) {
                Err(Error::Posix(PosixError::NoSpace | PosixError::QuotaExceeded))
                    if self.free_own_ahead(&mut state)? =>
                {
                    self.write_piece(&mut state, at, bytes, mode)
                }
                written => written,
            }
        })
    }

    fn write_piece(
        &self,
        state: &mut ContentsState,
        offset: u64,
        bytes: &[u8],
        mode: WriteMode,
    ) -> Result<usize> {
        let mut core = self.entry.core();
        core.size = core.size.max(state.buffered.as_ref().map_or(0, |buffered| buffered.end()));
        if !matches!(mode, WriteMode::Writeback(_)) {
            check_writable_from(&core, offset)?;
        }
        let now = match (mode, state.buffered.as_deref()) {
            (WriteMode::Writeback(LateTimes::FromCaller), Some(buffered)) => buffered.now,
            (WriteMode::Writeback(LateTimes::FromCaller), None) => core.modify_time,
            _ => self.mount.clock.now(),
        };
        self.entry.live().check_write(&self.mount.journal, offset, bytes.len() as u64)?;
        let continues = state.next == Some(offset);
        state.written = self.mount.flusher.passes();
        let is_expected = continues
            || offset == core.size
            || state.buffered.as_ref().is_some_and(|buffered| buffered.takes(offset));
        // Buffered bytes reserve blocks of the data device.
        let joins = is_expected
            && mode != WriteMode::Direct
            && self.mount.joins_writes
            && !self.entry.live().is_realtime(self.geometry());
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let at = offset + done as u64;
            let buffered = if joins { self.buffer(state, at, rest, now) } else { Ok(None) };
            let written = match buffered {
                Ok(Some(count)) => Ok(count),
                Ok(None) => {
                    let continues = continues && joins;
                    self.write_through(
                        state,
                        DirectWrite { offset: at, bytes: rest, continues, now },
                    )
                }
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

    /// Puts as many bytes of a write into the buffer as fit, and returns their number. Returns
    /// `None` if the write must go to the device at once: it fills a whole buffer, or no blocks or
    /// memory are left for a buffer.
    fn buffer(
        &self,
        state: &mut ContentsState,
        at: u64,
        bytes: &[u8],
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
                reservation: BlockReservation::default(),
                quota: QuotaReservation::default(),
                claimed_bytes: 0,
                begun: self.mount.flusher.passes(),
            })
        });
        let room = usize::try_from(buffered.limit() - at).unwrap_or(usize::MAX);
        let (head, _) = bytes.split_at(room.min(bytes.len()));
        let end = at + head.len() as u64;
        let is_set_aside = match self.reserve(buffered, end) {
            Ok(()) => {
                let length = end - buffered.offset;
                self.mount.flusher.claim(&mut buffered.claimed_bytes, length)
            }
            Err(Error::Posix(PosixError::NoSpace)) => false,
            Err(error) => return Err(error),
        };
        if !is_set_aside {
            self.flush(state, 0)?;
            return Ok(None);
        }
        // Until the flush only memory holds the bytes, and the size and blocks that they give.
        buffered.put(at, head);
        buffered.now = now;
        let (blocks, begun) = (buffered.needed_blocks, buffered.begun);
        let shown = Shown { end: buffered.end(), blocks, now, begun };
        self.contents().notes.lock().shown = shown;
        // I3: readers of this file, and no others, look for buffered bytes from here on.
        if !self.has(BUFFERED) {
            self.contents().mark(BUFFERED, true);
            self.note_needs_flush();
        }
        Ok(Some(head.len()))
    }

    /// Reserves blocks for bytes that will be buffered up to byte `end` of the file (I2).
    fn reserve(&self, buffered: &mut Buffered, end: u64) -> Result<()> {
        let until = FileBlock(end.div_ceil(self.geometry().block_size.into()));
        if until <= buffered.counted {
            return Ok(());
        }
        let journal = &self.mount.journal;
        let new = BlockRange::between(buffered.counted, until);
        let needed = buffered.needed_blocks + self.entry.live().blocks_to_write(journal, new)?;
        let all = needed + map_blocks_at_worst(self.geometry(), needed);
        let missing = all.saturating_sub(buffered.reservation.blocks());
        let live = self.entry.live();
        let gained = needed - buffered.needed_blocks;
        let quota = self.mount.with_room(|| live.quota_for(journal, gained))?;
        buffered.quota.add(quota);
        buffered.reservation.add(self.mount.with_room(|| journal.reserve_blocks(missing))?);
        (buffered.counted, buffered.needed_blocks) = (until, needed);
        Ok(())
    }

    /// Writes to the device at once, after any buffered bytes were flushed.
    fn write_through(
        &self,
        state: &mut ContentsState,
        DirectWrite { offset, bytes, continues, now }: DirectWrite<'_>,
    ) -> Result<usize> {
        self.flush(state, 0)?;
        let (live, journal) = (self.entry.live(), &self.mount.journal);
        let end = offset + bytes.len() as u64;
        let ahead_blocks = if continues { self.ahead(end) } else { 0 };
        let written = self.mount.with_room(|| {
            let options = WriteOptions { ahead_blocks, ..WriteOptions::at(now) };
            live.write_with(journal, offset, bytes, options)
        });
        self.note_ahead(false);
        written
    }

    /// Flushes buffered bytes, and preallocates `ahead_blocks` blocks after them. Returns the
    /// memory of the buffer, emptied, so that the caller can use it again.
    fn flush(&self, state: &mut ContentsState, ahead_blocks: u64) -> Result<Vec<u8>> {
        let Some(buffered) = state.buffered.take() else { return Ok(Vec::new()) };
        let Buffered { offset, mut bytes, now, reservation, claimed_bytes, quota, .. } = *buffered;
        let quota = Some(quota);
        let options = WriteOptions { now, reservation, ahead_blocks, quota };
        let shown_blocks = self.blocks() + buffered.needed_blocks;
        let written = self.entry.live().write_with(&self.mount.journal, offset, &bytes, options);
        let flushed = match written {
            Ok(count) if count == bytes.len() => Ok(()),
            Ok(_) => Err(PosixError::NoSpace.into()),
            Err(error) => Err(error),
        };
        bytes.clear();
        self.mount.flusher.unclaim(claimed_bytes);
        self.note_ahead(self.has(BUFFERED));
        if let Err(error) = &flushed {
            self.contents().notes.lock().failure.get_or_insert_with(|| Box::new(error.duplicate()));
            self.contents().mark(LEFT, false);
            self.contents().mark(FAILED, true);
        }
        // Last, because a handle that is closed and finds nothing buffered does not wait for this
        // lock. It takes the other marks for final.
        self.contents().mark(BUFFERED, false);
        // A write that continues, and so gets preallocated blocks, is noticed by its caller.
        if ahead_blocks == 0 && self.blocks() != shown_blocks {
            self.mount.flusher.notify_listener(self.entry.number());
        }
        flushed.map(|()| bytes)
    }

    /// Records whether the file has preallocated blocks past its end, and sets or removes the tag
    /// that marks the file for the flusher. Called when no bytes are buffered any more.
    /// `was_buffered` is `true` if bytes were buffered before the caller's flush.
    fn note_ahead(&self, was_buffered: bool) {
        let is_ahead = self.entry.live().ends_past_size(self.geometry());
        let was_ahead = self.has(AHEAD);
        if is_ahead != was_ahead {
            self.contents().mark(AHEAD, is_ahead);
        }
        match (was_buffered || was_ahead, is_ahead) {
            (false, true) => self.note_needs_flush(),
            (true, false) => self.entry.set_needs_flush(false),
            _ => {}
        }
    }

    /// Returns how many blocks to preallocate past byte `end`: as many as the file has before
    /// `end`, rounded down to a power of two. On a volume that is nearly full, the number is lower.
    /// Returns 0 if blocks are mapped there already.
    #[doc(alias = "xfs_iomap_prealloc_size")]
    fn ahead(&self, end: u64) -> u64 {
        let live = self.entry.live();
        let blocks = self.geometry().file_block(end).0;
        if end < LEAST_AHEAD_BYTES || end < live.inode().core().size || live.reaches(blocks) {
            return 0;
        }
        let power = 1 << blocks.max(1).ilog2();
        let free = self.mount.free_blocks();
        let percent = free.saturating_mul(100) / self.geometry().data_blocks.max(1);
        let shift = if percent < 5 { 2 * (6 - percent as u32) } else { 0 };
        let ahead = (power.min(MAX_EXTENT_BLOCKS.into()) >> shift).min(free / 16);
        live.blocks_ahead(&self.mount.journal, ahead)
    }

    fn take_failure(&self) -> Result<()> {
        if !self.has(FAILED) {
            return Ok(());
        }
        self.contents().mark(FAILED | LEFT, false);
        let failure = self.contents().notes.lock().failure.take();
        failure.map_or(Ok(()), |error| Err(*error))
    }

    /// Returns the number of blocks that the file uses, from the core of its inode.
    fn blocks(&self) -> u64 {
        self.entry.live().inode().core().blocks
    }

    fn geometry(&self) -> &'a Geometry {
        self.mount.geometry()
    }
}
