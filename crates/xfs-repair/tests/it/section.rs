//! Repairs of volumes with a realtime section or a metadata directory.
//!
//! Each trial damages one place of a small volume that a guest's kernel has filled. After one run
//! the volume must be clean for the checker and for xfs_repair, with all names and contents.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;

use xfs_check::{CheckOptions, CheckedDevices, Report, check_devices};
use xfs_device::{BlockDevice, Durability, OverlayDevice, SharedDevice, WindowDevice};
use xfs_evidence::Evidence;
use xfs_format::inode::{FileType, ForkKind};
use xfs_format::realtime::RealtimeBlockKind;
use xfs_format::{BlockKind, DiskAddr, FileBlock, FsBlock, Geometry, InodeNumber, Lsn, Superblock};
use xfs_oracle::Xfsprogs;
use xfs_repair::{
    JoinedDevice, LogOutcome, LogReplay, PlanOptions, RehearsalOptions, Rehearsed, RepairError,
    plan_repair, realtime_start, rehearse, resume, undo,
};
use xfs_testkit::{Image, RealtimeSection, golden_metadata_directory};

use crate::trial::{Shape, superblock_of};

/// The most bytes of writes that an overlay device keeps in memory.
const OVERLAY_BYTES: u64 = 64 << 20;
const INODE_BYTES: usize = 512;
const BLOCK_BYTES: usize = 4096;

/// A volume that is to be damaged, with its devices joined.
struct Section {
    device: SharedDevice,
    data_bytes: u64,
    has_device: bool,
    geometry: Geometry,
}

impl Section {
    fn of(data: Image, realtime: Option<Image>) -> Self {
        let geometry = data.geometry();
        let data: SharedDevice = Arc::new(data);
        let (data_bytes, has_device) = (data.length_bytes(), realtime.is_some());
        let below: SharedDevice = match realtime {
            Some(realtime) => Arc::new(JoinedDevice::new(data, Arc::new(realtime))),
            None => data,
        };
        let device = Arc::new(OverlayDevice::new(below, OVERLAY_BYTES));
        Self { device, data_bytes, has_device, geometry }
    }

    fn new(section: RealtimeSection) -> Self {
        Self::of(section.data(), section.device())
    }

    /// Returns the devices of the volume, as seen on `device`.
    fn parts(&self, device: &SharedDevice) -> (WindowDevice, Option<WindowDevice>) {
        let start = realtime_start(self.data_bytes);
        let data = WindowDevice::new(device.clone(), 0, self.data_bytes);
        let rest = device.length_bytes().saturating_sub(start);
        let realtime = self.has_device.then(|| WindowDevice::new(device.clone(), start, rest));
        (data, realtime)
    }

    fn report(&self, device: &SharedDevice) -> Report {
        let (data, realtime) = self.parts(device);
        let superblock = superblock_of(&data);
        let realtime = realtime.as_ref().map(|device| device as &dyn BlockDevice);
        let devices = CheckedDevices { data: &data, realtime };
        check_devices(devices, &superblock, &CheckOptions::default(), &()).expect("known features")
    }

    fn repair(&self, allow_loss: bool) -> (SharedDevice, Rehearsed) {
        let device: SharedDevice = Arc::new(OverlayDevice::new(self.device.clone(), OVERLAY_BYTES));
        let superblock = superblock_of(&*device);
        let options = RehearsalOptions {
            allow_loss,
            data_bytes: self.has_device.then_some(self.data_bytes),
            ..RehearsalOptions::default()
        };
        let rehearsed = rehearse(&device, &superblock, &options).expect("the overlay is large");
        (device, rehearsed)
    }

    /// Returns the contents of each regular file by its path.
    fn contents(&self, device: &SharedDevice, shape: &Shape) -> BTreeMap<String, Vec<u8>> {
        let superblock = superblock_of(&**device);
        let evidence = Evidence::new(&**device, &superblock);
        let block = u64::from(self.geometry.block_size);
        let mut contents = BTreeMap::new();
        for (path, inode) in &shape.paths {
            let found = evidence.inode(InodeNumber(*inode));
            let Some(core) = found.core() else { continue };
            if core.file_type() != Some(FileType::Regular) {
                continue;
            }
            let mut bytes = vec![0; core.size as usize];
            for extent in evidence.extents(&found, ForkKind::Data).extents {
                for index in 0..u64::from(extent.length_blocks) {
                    let start = FsBlock(extent.start.0 + index);
                    let at = (extent.file_block.0 + index) * block;
                    let count = (core.size.saturating_sub(at)).min(block) as usize;
                    if extent.unwritten || count == 0 {
                        continue;
                    }
                    let offset = self.offset(start, core.is_realtime());
                    let target = bytes.get_mut(at as usize..at as usize + count).expect("a part");
                    device.read_at(target, offset).expect("the block can be read");
                }
            }
            contents.insert(path.clone(), bytes);
        }
        contents
    }

    /// Returns the byte of the joined device that holds a block of a file.
    fn offset(&self, block: FsBlock, is_realtime: bool) -> u64 {
        let bytes = u64::from(self.geometry.block_size);
        if !is_realtime {
            return self.geometry.block_disk_addr(block).expect("a block").0 * 512;
        }
        let at = self.geometry.realtime.device_block(block).expect("a realtime block") * bytes;
        if self.has_device { at + realtime_start(self.data_bytes) } else { at }
    }

    fn bytes(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.device.read_at(&mut bytes, offset).expect("the bytes can be read");
        bytes
    }

    fn put(&self, offset: u64, bytes: &[u8]) {
        self.device.write_at(bytes, offset, Durability::Cached).expect("the overlay is large");
    }

    fn inode_offset(&self, inode: u64) -> u64 {
        let location = self.geometry.inode_location(InodeNumber(inode)).expect("an inode");
        location.cluster.0 * 512 + u64::from(location.offset_bytes)
    }

    fn edit_inode(&self, inode: u64, change: impl FnOnce(&mut [u8])) {
        let at = self.inode_offset(inode);
        let mut bytes = self.bytes(at, INODE_BYTES);
        change(&mut bytes);
        xfs_format::inode::seal(&mut bytes, Lsn(0));
        self.put(at, &bytes);
    }

    fn zero_inode(&self, inode: u64) {
        self.put(self.inode_offset(inode), &[0; INODE_BYTES]);
    }

    /// Returns the disk address of a block of a file on the data device.
    fn file_block(&self, inode: u64, block: u64) -> DiskAddr {
        let superblock = superblock_of(&*self.device);
        let evidence = Evidence::new(&*self.device, &superblock);
        let map = evidence.extents(&evidence.inode(InodeNumber(inode)), ForkKind::Data);
        let extent = map.find(FileBlock(block)).expect("the block is mapped");
        let start = FsBlock(extent.start.0 + (block - extent.file_block.0));
        self.geometry.block_disk_addr(start).expect("a block of the volume")
    }

    /// Changes a block, and seals it as a block of `kind`. A block of a section without groups has
    /// no checksum.
    fn edit_block(
        &self,
        at: DiskAddr,
        kind: Option<RealtimeBlockKind>,
        change: impl FnOnce(&mut [u8]),
    ) {
        let mut bytes = self.bytes(at.0 * 512, BLOCK_BYTES);
        change(&mut bytes);
        if let Some(kind) = kind {
            kind.seal(&mut bytes, Lsn(0));
        }
        self.put(at.0 * 512, &bytes);
    }

    fn edit_superblock(&self, change: impl FnOnce(&mut [u8])) {
        let mut bytes = self.bytes(0, 512);
        change(&mut bytes);
        BlockKind::Superblock.seal(&mut bytes, Lsn(0));
        self.put(0, &bytes);
    }

    /// Returns the inodes of the metadata directory by their paths.
    fn metadata(&self) -> BTreeMap<String, u64> {
        let superblock = superblock_of(&*self.device);
        let evidence = Evidence::new(&*self.device, &superblock);
        let mut found = BTreeMap::new();
        let Some(root) = superblock.metadata_directory_inode else { return found };
        found.insert(String::new(), root.0);
        for name in evidence.entries(&evidence.inode(root)).names {
            let directory = name.name.escape_ascii().to_string();
            found.insert(directory.clone(), name.child.0);
            for file in evidence.entries(&evidence.inode(name.child)).names {
                found.insert(format!("{directory}/{}", file.name.escape_ascii()), file.child.0);
            }
        }
        found
    }

    /// Returns the blocks of the btree in a metadata inode.
    fn tree_blocks(&self, inode: u64) -> Vec<DiskAddr> {
        let superblock = superblock_of(&*self.device);
        let evidence = Evidence::new(&*self.device, &superblock);
        let blocks = evidence.realtime_tree_blocks(&evidence.inode(InodeNumber(inode)));
        let at = |block: FsBlock| self.geometry.block_disk_addr(block).expect("a block");
        blocks.tree_blocks.into_iter().map(at).collect()
    }

    /// Asserts that xfs_repair -n finds nothing.
    fn judge(&self, device: &SharedDevice, what: &str) {
        let Ok(programs) = Xfsprogs::newer() else { return };
        let (data, realtime) = self.parts(device);
        let file = copy(&data);
        let mut command = programs.command("xfs_repair");
        command.args(["-n", "-f"]);
        let realtime = realtime.map(|device| copy(&device));
        if let Some(realtime) = &realtime {
            command.arg("-r").arg(realtime.path());
        }
        let output = command.arg(file.path()).output().expect("xfs_repair runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{what}: {said}");
    }
}

fn copy(device: &dyn BlockDevice) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut bytes = vec![0; device.length_bytes() as usize];
    device.read_at(&mut bytes, 0).expect("the device can be read");
    file.write_all(&bytes).expect("the file has room");
    file
}

fn words(report: &Report) -> Vec<String> {
    report.findings.iter().map(ToString::to_string).collect()
}

/// The kind of volume of a trial.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Section(RealtimeSection),
    MetadataDirectory,
}

const CLASSIC: Kind = Kind::Section(RealtimeSection::Classic);
const GROUPS: Kind = Kind::Section(RealtimeSection::Groups);
const ZONED: Kind = Kind::Section(RealtimeSection::Zoned);

impl Kind {
    fn volume(self) -> Section {
        match self {
            Self::Section(section) => Section::new(section),
            Self::MetadataDirectory => Section::of(golden_metadata_directory(), None),
        }
    }
}

/// The results of the trials of a test.
#[derive(Default)]
struct Trials {
    count: usize,
    /// The number of damages that the checker does not notice: they do no harm.
    harmless: usize,
    failures: Vec<String>,
}

impl Trials {
    /// Returns the next change of a byte.
    fn change(&self) -> fn(u8) -> u8 {
        CHANGES[self.count % CHANGES.len()]
    }

    /// Damages a volume, repairs it without losses, and compares it with the undamaged one.
    /// xfs_repair judges one of `judged` trials.
    fn run(&mut self, kind: Kind, judged: usize, what: &str, damage: impl FnOnce(&Section)) {
        self.count += 1;
        let volume = kind.volume();
        let before = Shape::of(&*volume.device);
        let contents = volume.contents(&volume.device, &before);
        damage(&volume);
        let damaged = volume.report(&volume.device);
        if damaged.is_clean() {
            self.harmless += 1;
            return;
        }
        let (device, rehearsed) = volume.repair(false);
        let report = volume.report(&device);
        let rules: Vec<&str> = rehearsed.actions.iter().map(|action| action.rule).collect();
        if !report.is_clean() {
            self.failures.push(format!(
                "{kind:?} {what}: damaged {:?}\nleft {:#?} {:?}\nrules {rules:?}",
                words(&damaged),
                words(&report),
                report.unchecked
            ));
            return;
        }
        let losses = rehearsed.actions.iter().flat_map(|action| &action.loses).count();
        let after = Shape::of(&*device);
        if losses > 0 || after != before || volume.contents(&device, &after) != contents {
            let text = format!("{kind:?} {what}: names or contents differ, {losses} losses");
            self.failures.push(text);
        }
        if self.count.is_multiple_of(judged) {
            volume.judge(&device, what);
        }
    }

    /// Asserts that all trials have succeeded, and that at most `harmless` damages did no harm.
    fn assert_all(self, harmless: usize) {
        let Self { count, harmless: found, failures } = self;
        println!("{count} trials, {found} of them without harm");
        assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n\n"));
        assert!(found <= harmless, "{found} of {count} damages did no harm");
    }
}

/// Returns the distance between two bytes that trials change: 5, or 1 with `FERROXFS_LONG`.
fn stride() -> usize {
    if std::env::var_os("FERROXFS_LONG").is_some() { 1 } else { 5 }
}

/// The changes that trials make to a byte, in turn.
const CHANGES: [fn(u8) -> u8; 3] = [|byte| byte ^ 1, |byte| byte ^ 0x80, |_| 0xff];

#[test]
fn sound_volumes_are_not_changed() {
    for kind in [CLASSIC, GROUPS, ZONED, Kind::MetadataDirectory] {
        let volume = kind.volume();
        let report = volume.report(&volume.device);
        assert!(report.is_clean(), "{kind:?} {:?}", words(&report));
        let (_, rehearsed) = volume.repair(true);
        assert!(rehearsed.actions.is_empty(), "{kind:?} {:?}", rehearsed.actions);
    }
}

#[test]
fn fields_of_metadata_inodes_are_set_from_their_paths() {
    let mut trials = Trials::default();
    // Mode, type, owner, link count, project, size, blocks, unused fields, flags, second flags.
    let fields: [(usize, usize); 11] = [
        (2, 2),
        (6, 2),
        (8, 4),
        (12, 4),
        (16, 4),
        (20, 4),
        (56, 8),
        (64, 8),
        (84, 6),
        (90, 2),
        (120, 8),
    ];
    let paths = ["", "rtgroups", "quota", "rtgroups/0.bitmap", "rtgroups/1.summary"];
    let trees = ["rtgroups/0.rmap", "rtgroups/0.refcount", "quota/user"];
    for kind in [GROUPS, ZONED, Kind::MetadataDirectory] {
        let files = kind.volume().metadata();
        let known = paths.iter().chain(&trees).filter(|path| files.contains_key(**path));
        for path in known {
            let inode = files[*path];
            for (offset, length) in fields {
                for at in [offset, offset + length - 1] {
                    let change = trials.change();
                    trials.run(kind, 7, &format!("byte {at} of {path}"), |volume| {
                        volume.edit_inode(inode, |bytes| bytes[at] = change(bytes[at]));
                    });
                }
            }
        }
    }
    trials.assert_all(10);
}

#[test]
fn lost_metadata_inodes_are_made_again() {
    let mut trials = Trials::default();
    for kind in [GROUPS, ZONED, Kind::MetadataDirectory] {
        for (path, inode) in kind.volume().metadata() {
            trials.run(kind, 1, &format!("lost {path}"), |volume| volume.zero_inode(inode));
        }
    }
    for inode in [129, 130] {
        trials.run(CLASSIC, 1, &format!("lost {inode}"), |volume| volume.zero_inode(inode));
    }
    trials.assert_all(0);
}

#[test]
fn bitmaps_and_summaries_are_written_from_the_owners() {
    let mut trials = Trials::default();
    let groups = GROUPS.volume().metadata();
    let mut files = vec![(CLASSIC, 129, None), (CLASSIC, 130, None)];
    for group in 0..2 {
        let inode = |end: &str| groups[&format!("rtgroups/{group}.{end}")];
        files.push((GROUPS, inode("bitmap"), Some(RealtimeBlockKind::Bitmap)));
        files.push((GROUPS, inode("summary"), Some(RealtimeBlockKind::Summary)));
    }
    for (kind, inode, block_kind) in files {
        for at in (0..96).step_by(stride()).chain([200, 1000, 4095]) {
            let change = trials.change();
            trials.run(kind, 10, &format!("byte {at} of {inode}"), |volume| {
                let block = volume.file_block(inode, 0);
                volume.edit_block(block, block_kind, |bytes| bytes[at] = change(bytes[at]));
            });
        }
        for byte in [0, 0xff] {
            trials.run(kind, 1, &format!("{byte} over {inode}"), |volume| {
                let block = volume.file_block(inode, 0);
                volume.edit_block(block, None, |bytes| bytes.fill(byte));
            });
        }
    }
    // The checksum is written again, and bytes after the last counter of a summary have no meaning.
    trials.assert_all(if stride() == 1 { 250 } else { 80 });
}

#[test]
fn records_of_realtime_groups_are_written_from_the_owners() {
    let mut trials = Trials::default();
    for (kind, path, block_kind) in [
        (GROUPS, "rtgroups/0.rmap", RealtimeBlockKind::ReverseMap),
        (GROUPS, "rtgroups/0.refcount", RealtimeBlockKind::Refcount),
        (GROUPS, "rtgroups/3.rmap", RealtimeBlockKind::ReverseMap),
        (ZONED, "rtgroups/0.rmap", RealtimeBlockKind::ReverseMap),
        (ZONED, "rtgroups/1.rmap", RealtimeBlockKind::ReverseMap),
    ] {
        let volume = kind.volume();
        let inode = volume.metadata()[path];
        for at in (176..176 + 56).step_by(stride()) {
            let change = trials.change();
            trials.run(kind, 10, &format!("byte {at} of {path}"), |volume| {
                volume.edit_inode(inode, |bytes| bytes[at] = change(bytes[at]));
            });
        }
        for block in volume.tree_blocks(inode) {
            for at in (0..72 + 48).step_by(stride()) {
                let change = trials.change();
                trials.run(kind, 10, &format!("byte {at} of a block of {path}"), |volume| {
                    volume.edit_block(block, Some(block_kind), |bytes| {
                        bytes[at] = change(bytes[at]);
                    });
                });
            }
            trials.run(kind, 1, &format!("zeros in {path}"), |volume| {
                volume.edit_block(block, None, |bytes| bytes.fill(0));
            });
        }
    }
    // Bytes of a root after its last record have no meaning.
    trials.assert_all(if stride() == 1 { 250 } else { 80 });
}

#[test]
fn counters_and_superblocks_of_sections_are_right_after_a_repair() {
    let mut trials = Trials::default();
    for kind in [CLASSIC, GROUPS, ZONED] {
        trials.run(kind, 1, "frextents", |volume| {
            volume.edit_superblock(|bytes| bytes[159] = bytes[159].wrapping_add(1));
        });
    }
    for at in [0, 5, 9, 12, 24, 40, 60, 4095] {
        trials.run(GROUPS, 1, "realtime superblock", |volume| {
            let start = realtime_start(volume.data_bytes);
            let mut bytes = volume.bytes(start, BLOCK_BYTES);
            bytes[at] ^= 1;
            volume.put(start, &bytes);
        });
    }
    let zoned = ZONED.volume().metadata();
    for at in 128..132 {
        trials.run(ZONED, 1, "used counter", |volume| {
            volume.edit_inode(zoned["rtgroups/0.rmap"], |bytes| bytes[at] ^= 1);
        });
    }
    for kind in [GROUPS, ZONED, Kind::MetadataDirectory] {
        trials.run(kind, 1, "root of the metadata directory", |volume| {
            volume.edit_superblock(|bytes| bytes[271] ^= 2);
        });
    }
    trials.assert_all(0);
}

/// Destroys the inodes of files of realtime groups, and the directory with their names. Checks that
/// the repair makes the files again under their old paths, and that nothing goes to `lost+found`.
#[test]
fn files_of_groups_without_any_trace_get_new_inodes() {
    for kind in [GROUPS, ZONED] {
        let volume = kind.volume();
        let before = Shape::of(&*volume.device);
        let contents = volume.contents(&volume.device, &before);
        let files = volume.metadata();
        volume.zero_inode(files["rtgroups"]);
        for end in ["0.bitmap", "0.summary", "1.rmap", "2.rmap"] {
            let inode = files.get(&format!("rtgroups/{end}"));
            inode.into_iter().for_each(|inode| volume.zero_inode(*inode));
        }
        let (device, rehearsed) = volume.repair(true);
        let report = volume.report(&device);
        assert!(report.is_clean(), "{kind:?} {:#?} {:#?}", words(&report), rehearsed.actions);
        volume.judge(&device, "files without a trace");
        let after = Shape::of(&*device);
        assert_eq!(before, after);
        assert!(volume.contents(&device, &after) == contents);
    }
}

#[test]
fn lost_realtime_files_are_made_again_with_their_contents() {
    for kind in [GROUPS, ZONED] {
        let volume = kind.volume();
        let before = Shape::of(&*volume.device);
        let contents = volume.contents(&volume.device, &before);
        let path = "/rt/fragments";
        volume.zero_inode(before.paths[path]);
        let (device, rehearsed) = volume.repair(true);
        let report = volume.report(&device);
        assert!(report.is_clean(), "{kind:?} {:#?}", words(&report));
        volume.judge(&device, path);
        let after = Shape::of(&*device);
        assert_eq!(before.paths, after.paths);
        assert_eq!(volume.contents(&device, &after)[path], contents[path], "{kind:?}");
        let lost: BTreeSet<InodeNumber> = rehearsed
            .actions
            .iter()
            .flat_map(|action| &action.loses)
            .filter_map(|loss| loss.inode)
            .collect();
        assert_eq!(lost, BTreeSet::from([InodeNumber(before.paths[path])]));
    }
}

/// Destroys the inode of a realtime file on a volume without a reverse map, so that the blocks of
/// the file are not known. Checks that a repair without losses does not change the bitmap.
#[test]
fn unreadable_inode_of_a_classic_volume_keeps_the_bitmap() {
    let volume = CLASSIC.volume();
    let before = Shape::of(&*volume.device);
    volume.zero_inode(before.paths["/rt/text"]);
    let bitmap = volume.file_block(129, 0);
    let bytes = volume.bytes(bitmap.0 * 512, BLOCK_BYTES);
    let (device, _) = volume.repair(false);
    let mut after = vec![0; BLOCK_BYTES];
    device.read_at(&mut after, bitmap.0 * 512).expect("the block can be read");
    assert!(bytes == after);
}

/// Checks that each golden volume has its kind of realtime section. Otherwise the other tests would
/// test nothing.
#[test]
fn golden_volumes_have_their_sections() {
    let has = |kind: Kind| -> Superblock { superblock_of(&*kind.volume().device) };
    assert!(has(CLASSIC).has_classic_realtime());
    assert!(has(GROUPS).has_realtime_groups());
    assert!(has(ZONED).geometry.realtime.is_internal());
}

/// Destroys inodes of an empty zoned volume whose section has a device of its own. Checks that the
/// repaired volume is clean.
#[test]
fn zoned_section_on_a_device_of_its_own_is_repaired() {
    let Ok(programs) = Xfsprogs::newer() else { return println!("skipped: no mkfs.xfs") };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| folder.path().join(name);
    for (name, length) in [("data", 48 << 20), ("realtime", 16 << 20)] {
        let file = std::fs::File::create(path(name)).expect("a temporary file");
        file.set_len(length).expect("the file can be sparse");
    }
    let section = format!("zoned=1,rgsize=1m,rtdev={}", path("realtime").display());
    let mut command = programs.command("mkfs.xfs");
    command.args(["-q", "-f", "--unsupported", "-d", "agcount=2", "-r", &section]);
    let output = command.arg(path("data")).output().expect("mkfs.xfs runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let image = |name: &str| Image::new(std::fs::read(path(name)).expect("the file was made"));
    let new_volume = || Section::of(image("data"), Some(image("realtime")));
    let files = new_volume().metadata();
    for damaged in ["", "rtgroups", "rtgroups/0.rmap", "rtgroups/7.rmap"] {
        let volume = new_volume();
        assert!(volume.report(&volume.device).is_clean());
        volume.zero_inode(files[damaged]);
        assert!(!volume.report(&volume.device).is_clean());
        let (device, _) = volume.repair(false);
        let report = volume.report(&device);
        assert!(report.is_clean(), "{damaged} {:#?}", words(&report));
        volume.judge(&device, damaged);
    }
}

/// A log that is clean.
struct Clean;

impl LogReplay for Clean {
    fn replay(&self, _device: SharedDevice) -> Result<LogOutcome, String> {
        Ok(LogOutcome::Clean)
    }
}

/// Damages both devices of a volume. Checks that one plan and one undo file cover both. Without the
/// realtime device, planning and applying must fail.
#[test]
fn plan_and_undo_file_cover_both_devices() {
    let parts = || -> (SharedDevice, SharedDevice) {
        let section = RealtimeSection::Groups;
        let wrap = |image: Image| Arc::new(OverlayDevice::new(Arc::new(image), OVERLAY_BYTES));
        (wrap(section.data()), wrap(section.device().expect("a device of its own")))
    };
    let bytes = |device: &SharedDevice| {
        let mut bytes = vec![0; device.length_bytes() as usize];
        device.read_at(&mut bytes, 0).expect("the device can be read");
        bytes
    };
    let (data, realtime) = parts();
    let zeros = [0; BLOCK_BYTES];
    realtime.write_at(&zeros, 0, Durability::Cached).expect("the overlay is large");
    let volume = GROUPS.volume();
    let inode = volume.inode_offset(volume.metadata()["rtgroups/0.bitmap"]);
    data.write_at(&zeros[..INODE_BYTES], inode, Durability::Cached).expect("the overlay is large");
    let before = (bytes(&data), bytes(&realtime));

    let refused = plan_repair(data.clone(), PlanOptions::new(&Clean), &());
    assert!(matches!(refused, Err(RepairError::NoRealtimeDevice)));
    let mut options = PlanOptions::new(&Clean);
    options.realtime = Some(realtime.clone());
    let rehearsal = plan_repair(data.clone(), options, &()).expect("the volume is repaired");
    let plan = rehearsal.plan();
    assert!(plan.leaves_clean(), "{:?}", plan.left);
    let start = realtime_start(data.length_bytes());
    assert_eq!(plan.realtime_start, Some(start));
    assert!(plan.runs.iter().any(|run| run.offset == start), "{:?}", plan.runs);
    assert!(plan.runs.iter().any(|run| run.offset < start));
    let file = tempfile::tempfile().expect("a temporary file");
    let undo_file = rehearsal.write_undo(file).expect("the file has room");

    let joined = JoinedDevice::new(data.clone(), realtime.clone());
    assert!(resume(&undo_file, &*data, &()).is_err());
    resume(&undo_file, &joined, &()).expect("the devices can be written");
    assert!(bytes(&realtime).starts_with(b"Frog"));
    undo(&undo_file, &joined, &()).expect("the devices can be written");
    assert!((bytes(&data), bytes(&realtime)) == before);
}
