//! A volume that the kernel keeps still, with everything that it knows in place.

use std::path::Path;
use std::process::Command;

/// The volume goes on when this is dropped.
pub(crate) struct Freeze<'a>(&'a Path);

impl<'a> Freeze<'a> {
    /// Freezes what is mounted here.
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
