//! Tests of shrinking a volume that is not open: sizes and their refusals, every kind of block that
//! moves, the tree before and after, `check`, xfs_repair, and a power cut at every write.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ferroxfs::admin::{ShrinkError, ShrinkLimit, Shrunk};
use ferroxfs::attr::SetMode;
use ferroxfs::check::{CheckOptions, Code};
use ferroxfs::contents::{AllocateMode, ForkKind, RangeMode};
use ferroxfs::device::SharedDevice;
use ferroxfs::{Node, OpenOptions, Volume};
use xfs_oracle::Xfsprogs;
use xfs_oracle::harness::seeds;
use xfs_testkit::{Atomicity, Cut, PowerCuts, Prng, Recording, RecordingDevice};
use xfs_trans::testing::{is_clean, make_sized, superblock};

const BLOCK: u64 = 4096;
/// Four groups of 16 MiB.
const DEVICE_BYTES: u64 = 64 << 20;
const GROUP_BLOCKS: u64 = (16 << 20) / BLOCK;
/// The options of mkfs for volumes of the tests. The log is in the first group, so that a volume
/// can lose its last groups.
const USUAL: &str = "-d agcount=4 -l size=11m,agnum=0";

fn make(options: &str) -> SharedDevice {
    make_sized(DEVICE_BYTES, &format!("{USUAL} {options}"))
}

fn open(device: &SharedDevice) -> Volume {
    OpenOptions::new().write(true).open_device(Arc::clone(device)).unwrap()
}

fn shrink(device: &SharedDevice, blocks: Option<u64>) -> Result<Shrunk, ShrinkError> {
    OpenOptions::new().write(true).with_devices(Arc::clone(device), None).shrink(blocks)
}

/// One file as the test compares it. Shrinking changes neither names nor contents nor times nor the
/// places of holes; it changes the places of blocks on the device.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    facts: String,
    contents: Vec<u8>,
    attributes: BTreeMap<String, Vec<u8>>,
    /// Start, length, and whether the extent is unwritten, with adjacent extents joined.
    ranges: Vec<(u64, u64, bool)>,
}

type Tree = BTreeMap<String, Seen>;

fn see(node: &Node) -> Seen {
    let found = node.metadata();
    let contents = if found.is_file() {
        let mut bytes = vec![0; found.size as usize];
        let read = node.open_read_only().unwrap().read_at(&mut bytes, 0).unwrap();
        assert_eq!(read, bytes.len());
        bytes
    } else if found.is_symlink() {
        node.read_link().unwrap().into_encoded_bytes()
    } else {
        Vec::new()
    };
    let attributes = node.attributes().into_iter().map(|found| {
        let name = found.unwrap().name;
        let value = node.attribute(&name).unwrap();
        (name.to_string_lossy().into_owned(), value)
    });
    let mut ranges: Vec<(u64, u64, bool)> = Vec::new();
    for extent in node.extents(ForkKind::Data).map(|extent| extent.unwrap()) {
        let new = (extent.offset_bytes, extent.length_bytes, extent.unwritten);
        match ranges.last_mut() {
            Some(last) if last.0 + last.1 == new.0 && last.2 == new.2 => last.1 += new.1,
            _ => ranges.push(new),
        }
    }
    let facts = format!(
        "{:?} {} {:o} {}:{} links {} size {} {:?} {:?} {:?} {:?} {:?}",
        found.file_type,
        found.number.0,
        found.mode,
        found.uid,
        found.gid,
        found.nlink,
        found.size,
        found.accessed,
        found.modified,
        found.changed,
        found.created,
        found.xflags
    );
    Seen { facts, contents, attributes: attributes.collect(), ranges }
}

fn tree(device: &SharedDevice) -> Tree {
    let volume = OpenOptions::new().open_device(Arc::clone(device)).unwrap();
    let mut tree: Tree = BTreeMap::new();
    tree.insert("/".to_owned(), see(&volume.root().unwrap()));
    for entry in volume.walk("/").unwrap() {
        let entry = entry.unwrap();
        tree.insert(entry.path.to_string_lossy().into_owned(), see(&entry.node));
    }
    tree
}

/// Whether the copies of the superblock must have the size of the superblock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copies {
    Same,
    MayBeOld,
}

/// Checks the closed volume with `check`.
fn check(device: &SharedDevice, copies: Copies) {
    assert!(is_clean(device));
    let volume = OpenOptions::new().open_device(Arc::clone(device)).unwrap();
    let mut findings = volume.check(CheckOptions::default(), &()).unwrap().findings;
    findings.retain(|finding| copies == Copies::Same || finding.code != Code::SbCopy);
    assert!(findings.is_empty(), "{findings:?}");
    check_chunks(&volume);
}

/// Checks that each chunk of inodes ends before its group does, also a sparse one: the kernel and
/// xfs_repair refuse the numbers of other inodes.
fn check_chunks(volume: &Volume) {
    let geometry = volume.geometry();
    for group in geometry.groups() {
        let before = u64::from(group.0) * u64::from(geometry.ag_blocks);
        let length = (geometry.data_blocks - before).min(geometry.ag_blocks.into());
        for chunk in xfs_alloc::inode_chunks(volume.cache(), group).unwrap() {
            let first = geometry.ag_inode_block(chunk.unwrap().start);
            let end = first.0 + geometry.chunk_blocks();
            assert!(u64::from(end) <= length, "group {}: {end} of {length}", group.0);
        }
    }
}

/// Checks the closed volume with xfs_repair, if it is installed. It sees a file of the size of the
/// volume only, so nothing may be read after the new end.
fn repair(device: &SharedDevice) {
    let Ok(programs) = Xfsprogs::newer() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = vec![0; superblock(device).geometry.data_bytes() as usize];
    device.read_at(&mut bytes, 0).unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, bytes).unwrap();
    let output = programs.command("xfs_repair").arg("-n").arg(path).output().unwrap();
    let text = String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).into_owned();
    assert!(output.status.success(), "{text}");
    for word in ["discrepancy", "would ", "bad ", "inconsistent"] {
        let is_plain = |line: &&str| !line.starts_with("No modify flag set");
        let found = text.lines().filter(is_plain).find(|line| line.contains(word));
        assert_eq!(found, None, "{text}");
    }
}

/// Checks that the volume has shrunk as `shrunk` says, with the tree `before`, and that it can
/// still be written to.
fn check_shrunk(device: &SharedDevice, shrunk: Shrunk, before: &Tree) {
    let found = superblock(device).geometry;
    assert_eq!(found.data_blocks, shrunk.blocks);
    assert_eq!(u64::from(found.ag_count), shrunk.blocks.div_ceil(found.ag_blocks.into()));
    check(device, Copies::Same);
    repair(device);
    assert!(tree(device) == *before, "the tree is not the same");
    let volume = open(device);
    volume.write("/after", b"written after the volume has shrunk").unwrap();
    volume.remove_file("/after").unwrap();
    volume.close().unwrap();
    check(device, Copies::Same);
}

/// Allocates blocks for a file until some of them are past byte `end` of the device. Files that are
/// written next get blocks there.
fn fill_up_to(volume: &Volume, path: &str, end: u64) {
    let file = volume.create_file(path).unwrap();
    let piece = 64 << 10;
    for index in 0.. {
        let range = index * piece..(index + 1) * piece;
        file.change_range(range, RangeMode::Allocate(AllocateMode::Extend)).unwrap();
        let mut extents = file.node().extents(ForkKind::Data).map(|extent| extent.unwrap());
        if extents.any(|extent| extent.device_offset_bytes + extent.length_bytes > end) {
            return;
        }
    }
}

/// Returns the group of an inode.
fn group_of(volume: &Volume, path: impl AsRef<Path>) -> u32 {
    let number = volume.lookup_no_follow(path).unwrap().number();
    volume.geometry().split_inode(number).unwrap().0.0
}

/// Makes a directory whose inode is in the first group.
fn make_low_directory(volume: &Volume, path: &str) {
    let mut others = Vec::new();
    loop {
        volume.create_dir(path).unwrap();
        if group_of(volume, path) == 0 {
            break;
        }
        let other = format!("/other {}", others.len());
        volume.rename(path, &other).unwrap();
        others.push(other);
    }
    others.iter().for_each(|other| volume.remove_dir(other).unwrap());
}

/// Makes a volume whose inodes are in the first group, and whose other blocks are mostly after the
/// second one. It has contents in many extents with holes and unwritten parts, and shared blocks.
/// It has all forms of directories and attributes, long values and long links. A larger `scale`
/// makes more of each.
fn populate(device: &SharedDevice, seed: u64, scale: u64) {
    let mut random = Prng::new(seed);
    let volume = open(device);
    let shares = volume.geometry().has_ro_compat(ferroxfs::raw::format::RoCompatFeatures::REFLINK);
    let mut bytes =
        |length: usize| -> Vec<u8> { (0..length).map(|_| random.number() as u8).collect() };
    // The chunks of inodes stay in the first group.
    for index in 0..160 {
        volume.write(format!("/early {index}"), b"").unwrap();
    }
    for name in ["block", "leaf", "node", "kept"] {
        make_low_directory(&volume, &format!("/{name}"));
    }
    fill_up_to(&volume, "/spacer", 33 << 20);
    for (index, name) in (0..).zip(["plain", "many", "sparse", "unwritten", "source"]) {
        let file = volume.open_file(format!("/early {index}")).unwrap();
        let blocks = if name == "many" { 150 * scale } else { 20 };
        for block in 0..blocks {
            // Every other block first, so that extents are short.
            let step = if name == "plain" { 1 } else { 2 };
            file.write_at(&bytes(4096), block * step * 4096).unwrap();
            if name == "many" && block % 8 == 0 {
                file.sync_data().unwrap();
            }
        }
        if name == "unwritten" {
            let range = (100 << 12)..(150 << 12);
            file.change_range(range, RangeMode::Allocate(AllocateMode::Extend)).unwrap();
        }
        drop(file);
        volume.rename(format!("/early {index}"), format!("/{name}")).unwrap();
    }
    if shares {
        let source = volume.open_file("/source").unwrap();
        for index in 5..8 {
            let path = format!("/early {index}");
            let copy = volume.open_file(&path).unwrap();
            copy.clone_range(0, &source, 0, source.metadata().size).unwrap();
            copy.write_at(b"changed", 4096 * 4).unwrap();
        }
    }
    for (name, entries) in [("block", 20), ("leaf", 150), ("node", 300 * scale)] {
        for index in 0..entries {
            let path = format!("/{name}/entry {index:060}");
            volume.hard_link("/early 20", path).unwrap();
        }
    }
    for (index, count) in [(21, 1), (22, 40), (23, 150 * scale)] {
        let node = volume.lookup(format!("/early {index}")).unwrap();
        for number in 0..count {
            let name = format!("user.attribute {number}");
            node.set_attribute(&name, &bytes(100), SetMode::Create).unwrap();
        }
        node.set_attribute("user.long", &bytes(30_000), SetMode::Create).unwrap();
    }
    for index in 30..70 {
        volume.remove_file(format!("/early {index}")).unwrap();
    }
    for index in 0..8 {
        let target = format!("/{}/{index}", "long target ".repeat(70));
        volume.symlink(target, format!("/link {index}")).unwrap();
    }
    volume.remove_file("/spacer").unwrap();
    volume.close().unwrap();
}

/// Returns the number of blocks of files and of their maps that stand after block `end`.
fn blocks_after(device: &SharedDevice, end: u64) -> u64 {
    let volume = OpenOptions::new().open_device(Arc::clone(device)).unwrap();
    let mut blocks = 0;
    for entry in volume.walk("/").unwrap().map(|entry| entry.unwrap()) {
        for fork in [ForkKind::Data, ForkKind::Attr] {
            for extent in entry.node.extents(fork).map(|extent| extent.unwrap()) {
                let start = extent.device_offset_bytes / BLOCK;
                blocks += (start + extent.length_bytes / BLOCK).saturating_sub(start.max(end));
            }
        }
    }
    blocks
}

#[test]
fn empty_volume_loses_whole_groups() {
    let device = make("");
    let before = tree(&device);
    let shrunk = shrink(&device, Some(3 * GROUP_BLOCKS)).unwrap();
    assert_eq!((shrunk.blocks_before, shrunk.blocks), (4 * GROUP_BLOCKS, 3 * GROUP_BLOCKS));
    check_shrunk(&device, shrunk, &before);
}

#[test]
fn empty_volume_loses_the_end_of_a_group() {
    for blocks in [4 * GROUP_BLOCKS - 1, 3 * GROUP_BLOCKS + 64, 2 * GROUP_BLOCKS + 700] {
        let device = make("");
        let before = tree(&device);
        let shrunk = shrink(&device, Some(blocks)).unwrap();
        assert_eq!(shrunk.blocks, blocks);
        check_shrunk(&device, shrunk, &before);
    }
}

#[test]
fn volume_shrinks_to_its_least_size_and_grows_again() {
    let device = make("");
    let before = tree(&device);
    let shrunk = shrink(&device, None).unwrap();
    assert_eq!(shrunk.blocks, 2 * GROUP_BLOCKS);
    check_shrunk(&device, shrunk, &before);
    assert_eq!(shrink(&device, None).unwrap().blocks, shrunk.blocks);
    let volume = open(&device);
    assert_eq!(volume.grow(None).unwrap(), 4 * GROUP_BLOCKS);
    volume.close().unwrap();
    check(&device, Copies::Same);
    repair(&device);
}

#[test]
fn impossible_size_is_refused_with_the_least_size() {
    let device = make("");
    let has = 4 * GROUP_BLOCKS;
    let larger = shrink(&device, Some(has + 1));
    assert!(matches!(larger, Err(ShrinkError::Grows { .. })), "{larger:?}");
    let small = shrink(&device, Some(100));
    let limit = ShrinkLimit::Smallest;
    let least = 2 * GROUP_BLOCKS;
    assert!(
        matches!(small, Err(ShrinkError::TooSmall { wanted: 100, least: found, limit: why })
            if found == least && why == limit),
        "{small:?}"
    );
    for wanted in [0, 1, 63] {
        let none = shrink(&device, Some(wanted));
        assert!(matches!(none, Err(ShrinkError::TooSmall { .. })), "{wanted}: {none:?}");
    }
    let device = make_sized(DEVICE_BYTES, "-d agcount=4 -l size=8m,agnum=3");
    let log = shrink(&device, Some(2 * GROUP_BLOCKS));
    assert!(matches!(log, Err(ShrinkError::TooSmall { limit: ShrinkLimit::Log, .. })), "{log:?}");
    let shrunk = shrink(&device, None).unwrap();
    assert!(shrunk.blocks < has && shrunk.blocks > 3 * GROUP_BLOCKS, "{shrunk:?}");
    check(&device, Copies::Same);
}

fn check_populated(options: &str, blocks: Option<u64>) {
    let device = make(options);
    populate(&device, 1, 4);
    let before = tree(&device);
    let end = blocks.unwrap_or(2 * GROUP_BLOCKS + 100);
    let after = blocks_after(&device, end);
    assert!(after > 500, "{after} blocks test too little");
    let shrunk = shrink(&device, blocks).unwrap();
    assert!(shrunk.blocks <= end, "{shrunk:?}");
    check_shrunk(&device, shrunk, &before);
}

#[test]
fn blocks_of_all_kinds_move_before_the_new_end() {
    check_populated("-m rmapbt=1,reflink=1", Some(2 * GROUP_BLOCKS));
    check_populated("-m rmapbt=0,reflink=0", Some(2 * GROUP_BLOCKS + 500));
    check_populated("-m rmapbt=1,reflink=1", None);
}

#[test]
fn blocks_of_volumes_with_other_formats_move() {
    check_populated("-m rmapbt=1,reflink=1 -n size=16384", Some(2 * GROUP_BLOCKS + 70));
    check_populated("-m rmapbt=1,reflink=1 -n parent=1", Some(2 * GROUP_BLOCKS));
    check_populated("-m finobt=0,rmapbt=0,reflink=0,inobtcount=0", Some(2 * GROUP_BLOCKS + 64));
}

/// Checks that files that shared their blocks still share them.
#[test]
fn shared_blocks_stay_shared() {
    let device = make("-m rmapbt=1,reflink=1");
    populate(&device, 2, 1);
    let places = |path: &str| -> Vec<u64> {
        let volume = OpenOptions::new().open_device(Arc::clone(&device)).unwrap();
        let node = volume.lookup(path).unwrap();
        let extents = node.extents(ForkKind::Data).map(|extent| extent.unwrap());
        extents
            .flat_map(|extent| {
                let start = extent.device_offset_bytes / BLOCK;
                start..start + extent.length_bytes / BLOCK
            })
            .collect()
    };
    let common = || {
        let (left, right) = (places("/source"), places("/early 6"));
        left.iter().zip(&right).filter(|(left, right)| left == right).count()
    };
    let (before, old) = (common(), places("/source"));
    assert!(before > 10, "{before}");
    shrink(&device, Some(2 * GROUP_BLOCKS)).unwrap();
    assert_eq!(common(), before);
    assert!(places("/source") != old, "the blocks have moved");
}

/// A volume that shrinks, with a power cut on the way.
struct Cutting {
    device: SharedDevice,
    before: Tree,
    blocks: u64,
    /// Number of cuts that were followed by another attempt.
    attempts: u32,
    /// How often each size was seen.
    sizes: BTreeMap<u64, u32>,
}

impl Cutting {
    fn new(device: SharedDevice, blocks: u64) -> Self {
        let before = tree(&device);
        Self { device, before, blocks, attempts: 0, sizes: BTreeMap::new() }
    }

    /// Shrinks the volume. Returns the recording of the writes, or `None` if the volume cannot be
    /// that small; nothing else may prevent it.
    fn record(&self) -> Option<Recording> {
        let recorder = Arc::new(RecordingDevice::new(Arc::clone(&self.device)));
        match shrink(&(Arc::clone(&recorder) as SharedDevice), Some(self.blocks)) {
            Ok(shrunk) => assert_eq!(shrunk.blocks, self.blocks),
            Err(ShrinkError::TooSmall { .. }) => return None,
            Err(error) => panic!("{error}"),
        }
        Some(recorder.recording())
    }

    /// Checks that the volume, recovered after a cut, has the whole tree and a size between the old
    /// and the new one, and that `check` finds nothing. Every fourth volume is shrunk again.
    fn check_cut(&mut self, cuts: &PowerCuts<'_>, cut: Cut) {
        let cut_off: SharedDevice = Arc::new(cuts.after(cut));
        open(&cut_off).close().unwrap();
        let has = superblock(&cut_off).geometry.data_blocks;
        let whole = self.blocks.next_multiple_of(GROUP_BLOCKS);
        assert!([4 * GROUP_BLOCKS, whole, self.blocks].contains(&has), "{has} blocks: {cut}");
        *self.sizes.entry(has).or_default() += 1;
        check(&cut_off, Copies::MayBeOld);
        assert!(tree(&cut_off) == self.before, "the tree is not the same: {cut}");
        self.attempts += 1;
        if has != self.blocks && self.attempts.is_multiple_of(4) {
            assert_eq!(shrink(&cut_off, Some(self.blocks)).unwrap().blocks, self.blocks, "{cut}");
            check(&cut_off, Copies::Same);
            assert!(tree(&cut_off) == self.before, "the tree is not the same: {cut}");
        }
    }
}

/// Cuts the power after some of the writes of a volume that shrinks, or after each of them.
#[test]
fn power_cut_while_a_volume_shrinks_leaves_the_whole_tree() {
    let is_long = std::env::var_os("FERROXFS_LONG").is_some();
    let device = make("-m rmapbt=1,reflink=1");
    populate(&device, 1, 1);
    let mut cutting = Cutting::new(device, 2 * GROUP_BLOCKS + 300);
    let recording = cutting.record().expect("the volume can be that small");
    let cuts = PowerCuts::new(&recording, Atomicity::of(&superblock(&cutting.device)));
    let count = recording.requests().len();
    // The last writes change the size.
    let last = count.saturating_sub(40);
    let (step, last_step) = if is_long { (1, 1) } else { (count / 5 + 1, 5) };
    for point in (0..last).step_by(step).chain((last..=count).step_by(last_step)) {
        cuts.at(point, 1).for_each(|cut| cutting.check_cut(&cuts, cut));
    }
    assert!(cutting.sizes.len() >= 2, "no cut after a change of the size: {:?}", cutting.sizes);
}

/// Cuts the power at random moments while volumes with random contents, formats and sizes shrink.
/// `FERROXFS_LONG=1` tries 500 seeds, and `FERROXFS_SEED` names others.
#[test]
fn power_cuts_of_random_volumes_leave_the_whole_tree() {
    let is_long = std::env::var_os("FERROXFS_LONG").is_some();
    let formats = [
        "-m rmapbt=1,reflink=1",
        "-m rmapbt=0,reflink=1",
        "-m rmapbt=1,reflink=0 -i sparse=0",
        "-m finobt=0,rmapbt=0,reflink=0,inobtcount=0",
        "-m rmapbt=1,reflink=1 -n parent=1",
        "-m rmapbt=1,reflink=1 -n size=8192",
    ];
    let mut tried = 0;
    for seed in seeds(if is_long { 500 } else { 3 }) {
        let mut random = Prng::new(seed);
        let device = make(formats[random.within(0..formats.len())]);
        populate(&device, seed, 1);
        // The whole last group, or a part of it and of the one before.
        let end = match random.within(0..3) {
            0 => 3 * GROUP_BLOCKS,
            1 => 2 * GROUP_BLOCKS + random.within(64..1500) as u64,
            _ => 3 * GROUP_BLOCKS + random.within(64..4000) as u64,
        };
        let mut cutting = Cutting::new(device, end);
        let Some(recording) = cutting.record() else { continue };
        tried += 1;
        let cuts = PowerCuts::new(&recording, Atomicity::of(&superblock(&cutting.device)));
        for sample in 0..3 {
            cutting.check_cut(&cuts, cuts.sample(3 * seed + sample));
        }
    }
    assert!(tried > 0, "every volume was too small");
}
