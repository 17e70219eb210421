//! Tests of writing to a volume with a classic realtime section: contents against a model, the free
//! space against a sum over all files and xfs_repair, and power cuts of both devices.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use ferroxfs::attr::ExtendedFlags;
use ferroxfs::contents::{AllocateMode, ForkKind, RangeMode};
use ferroxfs::device::{BlockDevice, Durability, MemoryDevice, SharedDevice};
use ferroxfs::{
    CreateOptions, Error, File, NewKind, Node, OpenError, OpenOptions, PosixError, Result,
    SetAttributes, Timestamp, Volume,
};
use xfs_mkfs::{Devices, Discard, Identity, Options, Plan, TargetDevice};
use xfs_oracle::Xfsprogs;
use xfs_testkit::{Atomicity, JoinedDevice, PowerCuts, Prng, RealtimeSection, RecordingDevice};
use xfs_trans::testing::superblock;

pub(crate) const DATA_BYTES: u64 = 64 << 20;
const REALTIME_BYTES: u64 = 6 << 20;
pub(crate) const PLAIN: CreateOptions = CreateOptions::new(0o644);
/// The bytes of the realtime device before the first write. No file may ever show one of them.
const STALE: u8 = 0xee;

/// The data device and the realtime device of a volume.
#[derive(Clone)]
pub(crate) struct Disks {
    pub(crate) data: SharedDevice,
    pub(crate) realtime: SharedDevice,
}

impl Disks {
    /// Makes an empty volume with realtime extents of `extent_kib` KiB, on a device that is full of
    /// stale bytes.
    pub(crate) fn make(extent_kib: u64) -> Self {
        let disks = Self::make_sized(extent_kib, REALTIME_BYTES);
        let stale = vec![STALE; REALTIME_BYTES as usize];
        disks.realtime.write_at(&stale, 0, Durability::Cached).unwrap();
        disks
    }

    /// Makes an empty volume with the smallest log, and with realtime extents of `extent_kib` KiB.
    /// Directories of the volume pass the realtime flag on, from the root on.
    pub(crate) fn make_sized(extent_kib: u64, realtime_bytes: u64) -> Self {
        Self::make_with(extent_kib, realtime_bytes, &[])
    }

    /// Makes a volume as [`make_sized`](Self::make_sized) does, with further options of mkfs.xfs:
    /// the letter of each option, and its values.
    pub(crate) fn make_with(
        extent_kib: u64,
        realtime_bytes: u64,
        further: &[(char, &str)],
    ) -> Self {
        let mut options = Options::default();
        options.allow_small = true;
        options.parse('r', &format!("extsize={extent_kib}k")).unwrap();
        options.parse('d', "rtinherit=1").unwrap();
        for (letter, values) in further {
            options.parse(*letter, values).unwrap();
        }
        options.realtime.device = Some("/realtime".into());
        let target = TargetDevice {
            data_bytes: DATA_BYTES,
            sector_size: 512,
            log_bytes: None,
            realtime_bytes: Some(realtime_bytes),
        };
        let identity = Identity::reproducible(Timestamp::default(), b"realtime");
        let plan = Plan::new(&options, &target, &identity).unwrap();
        let (data, realtime) = (MemoryDevice::new(DATA_BYTES), MemoryDevice::new(realtime_bytes));
        let devices = Devices { data: &data, log: None, realtime: Some(&realtime) };
        xfs_mkfs::write(&plan, devices, Discard::No).unwrap();
        Self { data: Arc::new(data), realtime: Arc::new(realtime) }
    }

    pub(crate) fn options(&self, options: &OpenOptions) -> std::result::Result<Volume, OpenError> {
        let devices = options.with_devices(self.data.clone(), None);
        devices.with_realtime(self.realtime.clone()).open()
    }

    pub(crate) fn open(&self) -> Volume {
        self.options(&OpenOptions::new().write(true)).unwrap()
    }

    /// Checks the unmounted volume: the superblock's count of free extents is the number of extents
    /// that no file has, no two files share an extent, and xfs_repair finds nothing.
    pub(crate) fn check(&self) {
        let superblock = superblock(&self.data);
        let unit = u64::from(superblock.geometry.realtime_extent_blocks) * 4096;
        let volume = self.options(&OpenOptions::new()).unwrap();
        let mut used = BTreeSet::new();
        for entry in volume.walk("/").unwrap().map(|entry| entry.unwrap()) {
            for extent in entry.node.extents(ForkKind::Data).map(|extent| extent.unwrap()) {
                if extent.realtime {
                    let start = extent.device_offset_bytes;
                    let units = start / unit..(start + extent.length_bytes).div_ceil(unit);
                    used.extend(units.map(|number| (number, entry.node.number())));
                }
            }
        }
        let count = used.len() as u64;
        let numbers: BTreeSet<_> = used.iter().map(|(unit, _)| unit).collect();
        assert_eq!(numbers.len() as u64, count, "two files have one realtime extent");
        assert_eq!(superblock.free_realtime_extents, superblock.realtime_extents - count);
        self.repair();
    }

    pub(crate) fn repair(&self) {
        let Ok(programs) = Xfsprogs::newer() else { return };
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, device: &SharedDevice| {
            let mut bytes = vec![0; device.length_bytes() as usize];
            device.read_at(&mut bytes, 0).unwrap();
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let (data, realtime) = (write("data", &self.data), write("realtime", &self.realtime));
        let mut repair = programs.command("xfs_repair");
        let output = repair.args(["-n", "-r"]).arg(realtime).arg(data).output().unwrap();
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

pub(crate) fn create(volume: &Volume, name: &str) -> File {
    let root = volume.root().unwrap();
    root.create(name, &NewKind::Regular, &PLAIN).unwrap().open().unwrap()
}

fn is_realtime(node: &Node) -> bool {
    node.metadata().xflags.contains(ExtendedFlags::REALTIME)
}

pub(crate) fn contents(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().size as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

/// Does one random change of a file and of the bytes that it must have. The section has room for
/// all changes of a test, so none may be refused. `unit` is the length in bytes of a realtime
/// extent.
pub(crate) fn change(file: &File, model: &mut Vec<u8>, unit: usize, random: &mut Prng) {
    let start = random.within(0..300_000);
    let length = random.within(1..120_000);
    let range = start as u64..(start + length) as u64;
    match random.within(0..8) {
        0 => {
            file.set_len(start as u64).unwrap();
            model.resize(start, 0);
        }
        1 => {
            file.change_range(range, RangeMode::Punch).unwrap();
            fill_existing(model, start, length);
        }
        2 => {
            file.change_range(range, RangeMode::Zero(AllocateMode::KeepSize)).unwrap();
            fill_existing(model, start, length);
        }
        3 => {
            file.change_range(range, RangeMode::Allocate(AllocateMode::Extend)).unwrap();
            model.resize(model.len().max(start + length), 0);
        }
        4 if model.len() > 4 * unit => {
            let range = unit as u64..2 * unit as u64;
            file.change_range(range, RangeMode::Collapse).unwrap();
            model.drain(unit..2 * unit);
        }
        5 if model.len() > unit && model.len() < 400_000 => {
            file.change_range(unit as u64..3 * unit as u64, RangeMode::Insert).unwrap();
            model.splice(unit..unit, vec![0; 2 * unit]);
        }
        _ => {
            let byte = random.within(1..0xe0) as u8;
            let bytes = vec![byte; length];
            assert_eq!(file.write_at(&bytes, start as u64).unwrap(), length);
            model.resize(model.len().max(start + length), 0);
            model[start..start + length].fill(byte);
        }
    }
}

fn fill_existing(model: &mut [u8], start: usize, length: usize) {
    let end = (start + length).min(model.len());
    if start < end {
        model[start..end].fill(0);
    }
}

/// Changes files at random and compares their contents with a model after each change, and checks
/// the volume at the end by a sum over its files and by xfs_repair.
fn check_changes(extent_kib: u64, seed: u64) {
    let disks = Disks::make(extent_kib);
    let mut volume = disks.open();
    let (mut random, mut models) = (Prng::new(seed), vec![Vec::new(); 3]);
    for (index, model) in models.iter_mut().enumerate() {
        let file = create(&volume, &format!("f{index}"));
        assert!(is_realtime(file.node()));
        change(&file, model, extent_kib as usize * 1024, &mut random);
    }
    for step in 0..60 {
        let index = random.within(0..models.len());
        let file = volume.open_file(format!("/f{index}")).unwrap();
        change(&file, &mut models[index], extent_kib as usize * 1024, &mut random);
        assert!(contents(&file) == models[index], "extents of {extent_kib} KiB, step {step}");
        if random.within(0..20) == 0 {
            drop(file);
            volume.close().unwrap();
            volume = disks.open();
        }
        if random.within(0..15) == 0 {
            volume.remove_file(format!("/f{index}")).unwrap();
            models[index] = Vec::new();
            drop(create(&volume, &format!("f{index}")));
        }
    }
    volume.close().unwrap();
    disks.check();
    let volume = disks.open();
    for (index, model) in models.iter().enumerate() {
        assert!(contents(&volume.open_file(format!("/f{index}")).unwrap()) == *model);
    }
}

#[test]
fn random_changes_with_small_extents_agree_with_a_model() {
    check_changes(4, 1);
}

#[test]
fn random_changes_with_large_extents_agree_with_a_model() {
    check_changes(28, 2);
}

/// Fills the section, and frees it. Checks that the last write is refused for lack of space, that
/// the data device still has room, and that everything can be allocated again.
#[test]
fn full_section_refuses_a_write_and_gets_its_space_back() {
    let disks = Disks::make(16);
    let volume = disks.open();
    let file = create(&volume, "all");
    let piece = vec![7; 1 << 20];
    for number in 0..6 {
        assert_eq!(file.write_at(&piece, number << 20).unwrap(), piece.len());
    }
    let error = file.write_at(&piece, 6 << 20).unwrap_err();
    assert!(matches!(error, Error::Posix(PosixError::NoSpace)), "{error}");
    let error = file.change_range(8 << 20..9 << 20, RangeMode::Allocate(AllocateMode::Extend));
    assert!(matches!(error, Err(Error::Posix(PosixError::NoSpace))), "{error:?}");
    drop(file);
    volume.remove_file("/all").unwrap();
    let file = create(&volume, "again");
    file.change_range(0..6 << 20, RangeMode::Allocate(AllocateMode::Extend)).unwrap();
    assert!(contents(&file).iter().all(|byte| *byte == 0));
    drop(file);
    volume.close().unwrap();
    disks.check();
}

fn set(node: &Node, flags: ExtendedFlags) -> Result<()> {
    node.set_attributes(&SetAttributes::new().xflags(flags))
}

#[test]
fn only_a_file_without_blocks_changes_its_device() {
    let disks = Disks::make(4);
    let volume = disks.open();
    let file = create(&volume, "file");
    set(file.node(), ExtendedFlags::empty()).unwrap();
    file.write_at(b"on the data device", 0).unwrap();
    let refused = set(file.node(), ExtendedFlags::REALTIME);
    assert!(matches!(refused, Err(Error::Posix(PosixError::InvalidArgument))), "{refused:?}");
    file.set_len(0).unwrap();
    set(file.node(), ExtendedFlags::REALTIME).unwrap();
    file.write_at(b"on the realtime device", 0).unwrap();
    assert!(is_realtime(file.node()));
    let extents: Vec<_> = file.node().extents(ForkKind::Data).map(Result::unwrap).collect();
    assert!(extents.iter().all(|extent| extent.realtime) && extents.len() == 1);
    let root = volume.root().unwrap();
    assert!(set(&root, ExtendedFlags::REALTIME).is_err());
    let folder = root.create("folder", &NewKind::Directory, &CreateOptions::new(0o755)).unwrap();
    assert!(folder.metadata().xflags.contains(ExtendedFlags::RTINHERIT));
    drop((file, root, folder));
    volume.close().unwrap();
    disks.check();
}

#[test]
fn range_of_a_part_of_an_extent_is_neither_collapsed_nor_inserted() {
    let disks = Disks::make(28);
    let volume = disks.open();
    let file = create(&volume, "file");
    file.write_at(&vec![1; 200 << 10], 0).unwrap();
    for mode in [RangeMode::Collapse, RangeMode::Insert] {
        let refused = file.change_range(4096..8192, mode);
        assert!(matches!(refused, Err(Error::Posix(PosixError::InvalidArgument))), "{refused:?}");
        file.change_range(28 << 10..56 << 10, mode).unwrap();
    }
    assert_eq!(file.metadata().size, 200 << 10);
    drop(file);
    volume.close().unwrap();
    disks.check();
}

pub(crate) fn in_memory(image: &dyn BlockDevice) -> SharedDevice {
    let mut bytes = vec![0; image.length_bytes() as usize];
    image.read_at(&mut bytes, 0).unwrap();
    Arc::new(MemoryDevice::from_bytes(&bytes).unwrap())
}

#[test]
fn volume_filled_by_a_kernel_is_changed() {
    let section = RealtimeSection::Classic;
    let (data, realtime) = (section.data(), section.device().unwrap());
    let disks = Disks { data: in_memory(&data), realtime: in_memory(&realtime) };
    let volume = disks.open();
    let file = volume.open_file("/rt/sparse").unwrap();
    file.write_at(&[b'x'; 5000], 300 << 10).unwrap();
    volume.open_file("/rt/fragments").unwrap().set_len(1 << 20).unwrap();
    volume.remove_file("/rt/unwritten").unwrap();
    drop(file);
    volume.close().unwrap();
    disks.repair();
    let volume = disks.open();
    let sparse = volume.read("/rt/sparse").unwrap();
    assert_eq!(sparse[300 << 10..][..5000], [b'x'; 5000]);
    assert_eq!(sparse[100 << 10..101 << 10], [b'b'; 1 << 10]);
    assert_eq!(sparse.iter().filter(|byte| **byte != 0).count(), 6024);
}

#[test]
fn writing_without_the_device_is_refused() {
    let disks = Disks::make(4);
    let options = OpenOptions::new().write(true);
    let error = options.with_devices(disks.data.clone(), None).open().err().unwrap();
    assert!(matches!(error, OpenError::RealtimeDeviceMissing), "{error}");
    disks.check();
}

/// Returns the value that all written bytes of file number `number` have.
pub(crate) fn pattern(number: usize) -> u8 {
    number as u8 + 1
}

/// Checks the files after a power cut and a recovery. The files with numbers in `synced` must have
/// all of their bytes. Every other file may be absent, or may have zeros in place of its bytes. No
/// file may show bytes that were on the device before. `cut` is the name of the cut, for messages.
pub(crate) fn check_after_cut(volume: &Volume, synced: &Range<usize>, cut: &str) {
    for number in 0..12 {
        let Ok(file) = volume.open_file(format!("/g{number}")) else {
            assert!(!synced.contains(&number), "{cut}: synced file {number} is lost");
            continue;
        };
        let bytes = contents(&file);
        let own = bytes.iter().filter(|byte| **byte == pattern(number)).count();
        assert!(bytes.iter().all(|byte| [0, pattern(number)].contains(byte)), "{cut}: {number}");
        if synced.contains(&number) {
            assert_eq!(own, 30_000, "{cut}: synced file {number}");
        }
    }
}

/// Writes, syncs and removes files while the requests to both devices are recorded in one common
/// order. All other extents are in use, so each file takes the extents that the removal of the
/// preceding file has freed. Cuts the power at random points. Checks that after each recovery no
/// synced file is lost and no file shows bytes of another one.
#[test]
fn power_cuts_of_both_devices_lose_no_synced_file() {
    let Disks { data, realtime } = Disks::make(16);
    let atomicity = Atomicity::of(&superblock(&data));
    let joined = Arc::new(JoinedDevice::new(data, realtime));
    let recorder = Arc::new(RecordingDevice::new(joined));
    let [data, realtime] = recorder.split(DATA_BYTES);
    let volume = Disks { data, realtime }.open();
    for number in 0..4 {
        create(&volume, &format!("g{number}")).write_at(&[pattern(number); 30_000], 0).unwrap();
    }
    // Each file takes two extents of 16 KiB: leave as many free.
    let others = REALTIME_BYTES - 5 * (32 << 10);
    let fill = create(&volume, "fill");
    fill.change_range(0..others, RangeMode::Allocate(AllocateMode::Extend)).unwrap();
    drop(fill);
    volume.sync().unwrap();
    let after_sync = recorder.position();
    for number in 4..12 {
        let file = create(&volume, &format!("g{number}"));
        file.write_at(&[pattern(number); 30_000], 0).unwrap();
        file.change_range(8192..12_000, RangeMode::Punch).unwrap();
        // A cut after the sync and before that of the removal brings the file back.
        file.sync_all().unwrap();
        drop(file);
        volume.remove_file(format!("/g{number}")).unwrap();
    }
    volume.close().unwrap();
    let recording = recorder.recording();
    let cuts = PowerCuts::new(&recording, atomicity);
    for seed in 0..24 {
        let cut = cuts.sample(seed);
        let after = Arc::new(RecordingDevice::of(cuts.after(cut)));
        let [data, realtime] = after.split(DATA_BYTES);
        let disks = Disks { data, realtime };
        let volume = disks.open();
        let synced = if cut.point() >= after_sync { 0..4 } else { 0..0 };
        check_after_cut(&volume, &synced, &cut.to_string());
        volume.close().unwrap();
        if seed % 8 == 0 {
            disks.check();
        }
    }
}
