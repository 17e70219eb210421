//! Tests of growing a realtime section, classic or with groups: sizes, contents, xfs_repair, and
//! power cuts. The tests of zones (`zoned.rs`) grow zoned sections.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferroxfs::admin::{GrowError, RealtimeGrowthError};
use ferroxfs::check::{CheckOptions, Code};
use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::device::{Durability, MemoryDevice, SharedDevice};
use ferroxfs::{OpenError, OpenOptions};
use xfs_testkit::{Atomicity, JoinedDevice, PowerCuts, RecordingDevice};
use xfs_trans::testing::superblock;

use super::realtime_writing::{DATA_BYTES, Disks, contents, create};

/// Length of the realtime section before it grows, in bytes.
const SMALL_BYTES: u64 = 100 << 20;
/// Length of the realtime device in bytes, to which the section can grow.
const LARGE_BYTES: u64 = 200 << 20;

/// Makes a volume whose realtime section is shorter than its device.
fn make(extent_kib: u64) -> Disks {
    let small = Disks::make_sized(extent_kib, SMALL_BYTES);
    let large: SharedDevice = Arc::new(MemoryDevice::new(LARGE_BYTES));
    let mut bytes = vec![0; SMALL_BYTES as usize];
    small.realtime.read_at(&mut bytes, 0).unwrap();
    large.write_at(&bytes, 0, Durability::Cached).unwrap();
    Disks { data: small.data, realtime: large }
}

fn grow(disks: &Disks, blocks: Option<u64>) -> Result<u64, RealtimeGrowthError> {
    let devices = OpenOptions::new().write(true).with_devices(disks.data.clone(), None);
    devices.with_realtime(disks.realtime.clone()).grow_realtime(blocks)
}

fn check_growth(extent_kib: u64, blocks: Option<u64>) {
    let disks = make(extent_kib);
    let volume = disks.open();
    let bytes = [7; 50_000];
    create(&volume, "before").write_at(&bytes, 0).unwrap();
    volume.close().unwrap();
    let grown = grow(&disks, blocks).unwrap();
    assert_eq!(grown, blocks.unwrap_or(LARGE_BYTES / 4096));
    disks.check();
    let volume = disks.open();
    assert_eq!(contents(&volume.open_file("/before").unwrap()), bytes);
    let file = create(&volume, "after");
    let large = 0..3 * SMALL_BYTES / 2;
    file.change_range(large, RangeMode::Allocate(AllocateMode::Extend)).unwrap();
    drop(file);
    volume.close().unwrap();
    disks.check();
}

#[test]
fn classic_section_grows_to_the_end_of_its_device() {
    check_growth(4, None);
}

#[test]
fn classic_section_grows_inside_a_block_of_its_bitmap() {
    check_growth(28, Some(40_000));
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let disks = make(4);
    let shorter = grow(&disks, Some(100));
    assert!(matches!(shorter, Err(RealtimeGrowthError::Grow(GrowError::Shrinks { .. }))));
    let longer = grow(&disks, Some(LARGE_BYTES / 4096 + 1));
    assert!(matches!(longer, Err(RealtimeGrowthError::Grow(GrowError::DeviceTooShort { .. }))));
    let devices = OpenOptions::new().write(true).with_devices(disks.data.clone(), None);
    let missing = devices.grow_realtime(None);
    let is_missing =
        matches!(missing, Err(RealtimeGrowthError::Open(OpenError::RealtimeDeviceMissing)));
    assert!(is_missing, "{missing:?}");
    disks.check();
}

/// Cuts the power while the section grows over several blocks of its bitmap. Checks that after the
/// recovery the section has at least its old size and all of its extents are free, and that growing
/// it again completes the growth.
#[test]
fn power_cut_during_growth_leaves_the_size_of_a_step() {
    let Disks { data, realtime } = make(4);
    let atomicity = Atomicity::of(&superblock(&data));
    let joined = Arc::new(JoinedDevice::new(data, realtime));
    let recorder = Arc::new(RecordingDevice::new(joined));
    let [data, realtime] = recorder.split(DATA_BYTES);
    grow(&Disks { data, realtime }, None).unwrap();
    let recording = recorder.recording();
    let cuts = PowerCuts::new(&recording, atomicity);
    for seed in 0..4 {
        let cut = cuts.sample(seed);
        let after = Arc::new(RecordingDevice::of(cuts.after(cut)));
        let [data, realtime] = after.split(DATA_BYTES);
        let disks = Disks { data, realtime };
        disks.open().close().unwrap();
        let superblock = superblock(&disks.data);
        assert!(superblock.realtime_blocks >= SMALL_BYTES / 4096, "{cut}");
        assert_eq!(superblock.free_realtime_extents, superblock.realtime_extents, "{cut}");
        assert_eq!(grow(&disks, None).unwrap(), LARGE_BYTES / 4096, "{cut}");
        disks.check();
    }
}

/// Length of the realtime section with groups before it grows, in bytes: two groups and a half.
const GROUPS_BYTES: u64 = 10 << 20;
/// Length of the device to which the section with groups can grow, in bytes: four groups and a
/// part of a fifth.
const MORE_GROUPS_BYTES: u64 = (18 << 20) - 4096;

/// Makes a volume with realtime groups of 4 MiB, whose section is shorter than its device.
fn make_groups(features: &str, extent_kib: u64) -> Disks {
    let group = (4 << 20) / (extent_kib << 10) * (extent_kib << 10);
    let groups = format!("rgsize={group}");
    let small = Disks::make_with(extent_kib, GROUPS_BYTES, &[('m', features), ('r', &groups)]);
    let large: SharedDevice = Arc::new(MemoryDevice::new(MORE_GROUPS_BYTES));
    let mut bytes = vec![0; GROUPS_BYTES as usize];
    small.realtime.read_at(&mut bytes, 0).unwrap();
    large.write_at(&bytes, 0, Durability::Cached).unwrap();
    Disks { data: small.data, realtime: large }
}

const ALL: &str = "metadir=1,rmapbt=1,reflink=1";
const NO_MAP: &str = "metadir=1,rmapbt=0,reflink=0";

/// Whether the copies of the superblock must have the sizes of the superblock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copies {
    Same,
    MayBeOld,
}

/// Checks the unmounted volume with `check` and xfs_repair, and that all extents but those of files
/// and of the realtime superblock are free. Files have `used` extents.
fn check_groups(disks: &Disks, used: u64) {
    check_free(disks, used, Copies::Same);
    disks.repair();
}

fn check_free(disks: &Disks, used: u64, copies: Copies) {
    let found = superblock(&disks.data);
    assert_eq!(found.free_realtime_extents, found.realtime_extents - 1 - used);
    let volume = disks.options(&OpenOptions::new()).unwrap();
    let mut findings = volume.check(CheckOptions::default(), &()).unwrap().findings;
    findings.retain(|finding| copies == Copies::Same || finding.code != Code::SbCopy);
    assert!(findings.is_empty(), "{findings:?}");
}

fn check_growth_of_groups(features: &str, extent_kib: u64, steps: &[Option<u64>]) {
    let disks = make_groups(features, extent_kib);
    let volume = disks.open();
    let bytes = [7; 50_000];
    create(&volume, "before").write_at(&bytes, 0).unwrap();
    volume.close().unwrap();
    let unit = extent_kib / 4;
    let used = 13_u64.div_ceil(unit);
    for blocks in steps {
        let grown = grow(&disks, *blocks).unwrap();
        assert_eq!(grown, blocks.unwrap_or(MORE_GROUPS_BYTES / 4096));
        let found = superblock(&disks.data);
        assert_eq!(found.realtime_blocks, grown);
        assert_eq!(found.realtime_extents, grown / unit);
        check_groups(&disks, used);
    }
    let volume = disks.open();
    assert_eq!(contents(&volume.open_file("/before").unwrap()), bytes);
    let file = create(&volume, "after");
    let free = superblock(&disks.data).free_realtime_extents;
    let all = 0..(free * unit) << 12;
    file.change_range(all, RangeMode::Allocate(AllocateMode::Extend)).unwrap();
    drop(file);
    volume.close().unwrap();
    check_groups(&disks, used + free);
    let volume = disks.open();
    volume.remove_file("/after").unwrap();
    volume.close().unwrap();
    check_groups(&disks, used);
}

#[test]
fn last_group_grows_and_new_groups_follow() {
    check_growth_of_groups(ALL, 4, &[Some(2_900), Some(3_073), None]);
}

#[test]
fn groups_of_large_extents_grow_without_a_reverse_map() {
    check_growth_of_groups(NO_MAP, 28, &[Some(3_001), None]);
}

/// Cuts the power at each request of a growth by a part of a group, a group and a part of another
/// one. Checks that `check` finds nothing but old copies of the superblock on the recovered volume,
/// and that all extents of its size are free. A growth that has to continue completes the sizes and
/// the copies. Every eighth volume is then checked with xfs_repair too.
#[test]
fn power_cut_at_each_request_of_the_growth_of_groups_leaves_a_whole_volume() {
    let Disks { data, realtime } = make_groups(ALL, 4);
    let atomicity = Atomicity::of(&superblock(&data));
    let joined = Arc::new(JoinedDevice::new(data, realtime));
    let recorder = Arc::new(RecordingDevice::new(joined));
    let [data, realtime] = recorder.split(DATA_BYTES);
    grow(&Disks { data, realtime }, None).unwrap();
    let recording = recorder.recording();
    let cuts = PowerCuts::new(&recording, atomicity);
    let mut sizes = BTreeSet::new();
    let points = 0..recording.requests().len();
    for (index, cut) in points.flat_map(|point| cuts.at(point, 2).take(2)).enumerate() {
        let after = Arc::new(RecordingDevice::of(cuts.after(cut)));
        let [data, realtime] = after.split(DATA_BYTES);
        let disks = Disks { data, realtime };
        disks.open().close().unwrap();
        let found = superblock(&disks.data).realtime_blocks;
        sizes.insert(found);
        check_free(&disks, 0, Copies::MayBeOld);
        let all = MORE_GROUPS_BYTES / 4096;
        assert_eq!(grow(&disks, None).unwrap(), all, "{cut}");
        // The copies are written last, and a volume that has the size is left as it is.
        check_free(&disks, 0, if found < all { Copies::Same } else { Copies::MayBeOld });
        if index % 8 == 0 && found < all {
            disks.repair();
        }
    }
    // The growth of the last group may become durable together with the next group.
    let possible = [10 << 20, 12 << 20, 16 << 20, MORE_GROUPS_BYTES].map(|bytes| bytes / 4096);
    assert!(sizes.is_subset(&BTreeSet::from(possible)), "{sizes:?}");
    assert!(sizes.len() >= 3, "no cut falls between the groups: {sizes:?}");
}
