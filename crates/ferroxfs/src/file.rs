//! Reading and writing a regular file.

mod contents;
mod description;
mod locks;
mod opening;
mod place;
mod ranges;
mod unsettled;

use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use xfs_buffer::PosixError;
use xfs_format::inode::InodeFlags2;
use xfs_inode::Inode;
use xfs_locks::OpenMode;
use xfs_sync::{AtomicBool, Object, Ordering};

use crate::Result;
use crate::credentials::Capabilities;
use crate::errno::to_io_error;
use crate::kind::CachedInode;
use crate::metadata::Metadata;
use crate::node::Node;
use crate::watch::WatchEvents;
use crate::writing::{Acting, Parts, Writer, check_mutable};
use contents::{Reading, Way};
use description::Description;

pub(crate) use contents::{Contents, Left, OpenContents, Patience};
pub use locks::LockOwner;
pub use place::Place;
pub use ranges::{AllocateMode, RangeMode};
pub(crate) use unsettled::Unsettled;

/// A regular file that is open: for reading, and for writing where its volume is.
///
/// Every method that takes an offset may be called from any thread; [`Read`], [`Write`] and
/// [`Seek`] go through a position of this handle's own.
///
/// # What waits in memory
///
/// Small writes that go on from each other are kept in memory, up to 1 MiB of each file
/// and 64 MiB of all, and reach the device as one. Everybody who asks this volume sees them at once. They reach the device when the
/// buffer is full, before anything else that needs them there, after one or two seconds, and when the
/// handle is closed or dropped; space for them is set aside when they are written, so a volume that is
/// full says so then.
///
/// Where they cannot be written, with ENOSPC or the device's error, they are lost, and the volume goes on. Whoever has
/// them written is told: who reads them, writes elsewhere or changes the file. So is the next sync or
/// [`close`](Self::close) of the file, once; where it met a handle that was dropped, the next sync or close of the
/// volume too.
///
/// # What a crash leaves
///
/// What is written is durable once [`sync_all`](Self::sync_all), [`sync_data`](Self::sync_data) or
/// [`Volume::sync`](crate::Volume::sync) has returned, and within five seconds where nobody asks. Until then a crash
/// may leave a part of it: of what was overwritten old bytes or new ones, sector by sector, and of what was added as much
/// as the length shows, never what the blocks held before they were the file's. What changes ranges and the length
/// says for itself what it leaves. The rest is as for [every change](crate#changes).
///
/// Before somebody else than root changes contents the file loses what lets programs act in its owner's name, as by
/// [`Node::drop_privileges`], in a change of its own.
#[derive(Debug)]
pub struct File {
    node: Node,
    position: u64,
    is_direct: bool,
    /// It was opened to read too.
    reads: bool,
    /// It may have bytes in memory.
    has_written: AtomicBool<Object>,
    /// None on a volume that is open for reading: nobody has to know of its opens.
    description: Option<Arc<Description>>,
}

/// What reads and writes that pass the memory of the host by must be multiples of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "STATX_DIOALIGN")]
pub struct DirectAlignment {
    /// Of the address in memory: anything will do.
    pub memory_bytes: u32,
    /// Of offset and length.
    pub offset_bytes: u32,
}

impl Clone for File {
    fn clone(&self) -> Self {
        let has_written = AtomicBool::new(false);
        let (node, description) = (self.node.clone(), self.description.clone());
        Self { node, has_written, description, ..*self }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let Ok((parts, entry)) = self.node.writable() else { return };
        if self.has_written.load(Ordering::Relaxed) {
            parts.contents(entry).leave();
        }
    }
}

/// When a file has changed that is written to later than that was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateTimes {
    /// That is told apart, by [`Node::note_modified`](crate::Node::note_modified).
    Told,
    /// Nobody tells it: when it is written.
    Now,
}

impl File {
    /// The entry of the inode, and what its volume is written with, for who changes the contents. What must
    /// be given back first may need the volume to be not frozen, so that is waited for before.
    fn changing(&self) -> Result<(Writer<'_>, &Arc<CachedInode>)> {
        self.check_writable()?;
        let (parts, entry) = self.node.writable()?;
        Ok((parts.writer(), entry))
    }

    /// Whether it was opened for writing.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.description.as_ref().is_some_and(|open| open.mode() == OpenMode::Write)
    }

    /// Whether this handle may write. What was given away of where the data lies is taken back first.
    fn check_writable(&self) -> Result<()> {
        let (parts, _) = self.node.writable()?;
        self.description.as_ref().map_or(Ok(()), |open| open.check_writable(parts))
    }

    /// What lets a program act in the name of the file's owner goes before somebody changes the contents. Who may
    /// keep set-ID bits, as root may, keeps those, and capabilities go all the same.
    fn shed_privileges(&self, parts: &Parts) -> Result<()> {
        self.shed_privileges_for(parts, || Ok(()))
    }

    /// The same for a change that may be impossible: then nothing goes.
    fn shed_privileges_for(
        &self,
        parts: &Parts,
        check_possible: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let who = self.node.who();
        let (_, entry) = self.node.writable()?;
        let acting = Acting::within(parts, who);
        // Most files have none, and looking takes no transaction.
        let is_capable = acting.is_capable(entry)?;
        if who.somebody().is_none() && !is_capable {
            return Ok(());
        }
        check_possible()?;
        acting.drop_privileges(entry, !who.has(Capabilities::FSETID), is_capable).map(drop)
    }

    /// Lets every read and write of this handle go to the device at once, in units of
    /// [`direct_alignment`](Self::direct_alignment). What other handles have in memory goes first.
    #[must_use]
    #[doc(alias = "O_DIRECT")]
    pub fn direct(mut self, is_direct: bool) -> Self {
        self.is_direct = is_direct;
        self
    }

    /// What offsets and lengths of direct reads and writes must be multiples of: the device's sector,
    /// and blocks for a file that shares some.
    #[must_use]
    pub fn direct_alignment(&self) -> DirectAlignment {
        let geometry = self.node.cache().geometry();
        let shares = self.node.inode().core().flags2.contains(InodeFlags2::REFLINK);
        let offset_bytes = if shares { geometry.block_size } else { geometry.sector_size };
        DirectAlignment { memory_bytes: 1, offset_bytes }
    }

    /// Metadata.
    #[must_use]
    pub fn metadata(&self) -> Metadata {
        self.node.metadata()
    }

    /// The inode.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Reads from byte `offset` on; returns how many bytes were read, fewer than asked for only at
    /// the end of the file. Holes and unwritten extents read as zeros.
    ///
    /// # Errors
    ///
    /// EBADF for a file that is open for writing only; EINVAL for a direct read that is not aligned; EOPNOTSUPP for
    /// data on a realtime device; what the write of what [waits in memory](Self#what-waits-in-memory) there meets; the
    /// device's error; what the volume holds may be corrupt.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.check_readable()?;
        self.check_alignment(offset, buffer.len())?;
        match self.node.writable() {
            Ok((parts, entry)) => {
                let cache = parts.journal.cache();
                let length = buffer.len();
                let read = |inode: &Inode| inode.read_at(cache, offset, buffer);
                parts.contents(entry).read_with(offset, length, read)
            }
            Err(_) => self.node.inode().read_at(self.node.cache(), offset, buffer),
        }
    }

    /// Reads from byte `offset` on into one buffer after the other.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at), if nothing was read before it.
    #[doc(alias = "preadv")]
    pub fn read_vectored_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<usize> {
        let mut done = 0;
        for buffer in buffers {
            let read = match self.read_at(offset + done as u64, buffer) {
                Err(_) if done > 0 => break,
                read => read?,
            };
            done += read;
            if read < buffer.len() {
                break;
            }
        }
        Ok(done)
    }

    /// The first byte at or after `offset` that holds data, or `None` if none follows. Unwritten
    /// extents count as holes.
    ///
    /// # Errors
    ///
    /// What the write of what [waits in memory](Self#what-waits-in-memory) meets, ENOSPC or the device's error;
    /// EOPNOTSUPP for data on a realtime device; what the volume holds may be corrupt.
    pub fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        let _reading = self.reading()?;
        self.node.inode().seek_data(self.node.cache(), offset)
    }

    /// The first byte at or after `offset` that is in a hole; the end of the file is one.
    /// `None` if `offset` is past the end.
    ///
    /// # Errors
    ///
    /// As [`seek_data`](Self::seek_data).
    pub fn seek_hole(&self, offset: u64) -> Result<Option<u64>> {
        let _reading = self.reading()?;
        self.node.inode().seek_hole(self.node.cache(), offset)
    }

    /// The lock of the contents of a file that may change, with everything on the device.
    fn reading(&self) -> Result<Option<Reading<'_>>> {
        let Ok((parts, entry)) = self.node.writable() else { return Ok(None) };
        parts.contents(entry).read_all().map(Some)
    }

    /// Writes at byte `offset` and returns how many bytes were written: all of them, unless the
    /// volume became full on the way. What lies between the end of the file and `offset` reads as
    /// zeros. The data is on the device before the file shows it on disk, so that a crash exposes
    /// nothing that was there before.
    ///
    /// # Errors
    ///
    /// - EBADF for a file that is not open for writing.
    /// - EPERM for an immutable file, and before the end of an append-only one.
    /// - EINVAL for a direct write that is not aligned.
    /// - EFBIG past what a file can have, in bytes or in extents.
    /// - ENOSPC, if nothing was written before it.
    /// - What the write of what [waits in memory](Self#what-waits-in-memory) meets, and those of
    ///   [every change](crate#errors).
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<usize> {
        self.write_slices(offset, bytes.len(), std::iter::once(bytes), self.way())
    }

    /// As [`write_at`](Self::write_at), of bytes that a cache in front of this volume has acknowledged
    /// before: flags that the file has got since do not keep them away, and privileges stay. All of them are written, or the error is returned that
    /// the rest has met: who gives up what he has kept of them must not take a part for the whole.
    ///
    /// # Errors
    ///
    /// As [`write_at`](Self::write_at), but for EPERM. What was written before an error stays.
    pub fn write_back_at(&self, offset: u64, bytes: &[u8], times: LateTimes) -> Result<()> {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let slices = std::iter::once(rest);
            let way = Way::Acknowledged(times);
            match self.write_slices(offset + done as u64, rest.len(), slices, way)? {
                0 => return Err(PosixError::NoSpace.into()),
                count => done += count,
            }
        }
        Ok(())
    }

    /// Writes one slice after the other from byte `offset` on; nobody writes between them.
    ///
    /// # Errors
    ///
    /// As [`write_at`](Self::write_at), if nothing was written before it.
    #[doc(alias = "pwritev")]
    pub fn write_vectored_at(&self, offset: u64, slices: &[IoSlice<'_>]) -> Result<usize> {
        let length = slices.iter().map(|slice| slice.len()).sum();
        self.write_slices(offset, length, slices.iter().map(|slice| &**slice), self.way())
    }

    fn way(&self) -> Way {
        if self.is_direct { Way::Direct } else { Way::Joined }
    }

    fn write_slices<'b>(
        &self,
        offset: u64,
        length: usize,
        slices: impl Iterator<Item = &'b [u8]>,
        way: Way,
    ) -> Result<usize> {
        let (parts, entry) = self.changing()?;
        self.check_alignment(offset, length)?;
        // What was acknowledged before has taken them then, and the file may have got new ones since.
        if length > 0 && !matches!(way, Way::Acknowledged(_)) {
            self.shed_privileges(&parts)?;
        }
        if !self.has_written.load(Ordering::Relaxed) {
            self.has_written.store(true, Ordering::Relaxed);
        }
        let written = parts.contents(entry).write(offset, slices, way)?;
        parts.notify(entry, WatchEvents::MODIFY);
        Ok(written)
    }

    fn check_readable(&self) -> Result<()> {
        if self.reads { Ok(()) } else { Err(PosixError::BadDescriptor.into()) }
    }

    fn check_alignment(&self, offset: u64, length: usize) -> Result<()> {
        if !self.is_direct {
            return Ok(());
        }
        let unit = u64::from(self.direct_alignment().offset_bytes);
        let is_aligned = offset.is_multiple_of(unit) && (length as u64).is_multiple_of(unit);
        if is_aligned { Ok(()) } else { Err(PosixError::InvalidArgument.into()) }
    }

    /// Sets the length: what is cut off is freed, what is added reads as zeros.
    ///
    /// It is durable with the next [`sync_all`](Self::sync_all) of the file, or whatever else makes the log
    /// durable. A crash before that leaves the new length or the old one. With the old one, what was to be cut
    /// off may read as zeros to the end of its block: it is overwritten before the length changes.
    ///
    /// # Errors
    ///
    /// - EBADF for a file that is not open for writing.
    /// - EPERM for an immutable or append-only file.
    /// - EFBIG past what a file can have.
    /// - ENOSPC where the block at the end is shared and must be copied.
    /// - What the write of what [waits in memory](Self#what-waits-in-memory) meets, and those of
    ///   [every change](crate#errors).
    pub fn set_len(&self, length_bytes: u64) -> Result<()> {
        let (parts, entry) = self.changing()?;
        let _contents = parts.contents(entry).settle_to_change()?;
        check_mutable(&entry.core())?;
        self.shed_privileges(&parts)?;
        let (live, now) = (entry.live(), parts.clock.now());
        parts.with_room(|| live.truncate(&parts.journal, length_bytes, now))?;
        parts.notify(entry, WatchEvents::MODIFY);
        Ok(())
    }

    /// Returns when the data and everything of the inode is durable, its names included where they
    /// were made before.
    ///
    /// # Errors
    ///
    /// As [`Node::sync`].
    pub fn sync_all(&self) -> Result<()> {
        self.node.sync()
    }

    /// Returns when the data, and what is needed to read it, is durable: [`Node::sync_data`].
    ///
    /// # Errors
    ///
    /// As [`sync_all`](Self::sync_all).
    pub fn sync_data(&self) -> Result<()> {
        self.node.sync_data()
    }

    /// Writes what is in memory to the device, and gives the handle up. Dropping it does the same, and
    /// leaves an error to [`Volume::sync`](crate::Volume::sync) or
    /// [`Volume::close`](crate::Volume::close).
    ///
    /// # Errors
    ///
    /// That of a write that was [lost](Self#what-waits-in-memory). The handle is given up all the same.
    pub fn close(self) -> Result<()> {
        match self.node.writable() {
            Ok((parts, entry)) => parts.contents(entry).flush_for_sync(),
            Err(_) => Ok(()),
        }
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.read_at(self.position, buffer).map_err(to_io_error)?;
        self.position += read as u64;
        Ok(read)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let read = self.read_vectored_at(self.position, buffers).map_err(to_io_error)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.write_at(self.position, bytes).map_err(to_io_error)?;
        self.position += written as u64;
        Ok(written)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let written = self.write_vectored_at(self.position, slices).map_err(to_io_error)?;
        self.position += written as u64;
        Ok(written)
    }

    /// Writes what is in memory to the device: use [`File::sync_all`] to have it durable.
    fn flush(&mut self) -> io::Result<()> {
        match self.node.writable() {
            Ok((parts, entry)) => parts.contents(entry).write_back().map_err(to_io_error),
            Err(_) => Ok(()),
        }
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(distance) => self.metadata().size.checked_add_signed(distance),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
        };
        self.position = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
