//! One member of an archive, as a source of what is put into an image.

use std::cell::RefCell;
use std::io::Read;
use std::iter::Empty;
use std::ops::Range;

use tar::{EntryType, Header};

use super::records::Records;
use super::sparse::SparseMap;
use super::{BLOCK_BYTES, Unarchive};
use crate::acl;
use crate::facts::{Facts, Time};
use crate::failure::Failure;
use crate::source::{NamedValue, Source, is_carried_over};

/// Access control lists as text, and the attributes that they are.
const LISTS: [(&[u8], &[u8]); 2] = [
    (b"SCHILY.acl.access", b"system.posix_acl_access"),
    (b"SCHILY.acl.default", b"system.posix_acl_default"),
];

/// What a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MemberKind {
    /// A directory; what is in it are members of their own.
    Directory,
    /// Another name for the member of this path.
    HardLink(Vec<u8>),
    /// Any other file.
    File,
    /// Nothing that is put anywhere.
    Unknown(u8),
}

/// One member of an archive.
pub(crate) struct Member<'a, R> {
    archive: RefCell<&'a mut Unarchive<R>>,
    /// As the archive has it.
    pub(crate) path: Vec<u8>,
    pub(crate) kind: MemberKind,
    facts: Facts,
    target: Vec<u8>,
    attributes: Vec<NamedValue>,
    /// Where the file has data: it stands in the archive in this order.
    ranges: Vec<Range<u64>>,
}

impl<'a, R: Read> Member<'a, R> {
    /// The member whose header has just been read.
    pub(super) fn read(
        archive: &'a mut Unarchive<R>,
        header: &Header,
        records: &Records,
    ) -> Result<Self, Failure> {
        let entry_type = header.entry_type();
        let type_bits = match entry_type {
            EntryType::Directory => 0o040_000,
            EntryType::Symlink => 0o120_000,
            EntryType::Char => 0o020_000,
            EntryType::Block => 0o060_000,
            EntryType::Fifo => 0o010_000,
            _ => 0o100_000,
        };
        let has_body =
            !matches!(type_bits, 0o040_000 | 0o120_000 | 0o020_000 | 0o060_000 | 0o010_000);
        let header_size = header.entry_size().map_err(|error| archive.failed(&error))?;
        let stored = records.number(b"size").unwrap_or(header_size);
        let sparse = SparseMap::read_head(archive, header, records)?;
        let body = if has_body { stored } else { 0 };
        let Some(padded) = body.checked_next_multiple_of(BLOCK_BYTES as u64) else {
            return Err(archive.broken("has a member of more than 2^64 bytes"));
        };
        archive.left = padded;
        let sparse = match sparse {
            Some(map) => Some(map),
            None => SparseMap::read_body(archive, records)?,
        };
        let map = sparse.unwrap_or_else(|| SparseMap { size: body, ranges: whole(body) });
        let path = [b"GNU.sparse.name".as_slice(), b"path"].into_iter();
        let path = path.filter_map(|keyword| records.value(keyword)).next();
        let path = path.map_or_else(|| header.path_bytes().into_owned(), <[u8]>::to_vec);
        let link = records.value(b"linkpath").map(<[u8]>::to_vec);
        let target = link.or_else(|| header.link_name_bytes().map(|name| name.into_owned()));
        let target = target.unwrap_or_default();
        let kind = match entry_type {
            EntryType::Directory => MemberKind::Directory,
            // As archives older than POSIX have them.
            EntryType::Regular if path.ends_with(b"/") => MemberKind::Directory,
            EntryType::Link => MemberKind::HardLink(target.clone()),
            EntryType::Regular
            | EntryType::Continuous
            | EntryType::GNUSparse
            | EntryType::Symlink
            | EntryType::Char
            | EntryType::Block
            | EntryType::Fifo => MemberKind::File,
            other => MemberKind::Unknown(other.as_byte()),
        };
        let type_bits = if kind == MemberKind::Directory { 0o040_000 } else { type_bits };
        let facts = facts(header, records, type_bits, map.size);
        let attributes = attributes(records).map_err(|text| {
            archive.broken(&format!("has an access control list that makes no sense: {text}"))
        })?;
        let ranges = map.ranges;
        Ok(Self { archive: RefCell::new(archive), path, kind, facts, target, attributes, ranges })
    }
}

fn whole(size: u64) -> Vec<Range<u64>> {
    // Not a range of numbers but one range.
    std::iter::once(0..size).filter(|range| !range.is_empty()).collect()
}

fn facts(header: &Header, records: &Records, type_bits: u32, size: u64) -> Facts {
    let id = |keyword, in_header: std::io::Result<u64>| {
        let number = records.number(keyword).or_else(|| in_header.ok());
        number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
    };
    let device = |number: std::io::Result<Option<u32>>| number.ok().flatten().unwrap_or(0);
    let seconds = header.mtime().ok().and_then(|seconds| i64::try_from(seconds).ok());
    let in_header = Time { seconds: seconds.unwrap_or(0), nanoseconds: 0 };
    let modified = records.time(b"mtime").unwrap_or(in_header);
    Facts {
        mode: type_bits | header.mode().unwrap_or(0o644) & 0o7777,
        links: 1,
        uid: id(b"uid", header.uid()),
        gid: id(b"gid", header.gid()),
        size,
        device: (device(header.device_major()), device(header.device_minor())),
        modified,
        accessed: records.time(b"atime").unwrap_or(modified),
        ..Facts::default()
    }
}

/// The extended attributes, access control lists among them; the error is a list that is none.
fn attributes(records: &Records) -> Result<Vec<NamedValue>, String> {
    let mut attributes = records.attributes();
    attributes.retain(|attribute| is_carried_over(&attribute.name));
    for (keyword, name) in LISTS {
        let Some(text) = records.value(keyword) else { continue };
        if attributes.iter().all(|attribute| attribute.name != name) {
            let text = String::from_utf8_lossy(text);
            let value = acl::text_value(&text).ok_or_else(|| text.clone().into_owned())?;
            attributes.push(NamedValue { name: name.to_vec(), value });
        }
    }
    Ok(attributes)
}

impl<R: Read> Source for Member<'_, R> {
    type Entries = Empty<Result<(Vec<u8>, Self), Failure>>;

    fn facts(&self) -> Facts {
        self.facts
    }

    /// Contents are asked for from front to back, as they stand in the archive.
    fn read_at(&self, _: u64, buffer: &mut [u8]) -> Result<usize, Failure> {
        self.archive.borrow_mut().read_body(buffer).map(|()| buffer.len())
    }

    fn data_after(&self, offset: u64) -> Result<Option<Range<u64>>, Failure> {
        let next = self.ranges.iter().find(|range| range.end > offset);
        Ok(next.map(|range| range.start.max(offset)..range.end))
    }

    fn target(&self) -> Result<Vec<u8>, Failure> {
        Ok(self.target.clone())
    }

    fn attributes(&self) -> Vec<Result<NamedValue, Failure>> {
        self.attributes.iter().cloned().map(Ok).collect()
    }

    fn entries(&self) -> Result<Self::Entries, Failure> {
        Ok(std::iter::empty())
    }
}
