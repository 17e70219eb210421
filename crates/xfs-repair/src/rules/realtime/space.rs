//! The bitmap and the summary of a realtime group, or of a section without groups.
//!
//! Owns: both files: their maps, their blocks, and the count of free extents. Does **not** own: the
//! claims.
//!
//! ```text
//! bitmap    bit n is set: no owner claims a block of realtime extent n
//! summary   counter[level · bitmap blocks + b]: free runs of 2^level to 2^(level+1)−1 extents that
//!           start in block b of the bitmap
//! ```

use std::collections::BTreeMap;

use xfs_format::extent::Extent;
use xfs_format::inode::{FileType, ForkKind, InodeFlags};
use xfs_format::realtime::{
    BITMAP_WORD_EXTENTS, RealtimeBlockKind, SPACE_HEADER_BYTES, SPACE_OWNER_BYTES,
    SPACE_WORD_BYTES, SpaceBlock, SpaceBlockForm, encode_space_word,
};
use xfs_format::{
    AgNumber, DiskAddr, FileBlock, FsBlock, IncompatFeatures, InodeNumber, Superblock,
};

use super::GroupRebuild;
use crate::error::RepairError;
use crate::fork::ForkContents;
use crate::metadata::{self, MetadirFiles, MetadirKind};
use crate::patient::Patient;
use crate::section::SectionClaim;

/// The bytes of a block's header that hold the address of the block.
const ADDRESS_BYTES: std::ops::Range<usize> = 16..24;
/// The bytes of a block's header that hold the UUID.
const UUID_BYTES: std::ops::Range<usize> = 32..48;

/// The greatest number of words of a bitmap or a summary that is written: 1 GiB.
const MOST_WORDS: u64 = 1 << 28;

/// The sizes of the bitmap and the summary of a group.
#[derive(Clone, Copy)]
struct SpaceSizes {
    /// The number of realtime extents of the group.
    extents: u64,
    /// The number of blocks of a realtime extent.
    extent_blocks: u64,
    bitmap_blocks: u64,
    levels: u64,
    /// The number of words of a block.
    words: u64,
}

impl SpaceSizes {
    fn of(superblock: &Superblock, group: u32) -> Self {
        let geometry = &superblock.geometry;
        let form = SpaceBlockForm::of(geometry);
        let extent_blocks = u64::from(geometry.realtime_extent_blocks.max(1));
        // The files of a last group that is shorter have the sizes of the other groups.
        let sized_for = match form {
            SpaceBlockForm::Classic => superblock.realtime_extents,
            SpaceBlockForm::Groups => superblock.realtime_group_extents.into(),
        };
        Self {
            extents: geometry.realtime.group_length(group) / extent_blocks,
            extent_blocks,
            bitmap_blocks: superblock.realtime_bitmap_blocks.into(),
            levels: u64::from(sized_for.checked_ilog2().unwrap_or(0)) + 1,
            words: form.words(geometry),
        }
    }

    const fn summary_blocks(&self) -> u64 {
        (self.levels * self.bitmap_blocks).div_ceil(self.words)
    }

    /// Returns the words of the bitmap in which each extent without a claim is free. Returns `None`
    /// if the bitmap is too short for the section, or longer than [`MOST_WORDS`].
    fn bitmap(&self, claims: &[SectionClaim]) -> Option<Vec<u32>> {
        let count = self.bitmap_blocks * self.words;
        if count > MOST_WORDS || count * BITMAP_WORD_EXTENTS < self.extents {
            return None;
        }
        let mut words = vec![0_u32; usize::try_from(count).ok()?];
        set(&mut words, 0, self.extents, true);
        for claim in claims {
            let start = claim.start / self.extent_blocks;
            let end = claim.end().div_ceil(self.extent_blocks);
            set(&mut words, start, end.min(self.extents), false);
        }
        Some(words)
    }

    /// Returns the words of the summary of a bitmap.
    fn summary(&self, bitmap: &[u32]) -> Option<Vec<u32>> {
        let count = self.summary_blocks() * self.words;
        let count = usize::try_from(count).ok().filter(|_| count <= MOST_WORDS)?;
        let mut words = vec![0_u32; count];
        for (start, length) in runs(bitmap) {
            let block = start / (self.words * BITMAP_WORD_EXTENTS);
            let level = u64::from(length.ilog2());
            let index = usize::try_from(level * self.bitmap_blocks + block).ok()?;
            *words.get_mut(index)? += 1;
        }
        Some(words)
    }
}

/// Sets or clears the bits from `start` up to `end`.
fn set(words: &mut [u32], start: u64, end: u64, is_free: bool) {
    let mut at = start;
    while at < end {
        let bit = at % BITMAP_WORD_EXTENTS;
        let count = (BITMAP_WORD_EXTENTS - bit).min(end - at);
        let mask = (u64::from(u32::MAX) >> (BITMAP_WORD_EXTENTS - count)) << bit;
        let mask = u32::try_from(mask).expect("the bits of one word");
        let index = usize::try_from(at / BITMAP_WORD_EXTENTS).unwrap_or(usize::MAX);
        let Some(word) = words.get_mut(index) else { return };
        *word = if is_free { *word | mask } else { *word & !mask };
        at += count;
    }
}

/// Returns the runs of set bits, in order: the first bit, and the number of bits.
fn runs(words: &[u32]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (index, word) in (0_u64..).zip(words) {
        let mut left = u64::from(*word);
        let mut position = 0_u32;
        while left != 0 {
            let gap = left.trailing_zeros();
            left >>= gap;
            let count = left.trailing_ones();
            left >>= count;
            let start = index * BITMAP_WORD_EXTENTS + u64::from(position + gap);
            position += gap + count;
            match runs.last_mut() {
                Some((first, length)) if *first + *length == start => *length += u64::from(count),
                _ => runs.push((start, count.into())),
            }
        }
    }
    runs
}

/// Returns the number of free realtime extents according to the bitmaps of all groups; 0 for a
/// zoned section. Returns `None` if a bitmap cannot be read, or if there is no section.
pub(in crate::rules) fn free_extents(patient: &Patient) -> Option<u64> {
    let superblock = patient.superblock();
    if !superblock.has_realtime() {
        return None;
    }
    if superblock.has_incompat(IncompatFeatures::ZONED) {
        return Some(0);
    }
    let files = MetadirFiles::find(&patient.evidence());
    let mut free = 0;
    for group in metadata::groups(patient.geometry()) {
        let sizes = SpaceSizes::of(superblock, group);
        if sizes.bitmap_blocks * sizes.words > MOST_WORDS {
            return None;
        }
        let inode = files.inode(group, MetadirKind::Bitmap)?;
        let file = SpaceFile { inode, kind: RealtimeBlockKind::Bitmap };
        let mut words = Vec::new();
        for at in file.blocks(patient, sizes.bitmap_blocks)? {
            words.extend(file.read(patient, at?)?);
        }
        let last = sizes.extents;
        free += runs(&words)
            .into_iter()
            .map(|(start, length)| (start + length).min(last).saturating_sub(start))
            .sum::<u64>();
    }
    Some(free)
}

/// The bitmap or the summary of a group.
#[derive(Clone, Copy)]
struct SpaceFile {
    inode: InodeNumber,
    kind: RealtimeBlockKind,
}

impl SpaceFile {
    /// Returns the address of each of the first `count` blocks of the file; `None` for a block that
    /// is not mapped. Returns `None` for the whole file if its inode is damaged.
    fn blocks(self, patient: &Patient, count: u64) -> Option<Vec<Option<DiskAddr>>> {
        let evidence = patient.evidence();
        let found = evidence.inode(self.inode);
        found.core().filter(|_| found.is_sound())?;
        let map = evidence.extents(&found, ForkKind::Data);
        let at = |block: u64| {
            let extent = map.find(FileBlock(block)).filter(|extent| !extent.unwritten)?;
            let start = FsBlock(extent.start.0 + (block - extent.file_block.0));
            patient.geometry().block_disk_addr(start)
        };
        Some((0..count).map(at).collect())
    }

    /// Returns the words of a block, or `None` if its header is wrong.
    fn read(self, patient: &Patient, at: DiskAddr) -> Option<Vec<u32>> {
        let form = SpaceBlockForm::of(patient.geometry());
        let mut bytes = vec![0; patient.geometry().block_size as usize];
        if !patient.can_read(at, &mut bytes) {
            return None;
        }
        let block = SpaceBlock { bytes: &bytes, kind: self.kind, owner: self.inode, at };
        form.verify(&block, &patient.context()).ok()?;
        Some(form.decode(&bytes).collect())
    }

    /// Gives the file the contents `words`: maps as many blocks as they need, and writes the blocks
    /// that differ. Returns whether anything was written.
    fn write(self, patient: &mut Patient, words: &[u32]) -> Result<bool, RepairError> {
        let geometry = patient.geometry();
        let per_block = SpaceBlockForm::of(geometry).words(geometry);
        let chunk = usize::try_from(per_block).expect("a block has few words");
        let count = (words.len() / chunk) as u64;
        let is_known = {
            let found = patient.evidence().inode(self.inode);
            found.is_sound()
                && found.core().is_some_and(|core| core.file_type() == Some(FileType::Regular))
        };
        if !is_known {
            return Ok(false);
        }
        let mut is_written = self.map_blocks(patient, count)?;
        let blocks = self.blocks(patient, count).unwrap_or_default();
        for (at, words) in blocks.into_iter().zip(words.chunks_exact(chunk)) {
            let at = at.expect("all blocks of the file were just mapped");
            if self.read(patient, at).is_some_and(|found| found == words) {
                continue;
            }
            let bytes = self.encode(patient, at, words);
            patient.write(at, &bytes)?;
            is_written = true;
        }
        Ok(is_written)
    }

    /// Maps the first `count` blocks of the file and no others, as written blocks on the data
    /// device, and sets the size. Blocks that are mapped stay where they are.
    fn map_blocks(self, patient: &mut Patient, count: u64) -> Result<bool, RepairError> {
        let found = patient.evidence().inode(self.inode);
        let core = found.core().expect("the caller has read the inode").clone();
        let size = count << patient.geometry().block_log;
        let map = patient.evidence().extents(&found, ForkKind::Data);
        let is_whole = map.is_whole()
            && !core.is_realtime()
            && self.blocks(patient, count).is_some_and(|all| all.iter().all(Option::is_some))
            && map.extents.last().is_none_or(|last| last.end().0 <= count);
        if is_whole && core.size == size {
            return Ok(false);
        }
        if core.is_realtime() || core.size != size {
            patient.set_inode(self.inode, |core| {
                core.size = size;
                core.flags = core.flags.difference(InodeFlags::REALTIME);
            })?;
        }
        if is_whole {
            return Ok(true);
        }
        let found = patient.evidence().inode(self.inode);
        let map = patient.evidence().extents(&found, ForkKind::Data);
        let mut starts: BTreeMap<u64, FsBlock> = BTreeMap::new();
        for extent in &map.extents {
            let blocks = (0..u64::from(extent.length_blocks))
                .map(|index| (extent.file_block.0 + index, FsBlock(extent.start.0 + index)));
            starts.extend(blocks.filter(|(block, _)| *block < count));
        }
        let lost: Vec<u64> = (0..count).filter(|block| !starts.contains_key(block)).collect();
        let near = patient.geometry().split_inode(self.inode);
        let near = near.map_or(AgNumber(0), |(group, _)| group);
        let missing = u32::try_from(lost.len()).unwrap_or(u32::MAX);
        if missing > 0 {
            starts.extend(lost.into_iter().zip(patient.take_blocks(near, missing)?));
        }
        let extents = starts.into_iter().map(|(block, start)| Extent {
            file_block: FileBlock(block),
            start,
            length_blocks: 1,
            unwritten: false,
        });
        let extents = crate::rules::fork::in_order(extents.collect());
        patient.set_fork(self.inode, ForkKind::Data, ForkContents::Extents(extents))?;
        Ok(true)
    }

    /// Returns the bytes of a block.
    fn encode(self, patient: &Patient, at: DiskAddr, words: &[u32]) -> Vec<u8> {
        let geometry = patient.geometry();
        let mut bytes = vec![0; geometry.block_size as usize];
        let form = SpaceBlockForm::of(geometry);
        let header = if form == SpaceBlockForm::Groups { SPACE_HEADER_BYTES } else { 0 };
        let room = bytes.get_mut(header..).expect("a block is longer than its header");
        for (slot, word) in room.chunks_exact_mut(SPACE_WORD_BYTES).zip(words) {
            slot.copy_from_slice(&match form {
                SpaceBlockForm::Classic => encode_space_word(*word),
                SpaceBlockForm::Groups => word.to_be_bytes(),
            });
        }
        if form == SpaceBlockForm::Groups {
            let mut put = |range: std::ops::Range<usize>, value: &[u8]| {
                bytes.get_mut(range).expect("the header is in the block").copy_from_slice(value);
            };
            put(0..4, &self.kind.magic().to_be_bytes());
            put(SPACE_OWNER_BYTES, &self.inode.0.to_be_bytes());
            put(ADDRESS_BYTES, &at.0.to_be_bytes());
            put(UUID_BYTES, &geometry.meta_uuid.into_bytes());
            self.kind.seal(&mut bytes, patient.lsn());
        }
        bytes
    }
}

impl GroupRebuild<'_> {
    /// Writes the bitmap and the summary of the group, where they differ from the claims. Returns
    /// the names of the written files.
    pub(super) fn space(&self, patient: &mut Patient) -> Result<Vec<&'static str>, RepairError> {
        let sizes = SpaceSizes::of(patient.superblock(), self.group);
        let own = self.claims.groups.get(&self.group).map_or(&[][..], Vec::as_slice);
        let Some(bitmap) = sizes.bitmap(own) else { return Ok(Vec::new()) };
        let Some(summary) = sizes.summary(&bitmap) else { return Ok(Vec::new()) };
        let mut written = Vec::new();
        for (kind, block_kind, words, name) in [
            (MetadirKind::Bitmap, RealtimeBlockKind::Bitmap, bitmap, "the bitmap"),
            (MetadirKind::Summary, RealtimeBlockKind::Summary, summary, "the summary"),
        ] {
            let Some(inode) = self.files.inode(self.group, kind) else { continue };
            let file = SpaceFile { inode, kind: block_kind };
            written.extend(file.write(patient, &words)?.then_some(name));
        }
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use super::{runs, set};

    #[test]
    fn runs_cross_words_and_end_where_a_claim_begins() {
        let mut words = vec![0; 3];
        set(&mut words, 0, 96, true);
        assert_eq!(runs(&words), [(0, 96)]);
        set(&mut words, 31, 33, false);
        set(&mut words, 95, 96, false);
        assert_eq!(runs(&words), [(0, 31), (33, 62)]);
        assert_eq!(words, [0x7fff_ffff, 0xffff_fffe, 0x7fff_ffff]);
    }
}
