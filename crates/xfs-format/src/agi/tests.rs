//! Tests of AGIs that mkfs.xfs and the kernel wrote (`testdata/groups`), and of copies of them with
//! changed fields.

use std::vec::Vec;

use zerocopy::FromBytes;

use super::{Agi, AgiCheck, AgiDisk, AgiFields, decode_unlinked, encode_unlinked, unlinked_range};
use crate::addr::{AgBlock, AgInode, AgNumber, DiskAddr};
use crate::agf::BtreeRoot;
use crate::corruption::Check;
use crate::golden::{self, golden};
use crate::kind::BlockKind;

const AGED: &[u8] = golden!("aged.headers");
const AT: DiskAddr = DiskAddr(2);

/// Returns the AGI of the "aged" golden volume after `change`, with its checksum recomputed.
fn changed(change: impl FnOnce(&mut AgiDisk)) -> Vec<u8> {
    let mut sector = golden::sector(AGED, 2);
    let (disk, _) = AgiDisk::mut_from_prefix(&mut sector).unwrap();
    change(disk);
    golden::reseal(BlockKind::Agi, &mut sector);
    sector
}

#[track_caller]
fn check_refused(change: impl FnOnce(&mut AgiDisk), expected: AgiCheck) {
    let geometry = golden::geometry(AGED);
    let found = golden::verify(BlockKind::Agi, &changed(change), AT, &geometry).unwrap_err();
    assert_eq!(*found.check(), Check::Agi(expected));
}

#[test]
fn golden_agis_verify() {
    for (name, headers) in golden::HEADERS {
        let geometry = golden::geometry(headers);
        let (sector, at) = (golden::sector(headers, 2), geometry.header_disk_addr(AgNumber(0), 2));
        golden::verify(BlockKind::Agi, &sector, at, &geometry)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let agi = Agi::decode(&sector, at, &geometry).unwrap();
        assert_eq!(agi.unlinked_heads().count(), 0, "{name}");
    }
}

#[test]
fn plain_agi_has_the_values_of_mkfs() {
    let headers = golden!("plain.headers");
    let geometry = golden::geometry(headers);
    let agi = Agi::decode(&golden::sector(headers, 2), AT, &geometry).unwrap();
    assert_eq!((agi.count, agi.free_count), (64, 61));
    assert_eq!(agi.newest_inode, Some(AgInode(128)));
    assert_eq!(agi.inode_btree, BtreeRoot { block: AgBlock(3), levels: 1 });
    assert_eq!(agi.free_inode_btree, Some(BtreeRoot { block: AgBlock(4), levels: 1 }));
    assert_eq!((agi.inode_btree_blocks, agi.free_inode_btree_blocks), (Some(1), Some(1)));
}

#[test]
fn changed_fields_have_the_offsets_of_the_whole_agi() {
    let geometry = golden::geometry(AGED);
    let sector = golden::sector(AGED, 2);
    let whole = Agi::decode(&sector, AT, &geometry).unwrap();
    let stored = AgiFields::decode(&sector, AT, &geometry).unwrap();
    assert_eq!(stored.changes_since(&stored).count(), 0);
    let changed = AgiFields {
        count: 640,
        free_count: 7,
        inode_btree: BtreeRoot { block: AgBlock(77), levels: 2 },
        free_inode_btree: Some(BtreeRoot { block: AgBlock(78), levels: 3 }),
        newest_inode: None,
        inode_btree_blocks: Some(5),
        free_inode_btree_blocks: Some(6),
        ..stored
    };
    let mut patched = sector.clone();
    for (range, bytes) in changed.changes_since(&stored) {
        patched[range].copy_from_slice(&bytes);
    }
    patched[unlinked_range(5)].copy_from_slice(&encode_unlinked(Some(AgInode(133))));
    assert_eq!(decode_unlinked(&patched[unlinked_range(5)]), Some(AgInode(133)));
    assert_eq!(decode_unlinked(&patched[unlinked_range(6)]), None);
    let mut unlinked = whole.unlinked;
    unlinked[5] = Some(AgInode(133));
    let expected = Agi {
        count: changed.count,
        free_count: changed.free_count,
        inode_btree: changed.inode_btree,
        free_inode_btree: changed.free_inode_btree,
        newest_inode: changed.newest_inode,
        inode_btree_blocks: changed.inode_btree_blocks,
        free_inode_btree_blocks: changed.free_inode_btree_blocks,
        unlinked,
        ..whole
    };
    assert_eq!(Agi::decode(&patched, AT, &geometry).unwrap(), expected);
    assert_eq!(AgiFields::decode(&patched, AT, &geometry).unwrap(), changed);
}

#[test]
fn absent_features_have_no_fields() {
    let headers = golden!("few-features.headers");
    let geometry = golden::geometry(headers);
    let agi = Agi::decode(&golden::sector(headers, 2), AT, &geometry).unwrap();
    assert_eq!(agi.free_inode_btree, None);
    assert_eq!((agi.inode_btree_blocks, agi.free_inode_btree_blocks), (None, None));
}

#[test]
fn group_and_length_must_match_the_address() {
    let length = golden::geometry(AGED).ag_blocks;
    check_refused(|agi| agi.version = 0.into(), AgiCheck::Version { version: 0 });
    check_refused(|agi| agi.group = 7.into(), AgiCheck::GroupNumber { found: 7, expected: 0 });
    check_refused(
        |agi| agi.length = (length + 1).into(),
        AgiCheck::Length { found: length + 1, expected: length },
    );
}

#[test]
fn roots_and_levels_must_be_in_range() {
    let geometry = golden::geometry(AGED);
    let length = geometry.ag_blocks;
    let root = |tree, block| AgiCheck::Root { tree, block };
    check_refused(|agi| agi.root = 0.into(), root("inode chunks", 0));
    check_refused(|agi| agi.free_root = length.into(), root("free inode chunks", length));
    let max = crate::btree::BtreeKind::Inode.max_levels(&geometry);
    let levels = |tree, levels| AgiCheck::Levels { tree, levels, max };
    check_refused(|agi| agi.levels = 0.into(), levels("inode chunks", 0));
    check_refused(|agi| agi.free_levels = 99.into(), levels("free inode chunks", 99));
    let blocks = |tree, blocks| AgiCheck::Blocks { tree, blocks, length };
    check_refused(|agi| agi.inode_btree_blocks = 0.into(), blocks("inode chunks", 0));
    let change = |agi: &mut AgiDisk| agi.free_inode_btree_blocks = (length + 1).into();
    check_refused(change, blocks("free inode chunks", length + 1));
}

#[test]
fn counters_must_fit_the_group() {
    let geometry = golden::geometry(AGED);
    let max = u64::from(geometry.ag_blocks) * 2;
    let agi = Agi::decode(&golden::sector(AGED, 2), AT, &geometry).unwrap();
    let (free, count) = (agi.count + 1, agi.count);
    check_refused(|agi| agi.free_count = free.into(), AgiCheck::Inodes { free, count, max });
    let (free, count) = (agi.free_count, u32::MAX);
    check_refused(|agi| agi.count = count.into(), AgiCheck::Inodes { free, count, max });
}

#[test]
fn unlinked_lists_hold_inodes_of_their_bucket() {
    let unlinked = |bucket, inode| AgiCheck::Unlinked { bucket, inode };
    check_refused(|agi| agi.unlinked[3] = 100.into(), unlinked(3, 100));
    check_refused(|agi| agi.unlinked[3] = 3.into(), unlinked(3, 3));
    check_refused(|agi| agi.unlinked[62] = 0xffff_fffe.into(), unlinked(62, 0xffff_fffe));
    let sector = changed(|agi| agi.unlinked[3] = (64 * 5 + 3).into());
    let geometry = golden::geometry(AGED);
    golden::verify(BlockKind::Agi, &sector, AT, &geometry).unwrap();
    let agi = Agi::decode(&sector, AT, &geometry).unwrap();
    assert_eq!(agi.unlinked_heads().collect::<Vec<_>>(), [(3, AgInode(64 * 5 + 3))]);
}

#[test]
fn flipped_bit_is_refused_or_changes_the_decoded_agi() {
    let geometry = golden::geometry(AGED);
    let sector = golden::sector(AGED, 2);
    let whole = Agi::decode(&sector, AT, &geometry).unwrap();
    golden::for_each_flip(BlockKind::Agi, &sector, 344, |offset, flipped| {
        // The decoded AGI has neither the field for directories nor the checksum and its padding.
        let is_unused = (36..40).contains(&offset) || (312..320).contains(&offset);
        if golden::verify(BlockKind::Agi, flipped, AT, &geometry).is_ok() && !is_unused {
            assert_ne!(Agi::decode(flipped, AT, &geometry).unwrap(), whole, "byte {offset}");
        }
    });
}
