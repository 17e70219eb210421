//! The free blocks of a group. They show which blocks of a deleted file another owner uses now: the
//! contents of the deleted file must not include these.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use xfs_evidence::{Evidence, Trust};
use xfs_format::AgNumber;
use xfs_format::extent::Extent;
use xfs_format::free_space::FreeSpaceByBlock;

use crate::claims::Claims;

/// The most groups whose free space is kept in memory.
const MOST_GROUPS: usize = 8;

/// The free extents of a group, in order; `None` if its btree is damaged.
type GroupExtents = Option<Rc<Vec<(u32, u32)>>>;

/// A cache of the free space of the groups that were looked up last.
#[derive(Default)]
pub(crate) struct UnusedSpace {
    groups: RefCell<BTreeMap<AgNumber, GroupExtents>>,
}

impl UnusedSpace {
    fn group(&self, evidence: &Evidence<'_>, group: AgNumber) -> GroupExtents {
        if let Some(known) = self.groups.borrow().get(&group) {
            return known.clone();
        }
        let mut extents = Vec::new();
        let mut is_sound = true;
        let read = evidence.group_records::<FreeSpaceByBlock>(group, |record, trust| {
            is_sound &= trust == Trust::Sound;
            extents.push((record.start.0, record.start.0 + record.count));
        });
        let known = (read.is_whole && is_sound).then(|| Rc::new(extents));
        let mut groups = self.groups.borrow_mut();
        if groups.len() >= MOST_GROUPS {
            groups.clear();
        }
        groups.insert(group, known.clone());
        known
    }

    /// Returns those parts of an extent of a deleted file that are free now. If the free-space
    /// btree is damaged, the extent counts as free if no file claims a block of it. If it is not
    /// known which blocks files claim, the extent counts as used.
    pub(crate) fn free_parts(
        &self,
        evidence: &Evidence<'_>,
        claims: &Claims,
        extent: &Extent,
    ) -> Vec<Extent> {
        let geometry = evidence.geometry();
        let Some((group, start)) = geometry.split_block(extent.start) else { return Vec::new() };
        let Some(free) = self.group(evidence, group) else {
            let is_free = claims.is_examined() && !claims.is_claimed(extent, geometry);
            return if is_free { vec![*extent] } else { Vec::new() };
        };
        let end = start.0.saturating_add(extent.length_blocks);
        let first = free.partition_point(|(_, stop)| *stop <= start.0);
        let parts = free.iter().skip(first).take_while(|(begin, _)| *begin < end);
        let parts = parts.map(|(begin, stop)| {
            let (from, to) = ((*begin).max(start.0), (*stop).min(end));
            let skipped = u64::from(from - start.0);
            Extent {
                file_block: xfs_format::FileBlock(extent.file_block.0 + skipped),
                start: xfs_format::FsBlock(extent.start.0 + skipped),
                length_blocks: to - from,
                unwritten: extent.unwritten,
            }
        });
        parts.collect()
    }
}
