//! Tests over the golden image. They compare its btrees with each other. Then they change fields of
//! its headers and blocks, and check that each change is reported.

mod choice;
mod conversions;
mod full;
mod intents;
mod model;
mod space;
mod waiting;

use std::sync::Arc;

use xfs_buffer::{BufferCache, Error};
use xfs_format::agf::AgfCheck;
use xfs_format::agi::AgiCheck;
use xfs_format::btree::BtreeKind;
use xfs_format::refcount::RefcountDomain;
use xfs_format::rmap::{RmapFlags, RmapOwner};
use xfs_format::{
    AgBlock, AgInode, AgNumber, BlockKind, Check, DiskAddr, InodeNumber, StructureAddress,
    Superblock,
};
use xfs_testkit::{Image, Prng, golden};

use crate::{
    AgHeaders, InodeState, VolumeCounters, find_chunk, inode_chunks, inode_state, read_free_list,
};

fn cache(image: &Image) -> BufferCache {
    BufferCache::new(Arc::new(image.clone()), Arc::new(image.geometry()), 4 << 20)
}

fn check_of(error: &Error) -> Check {
    match error {
        Error::Corrupt(corruption) => corruption.check().clone(),
        other => panic!("{other}"),
    }
}

/// Returns the golden image with one field of four bytes changed, in a header sector of the first
/// group.
fn with_field(
    sector: u32,
    kind: BlockKind,
    offset: usize,
    change: impl FnOnce(u32) -> u32,
) -> Image {
    let mut image = golden();
    let at = image.geometry().header_disk_addr(AgNumber(0), sector);
    image.edit(at, 512, kind, |bytes| {
        let field: &mut [u8; 4] = (&mut bytes[offset..offset + 4]).try_into().unwrap();
        *field = change(u32::from_be_bytes(*field)).to_be_bytes();
    });
    image
}

#[test]
fn counters_of_headers_equal_the_records() {
    let image = golden();
    let cache = cache(&image);
    for group in cache.geometry().groups() {
        AgHeaders::read(&cache, group).unwrap().verify_counters(&cache).unwrap();
    }
}

#[test]
fn counters_of_groups_add_up_to_the_superblock() {
    let image = golden();
    let sector = image.bytes(DiskAddr(0), 512).unwrap();
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).unwrap();
    let expected = VolumeCounters {
        inodes: superblock.inode_count,
        free_inodes: superblock.free_inodes,
        free_blocks: superblock.free_blocks,
    };
    assert_eq!(VolumeCounters::sum(&cache(&image)).unwrap(), expected);
}

#[test]
fn wrong_counters_are_found_by_counting() {
    let verify = |image: &Image| {
        let cache = cache(image);
        let headers = AgHeaders::read(&cache, AgNumber(0)).unwrap();
        check_of(&headers.verify_counters(&cache).unwrap_err())
    };
    let counted = |check| match check {
        Check::Agf(AgfCheck::Counted { what, stored, counted })
        | Check::Agi(AgiCheck::Counted { what, stored, counted }) => {
            (what, i64::from(stored) - counted as i64)
        }
        other => panic!("{other}"),
    };
    let image = with_field(1, BlockKind::Agf, 52, |free| free - 1);
    assert_eq!(counted(verify(&image)), ("free blocks", -1));
    let image = with_field(1, BlockKind::Agf, 56, |longest| longest - 2);
    assert_eq!(counted(verify(&image)), ("blocks of the longest free extent", -2));
    let image = with_field(2, BlockKind::Agi, 16, |count| count + 64);
    assert_eq!(counted(verify(&image)), ("inodes", 64));
    let image = with_field(2, BlockKind::Agi, 28, |free| free - 1);
    assert_eq!(counted(verify(&image)), ("free inodes", -1));
}

/// The use of one block, as the btrees of its group record it.
#[derive(Clone, Default)]
struct BlockUse {
    free: u32,
    mappings: u32,
    files: u32,
    shared: u32,
    staging: u32,
}

fn block_uses(cache: &BufferCache, headers: &AgHeaders) -> Vec<BlockUse> {
    let mut uses = vec![BlockUse::default(); headers.agf.length_blocks as usize];
    let range = |start: AgBlock, end: AgBlock| start.0 as usize..end.0 as usize;
    for record in headers.free_space(cache).unwrap().records() {
        let record = record.unwrap();
        uses[range(record.start, record.end())].iter_mut().for_each(|block| block.free += 1);
    }
    for record in headers.reverse_map(cache).unwrap().unwrap().records() {
        let record = record.unwrap();
        let is_file = matches!(record.owner, RmapOwner::Inode(_))
            && !record.flags.intersects(RmapFlags::ATTR | RmapFlags::FORK_BTREE);
        for block in &mut uses[range(record.start, record.end())] {
            block.mappings += 1;
            block.files += u32::from(is_file);
            block.staging += u32::from(record.owner == RmapOwner::Staging);
        }
    }
    for record in headers.refcounts(cache).unwrap().unwrap().records() {
        let record = record.unwrap();
        for block in &mut uses[range(record.start, record.end())] {
            match record.domain {
                RefcountDomain::Shared => block.shared = record.references,
                RefcountDomain::Staging => block.staging += 1,
            }
        }
    }
    uses
}

#[test]
fn btrees_agree_on_every_block() {
    let image = golden();
    let cache = cache(&image);
    let mut shared = 0;
    for group in cache.geometry().groups() {
        let headers = AgHeaders::read(&cache, group).unwrap();
        let uses = block_uses(&cache, &headers);
        for (block, found) in uses.iter().enumerate() {
            assert!(found.free + found.mappings.min(1) == 1, "block {block} of {group}");
            let expected = if found.files > 1 { found.files } else { 0 };
            assert_eq!(found.shared, expected, "block {block} of {group}");
            shared += u32::from(found.shared > 1);
        }
        let by_size = headers.free_space_by_size(&cache).unwrap().records();
        let mut by_size: Vec<_> = by_size.map(Result::unwrap).collect();
        by_size.sort_by_key(|record| record.start);
        let by_block = headers.free_space(&cache).unwrap().records();
        assert_eq!(by_size, by_block.map(Result::unwrap).collect::<Vec<_>>());
        // Blocks on the free list belong to the group.
        for block in read_free_list(&cache, &headers.agf).unwrap() {
            let found = &uses[block.0 as usize];
            assert_eq!((found.mappings, found.files), (1, 0), "{block} of {group}");
        }
    }
    assert!(shared > 0, "the golden image has shared blocks");
}

#[test]
fn both_inode_btrees_hold_the_same_chunks() {
    let image = golden();
    let cache = cache(&image);
    for group in cache.geometry().groups() {
        let headers = AgHeaders::read(&cache, group).unwrap();
        let chunks = inode_chunks(&cache, group).unwrap().map(Result::unwrap);
        let with_free: Vec<_> = chunks.filter(|chunk| chunk.free_count != 0).collect();
        let free = headers.free_inode_chunks(&cache).unwrap().unwrap().records();
        assert_eq!(free.map(Result::unwrap).collect::<Vec<_>>(), with_free);
    }
}

#[test]
fn inode_states_are_those_of_the_chunks() {
    let image = golden();
    let cache = cache(&image);
    let geometry = cache.geometry();
    let inodes = geometry.ag_blocks << geometry.inodes_per_block_log;
    for group in geometry.groups() {
        let mut expected = vec![InodeState::Absent; inodes as usize];
        for chunk in inode_chunks(&cache, group).unwrap() {
            let chunk = chunk.unwrap();
            for position in (0..64).filter(|position| chunk.present() >> position & 1 != 0) {
                let is_free = chunk.free >> position & 1 != 0;
                expected[(chunk.start.0 + position) as usize] =
                    if is_free { InodeState::Free } else { InodeState::Allocated };
            }
        }
        for (inode, expected) in (0..).zip(&expected) {
            let number = geometry.join_inode(group, AgInode(inode));
            assert_eq!(inode_state(&cache, number).unwrap(), *expected, "{number}");
        }
    }
    for outside in [0, 1 << 40, u64::MAX - 1, u64::MAX] {
        assert_eq!(inode_state(&cache, InodeNumber(outside)).unwrap(), InodeState::Absent);
    }
    assert_eq!(find_chunk(&cache, AgNumber(0), AgInode::NULL).unwrap(), None);
}

#[test]
fn blocks_that_fail_verification_are_errors_and_not_gaps() {
    let mut image = golden();
    let geometry = image.geometry();
    let group = AgNumber(0);
    let root = AgHeaders::read(&cache(&image), group).unwrap().agi.inode_btree;
    let at = geometry.ag_block_disk_addr(group, root.block);
    let size = geometry.block_size as usize;
    // First with a wrong checksum, then with a foreign owner.
    let mut torn = image.bytes(at, size).unwrap();
    torn[70] ^= 1;
    image.replace(at, &torn);
    let found: Vec<_> = inode_chunks(&cache(&image), group).unwrap().collect();
    assert!(matches!(check_of(found[0].as_ref().unwrap_err()), Check::Checksum { .. }));
    assert_eq!(found.len(), 1);
    let mut image = golden();
    image.edit(at, size, BlockKind::Btree(BtreeKind::Inode), |bytes| bytes[51] = 9);
    let error = inode_state(&cache(&image), InodeNumber(128)).unwrap_err();
    assert_eq!(check_of(&error), Check::ForeignOwner { found: 9, expected: 0 });
}

/// Walks the free list and all btrees of a group, each to its end or its first error. Returns the
/// number of items that these walks return: records, and errors in place of records.
fn walk(cache: &BufferCache, group: AgNumber) -> Result<usize, Error> {
    let headers = AgHeaders::read(cache, group)?;
    let mut steps = read_free_list(cache, &headers.agf)?.len();
    steps += headers.free_space(cache)?.records().count();
    steps += headers.free_space_by_size(cache)?.records().count();
    steps += headers.inode_chunks(cache)?.records().count();
    steps += headers.free_inode_chunks(cache)?.map_or(0, |cursor| cursor.records().count());
    steps += headers.reverse_map(cache)?.map_or(0, |cursor| cursor.records().count());
    steps += headers.refcounts(cache)?.map_or(0, |cursor| cursor.records().count());
    Ok(steps)
}

#[test]
fn walks_of_mutated_images_end_in_an_error_or_are_bounded() {
    let whole = golden();
    let geometry = whole.geometry();
    let group = AgNumber(0);
    let headers = AgHeaders::read(&cache(&whole), group).unwrap();
    let block_size = geometry.block_size as usize;
    let block = |root: xfs_format::agf::BtreeRoot| geometry.ag_block_disk_addr(group, root.block);
    let btree = |kind, root| (block(root), block_size, BlockKind::Btree(kind));
    let (agf, agi) = (&headers.agf, &headers.agi);
    let targets = [
        (geometry.header_disk_addr(group, 1), 512, BlockKind::Agf),
        (geometry.header_disk_addr(group, 2), 512, BlockKind::Agi),
        (geometry.header_disk_addr(group, 3), 512, BlockKind::Agfl),
        btree(BtreeKind::FreeSpaceByBlock, agf.free_space_by_block),
        btree(BtreeKind::FreeSpaceBySize, agf.free_space_by_size),
        btree(BtreeKind::ReverseMap, agf.reverse_map.unwrap()),
        btree(BtreeKind::Refcount, agf.refcount.unwrap()),
        btree(BtreeKind::Inode, agi.inode_btree),
        btree(BtreeKind::FreeInode, agi.free_inode_btree.unwrap()),
    ];
    let bound = 2 * walk(&cache(&whole), group).unwrap() + 10_000;
    for seed in 0..2000 {
        let mut random = Prng::new(seed);
        let &(at, length, kind) = random.choose(&targets).unwrap();
        let mut image = whole.clone();
        image.edit(at, length, kind, |bytes| random.mutate(bytes));
        let steps = walk(&cache(&image), group).unwrap_or(0);
        assert!(steps < bound, "seed {seed}: {steps} records");
    }
}
