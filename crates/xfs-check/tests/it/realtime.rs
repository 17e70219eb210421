//! Tests of the checker on volumes with a realtime section or a metadata directory.

use xfs_check::{CheckOptions, CheckedDevices, Report, check_devices};
use xfs_device::BlockDevice;
use xfs_format::extent::Extent;
use xfs_format::realtime::RealtimeBlockKind;
use xfs_format::{BlockKind, DiskAddr, InodeNumber, Lsn, StructureAddress, Superblock};
use xfs_testkit::{Image, RealtimeSection, golden_metadata_directory};

/// Checks the volume on the device `data`, with the realtime device `realtime`.
fn report(data: &Image, realtime: Option<&Image>) -> Report {
    let mut sector = vec![0; 4096];
    data.read_at(&mut sector, 0).expect("an image has a first sector");
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0)))
        .expect("the superblock is sound");
    let realtime = realtime.map(|device| device as &dyn BlockDevice);
    let devices = CheckedDevices { data, realtime };
    check_devices(devices, &superblock, &CheckOptions::default(), &()).expect("known features")
}

fn findings(report: &Report) -> Vec<String> {
    report.findings.iter().map(ToString::to_string).collect()
}

#[test]
fn golden_volumes_are_clean() {
    for section in RealtimeSection::ALL {
        let report = report(&section.data(), section.device().as_ref());
        let findings = findings(&report);
        assert!(report.is_clean(), "{section:?} {findings:#?} {:?}", report.unchecked);
    }
    let report = report(&golden_metadata_directory(), None);
    assert!(report.is_clean(), "{:#?} {:?}", findings(&report), report.unchecked);
}

#[test]
fn device_that_is_not_named_is_unchecked() {
    for section in [RealtimeSection::Classic, RealtimeSection::Groups] {
        let report = report(&section.data(), None);
        assert_eq!(findings(&report), Vec::<String>::new());
        let unchecked: Vec<_> = report.unchecked.iter().map(|part| part.what.as_str()).collect();
        assert_eq!(unchecked, ["the realtime device, which was not given (--rt-device)"]);
        assert!(!report.is_clean());
    }
}

/// Inode numbers of the bitmap, the summary and the reverse map of the first realtime group, in the
/// golden volume with realtime groups.
const BITMAP: u64 = 88897;
const SUMMARY: u64 = 88898;
const REVERSE_MAP: u64 = 88899;
/// Inode numbers in the golden volumes with zones and without realtime groups.
const ZONED_REVERSE_MAP: u64 = 48897;
const CLASSIC_BITMAP: u64 = 129;
const CLASSIC_SUMMARY: u64 = 130;

const INODE_BYTES: usize = 512;
const BLOCK_BYTES: usize = 4096;
/// Offset of the data fork in an inode.
const FORK: usize = 176;
/// Length in bytes of the header of a bitmap block in a realtime group.
const HEADER: usize = 48;

/// A golden volume with a realtime section, which a test damages and then checks.
struct Patient {
    data: Image,
    device: Option<Image>,
}

impl Patient {
    fn new(section: RealtimeSection) -> Self {
        Self { data: section.data(), device: section.device() }
    }

    fn words(&self) -> Vec<&'static str> {
        let report = report(&self.data, self.device.as_ref());
        let mut words: Vec<_> = report.findings.iter().map(|found| found.code.word()).collect();
        words.dedup();
        words
    }

    fn edit_inode(mut self, number: u64, change: impl FnOnce(&mut [u8])) -> Self {
        let at = address_of_inode(&self.data, number);
        self.data.edit(at, INODE_BYTES, BlockKind::InodeCluster, change);
        self
    }

    /// Changes the first block of the file `number`, a bitmap or a summary, and sets the checksum
    /// of a block of `kind`. In a section without groups, these blocks have no checksum, so `kind`
    /// is `None`.
    fn edit_file(
        mut self,
        number: u64,
        kind: Option<RealtimeBlockKind>,
        change: impl FnOnce(&mut [u8]),
    ) -> Self {
        let inode = self.data.bytes(address_of_inode(&self.data, number), INODE_BYTES);
        let inode = inode.expect("the image has the inode");
        let record = inode.get(FORK..FORK + 16).expect("an inode has a data fork");
        let extent = Extent::decode_bytes(record).expect("an extent");
        let at = self.data.geometry().block_disk_addr(extent.start).expect("a block");
        self.data.edit_with(at, BLOCK_BYTES, |bytes| {
            change(bytes);
            if let Some(kind) = kind {
                kind.seal(bytes, Lsn(0));
            }
        });
        self
    }

    fn edit_superblock(mut self, change: impl FnOnce(&mut [u8])) -> Self {
        self.data.edit(DiskAddr(0), 512, BlockKind::Superblock, change);
        self
    }
}

fn address_of_inode(image: &Image, number: u64) -> DiskAddr {
    let location = image.geometry().inode_location(InodeNumber(number)).expect("an inode");
    DiskAddr(location.cluster.0 + u64::from(location.offset_bytes / 512))
}

fn groups() -> Patient {
    Patient::new(RealtimeSection::Groups)
}

fn increment(bytes: &mut [u8]) {
    let last = bytes.last_mut().expect("a field has bytes");
    *last = last.wrapping_add(1);
}

#[test]
fn wrong_bit_of_a_bitmap_is_found_with_all_that_depends_on_it() {
    let kind = Some(RealtimeBlockKind::Bitmap);
    // Words are big-endian: the last byte of the first word has the first eight extents.
    let used = groups().edit_file(BITMAP, kind, |bytes| bytes[HEADER + 3] |= 0b10);
    assert_eq!(used.words(), ["rt.crosslinked", "rt.summary", "rt.frextents"]);
    let free = groups().edit_file(BITMAP, kind, |bytes| bytes[HEADER + 3] &= !0b10_0000);
    assert_eq!(free.words(), ["rt.leaked", "rt.summary", "rt.frextents"]);
    let classic = Patient::new(RealtimeSection::Classic);
    let classic = classic.edit_file(CLASSIC_BITMAP, None, |bytes| bytes[0] ^= 1);
    assert_eq!(classic.words(), ["rt.crosslinked", "rt.summary", "rt.frextents"]);
    let end = groups().edit_file(BITMAP, kind, |bytes| bytes[BLOCK_BYTES - 1] |= 1);
    assert_eq!(end.words(), ["rt.bitmap-end"]);
}

#[test]
fn wrong_counter_is_found() {
    let kind = Some(RealtimeBlockKind::Summary);
    let summary = groups().edit_file(SUMMARY, kind, |bytes| increment(&mut bytes[HEADER..52]));
    assert_eq!(summary.words(), ["rt.summary"]);
    let classic = Patient::new(RealtimeSection::Classic);
    let classic = classic.edit_file(CLASSIC_SUMMARY, None, |bytes| bytes[0] += 1);
    assert_eq!(classic.words(), ["rt.summary"]);
    for section in RealtimeSection::ALL {
        let count = Patient::new(section).edit_superblock(|bytes| increment(&mut bytes[152..160]));
        assert_eq!(count.words(), ["rt.frextents"], "{section:?}");
    }
    let zoned = Patient::new(RealtimeSection::Zoned);
    let zoned = zoned.edit_inode(ZONED_REVERSE_MAP, |bytes| increment(&mut bytes[128..132]));
    assert_eq!(zoned.words(), ["rt.used"]);
}

#[test]
fn damaged_header_of_a_bitmap_is_found() {
    let kind = Some(RealtimeBlockKind::Bitmap);
    let cases: [(usize, &str); 4] =
        [(0, "rt.magic"), (15, "rt.owner"), (23, "rt.address"), (32, "rt.uuid")];
    for (offset, word) in cases {
        let patient = groups().edit_file(BITMAP, kind, |bytes| bytes[offset] ^= 1);
        assert!(patient.words().contains(&word), "{word}: {:?}", patient.words());
    }
    let torn = groups().edit_file(BITMAP, None, |bytes| bytes[HEADER] ^= 1);
    assert!(torn.words().contains(&"rt.checksum"));
}

#[test]
fn wrong_record_of_the_reverse_map_is_found() {
    // The root of level 0 has records of 24 bytes after its header of 4 bytes: start, count, owner,
    // offset.
    let record = |index: usize, offset: usize| FORK + 4 + index * 24 + offset;
    let edit = |at: usize| groups().edit_inode(REVERSE_MAP, |bytes| bytes[at] ^= 2).words();
    for at in [record(1, 15), record(1, 23)] {
        let mut words = edit(at);
        words.sort_unstable();
        assert_eq!(words, ["rt.rmap-extra", "rt.rmap-missing"]);
    }
    assert!(edit(record(3, 0)).contains(&"rt.record"));
    assert!(edit(record(0, 3)).contains(&"rt.record"));
    assert!(edit(FORK + 1).contains(&"rt.tree"));
    let swapped = groups().edit_inode(REVERSE_MAP, |bytes| {
        let (low, high) = bytes.split_at_mut(record(2, 0));
        low[record(1, 0)..].swap_with_slice(&mut high[..24]);
    });
    assert!(swapped.words().contains(&"rt.order"), "{:?}", swapped.words());
}

#[test]
fn wrong_property_of_a_metadata_inode_is_found() {
    // Permissions, type of metadata inode, user, project, a field of the data management API, and
    // flags.
    for offset in [3, 7, 11, 23, 87, 91] {
        let patient = groups().edit_inode(SUMMARY, |bytes| bytes[offset] ^= 0x20);
        assert_eq!(patient.words(), ["meta.inode"], "{offset}");
    }
    let plain = groups().edit_inode(SUMMARY, |bytes| {
        bytes[127] ^= 0x20;
        bytes[6..8].fill(0);
    });
    let words = plain.words();
    assert!(words.contains(&"meta.mixed") && words.contains(&"meta.inode"), "{words:?}");
    let size = groups().edit_inode(BITMAP, |bytes| increment(&mut bytes[56..64]));
    assert_eq!(size.words(), ["rt.file"]);
}

#[test]
fn damaged_superblock_of_the_realtime_device_is_found() {
    for offset in [12, 24, 40, 56, 4095] {
        let mut patient = groups();
        let device = patient.device.as_mut().expect("the section has a device");
        device.edit_with(DiskAddr(0), BLOCK_BYTES, |bytes| {
            bytes[offset] ^= 1;
            xfs_format::crc::seal(bytes, 4);
        });
        assert_eq!(patient.words(), ["rt.super"], "{offset}");
    }
    let mut short = groups();
    short.device.as_mut().expect("the section has a device").truncate(1 << 20);
    assert_eq!(short.words(), ["rt.device-short"]);
}

#[test]
fn missing_file_of_a_group_is_found() {
    // Another name in the directory makes the file of a group missing, and is itself stray.
    let geometry = RealtimeSection::Groups.data().geometry();
    let mut patient = groups();
    let inode = address_of_inode(&patient.data, 88896);
    let bytes = patient.data.bytes(inode, INODE_BYTES).unwrap();
    let extent = Extent::decode_bytes(&bytes[FORK..FORK + 16]).expect("an extent");
    let at = geometry.block_disk_addr(extent.start).expect("a block");
    patient.data.edit(at, BLOCK_BYTES, BlockKind::DirectoryData, |block| {
        let place = block.windows(8).position(|name| name == b"3.bitmap").expect("the name");
        block[place] = b'7';
    });
    let words = patient.words();
    assert!(words.contains(&"meta.missing") && words.contains(&"meta.name"), "{words:?}");
}

#[test]
fn space_of_groups_is_not_judged_if_their_files_are_not_found() {
    let lost = groups().edit_superblock(|bytes| bytes[264..272].fill(0xff));
    let words = lost.words();
    assert!(words.contains(&"meta.root"), "{words:?}");
    assert!(!words.iter().any(|word| word.starts_with("rt.")), "{words:?}");
}

#[test]
fn bitmap_in_a_realtime_file_is_found_and_not_read() {
    let bitmap = groups().edit_inode(BITMAP, |bytes| bytes[91] ^= 1);
    let words = bitmap.words();
    assert!(words.contains(&"rt.file") && words.contains(&"meta.inode"), "{words:?}");
    assert!(!words.contains(&"rt.leaked") && !words.contains(&"rt.magic"), "{words:?}");
}

#[test]
fn bitmap_in_the_format_of_a_btree_of_records_is_found() {
    let bitmap = groups().edit_inode(BITMAP, |bytes| {
        bytes[5] = 5;
        bytes[76..80].fill(0);
    });
    assert!(bitmap.words().contains(&"meta.inode"), "{:?}", bitmap.words());
}
