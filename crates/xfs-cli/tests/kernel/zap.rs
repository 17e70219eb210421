//! `zap` of a block device with files that the kernel has written and removed.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use xfs_oracle::LoopDevice;
use xfs_oracle::harness::TrialError;

use crate::{check, ferroxfs, volume};

/// The byte in the contents of removed files.
const REMOVED: u8 = 0xa7;
const BLOCK_BYTES: usize = 4096;

/// Returns the number of blocks of an image with the contents of removed files.
fn remains(image: &Path) -> usize {
    let file = File::open(image).unwrap();
    let (mut block, mut found) = ([0; BLOCK_BYTES], 0);
    for at in (0..file.metadata().unwrap().len()).step_by(BLOCK_BYTES) {
        file.read_exact_at(&mut block, at).unwrap();
        found += usize::from(block == [REMOVED; BLOCK_BYTES]);
    }
    found
}

/// Checks that the contents of files that the kernel has removed are gone from a device, that its
/// other files stay, and that the kernel mounts the volume afterwards.
pub(crate) fn free_space_of_a_device_reads_as_zeros() -> Result<(), TrialError> {
    let (_folder, image) = volume()?;
    let mount = image.mount(&[])?;
    for number in 0..50_usize {
        let at = |name: &str| mount.path().join(format!("{name}-{number}"));
        fs::write(at("removed"), vec![REMOVED; number * 10_000]).unwrap();
        fs::write(at("kept"), vec![number as u8; number * 10_000]).unwrap();
    }
    rustix::fs::syncfs(File::open(mount.path()).unwrap()).unwrap();
    for number in 0..50 {
        fs::remove_file(mount.path().join(format!("removed-{number}"))).unwrap();
    }
    mount.unmount()?;
    assert!(remains(&image.data) > 1000, "{}", remains(&image.data));
    let device = LoopDevice::attach(&image.data)?;
    let output = ferroxfs(&["zap"], device.path());
    check(&["zap"], &output, &[0])?;
    drop(device);
    assert_eq!(remains(&image.data), 0);
    if let Some(findings) = image.findings()? {
        return Err(TrialError::Failed(findings.to_string()));
    }
    let mount = image.mount(&[])?;
    for number in 0..50_usize {
        let kept = fs::read(mount.path().join(format!("kept-{number}"))).unwrap();
        assert!(kept == vec![number as u8; number * 10_000], "file {number}");
    }
    Ok(mount.unmount()?)
}
