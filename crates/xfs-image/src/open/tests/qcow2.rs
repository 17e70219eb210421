//! Tests of qcow2 images: truncated and hostile ones, and chains of backing files.

use std::io::Write;

use xfs_device::FileOptions;

use super::Images;
use crate::open::open_device;

#[test]
fn read_of_a_truncated_image_is_an_error() {
    let images = Images::new();
    std::fs::write(images.path("raw"), vec![7; 3 << 20]).unwrap();
    if !images.convert(&["-O", "qcow2"]) {
        return;
    }
    let file = std::fs::File::options().write(true).open(images.path("disk")).unwrap();
    file.set_len(file.metadata().unwrap().len() - (1 << 20)).unwrap();
    let device = images.open("disk");
    let mut bytes = [0; 512];
    device.read_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, [7; 512]);
    let error = device.read_at(&mut bytes, (3 << 20) - 512).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
}

/// Makes a chain of three images over the file `raw`, and changes a part of the disk in each.
/// Compares the disk that ferroxfs reads through the topmost image with the disk that qemu-img
/// reads.
#[test]
fn chain_of_backing_files_is_read_as_qemu_img_reads_it() {
    let images = Images::new();
    std::fs::create_dir(images.path("older")).unwrap();
    std::fs::rename(images.path("raw"), images.path("older/raw")).unwrap();
    let extended = ["-o", "extended_l2=on", "disk", "4M"];
    let steps = [
        &["create", "-q", "-f", "qcow2", "-b", "raw", "-F", "raw", "older/first"][..],
        &["create", "-q", "-f", "qcow2", "-b", "older/first", "-F", "qcow2", "second"],
        &[&["create", "-q", "-f", "qcow2", "-b", "second", "-F", "qcow2"], &extended[..]].concat(),
    ];
    for step in steps {
        if !images.qemu_img(step) {
            return;
        }
    }
    for (name, command) in [
        ("older/first", "write -P 1 100k 200k"),
        ("second", "write -z 200k 64k"),
        ("second", "write -P 2 1M 4k"),
        ("disk", "write -P 3 2M 2k"),
        ("disk", "write -z 2052k 4k"),
    ] {
        super::run("qemu-io", images.directory.path(), &["-f", "qcow2", "-c", command, name]);
    }
    images.qemu_img(&["convert", "-O", "raw", "disk", "expected"]);
    let expected = std::fs::read(images.path("expected")).unwrap();
    let device = images.open("disk");
    let mut bytes = vec![0; expected.len()];
    device.read_at(&mut bytes, 0).unwrap();
    assert!(bytes == expected);
    assert_eq!(device.length_bytes(), 4 << 20, "the bytes past the end of `raw` are zeros");
}

#[test]
fn backing_file_outside_of_the_directory_is_refused() {
    let images = Images::new();
    std::fs::create_dir(images.path("inner")).unwrap();
    let whole = images.path("raw");
    for name in ["../raw", whole.to_str().unwrap()] {
        let create = ["create", "-f", "qcow2", "-b", name, "-F", "raw", "inner/disk"];
        if !images.qemu_img(&create) {
            return;
        }
        let refused = images.failure("inner/disk");
        assert!(refused.to_string().contains("not in the directory of the image"), "{refused}");
        assert!(refused.hint().unwrap().contains("qemu-img"), "{refused}");
    }
    let outside = ["create", "-f", "qcow2", "-o", "data_file=outside", "other", "1M"];
    images.qemu_img(&outside);
    let refused = images.failure("other");
    assert!(refused.to_string().contains("external data file"), "{refused}");
}

/// Writes the header of an image with the backing file `backing` and no clusters.
fn write_backed(images: &Images, name: &str, backing: &str) {
    let mut bytes = vec![0; 1024];
    bytes[..8].copy_from_slice(b"QFI\xfb\0\0\0\x02");
    bytes[8..16].copy_from_slice(&512_u64.to_be_bytes());
    bytes[16..20].copy_from_slice(&u32::try_from(backing.len()).unwrap().to_be_bytes());
    bytes[20..24].copy_from_slice(&16_u32.to_be_bytes());
    bytes[512..512 + backing.len()].copy_from_slice(backing.as_bytes());
    std::fs::write(images.path(name), bytes).unwrap();
}

#[test]
fn chain_that_leads_back_or_is_too_long_is_refused() {
    let images = Images::new();
    write_backed(&images, "self", "self");
    write_backed(&images, "a", "b");
    write_backed(&images, "b", "./a");
    for name in ["self", "a", "b"] {
        let refused = images.failure(name);
        assert!(refused.to_string().contains("leads back"), "{refused}");
    }
    for index in 0..40 {
        write_backed(&images, &format!("n{index}"), &format!("n{}", index + 1));
    }
    let refused = images.failure("n0");
    assert!(refused.to_string().contains("more than 32 images"), "{refused}");
    write_backed(&images, "lonely", "missing");
    let refused = images.failure("lonely");
    assert!(refused.to_string().contains("the backing file \"missing\""), "{refused}");
}

#[test]
fn hostile_headers_are_refused() {
    // Every header byte in turn, and huge tables.
    let mut header = vec![0; 65536];
    header.extend(std::iter::repeat_n(0xff, 65536));
    header[..8].copy_from_slice(b"QFI\xfb\0\0\0\x03");
    header[20..24].copy_from_slice(&16_u32.to_be_bytes());
    header[24..32].copy_from_slice(&(1_u64 << 30).to_be_bytes());
    header[36..40].copy_from_slice(&2_u32.to_be_bytes());
    header[40..48].copy_from_slice(&65536_u64.to_be_bytes());
    header[48..56].copy_from_slice(&65536_u64.to_be_bytes());
    header[100..104].copy_from_slice(&104_u32.to_be_bytes());
    // Plain, with extended entries, and not closed.
    let kinds = [0_u8, 1 << 4, 1];
    for (index, kind) in (8..104).flat_map(|index| kinds.map(|kind| (index, kind))) {
        for value in [0x01, 0x7f, 0xff] {
            let mut bytes = header.clone();
            bytes[79] = kind;
            bytes[index] = value;
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&bytes).unwrap();
            if let Ok(opened) = open_device(file.path(), FileOptions::read_only()) {
                let _ = opened.device.read_at(&mut [0; 512], 0);
            }
        }
    }
}

/// Checks that an image with an unsupported feature is refused with the name of the feature.
/// The header decides, so qemu-img is not needed.
#[test]
fn unsupported_features_are_named() {
    let refusal = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = vec![0; 65536];
        bytes[..8].copy_from_slice(b"QFI\xfb\0\0\0\x03");
        bytes[20..24].copy_from_slice(&16_u32.to_be_bytes());
        bytes[100..104].copy_from_slice(&112_u32.to_be_bytes());
        change(&mut bytes);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        let error = open_device(file.path(), FileOptions::read_only()).err().unwrap();
        assert!(error.hint().is_some(), "{error}");
        error.failure().to_string()
    };
    let features = |low: u8| move |bytes: &mut Vec<u8>| bytes[79] = low;
    assert!(refusal(&features(1 << 1)).contains("is marked as corrupt"));
    assert!(refusal(&features(1 << 2)).contains("has an external data file"));
    assert!(refusal(&features(1 << 5)).contains("has unknown features (bits 0x20)"));
    let zstd = |bytes: &mut Vec<u8>| (bytes[79], bytes[104]) = (1 << 3, 2);
    assert!(refusal(&zstd).contains("an unknown method (2)"));
    assert!(refusal(&|bytes| bytes[35] = 2).contains("is encrypted"));
    assert!(refusal(&|bytes| bytes[7] = 9).contains("version 9"));
    let backed = |bytes: &mut Vec<u8>| {
        bytes[14] = 1;
        bytes[19] = 6;
        bytes[256..262].copy_from_slice(b"a\x1b[2J/");
    };
    assert!(refusal(&backed).contains("a\\\\u{1b}[2J/"), "{}", refusal(&backed));
    assert!(refusal(&|bytes| bytes.truncate(50)).contains("damaged"));
}

#[test]
fn image_that_was_not_closed_is_read() {
    let images = Images::new();
    if !images.convert(&["-c", "-O", "qcow2"]) {
        return;
    }
    let mut bytes = std::fs::read(images.path("disk")).unwrap();
    bytes[79] |= 1;
    std::fs::write(images.path("disk"), bytes).unwrap();
    images.check("disk", "dirty");
}
