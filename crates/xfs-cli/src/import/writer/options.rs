//! Options for writing files into an image: the properties that are copied, and the handling of
//! existing files.

use ferroxfs::Timestamp;

use crate::export::host::Existing;
use crate::import::chunks::Holes;

/// Options for writing files into an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriterOptions {
    /// Whether owners, times, attributes, hard links and devices are copied too.
    pub(crate) is_archive: bool,
    /// Whether all written files get user 0 and group 0 as their owner.
    pub(crate) is_all_root: bool,
    /// How an existing file of the same name is handled.
    pub(crate) existing: Existing,
    /// The latest time that a written file may have. A file with a later time gets this time
    /// instead.
    pub(crate) latest: Option<Timestamp>,
}

impl WriterOptions {
    /// Returns options that copy all properties and replace existing files.
    pub(crate) const fn faithful(is_all_root: bool, latest: Option<Timestamp>) -> Self {
        Self { is_archive: true, is_all_root, existing: Existing::Replace, latest }
    }

    /// Returns whether the copy of a source must depend only on its names, metadata and contents
    /// (I5 of `writer`). Then the holes that the host's filesystem reports have no influence.
    /// Access times have none either, because earlier reads have changed them.
    pub(super) fn is_by_contents(&self, lies_on_host: bool) -> bool {
        self.latest.is_some() && lies_on_host
    }

    pub(super) fn holes(&self, lies_on_host: bool) -> Holes {
        if self.is_by_contents(lies_on_host) { Holes::OfZeros } else { Holes::OfSource }
    }
}
