//! A regular file or a block device of the host.
//!
//! Owns: opening with the right locks, positional I/O, durability. Does **not** own finding other
//! users of the file ([`usage`]), or the meaning of its bytes.
//!
//! # Invariants
//!
//! - **I1** A device opened for reading has a descriptor that cannot write. So no code that uses
//!   the device can change a byte.
//! - **I2** While a device is open for writing, no other program that honours the locks has the
//!   same bytes open. The locks cover every file and disk of which the device is made
//!   ([`crate::lock`]). On a block device, and on the loop devices over the same file, `O_EXCL`
//!   prevents the kernel from mounting it.
//! - **I3** The image is never mapped into memory. So if another program truncates the file,
//!   reading gives an error and not SIGBUS.
//! - **I4** A flush fails once the device's file, or a file of which the device is made, is shorter
//!   than at the open: bytes that earlier flushes made durable are lost. A write that reaches the
//!   end of the device could hide this by extending the file again, so such a write checks the
//!   length first.

use std::fs::{File, Metadata};
use std::io::{self, IoSlice, Seek, SeekFrom};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, FlockOperation, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::pipe::{SpliceFlags, splice};

use crate::device::{BlockDevice, Durability, check_read, check_write, write_zeros_plainly};
use crate::error::{DeviceError, DeviceFailure};
use crate::lock;
use crate::stack::{self, FileIdentity, Level, Shortened, Span, Twin};
use crate::usage::{self, KernelUse};

/// The sector size that is assumed for an image file, in bytes. It is the smallest one, because the
/// host guarantees no atomic unit for a write to a file.
const IMAGE_SECTOR_BYTES: u32 = 512;

/// The largest page size of any host in bytes. All other page sizes divide it.
const MAX_PAGE_BYTES: u64 = 64 << 10;

/// Whether a device is opened for reading only or also for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceAccess {
    /// Read only: no byte of the device changes.
    ReadOnly,
    /// Read and write.
    ReadWrite,
}

/// Options for opening a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOptions {
    access: DeviceAccess,
    live: bool,
}

impl FileOptions {
    /// Returns options that open a device for reading, shared with other readers.
    #[must_use]
    pub const fn read_only() -> Self {
        Self { access: DeviceAccess::ReadOnly, live: false }
    }

    /// Returns options that open a device for reading and writing. No other program may have the
    /// device open.
    #[must_use]
    pub const fn read_write() -> Self {
        Self { access: DeviceAccess::ReadWrite, live: false }
    }

    /// Allows opening for reading although another program has mounted the device or is writing to
    /// it. The bytes read may be stale or torn. Has no effect on an open for writing.
    #[must_use]
    pub const fn live(self) -> Self {
        Self { live: true, ..self }
    }

    /// Returns whether the options open for reading only, or also for writing.
    #[must_use]
    pub const fn access(self) -> DeviceAccess {
        self.access
    }

    /// Returns whether a device that is in use may be opened for reading.
    #[must_use]
    pub const fn is_live(self) -> bool {
        self.live && matches!(self.access, DeviceAccess::ReadOnly)
    }
}

/// A regular file or block device of the host.
#[derive(Debug)]
pub struct FileDevice {
    file: File,
    length_bytes: u64,
    sector_size: u32,
    is_block_device: bool,
    access: DeviceAccess,
    usage: Option<KernelUse>,
    /// The files and devices of which the device is made, open and locked.
    levels: Vec<Level>,
    /// Other devices with the same bytes. They are open with `O_EXCL`, so that no other program can
    /// mount them.
    _claims: Vec<File>,
    /// Whether this is a block device to which another program may be writing. A mounted filesystem
    /// bypasses the host cache that serves the reads of this process, so that cache may be stale.
    has_stale_cache: bool,
}

impl FileDevice {
    /// Opens the image or block device at `path`.
    ///
    /// # Errors
    ///
    /// A [`DeviceFailure`], with the path and advice for the user.
    pub fn open(path: &Path, options: FileOptions) -> Result<Self, DeviceError> {
        Self::open_typed(path, options).map_err(|failure| DeviceError::new(path, failure))
    }

    fn open_typed(path: &Path, options: FileOptions) -> Result<Self, DeviceFailure> {
        let before = std::fs::metadata(path).map_err(DeviceFailure::Open)?;
        let usage = usage::find(&before).filter(|usage| usage.conflicts(options.access));
        if let (Some(usage), false) = (&usage, options.is_live()) {
            return Err(DeviceFailure::InUse(usage.clone(), options.access));
        }
        let is_block = before.file_type().is_block_device();
        // A write-protected device can be opened, and refuses each write.
        if options.access == DeviceAccess::ReadWrite
            && is_block
            && usage::is_write_protected(&before)
        {
            return Err(DeviceFailure::WriteProtected);
        }
        if options.access == DeviceAccess::ReadWrite && is_block && usage::is_host_managed(&before)
        {
            return Err(DeviceFailure::HostManaged);
        }
        let file = open_host(path, options.access, is_block)?;
        let metadata = file.metadata().map_err(DeviceFailure::Measure)?;
        let kind = metadata.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(DeviceFailure::NotADevice(file_type_name(kind)));
        }
        let stack = Stack::new(&file, &metadata);
        let usage = usage.or_else(|| stack.usage().filter(|usage| usage.conflicts(options.access)));
        if let (Some(usage), false) = (&usage, options.is_live()) {
            return Err(DeviceFailure::InUse(usage.clone(), options.access));
        }
        lock(&file, options)?;
        let claims = stack.lock(options)?;
        let (length_bytes, sector_size) = if kind.is_block_device() {
            measure_block_device(&file).map_err(DeviceFailure::Measure)?
        } else {
            (metadata.len(), IMAGE_SECTOR_BYTES)
        };
        let is_block_device = kind.is_block_device();
        Ok(Self {
            file,
            length_bytes,
            sector_size,
            is_block_device,
            access: options.access,
            usage,
            levels: stack.levels,
            _claims: claims,
            has_stale_cache: is_block_device && options.is_live(),
        })
    }

    /// Returns the error of a read. The end of a file that has become shorter has an error of its
    /// own (I4).
    fn read_error(&self, error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => self.check_length().err().unwrap_or(error),
            _ => error,
        }
    }

    /// Returns how the kernel uses the device (a mount or a loop device), if the device was opened
    /// although it is in use. The bytes read may then be stale. Returns `None` if the kernel did
    /// not use it.
    #[must_use]
    pub fn usage(&self) -> Option<&KernelUse> {
        self.usage.as_ref()
    }
}

/// Appends `length` bytes of a file to `bytes`. The kernel writes them into memory that holds no
/// value yet. After an error some of the bytes may be appended.
fn read_spare(file: &File, bytes: &mut Vec<u8>, length: usize, offset: u64) -> io::Result<()> {
    let (start, end) = (bytes.len(), bytes.len() + length);
    while bytes.len() < end {
        bytes.reserve(end - bytes.len());
        let at = offset + (bytes.len() - start) as u64;
        match rustix::io::pread(file, rustix::buffer::spare_capacity(bytes), at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // The memory may have had room for more.
    bytes.truncate(end);
    Ok(())
}

impl BlockDevice for FileDevice {
    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    fn sector_size(&self) -> u32 {
        self.sector_size
    }

    fn is_read_only(&self) -> bool {
        self.access == DeviceAccess::ReadOnly
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        check_read(self, offset, buffer.len())?;
        if self.has_stale_cache {
            self.invalidate(offset, buffer.len() as u64);
        }
        self.file.read_exact_at(buffer, offset).map_err(|error| self.read_error(error))
    }

    fn append_at(&self, bytes: &mut Vec<u8>, length: usize, offset: u64) -> io::Result<()> {
        check_read(self, offset, length)?;
        if self.has_stale_cache {
            self.invalidate(offset, length as u64);
        }
        let start = bytes.len();
        read_spare(&self.file, bytes, length, offset).map_err(|error| {
            bytes.truncate(start);
            self.read_error(error)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64, durability: Durability) -> io::Result<()> {
        check_write(self, offset, bytes.len())?;
        if offset + bytes.len() as u64 == self.length_bytes {
            // The write could restore the file's old length, with a hole where bytes were lost
            // (I4).
            self.check_length()?;
        }
        match durability {
            Durability::Cached => self.file.write_all_at(bytes, offset),
            Durability::Durable => {
                self.write_durable(offset, bytes)?;
                self.check_length()
            }
        }
    }

    fn flush(&self) -> io::Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        self.file.sync_data()?;
        self.check_length()
    }

    /// Returns an error if a file has become shorter since it was opened (I4).
    fn check_length(&self) -> io::Result<()> {
        let now = match self.is_block_device {
            true => rustix::fs::seek(&self.file, rustix::fs::SeekFrom::End(0))?,
            false => self.file.metadata()?.len(),
        };
        if now < self.length_bytes {
            let what = if self.is_block_device { "the device" } else { "the image" };
            return Err(became_shorter(what, Shortened { before: self.length_bytes, now }));
        }
        for level in &self.levels {
            if let Some(lengths) = level.shortened()? {
                return Err(became_shorter(&level.path.display().to_string(), lengths));
            }
        }
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        check_write(self, offset, usize::try_from(length).unwrap_or(usize::MAX))?;
        // A block device discards whole sectors only. Partial sectors at the ends stay unchanged.
        let sector = u64::from(self.sector_size);
        let start = offset.next_multiple_of(sector);
        let end = (offset + length) / sector * sector;
        if start >= end {
            return Ok(());
        }
        // On block devices too this is the kernel's "write zeroes by unmapping". It fails if the
        // device cannot unmap. A host that cannot punch holes loses only space.
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, flags, start, end - start) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn write_zeros(&self, offset: u64, length: u64) -> io::Result<()> {
        check_write(self, offset, usize::try_from(length).unwrap_or(usize::MAX))?;
        // A hole in a file reads as zeros. On a block device the same call may fail or unmap, so
        // there the kernel is asked for zeros, and writes them if it has to.
        let flags = match self.is_block_device {
            true => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
            false => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        };
        if length != 0 && rustix::fs::fallocate(&self.file, flags, offset, length).is_ok() {
            return Ok(());
        }
        write_zeros_plainly(self, offset, length)
    }

    fn splice_at(&self, offset: u64, length: usize, pipe: BorrowedFd<'_>) -> io::Result<usize> {
        check_read(self, offset, length)?;
        if self.has_stale_cache {
            return Ok(0);
        }
        let (mut at, mut done) = (offset, 0);
        while done < length {
            // The thread that fills the pipe also empties it, so a wait for room would never end.
            let flags = SpliceFlags::NONBLOCK;
            match splice(&self.file, Some(&mut at), pipe, None, length - done, flags) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    fn prefetch(&self, offset: u64, length: u64) {
        self.advise(offset, length, rustix::fs::Advice::WillNeed);
    }

    fn invalidate(&self, offset: u64, length: u64) {
        // The host drops no page that the range covers only in part.
        let start = offset / MAX_PAGE_BYTES * MAX_PAGE_BYTES;
        let end = offset.saturating_add(length).div_ceil(MAX_PAGE_BYTES);
        let length = end.saturating_mul(MAX_PAGE_BYTES) - start;
        self.advise(start, length, rustix::fs::Advice::DontNeed);
    }
}

impl Drop for FileDevice {
    /// Releases the locks. Closing is not enough: a child process has a copy of the descriptor, and
    /// with it the lock, until it executes its program.
    fn drop(&mut self) {
        let levels = self.levels.iter().filter_map(|level| level.file.as_ref());
        for file in levels.chain([&self.file]) {
            lock::withdraw(file);
            // An unlock without a lock fails, and nothing depends on it.
            let _ = rustix::fs::flock(file, FlockOperation::Unlock);
        }
    }
}

impl FileDevice {
    fn advise(&self, offset: u64, length: u64, advice: rustix::fs::Advice) {
        if let Some(length) = std::num::NonZeroU64::new(length) {
            // A hint: the host may refuse it, and nothing depends on it.
            let _ = rustix::fs::fadvise(&self.file, offset, Some(length), advice);
        }
    }

    /// Writes with `RWF_DSYNC`, which makes only these bytes durable. If the host does not support
    /// it, writes and then syncs the whole file.
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            let at = offset + written as u64;
            let slices = [IoSlice::new(rest)];
            match rustix::io::pwritev2(&self.file, &slices, at, ReadWriteFlags::DSYNC) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    self.file.write_all_at(rest, at)?;
                    return self.file.sync_data();
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Opens the path. `O_NONBLOCK` prevents the open from waiting if the path leads to a FIFO.
fn open_host(path: &Path, access: DeviceAccess, is_block: bool) -> Result<File, DeviceFailure> {
    let write = access == DeviceAccess::ReadWrite;
    let mut flags = OFlags::NONBLOCK;
    if write && is_block {
        flags |= OFlags::EXCL;
    }
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let opened = File::options().read(true).write(write).custom_flags(flags).open(path);
    opened.map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => DeviceFailure::Busy,
        io::ErrorKind::IsADirectory => DeviceFailure::NotADevice("a directory"),
        _ => DeviceFailure::Open(error),
    })
}

/// Locks the file with flock(2), shared for a reader and exclusively for a writer, and announces
/// the use of all its bytes (`lock`). With the option `live`, a reader continues if a lock or the
/// announcement is refused. The kernel's own users of the file, such as a mount, take no such lock.
/// So the lock neither disturbs them nor is refused because of them.
fn lock(file: &File, options: FileOptions) -> Result<(), DeviceFailure> {
    let operation = match options.access {
        DeviceAccess::ReadOnly => FlockOperation::NonBlockingLockShared,
        DeviceAccess::ReadWrite => FlockOperation::NonBlockingLockExclusive,
    };
    match rustix::fs::flock(file, operation) {
        Ok(()) if lock::announce(file, Span::WHOLE, options.access) || options.is_live() => Ok(()),
        Ok(()) => Err(DeviceFailure::Locked(options.access)),
        Err(Errno::WOULDBLOCK) if options.is_live() => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(DeviceFailure::Locked(options.access)),
        // Some network filesystems cannot lock. Reading is safe for the image without a lock.
        Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::BADF)
            if options.access == DeviceAccess::ReadOnly =>
        {
            Ok(())
        }
        Err(error) => Err(DeviceFailure::Lock(error.into())),
    }
}

/// The files and disks of which a device is made, and the other devices made of the same files.
struct Stack {
    levels: Vec<Level>,
    twins: Vec<Twin>,
}

impl Stack {
    fn new(file: &File, metadata: &Metadata) -> Self {
        let levels = stack::levels_below(file, metadata);
        let twins = stack::twins(FileIdentity::of(metadata), &levels);
        Self { levels, twins }
    }

    /// Returns how the kernel uses the same bytes, for example through a mount of another device.
    /// Returns `None` if the kernel does not use them.
    fn usage(&self) -> Option<KernelUse> {
        usage::find_in_stack(&self.levels, &self.twins)
    }

    /// Locks every file and disk of which the device is made. For a writer, also opens with
    /// `O_EXCL` the devices through which the kernel could mount the same bytes, and returns them.
    fn lock(&self, options: FileOptions) -> Result<Vec<File>, DeviceFailure> {
        let access = options.access;
        for level in &self.levels {
            if !lock::lock_level(level, access) && !options.is_live() {
                return Err(DeviceFailure::LockedBelow { access, below: level.path.clone() });
            }
        }
        match access {
            DeviceAccess::ReadWrite => self.claim(),
            DeviceAccess::ReadOnly => self.look_at_twins(options).map(|()| Vec::new()),
        }
    }

    /// Opens with `O_EXCL` every device through which the kernel could mount the same bytes, and
    /// returns them.
    fn claim(&self) -> Result<Vec<File>, DeviceFailure> {
        let below = self.levels.iter().filter(|level| level.is_unclaimed && level.span.is_whole());
        let below = below.map(|level| (&level.path, &level.path));
        let beside = self.twins.iter().map(|twin| (&twin.node, &twin.common));
        let mut claims = Vec::new();
        for (node, common) in below.chain(beside) {
            let flags = OFlags::NONBLOCK | OFlags::EXCL;
            let flags = i32::try_from(flags.bits()).unwrap_or(0);
            match File::options().read(true).custom_flags(flags).open(node) {
                Ok(file) => claims.push(file),
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    let (twin, common) = (node.clone(), common.clone());
                    return Err(DeviceFailure::TwinBusy { twin, common });
                }
                // The device is detached by now, or closed to this user. A lock then shows its
                // writer.
                Err(_) => {}
            }
        }
        Ok(claims)
    }

    /// Returns an error if another device made of the same file (a twin) has a writer. Checks only
    /// the twins whose common file this process cannot open: there the lock on the twin stands for
    /// the lock on the file.
    fn look_at_twins(&self, options: FileOptions) -> Result<(), DeviceFailure> {
        for twin in self.twins.iter().filter(|twin| twin.is_meeting_place) {
            let Ok(file) = File::open(&twin.node) else { continue };
            let shared = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared);
            if shared == Err(Errno::WOULDBLOCK) && !options.is_live() {
                let (twin, common) = (twin.node.clone(), twin.common.clone());
                return Err(DeviceFailure::TwinBusy { twin, common });
            }
        }
        Ok(())
    }
}

fn became_shorter(what: &str, Shortened { before, now }: Shortened) -> io::Error {
    let message =
        format!("{what} became shorter while it was in use: {now} of {before} bytes are left");
    io::Error::new(io::ErrorKind::UnexpectedEof, message)
}

fn measure_block_device(mut file: &File) -> io::Result<(u64, u32)> {
    let length_bytes = file.seek(SeekFrom::End(0))?;
    Ok((length_bytes, rustix::fs::ioctl_blksszget(file)?))
}

fn file_type_name(kind: std::fs::FileType) -> &'static str {
    if kind.is_dir() {
        "a directory"
    } else if kind.is_char_device() {
        "a character device"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "something else"
    }
}

#[cfg(test)]
mod tests;
