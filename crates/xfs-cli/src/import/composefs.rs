//! Dumps of composefs: the text of `composefs-dump(5)`, as composefs 1.0 documents it.
//!
//! ```text
//! PATH SIZE MODE NLINK UID GID RDEV MTIME PAYLOAD CONTENT DIGEST [XATTR=VALUE …]
//! /etc/passwd 9 100644 1 0 0 0 1.5 - root:x:0\n - security.selinux=etc_t\x00
//! /usr/bin/sh 999 100755 1 0 0 0 1.0 ab/cdef - 0123…
//! /usr/bin/bash 999 @100755 2 0 0 0 1.0 /usr/bin/sh - -
//! ```
//!
//! Owns: parsing the lines of a dump, each of which becomes a member like those of an archive. Does
//! **not** own: the directory with the contents of large files, which a dump names by relative
//! paths.
//!
//! # Invariants
//!
//! - **I1** A line is at most [`MAX_LINE_BYTES`] long.
//! - **I2** No path of an object leads out of the directory of objects.
//! - **I3** A file whose object has another fs-verity digest than the dump says is left out.

mod verity;

use std::fs::File;
use std::io::{self, Cursor};
use std::path::Path;

use super::archive::input::ArchiveInput;
use super::archive::member::{Member, MemberKind};
use super::beneath::open_beneath;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::{Facts, FileKind, Time};
use crate::file::source::NamedValue;
use crate::terminal::names;

/// The longest line that is read, in bytes.
const MAX_LINE_BYTES: usize = 64 << 20;
/// The size of one read, in bytes.
const CHUNK_BYTES: usize = 256 << 10;
/// The number of fields before the attributes.
const FIELDS: usize = 11;
const UNSET: &[u8] = b"-";

/// A dump that is being read.
pub(crate) struct ComposefsReader {
    pub(super) input: ArchiveInput,
    /// The contents of the current file.
    body: ArchiveInput,
    /// The directory with the contents of large files.
    objects: Option<File>,
    /// Bytes of the input that belong to later lines.
    ahead: Vec<u8>,
    /// The position in `ahead` of the next line.
    used: usize,
    line: u64,
    has_verity: bool,
}

/// The fields of one line, without their escapes.
struct DumpLine {
    path: Vec<u8>,
    size: u64,
    mode: u32,
    is_link: bool,
    uid: u32,
    gid: u32,
    device: u64,
    modified: Time,
    payload: Option<Vec<u8>>,
    content: Option<Vec<u8>>,
    digest: Option<Vec<u8>>,
    attributes: Vec<NamedValue>,
}

/// Returns whether a file starts like a dump: with the line of the root directory.
pub(crate) fn is_dump(head: &[u8]) -> bool {
    let mut fields = head.split(|byte| *byte == b' ');
    let is_number = |field: Option<&[u8]>| {
        field.is_some_and(|field| !field.is_empty() && field.iter().all(u8::is_ascii_digit))
    };
    fields.next() == Some(b"/")
        && is_number(fields.next())
        && fields.next().is_some_and(|mode| mode.starts_with(b"4") && is_number(Some(mode)))
        && is_number(fields.next())
}

impl ComposefsReader {
    pub(super) fn new(input: ArchiveInput) -> Self {
        let body = ArchiveInput::new(Box::new(io::empty()), Vec::new(), input.name().to_owned());
        let ahead = Vec::new();
        Self { input, body, objects: None, ahead, used: 0, line: 0, has_verity: false }
    }

    /// Returns whether reading the dump or an object has failed.
    pub(super) fn is_broken(&self) -> bool {
        self.input.is_broken() || self.body.is_broken()
    }

    /// Sets the directory with the contents of large files.
    ///
    /// # Errors
    ///
    /// A directory that cannot be opened.
    pub(super) fn with_objects(&mut self, path: &Path) -> Result<(), Failure> {
        let opened = File::open(path);
        let directory = opened.map_err(|error| Failure::host(path.as_os_str(), &error))?;
        self.objects = Some(directory);
        Ok(())
    }

    /// Returns the next member; `None` at the end of the dump.
    pub(super) fn next(&mut self) -> Result<Option<Member<'_>>, Failure> {
        let Some(text) = self.read_line()? else { return Ok(None) };
        let Some(line) = DumpLine::parse(&text) else {
            let number = self.line;
            return Err(self.input.broken(&format!("line {number} is not a line of a dump")));
        };
        let facts = line.facts();
        let path = line.path.clone();
        let (kind, bytes) = self.open_contents(&line)?;
        let name = self.input.name().to_owned();
        self.body = match bytes {
            Contents::None => ArchiveInput::new(Box::new(io::empty()), Vec::new(), name),
            Contents::Inline(bytes) => {
                ArchiveInput::new(Box::new(Cursor::new(bytes)), Vec::new(), name)
            }
            Contents::Object(file) => ArchiveInput::new(Box::new(file), Vec::new(), name),
        };
        self.body.left = line.size;
        let has_contents =
            kind == MemberKind::File && facts.kind() == FileKind::Regular && line.size > 0;
        let ranges = has_contents.then_some(0..line.size).into_iter().collect();
        let target = line.payload.unwrap_or_default();
        let member = Member::new(&mut self.body, path, kind, facts);
        Ok(Some(member.with_target(target).with_attributes(line.attributes).with_contents(ranges)))
    }

    /// Returns the kind of a member, and its contents.
    fn open_contents(&mut self, line: &DumpLine) -> Result<(MemberKind, Contents), Failure> {
        let left_out = |reason: &str| Ok((MemberKind::LeftOut(reason.to_owned()), Contents::None));
        if line.is_link {
            let target = line.payload.clone().unwrap_or_default();
            return Ok((MemberKind::HardLink(target), Contents::None));
        }
        match FileKind::of(line.mode) {
            FileKind::Directory => return Ok((MemberKind::Directory, Contents::None)),
            FileKind::Regular => {}
            FileKind::Unknown => return left_out("has a mode without a type, and is left out"),
            _ => return Ok((MemberKind::File, Contents::None)),
        }
        if let Some(content) = &line.content {
            return match content.len() as u64 == line.size {
                true => Ok((MemberKind::File, Contents::Inline(content.clone()))),
                false => left_out("has contents of another size than it says, and is left out"),
            };
        }
        if line.size == 0 {
            return Ok((MemberKind::File, Contents::None));
        }
        let (Some(payload), Some(objects)) = (&line.payload, &self.objects) else {
            return left_out(
                "has its contents in an object, and is left out: --composefs-objects names the \
                 directory of objects",
            );
        };
        let path = String::from_utf8_lossy(payload).into_owned();
        let shown = names::printable(&path).into_owned();
        // I2: the kernel refuses a path that leads out.
        let file = match open_beneath(objects, &path) {
            Ok(file) => file,
            Err(error) => return left_out(&format!("is left out: object {shown}: {error}")),
        };
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        if length != line.size {
            return left_out(&format!("is left out: object {shown} has {length} bytes"));
        }
        if let Some(digest) = &line.digest {
            self.note_verity();
            // I3: the digest is compared before the contents are used.
            match verity::digest(&file, length) {
                Ok(found) if found.as_bytes() == digest.as_slice() => {}
                Ok(_) => {
                    return left_out(&format!("is left out: object {shown} has another digest"));
                }
                Err(error) => return left_out(&format!("is left out: object {shown}: {error}")),
            }
        }
        Ok((MemberKind::File, Contents::Object(file)))
    }

    /// Adds one remark for the whole dump, that the volume does not store fs-verity digests.
    fn note_verity(&mut self) {
        if !std::mem::replace(&mut self.has_verity, true) {
            let message =
                "the digests of fs-verity are compared now, and the volume does not keep them";
            self.input.remark(Exit::Fine, message, None);
        }
    }

    /// Reads the next line; `None` at the end.
    fn read_line(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let mut searched = self.used;
        loop {
            let rest = self.ahead.get(searched..).unwrap_or_default();
            if let Some(length) = rest.iter().position(|byte| *byte == b'\n') {
                let line =
                    self.ahead.get(self.used..searched + length).unwrap_or_default().to_vec();
                self.used = searched + length + 1;
                self.line += 1;
                return Ok(Some(line));
            }
            self.ahead.drain(..self.used);
            self.used = 0;
            searched = self.ahead.len();
            if searched > MAX_LINE_BYTES {
                // I1: the length of a line is bounded.
                return Err(self.input.broken("has a line of more than 64 MiB"));
            }
            self.ahead.resize(searched + CHUNK_BYTES, 0);
            let read = self.input.read_fully(self.ahead.get_mut(searched..).unwrap_or_default())?;
            self.ahead.truncate(searched + read);
            if read == 0 {
                self.line += 1;
                let last = std::mem::take(&mut self.ahead);
                return Ok((!last.is_empty()).then_some(last));
            }
        }
    }
}

/// The contents of a file in a dump.
enum Contents {
    None,
    Inline(Vec<u8>),
    Object(File),
}

impl DumpLine {
    /// Parses a line; `None` if it is invalid.
    fn parse(text: &[u8]) -> Option<Self> {
        let fields: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
        let (fixed, attributes) = fields.split_at_checked(FIELDS)?;
        let &[path, size, mode, _, uid, gid, device, modified, payload, content, digest] = fixed
        else {
            return None;
        };
        let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse::<u64>().ok();
        let id = |field: &[u8]| number(field).and_then(|id| u32::try_from(id).ok());
        let optional = |field: &[u8]| match field {
            UNSET => Some(None),
            field => unescape(field).map(Some),
        };
        let path = unescape(path)?;
        let (is_link, mode) = match mode.strip_prefix(b"@") {
            Some(mode) => (true, mode),
            None => (false, mode),
        };
        let (seconds, nanoseconds) = std::str::from_utf8(modified).ok()?.split_once('.')?;
        let (seconds, nanoseconds) = (seconds.parse().ok()?, nanoseconds.parse().ok()?);
        let attributes = attributes.iter().filter(|field| !field.is_empty()).map(|field| {
            let at = field.iter().position(|byte| *byte == b'=')?;
            let (name, value) = (unescape(field.get(..at)?)?, unescape(field.get(at + 1..)?)?);
            Some(NamedValue { name, value })
        });
        Some(Self {
            path: path.starts_with(b"/").then_some(path)?,
            size: number(size)?,
            mode: u32::from_str_radix(std::str::from_utf8(mode).ok()?, 8).ok()?,
            is_link,
            uid: id(uid)?,
            gid: id(gid)?,
            device: number(device)?,
            modified: Some(Time { seconds, nanoseconds })
                .filter(|time| time.nanoseconds < 1_000_000_000)?,
            payload: optional(payload)?,
            content: optional(content)?,
            digest: optional(digest)?,
            attributes: attributes.collect::<Option<_>>()?,
        })
    }

    fn facts(&self) -> Facts {
        let size = match FileKind::of(self.mode) {
            FileKind::Regular => self.size,
            FileKind::Symlink => self.payload.as_ref().map_or(0, Vec::len) as u64,
            _ => 0,
        };
        Facts {
            mode: self.mode,
            links: 1,
            uid: self.uid,
            gid: self.gid,
            size,
            device: (rustix::fs::major(self.device), rustix::fs::minor(self.device)),
            accessed: self.modified,
            modified: self.modified,
            ..Facts::default()
        }
    }
}

/// Replaces the escapes in a field; `None` if one is invalid.
fn unescape(field: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'\\' {
            bytes.push(first);
            continue;
        }
        let (&kind, after) = rest.split_first()?;
        rest = after;
        bytes.push(match kind {
            b'\\' => b'\\',
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => {
                let (digits, after) = rest.split_at_checked(2)?;
                rest = after;
                u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?
            }
            _ => return None,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
