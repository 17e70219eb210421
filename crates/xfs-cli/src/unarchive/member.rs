//! One member of an archive, as a source of what is put into an image.

use std::cell::RefCell;
use std::io::Read;
use std::iter::Empty;
use std::ops::Range;

use tar::{EntryType, Header};

use super::numbers;
use super::records::{self, Records, number};
use super::sparse::SparseMap;
use super::{BLOCK_BYTES, Unarchive};
use crate::acl;
use crate::facts::{Facts, Time};
use crate::failure::Failure;
use crate::names;
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
    /// Nothing that is put anywhere, for this reason.
    LeftOut(String),
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
        let path = [b"GNU.sparse.name".as_slice(), b"path"].into_iter();
        let path = path.filter_map(|keyword| records.value(keyword)).next();
        let path = path.map_or_else(|| header.path_bytes().into_owned(), <[u8]>::to_vec);
        let stored = match records.value(b"size") {
            None => header_size,
            // Nor is it known where the next member begins.
            Some(text) => number(text).ok_or_else(|| {
                let path = names::in_message(&path);
                archive.broken(&format!("{path}: {}", senseless("size", text)))
            })?,
        };
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
            other => {
                let kind = other.as_byte().escape_ascii();
                MemberKind::LeftOut(format!("is a member of the type '{kind}', which is left out"))
            }
        };
        let type_bits = if kind == MemberKind::Directory { 0o040_000 } else { type_bits };
        let facts = facts(header, records, type_bits, map.size);
        let attributes = attributes(records);
        let (kind, facts, attributes) = match (facts, attributes) {
            (Ok(facts), Ok(attributes)) => (kind, facts, attributes),
            // What it has is that of the member it is a link to.
            _ if matches!(kind, MemberKind::HardLink(_)) => (kind, Facts::default(), Vec::new()),
            (Err(reason), _) | (_, Err(reason)) => {
                let reason = format!("{reason}, and is left out");
                (MemberKind::LeftOut(reason), Facts::default(), Vec::new())
            }
        };
        let ranges = map.ranges;
        Ok(Self { archive: RefCell::new(archive), path, kind, facts, target, attributes, ranges })
    }
}

fn whole(size: u64) -> Vec<Range<u64>> {
    // Not a range of numbers but one range.
    std::iter::once(0..size).filter(|range| !range.is_empty()).collect()
}

/// What a record or a field holds that it cannot hold.
fn senseless(what: &str, text: &[u8]) -> String {
    format!("has the {what} {}, which makes no sense", names::in_message(text))
}

/// Owner, mode, times, device; the error is what cannot be that.
fn facts(header: &Header, records: &Records, type_bits: u32, size: u64) -> Result<Facts, String> {
    let old = header.as_old();
    let id = |keyword: &str, field: &[u8]| {
        let (number, shown) = match records.value(keyword.as_bytes()) {
            Some(text) => (number(text).map(i128::from), text.to_vec()),
            None => in_header(field),
        };
        // The last number means that there is none.
        let id = number.and_then(|number| u32::try_from(number).ok()).filter(|id| *id != u32::MAX);
        id.ok_or_else(|| senseless(keyword, &shown))
    };
    let time = |keyword: &str| match records.value(keyword.as_bytes()) {
        Some(text) => records::time(text).map(Some).ok_or_else(|| senseless(keyword, text)),
        None => Ok(None),
    };
    let modified = match time("mtime")? {
        Some(time) => time,
        None => Time { seconds: small("mtime", &old.mtime)?, nanoseconds: 0 },
    };
    let devices = header.as_ustar().map(|header| (&header.dev_major, &header.dev_minor));
    let devices =
        devices.or_else(|| header.as_gnu().map(|header| (&header.dev_major, &header.dev_minor)));
    let device = match devices.filter(|_| matches!(type_bits, 0o020_000 | 0o060_000)) {
        Some((major, minor)) => (small("device", major)?, small("device", minor)?),
        None => (0, 0),
    };
    Ok(Facts {
        mode: type_bits | small::<u32>("mode", &old.mode)? & 0o7777,
        links: 1,
        uid: id("uid", &old.uid)?,
        gid: id("gid", &old.gid)?,
        size,
        device,
        modified,
        accessed: time("atime")?.unwrap_or(modified),
        ..Facts::default()
    })
}

/// The number in a field of the header, and how it is shown.
fn in_header(field: &[u8]) -> (Option<i128>, Vec<u8>) {
    let number = numbers::number(field);
    let text = field.split(|byte| *byte == 0).next().unwrap_or_default();
    let shown = number.map_or_else(|| text.to_vec(), |number| number.to_string().into_bytes());
    (number, shown)
}

/// The number in a field of the header, where it fits.
fn small<T: TryFrom<i128>>(what: &str, field: &[u8]) -> Result<T, String> {
    let (number, shown) = in_header(field);
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| senseless(what, &shown))
}

/// The extended attributes, access control lists among them; the error is a list that is none.
fn attributes(records: &Records) -> Result<Vec<NamedValue>, String> {
    let mut attributes = records.attributes();
    attributes.retain(|attribute| is_carried_over(&attribute.name));
    for (keyword, name) in LISTS {
        let Some(text) = records.value(keyword) else { continue };
        if attributes.iter().all(|attribute| attribute.name != name) {
            let text = String::from_utf8_lossy(text);
            let value = acl::text_value(&text)
                .ok_or_else(|| senseless("access control list", text.as_bytes()))?;
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
