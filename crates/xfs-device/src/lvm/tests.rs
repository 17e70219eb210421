//! Tests of physical volumes that the tests write in the form of pvcreate and lvcreate.
#![allow(
    clippy::little_endian_bytes,
    reason = "the numbers of LVM, md and bcache are little-endian"
)]

use std::sync::Arc;

use super::{LogicalVolume, read};
use crate::device::{BlockDevice, Durability};
use crate::filesystem::{FindError, Selection, find_filesystem};
use crate::memory::MemoryDevice;
use crate::partition::tests::Gpt;

const AREA: u64 = 4096;
const AREA_BYTES: u64 = 1 << 20;
/// Offset of the first extent of a physical volume, and size of an extent, in bytes.
const FIRST: u64 = 1 << 20;
const EXTENT: u64 = 4 << 20;
const ID: &str = "0aAbBc-CdDe-EfFg-GhHi-IjJk-KlLm-MnNoO1";

/// Returns the metadata text of a logical volume with linear segments. Each segment has the name of
/// a physical volume, the number of its first extent on it, and its number of extents.
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

fn volumes(text: &str, ring: u64) -> Vec<LogicalVolume> {
    let disk = disk();
    make(&disk, 0, text, ring);
    read(&disk, 0).unwrap().unwrap().group.unwrap().volumes
}

fn error(disk: MemoryDevice, selection: Selection) -> FindError {
    find_filesystem(Arc::new(disk), selection).err().expect("LVM is not opened on its own")
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
        let found: Vec<_> =
            volumes(&text, ring).into_iter().map(|volume| (volume.name, volume.start)).collect();
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
fn xfs_volume_is_named_with_its_offset() {
    let text = text(&[volume("swap", &[("pv0", 0, 1)]), volume("root", &[("pv0", 2, 5)])].concat());
    let start = FIRST + 2 * EXTENT;
    let disk = || {
        let disk = disk();
        make(&disk, 0, &text, 512);
        write(&disk, FIRST + 4086, b"SWAPSPACE2");
        write(&disk, start, b"XFSB");
        disk
    };
    let refused = error(disk(), Selection::Auto);
    assert!(matches!(refused, FindError::Container(_)), "{refused:?}");
    let said = refused.to_string();
    assert!(said.contains("an LVM physical volume of the volume group vg0"), "{said}");
    assert!(said.contains("swap: swap space at 1048576; root: an XFS volume at 9437184"), "{said}");
    let hint = refused.hint().unwrap();
    assert_eq!(hint, format!("open the logical volume vg0/root with --offset {start}"));
    let found = find_filesystem(Arc::new(disk()), Selection::Offset(start)).unwrap();
    assert_eq!(found.start, start);
}

#[test]
fn offsets_count_from_the_first_byte_of_the_image() {
    let text = text(&volume("root", &[("pv0", 1, 5)]));
    let begin = 100 * 512;
    let disk = || {
        let disk = Gpt::new(512, &[(1, 90, 95), (2, 100, 16000)]).disk();
        make(&disk, begin, &text, 512);
        let start = begin + FIRST + EXTENT;
        write(&disk, start, b"XFSB");
        disk
    };
    let start = begin + FIRST + EXTENT;
    let hint = format!("open the logical volume vg0/root with --offset {start}");
    let auto = error(disk(), Selection::Auto);
    assert!(
        auto.to_string().contains("partition 2 of its GPT is an LVM physical volume"),
        "{auto}"
    );
    for refused in
        [auto, error(disk(), Selection::Partition(2)), error(disk(), Selection::Offset(begin))]
    {
        assert_eq!(refused.hint().unwrap(), hint, "{refused}");
    }
}

#[test]
fn volume_without_an_offset_has_a_hint_to_activate_it() {
    let physical = disk();
    make(&physical, 0, &text(&volume("root", &[("pv1", 1, 5)])), 512);
    let hint = error(physical, Selection::Auto).hint().unwrap().into_owned();
    assert!(hint.contains("vgchange -ay vg0") && hint.contains("/dev/vg0/root"), "{hint}");
    // As pvcreate leaves it.
    let physical = disk();
    make(&physical, 0, "", 0);
    let refused = error(physical, Selection::Auto);
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
        let found = read(&disk, 0).unwrap().unwrap().group;
        assert!(found.is_none_or(|group| group.volumes.iter().all(|v| v.start.is_none())));
    }
    // Every byte of label and area in turn, and every truncation of the text.
    for at in (512..1024).chain(AREA..AREA + 64) {
        for value in [0x00, 0x7f, 0xff] {
            let disk = disk();
            make(&disk, 0, &whole, 512);
            write(&disk, at, &[value]);
            let _ = read(&disk, 0).unwrap();
        }
    }
    for length in (0..whole.len()).step_by(7) {
        let disk = disk();
        make(&disk, 0, whole.get(..length).unwrap(), 512);
        let _ = read(&disk, 0).unwrap();
    }
}

#[test]
fn raid_copy_is_named_with_its_offset() {
    let member = |level: u32| {
        let disk = disk();
        write(&disk, 4096, b"\xfc\x4e\x2b\xa9\x01");
        write(&disk, 4096 + 72, &level.to_le_bytes());
        write(&disk, 4096 + 92, &2_u32.to_le_bytes());
        write(&disk, 4096 + 128, &2048_u64.to_le_bytes());
        write(&disk, 2048 * 512, b"XFSB");
        error(disk, Selection::Auto).hint().unwrap().into_owned()
    };
    assert!(member(1).contains("--offset 1048576"), "{}", member(1));
    assert!(!member(5).contains("--offset") && member(5).contains("mdadm"), "{}", member(5));
    let disk = disk();
    write(&disk, 4096 + 16, &1_u64.to_le_bytes());
    write(&disk, 4096 + 24, b"\xc6\x85\x73\xf6");
    write(&disk, 8192, b"XFSB");
    let hint = error(disk, Selection::Auto).hint().unwrap().into_owned();
    assert!(hint.contains("--offset 8192"), "{hint}");
}
