//! Tests of read-only mounts of golden volumes of every kind.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use xfs_format::DiskAddr;
use xfs_oracle::harness::TrialError;
use xfs_oracle::{OracleError, ready};
use xfs_testkit::{
    Image, RealtimeSection, golden_metadata_directory, golden_quota, golden_version_4,
};

use crate::mounted::{await_mount, ferroxfs, run, umount};

/// Writes the sectors of an image that are not zero.
fn write(image: &Image, to: &Path) {
    const CHUNK: usize = 64 << 10;
    let file = File::create(to).unwrap();
    let length = image.length_bytes();
    file.set_len(length as u64).unwrap();
    for offset in (0..length).step_by(CHUNK) {
        let bytes = image.bytes(DiskAddr(offset as u64 / 512), CHUNK.min(length - offset)).unwrap();
        if bytes.iter().any(|byte| *byte != 0) {
            file.write_all_at(&bytes, offset as u64).unwrap();
        }
    }
}

/// Checks that each golden volume can be mounted with `-o ro`: a file has the right length and
/// first byte, and a write is refused.
pub(crate) fn golden_volumes_of_every_kind_are_mounted() -> Result<(), TrialError> {
    ready()?;
    if !Path::new("/dev/fuse").exists() {
        return Err(OracleError::Unavailable("the machine has no /dev/fuse".to_owned()).into());
    }
    let fragments = ("rt/fragments", (39 * 64 + 4) << 10, b'e');
    let sections =
        RealtimeSection::ALL.map(|section| (section.data(), section.device(), fragments));
    let others = [
        (golden_version_4(), None, ("SHORT/s1", 7, b'1')),
        (golden_quota(), None, ("d/new", 70 << 10, 0)),
        (golden_metadata_directory(), None, ("d/shared", 40 << 10, b'a')),
    ];
    for (data, device, (path, length, first)) in sections.into_iter().chain(others) {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let at = |name: &str| folder.path().join(name);
        write(&data, &at("image"));
        let mut options = "ro".to_owned();
        if let Some(device) = &device {
            write(device, &at("device"));
            options.push_str(&format!(",rtdev={}", at("device").display()));
        }
        fs::create_dir(at("mnt")).unwrap();
        let (image, mount) = (at("image"), at("mnt"));
        let (image, place) = (image.to_str().unwrap(), mount.to_str().unwrap());
        run(&mut ferroxfs(&["mount", "-o", &options, image, place]));
        await_mount(&mount);
        let contents = fs::read(mount.join(path));
        let written = fs::write(mount.join("new"), b"new");
        umount(&mount);
        let contents = contents.unwrap();
        assert_eq!((contents.len(), contents.first()), (length, Some(&first)), "{path}");
        assert!(written.is_err(), "{path}: a read-only mount was written");
    }
    Ok(())
}
