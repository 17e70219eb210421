//! Tests of opening disk images, which qemu-img makes. If qemu-img is not installed, each test
//! prints that it is skipped.

mod hostile;
mod qcow2;

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use xfs_device::{DeviceError, Durability, FileOptions, SharedDevice};

use super::open_device;

/// A directory that holds the file `raw` with the bytes of [`sample`], and disk images that were
/// made from this file.
struct Images {
    directory: TempDir,
    sample: Vec<u8>,
}

/// Returns bytes in which runs of zeros and runs of noise alternate. The length of a run is not a
/// multiple of any cluster size.
fn sample() -> Vec<u8> {
    let mut bytes = vec![0; (3 << 20) + 512];
    let mut state = 1_u32;
    for (index, byte) in bytes.iter_mut().enumerate() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = if index >> 18 & 1 == 0 { (state >> 24) as u8 } else { 0 };
    }
    bytes
}

impl Images {
    fn new() -> Self {
        let images = Self { directory: tempfile::tempdir().unwrap(), sample: sample() };
        std::fs::write(images.path("raw"), &images.sample).unwrap();
        images
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs qemu-img in the directory of the images. If qemu-img is not installed, prints a message
    /// and returns `false`.
    fn qemu_img(&self, arguments: &[&str]) -> bool {
        run("qemu-img", self.directory.path(), arguments)
    }

    /// Converts the file `raw` to the image `disk` with qemu-img. Returns `false` if qemu-img is
    /// not installed.
    fn convert(&self, arguments: &[&str]) -> bool {
        self.qemu_img(&[&["convert", "-f", "raw"], arguments, &["raw", "disk"]].concat())
    }

    fn open(&self, name: &str) -> SharedDevice {
        open_device(&self.path(name), FileOptions::read_only()).unwrap().device
    }

    fn failure(&self, name: &str) -> DeviceError {
        let opened = open_device(&self.path(name), FileOptions::read_only());
        opened.err().expect("the open is refused")
    }

    /// Reads the disk in the image whole and in parts, and compares it with the sample.
    fn check(&self, name: &str, case: &str) {
        let device = self.open(name);
        let length = self.sample.len();
        assert!(device.length_bytes() >= length as u64, "{case}");
        assert!(device.length_bytes() - (length as u64) < (1 << 20), "{case}");
        let mut bytes = vec![0; length];
        device.read_at(&mut bytes, 0).unwrap();
        assert!(bytes == self.sample, "whole, {case}");
        for offset in (0..length - 1000).step_by(99_991) {
            let mut bytes = [0; 1000];
            device.read_at(&mut bytes, offset as u64).unwrap();
            assert_eq!(bytes, self.sample[offset..offset + 1000], "{offset}, {case}");
        }
        assert!(device.read_at(&mut [0; 2], device.length_bytes() - 1).is_err(), "{case}");
    }
}

fn run(program: &str, directory: &Path, arguments: &[&str]) -> bool {
    match Command::new(program).current_dir(directory).args(arguments).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{arguments:?}: {text}");
            true
        }
        Err(error) => {
            eprintln!("skipped: {program} cannot be run ({error})");
            false
        }
    }
}

#[test]
fn images_of_every_form_are_read_as_the_raw_disk() {
    let images = Images::new();
    for form in [
        &["-O", "vdi"][..],
        &["-O", "vdi", "-o", "static=on"],
        &["-O", "vmdk"],
        &["-O", "vmdk", "-o", "zeroed_grain=on"],
        &["-O", "vmdk", "-o", "subformat=monolithicFlat"],
        &["-O", "vmdk", "-o", "subformat=twoGbMaxExtentSparse"],
        &["-O", "vmdk", "-o", "subformat=twoGbMaxExtentFlat"],
        &["-O", "vmdk", "-o", "subformat=streamOptimized"],
        &["-O", "vhdx"],
        &["-O", "vhdx", "-o", "subformat=fixed"],
        &["-O", "vhdx", "-o", "block_size=2M"],
        &["-O", "vhdx", "-o", "block_state_zero=off"],
        &["-O", "qcow2"],
        &["-O", "qcow2", "-c"],
        &["-O", "qcow2", "-c", "-o", "compression_type=zstd"],
        &["-O", "qcow2", "-o", "cluster_size=512"],
        &["-O", "qcow2", "-o", "compat=0.10"],
        &["-O", "qcow2", "-o", "extended_l2=on"],
        &["-O", "qcow2", "-o", "extended_l2=on,cluster_size=16k"],
        &["-O", "qcow2", "-c", "-o", "extended_l2=on,cluster_size=128k"],
    ] {
        if !images.convert(form) {
            return;
        }
        images.check("disk", &format!("{form:?}"));
    }
}

/// Writes to a disk inside an image of a fixed form. Checks that the disk then equals a raw disk
/// after the same writes, as qemu-img reads both.
#[test]
fn images_of_fixed_forms_are_written_in_place() {
    for form in [
        &["-O", "vdi", "-o", "static=on"][..],
        &["-O", "vmdk", "-o", "subformat=monolithicFlat"],
        &["-O", "vmdk", "-o", "subformat=twoGbMaxExtentFlat"],
    ] {
        let images = Images::new();
        if !images.convert(form) {
            return;
        }
        for name in ["raw", "disk"] {
            let opened = open_device(&images.path(name), FileOptions::read_write()).unwrap();
            for offset in [0, 4096, 1 << 20, (3 << 20) - 512] {
                opened.device.write_at(&[0x5a; 1024], offset, Durability::Cached).unwrap();
            }
            opened.device.write_at(&[0xa5; 512], 512, Durability::Durable).unwrap();
            opened.device.write_zeros(8192, 4096).unwrap();
            opened.device.discard(0, 0).unwrap();
            opened.device.flush().unwrap();
            opened.device.check_length().unwrap();
        }
        assert!(images.qemu_img(&["compare", "raw", "disk"]), "{form:?}");
    }
}

#[test]
fn images_of_growing_forms_are_not_written() {
    let images = Images::new();
    for form in [
        &["-O", "qcow2"][..],
        &["-O", "vdi"],
        &["-O", "vmdk"],
        &["-O", "vmdk", "-o", "subformat=twoGbMaxExtentSparse"],
        &["-O", "vhdx", "-o", "subformat=fixed"],
    ] {
        if !images.convert(form) {
            return;
        }
        let before = std::fs::read(images.path("disk")).unwrap();
        let refused = open_device(&images.path("disk"), FileOptions::read_write()).err().unwrap();
        assert!(refused.to_string().contains("does not write"), "{form:?}: {refused}");
        assert!(refused.hint().is_some());
        let reading = images.open("disk");
        assert!(reading.is_read_only());
        assert!(reading.write_at(&[1; 512], 0, Durability::Cached).is_err());
        assert!(reading.discard(0, 512).is_err());
        assert!(before == std::fs::read(images.path("disk")).unwrap(), "{form:?}");
    }
}

#[test]
fn part_of_a_split_disk_is_refused_with_the_name_of_the_whole() {
    let images = Images::new();
    if !images.convert(&["-O", "vmdk", "-o", "subformat=twoGbMaxExtentSparse"]) {
        return;
    }
    let part = std::fs::read_dir(images.directory.path())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .find(|name| name.contains("-s001"))
        .expect("qemu-img makes an extent file");
    let refused = images.failure(&part);
    assert!(refused.to_string().contains("one part of a disk"), "{refused}");
    std::fs::remove_file(images.path(&part)).unwrap();
    let missing = images.failure("disk").to_string();
    assert!(missing.contains("the extent file") && missing.contains(&part), "{missing}");
}

#[test]
fn log_of_a_vhdx_image_that_was_not_closed_is_replayed_in_memory() {
    let images = Images::new();
    if !images.qemu_img(&["create", "-f", "vhdx", "disk", "8M"]) {
        return;
    }
    let write = ["-f", "vhdx", "-c", "write -P 0x77 0 1M", "disk"];
    assert!(run("qemu-io", images.directory.path(), &write));
    let path = images.path("disk");
    let mut bytes = std::fs::read(&path).unwrap();
    // qemu empties the log by taking its GUID out of the headers. The entry is still there.
    let entry = bytes.windows(4).position(|part| part == b"loge").expect("qemu-io uses the log");
    let id = bytes[entry + 32..entry + 48].to_vec();
    for header in [64 << 10, 128 << 10] {
        bytes[header + 48..header + 64].copy_from_slice(&id);
        hostile::seal(&mut bytes[header..header + 4096]);
    }
    // The table as it was before the write that the log describes.
    let layout = table_offset(&bytes);
    let entry = &mut bytes[layout..layout + 8];
    assert_ne!(entry, [0; 8], "the write has changed the table");
    entry.fill(0);
    std::fs::write(&path, &bytes).unwrap();
    let device = images.open("disk");
    let mut read = vec![0; 1 << 20];
    device.read_at(&mut read, 0).unwrap();
    assert!(read.iter().all(|byte| *byte == 0x77));
    assert!(bytes == std::fs::read(&path).unwrap(), "the file is unchanged");
    drop(device);
    // qemu replays the log onto the file, and then reads the same.
    let read = ["-f", "vhdx", "-c", "read -P 0x77 0 1M", "disk"];
    assert!(run("qemu-io", images.directory.path(), &read));
}

/// Returns the offset of the block allocation table in the file of a VHDX image, from its region
/// table.
fn table_offset(bytes: &[u8]) -> usize {
    let id = uuid::uuid!("2dc27766-f623-4200-9d64-115e9bfd4a08").to_bytes_le();
    let regions = &bytes[192 << 10..256 << 10];
    let at = regions.windows(16).position(|part| *part == id).expect("the table has a region");
    usize::try_from(crate::bytes::little(regions, at + 16, 8)).unwrap()
}
