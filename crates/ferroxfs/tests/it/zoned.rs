//! Tests of writing to zoned volumes: contents against a model, garbage collection on a full
//! volume, the counts of zones against the extents of all files, xfs_repair, and power cuts.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferroxfs::admin::{GrowError, RealtimeGrowthError};
use ferroxfs::check::CheckOptions;
use ferroxfs::contents::{AllocateMode, ForkKind, RangeMode};
use ferroxfs::device::{BlockDevice, Durability, MemoryDevice, SharedDevice};
use ferroxfs::lock::{LeaseKind, LeaseMode};
use ferroxfs::quota::{QuotaMode, QuotaOptions};
use ferroxfs::{Error, File, NewKind, OpenError, OpenOptions, PosixError, Timestamp, Volume};
use xfs_format::superblock::Unsupported;
use xfs_mkfs::{Devices, Discard, Identity, Options, Plan, TargetDevice};
use xfs_oracle::Xfsprogs;
use xfs_testkit::{
    Atomicity, JoinedDevice, PowerCuts, Prng, RealtimeSection, RecordingDevice, Request,
};
use xfs_trans::testing::superblock;

use super::realtime_writing::{DATA_BYTES, PLAIN, contents, create, in_memory};

const BLOCK: u64 = 4096;
/// Offset of the count of used blocks in the inode of a zone, in bytes.
const USED_OFFSET: u64 = 128;

/// The devices of a zoned volume. `realtime` is `None` for a section on the data device.
#[derive(Clone)]
struct Zoned {
    data: SharedDevice,
    realtime: Option<SharedDevice>,
}

impl Zoned {
    /// Makes an empty volume with `zones` zones of 1 MiB: on the data device if `is_internal` is
    /// true, and otherwise on a device of their own.
    fn make(zones: u64, is_internal: bool) -> Self {
        let mut options = Options::default();
        options.allow_small = true;
        options.parse('r', "zoned=1,rgsize=1m").unwrap();
        options.parse('d', &format!("size={DATA_BYTES}")).unwrap();
        let zone_bytes = zones << 20;
        let (data_bytes, realtime_bytes) = match is_internal {
            true => (DATA_BYTES + zone_bytes, None),
            false => (DATA_BYTES, Some(zone_bytes)),
        };
        if !is_internal {
            options.realtime.device = Some("/realtime".into());
        }
        let target = TargetDevice { data_bytes, sector_size: 512, log_bytes: None, realtime_bytes };
        let identity = Identity::reproducible(Timestamp::default(), b"zones");
        let plan = Plan::new(&options, &target, &identity).unwrap();
        let data = MemoryDevice::new(data_bytes);
        let realtime = realtime_bytes.map(MemoryDevice::new);
        let devices = Devices {
            data: &data,
            log: None,
            realtime: realtime.as_ref().map(|device| device as &dyn BlockDevice),
        };
        xfs_mkfs::write(&plan, devices, Discard::No).unwrap();
        let realtime = realtime.map(|device| Arc::new(device) as SharedDevice);
        Self { data: Arc::new(data), realtime }
    }

    /// Returns a volume that a kernel has filled: 16 zones of 1 MiB on the data device.
    fn golden() -> Self {
        Self { data: in_memory(&RealtimeSection::Zoned.data()), realtime: None }
    }

    fn with(&self, options: &OpenOptions) -> Volume {
        let devices = options.with_devices(Arc::clone(&self.data), None);
        match &self.realtime {
            Some(device) => devices.with_realtime(Arc::clone(device)).open().unwrap(),
            None => devices.open().unwrap(),
        }
    }

    fn open(&self) -> Volume {
        self.with(&OpenOptions::new().write(true))
    }

    /// Unmounts the volume, and checks it.
    fn close(&self, volume: Volume) {
        volume.close().unwrap();
        self.check();
    }

    /// Checks the unmounted volume: no two files have one block, each zone counts the blocks that
    /// files have in it (Z2 in docs/internals/zoned.md), and neither `check` nor xfs_repair finds
    /// anything.
    fn check(&self) {
        let volume = self.with(&OpenOptions::new());
        let superblock = superblock(&self.data);
        let realtime = superblock.geometry.realtime;
        let mut used = BTreeMap::<u64, Vec<u64>>::new();
        for entry in volume.walk("/").unwrap().map(|entry| entry.unwrap()) {
            for extent in entry.node.extents(ForkKind::Data).map(|extent| extent.unwrap()) {
                if extent.realtime {
                    let first = extent.device_offset_bytes / BLOCK - realtime.start;
                    for block in first..first + extent.length_bytes / BLOCK {
                        used.entry(block / realtime.group_blocks).or_default().push(block);
                    }
                }
            }
        }
        for blocks in used.values_mut() {
            let count = blocks.len();
            blocks.sort_unstable();
            blocks.dedup();
            assert_eq!(blocks.len(), count, "two files have one block");
        }
        let groups = volume.metadata_root().unwrap().lookup("rtgroups".as_ref()).unwrap();
        for zone in 0..u64::from(realtime.group_count) {
            let inode = groups.lookup(format!("{zone}.rmap").as_ref()).unwrap().number();
            let place = superblock.geometry.inode_location(inode).unwrap();
            let at = place.cluster.0 * 512 + u64::from(place.offset_bytes) + USED_OFFSET;
            let mut counted = [0; 4];
            self.data.read_at(&mut counted, at).unwrap();
            let found = used.get(&zone).map_or(0, Vec::len);
            assert_eq!(u32::from_be_bytes(counted) as usize, found, "zone {zone}");
        }
        assert_eq!(superblock.free_realtime_extents, 0);
        let report = volume.check(CheckOptions::default(), &()).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
        self.repair();
    }

    fn repair(&self) {
        let Ok(programs) = Xfsprogs::newer() else { return };
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, device: &SharedDevice| {
            let mut bytes = vec![0; device.length_bytes() as usize];
            device.read_at(&mut bytes, 0).unwrap();
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let mut repair = programs.command("xfs_repair");
        repair.arg("-n");
        if let Some(device) = &self.realtime {
            repair.arg("-r").arg(write("realtime", device));
        }
        let output = repair.arg(write("data", &self.data)).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        for word in ["discrepancy", "would ", "bad ", "inconsistent"] {
            let is_plain = |line: &&str| !line.starts_with("No modify flag set");
            let found = text.lines().filter(is_plain).find(|line| line.contains(word));
            assert_eq!(found, None, "{text}");
        }
    }
}

/// Makes one random change of a file, and the same change of `model`, the bytes that the file must
/// have.
fn change(file: &File, model: &mut Vec<u8>, random: &mut Prng) {
    let start = random.within(0..300_000);
    let length = random.within(1..120_000);
    let range = start as u64..(start + length) as u64;
    let whole = |blocks: std::ops::Range<u64>| blocks.start * BLOCK..blocks.end * BLOCK;
    let zero = |model: &mut Vec<u8>| {
        let end = (start + length).min(model.len());
        if start < end {
            model[start..end].fill(0);
        }
    };
    match random.within(0..9) {
        0 => {
            file.set_len(start as u64).unwrap();
            model.resize(start, 0);
        }
        1 => {
            file.change_range(range, RangeMode::Punch).unwrap();
            zero(model);
        }
        2 => {
            file.change_range(range, RangeMode::Zero(AllocateMode::KeepSize)).unwrap();
            zero(model);
        }
        3 => {
            file.change_range(range, RangeMode::Zero(AllocateMode::Extend)).unwrap();
            zero(model);
            model.resize(model.len().max(start + length), 0);
        }
        4 if model.len() > 16 * 1024 => {
            file.change_range(whole(1..2), RangeMode::Collapse).unwrap();
            model.drain(4096..8192);
        }
        5 if model.len() > 4096 && model.len() < 400_000 => {
            file.change_range(whole(1..3), RangeMode::Insert).unwrap();
            model.splice(4096..4096, vec![0; 8192]);
        }
        _ => {
            let bytes = vec![random.within(1..0xe0) as u8; length];
            assert_eq!(file.write_at(&bytes, start as u64).unwrap(), length);
            model.resize(model.len().max(start + length), 0);
            model[start..start + length].copy_from_slice(&bytes);
        }
    }
}

/// Changes files at random, and compares their contents with a model after each change. The section
/// has room for the files, and must be collected many times.
fn check_changes(disks: &Zoned, folder: &str, seed: u64) {
    let mut volume = disks.open();
    let (mut random, mut models) = (Prng::new(seed), vec![Vec::new(); 4]);
    let name = |index: usize| format!("{folder}f{index}");
    for index in 0..models.len() {
        drop(create_in(&volume, folder, index));
    }
    for step in 0..200 {
        let index = random.within(0..models.len());
        let file = volume.open_file(name(index)).unwrap();
        change(&file, &mut models[index], &mut random);
        assert!(contents(&file) == models[index], "step {step}");
        drop(file);
        if random.within(0..40) == 0 {
            disks.close(volume);
            volume = disks.open();
        }
        if random.within(0..30) == 0 {
            volume.remove_file(name(index)).unwrap();
            models[index] = Vec::new();
            drop(create_in(&volume, folder, index));
        }
    }
    disks.close(volume);
    let volume = disks.open();
    for (index, model) in models.iter().enumerate() {
        assert!(contents(&volume.open_file(name(index)).unwrap()) == *model);
    }
    disks.close(volume);
}

fn create_in(volume: &Volume, folder: &str, index: usize) -> File {
    let node = volume.lookup(folder).unwrap();
    let made = node.create(format!("f{index}"), &NewKind::Regular, &PLAIN).unwrap();
    made.open().unwrap()
}

#[test]
fn random_changes_in_zones_of_a_kernel_agree_with_a_model() {
    check_changes(&Zoned::golden(), "/rt/", 1);
}

#[test]
fn random_changes_in_internal_zones_agree_with_a_model() {
    check_changes(&Zoned::make(10, true), "/", 2);
}

#[test]
fn random_changes_in_zones_of_their_own_device_agree_with_a_model() {
    check_changes(&Zoned::make(8, false), "/", 3);
}

/// Fills the section, and overwrites the files several times, so that each zone is collected again
/// and again. Checks that all of these writes succeed, and only a write of additional bytes is
/// refused for lack of space.
#[test]
fn full_section_is_overwritten_for_long() {
    let disks = Zoned::make(8, false);
    let volume = disks.open();
    let capacity = 4_u64 << 20;
    let count = 64;
    let length = capacity / count;
    let files: Vec<File> = (0..count).map(|index| create(&volume, &format!("a{index}"))).collect();
    for file in &files {
        file.write_at(&vec![1; length as usize], 0).unwrap();
    }
    let more = create(&volume, "more");
    let refused = more.write_at(&[1; 4096], 0);
    assert!(matches!(refused, Err(Error::Posix(PosixError::NoSpace))), "{refused:?}");
    let mut random = Prng::new(7);
    let mut models = vec![vec![1; length as usize]; files.len()];
    for step in 0..3000 {
        let index = random.within(0..files.len());
        let start = random.within(0..length as usize - 9000);
        let bytes = vec![(step % 251) as u8; random.within(1..9000)];
        let written = files[index].write_at(&bytes, start as u64);
        assert_eq!(written.unwrap(), bytes.len(), "step {step}");
        models[index][start..start + bytes.len()].copy_from_slice(&bytes);
    }
    for (file, model) in files.iter().zip(&models) {
        assert!(contents(file) == *model);
    }
    files[0].set_len(1).unwrap();
    more.write_at(&[1; 4096], 0).unwrap();
    drop((files, more));
    disks.close(volume);
    let volume = disks.open();
    for (index, model) in models.iter().enumerate().skip(1) {
        assert!(volume.read(format!("/a{index}")).unwrap() == *model);
        volume.remove_file(format!("/a{index}")).unwrap();
    }
    disks.close(volume);
}

/// Checks Z6 in docs/internals/zoned.md: no thread waits for a latch that a collecting thread
/// holds. Threads overwrite and read files while zones are collected, and all of them must end.
#[test]
fn threads_overwrite_and_read_while_zones_are_collected() {
    let disks = Zoned::make(8, true);
    let volume = disks.open();
    let length = 200 << 10;
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let volume = &volume;
            scope.spawn(move || {
                let file = create(volume, &format!("t{thread}"));
                let mut random = Prng::new(thread.into());
                let mut model = vec![0; length];
                for step in 0..200 {
                    let start = random.within(0..length - 20_000);
                    let bytes = vec![(step % 250) as u8 + 1; random.within(1..20_000)];
                    file.write_at(&bytes, start as u64).unwrap();
                    model[start..start + bytes.len()].copy_from_slice(&bytes);
                    let end = file.metadata().size as usize;
                    assert!(contents(&file) == model[..end], "thread {thread}, step {step}");
                }
            });
        }
    });
    disks.close(volume);
}

/// Overwrites synced files while zones are collected, and cuts the power at random points. Checks
/// that each block of a file has its bytes from before the last sync, or later ones, and that the
/// counts of the zones agree with the files.
fn check_cuts(is_internal: bool) {
    let made = Zoned::make(8, is_internal);
    let atomicity = Atomicity::of(&superblock(&made.data));
    let (recorder, parts): (Arc<RecordingDevice>, _) = match &made.realtime {
        None => (Arc::new(RecordingDevice::new(Arc::clone(&made.data))), None),
        Some(realtime) => {
            let joined = JoinedDevice::new(Arc::clone(&made.data), Arc::clone(realtime));
            (Arc::new(RecordingDevice::new(Arc::new(joined))), Some(DATA_BYTES))
        }
    };
    let disks = of_recorder(&recorder, parts);
    let volume = disks.open();
    let files: Vec<File> = (0..4).map(|index| create(&volume, &format!("c{index}"))).collect();
    for file in &files {
        file.write_at(&vec![1; 512 << 10], 0).unwrap();
    }
    let mut syncs = vec![(0, 0)];
    let mut random = Prng::new(3);
    for round in 2..12_u8 {
        for _ in 0..20 {
            let start = random.within(0..120) as u64 * BLOCK;
            let length = random.within(1..8) * BLOCK as usize;
            files[random.within(0..files.len())].write_at(&vec![round; length], start).unwrap();
        }
        volume.sync().unwrap();
        syncs.push((recorder.position(), round));
    }
    let finals: Vec<Vec<u8>> = files.iter().map(contents).collect();
    drop(files);
    volume.close().unwrap();
    let recording = recorder.recording();
    let cuts = PowerCuts::new(&recording, atomicity);
    for seed in 0..24 {
        let cut = cuts.sample(seed);
        let after = Arc::new(RecordingDevice::of(cuts.after(cut)));
        let disks = of_recorder(&after, parts);
        let volume = disks.open();
        let synced = syncs.iter().rev().find(|(position, _)| *position <= cut.point());
        let synced = synced.map_or(0, |(_, round)| *round);
        for (index, last) in finals.iter().enumerate().filter(|_| synced > 0) {
            let found = volume.read(format!("/c{index}")).unwrap();
            assert_eq!(found.len(), last.len(), "{cut}");
            for (block, (found, last)) in found.chunks(4096).zip(last.chunks(4096)).enumerate() {
                let is_one = found.iter().all(|byte| *byte == found[0]);
                // A block that no later round has written has its last bytes.
                let is_last = last[0] > synced || found[0] == last[0];
                assert!(is_one && found[0] <= 11 && is_last, "{cut}: file {index}, block {block}");
            }
        }
        disks.close(volume);
    }
}

/// Returns the devices of a volume that a recorder records. If `parts` is given, the first `parts`
/// bytes of the recorder are the data device, and the rest is the realtime device.
fn of_recorder(recorder: &Arc<RecordingDevice>, parts: Option<u64>) -> Zoned {
    match parts {
        None => Zoned { data: Arc::clone(recorder) as SharedDevice, realtime: None },
        Some(length) => {
            let [data, realtime] = recorder.split(length);
            Zoned { data, realtime: Some(realtime) }
        }
    }
}

#[test]
fn power_cuts_of_internal_zones_lose_no_synced_block() {
    check_cuts(true);
}

#[test]
fn power_cuts_of_zones_on_their_own_device_lose_no_synced_block() {
    check_cuts(false);
}

#[test]
fn preallocation_in_zones_is_refused() {
    let disks = Zoned::golden();
    let volume = disks.open();
    let file = volume.open_file("/rt/text").unwrap();
    let before = contents(&file);
    for mode in [AllocateMode::Extend, AllocateMode::KeepSize] {
        let refused = file.change_range(0..1 << 20, RangeMode::Allocate(mode));
        assert!(
            matches!(refused, Err(Error::Unsupported(Unsupported::ZonedAllocation))),
            "{refused:?}"
        );
    }
    assert!(contents(&file) == before);
    // No block of a zone is shared, so there is nothing to copy.
    let longer = before.len() as u64 + 10_000;
    file.change_range(0..longer, RangeMode::Unshare(AllocateMode::KeepSize)).unwrap();
    assert!(contents(&file) == before);
    file.change_range(0..longer, RangeMode::Unshare(AllocateMode::Extend)).unwrap();
    assert_eq!(file.metadata().size, longer);
    assert!(contents(&file).starts_with(&before));
    drop(file);
    disks.close(volume);
}

/// The zones of this volume follow its data section, so a growth of the data section would
/// overwrite them. Checks that such a growth is refused, and so is a layout lease of a file in
/// zones.
#[test]
fn data_section_does_not_grow_into_the_zones() {
    let disks = Zoned::golden();
    let volume = disks.open();
    let before = volume.geometry().data_blocks;
    assert_eq!(volume.grow(None).unwrap(), before);
    let refused = volume.grow(Some(before + 1000));
    assert!(matches!(refused, Err(GrowError::DeviceTooShort { .. })), "{refused:?}");
    let file = volume.open_file("/rt/text").unwrap();
    let refused = file.set_lease(LeaseKind::Layout, LeaseMode::Read, Arc::new(|_| ()));
    assert!(matches!(refused, Err(Error::Unsupported(Unsupported::ZonedLayout))), "{refused:?}");
    drop(file);
    disks.close(volume);
}

/// Checks that a zoned volume is not opened with quota, and stays unchanged.
#[test]
fn zones_with_quota_are_refused() {
    let disks = Zoned::golden();
    let modes = QuotaOptions::all(QuotaMode::NoEnforce);
    let options = OpenOptions::new().write(true).quota(modes);
    let refused = options.with_devices(Arc::clone(&disks.data), None).open();
    let Err(error) = refused else { panic!("quota is accepted") };
    assert!(matches!(error, OpenError::Quota(Error::Unsupported(Unsupported::ZonedQuota))));
    disks.check();
    disks.close(disks.open());
}

/// Checks two errors for wrong counts of used blocks. A count that is impossible for its zone fails
/// the opening of the volume. A count that is too small fails the removal of the zone's files, or
/// the close of the volume.
#[test]
fn wrong_counts_of_used_blocks_are_errors() {
    let zones = |disks: &Zoned| {
        let volume = disks.with(&OpenOptions::new());
        let groups = volume.metadata_root().unwrap().lookup("rtgroups".as_ref()).unwrap();
        let zone = |zone: u32| groups.lookup(format!("{zone}.rmap").as_ref()).unwrap().number();
        (0..superblock(&disks.data).geometry.realtime.group_count).map(zone).collect::<Vec<_>>()
    };
    for wrong in [1_u32, 256, 257, u32::MAX] {
        let disks = Zoned::golden();
        // The last zone is empty.
        let empty = *zones(&disks).last().unwrap();
        super::forge(&disks.data, empty, USED_OFFSET as usize, wrong);
        let options = OpenOptions::new().write(true);
        let error = options.with_devices(Arc::clone(&disks.data), None).open().err().unwrap();
        assert!(matches!(error, OpenError::Recovery(Error::Corrupt(_))), "{wrong}: {error}");
    }
    let disks = Zoned::golden();
    for zone in zones(&disks) {
        super::forge(&disks.data, zone, USED_OFFSET as usize, 0);
    }
    let volume = disks.open();
    let changed = ["/rt/text", "/rt/sparse", "/rt/fragments"]
        .into_iter()
        .try_for_each(|name| volume.remove_file(name));
    let closed = volume.close();
    assert!(changed.is_err() || closed.is_err());
}

/// Returns the discards that the device has recorded, each with its offset and length in bytes.
fn discards(device: &RecordingDevice) -> Vec<(u64, u64)> {
    let discard = |request: &Request| match request {
        Request::Discard { offset, length } => Some((*offset, *length)),
        _ => None,
    };
    device.recording().requests().iter().filter_map(discard).collect()
}

/// Fills zones and frees them. Checks that a trim discards whole zones, those that are empty, and
/// no byte of a file.
#[test]
fn trim_resets_and_discards_the_zones_without_blocks_of_files() {
    for is_internal in [true, false] {
        let made = Zoned::make(12, is_internal);
        let section = made.realtime.clone().unwrap_or_else(|| made.data.clone());
        let recorder = Arc::new(RecordingDevice::new(section));
        let disks = match is_internal {
            true => Zoned { data: recorder.clone(), realtime: None },
            false => Zoned { data: made.data, realtime: Some(recorder.clone()) },
        };
        let volume = disks.open();
        let bytes = vec![5; 3 << 20];
        create(&volume, "gone").write_at(&bytes, 0).unwrap();
        create(&volume, "kept").write_at(&bytes[..1 << 19], 0).unwrap();
        volume.sync().unwrap();
        volume.remove_file("/gone").unwrap();
        let start = superblock(&disks.data).geometry.realtime.start * BLOCK;
        let before = discards(&recorder).len();
        let trimmed = volume.trim(DATA_BYTES..u64::MAX, 0).unwrap();
        let all = discards(&recorder).split_off(before);
        assert!(trimmed >= 9 << 20, "{trimmed} bytes of 12 zones");
        assert_eq!(trimmed, all.iter().map(|(_, length)| length).sum::<u64>());
        for (offset, length) in &all {
            assert!((offset - start).is_multiple_of(1 << 20) && *length == 1 << 20, "{all:?}");
        }
        assert_eq!(volume.trim(DATA_BYTES..u64::MAX, 2 << 20).unwrap(), 0);
        assert!(volume.read("/kept").unwrap() == bytes[..1 << 19]);
        create(&volume, "new").write_at(&bytes, 0).unwrap();
        disks.close(volume);
        let volume = disks.with(&OpenOptions::new());
        assert!(volume.read("/kept").unwrap() == bytes[..1 << 19]);
        assert!(volume.read("/new").unwrap() == bytes);
    }
}

/// Overwrites a full section, so that zones are collected. Checks that each reset of a zone
/// discards it, and that files keep their bytes.
#[test]
fn reset_discards_a_zone_if_the_volume_discards() {
    let made = Zoned::make(8, false);
    let recorder = Arc::new(RecordingDevice::new(made.realtime.unwrap()));
    let disks = Zoned { data: made.data, realtime: Some(recorder.clone()) };
    let volume = disks.with(&OpenOptions::new().write(true).discard(true));
    let file = create(&volume, "file");
    for round in 0..12_u8 {
        file.write_at(&vec![round; 2 << 20], 0).unwrap();
    }
    assert!(contents(&file) == vec![11; 2 << 20]);
    let all = discards(&recorder);
    assert!(!all.is_empty(), "no zone was discarded");
    for (offset, length) in &all {
        assert!(offset.is_multiple_of(1 << 20) && *length == 1 << 20, "{all:?}");
    }
    drop(file);
    disks.close(volume);
    let volume = disks.with(&OpenOptions::new());
    assert!(volume.read("/file").unwrap() == vec![11; 2 << 20]);
}

/// Returns a device of this length that starts with the bytes of another one.
fn lengthened(device: &SharedDevice, bytes: u64) -> SharedDevice {
    let longer = MemoryDevice::new(bytes);
    let mut all = vec![0; device.length_bytes() as usize];
    device.read_at(&mut all, 0).unwrap();
    longer.write_at(&all, 0, Durability::Cached).unwrap();
    Arc::new(longer)
}

fn grow(disks: &Zoned, blocks: Option<u64>) -> Result<u64, RealtimeGrowthError> {
    let devices = OpenOptions::new().write(true).with_devices(disks.data.clone(), None);
    match &disks.realtime {
        Some(device) => devices.with_realtime(device.clone()).grow_realtime(blocks),
        None => devices.grow_realtime(blocks),
    }
}

/// Grows a section by one zone and by the zones that its device has room for. Checks that the new
/// zones are used.
#[test]
fn zoned_section_grows_by_whole_zones() {
    for is_internal in [true, false] {
        let mut disks = Zoned::make(8, is_internal);
        let more = 4 << 20 | 512 << 10;
        match &disks.realtime {
            Some(device) => disks.realtime = Some(lengthened(device, (8 << 20) + more)),
            None => disks.data = lengthened(&disks.data, DATA_BYTES + (8 << 20) + more),
        }
        let volume = disks.open();
        create(&volume, "before").write_at(&vec![1; 3 << 20], 0).unwrap();
        disks.close(volume);
        assert_eq!(grow(&disks, Some(9 * 256 + 10)).unwrap(), 9 * 256);
        disks.close(disks.open());
        assert_eq!(grow(&disks, None).unwrap(), 12 * 256);
        assert_eq!(grow(&disks, None).unwrap(), 12 * 256);
        let found = superblock(&disks.data);
        assert_eq!((found.realtime_group_count, found.realtime_blocks), (12, 12 * 256));
        let volume = disks.open();
        // Four zones are kept for the garbage collector.
        create(&volume, "after").write_at(&vec![2; 5 << 20], 0).unwrap();
        disks.close(volume);
        let volume = disks.with(&OpenOptions::new());
        assert!(volume.read("/before").unwrap() == vec![1; 3 << 20]);
        assert!(volume.read("/after").unwrap() == vec![2; 5 << 20]);
    }
}

/// Cuts the power at each request while a section grows by two zones.
#[test]
fn power_cut_during_growth_of_zones_leaves_whole_zones() {
    let made = Zoned::make(8, true);
    let data = lengthened(&made.data, DATA_BYTES + (10 << 20));
    let atomicity = Atomicity::of(&superblock(&data));
    let recorder = Arc::new(RecordingDevice::new(data));
    grow(&of_recorder(&recorder, None), None).unwrap();
    let recording = recorder.recording();
    let cuts = PowerCuts::new(&recording, atomicity);
    let mut sizes = std::collections::BTreeSet::new();
    for (index, cut) in
        (0..recording.requests().len()).flat_map(|point| cuts.at(point, 2).take(2)).enumerate()
    {
        let disks = of_recorder(&Arc::new(RecordingDevice::of(cuts.after(cut))), None);
        disks.open().close().unwrap();
        let found = superblock(&disks.data).realtime_group_count;
        sizes.insert(found);
        assert_eq!(grow(&disks, None).unwrap(), 10 * 256, "{cut}");
        // The copies of the superblock are written last, and a volume that has the size is left as
        // it is.
        if index % 8 == 0 && found < 10 {
            disks.check();
        }
    }
    assert_eq!(sizes.into_iter().collect::<Vec<u32>>(), [8, 9, 10]);
}
