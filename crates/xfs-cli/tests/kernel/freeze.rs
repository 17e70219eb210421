//! Freezing a mounted volume, which makes the kernel write all metadata to its place on disk.

use std::path::Path;
use std::process::Command;

/// A frozen volume. Dropping this value thaws it.
pub(crate) struct Freeze<'a>(&'a Path);

impl<'a> Freeze<'a> {
    /// Freezes the volume that is mounted at `mount`.
    pub(crate) fn new(mount: &'a Path) -> Self {
        let status = Command::new("fsfreeze").arg("-f").arg(mount).status();
        assert!(status.expect("fsfreeze runs").success(), "the volume cannot be frozen");
        Self(mount)
    }
}

impl Drop for Freeze<'_> {
    fn drop(&mut self) {
        let status = Command::new("fsfreeze").arg("-u").arg(self.0).status();
        if !status.is_ok_and(|status| status.success()) {
            eprintln!("{} stays frozen", self.0.display());
        }
    }
}
