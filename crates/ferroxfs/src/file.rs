//! Reading and writing a regular file.

mod description;
mod extent_loan;
mod locks;
mod opening;
mod ranges;

use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use xfs_buffer::PosixError;
use xfs_format::inode::InodeFlags2;
use xfs_inode::Inode;
use xfs_locks::OpenMode;
use xfs_sync::{AtomicBool, Object, Ordering};
use xfs_vfs::{
    CachedInode, Capabilities, LateTimes, Metadata, Mount, OpContext, Reading, WatchEvents,
    WriteGuard, WriteMode, check_mutable,
};

use crate::Result;
use crate::node::Node;
use description::FileDescription;

pub use extent_loan::ExtentLoan;
pub use locks::LockOwner;
pub use ranges::{AllocateMode, RangeMode};

/// An open regular file, for reading, and for writing on a volume that is open for writing.
///
/// Every method that takes an offset may be called from any thread. [`Read`], [`Write`] and
/// [`Seek`] use a position of this handle.
///
/// ```
/// # let device = xfs_trans::testing::make();
/// # let volume = ferroxfs::OpenOptions::new().write(true).open_device(device)?;
/// use std::io::{Read, Seek, Write};
///
/// let mut file = volume.create_file("/log")?;
/// file.write_all(b"one two")?;
/// file.rewind()?;
/// let mut text = String::new();
/// file.read_to_string(&mut text)?;
/// assert_eq!(text, "one two");
///
/// let mut word = [0; 3];
/// file.read_at(&mut word, 4)?;
/// assert_eq!(&word, b"two");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Buffered bytes
///
/// Small writes that continue each other are kept in memory, up to 1 MiB of each file and 64 MiB in
/// total, and reach the device as one write. Every reader of this volume sees them at once. They
/// are written when the buffer is full, before any operation that needs them on the device, after
/// one or two seconds, and when the handle is closed or dropped. Space is reserved when they are
/// buffered, so that a full volume refuses the write itself.
///
/// If buffered bytes cannot be written, because of ENOSPC or an error of the device, they are lost,
/// and the volume continues. The operation that caused the write gets the error: a read, a write
/// elsewhere or a change of the file. The next sync or [`close`](Self::close) of the file gets it
/// too, once. If a dropped handle met the error, the next sync or close of the volume also gets it.
///
/// # Crash consistency
///
/// Written bytes are durable once [`sync_all`](Self::sync_all), [`sync_data`](Self::sync_data) or
/// [`Volume::sync`](crate::Volume::sync) has returned, and after at most five seconds without any
/// of these calls. Until then a crash may leave a part of them. Overwritten sectors hold the old
/// bytes or the new ones. A file that was extended has as many of the added bytes as its length
/// shows. It never shows bytes that its blocks held before they belonged to the file. Each
/// operation that changes a range or the length documents what a crash leaves. The rest is as for
/// [every change](crate#changes).
///
/// Before a caller other than root changes contents, the file loses its set-ID bits and
/// capabilities in a separate change, as by [`Node::drop_privileges`].
#[derive(Debug)]
pub struct File {
    node: Node,
    position: u64,
    is_direct: bool,
    /// Whether the file was opened for reading.
    reads: bool,
    /// Whether this handle has written bytes, which may still be buffered.
    has_written: AtomicBool<Object>,
    /// The open file description. `None` on a volume that is open for reading, which does not count
    /// opens.
    description: Option<Arc<FileDescription>>,
}

/// The alignment of direct reads and writes, which bypass the memory of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "STATX_DIOALIGN")]
#[non_exhaustive]
pub struct DirectAlignment {
    /// Alignment of the address of a buffer in memory, in bytes. It is 1: any address is allowed.
    pub memory_bytes: u32,
    /// Alignment of the offset and the length of a request, in bytes.
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
        let Ok((mount, entry)) = self.node.writable() else { return };
        if self.has_written.load(Ordering::Relaxed) {
            mount.contents(entry).leave();
        }
    }
}

impl File {
    /// Returns the cached inode and a write guard, for a change of the contents. Conflicting leases
    /// are broken before the guard is taken: a lease holder may have to wait for a thaw, and a
    /// freeze waits for the guard.
    fn changing(&self) -> Result<(WriteGuard<'_>, &Arc<CachedInode>)> {
        self.check_writable()?;
        let (mount, entry) = self.node.writable()?;
        Ok((mount.write_guard(), entry))
    }

    /// Returns whether the file was opened for writing.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.description.as_ref().is_some_and(|open| open.mode() == OpenMode::Write)
    }

    /// Checks that this handle may write, and breaks layout leases.
    fn check_writable(&self) -> Result<()> {
        let (mount, _) = self.node.writable()?;
        self.description.as_ref().map_or(Ok(()), |open| open.check_writable(mount))
    }

    /// Removes set-ID bits and capabilities of the file before a change of the contents. Set-ID
    /// bits stay if the caller may keep them, as root may. Capabilities are removed for every
    /// caller.
    fn shed_privileges(&self, mount: &Mount) -> Result<()> {
        self.shed_privileges_for(mount, || Ok(()))
    }

    /// Removes set-ID bits and capabilities as [`shed_privileges`](Self::shed_privileges) does,
    /// before a change that may fail. `check_possible` checks whether the change can succeed. If
    /// this check fails, nothing is removed.
    fn shed_privileges_for(
        &self,
        mount: &Mount,
        check_possible: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let caller = self.node.caller();
        let (_, entry) = self.node.writable()?;
        let context = OpContext::within_operation(mount, caller);
        // Most files have no capabilities, and this check needs no transaction.
        let is_capable = context.is_capable(entry)?;
        if caller.credentials().is_none() && !is_capable {
            return Ok(());
        }
        check_possible()?;
        context.drop_privileges(entry, !caller.has(Capabilities::FSETID), is_capable).map(drop)
    }

    /// Sets whether every read and write of this handle goes to the device at once, in units of
    /// [`direct_alignment`](Self::direct_alignment). Buffered bytes of other handles are written
    /// first.
    #[must_use]
    #[doc(alias = "O_DIRECT")]
    pub fn direct(mut self, is_direct: bool) -> Self {
        self.is_direct = is_direct;
        self
    }

    /// Returns the alignment of direct reads and writes: a sector of the device, or a block for a
    /// file that shares blocks.
    #[must_use]
    pub fn direct_alignment(&self) -> DirectAlignment {
        let geometry = self.node.cache().geometry();
        let shares = self.node.view().core().flags2.contains(InodeFlags2::REFLINK);
        let offset_bytes = if shares { geometry.block_size } else { geometry.sector_size };
        DirectAlignment { memory_bytes: 1, offset_bytes }
    }

    /// Returns the metadata of the file.
    #[must_use]
    pub fn metadata(&self) -> Metadata {
        self.node.metadata()
    }

    /// Returns the handle on the inode of the file.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Reads from byte `offset` on. Returns how many bytes were read, fewer than requested only at
    /// the end of the file. Holes and unwritten extents read as zeros.
    ///
    /// # Errors
    ///
    /// - EBADF for a file that is open for writing only.
    /// - EINVAL for a direct read that is not aligned.
    /// - EOPNOTSUPP for data on a realtime device.
    /// - The errors of writing [buffered bytes](Self#buffered-bytes) in the range.
    /// - The device's error.
    /// - EUCLEAN if a structure of the volume is corrupt.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.check_readable()?;
        self.check_alignment(offset, buffer.len())?;
        match self.node.writable() {
            Ok((mount, entry)) => {
                let cache = mount.journal.cache();
                let length = buffer.len();
                let read = |inode: &Inode| inode.read_at(cache, offset, buffer);
                mount.contents(entry).read_with(offset, length, read)
            }
            Err(_) => self.node.view().read_at(self.node.cache(), offset, buffer),
        }
    }

    /// Reads from byte `offset` on, and returns the number of bytes read. The bytes fill the first
    /// buffer, then the next one, and so on.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`read_at`](Self::read_at). If bytes were read before the error,
    /// returns their number instead.
    #[doc(alias = "preadv")]
    pub fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
        let mut done = 0;
        for buffer in buffers {
            let read = match self.read_at(buffer, offset + done as u64) {
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

    /// Returns the first byte at or after `offset` that holds data. `None`: no data follows.
    /// Unwritten extents count as holes.
    ///
    /// # Errors
    ///
    /// The errors of writing [buffered bytes](Self#buffered-bytes), ENOSPC or the device's error;
    /// EOPNOTSUPP for data on a realtime device; EUCLEAN for a corrupt volume.
    pub fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        let _reading = self.reading()?;
        self.node.view().seek_data(self.node.cache(), offset)
    }

    /// Returns the first byte at or after `offset` that is in a hole. The end of the file counts as
    /// a hole. `None`: `offset` is past the end.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`seek_data`](Self::seek_data).
    pub fn seek_hole(&self, offset: u64) -> Result<Option<u64>> {
        let _reading = self.reading()?;
        self.node.view().seek_hole(self.node.cache(), offset)
    }

    /// Locks the contents of a file for reading, after all its buffered bytes were written to the
    /// device. Returns `None`, and takes no lock, on a volume that is open for reading: its files
    /// cannot change.
    fn reading(&self) -> Result<Option<Reading<'_>>> {
        let Ok((mount, entry)) = self.node.writable() else { return Ok(None) };
        mount.contents(entry).read_all().map(Some)
    }

    /// Writes at byte `offset` and returns how many bytes were written: all of them, unless the
    /// volume became full on the way. The range between the end of the file and `offset` reads as
    /// zeros. The data is on the device before the file refers to it on disk, so that a crash
    /// exposes no old contents of the blocks.
    ///
    /// # Errors
    ///
    /// - EBADF for a file that is not open for writing.
    /// - EPERM for an immutable file, and before the end of an append-only one.
    /// - EINVAL for a direct write that is not aligned.
    /// - EFBIG past the largest file, in bytes or in extents.
    /// - ENOSPC if not even the first byte could be written. If some bytes were written, returns
    ///   their number instead.
    /// - The errors of writing [buffered bytes](Self#buffered-bytes), and of [every
    ///   change](crate#errors).
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<usize> {
        self.write_slices(offset, bytes.len(), std::iter::once(bytes), self.write_mode())
    }

    /// Writes as [`write_at`](Self::write_at) does, for bytes that a cache in front of this volume
    /// has acknowledged before. The bytes are written even if the file has become immutable or
    /// append-only since then, and the file keeps set-ID bits and capabilities. If only some bytes
    /// can be written, the call returns the error for the remaining bytes, so that the cache does
    /// not discard bytes that were not written.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`write_at`](Self::write_at), except EPERM. Bytes that were written
    /// before an error stay.
    pub fn write_back_at(&self, bytes: &[u8], offset: u64, times: LateTimes) -> Result<()> {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let slices = std::iter::once(rest);
            let mode = WriteMode::Writeback(times);
            match self.write_slices(offset + done as u64, rest.len(), slices, mode)? {
                0 => return Err(PosixError::NoSpace.into()),
                count => done += count,
            }
        }
        Ok(())
    }

    /// Writes the slices one after the other, from byte `offset` on, as one write: no other write
    /// comes between them.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`write_at`](Self::write_at). If bytes were written before the error,
    /// returns their number instead.
    #[doc(alias = "pwritev")]
    pub fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> Result<usize> {
        let length = slices.iter().map(|slice| slice.len()).sum();
        self.write_slices(offset, length, slices.iter().map(|slice| &**slice), self.write_mode())
    }

    fn write_mode(&self) -> WriteMode {
        if self.is_direct { WriteMode::Direct } else { WriteMode::Buffered }
    }

    fn write_slices<'b>(
        &self,
        offset: u64,
        length: usize,
        slices: impl Iterator<Item = &'b [u8]>,
        mode: WriteMode,
    ) -> Result<usize> {
        let (guard, entry) = self.changing()?;
        let mount = guard.mount();
        self.check_alignment(offset, length)?;
        // Acknowledged bytes have removed the privileges before, and the file may have got new ones
        // since.
        if length > 0 && !matches!(mode, WriteMode::Writeback(_)) {
            self.shed_privileges(mount)?;
        }
        if !self.has_written.load(Ordering::Relaxed) {
            self.has_written.store(true, Ordering::Relaxed);
        }
        let written = mount.contents(entry).write(offset, slices, mode)?;
        mount.notify(entry, WatchEvents::MODIFY);
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

    /// Sets the length. Bytes that are cut off are freed, and added bytes read as zeros.
    ///
    /// The new length is durable with the next [`sync_all`](Self::sync_all) of the file, or any
    /// other force of the log. A crash before that leaves the new length or the old one. If the old
    /// length is left, the bytes from the new end to the end of its block may read as zeros,
    /// because they are overwritten before the length changes.
    ///
    /// # Errors
    ///
    /// - EBADF for a file that is not open for writing.
    /// - EPERM for an immutable or append-only file.
    /// - EFBIG past the largest file.
    /// - ENOSPC if the block at the end is shared and must be copied.
    /// - The errors of writing [buffered bytes](Self#buffered-bytes), and of [every
    ///   change](crate#errors).
    pub fn set_len(&self, length_bytes: u64) -> Result<()> {
        let (guard, entry) = self.changing()?;
        let mount = guard.mount();
        let _contents = mount.contents(entry).settle_to_change()?;
        check_mutable(&entry.core())?;
        self.shed_privileges(mount)?;
        let (live, now) = (entry.live(), mount.clock.now());
        mount.with_room(|| live.truncate(&mount.journal, length_bytes, now))?;
        mount.notify(entry, WatchEvents::MODIFY);
        Ok(())
    }

    /// Makes the data and all metadata of the inode durable before the call returns. This includes
    /// the names that the file has got so far.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Node::sync`].
    pub fn sync_all(&self) -> Result<()> {
        self.node.sync()
    }

    /// Makes the data durable before the call returns, with the metadata that is needed to read the
    /// data, as [`Node::sync_data`] does.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`sync_all`](Self::sync_all).
    pub fn sync_data(&self) -> Result<()> {
        self.node.sync_data()
    }

    /// Writes buffered bytes to the device, and closes the handle. Dropping the handle does the
    /// same, but cannot return an error: [`Volume::sync`](crate::Volume::sync) or
    /// [`Volume::close`](crate::Volume::close) then returns it.
    ///
    /// # Errors
    ///
    /// The error of a [lost](Self#buffered-bytes) write. The handle is closed nevertheless.
    pub fn close(self) -> Result<()> {
        match self.node.writable() {
            Ok((mount, entry)) => mount.contents(entry).flush_for_sync(),
            Err(_) => Ok(()),
        }
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let read = self.read_vectored_at(buffers, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.write_at(bytes, self.position)?;
        self.position += written as u64;
        Ok(written)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let written = self.write_vectored_at(slices, self.position)?;
        self.position += written as u64;
        Ok(written)
    }

    /// Writes the file's buffered bytes to the device. [`File::sync_all`] makes them durable.
    fn flush(&mut self) -> io::Result<()> {
        match self.node.writable() {
            Ok((mount, entry)) => mount.contents(entry).write_back().map_err(io::Error::from),
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

#[cfg(test)]
mod tests;
