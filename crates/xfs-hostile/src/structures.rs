//! The fuzz targets: one per structure of the format.
//!
//! The input of a target for a block is the block's address in 8 bytes, big-endian, and then its
//! bytes. The target reads the block as it is and again with a recomputed checksum, since few
//! mutations would get past the checksum otherwise.

pub mod container;
pub mod dquots;
pub mod log_item;
pub mod metadump;
pub mod partition_table;
pub mod realtime;
pub mod recovery;

pub use container::container;
pub use dquots::dquots;
pub use log_item::log_item;
pub use metadump::metadump;
pub use partition_table::partition_table;
pub use realtime::{realtime_space, realtime_superblock, realtime_tree};
pub use recovery::recovery;

use std::fmt::Debug;
use std::hint::black_box;

use xfs_format::attr::{AttrEntry, AttrLeaf, AttrShortForm, RemoteBlock};
use xfs_format::btree::{BtreeBlock, BtreeFormat, BtreeKind, Extents};
use xfs_format::dabtree::DaNode;
use xfs_format::directory::{
    Cookie, DataBlock, DirectoryForm, EntryTypes, FreeBlock, LeafBlock, NameComparison, ShortForm,
};
use xfs_format::free_space::{FreeSpaceByBlock, FreeSpaceBySize};
use xfs_format::inode_chunk::{FreeInodeChunks, InodeChunks};
use xfs_format::log_record::{LogOperation, LogRecordHeader, RecordChecksums};
use xfs_format::parent::Parent;
use xfs_format::refcount::Refcounts;
use xfs_format::rmap::ReverseMap;
use xfs_format::symlink::SymlinkBlock;
use xfs_format::{
    AgNumber, BlockKind, DiskAddr, FormatVersion, Geometry, Group, InodeNumber, StructureAddress,
    Superblock, VerifyContext, acl, agf, agfl, agi,
};
use xfs_inode::Inode;
use xfs_testkit::reseal;

use crate::seeds;

/// A fuzz target with its name and seeds.
#[derive(Clone, Copy)]
pub struct FuzzTarget {
    /// The name of the target, which is also the name of its file in fuzz/fuzz_targets.
    pub name: &'static str,
    /// The body of the target, which gets one input.
    pub run: fn(&[u8]),
    /// A function that returns valid inputs, which a fuzzer mutates.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets for a single structure.
pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "superblock", run: superblock, seeds: || inputs(BlockKind::Superblock) },
    FuzzTarget { name: "agf", run: agf, seeds: || inputs(BlockKind::Agf) },
    FuzzTarget { name: "agi", run: agi, seeds: || inputs(BlockKind::Agi) },
    FuzzTarget { name: "agfl", run: agfl, seeds: || inputs(BlockKind::Agfl) },
    FuzzTarget { name: "btree", run: btree, seeds: btree_inputs },
    FuzzTarget { name: "inode", run: inode, seeds: inode_inputs },
    FuzzTarget {
        name: "directory_data",
        run: directory_data,
        seeds: || inputs(BlockKind::DirectoryData),
    },
    FuzzTarget {
        name: "directory_index",
        run: directory_index,
        seeds: || inputs(BlockKind::DirectoryIndex),
    },
    FuzzTarget {
        name: "directory_free",
        run: directory_free,
        seeds: || inputs(BlockKind::DirectoryFree),
    },
    FuzzTarget { name: "directory_short", run: directory_short, seeds: fork_inputs },
    FuzzTarget { name: "attr", run: attr, seeds: || inputs(BlockKind::Attr) },
    FuzzTarget { name: "attr_remote", run: attr_remote, seeds: || inputs(BlockKind::AttrRemote) },
    FuzzTarget { name: "attr_short", run: attr_short, seeds: fork_inputs },
    FuzzTarget { name: "symlink", run: symlink, seeds: || inputs(BlockKind::Symlink) },
    FuzzTarget { name: "dquots", run: dquots, seeds: dquots::inputs },
    FuzzTarget { name: "access_list", run: access_list, seeds: access_list_inputs },
    FuzzTarget { name: "log_record", run: log_record, seeds: log_inputs },
    FuzzTarget { name: "log_item", run: log_item, seeds: log_item::inputs },
    FuzzTarget { name: "recovery", run: recovery, seeds: recovery::inputs },
    FuzzTarget { name: "container", run: container, seeds: container::inputs },
    FuzzTarget { name: "partition_table", run: partition_table, seeds: partition_table::inputs },
    FuzzTarget { name: "metadump", run: metadump, seeds: metadump::inputs },
    FuzzTarget {
        name: "realtime_superblock",
        run: realtime_superblock,
        seeds: realtime::superblock_inputs,
    },
    FuzzTarget { name: "realtime_space", run: realtime_space, seeds: realtime::space_inputs },
    FuzzTarget { name: "realtime_tree", run: realtime_tree, seeds: realtime::tree_inputs },
];

/// Returns the seeds for one kind of block: enough for every form of that block, and few enough for
/// the fuzzer to mutate each seed often.
fn inputs(kind: BlockKind) -> Vec<Vec<u8>> {
    let all: Vec<_> = seeds::of(kind).collect();
    let step = all.len().div_ceil(MOST_SEEDS).max(1);
    all.iter().step_by(step).map(|seed| seed.input()).collect()
}

const MOST_SEEDS: usize = 40;

fn split(input: &[u8]) -> Option<(DiskAddr, &[u8])> {
    let (at, bytes) = input.split_first_chunk::<8>()?;
    Some((DiskAddr(u64::from_be_bytes(*at)), bytes))
}

/// Verifies the block of an input and calls `read` with it. Does both again with the checksum
/// recomputed.
fn block(input: &[u8], kind: BlockKind, read: impl Fn(&[u8], DiskAddr, &Geometry)) {
    let Some((at, bytes)) = split(input) else { return };
    let geometry = seeds::geometry();
    let context = VerifyContext { geometry, log_head: None };
    drop(black_box(kind.verify(bytes, at, &context)));
    read(bytes, at, geometry);
    let mut resealed = bytes.to_vec();
    reseal(&mut resealed, kind, geometry);
    drop(black_box(kind.verify(&resealed, at, &context)));
    read(&resealed, at, geometry);
}

/// Formats every item as text, which reads all fields of the item.
fn exhaust<T: Debug>(items: impl Iterator<Item = T>) {
    for item in items {
        black_box(format!("{item:?}"));
    }
}

/// Fuzzes a superblock and computations with its geometry.
pub fn superblock(input: &[u8]) {
    block(input, BlockKind::Superblock, |bytes, at, _| {
        let Ok(superblock) = Superblock::decode(bytes, StructureAddress::Disk(at)) else { return };
        let geometry = &superblock.geometry;
        black_box(format!("{superblock:?} {:?}", superblock.log_first_block()));
        for group in [0, 1, geometry.ag_count - 1, geometry.ag_count, u32::MAX].map(AgNumber) {
            black_box((geometry.ag_length(group), Group::new(geometry, group).is_some()));
            for block in [0, 1, geometry.ag_blocks, u32::MAX].map(xfs_format::AgBlock) {
                black_box(geometry.contains_ag_block(group, block));
            }
        }
        for number in [0, 1, 128, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX] {
            black_box(geometry.split_inode(InodeNumber(number)));
            black_box(geometry.inode_location(InodeNumber(number)));
            black_box(geometry.block_disk_addr(xfs_format::FsBlock(number)));
            black_box(geometry.contains_extent(xfs_format::FsBlock(number), number));
            black_box(geometry.blocks_to_bytes(number));
        }
        black_box((geometry.chunk_blocks(), geometry.cluster_inodes(), geometry.data_bytes()));
    });
}

/// Fuzzes the free-space header of a group (AGF).
pub fn agf(input: &[u8]) {
    block(input, BlockKind::Agf, |bytes, at, geometry| {
        black_box(format!("{:?}", agf::Agf::decode(bytes, at, geometry)));
    });
}

/// Fuzzes the inode header of a group (AGI).
pub fn agi(input: &[u8]) {
    block(input, BlockKind::Agi, |bytes, at, geometry| {
        if let Ok(agi) = agi::Agi::decode(bytes, at, geometry) {
            exhaust(agi.unlinked_heads());
        }
    });
}

/// Fuzzes the free list of a group (AGFL). The list is read with several entry ranges, valid and
/// invalid, because a forged AGF can give any range.
pub fn agfl(input: &[u8]) {
    block(input, BlockKind::Agfl, |bytes, at, geometry| {
        let Ok(list) = agfl::Agfl::decode(bytes, at, geometry.version) else { return };
        exhaust(list.entries());
        let ends = [0, 1, 100, 118, 119, 120, u32::MAX];
        for (first, last) in ends.iter().flat_map(|first| ends.map(|last| (*first, last))) {
            for count in [0, 1, last.wrapping_sub(first).wrapping_add(1), u32::MAX] {
                let range = agf::FreeListRange { first, last, count };
                list.blocks(range).into_iter().for_each(exhaust);
            }
        }
    });
}

/// Fuzzes a btree block, decoded as each kind of btree that its magic number may name.
pub fn btree(input: &[u8]) {
    btree_of::<FreeSpaceByBlock>(input);
    btree_of::<FreeSpaceBySize>(input);
    btree_of::<InodeChunks>(input);
    btree_of::<FreeInodeChunks>(input);
    btree_of::<ReverseMap>(input);
    btree_of::<Refcounts>(input);
    btree_of::<Extents>(input);
}

fn btree_of<F: BtreeFormat>(input: &[u8]) {
    block(input, BlockKind::Btree(F::KIND), |bytes, at, geometry| {
        let Ok(block) = BtreeBlock::decode(bytes, F::KIND, at) else { return };
        black_box((block.left_sibling(), block.right_sibling(), block.owner(), block.lsn()));
        for index in (0..block.count() + 1).chain([usize::MAX / 64]) {
            black_box(block.pointer(index));
            black_box(block.record(index));
            black_box(block.key(index).and_then(F::decode_key));
            black_box(block.high_key(index).and_then(F::decode_key));
        }
        let Some(group) = Group::new(geometry, AgNumber(0)) else { return };
        let records = block.records().map(|record| F::decode_record(record, &group));
        let records: Vec<_> = records.filter_map(Result::ok).collect();
        for pair in records.windows(2) {
            if let [previous, record] = pair {
                black_box((F::key(record), F::may_follow(record, previous)));
            }
        }
    });
}

fn btree_inputs() -> Vec<Vec<u8>> {
    let kinds = [
        BtreeKind::FreeSpaceByBlock,
        BtreeKind::FreeSpaceBySize,
        BtreeKind::Inode,
        BtreeKind::FreeInode,
        BtreeKind::ReverseMap,
        BtreeKind::Refcount,
        BtreeKind::Extent,
    ];
    kinds.into_iter().flat_map(|kind| inputs(BlockKind::Btree(kind))).collect()
}

/// Fuzzes an inode with both forks.
pub fn inode(input: &[u8]) {
    block(input, BlockKind::InodeCluster, |bytes, at, geometry| {
        let context = VerifyContext { geometry, log_head: None };
        let Some((group, block)) = geometry.split_disk_addr(at) else { return };
        let in_block = (at.0 * 512 % u64::from(geometry.block_size)) as u32 / geometry.inode_size;
        let inodes = block.0.checked_shl(geometry.inodes_per_block_log.into()).unwrap_or(0);
        let number = xfs_format::AgInode(inodes.saturating_add(in_block));
        let number = geometry.join_inode(group, number);
        black_box(format!("{:?}", Inode::decode(bytes, number, &context)));
    });
}

fn inode_inputs() -> Vec<Vec<u8>> {
    // One of each combination of type, formats and presence of an attribute fork.
    let mut shapes = std::collections::BTreeSet::new();
    let shape = |bytes: &[u8]| {
        Some((bytes.get(2)? >> 4, *bytes.get(5)?, *bytes.get(82)? == 0, *bytes.get(83)?))
    };
    let seeds = seeds::of(BlockKind::InodeCluster);
    seeds.filter(|seed| shapes.insert(shape(&seed.bytes))).map(seeds::Seed::input).collect()
}

/// Fuzzes a directory data block, also as the only block of a small directory.
pub fn directory_data(input: &[u8]) {
    block(input, BlockKind::DirectoryData, |bytes, at, geometry| {
        for start in [0, 4096, 1 << 35] {
            let Ok(block) = DataBlock::decode(
                bytes,
                start,
                StructureAddress::Disk(at),
                geometry.directory_form,
            ) else {
                continue;
            };
            exhaust(block.entries());
            exhaust(block.index().iter());
            drop(black_box(block.find(b"a-longer-node-entry-77")));
            for place in [0, 1, 8, 9, 10, 500, 511, 512, u32::MAX] {
                drop(black_box(block.entry_at(Cookie(place))));
            }
        }
    });
}

/// Fuzzes a block of a directory's index: leaf or node.
pub fn directory_index(input: &[u8]) {
    block(input, BlockKind::DirectoryIndex, |bytes, at, _| {
        node(bytes, at);
        let Ok(leaf) = LeafBlock::decode(bytes, StructureAddress::Disk(at)) else { return };
        exhaust(leaf.entries().iter());
        exhaust(leaf.best_free().into_iter().flatten());
        for hash in [0, 1, u32::MAX] {
            exhaust(leaf.find(hash));
        }
    });
}

fn node(bytes: &[u8], at: DiskAddr) {
    let Ok(node) = DaNode::decode(bytes, StructureAddress::Disk(at)) else { return };
    black_box((node.level(), node.owner()));
    exhaust(node.entries().iter());
    for hash in [0, 1, u32::MAX] {
        black_box(node.find(hash));
    }
}

/// Fuzzes a block of a directory's free-space index.
pub fn directory_free(input: &[u8]) {
    block(input, BlockKind::DirectoryFree, |bytes, at, _| {
        let Ok(free) = FreeBlock::decode(bytes, StructureAddress::Disk(at)) else { return };
        exhaust(free.best_free().iter());
    });
}

/// Fuzzes a directory that fits inside its inode, in the form of each version.
pub fn directory_short(input: &[u8]) {
    let mut v4 = DirectoryForm::V5;
    v4.version = FormatVersion::V4;
    v4.types = EntryTypes::Absent;
    v4.names = NameComparison::AsciiCi;
    for form in [DirectoryForm::V5, v4] {
        let place = StructureAddress::Inode(InodeNumber(128));
        let Ok(form) = ShortForm::decode(input, place, form) else { continue };
        drop(black_box(form.verify(seeds::geometry())));
        black_box(form.parent());
        exhaust(form.entries());
        drop(black_box(form.find(b"ccc")));
    }
}

/// Returns the fork areas of inodes as inputs for targets of structures that lie inside an inode.
fn fork_inputs() -> Vec<Vec<u8>> {
    let inodes = seeds::of(BlockKind::InodeCluster).filter(|seed| {
        // Either fork is in local format.
        seed.bytes.get(5) == Some(&1) || seed.bytes.get(83) == Some(&1)
    });
    let forks = inodes.step_by(31).flat_map(|seed| {
        let fork_offset = seed.bytes.get(82).map_or(0, |units| usize::from(*units) * 8);
        [176, 176 + fork_offset].map(|start| seed.bytes.get(start..).unwrap_or_default().to_vec())
    });
    forks.take(MOST_SEEDS).collect()
}

/// Fuzzes a block of an attribute fork: leaf or node.
pub fn attr(input: &[u8]) {
    block(input, BlockKind::Attr, |bytes, at, _| {
        node(bytes, at);
        let Ok(leaf) = AttrLeaf::decode(bytes, StructureAddress::Disk(at)) else { return };
        attr_entries(leaf.entries().filter_map(Result::ok), StructureAddress::Disk(at));
        for hash in [0, 1, u32::MAX] {
            exhaust(leaf.find(hash));
        }
        black_box(leaf.hash_range());
    });
}

fn attr_entries<'a>(entries: impl Iterator<Item = AttrEntry<'a>>, place: StructureAddress) {
    for entry in entries {
        black_box(format!("{entry:?}"));
        if let Ok(Some(parent)) = Parent::decode(&entry, place) {
            black_box(parent.hash());
        }
    }
}

/// Fuzzes a block of a remote attribute value.
pub fn attr_remote(input: &[u8]) {
    block(input, BlockKind::AttrRemote, |bytes, at, _| {
        black_box(format!("{:?}", RemoteBlock::decode(bytes, StructureAddress::Disk(at))));
    });
}

/// Fuzzes attributes that fit inside their inode.
pub fn attr_short(input: &[u8]) {
    let place = StructureAddress::Inode(InodeNumber(128));
    let Ok(form) = AttrShortForm::decode(input, place) else { return };
    drop(black_box(form.verify()));
    attr_entries(form.entries().filter_map(Result::ok), place);
}

/// Fuzzes a block that holds a part of a symbolic link's target.
pub fn symlink(input: &[u8]) {
    block(input, BlockKind::Symlink, |bytes, at, _| {
        black_box(format!("{:?}", SymlinkBlock::decode(bytes, at)));
    });
}

/// Fuzzes the value of an attribute that holds an access control list.
pub fn access_list(input: &[u8]) {
    if let Ok(entries) = acl::decode(input, InodeNumber(128)) {
        black_box(acl::encode_posix_xattr(&entries));
    }
}

fn access_list_inputs() -> Vec<Vec<u8>> {
    let entry = |tag: u32, id: u32| [tag.to_be_bytes(), id.to_be_bytes(), [0, 7, 0, 0]].concat();
    let list = |entries: &[Vec<u8>]| {
        [(entries.len() as u32).to_be_bytes().to_vec(), entries.concat()].concat()
    };
    let owner = [entry(1, u32::MAX), entry(4, u32::MAX), entry(32, u32::MAX)];
    let named =
        [owner.to_vec(), vec![entry(2, 1000), entry(8, 1000), entry(16, u32::MAX)]].concat();
    vec![list(&[]), list(&owner), list(&named), list(&vec![entry(2, 5); 25])]
}

/// Fuzzes a log record: header, position, checksum, operations.
pub fn log_record(input: &[u8]) {
    let place = StructureAddress::Log(1);
    let Ok(header) = LogRecordHeader::decode(input, place) else { return };
    drop(black_box(header.verify_place(header.lsn.block(), 10_000, header.uuid)));
    for checksums in [RecordChecksums::Required, RecordChecksums::Optional] {
        drop(black_box(header.verify_checksum(input, place, checksums)));
    }
    black_box(header.total_blocks());
    let mut rest = input.get(512..).unwrap_or_default();
    while let Ok(operation) = LogOperation::decode(rest, place) {
        let length = (operation.length as usize).saturating_add(12);
        rest = rest.get(length..).unwrap_or_default();
    }
}

fn log_inputs() -> Vec<Vec<u8>> {
    let image = xfs_testkit::golden();
    let sectors = (0..image.length_bytes() as u64 / 512).map(DiskAddr);
    let starts = sectors
        .filter(|at| image.bytes(*at, 512).is_some_and(|block| LogRecordHeader::is_here(&block)));
    starts.take(MOST_SEEDS).filter_map(|at| image.bytes(at, 2048)).collect()
}
