//! Tests that recognise blocks of dquots by their contents.

use xfs_device::BlockDevice;
use xfs_format::dquot::{DQUOT_BLOCK_BYTES, fill_block, seal_block};
use xfs_format::{DiskAddr, StructureAddress, Superblock};
use xfs_testkit::golden_quota;

use super::*;

fn superblock() -> Superblock {
    let mut sector = vec![0; 512];
    golden_quota().read_at(&mut sector, 0).unwrap();
    Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).unwrap()
}

/// Recognises a new block of dquots of groups, whose first ID is `first`, after `change`.
fn check_recognised(first: u32, change: impl FnOnce(&mut [u8])) -> Option<(QuotaKind, u64)> {
    let superblock = superblock();
    let geometry = &superblock.geometry;
    let mut block = vec![0; geometry.block_size as usize];
    fill_block(&mut block, QuotaKind::Group, first, geometry);
    change(&mut block);
    let context = VerifyContext { geometry, log_head: None };
    RecognisedDquots::of(&block, &context).map(|block| (block.kind, block.file_block.0))
}

/// Blocks of 1 KiB have seven dquots.
#[test]
fn block_of_dquots_states_its_type_and_place() {
    assert_eq!(check_recognised(21, |_| {}), Some((QuotaKind::Group, 3)));
    assert_eq!(check_recognised(0, |_| {}), Some((QuotaKind::Group, 0)));
}

#[test]
fn last_block_is_recognised_although_its_ids_wrap_around() {
    let last = u32::MAX / 7;
    assert_eq!(check_recognised(last * 7, |_| {}), Some((QuotaKind::Group, last.into())));
}

#[test]
fn one_sound_dquot_is_enough() {
    let keep = 3 * DQUOT_BLOCK_BYTES..4 * DQUOT_BLOCK_BYTES;
    let found = check_recognised(14, |block| {
        let kept = block[keep.clone()].to_vec();
        block.fill(0xa5);
        block[keep].copy_from_slice(&kept);
    });
    assert_eq!(found, Some((QuotaKind::Group, 2)));
}

#[test]
fn block_of_another_volume_or_of_two_places_is_not_recognised() {
    let foreign = check_recognised(7, |block| {
        for dquot in block.chunks_exact_mut(DQUOT_BLOCK_BYTES) {
            dquot[125] ^= 1;
        }
        seal_block(block);
    });
    assert_eq!(foreign, None);
    let two_places = check_recognised(7, |block| {
        block[DQUOT_BLOCK_BYTES + 7] += 7;
        seal_block(block);
    });
    assert_eq!(two_places, None);
    assert_eq!(check_recognised(7, |block| block.fill(0)), None);
    // IDs that do not begin at a multiple of seven.
    assert_eq!(check_recognised(8, |_| {}), None);
}
