//! Writing a tar archive in pax format. Names, times, owners and sizes have no limit. Extended
//! attributes, hard links and sparse files are written as GNU tar 1.27 and newer read them.
//!
//! The crate `tar` fills in the fixed header. The framing is done here, because the builder of that
//! crate supports neither non-UTF-8 names in extended records nor sparse files. That builder also
//! ends the archive in the middle of a file that cannot be read to its end.
//!
//! # Invariants
//!
//! - **I1** The archive is well-formed even after failures: the contents of a member have the
//!   length that its header says, with zeros for ranges that cannot be read.
//! - **I2** No name of a member leads out of the directory into which the archive is extracted,
//!   even if the extracting program does not check names.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use tar::{EntryType, Header};

use super::pax::PaxRecords;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::{Facts, FileKind};
use crate::file::source::{Source, SourceLocation, is_safe_name};
use crate::terminal::names;
use crate::terminal::tally::Tally;
use crate::text::acl::value_text;

/// The size of a block of an archive, in bytes. Headers and contents fill whole blocks.
const BLOCK_BYTES: u64 = 512;
/// The size of one read, in bytes.
const CHUNK_BYTES: usize = 1 << 20;
/// The length in bytes of the longest name that fits the fixed header.
pub(super) const NAME_BYTES: usize = 100;
/// The largest user or group id that fits the fixed header.
const MAX_OWNER: u32 = 0o7_777_777;
/// The largest size in bytes, and the largest time in seconds, that fits the fixed header.
const MAX_NUMBER: u64 = 0o77_777_777_777;

/// A tar archive that is being written.
pub(crate) struct TarWriter<'a> {
    out: &'a mut dyn Write,
    report: &'a mut dyn FnMut(Failure),
    location: Option<SourceLocation>,
    /// The length in bytes of the path of the archived directory. The path of a file below that
    /// directory starts with these bytes. The rest of it is the path of the file inside the
    /// directory.
    start_length: usize,
    /// The first name in the archive of each file with several names, by inode number.
    links: HashMap<u64, Vec<u8>>,
    entered: HashSet<u64>,
    tally: Arc<Tally>,
}

/// A directory whose entries are being written.
struct TarLevel<S: Source> {
    entries: S::Entries,
    /// The length in bytes of the path of the enclosing directory.
    outer_length: usize,
}

impl<'a> TarWriter<'a> {
    /// Starts an archive that is written to `out`. A failure of one file goes to `report`.
    pub(crate) fn new(out: &'a mut dyn Write, report: &'a mut dyn FnMut(Failure)) -> Self {
        let (links, entered) = (HashMap::new(), HashSet::new());
        let tally = Arc::default();
        Self { out, report, location: None, start_length: 0, links, entered, tally }
    }

    /// Makes `tally` count the files that are written. Returns the writer.
    pub(crate) fn counted_by(mut self, tally: &Arc<Tally>) -> Self {
        self.tally = Arc::clone(tally);
        self
    }

    /// Sets the location of the source, which messages name. Without a location, messages use the
    /// names of members.
    pub(crate) fn out_of(mut self, location: SourceLocation) -> Self {
        self.location = Some(location);
        self
    }

    /// Writes a file under the name `path`, with everything below it, and then the end of the
    /// archive.
    ///
    /// # Errors
    ///
    /// Returns only errors of writing to the output.
    pub(crate) fn write<S: Source>(mut self, source: S, path: &[u8]) -> io::Result<()> {
        self.start_length = path.len();
        let mut open: Vec<TarLevel<S>> = Vec::new();
        // The path of the innermost open directory, which each level extends. A path for each level
        // would take memory quadratic in the depth.
        let mut directory = path.to_vec();
        let entries = self.member(source, &directory)?;
        open.extend(entries.map(|entries| TarLevel { entries, outer_length: 0 }));
        while let Some(level) = open.last_mut() {
            match level.entries.next() {
                None => {
                    directory.truncate(level.outer_length);
                    open.pop();
                }
                Some(Err(failure)) => {
                    self.report(&directory, failure);
                }
                // A name that would leave the directory of a reader is not archived (I2).
                Some(Ok((name, _))) if !is_safe_name(&name) => {
                    let name = names::in_message(&name);
                    let message = format!("a file is named {name}, and is not archived");
                    let failure = Failure::new(Exit::Corrupt, message);
                    self.report(&directory, failure);
                }
                Some(Ok((name, child))) => {
                    let outer_length = directory.len();
                    directory.push(b'/');
                    directory.extend_from_slice(&name);
                    match self.member(child, &directory)? {
                        Some(entries) => open.push(TarLevel { entries, outer_length }),
                        None => directory.truncate(outer_length),
                    }
                }
            }
        }
        self.out.write_all(&[0; 2 * BLOCK_BYTES as usize])
    }

    /// Writes one member. If it is a directory, returns its entries, which are still to be written;
    /// otherwise returns `None`.
    fn member<S: Source>(&mut self, source: S, path: &[u8]) -> io::Result<Option<S::Entries>> {
        let facts = source.facts();
        let mut member = TarMember::new(path, &facts);
        match facts.kind() {
            FileKind::Directory => return self.directory(source, path, member),
            FileKind::Socket | FileKind::Unknown => {
                let what = facts.kind().name();
                let message = format!("a {what} cannot be archived, and is left out");
                // As in GNU tar, this is a note and no failure.
                self.report(path, Failure::new(Exit::Fine, message));
                return Ok(None);
            }
            _ => {}
        }
        self.tally.add_file();
        if facts.links > 1 {
            if let Some(first) = self.links.get(&facts.inode) {
                member.records.push_optional_link(&mut member.header, first);
                member.header.set_entry_type(EntryType::Link);
                member.write_head(self.out, 0)?;
                source.set_copied();
                return Ok(None);
            }
            self.links.insert(facts.inode, path.to_vec());
        }
        self.attributes(&source, path, &mut member.records);
        match facts.kind() {
            FileKind::Regular => self.regular(&source, path, member)?,
            FileKind::Symlink => match source.target() {
                Ok(target) => {
                    member.records.push_optional_link(&mut member.header, &target);
                    member.header.set_entry_type(EntryType::Symlink);
                    member.write_head(self.out, 0)?;
                    source.set_copied();
                }
                Err(failure) => self.report(path, failure),
            },
            kind => {
                member.header.set_entry_type(match kind {
                    FileKind::BlockDevice => EntryType::Block,
                    FileKind::CharDevice => EntryType::Char,
                    _ => EntryType::Fifo,
                });
                // Device numbers of XFS fit: 12 and 20 bits.
                member.header.set_device_major(facts.device.0)?;
                member.header.set_device_minor(facts.device.1)?;
                member.write_head(self.out, 0)?;
                source.set_copied();
            }
        }
        Ok(None)
    }

    fn directory<S: Source>(
        &mut self,
        source: S,
        path: &[u8],
        mut member: TarMember,
    ) -> io::Result<Option<S::Entries>> {
        if !self.entered.insert(member.facts.inode) {
            let message = format!("directory inode {} is its own ancestor", member.facts.inode);
            self.report(path, Failure::new(Exit::Corrupt, message));
            return Ok(None);
        }
        self.tally.add_directory();
        self.attributes(&source, path, &mut member.records);
        member.header.set_entry_type(EntryType::Directory);
        member.write_head(self.out, 0)?;
        match source.entries() {
            Ok(entries) => {
                source.set_copied();
                Ok(Some(entries))
            }
            Err(failure) => {
                self.report(path, failure);
                Ok(None)
            }
        }
    }

    fn attributes<S: Source>(&mut self, source: &S, path: &[u8], records: &mut PaxRecords) {
        for attribute in source.attributes() {
            match attribute {
                Err(failure) => self.report(path, failure),
                Ok(attribute) => {
                    let keyword = match attribute.name.as_slice() {
                        b"system.posix_acl_access" => Some("SCHILY.acl.access"),
                        b"system.posix_acl_default" => Some("SCHILY.acl.default"),
                        _ => None,
                    };
                    if let Some((keyword, text)) = keyword.zip(value_text(&attribute.value)) {
                        records.push(keyword.as_bytes(), text.as_bytes());
                    }
                    records.push_attribute(&attribute);
                }
            }
        }
    }

    fn regular<S: Source>(
        &mut self,
        source: &S,
        path: &[u8],
        mut member: TarMember,
    ) -> io::Result<()> {
        let size = member.facts.size;
        let ranges = match data_ranges(source, size) {
            Ok(ranges) => ranges,
            Err(failure) => {
                self.report(path, failure);
                return Ok(());
            }
        };
        member.header.set_entry_type(EntryType::Regular);
        let stored: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let is_sparse = size - stored >= BLOCK_BYTES;
        if !is_sparse {
            member.write_head(self.out, size)?;
            self.body(source, path, 0..size)?;
            self.pad(size)?;
            source.set_copied();
            return Ok(());
        }
        let map = sparse_map(&ranges, size);
        let length = map.len() as u64 + stored;
        member.make_sparse(path, size);
        member.write_head(self.out, length)?;
        self.out.write_all(&map)?;
        for range in ranges {
            self.body(source, path, range)?;
        }
        self.pad(length)?;
        source.set_copied();
        Ok(())
    }

    /// Writes a range of a file's contents, with zeros for bytes that cannot be read (I1).
    fn body<S: Source>(&mut self, source: &S, path: &[u8], range: Range<u64>) -> io::Result<()> {
        let mut offset = range.start;
        let length = (range.end - range.start).min(CHUNK_BYTES as u64) as usize;
        let mut buffer = vec![0; length];
        let mut has_failed = false;
        while offset < range.end {
            let length = (range.end - offset).min(buffer.len() as u64) as usize;
            let chunk = buffer.get_mut(..length).unwrap_or_default();
            let read = match source.read_at(chunk, offset) {
                Ok(read) => read,
                Err(failure) => {
                    if !has_failed {
                        let hint = "unreadable contents are zeros in the archive";
                        self.report(path, failure.hint(hint));
                    }
                    has_failed = true;
                    0
                }
            };
            chunk.get_mut(read..).unwrap_or_default().fill(0);
            self.out.write_all(chunk)?;
            offset += length as u64;
            self.tally.add_bytes(length as u64);
        }
        Ok(())
    }

    fn pad(&mut self, length: u64) -> io::Result<()> {
        pad(self.out, length)
    }

    fn report(&mut self, path: &[u8], failure: Failure) {
        let below = path.get(self.start_length..).unwrap_or_default();
        let failure = match &self.location {
            Some(location) => location.failure(below, failure),
            None => failure.about(&names::in_message(path)),
        };
        (self.report)(failure);
    }
}

fn pad(out: &mut dyn Write, length: u64) -> io::Result<()> {
    let rest = length.next_multiple_of(BLOCK_BYTES) - length;
    out.write_all([0; BLOCK_BYTES as usize].get(..rest as usize).unwrap_or_default())
}

/// Returns the ranges of the file that hold data, in order, cut off at `size` bytes.
fn data_ranges<S: Source>(source: &S, size: u64) -> Result<Vec<Range<u64>>, Failure> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut offset = 0;
    while offset < size {
        let Some(range) = source.data_after(offset)? else { break };
        let range = range.start.max(offset)..range.end.min(size);
        if range.is_empty() {
            break;
        }
        offset = range.end;
        match ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => ranges.push(range),
        }
    }
    Ok(ranges)
}

/// Returns the map that comes before the data of a sparse file ("GNU sparse format 1.0"). It holds
/// the number of ranges, and the start and the length of each, as decimal numbers, one per line.
/// Zeros fill the last block. A hole at the end of the file appears as an empty range.
fn sparse_map(ranges: &[Range<u64>], size: u64) -> Vec<u8> {
    let ends_in_hole = ranges.last().is_none_or(|last| last.end < size);
    let end = ends_in_hole.then_some(size..size);
    let mut map = format!("{}\n", ranges.len() + usize::from(ends_in_hole)).into_bytes();
    for range in ranges.iter().cloned().chain(end) {
        map.extend_from_slice(format!("{}\n{}\n", range.start, range.end - range.start).as_bytes());
    }
    map.resize(map.len().next_multiple_of(BLOCK_BYTES as usize), 0);
    map
}

/// The headers of one member of the archive: the fixed header, and the extended records.
struct TarMember {
    facts: Facts,
    header: Header,
    records: PaxRecords,
}

impl TarMember {
    fn new(path: &[u8], facts: &Facts) -> Self {
        let mut header = Header::new_ustar();
        let mut records = PaxRecords::default();
        let is_directory = facts.kind() == FileKind::Directory;
        let mut name = path.to_vec();
        if is_directory {
            name.push(b'/');
        }
        fill(&mut header.as_old_mut().name, &name);
        if name.len() > NAME_BYTES {
            records.push(b"path", &name);
        }
        header.set_mode(facts.mode & 0o7777);
        header.set_uid(u64::from(facts.uid.min(MAX_OWNER)));
        header.set_gid(u64::from(facts.gid.min(MAX_OWNER)));
        if facts.uid > MAX_OWNER {
            records.push(b"uid", facts.uid.to_string().as_bytes());
        }
        if facts.gid > MAX_OWNER {
            records.push(b"gid", facts.gid.to_string().as_bytes());
        }
        let seconds = u64::try_from(facts.modified.seconds).unwrap_or(0);
        header.set_mtime(seconds.min(MAX_NUMBER));
        records.push_time(b"mtime", facts.modified);
        records.push_time(b"atime", facts.accessed);
        records.push_time(b"ctime", facts.changed);
        Self { facts: *facts, header, records }
    }

    fn make_sparse(&mut self, path: &[u8], size: u64) {
        self.records.push(b"GNU.sparse.major", b"1");
        self.records.push(b"GNU.sparse.minor", b"0");
        self.records.push(b"GNU.sparse.name", path);
        self.records.push(b"GNU.sparse.realsize", size.to_string().as_bytes());
        // A reader that does not know the format extracts the map under this name.
        let (directory, base) = match path.iter().rposition(|&byte| byte == b'/') {
            None => (&b"."[..], path),
            Some(slash) => {
                (path.get(..slash).unwrap_or_default(), path.get(slash + 1..).unwrap_or_default())
            }
        };
        let name = [directory, b"/GNUSparseFile.0/", base].concat();
        fill(&mut self.header.as_old_mut().name, &name);
        self.records.remove(b"path");
        if name.len() > NAME_BYTES {
            self.records.push(b"path", &name);
        }
    }

    /// Writes the extended records and the fixed header, for contents of `size` bytes.
    fn write_head(mut self, out: &mut dyn Write, size: u64) -> io::Result<()> {
        if size > MAX_NUMBER {
            self.records.push(b"size", size.to_string().as_bytes());
        }
        self.header.set_size(size.min(MAX_NUMBER));
        self.header.set_cksum();
        let records = self.records.into_bytes();
        let mut extended = Header::new_ustar();
        let name = self.header.as_old().name;
        fill(&mut extended.as_old_mut().name, &[b"PaxHeaders/".as_slice(), &name].concat());
        extended.set_entry_type(EntryType::XHeader);
        extended.set_mode(0o644);
        extended.set_uid(0);
        extended.set_gid(0);
        extended.set_mtime(0);
        extended.set_size(records.len() as u64);
        extended.set_cksum();
        out.write_all(extended.as_bytes())?;
        out.write_all(&records)?;
        pad(out, records.len() as u64)?;
        out.write_all(self.header.as_bytes())
    }
}

/// Copies as much of `text` as fits into `field`. Zeros fill the remaining bytes.
pub(super) fn fill(field: &mut [u8], text: &[u8]) {
    field.fill(0);
    for (to, from) in field.iter_mut().zip(text.iter().take_while(|&&byte| byte != 0)) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests;
