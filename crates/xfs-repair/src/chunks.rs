//! Finds the inode chunks of a group, from all evidence for them.
//!
//! Owns: the chunks and their masks. Does **not** own: the inode btrees, which rule `space` builds
//! from the chunks.
//!
//! The inode btree is used if it is undamaged and has all chunks that the reverse map records.
//! Otherwise a chunk is believed if a record of a btree leaf, the reverse map or the inodes of the
//! chunk prove it. An inode proves the chunk if its checksum is right and it contains the inode
//! number of its place on disk. Free inodes alone prove nothing, because they may be left over from
//! a chunk that was freed.

use std::collections::{BTreeMap, BTreeSet};

use xfs_evidence::InodeState;
use xfs_format::geometry::INODES_PER_CHUNK;
use xfs_format::inode::INODE_MAGIC;
use xfs_format::inode_chunk::{FreeInodeChunks, INODES_PER_HOLE_BIT, InodeChunk, InodeChunks};
use xfs_format::rmap::RmapOwner;
use xfs_format::{AgBlock, AgInode, AgNumber, Group};

use crate::model::holds_something;
use crate::patient::Patient;
use crate::trees;

/// The inode chunks of a group, and whether the inode btrees that record them are sound.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupChunks {
    /// The chunks, in order.
    pub(crate) chunks: Vec<InodeChunk>,
    /// The blocks of both inode btrees, as far as they could be walked.
    pub(crate) tree_blocks: BTreeSet<AgBlock>,
    /// Whether both inode btrees could be walked without damage.
    pub(crate) is_whole: bool,
}

/// Finds the inode chunks of the group `number`: from its inode btrees if these are whole, and
/// otherwise from all evidence.
pub(crate) fn find(patient: &Patient, number: AgNumber) -> GroupChunks {
    let agi = trees::agi(patient, number).map(|header| header.header);
    let has_free_tree = patient.geometry().has_ro_compat(xfs_format::RoCompatFeatures::FINOBT);
    let root = agi.as_ref().map(|agi| agi.inode_btree);
    let free_root = agi.as_ref().and_then(|agi| agi.free_inode_btree);
    let all = root.map(|root| trees::walk::<InodeChunks>(patient, number, root));
    let free = free_root.map(|root| trees::walk::<FreeInodeChunks>(patient, number, root));
    let mut found = GroupChunks::default();
    found.tree_blocks.extend(all.iter().flat_map(|tree| tree.blocks.iter().copied()));
    found.tree_blocks.extend(free.iter().flat_map(|tree| tree.blocks.iter().copied()));
    let is_free_whole = !has_free_tree || free.is_some_and(|tree| tree.is_whole);
    found.is_whole = is_free_whole && all.as_ref().is_some_and(|tree| tree.is_whole);
    found.chunks = match all {
        Some(all) if all.is_whole && has_all_mapped(patient, number, &all.records) => all.records,
        _ => {
            let mut records = trees::read::<InodeChunks>(patient, number, root).records;
            if has_free_tree {
                records.extend(trees::read::<FreeInodeChunks>(patient, number, free_root).records);
            }
            Search::new(patient, number).chunks(&records)
        }
    };
    found
}

/// Returns whether the chunks in `records` cover every block that the reverse map records as a
/// block of inodes. Also returns `true` if the reverse map is damaged. A chunk can be missing even
/// from a sound inode btree: after a lost write, the btree lacks the newest chunks.
fn has_all_mapped(patient: &Patient, number: AgNumber, records: &[InodeChunk]) -> bool {
    let map = patient.reverse_map(number);
    if !map.is_whole {
        return true;
    }
    let group = Group::new(patient.geometry(), number).expect("a group of the volume");
    let per_block = 1_u32 << patient.geometry().inodes_per_block_log;
    let mut recorded = BTreeSet::new();
    for record in records {
        let start = record.start.0;
        let inodes = (start..start.saturating_add(INODES_PER_CHUNK)).step_by(per_block as usize);
        recorded.extend(inodes.map(|inode| group.geometry().ag_inode_block(AgInode(inode)).0));
    }
    let mut mapped = map.records.iter().filter(|record| record.owner == RmapOwner::Inodes);
    mapped.all(|record| (record.start.0..record.end().0).all(|block| recorded.contains(&block)))
}

/// Returns a chunk whose free mask is corrected by the inodes on disk. An inode that cannot be read
/// keeps its bit.
pub(crate) fn with_masks_of_inodes(
    patient: &Patient,
    group: &Group<'_>,
    chunk: &InodeChunk,
) -> InodeChunk {
    let evidence = patient.evidence();
    let mut free = chunk.free;
    for position in 0..INODES_PER_CHUNK {
        let bit = 1_u64 << position;
        if chunk.present() & bit == 0 {
            free |= bit;
            continue;
        }
        let inode = group.join_inode(AgInode(chunk.start.0 + position));
        match evidence.inode(inode).state {
            InodeState::Sound(_) => free &= !bit,
            InodeState::Free(core) if !holds_something(&core) => free |= bit,
            // The record decides about an inode that is damaged, or that lost its mode only.
            InodeState::Free(_) | InodeState::Doubtful(..) | InodeState::Gone(_) => {}
        }
    }
    let present = chunk.present();
    let free_count = u8::try_from((present & free).count_ones()).expect("at most 64 inodes");
    InodeChunk { free, free_count, ..*chunk }
}

/// The search for the inode chunks of a group whose inode btree is damaged.
struct Search<'a> {
    patient: &'a Patient<'a>,
    group: Group<'a>,
}

impl<'a> Search<'a> {
    fn new(patient: &'a Patient<'a>, number: AgNumber) -> Self {
        let group = Group::new(patient.geometry(), number).expect("a group of the volume");
        Self { patient, group }
    }

    fn chunks(&self, records: &[InodeChunk]) -> Vec<InodeChunk> {
        let map = self.patient.reverse_map(self.group.number());
        let mut mapped = BTreeSet::new();
        for record in map.records.iter().filter(|record| record.owner == RmapOwner::Inodes) {
            mapped.extend(record.start.0..record.end().0);
        }
        let mut known: BTreeMap<u32, InodeChunk> = BTreeMap::new();
        for record in records {
            known.entry(record.start.0).or_insert(*record);
        }
        let mut starts: BTreeSet<u32> = known.keys().copied().collect();
        starts.extend(mapped.iter().flat_map(|block| self.starts_at(*block)));
        if !map.is_whole {
            let blocks = self.group.geometry().header_blocks()..self.group.length_blocks();
            starts.extend(blocks.flat_map(|block| self.starts_at(block)));
        }
        let mut chunks: Vec<InodeChunk> = Vec::new();
        for start in starts {
            if self.patient.is_stopped() {
                break;
            }
            let is_covered =
                chunks.last().is_some_and(|last| last.position(AgInode(start)).is_some());
            if is_covered {
                continue;
            }
            let proof = Proof { mapped: &mapped, map_is_whole: map.is_whole };
            let is_known = known.contains_key(&start) || proof.proves(self.group, AgInode(start));
            if !is_known && !self.has_inodes(AgInode(start)) {
                continue;
            }
            chunks.extend(self.chunk(AgInode(start), known.get(&start), &proof));
        }
        chunks
    }

    /// Returns all inode numbers at which a chunk with inodes in this block can start.
    fn starts_at(&self, block: u32) -> Vec<u32> {
        let geometry = self.group.geometry();
        let per_block = 1_u32 << geometry.inodes_per_block_log;
        if per_block >= INODES_PER_CHUNK {
            let first = block << geometry.inodes_per_block_log;
            return (first..first + per_block).step_by(INODES_PER_CHUNK as usize).collect();
        }
        let alignment = match geometry.sparse_alignment_blocks {
            0 => geometry.inode_alignment_blocks.max(1),
            _ => geometry.chunk_blocks(),
        };
        vec![(block - block % alignment) << geometry.inodes_per_block_log]
    }

    /// Returns whether any inode of the chunk has the magic number of an inode. Returns `true` also
    /// if the blocks cannot be read. All blocks of the chunk are read in one request, because the
    /// search reads the whole group.
    fn has_inodes(&self, start: AgInode) -> bool {
        let geometry = self.group.geometry();
        let block = geometry.ag_inode_block(start);
        let last = block.0.saturating_add(geometry.chunk_blocks() - 1);
        let end = last.min(self.group.length_blocks().saturating_sub(1));
        let Some(count) = end.checked_sub(block.0) else { return false };
        let mut bytes = vec![0; (count as usize + 1) << geometry.block_log];
        let at = geometry.ag_block_disk_addr(self.group.number(), block);
        let magic = INODE_MAGIC.to_be_bytes();
        // A block that cannot be read is looked at inode by inode.
        !self.patient.can_read(at, &mut bytes)
            || bytes.chunks_exact(geometry.inode_size as usize).any(|b| b.starts_with(&magic))
    }

    /// Returns whether an inode that was allocated together with `inode` passes its checks. Inodes
    /// are allocated in whole chunks, or on a volume with sparse chunks in aligned parts of them.
    /// So a garbled inode in the same part as a sound one belongs to the same chunk.
    fn has_neighbour(&self, inode: AgInode) -> bool {
        let geometry = self.group.geometry();
        let blocks = match geometry.sparse_alignment_blocks {
            0 => geometry.chunk_blocks(),
            alignment => alignment.min(geometry.chunk_blocks()),
        };
        let count = (blocks << geometry.inodes_per_block_log).min(INODES_PER_CHUNK);
        let first = inode.0 - inode.0 % count;
        let evidence = self.patient.evidence();
        (first..first + count).map(AgInode).any(|other| {
            let state = evidence.inode(self.group.join_inode(other)).state;
            matches!(state, InodeState::Sound(_) | InodeState::Free(_))
        })
    }

    /// Returns the chunk that starts at `start`, or `None` if there is no proof of such a chunk.
    /// `record` is the chunk's record in the damaged inode btree, if one could be read.
    fn chunk(
        &self,
        start: AgInode,
        record: Option<&InodeChunk>,
        proof: &Proof<'_>,
    ) -> Option<InodeChunk> {
        let (mut present, mut free, mut used) = (0_u64, u64::MAX, 0_u64);
        let evidence = self.patient.evidence();
        for position in 0..INODES_PER_CHUNK {
            let bit = 1_u64 << position;
            let inode = AgInode(start.0.checked_add(position)?);
            if !self.group.contains_inode(inode) {
                continue;
            }
            let block = self.group.geometry().ag_inode_block(inode).0;
            let is_mapped = proof.mapped.contains(&block);
            let is_recorded = record.is_some_and(|record| record.present() & bit != 0);
            match evidence.inode(self.group.join_inode(inode)).state {
                InodeState::Sound(_) if is_mapped || !proof.map_is_whole => {
                    (present, used, free) = (present | bit, used | bit, free & !bit);
                }
                InodeState::Free(core) if is_mapped || !proof.map_is_whole => {
                    present |= bit;
                    // An inode that holds something has lost its mode: the record decides, and
                    // without a record it counts as used.
                    let is_free = record.is_some_and(|record| record.free & bit != 0);
                    if holds_something(&core) && !is_free {
                        (used, free) = (used | bit, free & !bit);
                    }
                }
                _ if is_mapped
                    || (!proof.map_is_whole && (is_recorded || self.has_neighbour(inode))) =>
                {
                    present |= bit;
                    // Without a record, a garbled inode counts as used: it may be a file.
                    let is_free = record.is_some_and(|record| record.free & bit != 0);
                    free = if is_free { free } else { free & !bit };
                }
                _ => {}
            }
        }
        let is_proven = used != 0 || record.is_some() || proof.proves(self.group, start);
        if present == 0 || !is_proven {
            return None;
        }
        let chunk = of_masks(start, present, free);
        Some(chunk).filter(|chunk| chunk.count > 0)
    }
}

/// The evidence of a group's reverse map for the inode chunks of the group.
struct Proof<'a> {
    /// The blocks that the reverse map records as blocks of inodes.
    mapped: &'a BTreeSet<u32>,
    map_is_whole: bool,
}

impl Proof<'_> {
    fn proves(&self, group: Group<'_>, start: AgInode) -> bool {
        let first = group.geometry().ag_inode_block(start).0;
        let blocks = group.geometry().chunk_blocks();
        self.mapped.range(first..first.saturating_add(blocks)).next().is_some()
    }
}

/// Returns a chunk from a mask of present inodes and a mask of free inodes. The hole mask has one
/// bit for four inodes: if any of the four is absent, all four become a hole.
fn of_masks(start: AgInode, present: u64, free: u64) -> InodeChunk {
    let mut holes = 0_u16;
    for bit in 0..INODES_PER_CHUNK / INODES_PER_HOLE_BIT {
        let four = 0xf_u64 << (bit * INODES_PER_HOLE_BIT);
        if present & four != four {
            holes |= 1 << bit;
        }
    }
    let mut chunk = InodeChunk { start, holes, count: 0, free_count: 0, free };
    let present = chunk.present();
    chunk.free |= !present;
    chunk.count = u8::try_from(present.count_ones()).expect("a chunk has at most 64 inodes");
    let free_count = (present & chunk.free).count_ones();
    chunk.free_count = u8::try_from(free_count).expect("a chunk has at most 64 inodes");
    chunk
}
