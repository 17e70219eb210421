//! Tests of copies of frozen volumes. The log of a volume that ferroxfs has frozen must have the
//! same contents as the log of one that the kernel has frozen. ferroxfs must recover the copy from
//! the kernel, and the kernel the copy from ferroxfs.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use ferroxfs::Volume;
use xfs_oracle::harness::{TrialError, patiently};
use xfs_oracle::{Geometry, Image, Mount, ready};

use crate::failed;
use crate::identity::options;

pub(crate) fn check(geometry: &Geometry) -> Result<(), TrialError> {
    ready()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)?;
    let part = |name: &str| {
        let part = folder.path().join(name);
        fs::create_dir(&part).map_err(failed).map(|()| part)
    };
    let image = geometry.make(folder.path())?;
    let ours = of_ours(&image, &part("ours")?)?;
    let kernel = of_kernel(&image, &part("kernel")?)?;
    let logged = (ours.logged()?, kernel.logged()?);
    if logged.0 != logged.1 {
        return Err(failed(format!("our log and that of the kernel differ: {logged:?}")));
    }
    for copy in [ours, kernel] {
        let volume = patiently(|| options(&copy).write(false).open(&copy.data)).map_err(failed)?;
        same(&volume.read("/file").map_err(failed)?)?;
        drop(volume);
        let mount = copy.mount(&[])?;
        same(&fs::read(mount.path().join("file")).map_err(failed)?)?;
        mount.unmount()?;
        if let Some(findings) = copy.findings()? {
            return Err(failed(findings));
        }
    }
    Ok(())
}

fn same(contents: &[u8]) -> Result<(), TrialError> {
    if contents == b"contents" { Ok(()) } else { Err(failed("other contents")) }
}

/// Makes a volume with ferroxfs. One of its files is open and has lost its name. Freezes the
/// volume. Returns a copy of the frozen volume.
fn of_ours(image: &Image, folder: &Path) -> Result<Image, TrialError> {
    let volume: Volume = patiently(|| options(image).open(&image.data)).map_err(failed)?;
    let mut file = volume.create_file("/file").map_err(failed)?;
    file.write_all(b"contents").map_err(failed)?;
    volume.write("/removed", b"bytes").map_err(failed)?;
    let removed = volume.lookup("/removed").map_err(failed)?;
    volume.remove_file("/removed").map_err(failed)?;
    volume.freeze().map_err(failed)?;
    let copy = image.copy(folder)?;
    volume.thaw().map_err(failed)?;
    drop((file, removed));
    volume.close().map_err(failed)?;
    Ok(copy)
}

/// Writes files to a volume through the kernel, one of them an open file that has lost its name.
/// Then lets the kernel freeze the volume. Returns a copy of the frozen volume.
fn of_kernel(image: &Image, folder: &Path) -> Result<Image, TrialError> {
    let mount = image.mount(&[])?;
    fs::write(mount.path().join("file"), "contents").map_err(failed)?;
    let removed = fs::File::create(mount.path().join("removed")).map_err(failed)?;
    fs::remove_file(mount.path().join("removed")).map_err(failed)?;
    fsfreeze(&mount, "--freeze")?;
    let copy = image.copy(folder);
    fsfreeze(&mount, "--unfreeze")?;
    drop(removed);
    mount.unmount()?;
    Ok(copy?)
}

fn fsfreeze(mount: &Mount, what: &str) -> Result<(), TrialError> {
    let status = Command::new("fsfreeze").arg(what).arg(mount.path()).status().map_err(failed)?;
    if status.success() { Ok(()) } else { Err(failed(format!("fsfreeze {what}: {status}"))) }
}
