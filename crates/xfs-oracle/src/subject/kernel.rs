//! The kernel's XFS as a subject (a filesystem under test), through system calls.

use std::ffi::CString;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FallocateFlags, FileType, Mode, OFlags, RenameFlags, SeekFrom, Timespec,
    Timestamps, XattrFlags,
};
use rustix::io::Errno;

use super::{SeekKind, Subject, scan};
use crate::ioctl::{self, RangePair};
use crate::model::{
    AllocationMode, Durable, FileRanges, FileTarget, IoMode, NodeSettings, Operation, Outcome,
    RenameMode, SLOTS, SetMode, bytes, list_value, names, pattern,
};
use crate::view::Time;

/// A folder of a volume that is mounted in the kernel, as a subject.
#[derive(Debug)]
pub struct Kernel {
    root: PathBuf,
    slots: [Option<File>; SLOTS],
}

/// A file that was opened for one operation only, or a file that an earlier operation has left open
/// in a slot.
enum FileHandle<'a> {
    Opened(File),
    Slot(&'a File),
}

impl FileHandle<'_> {
    fn file(&self) -> &File {
        match self {
            Self::Opened(file) => file,
            Self::Slot(file) => file,
        }
    }
}

impl Kernel {
    /// Creates a subject for the folder `root` of a mounted volume. Sets the umask of this process
    /// to 0.
    pub fn new(root: &Path) -> Self {
        rustix::process::umask(Mode::empty());
        Self { root: root.to_owned(), slots: Default::default() }
    }

    fn path(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }

    fn open(&self, path: &str, flags: OFlags) -> Result<File, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::open(self.path(path), flags, Mode::empty()).map(File::from)
    }

    fn file(&self, target: &FileTarget, flags: OFlags) -> Result<FileHandle<'_>, Errno> {
        match target {
            FileTarget::Path(path) => self.open_file(path, flags).map(FileHandle::Opened),
            FileTarget::Slot(slot) => self.slot(*slot).map(FileHandle::Slot),
        }
    }

    /// Returns an open file for `target`. If `target` is a path, opens it with `flags`. If `target`
    /// is a slot, uses the file that is open in it. For direct I/O, opens the file once more with
    /// O_DIRECT.
    fn file_for(
        &self,
        target: &FileTarget,
        flags: OFlags,
        way: IoMode,
    ) -> Result<FileHandle<'_>, Errno> {
        let held = self.file(target, flags)?;
        let IoMode::Direct = way else { return Ok(held) };
        let path = format!("/proc/self/fd/{}", held.file().as_raw_fd());
        let flags = flags | OFlags::DIRECT | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty()).map(|file| FileHandle::Opened(file.into()))
    }

    fn open_file(&self, path: &str, flags: OFlags) -> Result<File, Errno> {
        self.refuse_special(path, Errno::INVAL)?;
        let file = self.open(path, flags)?;
        // A directory can be opened for reading.
        match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
            FileType::Directory => Err(Errno::ISDIR),
            _ => Ok(file),
        }
    }

    /// Returns `error` if `path` is a device, a pipe or a socket. Not XFS but the driver decides
    /// about opening such files, so the tests do not open them.
    fn refuse_special(&self, path: &str, error: Errno) -> Result<(), Errno> {
        match FileType::from_raw_mode(rustix::fs::lstat(self.path(path))?.st_mode) {
            FileType::RegularFile | FileType::Directory | FileType::Symlink => Ok(()),
            _ => Err(error),
        }
    }

    fn slot(&self, slot: usize) -> Result<&File, Errno> {
        self.slots.get(slot).and_then(Option::as_ref).ok_or(Errno::BADF)
    }

    fn put(&mut self, slot: usize, file: Option<File>) -> Result<(), Errno> {
        *self.slots.get_mut(slot).ok_or(Errno::BADF)? = file;
        Ok(())
    }

    fn create(&self, path: &str, mode: u32) -> Result<(), Errno> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::open(self.path(path), flags, Mode::from_raw_mode(mode)).map(drop)
    }

    fn make_node(&self, path: &str, mode: u32, major: u32, minor: u32) -> Result<(), Errno> {
        let (kind, mode_bits) = (FileType::from_raw_mode(mode), Mode::from_raw_mode(mode & 0o7777));
        let device = rustix::fs::makedev(major, minor);
        rustix::fs::mknodat(CWD, self.path(path), kind, mode_bits, device)
    }

    fn rename(&self, from: &str, to: &str, mode: RenameMode) -> Result<(), Errno> {
        let flags = match mode {
            RenameMode::Replace => RenameFlags::empty(),
            RenameMode::NoReplace => RenameFlags::NOREPLACE,
            RenameMode::Exchange => RenameFlags::EXCHANGE,
            RenameMode::Whiteout => RenameFlags::WHITEOUT,
        };
        rustix::fs::renameat_with(CWD, self.path(from), CWD, self.path(to), flags)
    }

    fn link_slot(&self, slot: usize, path: &str) -> Result<(), Errno> {
        let file = self.slot(slot)?;
        let from = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::linkat(CWD, from, CWD, self.path(path), AtFlags::SYMLINK_FOLLOW)
    }

    fn list(&self, path: &str) -> Result<Outcome, Errno> {
        let folder = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut found = Vec::new();
        for entry in Dir::new(OwnedFd::from(folder))? {
            let name = entry?.file_name().to_owned();
            if !matches!(name.to_bytes(), b"." | b"..") {
                found.push(name);
            }
        }
        found.sort();
        Ok(names(found.iter().map(|name: &CString| name.to_bytes())))
    }

    fn set_attribute(
        &self,
        path: &str,
        name: &str,
        value: &[u8],
        mode: SetMode,
    ) -> Result<(), Errno> {
        let flags = match mode {
            SetMode::Either => XattrFlags::empty(),
            SetMode::Create => XattrFlags::CREATE,
            SetMode::Replace => XattrFlags::REPLACE,
        };
        rustix::fs::lsetxattr(self.path(path), name, value, flags)
    }

    fn set_times(&self, path: &str, times: [Option<Time>; 2]) -> Result<(), Errno> {
        let stamp = |time: Option<Time>| match time {
            Some(time) => Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() },
            None => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        };
        let [accessed, modified] = times.map(stamp);
        let times = Timestamps { last_access: accessed, last_modification: modified };
        rustix::fs::utimensat(CWD, self.path(path), &times, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn set_flags(&self, path: &str, settings: &NodeSettings) -> Result<(), Errno> {
        self.refuse_special(path, Errno::NOTTY)?;
        let file = self.open(path, OFlags::RDONLY)?;
        let mut attributes = ioctl::file_attributes(&file)?;
        attributes.flags = settings.flags.bits();
        attributes.extent_size = settings.extent_size;
        attributes.project_id = settings.project_id;
        attributes.cow_extent_size = settings.cow_extent_size;
        ioctl::set_file_attributes(file, attributes)
    }

    fn sync(&self, durable: &Durable) -> Result<(), Errno> {
        match durable {
            Durable::File(target) => rustix::fs::fsync(self.file(target, OFlags::RDONLY)?.file()),
            Durable::Contents(target) => {
                rustix::fs::fdatasync(self.file(target, OFlags::RDONLY)?.file())
            }
            Durable::Directory(path) => {
                rustix::fs::fsync(self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?)
            }
            Durable::Volume => rustix::fs::syncfs(self.open("", OFlags::RDONLY)?),
        }
    }

    fn on_names(&mut self, operation: &Operation) -> Result<(), Errno> {
        match operation {
            Operation::Create { path, mode } => self.create(path, *mode),
            Operation::MakeDirectory { path, mode } => {
                rustix::fs::mkdir(self.path(path), Mode::from_raw_mode(*mode))
            }
            Operation::MakeNode { path, mode, device: (major, minor) } => {
                self.make_node(path, *mode, *major, *minor)
            }
            Operation::Symlink { target, path } => {
                rustix::fs::symlink(std::ffi::OsStr::from_bytes(target), self.path(path))
            }
            Operation::Link { from, to } => {
                let (from, to) = (self.path(from), self.path(to));
                rustix::fs::linkat(CWD, from, CWD, to, AtFlags::empty())
            }
            Operation::Unlink { path } => rustix::fs::unlink(self.path(path)),
            Operation::RemoveDirectory { path } => rustix::fs::rmdir(self.path(path)),
            Operation::Rename { from, to, mode } => self.rename(from, to, *mode),
            Operation::MakeTemporary { slot, folder, mode } => {
                let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let mode = Mode::from_raw_mode(*mode);
                let file = rustix::fs::open(self.path(folder), flags, mode)?;
                self.put(*slot, Some(file.into()))
            }
            Operation::LinkSlot { slot, path } => self.link_slot(*slot, path),
            Operation::Open { slot, path } => {
                let file = self.open_file(path, OFlags::RDWR)?;
                self.put(*slot, Some(file))
            }
            Operation::Close { slot } => {
                self.slot(*slot)?;
                self.put(*slot, None)
            }
            other => self.on_settings(other),
        }
    }

    fn on_settings(&self, operation: &Operation) -> Result<(), Errno> {
        match operation {
            Operation::SetAttribute { path, name, length, number, mode } => {
                self.set_attribute(path, name, &pattern(*number, 0, *length), *mode)
            }
            Operation::RemoveAttribute { path, name } => {
                rustix::fs::lremovexattr(self.path(path), name.as_str())
            }
            Operation::SetList { path, kind, version, entries } => {
                let value = list_value(*version, entries);
                self.set_attribute(path, kind.name(), &value, SetMode::Either)
            }
            Operation::ChangeMode { path, mode } => {
                rustix::fs::chmod(self.path(path), Mode::from_raw_mode(*mode))
            }
            Operation::ChangeOwner { path, uid, gid } => {
                let (uid, gid) = (rustix::fs::Uid::from_raw(*uid), rustix::fs::Gid::from_raw(*gid));
                let path = self.path(path);
                rustix::fs::chownat(CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
            }
            Operation::SetTimes { path, accessed, modified } => {
                self.set_times(path, [*accessed, *modified])
            }
            Operation::SetFlags { path, settings } => self.set_flags(path, settings),
            Operation::Sync(durable) => self.sync(durable),
            other => self.on_contents(other),
        }
    }

    fn on_contents(&self, operation: &Operation) -> Result<(), Errno> {
        match operation {
            Operation::Write { file, offset, length, number } => {
                let file = self.file(file, OFlags::WRONLY)?;
                let bytes = pattern(*number, *offset, *length as usize);
                file.file().write_all_at(&bytes, *offset).map_err(errno)
            }
            Operation::WritePieces { file, offset, lengths, number, way } => {
                let file = self.file_for(file, OFlags::WRONLY, *way)?;
                write_pieces(file.file(), *offset, lengths, *number)
            }
            Operation::Truncate { file, size } => {
                rustix::fs::ftruncate(self.file(file, OFlags::WRONLY)?.file(), *size)
            }
            Operation::Allocate { file, mode, offset, length } => {
                let file = self.file(file, OFlags::WRONLY)?;
                rustix::fs::fallocate(file.file(), flags(*mode), *offset, *length)
            }
            Operation::Clone(ranges) => self
                .both(ranges, OFlags::RDONLY, |from, to, span| ioctl::clone_range(from, to, span)),
            Operation::Exchange(ranges) => self
                .both(ranges, OFlags::RDWR, |from, to, span| ioctl::exchange_range(from, to, span)),
            _ => Err(Errno::INVAL),
        }
    }

    fn both<T>(
        &self,
        ranges: &FileRanges,
        flags: OFlags,
        act: impl FnOnce(&File, &File, RangePair) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let from = self.file(&ranges.from, flags)?;
        let to = self.file(&ranges.to, OFlags::RDWR)?;
        let FileRanges { from_offset, to_offset, length, .. } = *ranges;
        act(from.file(), to.file(), RangePair { from_offset, to_offset, length })
    }
}

impl Subject for Kernel {
    fn perform(&mut self, operation: &Operation) -> Result<Outcome, Errno> {
        match operation {
            Operation::Read { file, offset, length } => {
                let file = self.file(file, OFlags::RDONLY)?;
                let mut buffer = vec![0; *length as usize];
                let read = read_full(file.file(), *offset, &mut buffer)?;
                Ok(bytes(buffer.get(..read).unwrap_or_default()))
            }
            Operation::ReadPieces { file, offset, lengths, way } => {
                let file = self.file_for(file, OFlags::RDONLY, *way)?;
                read_pieces(file.file(), *offset, lengths)
            }
            Operation::Scan { file, offset } => {
                scan_file(self.file(file, OFlags::RDONLY)?.file(), *offset)
            }
            Operation::List { path } => self.list(path),
            Operation::Deduplicate(ranges) => {
                let same = |from: &File, to: &File, span| ioctl::dedupe_range(from, to, span);
                self.both(ranges, OFlags::RDONLY, same).map(Outcome::Compared)
            }
            other => self.on_names(other).map(|()| Outcome::Done),
        }
    }
}

/// Alignment in bytes that suits direct I/O on every device.
const ALIGNMENT: usize = 4096;

/// Memory that is aligned for direct I/O.
struct AlignedBuffer {
    buffer: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    fn new(length: usize) -> Self {
        let buffer = vec![0; length + ALIGNMENT];
        let start = buffer.as_ptr().align_offset(ALIGNMENT);
        Self { buffer, start, length }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.start..).and_then(|b| b.get_mut(..self.length)).unwrap_or_default()
    }
}

fn write_pieces(file: &File, offset: u64, lengths: &[u64], number: u64) -> Result<(), Errno> {
    let total = lengths.iter().sum::<u64>() as usize;
    let mut memory = AlignedBuffer::new(total);
    memory.bytes_mut().copy_from_slice(&pattern(number, offset, total));
    let mut rest: &[u8] = memory.bytes_mut();
    let mut pieces = Vec::new();
    for length in lengths {
        let (piece, after) = rest.split_at(*length as usize);
        pieces.push(IoSlice::new(piece));
        rest = after;
    }
    // A second call would be another write.
    match rustix::io::pwritev(file, &pieces, offset)? {
        written if written == total => Ok(()),
        _ => Err(Errno::NOSPC),
    }
}

fn read_pieces(file: &File, offset: u64, lengths: &[u64]) -> Result<Outcome, Errno> {
    let mut memory = AlignedBuffer::new(lengths.iter().sum::<u64>() as usize);
    let mut rest = memory.bytes_mut();
    let mut pieces = Vec::new();
    for length in lengths {
        let (piece, after) = rest.split_at_mut(*length as usize);
        pieces.push(IoSliceMut::new(piece));
        rest = after;
    }
    let read = rustix::io::preadv(file, &mut pieces, offset)?;
    Ok(bytes(memory.bytes_mut().get(..read).unwrap_or_default()))
}

fn scan_file(file: &File, offset: u64) -> Result<Outcome, Errno> {
    let size = rustix::fs::fstat(file)?.st_size as u64;
    let seek = |sought, at| match sought {
        SeekKind::Data => seek_data(file, at),
        SeekKind::Hole => seek_to(file, SeekFrom::Hole(at)),
    };
    let read = |at, length: u64| {
        let mut buffer = vec![0; length as usize];
        file.read_exact_at(&mut buffer, at).map_err(errno)?;
        Ok(buffer)
    };
    scan(offset, size, seek, read)
}

/// Returns the first offset at or after `at` where data begins, or `None` if no data follows.
///
/// If a page is cached and an unwritten block within it is not up to date, the kernel returns the
/// end of that block, even if a hole begins at that offset (seen with 6.18 and blocks of 1 KiB).
/// The search continues after this offset.
fn seek_data(file: &File, at: u64) -> Result<Option<u64>, Errno> {
    let mut found = seek_to(file, SeekFrom::Data(at))?;
    while let Some(data) = found
        && seek_to(file, SeekFrom::Hole(data))? == Some(data)
    {
        let next = seek_to(file, SeekFrom::Data(data))?;
        if next == Some(data) {
            // Persistently both data and hole, which the comparison must report.
            break;
        }
        found = next;
    }
    Ok(found)
}

/// Seeks in a file. Returns the new offset, or `None` for ENXIO.
fn seek_to(file: &File, to: SeekFrom) -> Result<Option<u64>, Errno> {
    match rustix::fs::seek(file, to) {
        Err(Errno::NXIO) => Ok(None),
        other => other.map(Some),
    }
}

fn read_full(file: &File, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + done as u64).map_err(errno)? {
            0 => break,
            count => done += count,
        }
    }
    Ok(done)
}

fn flags(mode: AllocationMode) -> FallocateFlags {
    match mode {
        AllocationMode::Allocate => FallocateFlags::empty(),
        AllocationMode::AllocateKeepSize => FallocateFlags::KEEP_SIZE,
        AllocationMode::PunchHole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        AllocationMode::Zero => FallocateFlags::ZERO_RANGE,
        AllocationMode::ZeroKeepSize => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
        AllocationMode::Collapse => FallocateFlags::COLLAPSE_RANGE,
        AllocationMode::Insert => FallocateFlags::INSERT_RANGE,
        AllocationMode::Unshare => FallocateFlags::UNSHARE_RANGE,
    }
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
