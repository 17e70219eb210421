//! The bitmap and the summary of a realtime group, or of a section without groups.
//!
//! Owns: reading both files block by block, the free extents that follow from the bitmap, and the
//! comparison of the summary with them. Memory does not depend on the length of the files: one
//! column of the summary (the counters of one block of the bitmap) is compared at a time, and one
//! block of the summary is kept for each level.
//!
//! ```text
//! bitmap    bit n is set: realtime extent n is free
//! summary   counter[level · bitmap blocks + b]: free runs of 2^level to 2^(level+1)−1 extents that
//!           start in block b of the bitmap
//! ```

use std::rc::Rc;

use xfs_format::geometry::RealtimeBlock;
use xfs_format::inode::FileType;
use xfs_format::realtime::{BITMAP_WORD_EXTENTS, RealtimeBlockKind, SpaceBlock, SpaceBlockForm};
use xfs_format::rmap::RmapFlags;
use xfs_format::{AgBlock, DiskAddr, FileBlock, FsBlock, InodeNumber, Structure};

use super::GroupCheck;
use crate::blocks::{Evidence, Findings, Volume};
use crate::code::Code;
use crate::facts::{Claim, Facts, Gap, Owner};
use crate::finding::{Finding, Place};
use crate::fork::ForkMap;
use crate::metadir::read_map;
use crate::region::{RealtimeRun, Region, claims};
use crate::used_inode::{Inode, read_inode};

/// The sizes of the bitmap and the summary of a group.
#[derive(Clone, Copy)]
struct SpaceSizes {
    /// Number of realtime extents that exist.
    extents: u64,
    /// Number of blocks of the bitmap.
    bitmap_blocks: u64,
    /// Number of levels of the summary.
    levels: u32,
    /// Number of words of a block.
    words: u64,
}

impl SpaceSizes {
    fn of(volume: Volume<'_>, group: u32) -> Self {
        let (superblock, geometry) = (volume.superblock, volume.geometry());
        let form = SpaceBlockForm::of(geometry);
        let extent_blocks = u64::from(geometry.realtime_extent_blocks.max(1));
        let extents = geometry.realtime.group_length(group) / extent_blocks;
        // The files of a last group that is shorter have the sizes of the other groups.
        let sized_for = match form {
            SpaceBlockForm::Classic => superblock.realtime_extents,
            SpaceBlockForm::Groups => superblock.realtime_group_extents.into(),
        };
        Self {
            extents,
            bitmap_blocks: superblock.realtime_bitmap_blocks.into(),
            levels: sized_for.checked_ilog2().unwrap_or(0) + 1,
            words: form.words(geometry),
        }
    }

    fn summary_blocks(&self) -> u64 {
        (u64::from(self.levels) * self.bitmap_blocks).div_ceil(self.words)
    }

    fn bits(&self) -> u64 {
        self.words * BITMAP_WORD_EXTENTS
    }
}

/// The bitmap or the summary, ready to be read.
struct SpaceFile<'a> {
    volume: Volume<'a>,
    group: u32,
    form: SpaceBlockForm,
    kind: RealtimeBlockKind,
    inode: InodeNumber,
    map: ForkMap,
}

impl SpaceFile<'_> {
    fn place(&self, block: u64, at: Option<DiskAddr>) -> Place {
        let geometry = self.volume.geometry();
        let place = Place::of_inode(self.inode, geometry).at_file_block(FileBlock(block), false);
        Place { realtime_group: Some(self.group), disk_addr: at.or(place.disk_addr), ..place }
    }

    /// Reads a block of the file. Returns its words, or `None` and a finding if it cannot be used.
    fn read(&self, block: u64, findings: &mut Findings) -> Option<Vec<u32>> {
        let geometry = self.volume.geometry();
        let mut problem = |found: &str| {
            findings.push(Finding::new(Code::RtFile, self.place(block, None), found));
            None
        };
        if !self.volume.reads.take(1) {
            return problem("the files of the section map more blocks than the volume has");
        }
        let Some(extent) = self.map.find(FileBlock(block)) else {
            return problem("the file has a hole");
        };
        if extent.unwritten {
            return problem("the file has an unwritten extent");
        }
        let start = FsBlock(extent.start.0 + (block - extent.file_block.0));
        let Some(at) = geometry.block_disk_addr(start) else {
            return problem("the file maps a block that the volume does not have");
        };
        let mut bytes = vec![0; geometry.block_size as usize];
        if let Err(error) = self.volume.read(at, &mut bytes) {
            let place = self.place(block, Some(at));
            findings.unreadable(Structure::RealtimeMetadata, place, &error);
            return None;
        }
        let space = SpaceBlock { bytes: &bytes, kind: self.kind, owner: self.inode, at };
        if let Err(corruption) = self.form.verify(&space, &self.volume.context()) {
            let mut finding = Finding::of(&corruption, geometry);
            finding.place = self.place(block, Some(at));
            findings.push(finding);
            if Evidence::left_by(&corruption) == Evidence::None {
                return None;
            }
        }
        Some(self.form.decode(&bytes).collect())
    }
}

/// A run of free extents.
#[derive(Clone, Copy)]
struct FreeRun {
    start: u64,
    count: u64,
}

/// The summary, compared column by column with the runs of the bitmap.
struct SummaryColumns<'a> {
    file: SpaceFile<'a>,
    sizes: SpaceSizes,
    findings: Findings,
    /// The block of the bitmap whose runs are being counted.
    column: u64,
    counts: Vec<u32>,
    /// For each level, the block of the summary that was read last.
    cache: Vec<Option<CachedBlock>>,
}

/// A block of the summary, or the fact that it could not be read.
#[derive(Clone)]
struct CachedBlock {
    number: u64,
    words: Option<Rc<[u32]>>,
}

impl SummaryColumns<'_> {
    /// Counts a run of free extents. Runs come in the order of their starts.
    fn count(&mut self, run: FreeRun) {
        let column = run.start / self.sizes.bits();
        self.finish_until(column);
        let level = run.count.checked_ilog2().unwrap_or(0) as usize;
        if let Some(count) = self.counts.get_mut(level) {
            *count += 1;
        }
    }

    /// Compares all columns before `end`.
    fn finish_until(&mut self, end: u64) {
        while self.column < end {
            self.compare();
            self.counts.fill(0);
            self.column += 1;
        }
    }

    fn compare(&mut self) {
        for level in 0..self.sizes.levels {
            let index = u64::from(level) * self.sizes.bitmap_blocks + self.column;
            let slot = level as usize;
            let expected = self.counts.get(slot).copied().unwrap_or(0);
            let Some(found) = self.counter(slot, index) else {
                continue;
            };
            if found != expected {
                let place = self.file.place(index / self.sizes.words, None);
                let found = format!(
                    "{found} free runs of 2^{level} extents in block {} of the bitmap",
                    self.column
                );
                let finding = Finding::new(Code::RtSummary, place, found);
                self.findings.push(
                    finding
                        .expected(expected.to_string())
                        .witness("the bitmap", format!("{expected} runs")),
                );
            }
        }
    }

    /// Returns a counter of the summary, or `None` if its block cannot be read.
    fn counter(&mut self, slot: usize, index: u64) -> Option<u32> {
        let number = index / self.sizes.words;
        let word = usize::try_from(index % self.sizes.words).expect("a word of a block");
        if self.cache.get(slot)?.as_ref().is_none_or(|cached| cached.number != number) {
            // All counters of a short summary are in one block. It is read once, not once for each
            // level, because the budget of reads counts on that.
            let shared = self.cache.iter().flatten().find(|cached| cached.number == number);
            let block = shared.cloned().unwrap_or_else(|| {
                let words = self.file.read(number, &mut self.findings).map(Rc::from);
                CachedBlock { number, words }
            });
            *self.cache.get_mut(slot)? = Some(block);
        }
        self.cache.get(slot)?.as_ref()?.words.as_ref()?.get(word).copied()
    }
}

impl<'a, T: Facts> GroupCheck<'a, T> {
    /// Checks the bitmap and the summary of the group, and reports its free extents.
    pub(super) fn space(&mut self, bitmap: Option<InodeNumber>, summary: Option<InodeNumber>) {
        let sizes = SpaceSizes::of(self.volume, self.group.number);
        let block_bytes = u64::from(self.volume.geometry().block_size);
        let bitmap =
            self.open(bitmap, RealtimeBlockKind::Bitmap, sizes.bitmap_blocks * block_bytes);
        let summary =
            self.open(summary, RealtimeBlockKind::Summary, sizes.summary_blocks() * block_bytes);
        let Some(bitmap) = bitmap else {
            self.gap(Gap::GroupClaims);
            return;
        };
        let mut columns = summary.map(|file| {
            let levels = sizes.levels as usize;
            SummaryColumns {
                file,
                sizes,
                findings: self.findings.empty_alike(),
                column: 0,
                counts: vec![0; levels],
                cache: (0..levels).map(|_| None).collect(),
            }
        });
        let free = self.bitmap(&bitmap, sizes, columns.as_mut());
        self.summary.free_extents = free;
        if free.is_none() {
            self.gap(Gap::GroupClaims);
        }
        // Without the whole bitmap, the counters cannot be judged.
        if let (Some(mut columns), Some(_)) = (columns, free) {
            columns.finish_until(sizes.bitmap_blocks);
            self.findings.append(columns.findings);
        }
    }

    /// Opens the bitmap or the summary, and checks its length. Returns `None` if it cannot be read
    /// at all; the pass over inodes reports why.
    fn open(
        &mut self,
        inode: Option<InodeNumber>,
        kind: RealtimeBlockKind,
        bytes: u64,
    ) -> Option<SpaceFile<'a>> {
        let number = inode?;
        let (core, raw) = read_inode(self.volume, number)?;
        if core.file_type() != Some(FileType::Regular) {
            self.file_problem(number, "the inode is no regular file".to_owned());
            return None;
        }
        if core.is_realtime() {
            self.file_problem(number, "the file is a realtime file".to_owned());
            return None;
        }
        if core.size != bytes {
            self.file_problem(number, format!("{} bytes, expected {bytes}", core.size));
        }
        let inode = Inode { core, bytes: &raw, file_type: FileType::Regular };
        let map = read_map(self.volume, &inode)?;
        let form = SpaceBlockForm::of(self.volume.geometry());
        let (volume, group) = (self.volume, self.group.number);
        Some(SpaceFile { volume, group, form, kind, inode: number, map })
    }

    /// Reads the bitmap. Returns the number of free extents, or `None` if a block could not be
    /// read.
    fn bitmap(
        &mut self,
        file: &SpaceFile<'_>,
        sizes: SpaceSizes,
        mut columns: Option<&mut SummaryColumns<'_>>,
    ) -> Option<u64> {
        let (mut free, mut open): (u64, Option<FreeRun>) = (0, None);
        let (mut is_whole, mut has_tail) = (true, false);
        for block in 0..sizes.bitmap_blocks {
            let Some(words) = file.read(block, self.findings) else {
                self.finish_run(open.take(), columns.as_deref_mut());
                is_whole = false;
                // A file with a hole may be as long as its inode says. Its first hole ends it, and
                // so does the last block of the budget of reads (C5 of the crate).
                let is_hole = file.map.find(FileBlock(block)).is_none();
                if is_hole || self.volume.reads.is_spent() {
                    break;
                }
                continue;
            };
            for (index, word) in (0..).zip(words) {
                let first = block * sizes.bits() + index * BITMAP_WORD_EXTENTS;
                let exist = sizes.extents.saturating_sub(first).min(BITMAP_WORD_EXTENTS);
                let mask = u32::try_from((1_u64 << exist) - 1).expect("at most 32 bits");
                has_tail |= word & !mask != 0;
                let word = word & mask;
                free += u64::from(word.count_ones());
                for run in runs_of(word) {
                    let run = FreeRun { start: first + run.start, ..run };
                    match &mut open {
                        Some(before) if before.start + before.count == run.start => {
                            before.count += run.count;
                        }
                        _ => self.finish_run(open.replace(run), columns.as_deref_mut()),
                    }
                }
            }
        }
        self.finish_run(open, columns);
        if has_tail {
            let found = format!("free extents after extent {}", sizes.extents);
            self.findings.push(Finding::new(Code::RtBitmapEnd, file.place(0, None), found));
        }
        is_whole.then_some(free)
    }

    /// Reports a run of free extents, and counts it in the summary.
    fn finish_run(&mut self, run: Option<FreeRun>, columns: Option<&mut SummaryColumns<'_>>) {
        let Some(run) = run else { return };
        let extent_blocks = u64::from(self.group.geometry.realtime_extent_blocks.max(1));
        let first = RealtimeBlock::new(self.group.number, run.start * extent_blocks);
        let run_of_blocks = RealtimeRun { first, count: run.count * extent_blocks };
        let like = Claim {
            region: Region::Realtime(self.group.number),
            start: AgBlock(0),
            count: 0,
            owner: Owner::Free,
            offset: 0,
            flags: RmapFlags::empty(),
        };
        for claim in claims(run_of_blocks, like, self.group.geometry) {
            self.facts.claim(&claim);
        }
        if let Some(columns) = columns {
            columns.count(run);
        }
    }
}

/// Returns the runs of bits that are set in a word, from the lowest bit on.
fn runs_of(word: u32) -> impl Iterator<Item = FreeRun> {
    let (mut left, mut position) = (u64::from(word), 0);
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let gap = left.trailing_zeros();
        left >>= gap;
        let count = left.trailing_ones();
        left >>= count;
        let start = u64::from(position + gap);
        position += gap + count;
        Some(FreeRun { start, count: count.into() })
    })
}

#[cfg(test)]
mod tests {
    use super::runs_of;

    fn runs(word: u32) -> Vec<(u64, u64)> {
        runs_of(word).map(|run| (run.start, run.count)).collect()
    }

    #[test]
    fn runs_of_a_word_are_its_maximal_sequences_of_set_bits() {
        assert_eq!(runs(0), []);
        assert_eq!(runs(u32::MAX), [(0, 32)]);
        assert_eq!(runs(0b1011_0001), [(0, 1), (4, 2), (7, 1)]);
        assert_eq!(runs(1 << 31), [(31, 1)]);
    }
}
