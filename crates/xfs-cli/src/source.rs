//! Files as extraction and archiving see them.
//!
//! The trait stands between these and the library, so that tests can bring files that no kernel
//! would make: hostile names, directories inside themselves, contents that fail midway.

use std::ops::Range;

use crate::facts::Facts;
use crate::failure::Failure;
use crate::names;

/// A file inside an image.
pub(crate) trait Source: Sized {
    /// The entries of a directory.
    type Entries: Iterator<Item = Result<(Vec<u8>, Self), Failure>>;

    /// What the inode says.
    fn facts(&self) -> Facts;
    /// How long the contents are; `None` where only reading them to their end tells.
    fn length(&self) -> Option<u64> {
        Some(self.facts().size)
    }
    /// Reads contents; returns how much was read, less than asked for only at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Failure>;
    /// The next range at or after `offset` that holds data.
    fn data_after(&self, offset: u64) -> Result<Option<Range<u64>>, Failure>;
    /// Whether its access times and holes are those of a filesystem of the host: they change when it is read, and
    /// differ between filesystems that hold the same files.
    fn lies_on_host(&self) -> bool {
        false
    }
    /// The target of a symbolic link.
    fn target(&self) -> Result<Vec<u8>, Failure>;
    /// The extended attributes.
    fn attributes(&self) -> Vec<Result<NamedValue, Failure>>;
    /// The entries of a directory, without `.` and `..`.
    fn entries(&self) -> Result<Self::Entries, Failure>;
}

/// Within which inode numbers tell files apart: the host, or one image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Origin(pub(crate) usize);

/// Where in an image a source is, for what goes wrong with it or below it.
#[derive(Clone, Debug)]
pub(crate) struct Whence {
    /// The image, as messages name it.
    pub(crate) image: String,
    /// The path in it.
    pub(crate) path: Vec<u8>,
}

impl Whence {
    /// A failure of what is below the source, where it is there.
    pub(crate) fn failure(&self, below: &[u8], failure: Failure) -> Failure {
        let path = join(&self.path, below);
        failure.about(&names::in_message(&path)).about(&self.image).placed()
    }
}

/// A path and what is below it, with one slash between them.
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

/// Whether an attribute of this name goes where its file is copied.
///
/// Not the second names under which Linux shows the access control lists of XFS to root: elsewhere they would
/// be attributes that mean nothing. Nor the properties of a volume, such as `autofsck`, which its root bears:
/// they say nothing of another volume, or of a directory of the host.
pub(crate) fn is_carried_over(name: &[u8]) -> bool {
    let stays = [b"trusted.SGI_ACL_".as_slice(), b"trusted.xfs:"];
    !stays.iter().any(|start| name.starts_with(start))
}

/// Whether a name from an image can name a file in one directory and nothing else.
pub(crate) fn is_safe_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

#[cfg(test)]
pub(crate) mod made;
