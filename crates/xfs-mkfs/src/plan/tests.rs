//! Tests of geometries. The expected numbers come from mkfs.xfs 7.2.

use super::{GeometryError, Plan, TargetDevice, Warning};
use crate::identity::Identity;
use crate::options::Options;
use xfs_format::timestamp::Timestamp;

const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

pub(crate) fn plan(data_bytes: u64, text: &str) -> Result<Plan, GeometryError> {
    plan_with_realtime(data_bytes, None, text)
}

/// Plans the smallest volume of this size.
fn smallest(data_bytes: u64, text: &str) -> Result<Plan, GeometryError> {
    let mut options = parsed(text);
    options.minimize = true;
    plan_of(&options, data_bytes, None)
}

/// Plans a volume with a realtime device of `realtime_bytes` bytes, if that is given.
pub(crate) fn plan_with_realtime(
    data_bytes: u64,
    realtime_bytes: Option<u64>,
    text: &str,
) -> Result<Plan, GeometryError> {
    let mut options = parsed(text);
    options.realtime.device = realtime_bytes.map(|_| "/realtime".into());
    plan_of(&options, data_bytes, realtime_bytes)
}

fn parsed(text: &str) -> Options {
    let mut options = Options::default();
    let mut words = text.split_whitespace();
    while let (Some(letter), Some(argument)) = (words.next(), words.next()) {
        match letter {
            "-L" => options.parse_label(argument.as_bytes()).unwrap(),
            _ => options.parse(letter.chars().nth(1).unwrap(), argument).unwrap(),
        }
    }
    options
}

fn plan_of(
    options: &Options,
    data_bytes: u64,
    realtime_bytes: Option<u64>,
) -> Result<Plan, GeometryError> {
    let target = TargetDevice { data_bytes, sector_size: 512, log_bytes: None, realtime_bytes };
    Plan::new(options, &target, &Identity::reproducible(Timestamp::default(), b""))
}

/// Checks the plan for a device of `data_bytes` bytes and the options in `text`. `expected` has the
/// number of groups, blocks of a group, data blocks and log blocks.
#[track_caller]
fn check(data_bytes: u64, text: &str, expected: (u32, u32, u64, u32)) {
    let plan = plan(data_bytes, text).unwrap();
    let superblock = plan.superblock();
    let geometry = &superblock.geometry;
    let found =
        (geometry.ag_count, geometry.ag_blocks, geometry.data_blocks, superblock.log_blocks);
    assert_eq!(found, expected, "{text} at {data_bytes}");
}

#[test]
fn default_groups_and_logs_equal_those_of_mkfs_xfs() {
    check(300 << 20, "", (4, 19200, 76800, 16384));
    check(GIB, "", (4, 65536, 262_144, 16384));
    check(129 * GIB, "", (4, 8_454_144, 33_816_576, 16512));
    check(TIB, "", (4, 67_108_864, 268_435_456, 131_072));
    check(4 * TIB, "", (4, 268_435_455, 1_073_741_820, 521_728));
    check(5 * TIB, "", (5, 268_435_455, 1_342_177_275, 521_728));
    check(100 * TIB, "", (100, 268_435_455, 26_843_545_500, 521_728));
    check(8000 * TIB, "", (8001, 268_435_455, 2_147_483_648_000, 521_728));
    check(GIB, "-b size=64k", (4, 4096, 16384, 1127));
}

#[test]
fn striped_groups_start_on_different_disks() {
    check(GIB, "-d su=64k,sw=4", (8, 32752, 262_016, 16384));
    check(GIB, "-d su=1m,sw=4", (8, 32512, 260_096, 16384));
    check(GIB, "-d su=64k,sw=1", (8, 32768, 262_144, 16384));
    check(GIB, "-d su=48k,sw=3", (8, 32772, 262_144, 16392));
    let told = plan(GIB, "-d su=64k,sw=4,agcount=4").unwrap();
    assert_eq!(told.warnings(), [Warning::GroupsOnOneDisk { better_blocks: 65520 }]);
}

#[test]
fn last_group_that_is_too_short_is_dropped() {
    check(GIB, "-d agsize=255m", (4, 65280, 261_120, 16384));
}

#[test]
fn hostile_sizes_are_refused() {
    for (bytes, text) in [
        (0, ""),
        (511, ""),
        (1 << 20, ""),
        (299 << 20, ""),
        (GIB, "-d size=0"),
        (GIB, "-d size=9223372036854775808"),
        (GIB, "-d size=8e"),
        (GIB, "-d agsize=15e"),
        (GIB, "-d agcount=0"),
        (GIB, "-d agcount=18446744073709551615"),
        (GIB, "-d agsize=0"),
        (GIB, "-d su=15e,sw=15e"),
        (GIB, "-d sunit=18446744073709551615,swidth=18446744073709551615"),
        (GIB, "-l size=0"),
        (GIB, "-l size=15e"),
        (GIB, "-l su=15e"),
        (GIB, "-l agnum=4"),
        (GIB, "-b size=0"),
        (GIB, "-s size=0"),
        (GIB, "-n size=0"),
        (GIB, "-i size=0"),
        (GIB, "-i perblock=0"),
        (GIB, "-i maxpct=18446744073709551615"),
    ] {
        assert!(plan(bytes, text).is_err(), "{text} at {bytes}");
    }
    // The largest possible device.
    plan(u64::MAX, "").unwrap();
}

#[test]
fn feature_without_the_one_it_needs_is_refused() {
    let error = plan(GIB, "-m inobtcount=1,finobt=0").unwrap_err();
    assert_eq!(error, GeometryError::Needs("-m inobtcount=1", "-m finobt=1"));
}

/// Checks the default number of realtime groups, and of extents of a group, for a realtime device
/// of `mib` MiB.
#[track_caller]
fn check_groups(mib: u64, expected: (u32, u32)) {
    let plan = plan_with_realtime(GIB, Some(mib << 20), "-m metadir=1").unwrap();
    let superblock = plan.superblock();
    let found = (superblock.realtime_group_count, superblock.realtime_group_extents);
    assert_eq!(found, expected, "{mib} MiB");
}

#[test]
fn default_realtime_groups_equal_those_of_mkfs_xfs() {
    check_groups(4, (1, 2048));
    check_groups(12, (2, 2048));
    check_groups(100, (2, 16384));
    check_groups(128, (1, 65536));
    check_groups(150, (5, 8192));
    check_groups(300, (5, 16384));
    check_groups(1 << 10, (1, 524_288));
    check_groups(1536, (2, 262_144));
    check_groups(5 << 10, (2, 1_048_576));
    check_groups(9 << 10, (5, 524_288));
    check_groups(36 << 10, (5, 2_097_152));
    check_groups(40 << 10, (2, 8_388_608));
    check_groups(3 << 20, (2, 536_870_912));
}

#[test]
fn hostile_realtime_sizes_are_refused() {
    for (bytes, text) in [
        (0, ""),
        (4095, ""),
        (GIB, "-r size=15e"),
        (GIB, "-r extsize=1g,size=512m"),
        (GIB, "-m metadir=1 -r rgcount=18446744073709551615"),
        (GIB, "-m metadir=1 -r rgsize=15e"),
        (GIB, "-m metadir=1 -r rgcount=16"),
        (GIB, "-m metadir=1 -r extsize=28k"),
        (1 << 44, "-m metadir=1"),
        (u64::MAX, ""),
        (u64::MAX, "-m metadir=1 -r rgcount=15"),
        (u64::MAX, "-r zoned=1"),
        (GIB, "-r zoned=1,rgsize=15e"),
        (GIB, "-r zoned=1,rgsize=16m,reserved=15e"),
        (GIB, "-r zoned=1,rgcount=18446744073709551615"),
        (GIB, "-r zoned=1,size=15e"),
        (2 * GIB, "-r zoned=1 -m rmapbt=0"),
    ] {
        assert!(plan_with_realtime(GIB, Some(bytes), text).is_err(), "{text} at {bytes}");
    }
}

/// Checks that the numbers of zones and of reserved blocks are those of mkfs.xfs, also for sections
/// that are not a multiple of the zone size.
#[test]
fn zones_equal_those_of_mkfs_xfs() {
    for (mib, text, zones, reserved) in [
        (2000, "-r zoned=1", 7, 12_288),
        (2048, "-r zoned=1,rgsize=100m", 20, 22_528),
        (2048, "-r zoned=1,rgsize=100m,reserved=10m", 20, 25_088),
        (2048, "-r zoned=1,rgsize=1028k", 2040, 250),
        (2048, "-r zoned=1,rgcount=6", 5, 79_194),
        (2048, "-r zoned=1,rgsize=100m,size=1400m", 18, 0),
        (2048, "-r zoned=1,rgsize=64m,size=1900m", 32, 5120),
    ] {
        // More than 63 zones need another chunk of inodes, so the plan is refused.
        let plan = plan_with_realtime(GIB, Some(mib << 20), text);
        if zones > 63 {
            let Err(GeometryError::RealtimeGroups { count, .. }) = plan else { panic!("{text}") };
            assert_eq!(count, zones, "{text}");
            continue;
        }
        let superblock = plan.unwrap().superblock().clone();
        let found = (superblock.realtime_group_count.into(), superblock.realtime_reserved);
        assert_eq!(found, (zones, reserved), "{text}");
    }
}

/// Requests four billion realtime groups, whose names alone would take more than 100 GiB of memory.
/// Checks that the request is refused.
#[test]
fn groups_beyond_one_chunk_of_inodes_are_refused_before_they_are_named() {
    let count = u64::from(u32::MAX);
    let text = "-m metadir=1 -r rgsize=16k";
    let error = plan_with_realtime(GIB, Some(count << 14), text).unwrap_err();
    assert_eq!(error, GeometryError::RealtimeGroups { count, max: 15 });
}

/// Checks the smallest volume of `data_bytes` bytes with the options in `text`, as [`check`] does.
#[track_caller]
fn check_smallest(data_bytes: u64, text: &str, expected: (u32, u32, u64, u32)) {
    let plan = smallest(data_bytes, text).unwrap();
    let superblock = plan.superblock();
    let geometry = &superblock.geometry;
    let found =
        (geometry.ag_count, geometry.ag_blocks, geometry.data_blocks, superblock.log_blocks);
    assert_eq!(found, expected, "{text} at {data_bytes}");
    assert!(plan.warnings().is_empty());
}

#[test]
fn smallest_volume_has_one_long_group_and_the_smallest_log() {
    const MIB: u64 = 1 << 20;
    check_smallest(32 * MIB, "", (2, 4096, 8192, 2001));
    check_smallest(100 * MIB, "", (2, 84 * 256, 25600, 2001));
    check_smallest(GIB, "", (2, (1024 - 16) * 256, 262_144, 2001));
    check_smallest(2 * TIB, "", (2, 268_435_455, 536_870_910, 2004));
    check_smallest(GIB, "-l size=64m", (2, (1024 - 16) * 256, 262_144, 16384));
    check_smallest(GIB, "-d agcount=4", (4, 65536, 262_144, 2001));
    // A group of whole stripes is a unit shorter, so that its headers are not all on one disk. The
    // log is made of whole units.
    check_smallest(GIB, "-d su=64k,sw=3", (2, (1024 - 16) * 256 - 16, 262_144, 2208));
    let plan = smallest(GIB, "").unwrap();
    assert_eq!(plan.superblock().inode_max_percent, 0);
    let (group, _, _) = plan.layout.log.unwrap();
    assert_eq!(group.0, 0, "the last group is too short");
    assert_eq!(smallest(GIB, "-i maxpct=5").unwrap().superblock().inode_max_percent, 5);
}

#[test]
fn smallest_volume_has_two_groups_of_16_mib() {
    let short = smallest((32 << 20) - 4096, "");
    assert!(matches!(short, Err(GeometryError::OneGroup)), "{short:?}");
    let one = smallest(GIB, "-d agcount=1");
    assert!(matches!(one, Err(GeometryError::OneGroup)), "{one:?}");
    let short = smallest(GIB, "-l size=1m");
    assert!(matches!(short, Err(GeometryError::ShortLog { .. })), "{short:?}");
}
