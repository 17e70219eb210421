//! Tests of physical volumes that the tests write in the form of pvcreate and lvcreate.
#![allow(
    clippy::little_endian_bytes,
    reason = "the numbers of LVM, md and bcache are little-endian"
)]

use std::sync::Arc;

use super::{PhysicalVolume, VolumeError, read};
use crate::device::{BlockDevice, Durability};
use crate::filesystem::{
    FindError, LocatedVolume, Selection, find_filesystem, find_filesystem_among,
};
use crate::memory::MemoryDevice;
use crate::partition::tests::Gpt;

const AREA: u64 = 4096;
const AREA_BYTES: u64 = 1 << 20;
/// Offset of the first extent of a physical volume, and size of an extent, in bytes.
const FIRST: u64 = 1 << 20;
const EXTENT: u64 = 4 << 20;
const ID: &str = "0aAbBc-CdDe-EfFg-GhHi-IjJk-KlLm-MnNoO1";

/// Returns the metadata text of a logical volume with linear segments. Each segment has the name of
/// a physical volume, the number of the segment's first extent on that physical volume, and the
/// number of extents.
fn volume(name: &str, segments: &[(&str, u64, u64)]) -> String {
    let mut text = format!(
        "{name} {{\nid = \"x\"\nstatus = [\"READ\", \"WRITE\", \"VISIBLE\"]\nsegment_count = {}\n",
        segments.len()
    );
    let mut start = 0;
    for (index, (own, place, count)) in segments.iter().enumerate() {
        text += &format!(
            "segment{} {{\nstart_extent = {start}\nextent_count = {count}\t# a comment \" {{\n\
             type = \"striped\"\nstripe_count = 1\t# linear\nstripes = [\n\"{own}\", {place}\n]\n}}\n",
            index + 1
        );
        start += count;
    }
    text + "}\n"
}

fn text(volumes: &str) -> String {
    format!(
        "vg0 {{\nid = \"group\"\nseqno = 3\nformat = \"lvm2\"\nstatus = [\"RESIZEABLE\"]\n\
         extent_size = {}\nmax_lv = 0\n\nphysical_volumes {{\n\npv0 {{\nid = \"{ID}\"\n\
         device = \"/dev/loop\\\"0\"\npe_start = {}\npe_count = 100\n}}\npv1 {{\nid = \"other\"\n\
         pe_start = 2048\n}}\n}}\n\nlogical_volumes {{\n{volumes}}}\n}}\ncontents = \"Text Format \
         Volume Group\"\nversion = 1\ncreation_time = -17\n\0",
        EXTENT / 512,
        FIRST / 512
    )
}

/// Writes a physical volume at byte `start` of the disk. Its text starts at byte `ring` of the
/// metadata area, and wraps around to the start of the ring.
fn make(disk: &MemoryDevice, start: u64, text: &str, ring: u64) {
    let label = start + 512;
    write(disk, label, b"LABELONE\x01");
    write(disk, label + 20, &32_u32.to_le_bytes());
    write(disk, label + 24, b"LVM2 001");
    write(disk, label + 32, ID.replace('-', "").as_bytes());
    for (index, number) in [FIRST, 0, 0, 0, AREA, AREA_BYTES].into_iter().enumerate() {
        write(disk, label + 72 + 8 * index as u64, &number.to_le_bytes());
    }
    write(disk, start + AREA + 4, b" LVM2 x[5A%r0N*>\x01");
    for (at, number) in [(24, AREA), (32, AREA_BYTES), (40, ring), (48, text.len() as u64)] {
        write(disk, start + AREA + at, &number.to_le_bytes());
    }
    let room = usize::try_from(AREA_BYTES - ring).unwrap().min(text.len());
    write(disk, start + AREA + ring, &text.as_bytes()[..room]);
    write(disk, start + AREA + 512, &text.as_bytes()[room..]);
}

fn write(disk: &MemoryDevice, offset: u64, bytes: &[u8]) {
    disk.write_at(bytes, offset, Durability::Cached).unwrap();
}

fn disk() -> MemoryDevice {
    MemoryDevice::new(64 << 20)
}

/// Returns the name of each logical volume, and its offset on the physical volume if it is
/// contiguous there.
fn starts(volume: &PhysicalVolume) -> Vec<(String, Option<u64>)> {
    let Some(group) = &volume.group else { return Vec::new() };
    let start = |inner| group.contiguous_start(inner, &volume.id);
    group.volumes.iter().map(|inner| (inner.name.clone(), start(inner))).collect()
}

fn find(disk: MemoryDevice, selection: &Selection) -> Result<LocatedVolume, FindError> {
    find_filesystem(Arc::new(disk), selection)
}

fn error(disk: MemoryDevice, selection: &Selection) -> FindError {
    find(disk, selection).err().expect("no volume is found")
}

fn named(name: &str) -> Selection {
    Selection::Volume(name.to_owned())
}

/// Returns the first 4 bytes of a volume.
fn magic(volume: &LocatedVolume) -> [u8; 4] {
    let mut bytes = [0; 4];
    volume.device.read_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn linear_volume_has_an_offset() {
    let text = text(
        &[
            volume("root", &[("pv0", 3, 5)]),
            volume("joined", &[("pv0", 8, 1), ("pv0", 9, 2)]),
            volume("parted", &[("pv0", 20, 1), ("pv0", 22, 1)]),
            volume("elsewhere", &[("pv1", 0, 1)]),
            volume("hidden", &[("pv0", 30, 1)]).replace(", \"VISIBLE\"", ""),
            volume("striped", &[("pv0", 31, 1)]).replace("stripe_count = 1", "stripe_count = 2"),
            volume("thin", &[("pv0", 32, 1)]).replace("\"striped\"", "\"thin-pool\""),
        ]
        .concat(),
    );
    // The text may wrap around the end of its ring.
    for ring in [512, 4096, AREA_BYTES - 100] {
        let disk = disk();
        make(&disk, 0, &text, ring);
        let found = starts(&read(&disk, 0).unwrap().unwrap());
        let expected = [
            ("root", Some(FIRST + 3 * EXTENT)),
            ("joined", Some(FIRST + 8 * EXTENT)),
            ("parted", None),
            ("elsewhere", None),
            ("striped", None),
            ("thin", None),
        ];
        assert_eq!(found, expected.map(|(name, start)| (name.to_owned(), start)), "{ring}");
    }
}

#[test]
fn only_xfs_volume_of_a_group_is_opened_and_others_by_name() {
    let text = text(&[volume("swap", &[("pv0", 0, 1)]), volume("root", &[("pv0", 2, 5)])].concat());
    let start = FIRST + 2 * EXTENT;
    let disk = || {
        let disk = disk();
        make(&disk, 0, &text, 512);
        write(&disk, FIRST + 4086, b"SWAPSPACE2");
        write(&disk, start, b"XFSB");
        disk
    };
    for selection in [Selection::Auto, named("vg0/root"), named("root"), named("/dev/vg0/root")] {
        let found = find(disk(), &selection).unwrap();
        assert_eq!(found.logical_volume.as_deref(), Some("vg0/root"));
        assert_eq!((magic(&found), found.device.length_bytes()), (*b"XFSB", 5 * EXTENT));
        assert!(!found.device.is_read_only());
    }
    let found = find(disk(), &Selection::Offset(start)).unwrap();
    assert_eq!((found.start, found.logical_volume), (start, None));
    let swap = error(disk(), &named("vg0/swap"));
    assert!(matches!(swap, FindError::NotXfs(crate::Contents::Swap)), "{swap}");
    let unknown = error(disk(), &named("vg1/root")).to_string();
    assert_eq!(unknown, "has no logical volume vg1/root; it has vg0/swap, vg0/root");
}

#[test]
fn several_xfs_volumes_of_a_group_are_listed() {
    let text = text(&[volume("home", &[("pv0", 0, 1)]), volume("root", &[("pv0", 2, 5)])].concat());
    let disk = disk();
    make(&disk, 0, &text, 512);
    write(&disk, FIRST, b"XFSB");
    write(&disk, FIRST + 2 * EXTENT, b"XFSB");
    let refused = error(disk, &Selection::Auto);
    assert_eq!(refused.to_string(), "has several XFS logical volumes: vg0/home, vg0/root");
    assert!(refused.hint().unwrap().contains("--volume"), "{refused}");
}

#[test]
fn volume_in_a_partition_is_opened() {
    let text = text(&volume("root", &[("pv0", 1, 5)]));
    let begin = 100 * 512;
    let disk = || {
        let disk = Gpt::new(512, &[(1, 90, 95), (2, 100, 100_000)]).disk();
        make(&disk, begin, &text, 512);
        write(&disk, begin + FIRST + EXTENT, b"XFSB");
        disk
    };
    for selection in [
        Selection::Auto,
        Selection::Partition(2.into()),
        Selection::Offset(begin),
        named("vg0/root"),
    ] {
        let found = find(disk(), &selection).unwrap();
        assert_eq!(found.logical_volume.as_deref(), Some("vg0/root"), "{selection:?}");
        assert_eq!(magic(&found), *b"XFSB");
    }
}

/// Checks the order of bytes in a volume with a linear and a striped segment over two physical
/// volumes, written and read through the volume.
#[test]
fn striped_volume_over_two_physical_volumes_is_read_and_written() {
    let striped = "segment2 {\nstart_extent = 1\nextent_count = 2\ntype = \"striped\"\n\
                   stripe_count = 2\nstripe_size = 128\nstripes = [\n\"pv0\", 5,\n\"pv1\", 7\n]\n}\n}\n";
    let linear = volume("root", &[("pv1", 3, 1)]);
    let text = text(&(linear.trim_end().trim_end_matches('}').to_owned() + striped));
    let text = text.replace("id = \"other\"", &format!("id = \"{}\"", "2".repeat(32)));
    let first = disk();
    make(&first, 0, &text, 512);
    let second = disk();
    make(&second, 0, "", 0);
    write(&second, 512 + 32, &[b'2'; 32]);
    let second_start = 2048 * 512;
    write(&second, second_start + 3 * EXTENT, b"XFSB");
    let (first, second) = (Arc::new(first), Arc::new(second));
    let missing = find_filesystem(first.clone(), &named("root")).err().unwrap();
    assert!(matches!(missing, FindError::Volume(VolumeError::Missing { .. })), "{missing}");
    assert!(missing.hint().unwrap().contains("--member"));
    let members = [second.clone() as crate::SharedDevice];
    let found = find_filesystem_among(first.clone(), &members, &Selection::Auto).unwrap();
    assert_eq!((magic(&found), found.device.length_bytes()), (*b"XFSB", 3 * EXTENT));
    let bytes: Vec<u8> = (0..3 * EXTENT).map(|at| (at >> 12) as u8 ^ (at >> 16) as u8).collect();
    found.device.write_at(&bytes, 0, Durability::Cached).unwrap();
    found.device.flush().unwrap();
    let part = |device: &MemoryDevice, at: u64, from: u64, length: usize| {
        let mut there = vec![0; length];
        device.read_at(&mut there, at).unwrap();
        assert!(there == bytes[from as usize..][..length], "{at} holds {from}");
    };
    part(&second, second_start + 3 * EXTENT, 0, 4 << 20);
    let stripe = 64 << 10;
    for (number, row) in [(0, 0), (2, 1), (126, 63)] {
        part(&first, FIRST + 5 * EXTENT + row * stripe, EXTENT + number * stripe, 65536);
        let other = EXTENT + (number + 1) * stripe;
        part(&second, second_start + 7 * EXTENT + row * stripe, other, 65536);
    }
    let mut again = vec![0; bytes.len()];
    found.device.read_at(&mut again, 0).unwrap();
    assert!(again == bytes);
    let stray = [Arc::new(disk()) as crate::SharedDevice];
    let stray = find_filesystem_among(first, &stray, &named("root")).err().unwrap();
    assert!(stray.to_string().contains("device 1 of the given members"), "{stray}");
}

#[test]
fn volume_with_snapshots_is_read_and_not_written() {
    let snapshot = "snapshot0 {\nstatus = [\"READ\"]\nsegment1 {\nstart_extent = 0\n\
                    extent_count = 2\ntype = \"snapshot\"\norigin = \"root\"\n\
                    cow_store = \"old\"\n}\n}\n";
    let volumes = [volume("root", &[("pv0", 1, 2)]), volume("old", &[("pv0", 8, 2)])].concat();
    let text = text(&(volumes + snapshot));
    let disk = || {
        let disk = disk();
        make(&disk, 0, &text, 512);
        write(&disk, FIRST + EXTENT, b"XFSB");
        write(&disk, FIRST + 8 * EXTENT, b"XFSB");
        disk
    };
    let refused = error(disk(), &Selection::Auto);
    assert!(matches!(refused, FindError::ReadOnlyVolume(_)), "{refused}");
    let store = error(disk(), &named("old")).to_string();
    assert!(store.contains("the layout snapshot"), "{store}");
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut bytes = vec![0; 64 << 20];
    disk().read_at(&mut bytes, 0).unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let reader = crate::FileDevice::open(file.path(), crate::FileOptions::read_only()).unwrap();
    let found = find_filesystem(Arc::new(reader), &Selection::Auto).unwrap();
    assert_eq!(magic(&found), *b"XFSB");
}

#[test]
fn volume_without_an_offset_has_a_hint_to_activate_it() {
    let physical = disk();
    make(&physical, 0, &text(&volume("root", &[("pv1", 1, 5)])), 512);
    let hint = error(physical, &Selection::Auto).hint().unwrap().into_owned();
    assert!(hint.contains("vgchange -ay vg0") && hint.contains("/dev/vg0/root"), "{hint}");
    // As pvcreate leaves it.
    let physical = disk();
    make(&physical, 0, "", 0);
    let refused = error(physical, &Selection::Auto);
    assert_eq!(refused.to_string(), "is not an XFS volume: it holds an LVM physical volume");
    assert!(refused.hint().unwrap().contains("belongs to no volume group"));
}

#[test]
fn hostile_metadata_is_ignored() {
    let whole = text(&volume("root", &[("pv0", 3, 5)]));
    let nested = "a {".repeat(100_000);
    let lists = format!("vg0 {{ extent_size = {}", "[".repeat(100_000));
    let endless = "vg0 { extent_size = \"".to_owned() + &"x".repeat(100_000);
    let numbers = whole.replace("pe_start = 2048", "pe_start = 18446744073709551615");
    for text in [&nested, &lists, &endless, &numbers, "}", "= 1", "vg0 = 1\n"] {
        let disk = disk();
        make(&disk, 0, text, 512);
        let found = read(&disk, 0).unwrap().unwrap();
        assert!(starts(&found).iter().all(|(_, start)| start.is_none()));
    }
    // Every byte of label and area in turn, and every truncation of the text.
    for at in (512..1024).chain(AREA..AREA + 64) {
        for value in [0x00, 0x7f, 0xff] {
            let disk = disk();
            make(&disk, 0, &whole, 512);
            write(&disk, at, &[value]);
            let _ = read(&disk, 0).unwrap();
            let _ = find(disk, &named("root"));
        }
    }
    for length in (0..whole.len()).step_by(7) {
        let disk = disk();
        make(&disk, 0, whole.get(..length).unwrap(), 512);
        let _ = find(disk, &named("root"));
    }
}

#[test]
fn backing_device_of_bcache_is_named_with_its_offset() {
    let disk = disk();
    write(&disk, 4096 + 16, &1_u64.to_le_bytes());
    write(&disk, 4096 + 24, b"\xc6\x85\x73\xf6");
    write(&disk, 8192, b"XFSB");
    let hint = error(disk, &Selection::Auto).hint().unwrap().into_owned();
    assert!(hint.contains("--offset 8192"), "{hint}");
}
