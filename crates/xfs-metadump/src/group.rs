//! Writes an allocation group: its headers, its btrees, and its inodes.

use xfs_format::agf::AgfDisk;
use xfs_format::agi::AgiDisk;
use xfs_format::btree::BtreeKind;
use xfs_format::inode_chunk::InodeChunkDisk;
use xfs_format::rmap::{RmapDisk, RmapOwner};
use xfs_format::{AgBlock, AgInode, AgNumber, IncompatFeatures, RoCompatFeatures};
use zerocopy::FromBytes;

use crate::btree::{Tree, TreeOwner, TreePointer};
use crate::dump::{Dump, DumpError, DumpLocation};

/// Number of inodes that one bit stands for in the bitmap of holes of a sparse inode chunk.
const INODES_PER_HOLE: u32 = 4;
/// Number of bits in the bitmap of holes of a sparse inode chunk.
const HOLES: u32 = 16;
/// The index of a group's sector that holds the AGF.
const AGF_SECTOR: u32 = 1;
/// The index of a group's sector that holds the AGI.
const AGI_SECTOR: u32 = 2;
/// Number of header sectors of a group: superblock, AGF, AGI and AGFL.
const SECTORS: u32 = 4;
/// The magic numbers of the header sectors, in their order.
const MAGICS: [&[u8; 4]; SECTORS as usize] = [b"XFSB", b"XAGF", b"XAGI", b"XAFL"];

/// The root block and the height of a btree, from the AGF or the AGI.
struct RootField {
    kind: BtreeKind,
    block: u32,
    levels: u32,
}

/// A range of blocks in a group that hold inodes: the first block, and the number of blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct InodeBlocks {
    start: u32,
    count: u32,
}

impl Dump<'_> {
    /// Writes all metadata of a group.
    pub(crate) fn dump_group(&mut self, group: AgNumber) -> Result<(), DumpError> {
        let mut roots = Vec::new();
        // The image begins with the first superblock, or with a copy of it.
        let first = u32::from(group.0 == 0);
        for sector in first..SECTORS {
            let Some(bytes) = self.dump_header(group, sector)? else { continue };
            match sector {
                AGF_SECTOR => roots.extend(self.agf_roots(&bytes)),
                AGI_SECTOR => roots.extend(self.agi_roots(&bytes)),
                _ => {}
            }
        }
        let mut inodes = Vec::new();
        for root in roots {
            self.dump_tree(group, &root, &mut inodes)?;
        }
        for blocks in merge(inodes) {
            for block in blocks.start..blocks.start.saturating_add(blocks.count) {
                self.dump_inode_block(group, AgBlock(block))?;
            }
        }
        Ok(())
    }

    fn dump_header(&mut self, group: AgNumber, sector: u32) -> Result<Option<Vec<u8>>, DumpError> {
        let geometry = &self.superblock.geometry;
        let at = geometry.header_disk_addr(group, sector).byte_offset();
        let start = at.expect("a group lies inside the volume");
        let range = start..start + u64::from(geometry.sector_size);
        let spot = DumpLocation { byte: Some(start), inode: None };
        let Some(mut bytes) = self.read(range, spot)? else { return Ok(None) };
        let magic = usize::try_from(sector).ok().and_then(|sector| MAGICS.get(sector));
        if magic.is_none_or(|magic| !bytes.starts_with(&magic[..])) {
            let cleaned = self.cleaning().unknown(&mut bytes);
            self.note_cleaned(cleaned, spot);
        }
        self.add(start, &bytes)?;
        Ok(Some(bytes))
    }

    fn agf_roots(&self, sector: &[u8]) -> Vec<RootField> {
        let Ok((agf, _)) = AgfDisk::ref_from_prefix(sector) else { return Vec::new() };
        let field = |kind, block: u32, levels: u32| RootField { kind, block, levels };
        let (by_block, by_size) = (agf.by_block_levels.get(), agf.by_size_levels.get());
        let mut roots = vec![
            field(BtreeKind::FreeSpaceByBlock, agf.by_block_root.get(), by_block),
            field(BtreeKind::FreeSpaceBySize, agf.by_size_root.get(), by_size),
        ];
        if self.superblock.has_ro_compat(RoCompatFeatures::RMAPBT) {
            let levels = agf.reverse_map_levels.get();
            roots.push(field(BtreeKind::ReverseMap, agf.reverse_map_root.get(), levels));
        }
        if self.superblock.has_ro_compat(RoCompatFeatures::REFLINK) {
            let levels = agf.refcount_levels.get();
            roots.push(field(BtreeKind::Refcount, agf.refcount_root.get(), levels));
        }
        roots
    }

    fn agi_roots(&self, sector: &[u8]) -> Vec<RootField> {
        let Ok((agi, _)) = AgiDisk::ref_from_prefix(sector) else { return Vec::new() };
        let (block, levels) = (agi.root.get(), agi.levels.get());
        let mut roots = vec![RootField { kind: BtreeKind::Inode, block, levels }];
        if self.superblock.has_ro_compat(RoCompatFeatures::FINOBT) {
            let (block, levels) = (agi.free_root.get(), agi.free_levels.get());
            roots.push(RootField { kind: BtreeKind::FreeInode, block, levels });
        }
        roots
    }

    /// Writes a btree of the group. Adds to `inodes` the blocks that hold inodes according to the
    /// btree's records. The inode btree, the btree of free inodes and the reverse map all name such
    /// blocks, so damage to the inode btree hides few inodes.
    fn dump_tree(
        &mut self,
        group: AgNumber,
        root: &RootField,
        inodes: &mut Vec<InodeBlocks>,
    ) -> Result<(), DumpError> {
        let RootField { kind, block, levels } = *root;
        if !(1..=kind.max_levels(&self.superblock.geometry)).contains(&levels) {
            let reason =
                format!("group {} has a {} btree of {levels} levels", group.0, kind.name());
            self.note(DumpLocation::default(), reason);
            return Ok(());
        }
        let geometry = self.superblock.geometry.clone();
        let is_sparse = geometry.has_incompat(IncompatFeatures::SPARSE_INODES);
        let length = geometry.ag_length(group);
        // In small blocks the inodes of one bit take two blocks or more.
        let hole_bytes = INODES_PER_HOLE * geometry.inode_size;
        let hole_blocks = hole_bytes.div_ceil(geometry.block_size);
        let mut record = |bytes: &[u8]| match kind {
            BtreeKind::Inode | BtreeKind::FreeInode => {
                let Ok(chunk) = InodeChunkDisk::read_from_bytes(bytes) else { return };
                let holes = if is_sparse { chunk.holes.get() } else { 0 };
                let present = (0..HOLES).filter(|hole| holes >> hole & 1 == 0);
                let inodes_of = present.map(|hole| hole * INODES_PER_HOLE);
                let numbers = inodes_of.filter_map(|at| chunk.start.get().checked_add(at));
                let blocks = numbers.map(|number| geometry.ag_inode_block(AgInode(number)).0);
                let inside = blocks.filter(|block| *block < length);
                inodes.extend(
                    inside
                        .map(|start| InodeBlocks { start, count: hole_blocks.min(length - start) }),
                );
            }
            BtreeKind::ReverseMap => {
                let Ok(rmap) = RmapDisk::read_from_bytes(bytes) else { return };
                let (start, count) = (rmap.start.get(), rmap.count.get());
                let is_inside = start < length && count <= length - start;
                if rmap.owner.get() == RmapOwner::Inodes.to_raw() && is_inside {
                    inodes.push(InodeBlocks { start, count });
                }
            }
            _ => {}
        };
        let tree = Tree { owner: TreeOwner::Group(group), kind };
        let pointer = TreePointer { block: block.into(), level: levels - 1 };
        self.walk_tree(&tree, vec![pointer], &mut record)
    }
}

/// Sorts ranges of blocks, and joins ranges that overlap or touch.
fn merge(mut runs: Vec<InodeBlocks>) -> Vec<InodeBlocks> {
    runs.sort_unstable();
    let mut merged: Vec<InodeBlocks> = Vec::new();
    for run in runs {
        match merged.last_mut() {
            Some(last) if run.start <= last.start + last.count => {
                last.count = last.count.max(run.start - last.start + run.count);
            }
            _ => merged.push(run),
        }
    }
    merged
}
