//! The extent maps of damaged files, and of files whose inode cannot be read ("gone").
//!
//! Owns: joining the map in the inode with the extents that the survey has found in other
//! structures. Does **not** own: finding these extents (`survey.rs`).

use xfs_evidence::{DirectoryEvidence, Evidence, ForkEvidence, FoundName, InodeEvidence, Trust};
use xfs_format::directory::index_start;
use xfs_format::extent::Extent;
use xfs_format::inode::{ForkFormat, ForkKind};
use xfs_format::{FsBlock, InodeNumber};

use crate::node::NodeKind;
use crate::report::Remarks;
use crate::survey::Salvage;

/// The first bytes of the blocks of directories that hold names.
pub(crate) const DIRECTORY_MAGICS: [&[u8; 4]; 3] = [b"XDB3", b"XDD3", b"XDF3"];
/// The first bytes of a block with the target of a symbolic link.
pub(crate) const LINK_MAGIC: &[u8; 4] = b"XSLM";

/// Returns whether the first block of an extent starts with one of these bytes.
pub(crate) fn starts_with_any(
    evidence: &Evidence<'_>,
    first: &Extent,
    magics: &[&[u8; 4]],
) -> bool {
    let mut start = [0; 512];
    let at = evidence.geometry().block_disk_addr(first.start);
    at.is_some_and(|at| evidence.read(at, &mut start).is_ok())
        && magics.iter().any(|magic| start.starts_with(*magic))
}

/// The remarks on a map, and whether the reverse maps are whole, so that every extent is known.
struct MapRemarks<'r> {
    is_complete: bool,
    remarks: &'r mut Remarks,
}

impl Salvage<'_> {
    /// Returns the extent map of a data fork. Extents from the reverse map fill its gaps. Adds
    /// damage in the map to `remarks`.
    pub(crate) fn map(&self, inode: &InodeEvidence, remarks: &mut Remarks) -> ForkEvidence {
        let map = self.evidence.extents(inode, ForkKind::Data);
        let is_realtime = inode.any_core().is_some_and(|core| self.evidence.is_realtime(core));
        let is_complete = match is_realtime {
            true => self.knows_realtime_extents,
            false => self.knows_all_extents,
        };
        // Extents of one device say nothing about a file on the other.
        if is_realtime != self.realtime_forks.contains(&inode.number) && !map.is_whole() {
            let text = map.damages.first().map(|damage| format!("the map is damaged: {damage}"));
            text.into_iter().for_each(|text| remarks.doubt(text));
            return map;
        }
        self.complete_map(inode.number, map, MapRemarks { is_complete, remarks })
    }

    fn complete_map(
        &self,
        number: InodeNumber,
        mut map: ForkEvidence,
        of: MapRemarks<'_>,
    ) -> ForkEvidence {
        let MapRemarks { is_complete, remarks } = of;
        let damage = map.damages.first().map(|damage| format!("the map is damaged: {damage}"));
        let Some(more) = self.forks.get(&number) else {
            damage.into_iter().for_each(|text| remarks.doubt(text));
            return map;
        };
        let is_whole = map.is_whole();
        map.fill(more);
        if is_whole {
            // The map lacks extents of which its own number of extents says nothing.
            let text = "the inode counts other blocks than its map has; the reverse map adds the \
                        rest";
            if is_complete { remarks.note(text) } else { remarks.doubt(text) }
        }
        if is_complete {
            // The reverse map lists every extent, so nothing is missing.
            damage.into_iter().for_each(|text| remarks.note(text));
            map.missing.clear();
        } else {
            damage.into_iter().for_each(|text| remarks.doubt(text));
            let doubtful = std::mem::take(&mut map.doubtful);
            map.fill(&doubtful);
        }
        map
    }

    /// Returns the map of an inode that is gone, from the records of the reverse map; `None` if the
    /// reverse map has no record of the inode.
    pub(crate) fn map_of_gone(&self, number: InodeNumber) -> Option<ForkEvidence> {
        let extents = self.forks.get(&number).filter(|extents| !extents.is_empty())?;
        let mut map = ForkEvidence::default();
        map.fill(extents);
        Some(map)
    }

    /// Returns the kind of an inode that is gone and to which no name led. The first of its blocks
    /// in the reverse map decides. `None` if no file or directory can be made of its blocks.
    pub(crate) fn kind_of_gone(&self, number: InodeNumber) -> Option<NodeKind> {
        let map = self.map_of_gone(number)?;
        let first = map.extents.first()?;
        // Only files have blocks in a realtime section.
        if self.realtime_forks.contains(&number) {
            return Some(NodeKind::GoneFile);
        }
        if starts_with_any(&self.evidence, first, &DIRECTORY_MAGICS) {
            return Some(NodeKind::GoneDirectory);
        }
        let is_link = starts_with_any(&self.evidence, first, &[LINK_MAGIC]);
        Some(if is_link { NodeKind::GoneLink } else { NodeKind::GoneFile })
    }

    /// Returns the names of a directory whose inode is gone, from its blocks. The names of a block
    /// that only a sweep (a search of all blocks) has found are doubtful: the block may have been
    /// freed.
    pub(crate) fn names_of_gone(&self, number: InodeNumber) -> Vec<FoundName> {
        let geometry = self.evidence.geometry();
        let step = 1_usize << geometry.directory_block_log;
        let map = self.map_of_gone(number).unwrap_or_default();
        let by_map = map.extents.iter().flat_map(|extent| {
            let blocks = (0..u64::from(extent.length_blocks)).step_by(step);
            blocks.map(|index| FsBlock(extent.start.0 + index))
        });
        let limit = index_start(geometry);
        let is_data = map.extents.iter().any(|extent| extent.file_block < limit);
        let by_map = by_map.filter_map(|block| geometry.block_disk_addr(block));
        let by_map: Vec<_> = by_map.filter(|_| is_data).map(|at| (at, true)).collect();
        let strays = self.strays.get(&number).into_iter().flatten().map(|at| (*at, false));
        let mut names = Vec::new();
        for (at, is_mapped) in by_map.into_iter().chain(strays) {
            let Some((owner, found)) = self.evidence.directory_block(at) else { continue };
            if owner != number {
                continue;
            }
            names.extend(found.names.into_iter().map(|name| match is_mapped {
                true => name,
                false => FoundName { trust: Trust::Doubtful, ..name },
            }));
        }
        names
    }

    /// Returns the names of a directory, read by its extent map. Extents from the reverse map fill
    /// the gaps of the map.
    pub(crate) fn directory(
        &self,
        inode: &InodeEvidence,
        remarks: &mut Remarks,
    ) -> DirectoryEvidence {
        let is_local = inode.any_core().is_some_and(|core| core.data_format == ForkFormat::Local);
        if is_local {
            return self.evidence.entries(inode);
        }
        let map = self.map(inode, remarks);
        self.evidence.entries_by_map(inode, map)
    }
}
