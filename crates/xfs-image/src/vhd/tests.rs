//! Tests of fixed VHD images, which qemu-img also reads. If it is not installed, a test prints that
//! this part is skipped.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

use tempfile::TempDir;
use uuid::Uuid;
use xfs_device::{Durability, FileOptions};

use super::{Geometry, MAX_VHD_BYTES, vhd_footer};
use crate::open::open_device;

const MIB: u64 = 1 << 20;

#[test]
fn geometry_is_that_of_the_specification() {
    for (sectors, expected) in [
        (0, (0, 4, 17)),
        (2048, (30, 4, 17)),
        (600 * 2048, (1219, 16, 63)),
        (100 * 2048, (1003, 12, 17)),
        (240 * 2048, (990, 16, 31)),
        (250 * 2048, (507, 16, 63)),
        ((32 << 30) / 512, (16_448, 16, 255)),
        (MAX_VHD_BYTES / 512, (65_535, 16, 255)),
        (u64::MAX, (65_535, 16, 255)),
    ] {
        let Geometry { cylinders, heads, sectors: each } = Geometry::of(sectors);
        assert_eq!((cylinders, heads, each), expected, "{sectors}");
        let all = u64::from(cylinders) * u64::from(heads) * u64::from(each);
        assert!(all <= sectors);
    }
}

#[test]
fn image_is_read_by_qemu_and_by_us() {
    for (length, case) in [(40 * MIB, "small"), (300 * MIB + 512, "odd"), (40 << 30, "large")] {
        let folder = TempDir::new().unwrap();
        let raw = File::create(folder.path().join("raw")).unwrap();
        let disk = File::create(folder.path().join("disk")).unwrap();
        for file in [&raw, &disk] {
            file.set_len(length).unwrap();
            file.write_all_at(b"first", 0).unwrap();
            file.write_all_at(b"last", length - 4).unwrap();
        }
        let footer = vhd_footer(length, 1_700_000_000, &Uuid::from_bytes([7; 16]));
        disk.write_all_at(&footer, length).unwrap();
        let compare = ["compare", "-f", "raw", "-F", "vpc", "raw", "disk"];
        match Command::new("qemu-img").current_dir(folder.path()).args(compare).output() {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(output.status.success(), "{case}: {said}");
                // Another size is a warning.
                assert_eq!(said, "Images are identical.\n", "{case}");
            }
            Err(error) => eprintln!("skipped: qemu-img cannot be run ({error})"),
        }
        let path = folder.path().join("disk");
        let device = open_device(&path, FileOptions::read_write()).unwrap().device;
        assert_eq!(device.length_bytes(), length, "{case}");
        device.write_at(b"LAST", length - 4, Durability::Durable).unwrap();
        assert!(device.write_at(b"x", length, Durability::Durable).is_err());
        drop(device);
        let mut end = [0; 516];
        File::open(&path).unwrap().read_exact_at(&mut end, length - 4).unwrap();
        assert_eq!(&end[..4], b"LAST");
        assert_eq!(end[4..], footer, "the footer has changed");
    }
}

#[test]
fn footer_that_does_not_fit_the_file_is_no_footer() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("disk");
    let good = vhd_footer(MIB, 0, &Uuid::nil());
    let mut wrong_sum = good;
    wrong_sum[70] = 1;
    let mut dynamic = good;
    dynamic[63] = 3;
    for footer in [wrong_sum, dynamic, vhd_footer(2 * MIB, 0, &Uuid::nil())] {
        let file = File::create(&path).unwrap();
        file.set_len(MIB).unwrap();
        file.write_all_at(&footer, MIB).unwrap();
        let device = open_device(&path, FileOptions::read_only()).unwrap().device;
        assert_eq!(device.length_bytes(), MIB + 512);
    }
    std::fs::write(&path, [1; 100]).unwrap();
    assert!(open_device(&path, FileOptions::read_only()).is_ok());
}

#[test]
fn time_and_identity_are_in_the_footer() {
    let identity = Uuid::from_bytes(*b"0123456789abcdef");
    let footer = vhd_footer(MIB, 946_684_800 + 0x0102_0304, &identity);
    assert_eq!(footer[24..28], [1, 2, 3, 4]);
    assert_eq!(&footer[68..84], identity.as_bytes());
    assert_eq!(vhd_footer(MIB, -5, &identity)[24..28], [0; 4]);
}
