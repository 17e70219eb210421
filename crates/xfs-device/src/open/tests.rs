//! Opening paths; qcow2 against the tool that defines the format, where it is installed.

use std::io::Write;
use std::path::Path;

use super::open_device;
use crate::error::DeviceFailure;
use crate::file::{Access, OpenOptions};
use crate::signature::Contents;

fn failure(path: &Path, options: OpenOptions) -> DeviceFailure {
    open_device(path, options).err().expect("this should be refused").into_failure()
}

#[test]
fn plain_images_are_opened_as_they_are() {
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
        DeviceFailure::ForeignImage(Contents::Qcow2, Access::ReadWrite)
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

    /// Runs qemu-img, or says that there is none.
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

    /// Bytes with runs of zeros and of noise, not a multiple of any cluster size.
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
    fn reads_what_qemu_img_wrote() {
        let directory = tempfile::tempdir().unwrap();
        let sample = sample();
        std::fs::write(directory.path().join("raw"), &sample).unwrap();
        for extra in [&[][..], &["-c"], &["-o", "cluster_size=512"], &["-o", "compat=0.10"]] {
            let plain = ["convert", "-f", "raw", "-O", "qcow2"];
            let arguments = [&plain[..], extra, &["raw", "disk"]].concat();
            if !qemu_img(directory.path(), &arguments) {
                return;
            }
            let path = directory.path().join("disk");
            let device = open_device(&path, OpenOptions::read_only()).unwrap().device;
            assert_eq!(device.length_bytes(), sample.len() as u64);
            let mut bytes = vec![0; sample.len()];
            device.read_at(0, &mut bytes).unwrap();
            assert!(bytes == sample, "whole, {extra:?}");
            for offset in (0..sample.len() - 1000).step_by(99_991) {
                let mut bytes = [0; 1000];
                device.read_at(offset as u64, &mut bytes).unwrap();
                assert_eq!(bytes, sample[offset..offset + 1000]);
            }
            assert!(device.read_at(sample.len() as u64 - 1, &mut [0; 2]).is_err());
        }
    }

    #[test]
    fn data_past_the_end_of_a_short_file_is_an_error() {
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
        device.read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 512]);
        let error = device.read_at((3 << 20) - 512, &mut bytes).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn images_that_name_other_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("raw"), sample()).unwrap();
        let backed = ["create", "-f", "qcow2", "-b", "raw", "-F", "raw", "disk"];
        if !qemu_img(directory.path(), &backed) {
            return;
        }
        let path = directory.path().join("disk");
        assert!(matches!(failure(&path, OpenOptions::read_only()), DeviceFailure::Image(_)));
        let outside = ["create", "-f", "qcow2", "-o", "data_file=outside", "other", "1M"];
        qemu_img(directory.path(), &outside);
        let path = directory.path().join("other");
        assert!(matches!(failure(&path, OpenOptions::read_only()), DeviceFailure::Image(_)));
    }

    #[test]
    fn hostile_headers_are_refused() {
        // Every header byte in turn, and huge tables.
        let mut header = vec![0; 65536];
        header[..8].copy_from_slice(b"QFI\xfb\0\0\0\x03");
        header[20..24].copy_from_slice(&16_u32.to_be_bytes());
        header[24..32].copy_from_slice(&(1_u64 << 30).to_be_bytes());
        header[36..40].copy_from_slice(&2_u32.to_be_bytes());
        header[40..48].copy_from_slice(&65536_u64.to_be_bytes());
        header[48..56].copy_from_slice(&65536_u64.to_be_bytes());
        header[100..104].copy_from_slice(&104_u32.to_be_bytes());
        for index in 8..104 {
            for value in [0x7f, 0xff] {
                let mut bytes = header.clone();
                bytes[index] = value;
                let mut file = tempfile::NamedTempFile::new().unwrap();
                file.write_all(&bytes).unwrap();
                if let Ok(opened) = open_device(file.path(), OpenOptions::read_only()) {
                    let _ = opened.device.read_at(0, &mut [0; 512]);
                }
            }
        }
    }
}
