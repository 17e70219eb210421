//! Tests of new qcow2 images. qemu-img checks each of them and compares it with the disk; if it is
//! not installed, a test prints that this part is skipped.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use xfs_device::FileOptions;

use super::{ClusterCompression, MAX_QCOW2_BYTES, Packing, image_length, write_qcow2, write_with};
use crate::open::open_device;

const MIB: u64 = 1 << 20;
const COMPRESSIONS: [ClusterCompression; 3] =
    [ClusterCompression::None, ClusterCompression::Deflate, ClusterCompression::Zstd];

/// Returns bytes that do not compress.
fn noise(length: usize, mut state: u64) -> Vec<u8> {
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Makes the raw image `raw`: text, noise, zeros and holes, over two L2 tables, with an end inside
/// of a cluster.
fn disk(folder: &Path) -> File {
    let path = folder.join("raw");
    let disk = File::options().read(true).write(true).create_new(true).open(path).unwrap();
    disk.set_len(600 * MIB + 512).unwrap();
    let text = b"the quick brown fox jumps over the lazy dog; ".repeat(30_000);
    disk.write_all_at(&text, 0).unwrap();
    disk.write_all_at(&noise(300_000, 7), 20 * MIB + 77).unwrap();
    disk.write_all_at(&vec![0; 200_000], 30 * MIB).unwrap();
    disk.write_all_at(&vec![9; 5 * MIB as usize], 100 * MIB).unwrap();
    disk.write_all_at(&text, 511 * MIB + 500_000).unwrap();
    disk.write_all_at(b"end", 600 * MIB + 509).unwrap();
    disk
}

fn create(folder: &Path, name: &str) -> File {
    let path = folder.join(name);
    File::options().read(true).write(true).create_new(true).open(path).unwrap()
}

/// Runs qemu-img, and returns its output. `None` if it is not installed.
fn qemu_img(folder: &Path, arguments: &[&str]) -> Option<String> {
    match Command::new("qemu-img").current_dir(folder).args(arguments).output() {
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            assert!(output.status.success(), "{arguments:?}: {said}");
            Some(said)
        }
        Err(error) => {
            eprintln!("skipped: qemu-img cannot be run ({error})");
            None
        }
    }
}

/// Checks that the image is sound and has the bytes of the disk, for qemu and for us.
fn check_image(folder: &Path, name: &str) {
    if qemu_img(folder, &["check", "-f", "qcow2", name]).is_some() {
        // Another size is a warning.
        let compared = qemu_img(folder, &["compare", "-f", "raw", "-F", "qcow2", "raw", name]);
        assert_eq!(compared.as_deref(), Some("Images are identical.\n"), "{name}");
    }
    let read = open_device(&folder.join(name), FileOptions::read_only()).unwrap().device;
    let raw = File::open(folder.join("raw")).unwrap();
    assert_eq!(read.length_bytes(), raw.metadata().unwrap().len());
    let step = 7 * MIB + 512;
    for offset in (0..read.length_bytes()).step_by(step as usize) {
        let length = step.min(read.length_bytes() - offset) as usize;
        let (mut ours, mut expected) = (vec![0; length], vec![0; length]);
        read.read_at(&mut ours, offset).unwrap();
        raw.read_exact_at(&mut expected, offset).unwrap();
        assert!(ours == expected, "{name}: from {offset} on");
    }
}

#[test]
fn new_image_has_the_bytes_of_the_disk() {
    let folder = TempDir::new().unwrap();
    let disk = disk(folder.path());
    let mut lengths = Vec::new();
    for (index, compression) in COMPRESSIONS.into_iter().enumerate() {
        let name = format!("image-{index}");
        let image = create(folder.path(), &name);
        let mut bytes = 0;
        let mut passed = |more| {
            bytes += more;
            Ok(())
        };
        write_qcow2(&disk, &image, compression, &mut passed).unwrap();
        assert!((7 * MIB..10 * MIB).contains(&bytes), "{bytes}");
        check_image(folder.path(), &name);
        lengths.push(image.metadata().unwrap().len());
    }
    let [plain, deflate, zstd] = lengths[..] else { panic!("three images") };
    assert!(plain > 8 * MIB && deflate < 2 * MIB && zstd < 2 * MIB, "{plain} {deflate} {zstd}");
}

#[test]
fn empty_disk_has_an_image_without_clusters() {
    let folder = TempDir::new().unwrap();
    let disk = create(folder.path(), "raw");
    for (index, length) in [0, 512, 4 << 40].into_iter().enumerate() {
        disk.set_len(length).unwrap();
        let name = format!("image-{index}");
        let image = create(folder.path(), &name);
        write_qcow2(&disk, &image, ClusterCompression::Zstd, &mut |_| Ok(())).unwrap();
        assert!(image.metadata().unwrap().len() <= 2 * MIB);
        qemu_img(folder.path(), &["check", "-f", "qcow2", &name]);
        let read = open_device(&folder.path().join(&name), FileOptions::read_only()).unwrap();
        assert_eq!(read.device.length_bytes(), length);
    }
}

#[test]
fn disk_that_is_too_large_for_an_image_is_refused() {
    assert_eq!(image_length(MAX_QCOW2_BYTES).unwrap(), MAX_QCOW2_BYTES);
    for length in [MAX_QCOW2_BYTES + 1, u64::MAX] {
        let refused = image_length(length).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
    }
}

#[test]
fn threads_and_holes_do_not_change_the_image() {
    let folder = TempDir::new().unwrap();
    let disk = disk(folder.path());
    let full = create(folder.path(), "full");
    for offset in (0..=600 * MIB).step_by(64 * MIB as usize) {
        let mut bytes = vec![0; (64 * MIB).min(600 * MIB + 512 - offset) as usize];
        disk.read_exact_at(&mut bytes, offset).unwrap();
        full.write_all_at(&bytes, offset).unwrap();
    }
    for compression in [ClusterCompression::Deflate, ClusterCompression::Zstd] {
        let images = [(&disk, 1), (&disk, 3), (&full, 2)].map(|(disk, threads)| {
            let image = tempfile::tempfile().unwrap();
            let packing = Packing { compression, threads };
            write_with(disk, &image, packing, &mut |_| Ok(())).unwrap();
            let mut bytes = vec![0; image.metadata().unwrap().len() as usize];
            image.read_exact_at(&mut bytes, 0).unwrap();
            bytes
        });
        // I2.
        assert!(images[0] == images[1] && images[0] == images[2], "{compression:?}");
    }
}

#[test]
fn error_of_the_caller_ends_the_work() {
    let folder = TempDir::new().unwrap();
    let disk = disk(folder.path());
    let image = create(folder.path(), "image");
    let mut calls = 0;
    let stopped = write_qcow2(&disk, &image, ClusterCompression::None, &mut |_| {
        calls += 1;
        if calls == 10 { Err(io::Error::other("stop")) } else { Ok(()) }
    });
    assert_eq!(stopped.unwrap_err().to_string(), "stop");
    // The header is written last, so nothing reads this file as an image.
    assert!(open_device(&folder.path().join("image"), FileOptions::read_only()).is_ok());
    let mut first = [1; 4];
    image.read_exact_at(&mut first, 0).unwrap();
    assert_eq!(first, [0; 4]);
}
