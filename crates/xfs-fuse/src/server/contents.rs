//! Serves requests about the contents of files: read, write, seek, copy, allocate, sync.

use std::sync::Arc;

use ferroxfs::attr::ExtendedFlags;
use ferroxfs::contents::{AllocateMode, ExtentLoan, LateTimes, RangeMode};
use ferroxfs::{Capabilities, Error, File, Node, PosixError};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{Server, SyncPolicy, errno};
use crate::statistics::Direction;
use crate::transport::wire::{
    AllocateIn, CopyFileRangeIn, FSYNC_DATA_ONLY, FsyncIn, OpenIn, OpenOut, ROOT_NODE, ReadIn,
    SeekIn, SeekOut, WRITE_CACHE, WRITE_KILL_SET_IDS, WriteIn, WriteOut,
};
use crate::transport::{MAX_WRITE_BYTES, PipeLease, Reply, Request};

/// The single bit O_DSYNC. `OFlags::DSYNC` has the value of O_SYNC, which is this bit and one more.
pub(super) const DSYNC: OFlags = OFlags::from_bits_retain(libc::O_DSYNC as u32);

/// The value of lseek's argument `whence` that seeks data. The next constant is the value that
/// seeks a hole.
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;
/// The bit of fallocate's argument `mode` that keeps the size of the file. The next constants are
/// the other bits of the argument.
const KEEP_SIZE: u32 = 0x01;
const PUNCH_HOLE: u32 = 0x02;
const COLLAPSE_RANGE: u32 = 0x08;
const ZERO_RANGE: u32 = 0x10;
const INSERT_RANGE: u32 = 0x20;
const UNSHARE_RANGE: u32 = 0x40;
/// The set-ID bits of a mode.
const SET_IDS: u16 = 0o6000;
/// The most bytes copied at a time if the files cannot share blocks.
const COPY_BYTES: u64 = 1 << 20;

/// Returns whether a file that is opened with these flags may be written to.
fn writes(flags: u32) -> bool {
    matches!(flags_of(flags) & OFlags::RWMODE, OFlags::WRONLY | OFlags::RDWR)
}

fn flags_of(flags: u32) -> OFlags {
    OFlags::from_bits_retain(flags)
}

/// Returns whether the file is also open for writing through another handle. That handle's program
/// may have mapped the file, and the kernel sends changes of a mapped page to the server only when
/// it writes the page back. Until then, a range that is a hole on the volume may have data.
fn others_write(file: &File) -> bool {
    file.opens().is_ok_and(|opens| opens.writes > u64::from(file.is_writable()))
}

impl Server {
    pub(super) fn open(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        if self.settings.read_only && !self.is_checking() {
            return Err(Errno::NOSYS);
        }
        let (wanted, _) = request.argument::<OpenIn>()?;
        self.check_open(request, wanted.flags)?;
        let node = self.node(request.node())?;
        if writes(wanted.flags) {
            let flags = flags_of(wanted.flags);
            let kept = node.metadata().xflags;
            let only_adds = flags.contains(OFlags::APPEND) && !flags.contains(OFlags::TRUNC);
            if kept.contains(ExtendedFlags::IMMUTABLE)
                || kept.contains(ExtendedFlags::APPEND) && !only_adds
            {
                return Err(Errno::PERM);
            }
        }
        let handle = self.opened(&node, wanted.flags)?;
        let flags = self.open_flags(&node, writes(wanted.flags));
        reply.add(&OpenOut { handle, flags, padding: 0 });
        Ok(())
    }

    pub(super) fn release(&self, request: &Request<'_>) -> Result<(), Errno> {
        let (handle, _) = request.argument::<u64>()?;
        drop(self.handles.close(handle));
        Ok(())
    }

    /// Opens a node with these flags of open(2) and returns the handle.
    pub(super) fn opened(&self, node: &Node, flags: u32) -> Result<u64, Errno> {
        let file = if writes(flags) { node.open() } else { node.open_read_only() };
        Ok(self.handles.open(file.map_err(errno)?))
    }

    /// Returns the file of a handle. On a read-only mount the kernel opens no handle. The node is
    /// then opened here, because nothing is written and the kernel has checked permissions.
    fn file(&self, node: u64, handle: u64) -> Result<Arc<File>, Errno> {
        match self.handles.file(handle) {
            Some(file) => Ok(file),
            None if self.is_checking() => Err(Errno::BADF),
            None => self.node(node)?.open().map(Arc::new).map_err(errno),
        }
    }

    pub(super) fn read(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let (wanted, _) = request.argument::<ReadIn>()?;
        let file = self.file(request.node(), wanted.handle)?;
        let most = wanted.size.min(MAX_WRITE_BYTES) as usize;
        // The kernel also reads for itself, around the data that a program writes. The access time
        // is updated first, so that it is visible to a program that has the answer.
        if flags_of(wanted.flags) & OFlags::RWMODE != OFlags::WRONLY {
            self.note_access(file.node(), flags_of(wanted.flags));
        }
        let read = match reply.pipe_for(most) {
            Some(pipe) => send_from_image(&file, wanted.offset, most, pipe, reply)?,
            None => None,
        };
        let read = match read {
            Some(sent) => sent,
            None => {
                reply.fill_with(most, |room| file.read_at(room, wanted.offset).map_err(errno))?;
                reply.body_length()
            }
        };
        self.statistics.add_bytes(Direction::Read, read);
        Ok(())
    }

    pub(super) fn write(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let (wanted, rest) = request.argument::<WriteIn>()?;
        let bytes = rest.get(..wanted.size as usize).ok_or(Errno::IO)?;
        let file = self.file(request.node(), wanted.handle)?;
        let is_late = wanted.write_flags & WRITE_CACHE != 0;
        let written = if is_late {
            // The privileges were dropped when the program wrote, if that was needed, and the
            // program may have set new ones since. For such a write the kernel checks the error
            // only, not the number of bytes written. It sends no times for data that a program has
            // written to a mapping, unless it maintains the times.
            let times =
                if self.settings.writeback { LateTimes::FromCaller } else { LateTimes::Now };
            file.write_back_at(bytes, wanted.offset, times).map_err(errno)?;
            bytes.len()
        } else {
            let set_ids = wanted.write_flags & WRITE_KILL_SET_IDS != 0;
            self.drop_privileges(&file, set_ids, reply)?;
            file.write_at(bytes, wanted.offset).map_err(errno)?
        };
        // The kernel sends an FSYNC after each write with O_SYNC or O_DSYNC, but not for files that
        // bypass its page cache, which are the append-only ones.
        let flags = flags_of(wanted.flags);
        let is_all_synced = self.settings.durability == SyncPolicy::All;
        if is_all_synced || flags.contains(OFlags::APPEND | OFlags::SYNC) {
            file.sync_all().map_err(errno)?;
        } else if flags.contains(OFlags::APPEND | DSYNC) {
            file.sync_data().map_err(errno)?;
        }
        self.statistics.add_bytes(Direction::Written, written);
        reply.add(&WriteOut { size: written as u32, padding: 0 });
        Ok(())
    }

    /// Removes privileges of a file before its contents change: its capabilities, and its set-ID
    /// bits if `set_ids` is true.
    fn drop_privileges(
        &self,
        file: &File,
        set_ids: bool,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        if file.node().drop_privileges(set_ids).map_err(errno)? {
            reply.invalidate_attributes(self.node_of(file.node().number()));
        }
        Ok(())
    }

    /// Returns whether the server must remove the set-ID bits for a request that lacks the flag for
    /// their removal. The kernel's rule depends on `CAP_FSETID`, and requests do not tell whether
    /// the caller has this capability.
    fn loses_set_ids(&self, request: &Request<'_>, file: &File) -> bool {
        if !self.is_checking() {
            return request.uid() != 0;
        }
        // Most files have no set-ID bits, which saves looking up the caller.
        let has_some = file.metadata().mode & SET_IDS != 0;
        has_some && self.context(request).has(Capabilities::FSETID) != Some(true)
    }

    pub(super) fn fsync(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        if self.settings.read_only {
            return Ok(());
        }
        // An fsync of the root syncs everything. The kernel sends nothing else when a mount becomes
        // read-only, and all earlier writes must be durable then.
        if request.node() == ROOT_NODE {
            return self.sync();
        }
        let (wanted, _) = request.argument::<FsyncIn>()?;
        let node = self.node(request.node())?;
        if wanted.fsync_flags & FSYNC_DATA_ONLY != 0 {
            node.sync_data().map_err(errno)?;
        } else {
            self.write_waiting_time(node.number());
            node.sync().map_err(errno)?;
        }
        self.note_written(&node, reply);
        Ok(())
    }

    pub(super) fn allocate(
        &self,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let (wanted, _) = request.argument::<AllocateIn>()?;
        let size = if wanted.mode & KEEP_SIZE != 0 {
            AllocateMode::KeepSize
        } else {
            AllocateMode::Extend
        };
        let mode = match wanted.mode & !KEEP_SIZE {
            0 => RangeMode::Allocate(size),
            PUNCH_HOLE if size == AllocateMode::KeepSize => RangeMode::Punch,
            ZERO_RANGE => RangeMode::Zero(size),
            COLLAPSE_RANGE if size == AllocateMode::Extend => RangeMode::Collapse,
            INSERT_RANGE if size == AllocateMode::Extend => RangeMode::Insert,
            UNSHARE_RANGE => RangeMode::Unshare(size),
            _ => return Err(Errno::OPNOTSUPP),
        };
        let end = wanted.offset.checked_add(wanted.length).ok_or(Errno::FBIG)?;
        let file = self.file(request.node(), wanted.handle)?;
        self.drop_privileges(&file, self.loses_set_ids(request, &file), reply)?;
        if let Err(error) = file.change_range(wanted.offset..end, mode) {
            // The kernel drops its pages of the range if this succeeds. It may fail after a part
            // was done.
            if !matches!(mode, RangeMode::Allocate(_)) {
                reply.invalidate_contents(request.node());
            }
            return Err(errno(error));
        }
        self.sync_if_required(file.node())
    }

    pub(super) fn seek(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        if self.settings.writeback {
            // The kernel may hold data for a hole on the volume. After ENOSYS it reports everything
            // as data.
            return Err(Errno::NOSYS);
        }
        let (wanted, _) = request.argument::<SeekIn>()?;
        let file = self.file(request.node(), wanted.handle)?;
        let is_data = match wanted.whence {
            SEEK_DATA => true,
            SEEK_HOLE => false,
            _ => return Err(Errno::INVAL),
        };
        let found = if others_write(&file) {
            let size = file.metadata().size;
            Ok((wanted.offset < size).then_some(if is_data { wanted.offset } else { size }))
        } else if is_data {
            file.seek_data(wanted.offset)
        } else {
            file.seek_hole(wanted.offset)
        };
        let offset = found.map_err(errno)?.ok_or(Errno::NXIO)?;
        reply.add(&SeekOut { offset });
        Ok(())
    }

    /// Serves COPY_FILE_RANGE. Shares whole blocks if the volume supports that, and otherwise
    /// copies bytes.
    pub(super) fn copy_range(
        &self,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let (wanted, _) = request.argument::<CopyFileRangeIn>()?;
        let source = self.file(request.node(), wanted.handle)?;
        let target = self.file(wanted.node_out, wanted.handle_out)?;
        self.drop_privileges(&target, self.loses_set_ids(request, &target), reply)?;
        // A short copy is no error: the caller continues.
        let there = source.metadata().size.saturating_sub(wanted.offset);
        let length = wanted.length.min(there).min(u64::from(u32::MAX) & !(COPY_BYTES - 1));
        let copied = match length {
            0 => 0,
            _ => {
                let from = FilePosition { file: &source, offset: wanted.offset };
                let to = FilePosition { file: &target, offset: wanted.offset_out };
                copy(from, to, length, || reply.invalidate_contents(wanted.node_out))?
            }
        };
        if self.settings.durability == SyncPolicy::All {
            target.sync_all().map_err(errno)?;
        }
        reply.add(&WriteOut { size: copied as u32, padding: 0 });
        Ok(())
    }
}

/// An offset in an open file.
#[derive(Clone, Copy)]
struct FilePosition<'a> {
    file: &'a File,
    offset: u64,
}

/// Copies a range by sharing its blocks. If that is not possible, copies the first part of the
/// range as bytes. Returns the number of bytes copied; the kernel then drops its cached pages for
/// this many bytes of the target. Sharing that fails half way may have changed more bytes of the
/// target than this number. The function then calls `note_part`, which must make the kernel drop
/// its other cached pages of the target.
fn copy(
    from: FilePosition<'_>,
    to: FilePosition<'_>,
    length: u64,
    note_part: impl FnOnce(),
) -> Result<u64, Errno> {
    let cloned = to.file.clone_range(to.offset, from.file, from.offset, length);
    let Err(error) = cloned else { return Ok(length) };
    if !is_refused(&error) {
        note_part();
    }
    copy_bytes(from, to, length.min(COPY_BYTES))
}

/// Returns whether an error of [`File::clone_range`] means that nothing was done, because the files
/// cannot share blocks or the range does not consist of whole blocks.
fn is_refused(error: &Error) -> bool {
    use PosixError::{BadDescriptor, CrossDevice, InvalidArgument, NotPermitted, NotSupported};
    let refusals = [BadDescriptor, CrossDevice, InvalidArgument, NotPermitted, NotSupported];
    match error {
        Error::Posix(case) => refusals.contains(case),
        Error::Unsupported(_) => true,
        _ => false,
    }
}

/// Answers a READ through a pipe with data of the image, without a copy in this process. Returns
/// the length of the data in bytes. Returns `None` if nothing was sent: the caller must then answer
/// with copied data.
///
/// The blocks are on loan until the kernel has its own copy: until then they are neither reused nor
/// overwritten. So no later write, to this file or to another one, can change the answer.
fn send_from_image(
    file: &File,
    offset: u64,
    most: usize,
    pipe: PipeLease<'_>,
    reply: &mut Reply<'_>,
) -> Result<Option<usize>, Errno> {
    let send = |place: ExtentLoan<'_>| {
        let length = place.length();
        let is_sent = reply.send_through_pipe(pipe, length, |pipe| place.splice_into(pipe));
        is_sent.then_some(length)
    };
    file.lend_at(offset, most, send).map(Option::flatten).map_err(errno)
}

/// Copies up to `length` bytes from file to file, through one buffer in memory. Returns the number
/// of bytes copied.
fn copy_bytes(from: FilePosition<'_>, to: FilePosition<'_>, length: u64) -> Result<u64, Errno> {
    let mut bytes = vec![0; length as usize];
    let read = from.file.read_at(&mut bytes, from.offset).map_err(errno)?;
    let bytes = bytes.get(..read).expect("a read returns at most the length of its buffer");
    to.file.write_at(bytes, to.offset).map(|written| written as u64).map_err(errno)
}
