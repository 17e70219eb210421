//! The model's rules for file contents: opening, reading, writing, allocating, and ranges of two
//! files.

use std::ops::Range;

use rustix::io::Errno;

use super::operation::{
    AllocationMode, FileRanges, FileTarget, IoMode, Operation, Outcome, RealtimeRules, bytes,
    pattern,
};
use super::{Answer, Body, Bytes, Durable, Model, NodeId, Stamp};
use crate::digest::{SECTOR_BYTES, SparseDigest};
use crate::ioctl::FileFlags;
use crate::model::operation::Abilities;

/// The largest file size in bytes.
const SIZE_MAX: u64 = i64::MAX as u64;

/// Whether a file is opened for reading or for writing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileAccess {
    Read,
    Write,
}

impl Model {
    pub(super) fn perform_on_files(&mut self, operation: &Operation) -> Answer {
        match operation {
            Operation::Open { slot, path } => {
                let id = self.open(path, FileAccess::Write)?;
                self.put(*slot, Some(id))
            }
            Operation::Close { slot } => match self.slot(*slot) {
                Some(_) => self.put(*slot, None),
                None => Err(Errno::BADF),
            },
            Operation::Write { file, offset, length, number } => {
                let id = self.target(file, FileAccess::Write)?;
                if *length > 0 {
                    let bytes = pattern(*number, *offset, *length as usize);
                    self.contents_mut(id)?.write(*offset, &bytes);
                }
                Ok(Outcome::Done)
            }
            Operation::Read { file, offset, length } => {
                let id = self.target(file, FileAccess::Read)?;
                let found = self.contents(id)?.read(*offset, *length);
                self.access(id);
                Ok(bytes(&found))
            }
            Operation::WritePieces { file, offset, lengths, number, way } => {
                let id = self.target(file, FileAccess::Write)?;
                let length: u64 = lengths.iter().sum();
                if *way == IoMode::Direct && !(offset | length).is_multiple_of(SECTOR_BYTES as u64)
                {
                    return Err(Errno::INVAL);
                }
                let bytes = pattern(*number, *offset, length as usize);
                self.contents_mut(id)?.write(*offset, &bytes);
                Ok(Outcome::Done)
            }
            Operation::ReadPieces { file, offset, lengths, .. } => {
                let id = self.target(file, FileAccess::Read)?;
                let found = self.contents(id)?.read(*offset, lengths.iter().sum());
                self.access(id);
                Ok(bytes(&found))
            }
            Operation::Scan { file, offset } => self.scan(file, *offset),
            Operation::Truncate { file, size } => {
                let id = self.target(file, FileAccess::Write)?;
                if *size > SIZE_MAX {
                    return Err(Errno::INVAL);
                }
                let is_same = self.contents(id)?.size() == *size;
                let before = self.node(id)?.modified;
                self.contents_mut(id)?.resize(*size);
                if is_same {
                    // In this case ftruncate also updates the time, and truncate does not.
                    let node = self.change(id)?;
                    node.modified = Stamp::Unknown;
                    if before == Stamp::Clock {
                        node.modified = before;
                    }
                }
                Ok(Outcome::Done)
            }
            Operation::Allocate { file, mode, offset, length } => {
                let id = self.target(file, FileAccess::Write)?;
                self.allocate(id, *mode, *offset, *length)
            }
            Operation::Clone(ranges) => self.clone_range(ranges),
            Operation::Deduplicate(ranges) => self.deduplicate(ranges),
            Operation::Exchange(ranges) => self.exchange(ranges),
            Operation::Sync(durable) => self.sync(durable),
            _ => Err(Errno::INVAL),
        }
    }

    fn scan(&mut self, file: &FileTarget, offset: u64) -> Answer {
        let id = self.target(file, FileAccess::Read)?;
        let contents = self.contents(id)?;
        if offset >= contents.size() {
            return Err(Errno::NXIO);
        }
        let mut digest = SparseDigest::default();
        for (at, sector) in contents.sectors().filter(|(at, _)| *at >= offset) {
            digest.update(at, sector);
        }
        self.access(id);
        Ok(Outcome::Scanned(digest))
    }

    fn sync(&self, durable: &Durable) -> Answer {
        match durable {
            Durable::File(target) | Durable::Contents(target) => {
                self.target(target, FileAccess::Read)?;
            }
            Durable::Directory(path) => match self.node(self.lookup(path)?)?.body {
                Body::Directory { .. } => {}
                Body::Symlink(_) => return Err(Errno::LOOP),
                _ => return Err(Errno::NOTDIR),
            },
            Durable::Volume => {}
        }
        Ok(Outcome::Done)
    }

    /// Returns the ID of the regular file that `target` names, or an error if there is no such
    /// file.
    pub fn file(&self, target: &FileTarget) -> Result<NodeId, Errno> {
        self.target(target, FileAccess::Read)
    }

    fn target(&self, target: &FileTarget, access: FileAccess) -> Result<NodeId, Errno> {
        match target {
            FileTarget::Slot(slot) => self.slot(*slot).ok_or(Errno::BADF),
            FileTarget::Path(path) => self.open(path, access),
        }
    }

    fn open(&self, path: &str, access: FileAccess) -> Result<NodeId, Errno> {
        let id = self.lookup(path)?;
        let node = self.node(id)?;
        match (&node.body, access) {
            (Body::Symlink(_), _) => Err(Errno::LOOP),
            (Body::Directory { .. }, _) => Err(Errno::ISDIR),
            (Body::Special, _) => Err(Errno::INVAL),
            (_, FileAccess::Write) if node.is_fixed() => Err(Errno::PERM),
            _ => Ok(id),
        }
    }

    fn contents(&self, id: NodeId) -> Result<&Bytes, Errno> {
        self.node(id)?.contents().ok_or(Errno::ISDIR)
    }

    /// Returns the contents of a file for a change. The file's modification time becomes
    /// `Stamp::Clock`.
    fn contents_mut(&mut self, id: NodeId) -> Result<&mut Bytes, Errno> {
        let node = self.modify(id)?;
        node.has_space = true;
        match &mut node.body {
            Body::File(bytes) => Ok(bytes),
            _ => Err(Errno::ISDIR),
        }
    }

    /// Returns whether all numbers are multiples of the unit in which the file's space is allocated
    /// and freed.
    fn is_aligned_in(&self, id: NodeId, numbers: &[u64]) -> Result<bool, Errno> {
        let unit = match self.node(id)?.is_realtime() {
            true => self.features.realtime_extent_bytes(),
            false => self.features.block_bytes,
        };
        Ok(numbers.iter().all(|number| number % unit == 0))
    }

    fn is_aligned(&self, numbers: &[u64]) -> bool {
        numbers.iter().all(|number| number % self.features.block_bytes == 0)
    }

    fn allocate(&mut self, id: NodeId, mode: AllocationMode, offset: u64, length: u64) -> Answer {
        let size = self.contents(id)?.size();
        let end = match offset.checked_add(length) {
            _ if length == 0 => return Err(Errno::INVAL),
            Some(end) if end <= SIZE_MAX => end,
            _ => return Err(Errno::FBIG),
        };
        if let Err(error) = self.allocate_space(id, mode, offset..end, size) {
            self.touch_perhaps(id);
            return Err(error);
        }
        let gives = !matches!(
            mode,
            AllocationMode::Collapse | AllocationMode::Insert | AllocationMode::PunchHole
        );
        if gives && !self.is_in_zones(id)? {
            self.change(id)?.settings.flags |= FileFlags::PREALLOCATED;
        }
        Ok(Outcome::Done)
    }

    fn allocate_space(
        &mut self,
        id: NodeId,
        mode: AllocationMode,
        range: Range<u64>,
        size: u64,
    ) -> Result<(), Errno> {
        let Range { start: offset, end } = range;
        let length = end - offset;
        if self.is_in_zones(id)?
            && matches!(mode, AllocationMode::Allocate | AllocationMode::AllocateKeepSize)
        {
            return Err(Errno::OPNOTSUPP);
        }
        match mode {
            AllocationMode::Collapse => {
                if !self.is_aligned_in(id, &[offset, length])? || end >= size {
                    return Err(Errno::INVAL);
                }
                self.contents_mut(id)?.collapse(offset, length);
            }
            AllocationMode::Insert => {
                if !self.is_aligned_in(id, &[offset, length])? || offset >= size {
                    return Err(Errno::INVAL);
                }
                if size.checked_add(length).is_none_or(|size| size > SIZE_MAX) {
                    return Err(Errno::FBIG);
                }
                self.contents_mut(id)?.insert(offset, length);
            }
            AllocationMode::PunchHole | AllocationMode::ZeroKeepSize => {
                self.contents_mut(id)?.zero(offset, length);
            }
            AllocationMode::Zero => {
                let contents = self.contents_mut(id)?;
                contents.zero(offset, length);
                contents.resize(size.max(end));
            }
            AllocationMode::Allocate | AllocationMode::Unshare => {
                self.contents_mut(id)?.resize(size.max(end));
            }
            AllocationMode::AllocateKeepSize => {
                self.contents_mut(id)?;
            }
        }
        Ok(())
    }

    /// Returns whether the contents of a file are in zones.
    fn is_in_zones(&self, id: NodeId) -> Result<bool, Errno> {
        let has_zones = self.features.section == Some(RealtimeRules::Zones);
        Ok(has_zones && self.node(id)?.is_realtime())
    }

    /// Returns the IDs of the source and the target file of an operation on two files. Returns an
    /// error if the volume does not support the operation, that is, lacks `ability`.
    fn both(&self, ranges: &FileRanges, ability: Abilities) -> Result<(NodeId, NodeId), Errno> {
        let access =
            if ability == Abilities::EXCHANGE { FileAccess::Write } else { FileAccess::Read };
        let from = self.target(&ranges.from, access)?;
        let to = self.target(&ranges.to, FileAccess::Write)?;
        if !self.features.abilities.contains(ability) {
            return Err(Errno::OPNOTSUPP);
        }
        // Blocks of the data device and of the realtime section do not mix.
        if self.node(from)?.is_realtime() != self.node(to)?.is_realtime() {
            return Err(Errno::INVAL);
        }
        Ok((from, to))
    }

    /// Checks ranges as the kernel does before it shares blocks. Returns how many bytes to share.
    fn sharable(&self, ranges: &FileRanges, source: NodeId, target: NodeId) -> Result<u64, Errno> {
        let (from, to) = (ranges.from_offset, ranges.to_offset);
        let from_size = self.contents(source)?.size();
        let length = match ranges.length {
            0 if from > from_size => return Err(Errno::INVAL),
            0 => from_size - from,
            length => length,
        };
        if length == 0 {
            return Ok(0);
        }
        let end = from.checked_add(length).ok_or(Errno::INVAL)?;
        to.checked_add(length).ok_or(Errno::INVAL)?;
        if !self.is_aligned(&[from, to]) || end > from_size {
            return Err(Errno::INVAL);
        }
        if !self.is_aligned(&[length]) && end != from_size {
            return Err(Errno::INVAL);
        }
        let whole = length.next_multiple_of(self.features.block_bytes);
        if source == target && from < to + whole && to < from + whole {
            return Err(Errno::INVAL);
        }
        Ok(length)
    }

    fn clone_range(&mut self, ranges: &FileRanges) -> Answer {
        let (from, to) = self.both(ranges, Abilities::REFLINK)?;
        let length = self.sharable(ranges, from, to)?;
        if length == 0 {
            return Ok(Outcome::Done);
        }
        let end = ranges.to_offset + length;
        if !self.is_aligned(&[length]) && end < self.contents(to)?.size() {
            return Err(Errno::INVAL);
        }
        let part = self.contents(from)?.part(ranges.from_offset, length);
        self.access(from);
        self.hand_on_hint(from, to, ranges, length)?;
        self.contents_mut(to)?.paste(ranges.to_offset, &part);
        Ok(Outcome::Done)
    }

    /// Copies the copy-on-write hint of the file `from` to the file `to`. Does so only if `to` has
    /// no such hint, and if the clone of `length` bytes makes `to` a copy of all of `from`.
    fn hand_on_hint(
        &mut self,
        from: NodeId,
        to: NodeId,
        ranges: &FileRanges,
        length: u64,
    ) -> Result<(), Errno> {
        let is_whole = (ranges.from_offset, ranges.to_offset) == (0, 0)
            && length == self.contents(from)?.size()
            && length >= self.contents(to)?.size();
        let hint = self.node(from)?.settings;
        let flag = FileFlags::COW_EXTENT_SIZE;
        let has_one = self.node(to)?.settings.flags.contains(flag);
        if is_whole && hint.flags.contains(flag) && !has_one {
            let settings = &mut self.change(to)?.settings;
            settings.flags |= flag;
            settings.cow_extent_size = hint.cow_extent_size;
        }
        Ok(())
    }

    fn deduplicate(&mut self, ranges: &FileRanges) -> Answer {
        let (from, to) = self.both(ranges, Abilities::REFLINK)?;
        let length = self.sharable(ranges, from, to)?;
        let end = ranges.to_offset.checked_add(length).ok_or(Errno::INVAL)?;
        if end > self.contents(to)?.size() {
            return Err(Errno::INVAL);
        }
        let source = self.contents(from)?.part(ranges.from_offset, length);
        let is_same = source.digest() == self.contents(to)?.part(ranges.to_offset, length).digest();
        self.access(from);
        if is_same {
            self.hand_on_hint(from, to, ranges, length)?;
        }
        Ok(Outcome::Compared(is_same))
    }

    fn exchange(&mut self, ranges: &FileRanges) -> Answer {
        let (from, to) = self.both(ranges, Abilities::EXCHANGE)?;
        let (sizes, length) =
            ((self.contents(from)?.size(), self.contents(to)?.size()), ranges.length);
        let is_inside =
            |offset: u64, size: u64| offset.checked_add(length).is_some_and(|end| end <= size);
        let apart = ranges.from_offset.abs_diff(ranges.to_offset);
        if from == to && apart < length
            || !self.is_aligned(&[ranges.from_offset, ranges.to_offset, length])
            || !is_inside(ranges.from_offset, sizes.0)
            || !is_inside(ranges.to_offset, sizes.1)
        {
            return Err(Errno::INVAL);
        }
        if length == 0 {
            return Ok(Outcome::Done);
        }
        let first = self.contents(from)?.part(ranges.from_offset, length);
        let second = self.contents(to)?.part(ranges.to_offset, length);
        self.contents_mut(from)?.paste(ranges.from_offset, &second);
        self.contents_mut(to)?.paste(ranges.to_offset, &first);
        Ok(Outcome::Done)
    }
}
