//! Encodes the structures of a new volume into bytes.

use xfs_format::agf::{Agf, FreeListRange};
use xfs_format::agi::{Agi, UNLINKED_BUCKETS};
use xfs_format::attr::{AttrEntry, AttrValue, Namespace, short_form as attr_short_form};
use xfs_format::btree::{BtreeIdentity, BtreeKind, encode_leaf};
use xfs_format::directory::short_form as directory_short_form;
use xfs_format::features::VersionFlags;
use xfs_format::free_space::FreeSpace;
use xfs_format::inode::{
    self, CORE_BYTES, FORK_OFFSET_BYTES, FileType, ForkFormat, InodeCore, InodeFlags, InodeFlags2,
};
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::timestamp::Timestamp;
use xfs_format::{
    AgBlock, AgInode, AgNumber, BlockKind, DiskAddr, Geometry, IncompatFeatures, InodeNumber, Lsn,
    RoCompatFeatures, Superblock, agfl,
};
use zerocopy::{Immutable, IntoBytes};

use crate::layout::{GroupLayout, VolumeLayout};
use crate::plan::{Plan, USED_INODES};

/// The LSN of all blocks. It is 0, since no change of a new volume has been logged.
const LSN: Lsn = Lsn(0);

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
        encoder.leaf(BtreeKind::FreeInode, root.block, &chunks);
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
        superblock.free_blocks += u64::from(geometry.chunk_blocks());
        // Only parent pointers make it certain from the start that there are attributes.
        let has_parents = superblock.has_incompat(IncompatFeatures::PARENT);
        superblock.version_flags.set(VersionFlags::ATTR, has_parents);
        superblock.realtime_bitmap_inode = InodeNumber::NULL;
        superblock.realtime_summary_inode = InodeNumber::NULL;
        if !knows_root(geometry, group.number) {
            superblock.root_inode = InodeNumber::NULL;
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
        let used = if index == 0 { USED_INODES as u8 } else { 0 };
        InodeChunk {
            start: AgInode(first + 64 * index),
            holes: 0,
            count: 64,
            free_count: 64 - used,
            free: u64::MAX << used,
        }
    };
    (0..inodes / 64).map(chunk).collect()
}

/// Encodes the first inodes. Returns their address on the device and their bytes, or `None` if they
/// cannot be encoded.
pub(super) fn encode_inodes(plan: &Plan) -> Option<(DiskAddr, Vec<u8>)> {
    let geometry = &plan.superblock.geometry;
    let block = plan.group(AgNumber(0))?.inodes?;
    let size = geometry.inode_size as usize;
    let count = geometry.chunk_blocks() << geometry.inodes_per_block_log;
    let mut bytes = vec![0; count as usize * size];
    let first = plan.superblock.root_inode.0;
    for (number, inode) in (first..).map(InodeNumber).zip(bytes.chunks_exact_mut(size)) {
        let mut core = match number.0 - first {
            0 => root(plan),
            1 => realtime(plan, InodeFlags::NEWRTBM),
            2 => realtime(plan, InodeFlags::empty()),
            _ => free(plan),
        };
        core.number = number;
        encode_inode(plan, &core, inode)?;
    }
    Some((geometry.ag_block_disk_addr(AgNumber(0), block), bytes))
}

fn encode_inode(plan: &Plan, core: &InodeCore, bytes: &mut [u8]) -> Option<()> {
    let disk = core.encode(&plan.superblock.geometry)?;
    disk.write_to_prefix(bytes).ok()?;
    if core.number == plan.superblock.root_inode {
        let entries = directory_short_form::encode_empty(core.number);
        bytes.get_mut(CORE_BYTES..)?.get_mut(..entries.len())?.copy_from_slice(&entries);
        if let Some(attributes) = root_attributes(plan) {
            let at = CORE_BYTES + usize::from(core.fork_offset) * FORK_OFFSET_BYTES;
            let fork = bytes.get_mut(at..)?;
            fork.get_mut(..attributes.len())?.copy_from_slice(&attributes);
        }
    }
    inode::seal(bytes, LSN);
    Some(())
}

/// Encodes the attribute fork of the root directory. Returns `None` if it has no attributes.
fn root_attributes(plan: &Plan) -> Option<Vec<u8>> {
    let value = plan.autofsck.value()?;
    attr_short_form::encode(&[AttrEntry {
        namespace: Namespace::Trusted,
        name: b"xfs:autofsck",
        value: AttrValue::Local(value.as_bytes()),
    }])
}

/// Returns the flags that the volume's features give to every inode in use.
fn feature_flags(plan: &Plan) -> InodeFlags2 {
    let mut flags = InodeFlags2::empty();
    flags.set(InodeFlags2::BIGTIME, plan.superblock.has_incompat(IncompatFeatures::BIGTIME));
    flags.set(InodeFlags2::NREXT64, plan.superblock.has_incompat(IncompatFeatures::NREXT64));
    flags
}

fn free(plan: &Plan) -> InodeCore {
    let epoch = Timestamp::default();
    InodeCore {
        number: InodeNumber::NULL,
        mode: 0,
        data_format: ForkFormat::Device,
        attr_format: ForkFormat::Device,
        fork_offset: 0,
        metafile_type: 0,
        uid: 0,
        gid: 0,
        nlink: 0,
        project_id: 0,
        access_time: epoch,
        modify_time: epoch,
        change_time: epoch,
        birth_time: epoch,
        size: 0,
        blocks: 0,
        extent_size_hint_blocks: 0,
        cow_extent_size_hint_blocks: 0,
        extents: 0,
        attr_extents: 0,
        flags: InodeFlags::empty(),
        flags2: InodeFlags2::empty(),
        generation: plan.identity.generations.at(0),
        next_unlinked: AgInode::NULL,
        change_count: 0,
        lsn: LSN,
        rdev: None,
    }
}

fn used(plan: &Plan) -> InodeCore {
    let time = plan.identity.time;
    InodeCore {
        attr_format: ForkFormat::Extents,
        nlink: 1,
        modify_time: time,
        change_time: time,
        birth_time: time,
        flags2: feature_flags(plan),
        // The inode was created and then filled.
        change_count: 2,
        ..free(plan)
    }
}

fn root(plan: &Plan) -> InodeCore {
    let core = InodeCore {
        mode: FileType::Directory.mode_bits() | 0o755,
        data_format: ForkFormat::Local,
        nlink: 2,
        access_time: plan.identity.time,
        size: directory_short_form::encode_empty(plan.superblock.root_inode).len() as u64,
        generation: 0,
        ..used(plan)
    };
    let core = with_inherited(plan, core);
    match root_attributes(plan) {
        None => core,
        Some(attributes) => InodeCore {
            attr_format: ForkFormat::Local,
            fork_offset: fork_offset(&plan.superblock.geometry, attributes.len()),
            change_count: 4,
            ..core
        },
    }
}

/// Adds to `core`, the core of the root directory, the settings that files below it inherit.
fn with_inherited(plan: &Plan, mut core: InodeCore) -> InodeCore {
    let inherited = &plan.inherited;
    core.project_id = inherited.project.unwrap_or(0);
    core.flags.set(InodeFlags::PROJINHERIT, inherited.project.is_some());
    core.flags.set(InodeFlags::EXTSZINHERIT, inherited.extent_size_blocks != 0);
    core.extent_size_hint_blocks = inherited.extent_size_blocks;
    core.flags2.set(InodeFlags2::COWEXTSIZE, inherited.cow_extent_size_blocks != 0);
    core.cow_extent_size_hint_blocks = inherited.cow_extent_size_blocks;
    core.flags2.set(InodeFlags2::DAX, inherited.dax);
    core
}

/// Returns the offset of the attribute fork in the inode's fork area, in units of 8 bytes. The fork
/// must have room for the given attributes, and for the smallest btree root, into which it may turn
/// later.
fn fork_offset(geometry: &Geometry, attribute_bytes: usize) -> u8 {
    let attribute_bytes = attribute_bytes.max(SMALLEST_ATTR_ROOT_BYTES);
    let data_bytes = geometry.inode_size as usize - CORE_BYTES - attribute_bytes;
    (data_bytes / FORK_OFFSET_BYTES) as u8
}

/// Size of the smallest btree root of an attribute fork in bytes: a header of 4 bytes, two keys and
/// two pointers.
const SMALLEST_ATTR_ROOT_BYTES: usize = 4 + 2 * 16;

/// Creates the bitmap or summary inode of an absent realtime device: an empty file without a name.
fn realtime(plan: &Plan, flags: InodeFlags) -> InodeCore {
    // The access time of a new bitmap is a counter of the allocator, not a time.
    let is_bitmap = flags.contains(InodeFlags::NEWRTBM);
    InodeCore {
        access_time: if is_bitmap { Timestamp::default() } else { plan.identity.time },
        mode: FileType::Regular.mode_bits(),
        data_format: ForkFormat::Extents,
        flags,
        generation: plan.identity.generations.at(if is_bitmap { 1 } else { 2 }),
        ..used(plan)
    }
}
