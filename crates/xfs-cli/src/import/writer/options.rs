//! The properties of files that an import copies.

use ferroxfs::Timestamp;

use super::contents::Holes;
use crate::export::host::Existing;
use crate::file::source::Source;

/// The properties that are copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriterOptions {
    /// Copies owners, times, attributes, hard links and devices too.
    pub(crate) is_archive: bool,
    /// Gives everything to user and group 0.
    pub(crate) is_all_root: bool,
    /// How an existing file is handled.
    pub(crate) existing: Existing,
    /// Later times are reduced to this one.
    pub(crate) latest: Option<Timestamp>,
}

impl WriterOptions {
    /// Copies all properties, and replaces existing files.
    pub(crate) const fn faithful(is_all_root: bool, latest: Option<Timestamp>) -> Self {
        Self { is_archive: true, is_all_root, existing: Existing::Replace, latest }
    }

    /// Returns whether the result must not depend on the filesystem of the host, nor on earlier
    /// reads of the source (I5).
    pub(super) fn is_by_contents<S: Source>(&self, source: &S) -> bool {
        self.latest.is_some() && source.lies_on_host()
    }

    pub(super) fn holes<S: Source>(&self, source: &S) -> Holes {
        if self.is_by_contents(source) { Holes::OfZeros } else { Holes::OfSource }
    }
}
