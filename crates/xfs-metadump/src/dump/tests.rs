//! Tests of whole volumes: the golden image, sound and damaged, is dumped and opened again.

use std::ops::Range;
use std::sync::Arc;
use std::thread;

use xfs_check::{CheckOptions, Progress};
use xfs_device::{
    BlockDevice, MetadumpVersion, SharedDevice, StreamSource, WindowDevice, open_metadump,
};
use xfs_format::inode::InodeCore;
use xfs_format::{BlockKind, DiskAddr, InodeNumber, StructureAddress, Superblock};
use xfs_testkit::{Image, NeverWritten, golden};

use super::{DumpError, DumpOptions, DumpProgress, DumpReport, dump};
use crate::restore::{RestoreError, RestoreTarget, restore};

/// Strings from names, attribute values and link targets of the golden image. Together they cover
/// every form in which a volume stores names, values and targets.
const SECRETS: [&[u8]; 7] = [
    b"a-longer-node-entry",
    b"leaf-entry",
    b"block-",
    b"node-attribute",
    b"not-utf8",
    b"vvvvvvvv",
    b"xxxxxxxx",
];

/// Progress functions that ignore all reports, and never stop a dump or a check.
struct Silent;

impl DumpProgress for Silent {
    fn advance(&self, _done: u64, _total: u64) {}

    fn is_stopped(&self) -> bool {
        false
    }
}

impl Progress for Silent {
    fn advance(&self, _done: u64, _total: u64) {}

    fn is_stopped(&self) -> bool {
        false
    }
}

/// The target of a restore in memory: the volume as it is now, and a copy of it from each flush.
#[derive(Default)]
struct Memory(Vec<u8>, Vec<Vec<u8>>);

impl RestoreTarget for Memory {
    fn set_length(&mut self, length_bytes: u64) -> std::io::Result<()> {
        assert!(self.0.is_empty(), "a restore sets the length once, before it writes");
        // Zeroed by the allocator. In a debug build resize would write byte after byte.
        self.0 = vec![0; length_bytes as usize];
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.0
            .get_mut(offset as usize..)
            .unwrap()
            .get_mut(..bytes.len())
            .unwrap()
            .copy_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.1.push(self.0.clone());
        Ok(())
    }
}

/// Dumps an image from a device that panics when it is written (M1 of the crate).
fn dumped(image: &Image, options: DumpOptions) -> (Vec<u8>, DumpReport) {
    let device: SharedDevice = Arc::new(NeverWritten::new(image.clone()));
    let mut out = Vec::new();
    let report = dump(&device, options, &Silent, &mut out).unwrap();
    (out, report)
}

/// Restores a metadata image to memory.
fn restored(metadump: &[u8]) -> Image {
    let mut target = Memory::default();
    restore(StreamSource(metadump), &mut target, &|| false).unwrap();
    Image::new(target.0)
}

/// Returns the findings of the checker as text: code, place and values.
fn findings(device: &dyn BlockDevice) -> Vec<String> {
    let mut sector = vec![0; 512];
    device.read_at(&mut sector, 0).unwrap();
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).unwrap();
    let options = CheckOptions::default().threads(1).key(1, 2);
    let report = xfs_check::check(device, &superblock, &options, &Silent).unwrap();
    let mut found: Vec<_> = report
        .findings
        .iter()
        .map(|finding| format!("{:?} {:?} {}", finding.code, finding.place, finding.found))
        .collect();
    found.sort();
    found
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn with_version(version: MetadumpVersion, obfuscates: bool) -> DumpOptions {
    DumpOptions { version, obfuscates, ..DumpOptions::default() }
}

#[test]
fn golden_volume_stays_sound_in_every_form() {
    let original = findings(&golden());
    for version in [MetadumpVersion::One, MetadumpVersion::Two] {
        for obfuscates in [false, true] {
            let (bytes, report) = dumped(&golden(), with_version(version, obfuscates));
            assert_eq!(report.omissions, []);
            let image = restored(&bytes);
            assert_eq!(findings(&image), original);
            let sector = image.bytes(DiskAddr(0), 512).unwrap();
            let place = StructureAddress::Disk(DiskAddr(0));
            let superblock = Superblock::decode(&sector, place).unwrap();
            let device: SharedDevice = Arc::new(image.clone());
            assert!(!crate::log::LogCopy::open(&device, &superblock).is_dirty());
            let device = open_metadump(Arc::new(Image::new(bytes.clone())));
            // Images are whole sectors in version 1 only.
            if version == MetadumpVersion::One {
                assert_eq!(findings(&device.unwrap()), original);
            }
            for secret in SECRETS {
                assert_eq!(contains(&bytes, secret), !obfuscates, "{}", secret.escape_ascii());
            }
        }
    }
}

#[test]
fn both_versions_restore_the_same_bytes() {
    let restore = |version| restored(&dumped(&golden(), with_version(version, false)).0);
    let (one, two) = (restore(MetadumpVersion::One), restore(MetadumpVersion::Two));
    let length = one.length_bytes();
    assert_eq!(one.bytes(DiskAddr(0), length), two.bytes(DiskAddr(0), length));
}

#[test]
fn whole_blocks_are_those_of_the_volume() {
    let options = DumpOptions { whole_blocks: true, ..with_version(MetadumpVersion::Two, false) };
    let (bytes, report) = dumped(&golden(), options);
    let image = restored(&bytes);
    assert_eq!(image.length_bytes(), golden().length_bytes());
    let mut present = 0;
    for at in (0..image.length_bytes() / 512).map(|at| DiskAddr(at as u64)) {
        let unit = image.bytes(at, 512).unwrap();
        if unit.iter().any(|byte| *byte != 0) {
            present += 512;
            assert_eq!(Some(unit), golden().bytes(at, 512), "{at}");
        }
    }
    assert!(present <= report.written_bytes);
}

/// A generator of random numbers, with which tests choose the damage. The same seed gives the same
/// numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % limit
    }
}

/// Damages one to four of these metadata sectors. Each becomes noise or zeros, has one bit changed,
/// or, only with an even seed, becomes a copy of another sector.
fn damage(image: &mut Image, sectors: &[DiskAddr], seed: u64) {
    let mut numbers = Numbers(seed);
    for _ in 0..1 + numbers.below(4) {
        let any = |numbers: &mut Numbers| {
            let index = numbers.below(sectors.len() as u64) as usize;
            sectors.get(index).copied().unwrap()
        };
        let at = any(&mut numbers);
        let mut bytes = image.bytes(at, 512).unwrap();
        match numbers.below(4 - seed % 2) {
            0 => bytes.fill_with(|| numbers.below(256) as u8),
            1 => bytes.fill(0),
            2 => {
                let place = numbers.below(512) as usize;
                *bytes.get_mut(place).unwrap() ^= 1 << numbers.below(8);
            }
            _ => bytes = image.bytes(any(&mut numbers), 512).unwrap(),
        }
        image.replace(at, &bytes);
    }
}

#[test]
fn damaged_volumes_keep_their_findings_and_hide_their_names() {
    // One thread would work alone after the other tests of this crate have ended.
    thread::scope(|scope| {
        scope.spawn(|| check_damaged_volumes(0..8));
        check_damaged_volumes(8..16);
    });
}

/// Damages the golden volume with each seed. Compares the findings in the damaged volume with those
/// in its restored dump. Also checks that an obfuscated dump contains none of the names.
fn check_damaged_volumes(seeds: Range<u64>) {
    let whole = DumpOptions { whole_blocks: true, ..with_version(MetadumpVersion::One, false) };
    let metadata = restored(&dumped(&golden(), whole).0);
    let count = (metadata.length_bytes() / 512) as u64;
    let is_used = |at: &DiskAddr| metadata.bytes(*at, 512).unwrap().iter().any(|byte| *byte != 0);
    // The first superblock has a test of its own.
    let sectors: Vec<_> = (1..count).map(DiskAddr).filter(is_used).collect();
    for seed in seeds {
        let mut image = golden();
        damage(&mut image, &sectors, seed);
        let keep = DumpOptions { keeps_dirty_log: true, ..whole };
        let (bytes, _) = dumped(&image, keep);
        assert_eq!(findings(&restored(&bytes)), findings(&image), "seed {seed}");
        let hide = with_version(MetadumpVersion::Two, true);
        let device: SharedDevice = Arc::new(image.clone());
        let mut out = Vec::new();
        match dump(&device, hide, &Silent, &mut out) {
            // Damage in the log makes it look dirty.
            Err(DumpError::DirtyLog) => continue,
            result => drop(result.unwrap()),
        }
        // A copy of another sector can put a name into a field that is a number.
        for secret in SECRETS.iter().filter(|_| seed % 2 == 1) {
            assert!(!contains(&out, secret), "seed {seed}: {}", secret.escape_ascii());
        }
        restored(&out);
    }
}

#[test]
fn damaged_superblock_is_replaced_by_a_copy() {
    // Byte 101 holds the version: with this damage it looks like one that is not supported.
    for (at, length) in [(0, 512), (0, 4), (101, 1), (120, 1), (224, 4)] {
        let mut image = golden();
        let mut sector = image.bytes(DiskAddr(0), 512).unwrap();
        sector.get_mut(at..at + length).unwrap().fill(0xff);
        image.replace(DiskAddr(0), &sector);
        let (bytes, report) = dumped(&image, with_version(MetadumpVersion::One, true));
        assert_eq!(report.omission_count, 1, "{:?}", report.omissions);
        assert!(report.omissions.first().unwrap().reason.contains("the copy at byte"));
        let inodes = dumped(&golden(), DumpOptions::default()).1.inodes;
        assert_eq!(report.inodes, inodes);
        restored(&bytes);
    }
    let nothing = Image::new(vec![0; 1 << 20]);
    let device: SharedDevice = Arc::new(nothing);
    let refused = dump(&device, DumpOptions::default(), &Silent, &mut Vec::new());
    assert!(matches!(refused, Err(DumpError::NoSuperblock(_))));
}

#[test]
fn device_that_is_cut_off_gives_the_rest() {
    let whole: SharedDevice = Arc::new(golden());
    let half = whole.length_bytes() / 2;
    let device: SharedDevice = Arc::new(WindowDevice::new(whole, 0, half));
    let options = DumpOptions { keeps_dirty_log: true, ..DumpOptions::default() };
    let mut out = Vec::new();
    let report = dump(&device, options, &Silent, &mut out).unwrap();
    assert!(report.omission_count > 0 && report.inodes > 0);
    restored(&out);
}

#[test]
fn restore_that_is_cut_off_leaves_an_unfinished_volume() {
    let (bytes, _) = dumped(&golden(), DumpOptions::default());
    let mut target = Memory::default();
    let cut = bytes.get(..bytes.len() / 2).unwrap();
    let result = restore(StreamSource(cut), &mut target, &|| false);
    assert!(matches!(result, Err(RestoreError::Image(_))));
    let sector = target.0.get(..512).unwrap();
    let superblock = Superblock::decode(sector, StructureAddress::Disk(DiskAddr(0))).unwrap();
    assert!(superblock.in_progress);
    let mut target = Memory::default();
    let stopped = restore(StreamSource(&bytes[..]), &mut target, &|| true);
    assert!(matches!(stopped, Err(RestoreError::Stopped)));
}

#[test]
fn restore_flushes_all_blocks_before_it_removes_the_mark() {
    let (bytes, _) = dumped(&golden(), DumpOptions::default());
    let mut target = Memory::default();
    restore(StreamSource(&bytes[..]), &mut target, &|| false).unwrap();
    let Memory(end, flushed) = target;
    let is_marked = |volume: &[u8]| {
        let place = StructureAddress::Disk(DiskAddr(0));
        Superblock::decode(volume.get(..512).unwrap(), place).unwrap().in_progress
    };
    let marks: Vec<_> = flushed.iter().map(|volume| is_marked(volume)).collect();
    assert_eq!(marks, [true, true, false]);
    assert_eq!(flushed.get(1).unwrap().get(512..), end.get(512..));
    assert_eq!(flushed.last(), Some(&end));
}

/// Returns the address and the core of every inode of the golden image. The image's inodes are as
/// long as a sector.
fn golden_inodes() -> Vec<(DiskAddr, InodeCore)> {
    let image = golden();
    let geometry = image.geometry();
    assert_eq!(geometry.inode_size, 512);
    let sectors = (0..image.length_bytes() as u64 / 512).map(DiskAddr);
    sectors
        .filter_map(|at| {
            let bytes = image.bytes(at, 512)?;
            let number = bytes.get(152..)?.first_chunk().map(|raw| u64::from_be_bytes(*raw))?;
            let core = InodeCore::decode(&bytes, InodeNumber(number), &geometry).ok()?;
            let place = geometry.inode_location(core.number)?;
            (place.cluster.0 + u64::from(place.offset_bytes) / 512 == at.0).then_some((at, core))
        })
        .collect()
}

/// Makes an inode look like a metadata file: sets its metadata flag and the kind of metadata file.
fn call_metadata(image: &mut Image, at: DiskAddr) {
    image.edit(at, 512, BlockKind::InodeCluster, |bytes| {
        *bytes.get_mut(127).unwrap() |= 0x20;
        *bytes.get_mut(7).unwrap() = 1;
    });
}

#[test]
fn file_that_is_called_metadata_keeps_its_contents_out_of_the_image() {
    // The file "files/original" is 40 KiB of one letter.
    let contents = [b'a'; 1024];
    let is_original = |core: &InodeCore| core.size == 40 << 10 && !core.is_free();
    let inodes = golden_inodes();
    let (at, core) = inodes.iter().find(|(_, core)| is_original(core)).unwrap();
    let mut flagged = golden();
    call_metadata(&mut flagged, *at);
    let mut images = vec![flagged];
    // The inodes of the user quota, of the realtime bitmap and of the realtime summary.
    for offset in [160, 64, 72] {
        let mut image = golden();
        image.edit(DiskAddr(0), 512, BlockKind::Superblock, |bytes| {
            let field = bytes.get_mut(offset..offset + 8).unwrap();
            field.copy_from_slice(&core.number.0.to_be_bytes());
            // One realtime extent of one block.
            bytes.get_mut(16..32).unwrap().fill(0);
            *bytes.get_mut(23).unwrap() = 1;
            *bytes.get_mut(31).unwrap() = 1;
        });
        images.push(image);
    }
    for image in images {
        assert!(contains(&image.bytes(DiskAddr(0), image.length_bytes()).unwrap(), &contents));
        for obfuscates in [true, false] {
            let (bytes, _) = dumped(&image, with_version(MetadumpVersion::Two, obfuscates));
            assert!(!contains(&bytes, &contents));
        }
    }
}

#[test]
fn directories_that_are_called_metadata_keep_their_names_out_of_the_image() {
    let mut image = golden();
    for (at, _) in golden_inodes() {
        call_metadata(&mut image, at);
    }
    let (bytes, _) = dumped(&image, with_version(MetadumpVersion::Two, true));
    for secret in SECRETS {
        assert!(!contains(&bytes, secret), "{}", secret.escape_ascii());
    }
}
