//! The files of a container image: in a directory, or in an archive.
//!
//! Owns: finding a file by its path, and the comparison with its digest. Does **not** own: the
//! meaning of the files, or that no path leads out of the directory ([`open_beneath`]).

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::digest::VerifyingReader;
use super::{Descriptor, differs, invalid};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::FileKind;
use crate::file::source::Source;
use crate::import::archive::block;
use crate::import::archive::{ArchiveReader, Member, MemberKind};
use crate::import::beneath::open_beneath;
use crate::import::decompress::{Compression, Decompressed};
use crate::input::{self, Spool, SpoolReader};
use crate::interrupt;
use crate::terminal::names;

/// The size of one read, in bytes.
const CHUNK_BYTES: usize = 1 << 20;
/// The largest number of files that an archive of a container image may hold.
const MAX_MEMBERS: usize = 100_000;
/// The longest path of a file in an archive, in bytes. The paths in container images have about
/// 100.
const MAX_PATH_BYTES: usize = 1024;
/// The largest number of links that are followed, one to the next, to find a file in an archive.
const MAX_LINKS: usize = 8;

/// The files of a container image.
pub(super) enum BlobStore {
    Directory(File),
    Archive { bytes: Arc<Spool>, members: HashMap<String, StoredMember> },
}

/// A file in an archive.
pub(super) enum StoredMember {
    /// The range of its contents in the bytes of the archive.
    Contents(Range<u64>),
    /// Another name of the file with this name.
    Link(String),
}

impl BlobStore {
    /// Opens the directory or the archive at `path`; `-` is an archive on standard input. An
    /// archive that is compressed, or that comes from a pipe, is spooled.
    pub(super) fn open(path: &Path, is_archive: bool) -> Result<Self, Failure> {
        let name = path.as_os_str();
        let failed = |error: io::Error| Failure::host(name, &error);
        if path == Path::new("-") && is_archive {
            let failed = |error: io::Error| invalid(format!("standard input: {error}"));
            let spool = Spool::of_file(input::open().map_err(failed)?, "standard input")?;
            return Self::of_archive(Arc::new(spool), "standard input");
        }
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.is_dir() {
            return Ok(Self::Directory(file));
        }
        let shown = names::in_message(name.as_bytes());
        match is_archive {
            true => Self::of_archive(Arc::new(Spool::of_file(file, &shown)?), &shown),
            false => Err(invalid(format!("{shown}: is not a directory"))
                .hint("oci-archive:FILE names an archive of a layout")),
        }
    }

    /// Lists the files of an archive. One that is compressed is spooled.
    pub(super) fn of_archive(mut bytes: Arc<Spool>, name: &str) -> Result<Self, Failure> {
        let mut head = [0; 512];
        let failed = |error: io::Error| invalid(format!("{name}: {error}"));
        let read = bytes.read_at(&mut head, 0).map_err(failed)?;
        let head = head.get(..read).unwrap_or_default();
        if !block::is_header(head) && Compression::of(head).is_some() {
            let input = BufReader::with_capacity(CHUNK_BYTES, SpoolReader::new(bytes));
            let unpacked = Decompressed::new(Box::new(input), 0).map_err(failed)?;
            bytes = Arc::new(Spool::read(unpacked, name)?);
        }
        let input = SpoolReader::new(Arc::clone(&bytes));
        let input = BufReader::with_capacity(CHUNK_BYTES, input);
        let mut archive = ArchiveReader::open_layer(Box::new(input), name.to_owned())?;
        let mut members = HashMap::new();
        while let Some(member) = archive.next()? {
            interrupt::check()?;
            let stored = match &member.kind {
                MemberKind::HardLink(target) => to_path(target).map(StoredMember::Link),
                MemberKind::File => stored(&member),
                MemberKind::Directory | MemberKind::LeftOut(_) => None,
            };
            if let (Some(path), Some(stored)) = (to_path(&member.path), stored) {
                members.insert(path, stored);
            }
            if members.len() > MAX_MEMBERS {
                return Err(invalid(format!("{name}: holds more than {MAX_MEMBERS} files")));
            }
        }
        Ok(Self::Archive { bytes, members })
    }

    /// Returns the length in bytes of a blob.
    pub(super) fn length(&self, path: &str) -> Result<u64, Failure> {
        let (_, length) = self.open_file(path)?;
        Ok(length)
    }

    /// Returns a reader of the file at `path`.
    pub(super) fn reader(&self, path: &str) -> Result<Box<dyn Read + Send>, Failure> {
        let (reader, _) = self.open_file(path)?;
        Ok(reader)
    }

    /// Returns the contents of the file at `path`, which may have at most `most` bytes.
    pub(super) fn read(&self, path: &str, most: u64) -> Result<Vec<u8>, Failure> {
        let (reader, length) = self.open_file(path)?;
        if length > most {
            let shown = names::printable(path).into_owned();
            return Err(invalid(format!("{shown} has {length} bytes, more than {most}")));
        }
        let mut bytes = Vec::new();
        reader.take(most).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
        Ok(bytes)
    }

    /// Compares the blob that `descriptor` names with its length and its digest.
    pub(super) fn verify(&self, descriptor: &Descriptor) -> Result<(), Failure> {
        let path = descriptor.path();
        let (reader, length) = self.open_file(&path)?;
        if length != descriptor.size {
            return Err(differs(&descriptor.digest));
        }
        let mut reader = VerifyingReader::new(reader, descriptor.digest.clone());
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            interrupt::check()?;
            match reader.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(invalid(error.to_string())),
            }
        }
    }

    /// Opens the file at `path`. Returns its reader, and its length in bytes.
    fn open_file(&self, path: &str) -> Result<(Box<dyn Read + Send>, u64), Failure> {
        match self {
            Self::Directory(directory) => {
                let opened = open_beneath(directory, path);
                let file = opened.map_err(|error| unreadable(path, &error))?;
                let length = file.metadata().map_err(|error| unreadable(path, &error))?.len();
                Ok((Box::new(BufReader::with_capacity(CHUNK_BYTES, file)), length))
            }
            Self::Archive { bytes, members } => {
                let range = find(members, path)
                    .ok_or_else(|| unreadable(path, &io::Error::other("is not in the archive")))?;
                let (bytes, range) = (Arc::clone(bytes), range.clone());
                let length = range.end - range.start;
                Ok((Box::new(SpoolReader::of_range(bytes, range)), length))
            }
        }
    }
}

/// Returns how an archive stores a file; `None` for a file that a container image does not have.
fn stored(member: &Member<'_>) -> Option<StoredMember> {
    match member.facts().kind() {
        FileKind::Regular => member.whole_contents().map(StoredMember::Contents),
        FileKind::Symlink => {
            let above = member.path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            let above = member.path.get(..above).unwrap_or_default();
            let target = member.target().ok()?;
            to_path(&[above, b"/", &target].concat()).map(StoredMember::Link)
        }
        _ => None,
    }
}

/// Returns the range of the file at `path` in an archive. Links are followed.
fn find<'a>(members: &'a HashMap<String, StoredMember>, path: &str) -> Option<&'a Range<u64>> {
    let mut path = to_path(path.as_bytes())?;
    for _ in 0..=MAX_LINKS {
        match members.get(&path)? {
            StoredMember::Contents(range) => return Some(range),
            StoredMember::Link(target) => path.clone_from(target),
        }
    }
    None
}

/// Returns a path without `.` and `..`, in the form in which members are listed. Returns `None` if
/// the path leads out of the archive, is not text, or is longer than `MAX_PATH_BYTES`. Without this
/// limit, paths could take much memory: a short extended record can give every later member a long
/// path.
fn to_path(path: &[u8]) -> Option<String> {
    if path.len() > MAX_PATH_BYTES {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in std::str::from_utf8(path).ok()?.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop()?,
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn unreadable(path: &str, error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("{}: {error}", names::printable(path)))
}
