//! Conversion of the header and the records of a tar archive to a member.

use std::ops::Range;

use tar::Header;

use super::TarReader;
use super::attributes;
use super::flags;
use super::records::{self, ExtendedRecords, number};
use super::sparse::SparseMap;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::{Facts, Time};
use crate::import::archive::member::{Member, MemberKind};
use crate::import::archive::numbers;
use crate::terminal::names;

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
/// The permissions of a file whose mode is invalid: only its owner gets any.
const PRIVATE: u32 = 0o700;
/// The set-user-ID and set-group-ID bits.
const SET_ID: u32 = 0o6000;
/// The range of seconds since 1970 that XFS can store: from 1901 to 2486.
const XFS_SECONDS: Range<i64> = -(1 << 31)..16_299_260_425;

/// Returns the member whose header has just been read.
pub(super) fn member<'a>(
    reader: &'a mut TarReader,
    header: &Header,
    records: &ExtendedRecords,
    mut problems: Vec<String>,
) -> Result<Member<'a>, Failure> {
    let [letter] = header.as_old().linkflag;
    let path = [b"GNU.sparse.name".as_slice(), b"path"].into_iter();
    let path = path.filter_map(|keyword| records.value(keyword)).next();
    let path = path.map_or_else(|| header.path_bytes().into_owned(), <[u8]>::to_vec);
    let type_bits = type_bits(letter, &path);
    let size = body_size(reader, header, records, &path)?;
    let sparse = SparseMap::read_head(reader, header, records)?;
    reader.set_body(size)?;
    let sparse = match sparse {
        Some(map) => Some(map),
        None => SparseMap::read_body(&mut reader.input, records)?,
    };
    let map = sparse.unwrap_or_else(|| SparseMap { size, ranges: whole(size), is_invalid: false });
    let link = records.value(b"linkpath").map(<[u8]>::to_vec);
    let target = link.or_else(|| header.link_name_bytes().map(|name| name.into_owned()));
    let target = target.unwrap_or_default();
    let mut notes = Vec::new();
    let mut kind = match letter {
        _ if map.is_invalid => {
            let reason = "has an invalid sparse map, and is left out";
            MemberKind::LeftOut(reason.to_owned())
        }
        _ if type_bits == DIRECTORY => MemberKind::Directory,
        b'1' => MemberKind::HardLink(target.clone()),
        b'M' => {
            let reason = "is continued from another volume, and is left out";
            MemberKind::LeftOut(reason.to_owned())
        }
        b'0' | 0 | b'2'..=b'7' | b'S' => MemberKind::File,
        other => {
            let other = other.escape_ascii();
            notes.push(format!("is of the unknown type '{other}', and becomes a regular file"));
            MemberKind::File
        }
    };
    let mut reading = HeaderReading { header, records, problems: &mut problems };
    let mut facts = reading.facts(type_bits);
    facts.size = map.size;
    if matches!(type_bits, 0o020_000 | 0o060_000) {
        match reading.device() {
            Ok(device) => facts.device = device,
            Err(reason) => kind = MemberKind::LeftOut(format!("{reason}, and is left out")),
        }
    }
    let attributes = attributes::read(records, &mut problems);
    if matches!(kind, MemberKind::HardLink(_)) {
        // A hard link has the metadata of the member that it links to.
        problems.clear();
    }
    let said = |exit| move |message: String| Failure::new(exit, message);
    let problems = problems.into_iter().map(said(Exit::Failed));
    let problems = problems.chain(notes.into_iter().map(said(Exit::Fine))).collect();
    let ranges = map.ranges;
    Ok(Member::new(&mut reader.input, path, kind, facts)
        .with_target(target)
        .with_attributes(attributes)
        .with_contents(ranges)
        .with_problems(problems))
}

/// Returns the file type bits of the mode for the type letter of a header. An unknown type means a
/// regular file, as POSIX says.
fn type_bits(letter: u8, path: &[u8]) -> u32 {
    match letter {
        // In incremental archives, GNU tar stores a list of entries in a directory.
        b'5' | b'D' => DIRECTORY,
        // Archives older than POSIX mark directories this way.
        0 | b'0' | b'7' if path.ends_with(b"/") => DIRECTORY,
        b'2' => 0o120_000,
        b'3' => 0o020_000,
        b'4' => 0o060_000,
        b'6' => 0o010_000,
        _ => REGULAR,
    }
}

/// Returns the number of bytes of contents that follow a header. Links, directories, devices and
/// pipes have no contents, whatever size the header says. A hard link has contents if its size is
/// not 0 and no other header follows.
fn body_size(
    reader: &mut TarReader,
    header: &Header,
    records: &ExtendedRecords,
    path: &[u8],
) -> Result<u64, Failure> {
    let [letter] = header.as_old().linkflag;
    if matches!(letter, b'2'..=b'6') {
        return Ok(0);
    }
    let size = match records.value(b"size") {
        None => reader.header_size(header),
        // Then the position of the next member is unknown too.
        Some(text) => number(text).ok_or_else(|| {
            let path = names::in_message(path);
            reader.input.broken(&format!("{path}: {}", senseless("size", text)))
        }),
    };
    match letter {
        b'1' if size.as_ref().is_ok_and(|size| *size == 0) || reader.is_at_header()? => Ok(0),
        _ => size,
    }
}

/// Returns the range of a whole file of `size` bytes, or no range for an empty file.
pub(in crate::import) fn whole(size: u64) -> Vec<Range<u64>> {
    std::iter::once(0..size).filter(|range| !range.is_empty()).collect()
}

/// Returns the message that the record or field `what` is invalid; `text` is its value.
pub(in crate::import) fn senseless(what: &str, text: &[u8]) -> String {
    format!("has the invalid {what} {}", names::in_message(text))
}

/// Returns `number` as the id of a user or group; `None` if it is invalid. The largest 32-bit
/// number is invalid too, because it means "no id".
pub(in crate::import) fn owner(number: i128) -> Option<u32> {
    u32::try_from(number).ok().filter(|id| *id != u32::MAX)
}

/// The header and the extended records of a member, with the problems found in them so far.
struct HeaderReading<'a> {
    header: &'a Header,
    records: &'a ExtendedRecords,
    problems: &'a mut Vec<String>,
}

impl HeaderReading<'_> {
    fn facts(&mut self, type_bits: u32) -> Facts {
        let old = self.header.as_old();
        let is_directory = type_bits == DIRECTORY;
        let (uid, gid) = (self.owner("uid", &old.uid), self.owner("gid", &old.gid));
        let mode = numbers::number(&old.mode).filter(|mode| *mode >= 0);
        let mut mode = mode.map_or_else(
            || {
                let problem = senseless("mode", &numbers::shown(&old.mode));
                self.problems.push(format!("{problem}: only its owner gets permissions"));
                PRIVATE
            },
            |mode| (mode & 0o7777) as u32,
        );
        if !is_directory && (uid.is_none() || gid.is_none()) {
            // The file would run as a user that the archive does not name.
            mode &= !SET_ID;
        }
        let modified = match self.time("mtime") {
            Some(time) => time,
            None => self.header_time(&old.mtime),
        };
        let accessed = self.time("atime").unwrap_or(modified);
        let created = self.time("LIBARCHIVE.creationtime");
        let xflags = self.records.value(b"SCHILY.fflags").map_or(0, |text| self.flags(text));
        let (uid, gid) = (uid.unwrap_or(0), gid.unwrap_or(0));
        let mode = type_bits | mode;
        let times = Facts { modified, accessed, created, ..Facts::default() };
        Facts { mode, links: 1, uid, gid, xflags, ..times }
    }

    fn owner(&mut self, keyword: &str, field: &[u8]) -> Option<u32> {
        let (number, shown) = match self.records.value(keyword.as_bytes()) {
            Some(text) => (number(text).map(i128::from), text.to_vec()),
            None => (numbers::number(field), numbers::shown(field)),
        };
        let id = number.and_then(owner);
        if id.is_none() {
            self.problems.push(format!("{}, and gets 0", senseless(keyword, &shown)));
        }
        id
    }

    /// Returns the time in the record `keyword`; `None` if the record is missing or invalid.
    fn time(&mut self, keyword: &str) -> Option<Time> {
        let text = self.records.value(keyword.as_bytes())?;
        let time = records::time(text);
        if time.is_none() {
            self.problems.push(format!("{}, and is ignored", senseless(keyword, text)));
        }
        time.map(|time| self.check_range(keyword, time))
    }

    fn header_time(&mut self, field: &[u8]) -> Time {
        let seconds = numbers::number(field).and_then(|seconds| i64::try_from(seconds).ok());
        if seconds.is_none() {
            let problem = senseless("mtime", &numbers::shown(field));
            self.problems.push(format!("{problem}, and gets 1970-01-01"));
        }
        self.check_range("mtime", Time { seconds: seconds.unwrap_or(0), nanoseconds: 0 })
    }

    fn check_range(&mut self, keyword: &str, time: Time) -> Time {
        if !XFS_SECONDS.contains(&time.seconds) {
            let seconds = time.seconds;
            let problem = format!(
                "has the {keyword} {seconds}, which XFS cannot store, and gets the nearest time"
            );
            self.problems.push(problem);
        }
        time
    }

    fn flags(&mut self, text: &[u8]) -> u32 {
        let (flags, unknown) = flags::parse(text);
        for name in unknown {
            let name = names::in_message(name.as_bytes()).into_owned();
            self.problems.push(format!("has the flag {name}, which XFS does not support"));
        }
        flags
    }

    /// Returns the major and minor number of a device. Numbers that are too large for the header
    /// come from the records of star and libarchive.
    fn device(&self) -> Result<(u32, u32), String> {
        let (major, minor) = match (self.header.as_ustar(), self.header.as_gnu()) {
            (Some(header), _) => (header.dev_major, header.dev_minor),
            (None, Some(header)) => (header.dev_major, header.dev_minor),
            (None, None) => ([0; 8], [0; 8]),
        };
        let half = |keyword: &str, field: &[u8]| {
            let (found, shown) = match self.records.value(keyword.as_bytes()) {
                Some(text) => (number(text).map(i128::from), text.to_vec()),
                None => (numbers::number(field), numbers::shown(field)),
            };
            let found = found.and_then(|number| u32::try_from(number).ok());
            found.ok_or_else(|| senseless("device", &shown))
        };
        Ok((half("SCHILY.devmajor", &major)?, half("SCHILY.devminor", &minor)?))
    }
}
