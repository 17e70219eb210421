//! Tests of the checker on volumes with a realtime section or a metadata directory.

use xfs_check::{CheckOptions, CheckedDevices, Report, check_devices};
use xfs_device::BlockDevice;
use xfs_format::{DiskAddr, StructureAddress, Superblock};
use xfs_testkit::{Image, RealtimeSection, golden_metadata_directory};

/// Checks a volume with its devices.
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
        assert_eq!(unchecked, ["the realtime device, which was not named"]);
        assert!(!report.is_clean());
    }
}
