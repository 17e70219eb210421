//! Checks a clean image and prints the findings: `cargo run -p xfs-check --example check IMAGE`.

use std::process::ExitCode;

use xfs_check::{CheckOptions, check};
use xfs_device::{BlockDevice, FileDevice, OpenOptions};
use xfs_format::{DiskAddr, StructureAddress, Superblock};

fn main() -> ExitCode {
    let path =
        std::env::args_os().nth(1).map(std::path::PathBuf::from).expect("usage: check IMAGE");
    let device =
        FileDevice::open(path.as_ref(), OpenOptions::read_only()).expect("the image opens");
    let mut sector = vec![0; 4096];
    device.read_at(&mut sector, 0).expect("the superblock can be read");
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0)))
        .expect("the superblock is sound");
    let report = check(&device, &superblock, &CheckOptions::default(), &())
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
