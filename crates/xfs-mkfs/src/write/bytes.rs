//! Encodes the headers and btree roots of the groups of a new volume into bytes.

use xfs_format::agf::{Agf, FreeListRange};
use xfs_format::agi::{Agi, UNLINKED_BUCKETS};
use xfs_format::btree::{BtreeIdentity, BtreeKind, encode_leaf};
use xfs_format::features::VersionFlags;
use xfs_format::free_space::FreeSpace;
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::{
    AgBlock, AgInode, AgNumber, BlockKind, Geometry, IncompatFeatures, InodeNumber, Lsn,
    RoCompatFeatures, Superblock, agfl,
};
use zerocopy::{Immutable, IntoBytes};

use crate::layout::{GroupLayout, VolumeLayout};
use crate::plan::Plan;

/// The LSN of all blocks. It is 0, since no change of a new volume has been logged.
pub(super) const LSN: Lsn = Lsn(0);

/// The volume's properties from which the headers of a group are encoded.
#[derive(Clone, Copy)]
pub(super) struct HeaderContext<'a> {
    pub(super) superblock: &'a Superblock,
    pub(super) layout: &'a VolumeLayout,
}

/// Encodes the headers and btree roots of a group into `bytes`, from the first byte of the group
/// on.
pub(super) fn encode_group(context: HeaderContext<'_>, group: &GroupLayout, bytes: &mut Vec<u8>) {
    let geometry = &context.superblock.geometry;
    let block = geometry.block_size as usize;
    bytes.clear();
    bytes.resize(context.layout.roots.end.0 as usize * block, 0);
    encode_headers(context, group, bytes);
    let mut encoder = LeafEncoder { geometry, group: group.number, bytes };
    let roots = &context.layout.roots;
    let by_block: Vec<_> = group.free.iter().map(FreeSpace::encode).collect();
    let by_size: Vec<_> = group.free_by_size().iter().map(FreeSpace::encode).collect();
    let chunks: Vec<_> =
        first_chunks(geometry, group).iter().map(|chunk| chunk.encode(geometry)).collect();
    encoder.leaf(BtreeKind::FreeSpaceByBlock, roots.by_block.block, &by_block);
    encoder.leaf(BtreeKind::FreeSpaceBySize, roots.by_size.block, &by_size);
    encoder.leaf(BtreeKind::Inode, roots.inodes.block, &chunks);
    if let Some(root) = roots.free_inodes {
        let free: Vec<_> = first_chunks(geometry, group)
            .iter()
            .filter(|chunk| chunk.free_count != 0)
            .map(|chunk| chunk.encode(geometry))
            .collect();
        encoder.leaf(BtreeKind::FreeInode, root.block, &free);
    }
    if let Some(root) = roots.reverse_map {
        let records: Vec<_> = group.reverse_map().iter().map(|record| record.encode()).collect();
        encoder.leaf(BtreeKind::ReverseMap, root.block, &records);
    }
    if let Some(root) = roots.refcount {
        encoder.leaf::<[u8; REFCOUNT_BYTES]>(BtreeKind::Refcount, root.block, &[]);
    }
}

/// Length of a reference count record in bytes. The encoder of the empty reference-count btree
/// needs the length, although the btree has no records.
const REFCOUNT_BYTES: usize = 12;

struct LeafEncoder<'a> {
    geometry: &'a Geometry,
    group: AgNumber,
    bytes: &'a mut [u8],
}

impl LeafEncoder<'_> {
    fn leaf<R: IntoBytes + Immutable>(&mut self, kind: BtreeKind, at: AgBlock, records: &[R]) {
        let size = self.geometry.block_size as usize;
        let identity = BtreeIdentity {
            kind,
            owner: self.group.0.into(),
            address: self.geometry.ag_block_disk_addr(self.group, at),
        };
        let block = self.bytes.chunks_exact_mut(size).nth(at.0 as usize);
        let block = block.expect("the roots lie in the encoded blocks");
        encode_leaf(identity, records, self.geometry, block);
        BlockKind::Btree(kind).seal(block, LSN);
    }
}

fn encode_headers(context: HeaderContext<'_>, group: &GroupLayout, bytes: &mut [u8]) {
    let geometry = &context.superblock.geometry;
    let mut sectors = bytes.chunks_exact_mut(geometry.sector_size as usize);
    let mut next = || sectors.next().expect("the encoded blocks hold the header sectors");
    let mut superblock = context.superblock.clone();
    superblock.in_progress = true;
    if group.number.0 != 0 {
        // The counters before the first inodes were made.
        superblock.inode_count = 0;
        superblock.free_inodes = 0;
        superblock.free_blocks += context.layout.inode_blocks(geometry);
        superblock.free_realtime_extents = 0;
        // Only parent pointers make it certain from the start that there are attributes.
        let has_parents = superblock.has_incompat(IncompatFeatures::PARENT);
        superblock.version_flags.set(VersionFlags::ATTR, has_parents);
        let knows_root = knows_root(geometry, group.number);
        if !knows_root {
            superblock.root_inode = InodeNumber::NULL;
        }
        if let Some(inode) = &mut superblock.metadata_directory_inode {
            // The two realtime inodes are 0.
            *inode = if knows_root { *inode } else { InodeNumber::NULL };
        } else {
            superblock.realtime_bitmap_inode = InodeNumber::NULL;
            superblock.realtime_summary_inode = InodeNumber::NULL;
        }
    }
    let sector = next();
    superblock.encode(sector);
    BlockKind::Superblock.seal(sector, LSN);

    let sector = next();
    agf(context, group).encode(geometry, sector);
    BlockKind::Agf.seal(sector, LSN);

    let sector = next();
    agi(context, group).encode(geometry, sector);
    BlockKind::Agi.seal(sector, LSN);

    let sector = next();
    agfl::encode(group.number, FREE_LIST_FIRST, &group.free_list, geometry, sector);
    BlockKind::Agfl.seal(sector, LSN);
}

/// Returns whether the superblock copy of a group stores the number of the root directory, so that
/// it can be recovered if the first superblock is lost. As in mkfs.xfs, only the last copy and one
/// in the middle store it.
const fn knows_root(geometry: &Geometry, group: AgNumber) -> bool {
    let last = geometry.ag_count - 1;
    group.0 == last || (geometry.ag_count > 2 && group.0 == last / 2)
}

/// Encodes the primary superblock in its final form, without the "in progress" mark. `group` must
/// be group 0.
pub(super) fn encode_superblock(plan: &Plan, group: AgNumber) -> Vec<u8> {
    debug_assert_eq!(group, AgNumber(0));
    let mut sector = vec![0; plan.superblock.geometry.sector_size as usize];
    plan.superblock.encode(&mut sector);
    BlockKind::Superblock.seal(&mut sector, LSN);
    sector
}

/// The index of the first used entry of the free list's ring. An empty list starts at entry 1 and
/// ends at entry 0.
const FREE_LIST_FIRST: u32 = 1;

fn agf(context: HeaderContext<'_>, group: &GroupLayout) -> Agf {
    let roots = &context.layout.roots;
    // A list has at most six blocks.
    let count = group.free_list.len() as u32;
    Agf {
        group: group.number,
        length_blocks: group.length_blocks,
        free_space_by_block: roots.by_block,
        free_space_by_size: roots.by_size,
        reverse_map: roots.reverse_map,
        refcount: roots.refcount,
        free_list: FreeListRange { first: FREE_LIST_FIRST, last: count, count },
        free_blocks: group.free_blocks(),
        longest_free_blocks: group.longest(),
        btree_blocks: 0,
        reverse_map_blocks: u32::from(roots.reverse_map.is_some()),
        refcount_blocks: u32::from(roots.refcount.is_some()),
        lsn: LSN,
    }
}

fn agi(context: HeaderContext<'_>, group: &GroupLayout) -> Agi {
    let geometry = &context.superblock.geometry;
    let roots = &context.layout.roots;
    let chunks = first_chunks(geometry, group);
    let counts_blocks = geometry.has_ro_compat(RoCompatFeatures::INOBTCNT);
    Agi {
        group: group.number,
        length_blocks: group.length_blocks,
        count: chunks.iter().map(|chunk| u32::from(chunk.count)).sum(),
        free_count: chunks.iter().map(|chunk| u32::from(chunk.free_count)).sum(),
        inode_btree: roots.inodes,
        free_inode_btree: roots.free_inodes,
        newest_inode: chunks.first().map(|chunk| chunk.start),
        unlinked: [None; UNLINKED_BUCKETS],
        inode_btree_blocks: counts_blocks.then_some(1),
        free_inode_btree_blocks: (counts_blocks && roots.free_inodes.is_some()).then_some(1),
        lsn: LSN,
    }
}

/// Returns the chunks of the first inodes: one chunk, or, if a block holds several chunks, all
/// chunks of that block.
fn first_chunks(geometry: &Geometry, group: &GroupLayout) -> Vec<InodeChunk> {
    let Some(block) = group.inodes else { return Vec::new() };
    let first = block.0 << geometry.inodes_per_block_log;
    let inodes = geometry.chunk_blocks() << geometry.inodes_per_block_log;
    let chunk = |index: u32| {
        let used = if index == 0 { group.used_inodes } else { 0 };
        let all_used = used == 64;
        InodeChunk {
            start: AgInode(first + 64 * index),
            holes: 0,
            count: 64,
            free_count: 64 - used as u8,
            free: if all_used { 0 } else { u64::MAX << used },
        }
    };
    (0..inodes / 64).map(chunk).collect()
}
