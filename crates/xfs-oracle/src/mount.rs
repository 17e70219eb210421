//! Loop devices and mounts. Each has a guard that removes it on drop, also when a test panics.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::error::{Context, OracleError};
use crate::harness::patiently;
use crate::run::run;

/// A loop device of an image file, detached on drop.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    /// Attaches `image` to a free loop device.
    pub fn attach(image: &Path) -> Result<Self, OracleError> {
        let output = run(Command::new("losetup").args(["--find", "--show"]).arg(image))?;
        Ok(Self { path: PathBuf::from(output.trim_end()) })
    }

    /// Returns the path of the device.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LoopDevice {
    /// Detaches the device and waits until no process has it open. Only then does the kernel
    /// release the image. Without the wait, the next open of the image would find it in use.
    fn drop(&mut self) {
        report(run(Command::new("losetup").arg("--detach").arg(&self.path)));
        let name = self.path.file_name().unwrap_or_default();
        let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
        let _ = patiently(|| if backing.exists() { Err(()) } else { Ok(()) });
    }
}

/// A volume mounted in the kernel, unmounted on drop.
#[derive(Debug)]
pub struct Mount {
    // Fields drop in this order. The folder can be removed only when nothing is mounted on it,
    // which the `Drop` below ensures.
    folder: TempDir,
    _device: LoopDevice,
    _log: Option<LoopDevice>,
    mounted: bool,
}

impl Mount {
    /// Mounts an image, with its external log if there is one, and with further mount options.
    pub fn new(image: &Path, log: Option<&Path>, options: &[&str]) -> Result<Self, OracleError> {
        let device = LoopDevice::attach(image)?;
        let log = log.map(LoopDevice::attach).transpose()?;
        let folder = tempfile::tempdir().context(|| "temporary folder".to_owned())?;
        // Tests mount copies of one volume at the same time, which then have the same UUID.
        let mut joined = OsString::from("nouuid");
        for option in options {
            joined.push(",");
            joined.push(option);
        }
        if let Some(log) = &log {
            joined.push(",logdev=");
            joined.push(log.path());
        }
        let mut mount = Command::new("mount");
        mount.args(["-t", "xfs", "-o"]).arg(joined).arg(device.path()).arg(folder.path());
        run(&mut mount)?;
        Ok(Self { folder, _device: device, _log: log, mounted: true })
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Unmounts the volume. Returns an error if that fails, which a drop cannot do.
    pub fn unmount(mut self) -> Result<(), OracleError> {
        self.mounted = false;
        self.umount().map(drop)
    }

    /// Unmounts, and retries for some seconds. A parallel test that starts a program duplicates all
    /// open files for a moment, which keeps the mount busy.
    fn umount(&self) -> Result<String, OracleError> {
        patiently(|| run(Command::new("umount").arg(self.path())))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.mounted {
            report(self.umount());
        }
    }
}

/// Prints the error to standard error if `outcome` is one, because drop cannot return it.
fn report(outcome: Result<String, OracleError>) {
    if let Err(error) = outcome {
        eprintln!("{error}");
    }
}
