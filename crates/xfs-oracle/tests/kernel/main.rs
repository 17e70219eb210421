//! Comparison with the kernel: volumes of every geometry, made by mkfs.xfs and filled through the
//! kernel, are compared inode by inode.
//!
//! The kernel's view comes from a read-only mount, and ferroxfs's view from the image after a clean
//! unmount. No difference is allowed in anything that the kernel shows.

mod coverage;
mod inventory;
mod ours;
mod pointers;

use std::path::Path;
use std::process::ExitCode;

use ferroxfs::{OpenOptions, Volume};
use xfs_oracle::harness::{Trial, TrialError, run};
use xfs_oracle::{Differences, Geometry, Image, Tree, ready};

fn main() -> ExitCode {
    let trial = |geometry: Geometry| {
        let name = format!("same_as_the_kernel::{}", geometry.name);
        Trial::new(name, move || check_geometry(&geometry))
    };
    run(Geometry::ALL.into_iter().map(trial).collect())
}

fn check_geometry(geometry: &Geometry) -> Result<(), TrialError> {
    ready()?;
    // Not in memory: the volumes of all parallel tests would not fit everywhere.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .map_err(|error| TrialError::Failed(error.to_string()))?;
    let image = geometry.make_and_fill(folder.path())?;
    let mount = image.mount(&["ro"])?;
    let kernel = Tree::walk(mount.path())?;
    mount.unmount()?;
    let volume = open(&image)?;
    let ours = ours::walk(&volume).map_err(|error| error.to_string())?;
    let mut differences = Differences::between(&kernel, &ours);
    pointers::check(&volume, &kernel, &mut differences);
    coverage::check(geometry, &volume, &kernel, &mut differences)
        .map_err(|error| error.to_string())?;
    inventory::check(&volume, &kernel, &mut differences)?;
    differences.into_result()?;
    Ok(())
}

fn open(image: &Image) -> Result<Volume, TrialError> {
    let options = OpenOptions::new();
    let options = match &image.log {
        Some(log) => options.log_device(log),
        None => options,
    };
    let data: &Path = &image.data;
    Ok(options.open(data).map_err(|error| error.to_string())?)
}
