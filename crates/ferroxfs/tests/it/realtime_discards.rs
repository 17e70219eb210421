//! Tests of the discards that a volume sends for free realtime extents.

use std::sync::Arc;

use ferroxfs::admin::FreeSpaceZeros;
use ferroxfs::contents::ForkKind;
use ferroxfs::{OpenOptions, Volume};
use xfs_testkit::{RecordingDevice, Request};
use xfs_trans::testing::superblock;

use super::realtime_writing::{DATA_BYTES, Disks, contents, create};

const REALTIME_BYTES: u64 = 24 << 20;

fn discards(device: &RecordingDevice) -> Vec<(u64, u64)> {
    let discard = |request: &Request| match request {
        Request::Discard { offset, length } => Some((*offset, *length)),
        _ => None,
    };
    device.recording().requests().iter().filter_map(discard).collect()
}

/// Frees every second file, and trims the volume. Checks that exactly the free extents are
/// discarded, and that the range and the shortest length of a trim count.
fn check_trim(extent_kib: u64, further: &[(char, &str)]) {
    let made = Disks::make_with(extent_kib, REALTIME_BYTES, further);
    let recorder = Arc::new(RecordingDevice::new(made.realtime));
    let disks = Disks { data: made.data, realtime: recorder.clone() };
    let volume = disks.open();
    for index in 0..8_u8 {
        create(&volume, &format!("f{index}")).write_at(&vec![index + 1; 300_000], 0).unwrap();
    }
    for index in (1..8).step_by(2) {
        volume.remove_file(format!("/f{index}")).unwrap();
    }
    check_zeros(&volume, &disks);
    assert!(discards(&recorder).is_empty());
    assert_eq!(volume.trim(DATA_BYTES..u64::MAX, REALTIME_BYTES).unwrap(), 0);
    let part = volume.trim(DATA_BYTES..DATA_BYTES + (2 << 20), 0).unwrap();
    assert!((1..=2 << 20).contains(&part), "{part}");
    let before = discards(&recorder);
    assert!(before.iter().all(|(offset, length)| offset + length <= 2 << 20), "{before:?}");
    let trimmed = volume.trim(DATA_BYTES..u64::MAX, 0).unwrap();
    let long = volume.trim(DATA_BYTES..u64::MAX, 4 << 20).unwrap();
    assert!(long < trimmed && long > 0, "short extents were discarded");
    let whole = volume.trim(0..u64::MAX, 0).unwrap();
    assert!(whole > trimmed, "the data section was not discarded");
    let all = discards(&recorder);
    for index in (0..8_u8).step_by(2) {
        let file = volume.open_file(format!("/f{index}")).unwrap();
        assert!(contents(&file) == vec![index + 1; 300_000], "contents of {index}");
        let node = volume.lookup(format!("/f{index}")).unwrap();
        for extent in node.extents(ForkKind::Data).map(Result::unwrap) {
            let (start, end) =
                (extent.device_offset_bytes, extent.device_offset_bytes + extent.length_bytes);
            let meets = |(offset, length): &&(u64, u64)| *offset < end && start < offset + length;
            assert_eq!(all.iter().find(meets), None, "file {index}");
        }
    }
    volume.close().unwrap();
    let found = superblock(&disks.data);
    let unit = extent_kib << 10;
    assert_eq!(trimmed, found.free_realtime_extents * unit);
    disks.repair();
    let again = disks.options(&OpenOptions::new()).unwrap();
    assert_eq!(again.read("/f0").unwrap(), vec![1; 300_000]);
}

/// Returns whether a block of the realtime device has these contents.
fn holds(disks: &Disks, contents: &[u8; 4096]) -> bool {
    let mut block = [0; 4096];
    (0..disks.realtime.length_bytes()).step_by(block.len()).any(|at| {
        disks.realtime.read_at(&mut block, at).unwrap();
        block == *contents
    })
}

/// Makes the free extents read as zeros. Checks that the contents of removed files are gone, and
/// that the other files stay.
fn check_zeros(volume: &Volume, disks: &Disks) {
    // A removal keeps the bytes.
    assert!(holds(disks, &[2; 4096]), "the contents of a removed file are there");
    for zeros in [FreeSpaceZeros::Written, FreeSpaceZeros::Holes] {
        assert!(volume.zero_free_space(zeros).unwrap() > 0);
        for index in 0..8_u8 {
            let is_kept = index % 2 == 0;
            assert_eq!(holds(disks, &[index + 1; 4096]), is_kept, "contents of {index}");
        }
    }
    for index in (0..8_u8).step_by(2) {
        let file = volume.open_file(format!("/f{index}")).unwrap();
        assert!(contents(&file) == vec![index + 1; 300_000], "contents of {index}");
    }
}

#[test]
fn trim_discards_exactly_the_free_extents_of_a_classic_section() {
    check_trim(4, &[]);
    check_trim(28, &[]);
}

#[test]
fn trim_discards_exactly_the_free_extents_of_groups() {
    let group = ('r', "rgsize=4m");
    check_trim(4, &[('m', "metadir=1,rmapbt=1,reflink=1"), group]);
}
