//! The expected use of a volume's space, kept as a list of mappings of made-up files. A check
//! compares every btree of every group with it.

use std::collections::{BTreeMap, BTreeSet};

use xfs_buffer::BufferCache;
use xfs_format::agf::BtreeRoot;
use xfs_format::btree::{BtreeBlock, BtreeKind};
use xfs_format::refcount::RefcountDomain;
use xfs_format::rmap::{RmapFlags, RmapOwner};
use xfs_format::{AgBlock, AgNumber, BlockKind, FsBlock};

use crate::{AgHeaders, FileMapping, read_free_list};

/// The use of one block by a file: inode number, whether in the attribute fork, file offset in
/// blocks, whether unwritten.
type Use = (u64, bool, u64, bool);

/// The expected owners of all blocks, except the blocks that the volume itself uses.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    /// Mappings of files. Several mappings may be parts of one record.
    pub(super) mappings: Vec<FileMapping>,
    /// Blocks of the btrees of forks: the inode number of the owner, and the block.
    pub(super) metadata: Vec<(u64, FsBlock)>,
    /// Extents staged for copy-on-write: the first block and the number of blocks.
    pub(super) staged: Vec<(FsBlock, u32)>,
    /// For each group, the blocks that mkfs has used for anything except a btree with its root in
    /// the AGF.
    fixed: BTreeMap<AgNumber, BTreeSet<u32>>,
}

/// The blocks that the AGF's btrees and free list hold, as a check found them.
struct FoundBlocks {
    free: BTreeSet<u32>,
    listed: BTreeSet<u32>,
    by_group: BTreeSet<u32>,
    by_refcount: BTreeSet<u32>,
}

fn blocks_of(
    cache: &BufferCache,
    group: AgNumber,
    root: BtreeRoot,
    kind: BtreeKind,
) -> BTreeSet<u32> {
    let mut blocks = BTreeSet::new();
    let mut waiting = vec![root.block];
    while let Some(block) = waiting.pop() {
        assert!(blocks.insert(block.0), "{block} is twice in a btree");
        let at = cache.geometry().ag_block_disk_addr(group, block);
        let buffer = cache.read(at, cache.geometry().block_size, BlockKind::Btree(kind)).unwrap();
        let bytes = buffer.bytes();
        let node = BtreeBlock::decode(&bytes, kind, at).unwrap();
        if !node.is_leaf() {
            let children = (0..node.count()).map(|index| node.pointer(index).unwrap());
            waiting.extend(children.map(|child| AgBlock(u32::try_from(child).unwrap())));
        }
    }
    blocks
}

impl FoundBlocks {
    fn read(cache: &BufferCache, headers: &AgHeaders) -> Self {
        let group = headers.group();
        let agf = &headers.agf;
        headers.verify_counters(cache).unwrap();
        let records = headers.free_space(cache).unwrap().records().map(Result::unwrap);
        let by_block: Vec<_> = records.collect();
        let by_size = headers.free_space_by_size(cache).unwrap().records();
        let mut by_size: Vec<_> = by_size.map(Result::unwrap).collect();
        by_size.sort_by_key(|record| record.start);
        assert_eq!(by_block, by_size, "I1: free space of {group}");
        let free = by_block.iter().flat_map(|record| record.start.0..record.end().0).collect();
        let listed: Vec<_> = read_free_list(cache, agf).unwrap();
        let listed: BTreeSet<u32> = listed.iter().map(|block| block.0).collect();
        assert_eq!(listed.len(), agf.free_list.count as usize, "a block is listed twice");
        let blocks = |root, kind| blocks_of(cache, group, root, kind);
        let mut by_group = blocks(agf.free_space_by_block, BtreeKind::FreeSpaceByBlock);
        by_group.extend(blocks(agf.free_space_by_size, BtreeKind::FreeSpaceBySize));
        let mut roots = 2;
        if let Some(root) = agf.reverse_map {
            let reverse_map = blocks(root, BtreeKind::ReverseMap);
            assert_eq!(reverse_map.len(), agf.reverse_map_blocks as usize);
            by_group.extend(reverse_map);
            roots += 1;
        }
        assert_eq!(by_group.len() - roots, agf.btree_blocks as usize, "btree blocks of {group}");
        let by_refcount = agf.refcount.map(|root| blocks(root, BtreeKind::Refcount));
        let by_refcount = by_refcount.unwrap_or_default();
        assert_eq!(by_refcount.len(), agf.refcount_blocks as usize);
        Self { free, listed, by_group, by_refcount }
    }
}

impl Model {
    /// Creates the model of a volume as mkfs has made it.
    pub(super) fn new(cache: &BufferCache) -> Self {
        let mut model = Self::default();
        for group in cache.geometry().groups() {
            let headers = AgHeaders::read(cache, group).unwrap();
            let found = FoundBlocks::read(cache, &headers);
            let sets = [&found.free, &found.listed, &found.by_group, &found.by_refcount];
            let taken = |block: &u32| !sets.iter().any(|set| set.contains(block));
            model.fixed.insert(group, (0..headers.agf.length_blocks).filter(taken).collect());
        }
        model
    }

    /// Returns, for each block of a group, its uses by files according to the model.
    fn uses(&self, cache: &BufferCache, group: AgNumber) -> BTreeMap<u32, BTreeSet<Use>> {
        let mut uses: BTreeMap<u32, BTreeSet<Use>> = BTreeMap::new();
        for mapping in &self.mappings {
            let (number, start) = cache.geometry().split_block(mapping.start).unwrap();
            if number != group {
                continue;
            }
            for index in 0..mapping.length_blocks {
                let FileMapping { inode, is_attr, offset, is_unwritten, .. } = *mapping;
                let of = (inode.0, is_attr, offset.0 + u64::from(index), is_unwritten);
                let is_new = uses.entry(start.0 + index).or_default().insert(of);
                assert!(is_new, "the model maps a block twice to one place");
            }
        }
        uses
    }

    /// Compares every group of the volume with the model.
    pub(super) fn check(&self, cache: &BufferCache) {
        for group in cache.geometry().groups() {
            let headers = AgHeaders::read(cache, group).unwrap();
            let found = FoundBlocks::read(cache, &headers);
            let uses = self.uses(cache, group);
            self.check_partition(cache, &headers, &found, &uses);
            self.check_reverse_map(cache, &headers, &found, &uses);
            self.check_refcounts(cache, &headers, &uses);
        }
    }

    fn in_group(&self, cache: &BufferCache, group: AgNumber, block: FsBlock) -> Option<u32> {
        let (number, block) = cache.geometry().split_block(block).unwrap();
        (number == group).then_some(block.0)
    }

    fn staged_in(&self, cache: &BufferCache, group: AgNumber) -> BTreeSet<u32> {
        let extents = self.staged.iter().filter_map(|(start, count)| {
            self.in_group(cache, group, *start).map(|start| start..start + count)
        });
        extents.flatten().collect()
    }

    fn metadata_in(&self, cache: &BufferCache, group: AgNumber) -> BTreeSet<u32> {
        let blocks = self.metadata.iter();
        blocks.filter_map(|(_, block)| self.in_group(cache, group, *block)).collect()
    }

    /// Checks that every block of a group is in exactly one set: free, on the free list, in a
    /// btree, or used.
    fn check_partition(
        &self,
        cache: &BufferCache,
        headers: &AgHeaders,
        found: &FoundBlocks,
        uses: &BTreeMap<u32, BTreeSet<Use>>,
    ) {
        let group = headers.group();
        let mut places = vec![0; headers.agf.length_blocks as usize];
        let used = uses.keys().copied().collect();
        let (staged, metadata) = (self.staged_in(cache, group), self.metadata_in(cache, group));
        let sets = [
            &found.free,
            &found.listed,
            &found.by_group,
            &found.by_refcount,
            &self.fixed[&group],
            &used,
            &staged,
            &metadata,
        ];
        for block in sets.into_iter().flatten() {
            places[*block as usize] += 1;
        }
        let wrong = places.iter().position(|count| *count != 1);
        assert_eq!(wrong, None, "I3: a block of {group} is not in exactly one place");
    }

    fn check_reverse_map(
        &self,
        cache: &BufferCache,
        headers: &AgHeaders,
        found: &FoundBlocks,
        uses: &BTreeMap<u32, BTreeSet<Use>>,
    ) {
        let group = headers.group();
        let Some(map) = headers.reverse_map(cache).unwrap() else { return };
        let mut mapped: BTreeMap<u32, BTreeSet<Use>> = BTreeMap::new();
        let (mut of_group, mut of_refcount) = (BTreeSet::new(), BTreeSet::new());
        let (mut staged, mut metadata) = (BTreeSet::new(), BTreeSet::new());
        let records: Vec<_> = map.records().map(Result::unwrap).collect();
        for record in &records {
            let range = record.start.0..record.end().0;
            match record.owner {
                RmapOwner::Group => of_group.extend(range),
                RmapOwner::RefcountBtree => of_refcount.extend(range),
                RmapOwner::Staging => staged.extend(range),
                RmapOwner::Inode(_) if record.flags.contains(RmapFlags::FORK_BTREE) => {
                    metadata.extend(range);
                }
                RmapOwner::Inode(inode) => {
                    let is_attr = record.flags.contains(RmapFlags::ATTR);
                    let is_unwritten = record.flags.contains(RmapFlags::UNWRITTEN);
                    for (index, block) in (0..).zip(range) {
                        let of = (inode.0, is_attr, record.offset.0 + index, is_unwritten);
                        mapped.entry(block).or_default().insert(of);
                    }
                }
                RmapOwner::Volume | RmapOwner::Log | RmapOwner::InodeBtree | RmapOwner::Inodes => {}
            }
        }
        let all_of_group: BTreeSet<u32> = found.by_group.union(&found.listed).copied().collect();
        assert_eq!(of_group, all_of_group, "blocks of {group}'s own");
        assert_eq!(of_refcount, found.by_refcount);
        assert_eq!(staged, self.staged_in(cache, group), "staged in {group}");
        assert_eq!(metadata, self.metadata_in(cache, group));
        // On a new volume the root directory and the other inodes have no blocks of their own.
        assert_eq!(mapped, *uses, "mappings of {group}");
        for (index, left) in records.iter().enumerate() {
            let is_continued = records[index + 1..].iter().any(|right| {
                let has_offset = matches!(left.owner, RmapOwner::Inode(_))
                    && !left.flags.contains(RmapFlags::FORK_BTREE);
                right.start == left.end()
                    && (right.owner, right.flags) == (left.owner, left.flags)
                    && (!has_offset || right.offset.0 == left.offset.0 + u64::from(left.count))
            });
            assert!(!is_continued, "I1: {left:?} of {group} is continued");
        }
    }

    fn check_refcounts(
        &self,
        cache: &BufferCache,
        headers: &AgHeaders,
        uses: &BTreeMap<u32, BTreeSet<Use>>,
    ) {
        let group = headers.group();
        let Some(counts) = headers.refcounts(cache).unwrap() else { return };
        let data = uses.iter().map(|(block, uses)| {
            (*block, uses.iter().filter(|(_, is_attr, ..)| !is_attr).count() as u32)
        });
        let expected: BTreeMap<u32, u32> = data.filter(|(_, count)| *count > 1).collect();
        let (mut shared, mut staged) = (BTreeMap::new(), BTreeSet::new());
        let mut last = None;
        for record in counts.records().map(Result::unwrap) {
            let key = (record.domain, record.start, record.references);
            assert_ne!(last, Some(key), "I2: two records of {group} could be one: {record:?}");
            last = Some((record.domain, record.end(), record.references));
            for block in record.start.0..record.end().0 {
                match record.domain {
                    RefcountDomain::Shared => drop(shared.insert(block, record.references)),
                    RefcountDomain::Staging => drop(staged.insert(block)),
                }
            }
        }
        assert_eq!(shared, expected, "I1: counts of {group}");
        assert_eq!(staged, self.staged_in(cache, group));
    }
}
