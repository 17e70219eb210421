//! The layout of each allocation group of a new volume.
//!
//! Owns: the locations of headers, roots, log, free list and first inodes, and the records that
//! follow from them: free space, reverse map. Does **not** own the bytes that are written there.
//!
//! ```text
//! headers | by block | by size | inodes | free inodes | reverse map | refcounts | (log) |
//! free list | .. first inodes (group 0) .. | free
//! ```
//!
//! The blocks of the free list are taken from the free space as an allocation takes blocks: from
//! the shortest free extent that suffices. So a gap before an aligned log is used first if it is
//! long enough.

use xfs_format::agf::BtreeRoot;
use xfs_format::free_space::FreeSpace;
use xfs_format::reservation::BtreeHeights;
use xfs_format::rmap::{Rmap, RmapFlags, RmapOwner};
use xfs_format::{AgBlock, AgInode, AgNumber, FileBlock, Geometry, RoCompatFeatures};

/// A range of blocks with an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedExtent {
    /// The number of the first block in its group.
    pub start: AgBlock,
    /// The number of blocks.
    pub count: u32,
    /// The owner of the blocks.
    pub owner: RmapOwner,
}

/// The roots of a group's btrees, with their block numbers. `None` for a btree that the volume does
/// not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BtreeRoots {
    pub(crate) by_block: BtreeRoot,
    pub(crate) by_size: BtreeRoot,
    pub(crate) inodes: BtreeRoot,
    pub(crate) free_inodes: Option<BtreeRoot>,
    pub(crate) reverse_map: Option<BtreeRoot>,
    pub(crate) refcount: Option<BtreeRoot>,
    /// The block after the last root.
    pub(crate) end: AgBlock,
}

impl BtreeRoots {
    /// Returns the locations of the roots in every group of a volume.
    #[must_use]
    pub fn new(geometry: &Geometry) -> Self {
        let mut next = AgBlock(geometry.header_blocks());
        let mut root = || {
            let block = next;
            next = AgBlock(next.0 + 1);
            BtreeRoot { block, levels: 1 }
        };
        let (by_block, by_size, inodes) = (root(), root(), root());
        let mut root_for = |feature| geometry.has_ro_compat(feature).then(&mut root);
        let free_inodes = root_for(RoCompatFeatures::FINOBT);
        let reverse_map = root_for(RoCompatFeatures::RMAPBT);
        let refcount = root_for(RoCompatFeatures::REFLINK);
        Self { by_block, by_size, inodes, free_inodes, reverse_map, refcount, end: next }
    }
}

/// Returns the first block of a group after its headers and roots.
#[doc(alias = "xfs_prealloc_blocks")]
#[must_use]
pub(crate) fn first_free_block(geometry: &Geometry) -> AgBlock {
    BtreeRoots::new(geometry).end
}

/// The part of the layout that is the same in all groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeLayout {
    /// The block numbers of the btree roots, which are the same in every group.
    pub roots: BtreeRoots,
    /// The log: its group, first block and number of blocks. `None` if the log is external.
    pub log: Option<(AgNumber, AgBlock, u32)>,
    /// The number of blocks of each free list.
    pub free_list_blocks: u32,
    /// The alignment of the first inode chunk: it starts at a multiple of this many blocks.
    pub inode_alignment: u32,
    /// The groups that have inodes, and the files among the first inodes.
    pub inodes: Vec<FirstInodes>,
}

/// The first inodes of a group, and the files among them that have blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstInodes {
    /// The group number.
    pub group: AgNumber,
    /// The number of inodes in use. They have the first slots of the chunk.
    pub used: u32,
    /// The files, in the order in which they get their blocks.
    pub files: Vec<FileBlocks>,
}

/// A file among the first inodes, and the number of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileBlocks {
    /// The slot of the inode in the chunk.
    pub slot: u32,
    /// The number of blocks, which are one extent.
    pub blocks: u32,
}

/// A file among the first inodes, and the place of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedFile {
    /// The slot of the inode in the chunk.
    pub slot: u32,
    /// The first block in the group.
    pub start: AgBlock,
    /// The number of blocks.
    pub blocks: u32,
}

/// The layout of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLayout {
    /// The group number.
    pub number: AgNumber,
    /// The length of the group in blocks.
    pub length_blocks: u32,
    /// The free extents, sorted by block number.
    pub free: Vec<FreeSpace>,
    /// The block numbers of the free list, in its order.
    pub free_list: Vec<AgBlock>,
    /// All used extents, sorted by block number.
    pub owned: Vec<OwnedExtent>,
    /// The first block of the first inodes. `None` in groups without inodes.
    pub inodes: Option<AgBlock>,
    /// The number of inodes in use.
    pub used_inodes: u32,
    /// The blocks of files among the first inodes.
    pub files: Vec<PlacedFile>,
}

/// Returns the number of blocks that a group's free list must have: enough to split a full root
/// once in each btree of the group.
#[doc(alias = "xfs_alloc_min_freelist")]
#[must_use]
pub(crate) fn free_list_blocks(geometry: &Geometry) -> u32 {
    let heights = BtreeHeights::new(geometry);
    // A split makes a tree of one level two levels high, if the tree may be that high.
    let split = |height: u32| 2 * height.min(2) - 2;
    let reverse_map = match geometry.has_ro_compat(RoCompatFeatures::RMAPBT) {
        true => split(heights.reverse_map),
        false => 0,
    };
    2 * split(heights.free_space) + reverse_map
}

impl VolumeLayout {
    /// Returns the layout of a group, or `None` if a group has no room for its first inodes or
    /// their files.
    #[must_use]
    pub fn group(&self, geometry: &Geometry, number: AgNumber) -> Option<GroupLayout> {
        let length_blocks = geometry.ag_length(number);
        let mut group = GroupLayout {
            number,
            length_blocks,
            free: vec![FreeSpace {
                start: self.roots.end,
                count: length_blocks.checked_sub(self.roots.end.0)?,
            }],
            free_list: Vec::new(),
            owned: self.metadata(geometry),
            inodes: None,
            used_inodes: 0,
            files: Vec::new(),
        };
        if let Some((_, start, count)) = self.log.filter(|(group, ..)| *group == number) {
            group.take(OwnedExtent { start, count, owner: RmapOwner::Log })?;
        }
        group.fill_free_list(self.free_list_blocks)?;
        if let Some(first) = self.inodes.iter().find(|first| first.group == number) {
            group.place_inodes(first, geometry, self.inode_alignment)?;
        }
        group.merge_owned();
        Some(group)
    }

    /// Returns the number of blocks of the first inodes and of their files.
    pub(crate) fn inode_blocks(&self, geometry: &Geometry) -> u64 {
        let files = self.inodes.iter().flat_map(|first| &first.files);
        let chunks = u64::from(geometry.chunk_blocks()) * self.inodes.len() as u64;
        chunks + files.map(|file| u64::from(file.blocks)).sum::<u64>()
    }

    fn metadata(&self, geometry: &Geometry) -> Vec<OwnedExtent> {
        let roots = &self.roots;
        let inode_trees = 1 + u32::from(roots.free_inodes.is_some());
        let one = |root: Option<BtreeRoot>, owner| {
            root.map(|root| OwnedExtent { start: root.block, count: 1, owner })
        };
        let owned = [
            Some(OwnedExtent {
                start: AgBlock(0),
                count: geometry.header_blocks(),
                owner: RmapOwner::Volume,
            }),
            Some(OwnedExtent { start: roots.by_block.block, count: 2, owner: RmapOwner::Group }),
            Some(OwnedExtent {
                start: roots.inodes.block,
                count: inode_trees,
                owner: RmapOwner::InodeBtree,
            }),
            one(roots.reverse_map, RmapOwner::Group),
            one(roots.refcount, RmapOwner::RefcountBtree),
        ];
        owned.into_iter().flatten().collect()
    }
}

impl GroupLayout {
    /// Returns the total number of blocks in free extents.
    #[must_use]
    pub fn free_blocks(&self) -> u32 {
        self.free.iter().map(|extent| extent.count).sum()
    }

    /// Returns the length of the longest free extent in blocks.
    #[must_use]
    pub fn longest(&self) -> u32 {
        self.free.iter().map(|extent| extent.count).max().unwrap_or(0)
    }

    /// Returns the free extents in the order of the btree by size.
    #[must_use]
    pub fn free_by_size(&self) -> Vec<FreeSpace> {
        let mut free = self.free.clone();
        free.sort_by_key(|extent| (extent.count, extent.start));
        free
    }

    /// Returns the records of the reverse map.
    #[must_use]
    pub fn reverse_map(&self) -> Vec<Rmap> {
        let record = |owned: &OwnedExtent| Rmap {
            start: owned.start,
            count: owned.count,
            owner: owned.owner,
            offset: FileBlock(0),
            flags: RmapFlags::empty(),
        };
        self.owned.iter().map(record).collect()
    }

    /// Moves blocks from the free space to `owned`. Returns `None` if not all of the blocks are
    /// free.
    fn take(&mut self, owned: OwnedExtent) -> Option<()> {
        let end = owned.start.checked_add(owned.count)?;
        let holds = |extent: &FreeSpace| extent.start <= owned.start && end <= extent.end();
        let index = self.free.iter().position(holds)?;
        let extent = self.free.remove(index);
        let before = FreeSpace { start: extent.start, count: owned.start.0 - extent.start.0 };
        let after = FreeSpace { start: end, count: extent.end().0 - end.0 };
        let rest = [before, after].into_iter().filter(|extent| extent.count != 0);
        self.free.splice(index..index, rest);
        self.owned.push(owned);
        Some(())
    }

    fn fill_free_list(&mut self, blocks: u32) -> Option<()> {
        // A log that fills its group may leave fewer blocks than a list needs. The list then stays
        // empty.
        let mut wanted = if self.free_blocks() < blocks { 0 } else { blocks };
        while wanted != 0 {
            let by_size = self.free_by_size();
            let fitting = by_size.iter().find(|extent| extent.count >= wanted);
            let extent = *fitting.or(by_size.last())?;
            let count = extent.count.min(wanted);
            self.take(OwnedExtent { start: extent.start, count, owner: RmapOwner::Group })?;
            self.free_list.extend((0..count).map(|index| AgBlock(extent.start.0 + index)));
            wanted -= count;
        }
        Some(())
    }

    fn find_aligned(&self, count: u32, alignment: u32) -> Option<AgBlock> {
        self.free.iter().find_map(|extent| {
            let start = extent.start.0.checked_next_multiple_of(alignment)?;
            let end = start.checked_add(count)?;
            (end <= extent.end().0).then_some(AgBlock(start))
        })
    }

    /// Places a chunk of inodes, and then the files among them, each file as near to its inode as
    /// possible. Returns `None` if the group has no room for them.
    fn place_inodes(
        &mut self,
        first: &FirstInodes,
        geometry: &Geometry,
        alignment: u32,
    ) -> Option<()> {
        let count = geometry.chunk_blocks();
        let start = self.find_aligned(count, alignment)?;
        self.take(OwnedExtent { start, count, owner: RmapOwner::Inodes })?;
        self.inodes = Some(start);
        self.used_inodes = first.used;
        for file in &first.files {
            let inode = AgInode((start.0 << geometry.inodes_per_block_log) + file.slot);
            let at = self.find_near(file.blocks, geometry.ag_inode_block(inode))?;
            let owner = RmapOwner::Inode(geometry.join_inode(self.number, inode));
            self.take(OwnedExtent { start: at, count: file.blocks, owner })?;
            self.files.push(PlacedFile { slot: file.slot, start: at, blocks: file.blocks });
        }
        Some(())
    }

    /// Returns the first of `count` contiguous free blocks with the smallest distance to `target`.
    /// Returns `None` if no free extent has that many blocks.
    fn find_near(&self, count: u32, target: AgBlock) -> Option<AgBlock> {
        let fitting = self.free.iter().filter(|extent| extent.count >= count);
        let starts = fitting.map(|extent| {
            let last = extent.end().0 - count;
            target.0.clamp(extent.start.0, last)
        });
        starts.min_by_key(|start| start.abs_diff(target.0)).map(AgBlock)
    }

    /// Merges adjacent extents of one owner into one record.
    fn merge_owned(&mut self) {
        self.owned.sort_by_key(|owned| owned.start);
        self.owned.dedup_by(|next, previous| {
            let touches = previous.start.0 + previous.count == next.start.0;
            let merges = touches && previous.owner == next.owner;
            if merges {
                previous.count += next.count;
            }
            merges
        });
    }
}

#[cfg(test)]
mod tests;
