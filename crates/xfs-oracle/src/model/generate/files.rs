//! Generates random operations on the contents of files.

use super::{Generator, WantedNode};
use crate::model::operation::{
    Abilities, AllocationMode, FileRanges, FileTarget, IoMode, Operation, RealtimeRules, SLOTS,
};
use crate::model::{Model, Node};

/// The size in bytes below which most files stay.
const USUAL_BYTES: u64 = 1 << 20;
/// The longest range of an operation in bytes. It is short because the model stores the data of
/// shared blocks twice.
const RANGE_MAX: u64 = 4 << 20;

impl Generator {
    pub(super) fn open(&mut self, model: &Model) -> Option<Operation> {
        let want = if self.chance(30) { WantedNode::Openable } else { WantedNode::File };
        let slot = self.random.below(SLOTS as u64) as usize;
        Some(Operation::Open { slot, path: self.existing(model, want)? })
    }

    pub(super) fn close(&mut self, _: &Model) -> Option<Operation> {
        Some(Operation::Close { slot: self.random.below(SLOTS as u64) as usize })
    }

    /// Returns the size of a file in bytes, or 0 if it does not exist.
    fn size(model: &Model, file: &FileTarget) -> u64 {
        let node = model.file(file).and_then(|id| model.node(id));
        node.ok().and_then(|node| node.contents()).map_or(0, |contents| contents.size())
    }

    /// Returns a random offset in a file, or past its end.
    fn offset(&mut self, model: &Model, file: &FileTarget) -> u64 {
        let (size, block) = (Self::size(model, file), model.features().block_bytes);
        match self.random.below(10) {
            0 => size,
            1 => size.saturating_sub(self.random.below(block)),
            2 | 3 => self.random.below(size.max(1)),
            4..=6 => self.random.below(size.max(1).div_ceil(block) + 2) * block,
            7 if self.chance(20) => self.random.below(1 << 40),
            _ => self.random.below(USUAL_BYTES / 4),
        }
    }

    fn length(&mut self, model: &Model) -> u64 {
        let block = model.features().block_bytes;
        match self.random.below(10) {
            0..=3 => 1 + self.random.below(block * 2),
            4..=7 => (1 + self.random.below(12)) * block,
            8 => 1 + self.random.below(USUAL_BYTES / 16),
            _ => self.random.below(64),
        }
    }

    pub(super) fn write(&mut self, model: &Model) -> Option<Operation> {
        let file = self.target(model)?;
        let offset = self.offset(model, &file);
        let length = self.length(model);
        Some(Operation::Write { file, offset, length, number: self.number() })
    }

    pub(super) fn read(&mut self, model: &Model) -> Option<Operation> {
        let file = self.target(model)?;
        let offset = self.offset(model, &file);
        Some(Operation::Read { file, offset, length: self.length(model) })
    }

    /// Returns the arguments of a preadv or pwritev: the I/O mode, the offset, and the lengths of
    /// the buffers. For direct I/O, offset and lengths are multiples of the block size.
    fn pieces(&mut self, model: &Model, file: &FileTarget) -> (IoMode, u64, Vec<u64>) {
        let block = model.features().block_bytes;
        let (way, unit) = match self.chance(2) {
            true => (IoMode::Direct, block),
            false => (IoMode::Cached, 1),
        };
        let mut offset = self.offset(model, file);
        offset -= offset % unit;
        let count = 1 + self.random.below(6);
        let lengths = (0..count).map(|_| self.length(model).next_multiple_of(unit)).collect();
        (way, offset, lengths)
    }

    pub(super) fn write_pieces(&mut self, model: &Model) -> Option<Operation> {
        let file = self.target(model)?;
        let (way, mut offset, lengths) = self.pieces(model, &file);
        if way == IoMode::Direct && self.chance(20) {
            offset += 1 + self.random.below(511);
        }
        let number = self.number();
        Some(Operation::WritePieces { file, offset, lengths, number, way })
    }

    pub(super) fn read_pieces(&mut self, model: &Model) -> Option<Operation> {
        let file = self.target(model)?;
        let (way, offset, mut lengths) = self.pieces(model, &file);
        if way == IoMode::Direct {
            // The kernel returns EIO for a direct read from the data of a file into its delayed
            // allocation past the end.
            let block = model.features().block_bytes;
            let rest = Self::size(model, &file).saturating_sub(offset);
            let mut room = rest.next_multiple_of(block).max(block);
            for length in &mut lengths {
                *length = (*length).min(room);
                room -= *length;
            }
            lengths.retain(|length| *length > 0);
        }
        Some(Operation::ReadPieces { file, offset, lengths, way })
    }

    pub(super) fn scan(&mut self, model: &Model) -> Option<Operation> {
        let file = self.target(model)?;
        let offset = self.offset(model, &file);
        Some(Operation::Scan { file, offset: offset - offset % 512 })
    }

    pub(super) fn truncate(&mut self, model: &Model) -> Option<Operation> {
        let file = self.target(model)?;
        let size = match self.random.below(6) {
            0 => 0,
            _ => self.offset(model, &file),
        };
        Some(Operation::Truncate { file, size })
    }

    pub(super) fn allocate(&mut self, model: &Model) -> Option<Operation> {
        let modes = [
            AllocationMode::Allocate,
            AllocationMode::AllocateKeepSize,
            AllocationMode::PunchHole,
            AllocationMode::PunchHole,
            AllocationMode::Zero,
            AllocationMode::ZeroKeepSize,
            AllocationMode::Collapse,
            AllocationMode::Insert,
            AllocationMode::Unshare,
        ];
        let (file, mode) = (self.target(model)?, self.choose(&modes)?);
        let (mut offset, mut length) = (self.offset(model, &file), self.length(model));
        let moves = matches!(mode, AllocationMode::Collapse | AllocationMode::Insert);
        if moves && !self.chance(20) {
            let features = model.features();
            let block = match features.section {
                Some(_) => features.realtime_extent_bytes(),
                None => features.block_bytes,
            };
            offset -= offset % block;
            length = length.next_multiple_of(block).max(block);
        }
        Some(Operation::Allocate { file, mode, offset, length })
    }

    /// Returns ranges of two files for an operation. In most cases the ranges can share blocks.
    /// `None` if no file is found.
    fn ranges(&mut self, model: &Model) -> Option<FileRanges> {
        let block = model.features().block_bytes;
        let (from, to) = (self.target(model)?, self.target(model)?);
        let (from_size, to_size) = (Self::size(model, &from), Self::size(model, &to));
        let mut from_offset = self.random.below(from_size / block + 1) * block;
        let to_offset = self.random.below(to_size / block + 2) * block;
        let most = from_size.saturating_sub(from_offset);
        let mut length = (self.random.below((most / block).min(16) + 1)) * block;
        match self.random.below(30) {
            0 => from_offset += 1,
            1 => length += 1 + self.random.below(block),
            2..=6 => length = most.min(RANGE_MAX),
            7 => length = 0,
            _ => {}
        }
        if length == 0 && most > RANGE_MAX {
            length = block;
        }
        Some(FileRanges { from, from_offset, to, to_offset, length })
    }

    pub(super) fn clone_range(&mut self, model: &Model) -> Option<Operation> {
        let ranges = self.ranges(model)?;
        model.features().abilities.contains(Abilities::REFLINK).then_some(Operation::Clone(ranges))
    }

    pub(super) fn deduplicate(&mut self, model: &Model) -> Option<Operation> {
        let mut ranges = self.ranges(model)?;
        if !model.features().abilities.contains(Abilities::REFLINK) {
            return None;
        }
        let block = model.features().block_bytes;
        // Only the kernel's own code tells how it shortens a length within a block.
        ranges.length = ranges.length.next_multiple_of(block).max(block);
        // Files that were cloned have the same start.
        if self.chance(2) {
            (ranges.from_offset, ranges.to_offset) = (0, 0);
        }
        Some(Operation::Deduplicate(ranges))
    }

    /// Returns whether the files of the two ranges may exchange blocks. ferroxfs refuses by name to
    /// exchange realtime files of a section without groups.
    fn may_exchange(model: &Model, ranges: &FileRanges) -> bool {
        let is_realtime = |target: &FileTarget| {
            model.file(target).and_then(|id| model.node(id)).is_ok_and(Node::is_realtime)
        };
        matches!(model.features().section, None | Some(RealtimeRules::Groups))
            || ![&ranges.from, &ranges.to].into_iter().any(is_realtime)
    }

    pub(super) fn exchange(&mut self, model: &Model) -> Option<Operation> {
        let mut ranges = self.ranges(model)?;
        if !model.features().abilities.contains(Abilities::EXCHANGE) {
            return None;
        }
        if !Self::may_exchange(model, &ranges) {
            return None;
        }
        let block = model.features().block_bytes;
        ranges.from_offset -= ranges.from_offset % block;
        let room = Self::size(model, &ranges.from).saturating_sub(ranges.from_offset);
        let other = Self::size(model, &ranges.to).saturating_sub(ranges.to_offset);
        ranges.length = room.min(other).min(RANGE_MAX) / block * block;
        (ranges.length > 0).then_some(Operation::Exchange(ranges))
    }
}
