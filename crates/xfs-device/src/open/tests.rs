//! Tests of opening image files by path: plain images are opened, and other containers are refused
//! by name.

use std::io::Write;
use std::path::Path;

use super::open_device;
use crate::error::DeviceFailure;
use crate::file::{DeviceAccess, FileOptions};
use crate::signature::Contents;

fn failure(path: &Path, options: FileOptions) -> DeviceFailure {
    open_device(path, options).err().expect("the open is refused").into_failure()
}

#[test]
fn plain_image_is_opened_as_it_is() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&[7; 1024]).unwrap();
    for options in [FileOptions::read_only(), FileOptions::read_write()] {
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
        let refused = failure(file.path(), FileOptions::read_only());
        assert!(matches!(refused, DeviceFailure::ForeignImage(found, _) if found == contents));
        assert!(refused.to_string().contains(contents.name()));
    }
}

#[test]
fn qcow2_is_never_written() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"QFI\xfb\0\0\0\x03").unwrap();
    assert!(matches!(
        failure(file.path(), FileOptions::read_write()),
        DeviceFailure::ForeignImage(Contents::Qcow2, DeviceAccess::ReadWrite)
    ));
}
