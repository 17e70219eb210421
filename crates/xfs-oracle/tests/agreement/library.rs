//! The library as a subject (a filesystem under test), through its own API instead of system calls.

use std::ffi::OsStr;
use std::io::{IoSlice, IoSliceMut};

use ferroxfs::DeviceNumber;
use ferroxfs::attr::ExtendedFlags;
use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::{
    CreateOptions, Error, File, FileType, NewKind, Node, SetAttributes, Timestamp, Volume,
};
use rustix::io::Errno;
use xfs_oracle::model::{
    AllocationMode, Durable, FileRanges, FileTarget, IoMode, NodeSettings, Operation, Outcome,
    Path, RenameMode, SLOTS, SetMode, bytes, list_value, names, pattern,
};
use xfs_oracle::{FileFlags, SeekKind, Subject, Time, scan};

type Result<T> = std::result::Result<T, Errno>;

/// A writable volume of the library, as a subject.
pub(crate) struct Library {
    volume: Volume,
    /// The path of the folder that serves as the root, with a trailing slash. Empty for the
    /// volume's root.
    folder: String,
    slots: [Option<File>; SLOTS],
}

/// The access for which a file is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileAccess {
    Read,
    /// Writing. The test refuses it for an immutable or append-only file, as open(2) without
    /// O_APPEND does. The library itself would allow appending.
    Write,
    /// A change of the contents other than writing, such as truncating or cloning. The library
    /// itself refuses the change if the file's flags forbid it.
    Change,
}

impl Library {
    pub(crate) fn new(volume: Volume) -> Self {
        Self { volume, folder: String::new(), slots: Default::default() }
    }

    /// Creates a subject for a new folder on a volume that other subjects also use.
    pub(crate) fn below(volume: Volume, folder: &str) -> ferroxfs::Result<Self> {
        volume.root()?.create(folder, &NewKind::Directory, &creation(0o755))?;
        Ok(Self { volume, folder: format!("{folder}/"), slots: Default::default() })
    }

    /// Closes the volume. No other handle of the volume may exist.
    pub(crate) fn close(self) -> ferroxfs::Result<()> {
        let Self { volume, slots, .. } = self;
        drop(slots);
        volume.close()
    }

    /// Returns the inode of a path. A symbolic link is not followed.
    fn node(&self, path: &str) -> Result<Node> {
        self.volume.lookup_no_follow(format!("{}{path}", self.folder)).map_err(number)
    }

    /// Returns the parent directory of a path, and the last component of the path.
    fn place<'a>(&self, path: &'a str) -> Result<(Node, &'a str)> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = self.volume.lookup(format!("{}{folder}", self.folder)).map_err(number)?;
        let is_directory = folder.file_type() == FileType::Directory;
        if is_directory { Ok((folder, name)) } else { Err(Errno::NOTDIR) }
    }

    fn file(&self, target: &FileTarget, access: FileAccess) -> Result<File> {
        match target {
            FileTarget::Slot(slot) => self.slot(*slot).cloned(),
            FileTarget::Path(path) => self.open(path, access),
        }
    }

    fn slot(&self, slot: usize) -> Result<&File> {
        self.slots.get(slot).and_then(Option::as_ref).ok_or(Errno::BADF)
    }

    fn put(&mut self, slot: usize, file: Option<File>) -> Result<()> {
        *self.slots.get_mut(slot).ok_or(Errno::BADF)? = file;
        Ok(())
    }

    fn open(&self, path: &str, access: FileAccess) -> Result<File> {
        let node = self.node(path)?;
        match node.file_type() {
            FileType::Regular => {}
            FileType::Directory => return Err(Errno::ISDIR),
            FileType::Symlink => return Err(Errno::LOOP),
            _ => return Err(Errno::INVAL),
        }
        // open(2) refuses this without O_APPEND. Files of the library have no open modes.
        let fixed = ExtendedFlags::IMMUTABLE | ExtendedFlags::APPEND;
        if access == FileAccess::Write && node.metadata().xflags.intersects(fixed) {
            return Err(Errno::PERM);
        }
        match access {
            FileAccess::Read => node.open_read_only(),
            FileAccess::Write | FileAccess::Change => node.open(),
        }
        .map_err(number)
    }

    fn create(&self, path: &str, kind: &NewKind<'_>, mode: u32) -> Result<()> {
        let (folder, name) = self.place(path)?;
        folder.create(name, kind, &creation(mode)).map(drop).map_err(number)
    }

    fn make_node(&self, path: &str, mode: u32, (major, minor): (u32, u32)) -> Result<()> {
        let device = DeviceNumber { major, minor };
        let kind = match rustix::fs::FileType::from_raw_mode(mode) {
            rustix::fs::FileType::Fifo => NewKind::Fifo,
            rustix::fs::FileType::Socket => NewKind::Socket,
            rustix::fs::FileType::BlockDevice => NewKind::BlockDevice(device),
            _ => NewKind::CharacterDevice(device),
        };
        self.create(path, &kind, mode)
    }

    fn rename(&self, from: &str, to: &str, mode: RenameMode) -> Result<()> {
        let mode = match mode {
            RenameMode::Replace => ferroxfs::RenameMode::Replace,
            RenameMode::NoReplace => ferroxfs::RenameMode::NoReplace,
            RenameMode::Exchange => ferroxfs::RenameMode::Exchange,
            RenameMode::Whiteout => ferroxfs::RenameMode::Whiteout,
        };
        let ((old, name), (new, new_name)) = (self.place(from)?, self.place(to)?);
        old.rename(name, &new, new_name, mode).map_err(number)
    }

    fn list(&self, path: &str) -> Result<Outcome> {
        let folder = self.node(path)?;
        let entries = folder.entries().map_err(number)?;
        let name = |entry: ferroxfs::Result<ferroxfs::DirEntry>| {
            Ok(entry.map_err(number)?.name().as_encoded_bytes().to_vec())
        };
        let mut found: Vec<_> = entries.map(name).collect::<Result<_>>()?;
        found.sort();
        Ok(names(found.iter().map(Vec::as_slice)))
    }

    fn set_attribute(&self, path: &str, name: &str, value: &[u8], mode: SetMode) -> Result<()> {
        let mode = match mode {
            SetMode::Either => ferroxfs::attr::SetMode::Either,
            SetMode::Create => ferroxfs::attr::SetMode::Create,
            SetMode::Replace => ferroxfs::attr::SetMode::Replace,
        };
        self.node(path)?.set_attribute(OsStr::new(name), value, mode).map_err(number)
    }

    fn change(&self, path: &str, changes: &SetAttributes) -> Result<()> {
        self.node(path)?.set_attributes(changes).map_err(number)
    }

    fn change_mode(&self, path: &str, mode: u32) -> Result<()> {
        self.change(path, &SetAttributes::new().mode(mode as u16))
    }

    fn change_owner(&self, path: &str, uid: u32, gid: u32) -> Result<()> {
        self.change(path, &SetAttributes::new().uid(uid).gid(gid))
    }

    fn set_times(&self, path: &str, times: [Option<Time>; 2]) -> Result<()> {
        let stamp = |time: Time| Timestamp::new(time.seconds, time.nanoseconds);
        let [accessed, modified] = times.map(|time| time.and_then(stamp));
        let mut changes = SetAttributes::new();
        changes.accessed = accessed;
        changes.modified = modified;
        self.change(path, &changes)
    }

    fn set_flags(&self, path: &str, settings: &NodeSettings) -> Result<()> {
        let node = self.node(path)?;
        match node.file_type() {
            FileType::Regular | FileType::Directory => {}
            FileType::Symlink => return Err(Errno::LOOP),
            _ => return Err(Errno::NOTTY),
        }
        let has = |flags| settings.flags.intersects(flags);
        let extent = has(FileFlags::EXTENT_SIZE | FileFlags::EXTENT_SIZE_INHERIT);
        let cow = has(FileFlags::COW_EXTENT_SIZE);
        // In the library a hint needs no flag.
        if !extent && settings.extent_size != 0 || !cow && settings.cow_extent_size != 0 {
            return Err(Errno::INVAL);
        }
        let changes = SetAttributes::new()
            .project_id(settings.project_id)
            .xflags(ExtendedFlags::from_bits_retain(settings.flags.bits()))
            .extent_size_hint_bytes(settings.extent_size.into())
            .cow_extent_size_hint_bytes(settings.cow_extent_size.into());
        node.set_attributes(&changes).map_err(number)
    }

    fn sync(&self, durable: &Durable) -> Result<()> {
        let outcome = match durable {
            Durable::File(target) => self.file(target, FileAccess::Read)?.sync_all(),
            Durable::Contents(target) => self.file(target, FileAccess::Read)?.sync_data(),
            Durable::Directory(path) => self.node(path)?.sync(),
            Durable::Volume => self.volume.sync(),
        };
        outcome.map_err(number)
    }

    fn read(&self, target: &FileTarget, offset: u64, length: u64) -> Result<Outcome> {
        let file = self.file(target, FileAccess::Read)?;
        let mut buffer = vec![0; length as usize];
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match file.read_at(rest, offset + done as u64).map_err(number)? {
                0 => break,
                count => done += count,
            }
        }
        Ok(bytes(buffer.get(..done).unwrap_or_default()))
    }

    fn write(&self, target: &FileTarget, offset: u64, bytes: &[u8]) -> Result<()> {
        let file = self.file(target, FileAccess::Write)?;
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            match file.write_at(rest, offset + done as u64).map_err(number)? {
                0 => return Err(Errno::NOSPC),
                count => done += count,
            }
        }
        match target {
            FileTarget::Path(_) => file.close().map_err(number),
            FileTarget::Slot(_) => Ok(()),
        }
    }

    /// Returns the file of a target, opened for this access and I/O mode.
    fn file_for(&self, target: &FileTarget, access: FileAccess, way: IoMode) -> Result<File> {
        Ok(self.file(target, access)?.direct(way == IoMode::Direct))
    }

    fn write_pieces(
        &self,
        target: &FileTarget,
        offset: u64,
        pieces: (&[u64], u64, IoMode),
    ) -> Result<()> {
        let (lengths, write, way) = pieces;
        let file = self.file_for(target, FileAccess::Write, way)?;
        let total = lengths.iter().sum::<u64>() as usize;
        let bytes = pattern(write, offset, total);
        let mut rest = bytes.as_slice();
        let mut pieces = Vec::new();
        for length in lengths {
            let (piece, after) = rest.split_at(*length as usize);
            pieces.push(IoSlice::new(piece));
            rest = after;
        }
        let written = file.write_vectored_at(&pieces, offset).map_err(number)?;
        if written != total {
            return Err(Errno::NOSPC);
        }
        match target {
            FileTarget::Path(_) => file.close().map_err(number),
            FileTarget::Slot(_) => Ok(()),
        }
    }

    fn read_pieces(
        &self,
        target: &FileTarget,
        offset: u64,
        pieces: (&[u64], IoMode),
    ) -> Result<Outcome> {
        let (lengths, way) = pieces;
        let file = self.file_for(target, FileAccess::Read, way)?;
        let mut buffer = vec![0; lengths.iter().sum::<u64>() as usize];
        let mut rest = buffer.as_mut_slice();
        let mut pieces = Vec::new();
        for length in lengths {
            let (piece, after) = rest.split_at_mut(*length as usize);
            pieces.push(IoSliceMut::new(piece));
            rest = after;
        }
        let read = file.read_vectored_at(&mut pieces, offset).map_err(number)?;
        Ok(bytes(buffer.get(..read).unwrap_or_default()))
    }

    fn scan(&self, target: &FileTarget, offset: u64) -> Result<Outcome> {
        let file = self.file(target, FileAccess::Read)?;
        let size = file.metadata().size;
        let seek = |sought, at| match sought {
            SeekKind::Data => file.seek_data(at).map_err(number),
            SeekKind::Hole => file.seek_hole(at).map_err(number),
        };
        let read = |at, length: u64| {
            let mut buffer = vec![0; length as usize];
            let read = file.read_at(&mut buffer, at).map_err(number)?;
            buffer.truncate(read);
            Ok(buffer)
        };
        scan(offset, size, seek, read)
    }

    fn clone_range(&self, ranges: &FileRanges) -> Result<()> {
        let from = self.file(&ranges.from, FileAccess::Read)?;
        let to = self.file(&ranges.to, FileAccess::Change)?;
        to.clone_range(ranges.to_offset, &from, ranges.from_offset, ranges.length).map_err(number)
    }

    fn deduplicate(&self, ranges: &FileRanges) -> Result<Outcome> {
        let from = self.file(&ranges.from, FileAccess::Read)?;
        let to = self.file(&ranges.to, FileAccess::Change)?;
        let FileRanges { from_offset, to_offset, length, .. } = *ranges;
        let same = to.deduplicate(to_offset, &from, from_offset, length).map_err(number)?;
        Ok(Outcome::Compared(same))
    }

    fn exchange(&self, ranges: &FileRanges) -> Result<()> {
        let from = self.file(&ranges.from, FileAccess::Change)?;
        let to = self.file(&ranges.to, FileAccess::Change)?;
        let FileRanges { from_offset, to_offset, length, .. } = *ranges;
        to.exchange_range(to_offset, &from, from_offset, length).map_err(number)
    }

    fn on_names(&mut self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Create { path, mode } => self.create(path, &NewKind::Regular, *mode),
            Operation::MakeDirectory { path, mode } => {
                self.create(path, &NewKind::Directory, mode & 0o1777)
            }
            Operation::MakeNode { path, mode, device } => self.make_node(path, *mode, *device),
            Operation::Symlink { target, path } => {
                self.create(path, &NewKind::Symlink(target), 0o777)
            }
            Operation::Link { from, to } => self.link(&self.node(from)?, to),
            Operation::LinkSlot { slot, path } => self.link(self.slot(*slot)?.node(), path),
            Operation::Unlink { path } => {
                let (folder, name) = self.place(path)?;
                folder.remove_file(name).map_err(number)
            }
            Operation::RemoveDirectory { path } => {
                let (folder, name) = self.place(path)?;
                folder.remove_dir(name).map_err(number)
            }
            Operation::Rename { from, to, mode } => self.rename(from, to, *mode),
            Operation::MakeTemporary { slot, folder, mode } => {
                let folder = self.node(folder)?;
                let node = folder.create_unnamed(&creation(*mode)).map_err(number)?;
                let file = node.open().map_err(number)?;
                self.put(*slot, Some(file))
            }
            Operation::Open { slot, path } => {
                let file = self.open(path, FileAccess::Write)?;
                self.put(*slot, Some(file))
            }
            Operation::Close { slot } => {
                let open = self.slots.get_mut(*slot).and_then(Option::take);
                open.ok_or(Errno::BADF)?.close().map_err(number)
            }
            other => self.on_settings(other),
        }
    }

    fn link(&self, node: &Node, path: &Path) -> Result<()> {
        let (folder, name) = self.place(path)?;
        folder.link(node, name).map_err(number)
    }

    fn on_settings(&self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::SetAttribute { path, name, length, number, mode } => {
                self.set_attribute(path, name, &pattern(*number, 0, *length), *mode)
            }
            Operation::RemoveAttribute { path, name } => {
                self.node(path)?.remove_attribute(OsStr::new(name)).map_err(number)
            }
            Operation::SetList { path, kind, version, entries } => {
                let value = list_value(*version, entries);
                self.set_attribute(path, kind.name(), &value, SetMode::Either)
            }
            Operation::ChangeMode { path, mode } => self.change_mode(path, *mode),
            Operation::ChangeOwner { path, uid, gid } => self.change_owner(path, *uid, *gid),
            Operation::SetTimes { path, accessed, modified } => {
                self.set_times(path, [*accessed, *modified])
            }
            Operation::SetFlags { path, settings } => self.set_flags(path, settings),
            Operation::Sync(durable) => self.sync(durable),
            other => self.on_contents(other),
        }
    }

    fn on_contents(&self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Write { file, offset, length, number } => {
                self.write(file, *offset, &pattern(*number, *offset, *length as usize))
            }
            Operation::WritePieces { file, offset, lengths, number, way } => {
                self.write_pieces(file, *offset, (lengths, *number, *way))
            }
            Operation::Truncate { file, size } => {
                self.file(file, FileAccess::Change)?.set_len(*size).map_err(number)
            }
            Operation::Allocate { file, mode, offset, length } => {
                let mode = range_mode(*mode);
                // An empty range is an error before any check of flags.
                let is_plain = *length == 0 || matches!(mode, RangeMode::Allocate(_));
                let access = if is_plain { FileAccess::Write } else { FileAccess::Change };
                let end = offset.saturating_add(*length);
                self.file(file, access)?.change_range(*offset..end, mode).map_err(number)
            }
            Operation::Clone(ranges) => self.clone_range(ranges),
            Operation::Exchange(ranges) => self.exchange(ranges),
            _ => Err(Errno::INVAL),
        }
    }
}

impl Subject for Library {
    fn perform(&mut self, operation: &Operation) -> Result<Outcome> {
        match operation {
            Operation::Read { file, offset, length } => self.read(file, *offset, *length),
            Operation::ReadPieces { file, offset, lengths, way } => {
                self.read_pieces(file, *offset, (lengths, *way))
            }
            Operation::Scan { file, offset } => self.scan(file, *offset),
            Operation::List { path } => self.list(path),
            Operation::Deduplicate(ranges) => self.deduplicate(ranges),
            other => self.on_names(other).map(|()| Outcome::Done),
        }
    }
}

fn creation(mode: u32) -> CreateOptions {
    CreateOptions::new((mode & 0o7777) as u16)
}

fn range_mode(mode: AllocationMode) -> RangeMode {
    match mode {
        AllocationMode::Allocate => RangeMode::Allocate(AllocateMode::Extend),
        AllocationMode::AllocateKeepSize => RangeMode::Allocate(AllocateMode::KeepSize),
        AllocationMode::PunchHole => RangeMode::Punch,
        AllocationMode::Zero => RangeMode::Zero(AllocateMode::Extend),
        AllocationMode::ZeroKeepSize => RangeMode::Zero(AllocateMode::KeepSize),
        AllocationMode::Collapse => RangeMode::Collapse,
        AllocationMode::Insert => RangeMode::Insert,
        AllocationMode::Unshare => RangeMode::Unshare(AllocateMode::Extend),
    }
}

/// Returns the errno of an error. Prints corruption, because no history may cause it.
fn number(error: Error) -> Errno {
    if !matches!(error, Error::Posix(_) | Error::Io(_) | Error::Shutdown) {
        eprintln!("the library says: {error}");
    }
    Errno::from_raw_os_error(error.errno())
}
