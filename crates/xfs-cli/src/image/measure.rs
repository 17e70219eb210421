//! The amount of work for the files that a command line names.

use std::os::unix::ffi::OsStrExt;

use ferroxfs::Volume;

use super::ImagePath;
use crate::terminal::tally::Measure;

impl Measure {
    /// Measures a whole volume with `of_volume`. The amount is unknown if only a part is worked on.
    pub(crate) fn of_targets(targets: &[ImagePath], of_volume: impl Fn(&Volume) -> Self) -> Self {
        match targets {
            [target] if target.path.as_os_str().as_bytes().iter().all(|byte| *byte == b'/') => {
                of_volume(target.volume.inner())
            }
            _ => Self::Unknown,
        }
    }

    /// Measures the contents of files.
    pub(crate) fn of_files(targets: &[ImagePath]) -> Self {
        let found = targets.iter().filter_map(|target| target.node(true).ok());
        Self::Bytes(found.map(|node| node.metadata().size).sum())
    }
}
