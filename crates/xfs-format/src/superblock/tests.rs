//! Tests of superblocks that mkfs.xfs wrote (`testdata/groups`), and of copies of them with a
//! changed field.

use std::vec::Vec;

use zerocopy::{FromBytes, IntoBytes};

use super::{Superblock, SuperblockCheck, SuperblockDisk, SuperblockError, seal};
use super::{Unsupported, VolumeAccess};
use crate::addr::{AgNumber, DiskAddr, Lsn};
use crate::corruption::{Check, StructureAddress};
use crate::features::{IncompatFeatures, RoCompatFeatures};
use crate::golden::{self, golden};
use crate::kind::{BlockKind, VerifyContext};

const PLAIN: &[u8] = golden!("plain.headers");

fn decode(sector: &[u8]) -> Result<Superblock, SuperblockError> {
    Superblock::decode(sector, StructureAddress::Disk(DiskAddr(0)))
}

/// Returns the superblock of the "plain" golden volume after `change`, with its checksum
/// recomputed.
fn changed(change: impl FnOnce(&mut SuperblockDisk)) -> Vec<u8> {
    let mut sector = golden::sector(PLAIN, 0);
    let (disk, _) = SuperblockDisk::mut_from_prefix(&mut sector).unwrap();
    change(disk);
    seal(&mut sector);
    sector
}

#[track_caller]
fn check_refused(change: impl FnOnce(&mut SuperblockDisk), expected: SuperblockCheck) {
    let Err(SuperblockError::Corrupt(corruption)) = decode(&changed(change)) else {
        panic!("decoded, but should fail with: {expected}");
    };
    assert_eq!(*corruption.check(), Check::Superblock(expected));
}

#[track_caller]
fn check_accepted(change: impl FnOnce(&mut SuperblockDisk)) {
    decode(&changed(change)).unwrap();
}

#[test]
fn golden_superblocks_decode() {
    for (name, headers) in golden::HEADERS {
        let superblock = decode(headers).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(superblock.refusal(VolumeAccess::Recover), None, "{name}");
        assert!(!superblock.in_progress, "{name}");
    }
    for (name, sector) in [
        ("large-sectors", golden!("large-sectors.superblock")),
        ("stripe", golden!("stripe.superblock")),
        ("external-log", golden!("external-log.superblock")),
        ("tiny", golden!("tiny.superblock")),
        ("plain copy", golden!("plain.copy")),
    ] {
        decode(sector).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn plain_superblock_has_the_values_of_mkfs() {
    let superblock = decode(PLAIN).unwrap();
    let geometry = &superblock.geometry;
    assert_eq!((geometry.block_size, geometry.sector_size, geometry.inode_size), (4096, 512, 512));
    assert_eq!((geometry.ag_count, geometry.ag_blocks, geometry.data_blocks), (4, 19200, 76800));
    assert_eq!(superblock.uuid, uuid::uuid!("20000000-0000-4000-8000-000000000001"));
    assert_eq!((superblock.root_inode.0, superblock.inode_count), (128, 64));
    assert!(superblock.has_incompat(IncompatFeatures::SPARSE_INODES));
    assert!(superblock.has_ro_compat(RoCompatFeatures::FINOBT));
    assert!(!superblock.has_external_log() && !superblock.has_realtime());
}

#[test]
fn changed_uuid_keeps_the_metadata_uuid() {
    let superblock = decode(golden!("changed-uuid.headers")).unwrap();
    assert_eq!(superblock.uuid, uuid::uuid!("20000000-0000-4000-8000-00000000000a"));
    let meta_uuid = superblock.geometry.meta_uuid;
    assert_eq!(meta_uuid, uuid::uuid!("20000000-0000-4000-8000-000000000009"));
}

#[test]
fn external_log_and_stripe_are_decoded() {
    assert!(decode(golden!("external-log.superblock")).unwrap().has_external_log());
    let stripe = decode(golden!("stripe.superblock")).unwrap();
    assert_eq!((stripe.stripe_unit_blocks, stripe.stripe_width_blocks), (32, 96));
    assert_eq!(stripe.log_stripe_unit_bytes, 64 << 10);
}

#[test]
fn realtime_and_metadata_directories_are_described_and_read() {
    let realtime = decode(golden!("realtime.superblock")).unwrap();
    assert!(realtime.has_realtime() && !realtime.has_incompat(IncompatFeatures::METADIR));
    assert_eq!((realtime.realtime_blocks, realtime.realtime_extents), (262_144, 262_144));
    let metadir = decode(golden!("metadir.superblock")).unwrap();
    assert!(!metadir.has_realtime());
    assert!(metadir.metadata_directory_inode.is_some_and(|inode| !inode.is_null()));
    let zoned = decode(golden!("zoned.superblock")).unwrap();
    assert!(zoned.has_realtime() && zoned.has_incompat(IncompatFeatures::ZONED));
    assert!(zoned.realtime_start != 0 && zoned.realtime_group_count != 0);
    let mut with_gaps = zoned.clone();
    with_gaps.incompat |= IncompatFeatures::ZONE_GAPS;
    for (superblock, refusal) in [
        (realtime, None),
        (metadir, None),
        (zoned, None),
        (with_gaps, Some(Unsupported::RealtimeWrite)),
    ] {
        assert_eq!(superblock.refusal(VolumeAccess::Read), None);
        assert_eq!(superblock.refusal(VolumeAccess::Write), refusal);
    }
}

#[test]
fn invalid_superblocks_are_refused() {
    let check = |sector: &[u8]| match decode(sector) {
        Err(SuperblockError::Corrupt(corruption)) => corruption.check().clone(),
        other => panic!("{other:?}"),
    };
    assert!(matches!(check(&PLAIN[..303]), Check::Truncated { available: 303, needed: 304 }));
    assert!(matches!(check(&PLAIN[..511]), Check::Truncated { available: 511, needed: 512 }));
    assert!(matches!(check(&[0; 512]), Check::Magic { found: 0, .. }));
    let mut sector = golden::sector(PLAIN, 0);
    sector[400] ^= 1;
    assert!(matches!(check(&sector), Check::Checksum { .. }));
}

#[test]
fn older_versions_are_refused_before_their_checksum() {
    let mut sector = golden::sector(PLAIN, 0);
    sector[101] = sector[101] & 0xf0 | 3;
    let expected = SuperblockError::Unsupported(Unsupported::Version { version: 3 });
    assert_eq!(decode(&sector), Err(expected));
}

#[test]
fn version_5_superblock_with_version_number_4_is_corrupt() {
    let mut sector = golden::sector(PLAIN, 0);
    sector[101] = sector[101] & 0xf0 | 4;
    let Err(SuperblockError::Corrupt(corruption)) = decode(&sector) else { panic!("accepted") };
    let features2 = 0x18a;
    assert_eq!(*corruption.check(), SuperblockCheck::Features2 { features2 }.into());
}

#[test]
fn version_words_must_be_those_of_v5() {
    use SuperblockCheck::{Features2, SharedVersion, Version};
    check_refused(|sb| sb.version = 0xb4a6.into(), Version { version: 0xb4a6 });
    check_refused(|sb| sb.version = 0xb485.into(), Version { version: 0xb485 });
    check_refused(|sb| sb.version = 0x34a5.into(), Version { version: 0x34a5 });
    check_refused(|sb| sb.features2 = 0x08a.into(), Features2 { features2: 0x08a });
    check_refused(|sb| sb.features2 = 0x188.into(), Features2 { features2: 0x188 });
    check_refused(|sb| sb.shared_version = 1, SharedVersion { version: 1 });
}

#[test]
fn sizes_must_be_powers_of_two_in_range() {
    use SuperblockCheck::{DirectoryBlock, InodesPerBlock, SizeAgainstLog, SizeRange};
    let field = "block size";
    let (min, max) = (1 << 10, 1 << 16);
    check_refused(|sb| sb.block_size = 512.into(), SizeRange { field, size: 512, min, max });
    check_refused(|sb| sb.block_size = 5000.into(), SizeAgainstLog { field, size: 5000, log: 12 });
    check_refused(|sb| sb.block_log = 13, SizeAgainstLog { field, size: 4096, log: 13 });
    check_refused(|sb| sb.block_log = 200, SizeAgainstLog { field, size: 4096, log: 200 });
    let field = "inode size";
    let (min, max) = (512, 2048);
    check_refused(|sb| sb.inode_size = 256.into(), SizeRange { field, size: 256, min, max });
    check_refused(|sb| sb.inode_log = 10, SizeAgainstLog { field, size: 512, log: 10 });
    let (inode_size, block_size) = (512, 4096);
    let inodes_per_block = |inodes| InodesPerBlock { inodes, block_size, inode_size };
    check_refused(|sb| sb.inodes_per_block = 4.into(), inodes_per_block(4));
    check_refused(|sb| sb.inodes_per_block = 0.into(), inodes_per_block(0));
    check_refused(|sb| sb.inodes_per_block_log = 4, inodes_per_block(8));
    check_refused(|sb| sb.directory_block_log = 5, DirectoryBlock { log: 5 });
    check_refused(|sb| sb.directory_block_log = 255, DirectoryBlock { log: 255 });
    check_accepted(|sb| sb.directory_block_log = 4);
}

#[test]
fn sectors_must_fit_blocks() {
    use SuperblockCheck::{SizeAgainstLog, SizeRange};
    // The checksum covers `sb_sectsize` bytes, so the sector must have that length.
    let check = |size: u16, log: u8| {
        let mut sector = [PLAIN, &[0; 32 << 10]].concat();
        let (disk, _) = SuperblockDisk::mut_from_prefix(&mut sector).unwrap();
        disk.sector_size = size.into();
        disk.sector_log = log;
        seal(&mut sector[..usize::from(size)]);
        match decode(&sector) {
            Err(SuperblockError::Corrupt(corruption)) => corruption.check().clone(),
            other => panic!("{other:?}"),
        }
    };
    let field = "sector size";
    let too_large = SizeRange { field, size: 8192, min: 512, max: 4096 };
    assert_eq!(check(8192, 13), Check::Superblock(too_large));
    let odd = SizeAgainstLog { field, size: 520, log: 9 };
    assert_eq!(check(520, 9), Check::Superblock(odd));
}

#[test]
fn groups_must_cover_the_volume() {
    use SuperblockCheck::{AgBlocks, AgBlocksLog, AgCount, Counter};
    let (ag_blocks, data_blocks) = (19200, 76800);
    check_refused(|sb| sb.ag_blocks = 4095.into(), AgBlocks { ag_blocks: 4095 });
    check_refused(|sb| sb.ag_blocks = u32::MAX.into(), AgBlocks { ag_blocks: u32::MAX });
    check_refused(|sb| sb.ag_blocks_log = 16, AgBlocksLog { ag_blocks, log: 16 });
    check_refused(|sb| sb.ag_blocks_log = 14, AgBlocksLog { ag_blocks, log: 14 });
    let count = |ag_count, data_blocks| AgCount { ag_count, ag_blocks, data_blocks };
    check_refused(|sb| sb.ag_count = 0.into(), count(0, data_blocks));
    check_refused(|sb| sb.ag_count = 3.into(), count(3, data_blocks));
    check_refused(|sb| sb.ag_count = 5.into(), count(5, data_blocks));
    check_refused(|sb| sb.ag_count = u32::MAX.into(), count(u32::MAX, data_blocks));
    check_refused(|sb| sb.data_blocks = 76801.into(), count(4, 76801));
    check_refused(|sb| sb.data_blocks = (57600 + 63).into(), count(4, 57600 + 63));
    check_refused(|sb| sb.data_blocks = u64::MAX.into(), count(4, u64::MAX));
    let counter = Counter { what: "blocks", free: 76801, count: data_blocks };
    check_refused(|sb| sb.free_blocks = 76801.into(), counter);
}

#[test]
fn last_group_may_be_short() {
    check_accepted(|sb| {
        sb.data_blocks = (57600 + 64).into();
        sb.free_blocks = 0.into();
    });
}

#[test]
fn inode_fields_must_fit_the_volume() {
    use SuperblockCheck::{Counter, InodeMaxPercent, RootInode, SparseAlignment};
    check_refused(|sb| sb.inode_max_percent = 101, InodeMaxPercent { percent: 101 });
    check_refused(|sb| sb.inode_alignment_blocks = 4.into(), SparseAlignment { blocks: 4 });
    check_refused(|sb| sb.root_inode = 0.into(), RootInode { root: 0 });
    check_refused(|sb| sb.root_inode = (4 << 18).into(), RootInode { root: 4 << 18 });
    check_refused(|sb| sb.free_inodes = 65.into(), Counter { what: "inodes", free: 65, count: 64 });
    check_accepted(|sb| sb.root_inode = u64::MAX.into());
}

#[test]
fn counters_of_secondary_superblocks_are_not_checked() {
    check_accepted(|sb| {
        sb.in_progress = 1;
        sb.free_inodes = 65.into();
        sb.free_blocks = u64::MAX.into();
    });
}

#[test]
fn log_must_fit_its_group() {
    use SuperblockCheck::{LogBlocks, LogOutside, LogSector, LogStripeUnit};
    check_refused(|sb| sb.log_blocks = 511.into(), LogBlocks { blocks: 511 });
    check_refused(|sb| sb.log_blocks = (1 << 20 | 1).into(), LogBlocks { blocks: 1 << 20 | 1 });
    let blocks = decode(PLAIN).unwrap().log_blocks;
    let outside = |start| LogOutside { start, blocks };
    check_refused(|sb| sb.log_start = 19000.into(), outside(19000));
    check_refused(|sb| sb.log_start = (4 << 15).into(), outside(4 << 15));
    check_refused(|sb| sb.log_start = u64::MAX.into(), outside(u64::MAX));
    let in_short_group = |sb: &mut SuperblockDisk, group_blocks: u32| {
        sb.data_blocks = (57600 + u64::from(group_blocks)).into();
        sb.free_blocks = 0.into();
        sb.log_start = (3 << 15).into();
    };
    check_refused(|sb| in_short_group(sb, blocks - 1), outside(3 << 15));
    check_accepted(|sb| in_short_group(sb, blocks));
    let past_the_end = (3 << 15) + u64::from(blocks);
    check_refused(
        |sb| {
            in_short_group(sb, blocks);
            sb.log_start = past_the_end.into();
        },
        outside(past_the_end),
    );
    check_refused(|sb| sb.log_sector_size = 512.into(), LogSector { size: 512, log: 0 });
    check_refused(|sb| sb.log_sector_log = 9, LogSector { size: 0, log: 9 });
    check_refused(|sb| sb.log_stripe_unit_bytes = 2048.into(), LogStripeUnit { bytes: 2048 });
    check_refused(
        |sb| sb.log_stripe_unit_bytes = (1 << 19).into(),
        LogStripeUnit { bytes: 1 << 19 },
    );
    check_accepted(|sb| sb.log_start = 0.into());
}

#[test]
fn stripe_width_must_be_a_multiple_of_its_unit() {
    use SuperblockCheck::Stripe;
    let flagged = |sb: &mut SuperblockDisk, unit: u32, width: u32| {
        sb.version = (sb.version.get() | 0x100).into();
        sb.stripe_unit_blocks = unit.into();
        sb.stripe_width_blocks = width.into();
    };
    check_refused(|sb| sb.stripe_unit_blocks = 8.into(), Stripe { unit: 8, width: 0 });
    check_refused(|sb| flagged(sb, 8, 12), Stripe { unit: 8, width: 12 });
    check_refused(|sb| flagged(sb, 8, 0), Stripe { unit: 8, width: 0 });
    check_refused(|sb| flagged(sb, 0, 8), Stripe { unit: 0, width: 8 });
    check_accepted(|sb| flagged(sb, 8, 24));
}

#[test]
fn realtime_fields_must_agree() {
    use SuperblockCheck::Realtime;
    let check = |blocks: u64, extents: u64, extent_blocks: u32| {
        let change = |sb: &mut SuperblockDisk| {
            sb.realtime_blocks = blocks.into();
            sb.realtime_extents = extents.into();
            sb.realtime_extent_blocks = extent_blocks.into();
        };
        check_refused(change, Realtime { blocks, extents, extent_blocks });
    };
    check(0, 1, 1);
    check(1000, 1000, 0);
    check(1000, 999, 1);
    check(1 << 40, 1 << 21, 1 << 19);
    check_accepted(|sb| {
        sb.realtime_blocks = 1003.into();
        sb.realtime_extents = 100.into();
        sb.realtime_extent_blocks = 10.into();
        sb.realtime_extents_log = 6;
        sb.realtime_bitmap_blocks = 1.into();
    });
}

/// Returns the check that refuses the golden superblock of a zoned volume after a change.
fn refused_zoned(change: impl FnOnce(&mut SuperblockDisk)) -> SuperblockCheck {
    let mut sector = golden::sector(golden!("zoned.superblock"), 0);
    change(SuperblockDisk::mut_from_prefix(&mut sector).unwrap().0);
    super::seal(&mut sector);
    match decode(&sector) {
        Err(SuperblockError::Corrupt(corruption)) => match corruption.check() {
            Check::Superblock(check) => *check,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn realtime_groups_must_cover_the_section() {
    use SuperblockCheck::{MetadataDirectory, RealtimeGroups, RealtimeSizes, RealtimeStart, Zoned};
    for count in [0, 13, 15] {
        let found = refused_zoned(|sb| sb.realtime_group_count = count.into());
        assert!(matches!(found, RealtimeGroups { groups, .. } if groups == count), "{found:?}");
    }
    for extents in [0, 1, 1 << 31, u32::MAX] {
        let found = refused_zoned(|sb| sb.realtime_group_extents = extents.into());
        assert!(matches!(found, RealtimeGroups { .. }), "{found:?}");
    }
    for log in [0, 15, 17, 255] {
        let found = refused_zoned(|sb| sb.realtime_group_blocks_log = log);
        assert!(matches!(found, RealtimeGroups { .. }), "{found:?}");
    }
    for start in [1, 0x1_ffff, u64::MAX] {
        let found = refused_zoned(|sb| sb.realtime_start = start.into());
        assert!(matches!(found, RealtimeStart { .. }), "{found:?}");
    }
    let found = refused_zoned(|sb| sb.realtime_reserved = u64::MAX.into());
    assert!(matches!(found, RealtimeStart { .. }), "{found:?}");
    let found = refused_zoned(|sb| sb.realtime_bitmap_blocks = 1.into());
    assert!(matches!(found, RealtimeSizes { .. }), "{found:?}");
    let found = refused_zoned(|sb| sb.realtime_extents_log = 18);
    assert!(matches!(found, RealtimeSizes { .. }), "{found:?}");
    assert_eq!(refused_zoned(|sb| sb.realtime_extent_blocks = 2.into()), Zoned);
    for inode in [0, 1 << 40] {
        let found = refused_zoned(|sb| sb.metadata_directory_inode = inode.into());
        assert_eq!(found, MetadataDirectory { inode });
    }
}

#[test]
fn features_are_refused_by_name() {
    use VolumeAccess::{Describe, Read, Recover, Replay, Write};
    let refusal = |change: &dyn Fn(&mut SuperblockDisk), access| {
        decode(&changed(change)).unwrap().refusal(access)
    };
    let incompat =
        |bits: u32| move |sb: &mut SuperblockDisk| sb.incompat = (sb.incompat.get() | bits).into();
    let ro_compat = |bits: u32| {
        move |sb: &mut SuperblockDisk| sb.ro_compat = (sb.ro_compat.get() | bits).into()
    };
    let log_incompat = |sb: &mut SuperblockDisk| sb.log_incompat = 2.into();
    let ascii_ci = |sb: &mut SuperblockDisk| sb.version = (sb.version.get() | 0x4000).into();
    let metadir = |sb: &mut SuperblockDisk| {
        incompat(IncompatFeatures::METADIR.bits())(sb);
        sb.metadata_directory_inode = 129.into();
    };
    let quota = |sb: &mut SuperblockDisk| sb.quota_flags = 1.into();
    let unknown = Some(Unsupported::UnknownIncompat(1 << 31));
    assert_eq!(refusal(&incompat(1 << 31), Describe), None);
    assert_eq!(refusal(&incompat(1 << 31), Read), unknown);
    assert_eq!(refusal(&incompat(1 << 4), Read), Some(Unsupported::NeedsRepair));
    assert_eq!(refusal(&ascii_ci, Read), None);
    assert_eq!(refusal(&ascii_ci, Write), Some(Unsupported::AsciiCiWrite));
    let no_types = |sb: &mut SuperblockDisk| sb.incompat = (sb.incompat.get() & !1).into();
    assert_eq!(refusal(&no_types, Read), Some(Unsupported::NoEntryTypes));
    assert_eq!(refusal(&ro_compat(1 << 31), Read), None);
    assert_eq!(refusal(&ro_compat(1 << 31), Write), Some(Unsupported::UnknownRoCompat(1 << 31)));
    assert_eq!(refusal(&log_incompat, Write), None);
    assert_eq!(refusal(&log_incompat, Recover), Some(Unsupported::UnknownLogIncompat(2)));
    assert_eq!(refusal(&quota, Write), None);
    assert_eq!(refusal(&quota, Recover), None);
    assert_eq!(refusal(&metadir, Write), None);
    assert_eq!(refusal(&metadir, Recover), None);
    assert_eq!(refusal(&metadir, Replay), None);
    assert_eq!(refusal(&log_incompat, Replay), Some(Unsupported::UnknownLogIncompat(2)));
}

#[test]
fn secondary_superblocks_verify_at_their_address() {
    let geometry = golden::geometry(PLAIN);
    let copy = golden!("plain.copy");
    let second = geometry.header_disk_addr(AgNumber(1), 0);
    golden::verify(BlockKind::Superblock, copy, second, &geometry).unwrap();
    let misplaced = golden::verify(BlockKind::Superblock, copy, DiskAddr(8), &geometry);
    let expected = Check::MisplacedBlock { found: DiskAddr(8) };
    assert_eq!(*misplaced.unwrap_err().check(), expected);
    let other = golden::geometry(golden!("aged.headers"));
    let foreign = golden::verify(BlockKind::Superblock, copy, DiskAddr(0), &other);
    assert!(matches!(foreign.unwrap_err().check(), Check::ForeignUuid { .. }));
}

#[test]
fn seal_stores_lsn_and_checksum() {
    let geometry = golden::geometry(PLAIN);
    let mut sector = golden::sector(PLAIN, 0);
    BlockKind::Superblock.seal(&mut sector, Lsn::new(7, 9));
    assert_eq!(decode(&sector).unwrap().lsn, Lsn::new(7, 9));
    let context = VerifyContext { geometry: &geometry, log_head: Some(Lsn::new(7, 8)) };
    let ahead = BlockKind::Superblock.verify(&sector, DiskAddr(0), &context).unwrap_err();
    let (found, log_head) = (Lsn::new(7, 9), Lsn::new(7, 8));
    assert_eq!(*ahead.check(), Check::LsnAheadOfLog { found, log_head });
}

#[test]
fn no_flipped_bit_panics_or_breaks_the_geometry() {
    golden::for_each_flip(BlockKind::Superblock, &golden::sector(PLAIN, 0), 304, |_, sector| {
        let Ok(superblock) = decode(sector) else { return };
        let geometry = &superblock.geometry;
        let last = AgNumber(geometry.ag_count - 1);
        assert!((64..=geometry.ag_blocks).contains(&geometry.ag_length(last)));
        assert!(geometry.chunk_blocks() > 0 && geometry.cluster_inodes() > 0);
        assert!(
            geometry.split_inode(superblock.root_inode).is_some()
                || superblock.root_inode.is_null()
        );
    });
}

#[test]
fn disk_form_round_trips() {
    let (disk, _) = SuperblockDisk::ref_from_prefix(PLAIN).unwrap();
    assert_eq!(disk.as_bytes(), &PLAIN[..304]);
}
