//! Checks an image with a clean log and prints the findings: `cargo run -p xfs-check --example
//! check IMAGE [REALTIME_DEVICE]`.

use std::process::ExitCode;

use xfs_check::{CheckOptions, CheckedDevices, check_devices};
use xfs_device::{BlockDevice, FileDevice, FileOptions};
use xfs_format::{DiskAddr, StructureAddress, Superblock};

fn main() -> ExitCode {
    let mut paths = std::env::args_os().skip(1).map(std::path::PathBuf::from);
    let open = |path: std::path::PathBuf| {
        FileDevice::open(path.as_ref(), FileOptions::read_only()).expect("the image opens")
    };
    let device = open(paths.next().expect("usage: check IMAGE [REALTIME_DEVICE]"));
    let realtime = paths.next().map(open);
    let mut sector = vec![0; 4096];
    device.read_at(&mut sector, 0).expect("the superblock can be read");
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0)))
        .expect("the superblock is sound");
    let realtime = realtime.as_ref().map(|device| device as &dyn BlockDevice);
    let devices = CheckedDevices { data: &device, realtime };
    let report = check_devices(devices, &superblock, &CheckOptions::default(), &())
        .expect("the checker knows the volume's features");
    for finding in &report.findings {
        println!("{}: {finding}", finding.severity());
    }
    for part in &report.unchecked {
        println!("not checked: {}", part.what);
    }
    println!("{} inodes, {:?}", report.coverage.inodes, report.elapsed);
    if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
