//! Tests of opening paths. A qcow2 image is compared with qemu-img, if that is installed.

use std::io::Write;
use std::path::Path;

use super::open_device;
use crate::error::DeviceFailure;
use crate::file::{DeviceAccess, OpenOptions};
use crate::signature::Contents;

fn failure(path: &Path, options: OpenOptions) -> DeviceFailure {
    open_device(path, options).err().expect("the open is refused").into_failure()
}

#[test]
fn plain_image_is_opened_as_it_is() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&[7; 1024]).unwrap();
    for options in [OpenOptions::read_only(), OpenOptions::read_write()] {
        let opened = open_device(file.path(), options).unwrap();
        assert_eq!(opened.device.length_bytes(), 1024);
        assert_eq!(opened.usage, None);
    }
}

#[test]
fn other_containers_are_refused_by_name() {
    for (magic, contents) in [
        (&b"KDMV"[..], Contents::Vmdk),
        (b"vhdxfile", Contents::Vhdx),
        (b"conectix", Contents::Vhd),
    ] {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(magic).unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let refused = failure(file.path(), OpenOptions::read_only());
        assert!(matches!(refused, DeviceFailure::ForeignImage(found, _) if found == contents));
        assert!(refused.to_string().contains(contents.name()));
    }
}

#[test]
fn qcow2_is_never_written() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"QFI\xfb\0\0\0\x03").unwrap();
    assert!(matches!(
        failure(file.path(), OpenOptions::read_write()),
        DeviceFailure::ForeignImage(Contents::Qcow2, DeviceAccess::ReadWrite)
    ));
}

#[cfg(feature = "disk-images")]
mod qcow2 {
    use std::io::Write;
    use std::path::Path;
    use std::process::Command;

    use super::{failure, open_device};
    use crate::error::DeviceFailure;
    use crate::file::OpenOptions;
    use crate::image::ImageRefusal;

    /// Runs qemu-img. If qemu-img is not installed, prints a message and returns `false`.
    fn qemu_img(directory: &Path, arguments: &[&str]) -> bool {
        let mut command = Command::new("qemu-img");
        match command.current_dir(directory).args(arguments).output() {
            Ok(output) => {
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                true
            }
            Err(error) => {
                eprintln!("skipped: qemu-img cannot be run ({error})");
                false
            }
        }
    }

    /// Returns bytes in which runs of zeros and runs of noise alternate. The length of a run is not
    /// a multiple of any cluster size.
    fn sample() -> Vec<u8> {
        let mut bytes = vec![0; (3 << 20) + 512];
        let mut state = 1_u32;
        for (index, byte) in bytes.iter_mut().enumerate() {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = if index >> 18 & 1 == 0 { (state >> 24) as u8 } else { 0 };
        }
        bytes
    }

    #[test]
    fn images_of_qemu_img_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let sample = sample();
        std::fs::write(directory.path().join("raw"), &sample).unwrap();
        for extra in [
            &[][..],
            &["-c"],
            &["-o", "cluster_size=512"],
            &["-o", "compat=0.10"],
            &["-o", "extended_l2=on"],
            &["-o", "extended_l2=on,cluster_size=16k"],
            &["-c", "-o", "extended_l2=on,cluster_size=128k"],
        ] {
            let plain = ["convert", "-f", "raw", "-O", "qcow2"];
            let arguments = [&plain[..], extra, &["raw", "disk"]].concat();
            if !qemu_img(directory.path(), &arguments) {
                return;
            }
            let path = directory.path().join("disk");
            let device = open_device(&path, OpenOptions::read_only()).unwrap().device;
            assert_eq!(device.length_bytes(), sample.len() as u64);
            let mut bytes = vec![0; sample.len()];
            device.read_at(&mut bytes, 0).unwrap();
            assert!(bytes == sample, "whole, {extra:?}");
            for offset in (0..sample.len() - 1000).step_by(99_991) {
                let mut bytes = [0; 1000];
                device.read_at(&mut bytes, offset as u64).unwrap();
                assert_eq!(bytes, sample[offset..offset + 1000]);
            }
            assert!(device.read_at(&mut [0; 2], sample.len() as u64 - 1).is_err());
        }
    }

    #[test]
    fn read_of_a_truncated_image_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("raw"), vec![7; 3 << 20]).unwrap();
        if !qemu_img(directory.path(), &["convert", "-f", "raw", "-O", "qcow2", "raw", "disk"]) {
            return;
        }
        let path = directory.path().join("disk");
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(file.metadata().unwrap().len() - (1 << 20)).unwrap();
        let device = open_device(&path, OpenOptions::read_only()).unwrap().device;
        let mut bytes = [0; 512];
        device.read_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [7; 512]);
        let error = device.read_at(&mut bytes, (3 << 20) - 512).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn image_that_names_another_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("raw"), sample()).unwrap();
        let backed = ["create", "-f", "qcow2", "-b", "raw", "-F", "raw", "disk"];
        if !qemu_img(directory.path(), &backed) {
            return;
        }
        let path = directory.path().join("disk");
        let refused = failure(&path, OpenOptions::read_only());
        assert!(
            matches!(refused, DeviceFailure::Refused(ImageRefusal::BackingFile(ref name)) if name == "raw")
        );
        let outside = ["create", "-f", "qcow2", "-o", "data_file=outside", "other", "1M"];
        qemu_img(directory.path(), &outside);
        let path = directory.path().join("other");
        assert!(matches!(
            failure(&path, OpenOptions::read_only()),
            DeviceFailure::Refused(ImageRefusal::ExternalData)
        ));
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
                if let Ok(opened) = open_device(file.path(), OpenOptions::read_only()) {
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
            let error = open_device(file.path(), OpenOptions::read_only()).err().unwrap();
            assert!(error.hint().unwrap().contains("qemu-img"), "{error}");
            error.failure().to_string()
        };
        let features = |low: u8| move |bytes: &mut Vec<u8>| bytes[79] = low;
        assert!(refusal(&features(1 << 1)).contains("is marked as corrupt"));
        assert!(refusal(&features(1 << 2)).contains("has an external data file"));
        assert!(refusal(&features(1 << 5)).contains("has unknown features (bits 0x20)"));
        let zstd = |bytes: &mut Vec<u8>| (bytes[79], bytes[104]) = (1 << 3, 1);
        assert!(refusal(&zstd).contains("compressed by zstd"));
        assert!(refusal(&|bytes| bytes[35] = 2).contains("is encrypted"));
        assert!(refusal(&|bytes| bytes[7] = 9).contains("version 9"));
        let backed = |bytes: &mut Vec<u8>| {
            bytes[14] = 1;
            bytes[19] = 6;
            bytes[256..262].copy_from_slice(b"a\x1b[2J/");
        };
        assert!(refusal(&backed).contains("a backing file (a\\u{1b}[2J/)"), "{}", refusal(&backed));
        assert!(refusal(&|bytes| bytes.truncate(50)).contains("damaged"));
    }

    #[test]
    fn image_that_was_not_closed_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let sample = sample();
        std::fs::write(directory.path().join("raw"), &sample).unwrap();
        let convert = ["convert", "-c", "-f", "raw", "-O", "qcow2", "raw", "disk"];
        if !qemu_img(directory.path(), &convert) {
            return;
        }
        let path = directory.path().join("disk");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[79] |= 1;
        std::fs::write(&path, bytes).unwrap();
        let device = open_device(&path, OpenOptions::read_only()).unwrap().device;
        let mut bytes = vec![0; sample.len()];
        device.read_at(&mut bytes, 0).unwrap();
        assert!(bytes == sample);
    }
}
