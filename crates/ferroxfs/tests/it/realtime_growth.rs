//! Tests of growing a classic realtime section: sizes, contents, xfs_repair, and power cuts.

use std::sync::Arc;

use ferroxfs::admin::{GrowError, RealtimeGrowthError};
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
