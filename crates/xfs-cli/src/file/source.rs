//! Files as the sources of copies and archives.
//!
//! The trait `Source` separates copying from the library. So tests can use files that no kernel
//! would make: hostile names, directories inside themselves, contents that fail midway.

use std::ops::Range;

use crate::failure::Failure;
use crate::file::facts::Facts;
use crate::terminal::names;

/// A file that can be copied.
pub(crate) trait Source: Sized {
    /// The iterator over the entries of a directory.
    type Entries: Iterator<Item = Result<(Vec<u8>, Self), Failure>>;

    /// Returns the facts of the inode.
    fn facts(&self) -> Facts;
    /// Returns the length of the contents in bytes; `None` if it is known only after reading them
    /// to the end.
    fn length(&self) -> Option<u64> {
        Some(self.facts().size)
    }
    /// Reads contents from `offset` on. Returns the number of bytes read. The number is less than
    /// the length of the buffer only at the end of the contents.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Failure>;
    /// Replaces `chunk` with contents from `offset` on: with `wanted` bytes, and with fewer only at
    /// the end of the contents.
    fn read_chunk(&self, chunk: &mut Vec<u8>, offset: u64, wanted: usize) -> Result<(), Failure> {
        fill_chunk(self, chunk, offset, wanted)
    }
    /// Returns the next range of bytes at or after `offset` that holds data; `None` if only holes
    /// follow.
    fn data_after(&self, offset: u64) -> Result<Option<Range<u64>>, Failure>;
    /// Returns whether the file is on a filesystem of the host. The access time of such a file
    /// changes when the file is read, and its holes depend on the filesystem.
    fn lies_on_host(&self) -> bool {
        false
    }
    /// Returns the target of a symbolic link.
    fn target(&self) -> Result<Vec<u8>, Failure>;
    /// Returns the extended attributes.
    fn attributes(&self) -> Vec<Result<NamedValue, Failure>>;
    /// Records that the copy of this file is finished. A writer calls the method once for each file
    /// and directory that it has put into the destination.
    fn set_copied(&self) {}
    /// Returns the entries of a directory, without `.` and `..`.
    fn entries(&self) -> Result<Self::Entries, Failure>;
}

/// Fills `chunk` as [`Source::read_chunk`] does, by reads from front to back.
pub(crate) fn fill_chunk<S: Source>(
    source: &S,
    chunk: &mut Vec<u8>,
    offset: u64,
    wanted: usize,
) -> Result<(), Failure> {
    chunk.resize(wanted, 0);
    let mut done = 0;
    while let Some(rest) = chunk.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match source.read_at(rest, offset + done as u64)? {
            0 => break,
            read => done += read,
        }
    }
    chunk.truncate(done);
    Ok(())
}

/// The space in which inode numbers identify files: the host, or one image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct InodeSpace(pub(crate) usize);

/// The location of a source in an image. Messages about files of the source show this location.
#[derive(Clone, Debug)]
pub(crate) struct SourceLocation {
    /// The image, as messages name it.
    pub(crate) image: String,
    /// The path of the source in the image.
    pub(crate) path: Vec<u8>,
}

impl SourceLocation {
    /// Adds the location to a failure about a file. `below` is the path of the file below this
    /// source.
    pub(crate) fn failure(&self, below: &[u8], failure: Failure) -> Failure {
        let path = join(&self.path, below);
        failure.about(&names::in_message(&path)).about(&self.image).placed()
    }
}

/// Joins `path` and `below` with one slash.
pub(crate) fn join(path: &[u8], below: &[u8]) -> Vec<u8> {
    let below = below.strip_prefix(b"/").unwrap_or(below);
    match (path.ends_with(b"/"), below.is_empty()) {
        (_, true) => path.to_vec(),
        (true, false) => [path, below].concat(),
        (false, false) => [path, b"/".as_slice(), below].concat(),
    }
}

/// Returns the names in a path, `..` included. Empty names and `.` are left out.
pub(crate) fn names_of(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."))
}

/// An extended attribute with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedValue {
    /// The name with its namespace, as Linux shows it: `user.name`.
    pub(crate) name: Vec<u8>,
    /// The value of the attribute.
    pub(crate) value: Vec<u8>,
}

/// Returns whether a copy of a file gets its attribute `name`.
///
/// Linux also shows root the access control lists of XFS under the names `trusted.SGI_ACL_*`.
/// Attributes with these names are not copied, because they have no meaning outside XFS. The
/// properties of a volume, such as `autofsck`, are attributes of its root directory. They are not
/// copied either, because they say nothing about the destination.
pub(crate) fn is_carried_over(name: &[u8]) -> bool {
    let stays = [b"trusted.SGI_ACL_".as_slice(), b"trusted.xfs:"];
    !stays.iter().any(|start| name.starts_with(start))
}

/// Returns whether a name from an image is safe on the host: a single component that names an entry
/// of one directory.
pub(crate) fn is_safe_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}
