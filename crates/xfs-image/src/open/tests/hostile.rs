//! Damaged and truncated images of every form: each gives an error or bytes, and no panic.

use std::sync::Arc;

use xfs_device::{Contents, MemoryDevice, detect};

use super::Images;
use crate::open::open_image;

/// Opens the image in `bytes` and reads parts of its disk. The results are ignored.
fn try_image(bytes: &[u8]) {
    let Ok(file) = MemoryDevice::from_bytes(bytes) else { return };
    let contents = detect(&file, 0).unwrap();
    if !super::super::is_read_here(contents) {
        return;
    }
    if let Ok(disk) = open_image(Arc::new(file), contents, None) {
        let mut buffer = [0; 1536];
        for offset in [0, 65_000, 1 << 20, disk.length_bytes().saturating_sub(1536)] {
            let _ = disk.read_at(&mut buffer, offset);
        }
    }
}

/// Calls `try_image` on changed copies of an image. Every `step`-th byte of `ranges` gets three
/// values, one byte at a time. The image is also truncated at many places.
fn check_hostile(bytes: &[u8], ranges: &[std::ops::Range<usize>], step: usize) {
    let mut changed = bytes.to_vec();
    for at in ranges.iter().cloned().flatten().step_by(step) {
        let Some(&before) = bytes.get(at) else { continue };
        for value in [0x00, 0x7f, 0xff] {
            changed[at] = value;
            try_image(&changed);
        }
        changed[at] = before;
    }
    for length in (0..bytes.len()).step_by(bytes.len() / 40 + 1) {
        try_image(&bytes[..length]);
    }
}

#[test]
fn damaged_images_of_every_form_give_errors() {
    let images = Images::new();
    std::fs::write(images.path("raw"), &images.sample[..128 << 10]).unwrap();
    for (form, ranges, step) in [
        (&["-O", "vdi"][..], vec![64..512, 512..520], 1),
        (&["-O", "vmdk"], vec![0..80, 512..900], 3),
        (&["-O", "vmdk", "-o", "subformat=streamOptimized"], vec![0..80, 512..900], 3),
        (&["-O", "qcow2", "-c", "-o", "compression_type=zstd"], vec![8..112, 327_680..327_780], 1),
    ] {
        if !images.convert(form) {
            return;
        }
        let bytes = std::fs::read(images.path("disk")).unwrap();
        try_image(&bytes);
        check_hostile(&bytes, &ranges, step);
    }
}

/// Changes one field of a VHDX image after the other, with correct checksums. Checks that opening
/// and reading each changed image causes no panic.
#[test]
fn damaged_fields_of_a_vhdx_image_cause_no_panic() {
    let images = Images::new();
    std::fs::write(images.path("raw"), &images.sample[..128 << 10]).unwrap();
    if !images.convert(&["-O", "vhdx"]) {
        return;
    }
    let bytes = std::fs::read(images.path("disk")).unwrap();
    // All but the contents of the disk.
    let bytes = &bytes[..bytes.len().min(5 << 20)];
    let mut changed = bytes.to_vec();
    for (start, length, fields) in
        [(64 << 10, 4096, 8..84), (128 << 10, 4096, 8..84), (192 << 10, 65536, 8..80)]
    {
        for field in fields.step_by(4) {
            changed.copy_from_slice(bytes);
            changed[start + field..start + field + 4].fill(0xff);
            seal(&mut changed[start..start + length]);
            try_image(&changed);
        }
    }
}

/// Puts the right CRC-32C into a structure of a VHDX image.
pub(super) fn seal(bytes: &mut [u8]) {
    bytes[4..8].fill(0);
    let crc = crc32c::crc32c(bytes);
    for (index, byte) in bytes[4..8].iter_mut().enumerate() {
        *byte = (crc >> (8 * index)) as u8;
    }
}

/// Opens VHDX images whose log entries refer to each other and to places outside of the file. Each
/// must give an error.
#[test]
fn hostile_log_of_a_vhdx_image_gives_an_error() {
    let mut bytes = vec![0; 1 << 20];
    bytes[..8].copy_from_slice(b"vhdxfile");
    let put = |bytes: &mut [u8], at: usize, length: usize, value: u64| {
        for index in 0..length {
            bytes[at + index] = (value >> (8 * index)) as u8;
        }
    };
    let head = 64 << 10;
    bytes[head..head + 4].copy_from_slice(b"head");
    put(&mut bytes, head + 8, 8, 1);
    bytes[head + 48..head + 64].fill(7);
    put(&mut bytes, head + 66, 2, 1);
    put(&mut bytes, head + 68, 4, 64 << 10);
    put(&mut bytes, head + 72, 8, 512 << 10);
    seal(&mut bytes[head..head + 4096]);
    for (count, place, sequence, tail) in [
        (1, u64::MAX - 4096, 1, 0),
        (u64::from(u32::MAX), 0, 1, 0),
        (126, 0, 1, 0),
        (1, 0, u64::MAX, 4096),
        (1, 0, 1, u64::from(u32::MAX)),
    ] {
        let entry = 512 << 10;
        bytes[entry..entry + 4].copy_from_slice(b"loge");
        put(&mut bytes, entry + 8, 4, 8192);
        put(&mut bytes, entry + 12, 4, tail);
        put(&mut bytes, entry + 16, 8, sequence);
        put(&mut bytes, entry + 24, 4, count);
        bytes[entry + 32..entry + 48].fill(7);
        bytes[entry + 64..entry + 68].copy_from_slice(b"desc");
        put(&mut bytes, entry + 80, 8, place);
        put(&mut bytes, entry + 88, 8, sequence);
        seal(&mut bytes[entry..entry + 8192]);
        let file = MemoryDevice::from_bytes(&bytes).unwrap();
        assert!(open_image(Arc::new(file), Contents::Vhdx, None).is_err());
    }
}
