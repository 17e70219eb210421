//! The files and disks of which a device is made (its levels), and the other devices made of the
//! same files.
//!
//! Owns: following partitions, loop devices, device mapper, RAID and overlayfs down to the files
//! and disks that hold the bytes; finding the other loop devices of the same file ("twins"). Does
//! **not** own: locks ([`lock`](crate::lock)) or mounts ([`usage`](crate::usage)).
//!
//! ```text
//!   /dev/loop0p1 ──partition──▶ /dev/loop0 ──loop──▶ disk.img ──overlayfs──▶ upper/disk.img
//!   [0, ∞)                      [1 MiB, 65 MiB)      [1 MiB, 65 MiB)         [1 MiB, 65 MiB)
//! ```
//!
//! Every level has the span of its bytes that the device uses, so that two partitions of one file
//! can be in use at the same time.
//!
//! # Invariants
//!
//! - **I1** A level is opened for reading only. So following the levels changes nothing. udev acts
//!   when a writer closes a disk, so closing a level does not wake udev.
//! - **I2** A path from sysfs is used only if the kernel confirms that it leads to the right inode,
//!   unless this process may not ask the kernel.

mod loops;
mod sysfs;
mod union;

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

pub(crate) use loops::LoopDevice;
pub(crate) use sysfs::{device_name, partitions_of, read_line};

/// The largest number of levels that are followed below a device. Real devices have fewer than ten.
const MAX_LEVELS: usize = 64;

/// A range of bytes. `end` is the first byte after the range, or `u64::MAX` if the range has no
/// end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Span {
    /// The range of all bytes.
    pub(crate) const WHOLE: Self = Self { start: 0, end: u64::MAX };

    /// Returns the range of `length` bytes from `start` on. With `None` as length, the range has no
    /// end.
    pub(crate) fn new(start: u64, length: Option<u64>) -> Self {
        Self { start, end: length.map_or(u64::MAX, |length| start.saturating_add(length)) }
    }

    /// Converts this span of a window, such as a partition, into the span of the device on which
    /// the window lies.
    pub(crate) fn within(self, window: Self) -> Self {
        let shift = |at: u64| window.start.saturating_add(at).min(window.end);
        Self { start: shift(self.start), end: shift(self.end) }
    }

    pub(crate) fn is_whole(self) -> bool {
        self == Self::WHOLE
    }

    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// The identity of a file or block device, which does not depend on its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileIdentity {
    File { device: u64, inode: u64 },
    Block(u64),
}

impl FileIdentity {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        match metadata.file_type().is_block_device() {
            true => Self::Block(metadata.rdev()),
            false => Self::File { device: metadata.dev(), inode: metadata.ino() },
        }
    }
}

/// A file or disk of which a device is made, directly or through other levels.
#[derive(Debug)]
pub(crate) struct Level {
    pub(crate) path: PathBuf,
    pub(crate) identity: FileIdentity,
    /// The bytes of this level that the device uses.
    pub(crate) span: Span,
    /// The file or device, open for reading. `None` if this process cannot open it.
    pub(crate) file: Option<File>,
    /// Whether several devices, such as logical volumes of one disk, share this level, and it is
    /// unknown which part of the level each of them uses.
    pub(crate) is_shared: bool,
    /// Whether this level is a block device below a loop device. A loop device does not claim its
    /// block device, so the kernel could still mount that block device.
    pub(crate) is_unclaimed: bool,
    /// The length of the file in bytes when it was opened. `None` for a block device.
    length_bytes: Option<u64>,
}

impl Level {
    /// Opens the file at `path` as a level. If that file is not the inode `expected`, the level has
    /// no open file. Returns `None` if the file cannot be opened and no inode is expected.
    fn open(path: PathBuf, expected: Option<(u64, u64)>, span: Span) -> Option<Self> {
        let found = open_to_look(&path).and_then(|file| Ok((file.metadata()?, file))).ok();
        let is_it = |metadata: &Metadata| {
            expected.is_none_or(|expected| expected == (metadata.dev(), metadata.ino()))
        };
        let found = found.filter(|(metadata, _)| is_it(metadata));
        let identity = match (&found, expected) {
            (Some((metadata, _)), _) => FileIdentity::of(metadata),
            (None, Some((device, inode))) => FileIdentity::File { device, inode },
            (None, None) => return None,
        };
        let (metadata, file) = found.unzip();
        let is_unclaimed = matches!(identity, FileIdentity::Block(_));
        let length_bytes = metadata.filter(Metadata::is_file).map(|metadata| metadata.len());
        Some(Self { path, identity, span, file, is_shared: false, is_unclaimed, length_bytes })
    }

    fn of_block(number: u64, span: Span) -> Self {
        let path = sysfs::node_of(number);
        let file = path.as_ref().and_then(|path| open_to_look(path).ok());
        Self {
            path: path.unwrap_or_else(|| PathBuf::from(device_name(number))),
            identity: FileIdentity::Block(number),
            span,
            file,
            is_shared: false,
            is_unclaimed: false,
            length_bytes: None,
        }
    }

    /// Returns the old and the new length of the file if it has become shorter, or `None` if it has
    /// not.
    pub(crate) fn shortened(&self) -> io::Result<Option<Shortened>> {
        let (Some(file), Some(before)) = (&self.file, self.length_bytes) else { return Ok(None) };
        let now = file.metadata()?.len();
        Ok((now < before).then_some(Shortened { before, now }))
    }
}

/// The lengths of a file that has become shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortened {
    pub(crate) before: u64,
    pub(crate) now: u64,
}

/// Opens a path for locks and queries only. The open does not wait if the path leads to a FIFO.
fn open_to_look(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    File::options().read(true).custom_flags(flags).open(path)
}

/// Returns all levels below an open file or block device.
pub(crate) fn levels_below(file: &File, metadata: &Metadata) -> Vec<Level> {
    let mut levels = parts_of(FileIdentity::of(metadata), Some(file), Span::WHOLE);
    let mut next = 0;
    while let Some(level) = levels.get(next).filter(|_| next < MAX_LEVELS) {
        let parts = parts_of(level.identity, level.file.as_ref(), level.span);
        // A device that can be reached in two ways is locked once for each span.
        let is_new = |part: &Level| {
            !levels.iter().any(|l| (l.identity, l.span) == (part.identity, part.span))
        };
        let new: Vec<Level> = parts.into_iter().filter(is_new).collect();
        levels.extend(new);
        next += 1;
    }
    levels
}

fn parts_of(identity: FileIdentity, file: Option<&File>, span: Span) -> Vec<Level> {
    let number = match identity {
        FileIdentity::Block(number) => number,
        FileIdentity::File { .. } => {
            let below = file.and_then(union::file_below);
            return below.and_then(|path| Level::open(path, None, span)).into_iter().collect();
        }
    };
    if let Some((disk, window)) = sysfs::disk_of_partition(number) {
        return vec![Level::of_block(disk, span.within(window))];
    }
    if let Some(device) = LoopDevice::of(number) {
        let level = Level::open(device.backing, device.inode, span.within(device.window));
        return level.into_iter().collect();
    }
    let slaves = sysfs::slaves_of(number).into_iter();
    let to_level =
        |(number, is_shared)| Level { is_shared, ..Level::of_block(number, Span::WHOLE) };
    slaves.map(to_level).collect()
}

/// Returns whether two paths lead to some of the same bytes. This is so for the same file or
/// device, for a device and a file of which it is made, and for overlapping parts of one file. A
/// path that does not lead to a file shares no bytes.
#[must_use]
pub fn share_bytes(one: &Path, other: &Path) -> bool {
    let (one, other) = (parts_at(one), parts_at(other));
    let overlap = |one: &Part, other: &Part| {
        // Logical volumes of one disk are taken to lie apart.
        one.identity == other.identity
            && !(one.is_shared && other.is_shared)
            && one.span.overlaps(other.span)
    };
    one.iter().any(|part| other.iter().any(|other| overlap(part, other)))
}

/// A range of bytes of one file or device. A path may lead to several such ranges.
struct Part {
    identity: FileIdentity,
    span: Span,
    is_shared: bool,
}

/// Returns the byte ranges to which a path leads: those of its file or device, and of every level
/// below.
fn parts_at(path: &Path) -> Vec<Part> {
    let Ok(metadata) = std::fs::metadata(path) else { return Vec::new() };
    let own = Part { identity: FileIdentity::of(&metadata), span: Span::WHOLE, is_shared: false };
    let kind = metadata.file_type();
    // To open anything else can have effects of its own.
    let file = (kind.is_file() || kind.is_block_device()).then(|| open_to_look(path));
    let levels = match file {
        Some(Ok(file)) => levels_below(&file, &metadata),
        _ => Vec::new(),
    };
    let of_level = |level: Level| Part {
        identity: level.identity,
        span: level.span,
        is_shared: level.is_shared,
    };
    std::iter::once(own).chain(levels.into_iter().map(of_level)).collect()
}

/// A loop device, or one of its partitions, that is made of the same file or disk as another
/// device. It is a second way to the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Twin {
    /// The path of the device node, which is to be locked or claimed.
    pub(crate) node: PathBuf,
    /// The device number of the loop device or partition.
    pub(crate) number: u64,
    /// The path of the file or disk of which both devices are made.
    pub(crate) common: PathBuf,
    /// Whether the users of both devices lock this twin to notice each other, because this process
    /// cannot open the file or disk of which both devices are made.
    pub(crate) is_meeting_place: bool,
}

/// Returns the twins of the device `own`: other devices made of the same files. `levels` are the
/// files and disks of which `own` is made.
pub(crate) fn twins(own: FileIdentity, levels: &[Level]) -> Vec<Twin> {
    if levels.is_empty() {
        return Vec::new();
    }
    let is_own = |number: u64| {
        own == FileIdentity::Block(number)
            || levels.iter().any(|level| level.identity == FileIdentity::Block(number))
    };
    let mut twins = Vec::new();
    for device in LoopDevice::all().into_iter().filter(|device| !is_own(device.number)) {
        let identity = device.identity();
        let common = levels
            .iter()
            .find(|level| Some(level.identity) == identity && level.span.overlaps(device.window));
        let Some(level) = common else { continue };
        let partitions = sysfs::partitions_of(device.number);
        let overlapping = |number: &u64| {
            sysfs::disk_of_partition(*number)
                .is_some_and(|(_, part)| part.within(device.window).overlaps(level.span))
        };
        // A claim of the whole device would fail for any partition of it that is in use.
        let numbers: Vec<u64> = match partitions.is_empty() {
            true => vec![device.number],
            false => partitions.into_iter().filter(overlapping).collect(),
        };
        let to_twin = |number| {
            Some(Twin {
                node: sysfs::node_of(number)?,
                number,
                common: level.path.clone(),
                is_meeting_place: level.file.is_none(),
            })
        };
        twins.extend(numbers.into_iter().filter_map(to_twin));
    }
    twins
}

#[cfg(test)]
mod tests;
