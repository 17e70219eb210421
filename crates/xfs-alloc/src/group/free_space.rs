//! Both free-space btrees of a group, changed together.
//!
//! Owns: cutting blocks out of a free extent, and joining freed blocks with adjacent free extents.
//! Does **not** own the choice of the extent, or the use that the blocks are put to.
//!
//! # Invariants
//!
//! - **I1** The btree by block and the btree by size hold the same extents, and no two extents are
//!   adjacent.
//! - **I2** `free_blocks` is the sum of the extents, `longest_free_blocks` is the length of the
//!   last extent in the btree by size.

use std::ops::Range;

use xfs_btree::Seek;
use xfs_buffer::{Error, Result};
use xfs_format::agf::AgfCheck;
use xfs_format::free_space::{FreeSpace, FreeSpaceByBlock, FreeSpaceBySize, FreeSpaceCheck};
use xfs_format::{AgBlock, AgNumber, Corruption, Structure, StructureAddress};
use xfs_trans::Transaction;

use super::GroupSpace;

fn extent(range: Range<u32>) -> FreeSpace {
    FreeSpace { start: AgBlock(range.start), count: range.end - range.start }
}

impl GroupSpace {
    /// Removes `range` from the free extent `from`, in both btrees.
    #[doc(alias = "xfs_alloc_fixup_trees")]
    pub(super) fn take_free(
        &mut self,
        tx: &mut Transaction<'_>,
        from: FreeSpace,
        range: Range<u32>,
    ) -> Result<()> {
        assert!(from.start.0 <= range.start, "I3: the blocks lie in the free extent");
        assert!(range.start < range.end, "at least one block is taken");
        assert!(range.end <= from.end().0, "I3: the blocks lie in the free extent");
        let rest = [from.start.0..range.start, range.end..from.end().0];
        let mut rest = rest.into_iter().filter(|part| !part.is_empty()).map(extent);
        let parts = [rest.next(), rest.next()];
        self.replace_by_size(tx, &[from], &parts)?;
        self.replace_by_block(tx, from, &parts)?;
        let count = range.end - range.start;
        let free = self.agf.free_blocks;
        self.agf.free_blocks = free.checked_sub(count).ok_or_else(|| {
            let (longest, length) = (self.agf.longest_free_blocks, self.agf.length_blocks);
            self.corrupt(Structure::Agf, AgfCheck::FreeBlocks { free, longest, length })
        })?;
        self.count_withheld(&range, |free, blocks| free.saturating_sub(blocks));
        Ok(())
    }

    fn replace_by_block(
        &mut self,
        tx: &mut Transaction<'_>,
        from: FreeSpace,
        parts: &[Option<FreeSpace>; 2],
    ) -> Result<()> {
        let number = self.number;
        let mut editor = self.edit::<FreeSpaceByBlock>(tx)?;
        if editor.find(from.start)? != Some(from) {
            return Err(disagree(number, from));
        }
        match *parts {
            [None, _] => editor.remove().map(|_| ()),
            [Some(first), second] => {
                editor.update(first)?;
                second.map_or(Ok(()), |second| editor.insert(second))
            }
        }
    }

    /// Replaces records in the btree that is ordered by size: removes the records `old`, and
    /// inserts those of `new` that are not `None`.
    fn replace_by_size(
        &mut self,
        tx: &mut Transaction<'_>,
        old: &[FreeSpace],
        new: &[Option<FreeSpace>],
    ) -> Result<()> {
        let number = self.number;
        let mut editor = self.edit::<FreeSpaceBySize>(tx)?;
        for record in old {
            if editor.find((record.count, record.start))?.is_none() {
                return Err(disagree(number, *record));
            }
            editor.remove()?;
        }
        for record in new.iter().flatten() {
            editor.insert(*record)?;
        }
        // I2: the list of extents has changed only here since the last time.
        let longest = editor.last()?.map_or(0, |record| record.count);
        drop(editor);
        self.agf.longest_free_blocks = longest;
        Ok(())
    }

    /// Adds freed blocks to both btrees, joined with the adjacent free extents.
    #[doc(alias = "xfs_free_ag_extent")]
    pub(super) fn give_free(&mut self, tx: &mut Transaction<'_>, range: Range<u32>) -> Result<()> {
        let freed = extent(range.clone());
        let number = self.number;
        let mut editor = self.edit::<FreeSpaceByBlock>(tx)?;
        let before = editor.seek(Seek::AtOrBefore(freed.start))?;
        let after = editor.seek(Seek::AtOrAfter(freed.start))?;
        if before.is_some_and(|before| before.end() > freed.start)
            || after.is_some_and(|after| after.start < freed.end())
        {
            return Err(disagree(number, freed));
        }
        let left = before.filter(|before| before.end() == freed.start);
        let right = after.filter(|after| after.start == freed.end());
        let start = left.map_or(range.start, |left| left.start.0);
        let joined = extent(start..right.map_or(range.end, |right| right.end().0));
        match (left, right) {
            (Some(left), right) => {
                if right.is_some() {
                    editor.remove()?;
                }
                let found = editor.find(left.start)?;
                assert!(found == Some(left), "I1: the btree changes only under this latch");
                editor.update(joined)?;
            }
            (None, Some(_)) => editor.update(joined)?,
            (None, None) => editor.insert(joined)?,
        }
        drop(editor);
        let old: Vec<FreeSpace> = left.into_iter().chain(right).collect();
        self.replace_by_size(tx, &old, &[Some(joined)])?;
        self.agf.free_blocks += freed.count;
        self.count_withheld(&range, |free, blocks| free + blocks);
        Ok(())
    }
}

/// Returns the error for an extent that only one of the two btrees holds (I1: they hold the same
/// extents).
#[cold]
fn disagree(group: AgNumber, record: FreeSpace) -> Error {
    let check = FreeSpaceCheck::Disagree { start: record.start.0, count: record.count };
    Corruption::new(Structure::Btree, StructureAddress::Group(group), check).into()
}
