//! Directories of the image into which an import is writing: their state from their creation until
//! their properties are set.

use ferroxfs::Node;

use super::WriteFailure;
use crate::failure::Failure;
use crate::file::facts::Facts;
use crate::file::node;
use crate::file::source::{NamedValue, Source};

/// A directory of the image that is being filled.
pub(crate) struct OpenDirectory {
    pub(crate) directory: Node,
    pub(super) facts: Facts,
    pub(super) attributes: Vec<Result<NamedValue, Failure>>,
    /// Whether this run created the directory. A directory that existed keeps its attributes,
    /// unless `WriterOptions::is_archive` is set.
    pub(super) is_new: bool,
    /// Whether only the times of the directory are set when it is left: to those that it had
    /// before. This is so if its source does not list it.
    pub(super) keeps_all_but_times: bool,
}

impl OpenDirectory {
    /// Returns the directory, for changes to its entries by a layer that does not list it.
    /// [`ImageWriter::leave`](super::ImageWriter::leave) then sets its times to those that it has
    /// now.
    pub(crate) fn unlisted(directory: Node) -> Self {
        let facts = node::facts(&directory);
        let attributes = Vec::new();
        Self { directory, facts, attributes, is_new: false, keeps_all_but_times: true }
    }

    /// Returns whether the directory still has a name.
    pub(crate) fn exists(&self) -> bool {
        self.directory.metadata().nlink > 0
    }
}

/// A directory that is being filled, and those entries of its source that are still to be written.
pub(super) struct ImageLevel<S: Source> {
    pub(super) entered: OpenDirectory,
    pub(super) entries: S::Entries,
    pub(super) path: Vec<u8>,
}

impl<S: Source> ImageLevel<S> {
    /// Opens the entries of the source directory.
    pub(super) fn enter(
        entered: OpenDirectory,
        path: Vec<u8>,
        source: &S,
    ) -> Result<Self, WriteFailure> {
        let entries = source.entries().map_err(WriteFailure::Source)?;
        Ok(Self { entered, entries, path })
    }
}
