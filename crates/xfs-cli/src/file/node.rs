//! Conversion of the library's nodes to the types of the commands: facts, attributes, and sources
//! of copies.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use ferroxfs::{File, FileType, Metadata, Node, ReadDir, Timestamp};

use crate::failure::Failure;
use crate::file::facts::{Facts, FileKind, Time};
use crate::file::source::{NamedValue, Source, is_carried_over};

/// Returns the facts in the inode of a node.
pub(crate) fn facts(node: &Node) -> Facts {
    from_metadata(&node.metadata())
}

fn from_metadata(metadata: &Metadata) -> Facts {
    Facts {
        inode: metadata.number.0,
        mode: metadata.mode.into(),
        links: metadata.nlink,
        uid: metadata.uid,
        gid: metadata.gid,
        project: metadata.project_id,
        size: metadata.size,
        blocks: metadata.blocks,
        device: metadata.device.map_or((0, 0), |device| (device.major, device.minor)),
        accessed: time(metadata.accessed),
        modified: time(metadata.modified),
        changed: time(metadata.changed),
        born: time(metadata.created),
        created: None,
        xflags: metadata.xflags.bits(),
        extent_size_hints: Some((
            metadata.extent_size_hint_bytes,
            metadata.cow_extent_size_hint_bytes,
        )),
    }
}

fn time(timestamp: Timestamp) -> Time {
    Time { seconds: timestamp.seconds(), nanoseconds: timestamp.nanoseconds() }
}

/// Returns the target of a symbolic link; `None` for any other file.
pub(crate) fn target(node: &Node) -> Result<Option<Vec<u8>>, Failure> {
    match node.file_type() {
        FileType::Symlink => Ok(Some(node.read_link()?.into_vec())),
        _ => Ok(None),
    }
}

/// Returns all extended attributes of a node with their values. An attribute that cannot be read is
/// an error in the list.
pub(crate) fn attributes(node: &Node) -> Vec<Result<NamedValue, Failure>> {
    let with_value = |attribute: ferroxfs::attr::Attribute| {
        let value = node.attribute(&attribute.name).map_err(|error| {
            let name = crate::terminal::names::in_message(attribute.name.as_bytes());
            Failure::from(error).about(&format!("attribute {name}"))
        })?;
        Ok(NamedValue { name: attribute.name.into_vec(), value })
    };
    let listed = node.attributes().into_iter();
    listed.map(|attribute| attribute.map_err(Failure::from).and_then(with_value)).collect()
}

/// A file of an image as a source of copies.
pub(crate) struct NodeSource {
    node: Node,
    file: Option<File>,
}

impl NodeSource {
    /// Opens the file for reading if it is a regular file. Other files need no opening.
    pub(crate) fn new(node: Node) -> Result<Self, Failure> {
        let file = match node.file_type() {
            FileType::Regular => Some(node.open_read_only()?),
            _ => None,
        };
        Ok(Self { node, file })
    }
}

impl Source for NodeSource {
    type Entries = NodeEntries;

    fn facts(&self) -> Facts {
        facts(&self.node)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Failure> {
        match &self.file {
            Some(file) => Ok(file.read_at(buffer, offset)?),
            None => Ok(0),
        }
    }

    fn data_after(&self, offset: u64) -> Result<Option<Range<u64>>, Failure> {
        let Some(file) = &self.file else { return Ok(None) };
        let Some(start) = file.seek_data(offset)? else { return Ok(None) };
        Ok(file.seek_hole(start)?.map(|end| start..end))
    }

    fn target(&self) -> Result<Vec<u8>, Failure> {
        Ok(self.node.read_link()?.into_vec())
    }

    /// Returns those attributes of the file that a copy gets.
    fn attributes(&self) -> Vec<Result<NamedValue, Failure>> {
        let mut all = attributes(&self.node);
        all.retain(|attribute| {
            attribute.as_ref().map_or(true, |attribute| is_carried_over(&attribute.name))
        });
        all
    }

    fn entries(&self) -> Result<NodeEntries, Failure> {
        Ok(NodeEntries(self.node.entries()?))
    }
}

/// The entries of a directory of an image.
pub(crate) struct NodeEntries(ReadDir);

impl Iterator for NodeEntries {
    type Item = Result<(Vec<u8>, NodeSource), Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = match self.0.next()? {
            Ok(entry) => entry,
            Err(error) => return Some(Err(error.into())),
        };
        let source = entry.node().map_err(Failure::from).and_then(NodeSource::new);
        let name = entry.name().as_bytes();
        Some(match source {
            Ok(source) => Ok((name.to_vec(), source)),
            Err(failure) => Err(failure.about(&crate::terminal::names::in_message(name))),
        })
    }
}

/// Returns the value of the attribute `name`; `None` if the file has no such attribute.
pub(crate) fn attribute(node: &Node, name: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
    match node.attribute(OsStr::from_bytes(name)) {
        Ok(value) => Ok(Some(value)),
        Err(ferroxfs::Error::Posix(ferroxfs::PosixError::NoAttribute)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Converts the library's file type to that of the commands.
pub(crate) fn kind(file_type: FileType) -> FileKind {
    match file_type {
        FileType::Regular => FileKind::Regular,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::BlockDevice => FileKind::BlockDevice,
        FileType::CharDevice => FileKind::CharDevice,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
    }
}
