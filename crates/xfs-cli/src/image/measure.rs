//! The expected amount of work for the files that a command line names, for progress displays.

use std::os::unix::ffi::OsStrExt;

use ferroxfs::Volume;

use super::ImagePath;
use crate::terminal::tally::Measure;

impl Measure {
    /// Returns the amount of work for a whole volume, from `of_volume`, if the only path is the
    /// root of that volume. Otherwise the amount is unknown.
    pub(crate) fn of_targets(targets: &[ImagePath], of_volume: impl Fn(&Volume) -> Self) -> Self {
        match targets {
            [target] if target.path.as_os_str().as_bytes().iter().all(|byte| *byte == b'/') => {
                of_volume(target.volume.inner())
            }
            _ => Self::Unknown,
        }
    }

    /// Returns the sum of the sizes, in bytes, of the files at these paths.
    pub(crate) fn of_files(targets: &[ImagePath]) -> Self {
        let found = targets.iter().filter_map(|target| target.node(true).ok());
        Self::Bytes(found.map(|node| node.metadata().size).sum())
    }
}
