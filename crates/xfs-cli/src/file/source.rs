//! Files as the sources of copies and archives.
//!
//! The trait separates copying from the library, so that tests can bring files that no kernel would
//! make: hostile names, directories inside themselves, contents that fail midway.

use std::ops::Range;

use crate::failure::Failure;
use crate::file::facts::Facts;
use crate::terminal::names;

/// A file that can be copied.
pub(crate) trait Source: Sized {
    /// The entries of a directory.
    type Entries: Iterator<Item = Result<(Vec<u8>, Self), Failure>>;

    /// Returns the facts of the inode.
    fn facts(&self) -> Facts;
    /// Returns the length of the contents; `None` if only reading them to the end tells.
    fn length(&self) -> Option<u64> {
        Some(self.facts().size)
    }
    /// Reads contents; returns how much was read, less than asked for only at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Failure>;
    /// Returns the next range at or after `offset` that holds data.
    fn data_after(&self, offset: u64) -> Result<Option<Range<u64>>, Failure>;
    /// Returns whether access times and holes are those of a filesystem of the host. They change
    /// when the file is read, and differ between filesystems that hold the same files.
    fn lies_on_host(&self) -> bool {
        false
    }
    /// Returns the target of a symbolic link.
    fn target(&self) -> Result<Vec<u8>, Failure>;
    /// Returns the extended attributes.
    fn attributes(&self) -> Vec<Result<NamedValue, Failure>>;
    /// Returns the entries of a directory, without `.` and `..`.
    fn entries(&self) -> Result<Self::Entries, Failure>;
}

/// The namespace in which inode numbers identify files: the host, or one image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct InodeSpace(pub(crate) usize);

/// The location of a source in an image, for failures of the source and below it.
#[derive(Clone, Debug)]
pub(crate) struct SourceLocation {
    /// The image, as messages name it.
    pub(crate) image: String,
    /// The path in the image.
    pub(crate) path: Vec<u8>,
}

impl SourceLocation {
    /// Adds the location to a failure of the file `below` this source.
    pub(crate) fn failure(&self, below: &[u8], failure: Failure) -> Failure {
        let path = join(&self.path, below);
        failure.about(&names::in_message(&path)).about(&self.image).placed()
    }
}

/// Joins a path and a path below it with one slash.
pub(crate) fn join(path: &[u8], below: &[u8]) -> Vec<u8> {
    let below = below.strip_prefix(b"/").unwrap_or(below);
    match (path.ends_with(b"/"), below.is_empty()) {
        (_, true) => path.to_vec(),
        (true, false) => [path, below].concat(),
        (false, false) => [path, b"/".as_slice(), below].concat(),
    }
}

/// An extended attribute with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedValue {
    /// The Linux name.
    pub(crate) name: Vec<u8>,
    /// The value.
    pub(crate) value: Vec<u8>,
}

/// Returns whether an attribute is copied with its file.
///
/// Not copied are the second names under which Linux shows the access control lists of XFS to root:
/// elsewhere they have no meaning. Nor are the properties of a volume, such as `autofsck`, which
/// are attributes of its root and say nothing about another volume or a directory of the host.
pub(crate) fn is_carried_over(name: &[u8]) -> bool {
    let stays = [b"trusted.SGI_ACL_".as_slice(), b"trusted.xfs:"];
    !stays.iter().any(|start| name.starts_with(start))
}

/// Returns whether a name from an image can only name a file in one directory.
pub(crate) fn is_safe_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}
