//! Listing a directory.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::vec;

use xfs_dir::{Audit, Cookie, Directory, Position};
use xfs_format::directory::DirectoryCheck;
use xfs_format::inode::FileType;
use xfs_format::{Corruption, InodeNumber, Structure, StructureAddress};
use xfs_inode::Inode;

use crate::metadata::Metadata;
use crate::node::Node;
use crate::share::Share;
use crate::statistics::Activity;
use crate::volume::{metadata_of, word_of};
use crate::{Error, Result};

/// The entries of a directory, without `.` and `..`.
///
/// A damaged block is an error among the entries; the iterator goes on with the next block. Memory:
/// the entries of one block of the directory.
///
/// [`Node::entries`] of a volume that nobody changes also finds names that are there twice, of which it returns the
/// first, and an index that differs from the entries: each is an error among them.
pub struct ReadDir {
    node: Node,
    position: Option<Position>,
    batch: vec::IntoIter<Result<xfs_dir::DirEntry>>,
    audit: Auditing,
}

/// Whether a listing compares the entries with the index of the directory.
enum Auditing {
    /// It does not, or an error has left entries out.
    Off,
    /// It will: the index is read with the first entries.
    Due,
    On(Audit),
}

/// What a listing that was left has found out; see [`ReadDir::into_progress`].
pub struct ListingProgress(Auditing);

impl ReadDir {
    pub(crate) fn new(node: Node, from: Cookie) -> Self {
        let position = Some(Position::from_cookie(from));
        Self { node, position, batch: Vec::new().into_iter(), audit: Auditing::Off }
    }

    /// A listing of the whole directory.
    pub(crate) fn whole(node: Node) -> Self {
        // Other programs change a live volume between the two reads, and this one its own.
        let is_still = node.share().parts().is_err() && node.cache().rereads() == 0;
        let audit = if is_still { Auditing::Due } else { Auditing::Off };
        Self { audit, ..Self::new(node, Cookie::START) }
    }

    /// Takes up a listing that was left.
    pub(crate) fn again(node: Node, from: Cookie, progress: ListingProgress) -> Self {
        Self { audit: progress.0, ..Self::new(node, from) }
    }

    /// Leaves the listing. [`Node::entries_again`] takes it up from the cookie after the last entry that it returned.
    #[must_use]
    pub fn into_progress(self) -> ListingProgress {
        ListingProgress(self.audit)
    }

    /// Reads the index before the first entries.
    fn begin_audit(&mut self) {
        let mut findings = Vec::new();
        let audit = self.node.in_directory(|directory| Ok(directory.audit(&mut findings)));
        self.audit = match audit {
            Ok(audit) => Auditing::On(audit),
            Err(error) => {
                // Damage is reported by the listing as well. A device may not fail again.
                if !matches!(error, Error::Corrupt(_)) {
                    findings.push(error);
                }
                Auditing::Off
            }
        };
        let findings: Vec<_> = findings.into_iter().map(Err).collect();
        self.batch = findings.into_iter();
    }

    /// Counts an entry; an error where its name belongs to another.
    fn see(&mut self, entry: &xfs_dir::DirEntry) -> Result<()> {
        let Auditing::On(audit) = &mut self.audit else { return Ok(()) };
        match audit.see(&entry.name, entry.cookie) {
            None => Ok(()),
            Some(check) => Err(self.finding(check)),
        }
    }

    /// Returns the damage of the directory as a whole, once.
    fn end_audit(&mut self) -> Option<Result<DirEntry>> {
        match std::mem::replace(&mut self.audit, Auditing::Off) {
            Auditing::On(audit) => audit.finish().map(|check| Err(self.finding(check))),
            _ => None,
        }
    }

    /// Entries that cannot be read are not counted, so that nothing can be compared. Names that are there twice are
    /// known already.
    fn note_error(&mut self) {
        if let Auditing::On(audit) = &mut self.audit {
            audit.give_up();
        }
    }

    fn finding(&self, check: DirectoryCheck) -> Error {
        let place = StructureAddress::Inode(self.node.number());
        Corruption::new(Structure::Directory, place, check).into()
    }

    /// Reads the entries of the next block; `None` at the end.
    fn refill(&mut self) -> Option<()> {
        let position = self.position.take()?;
        self.node.note(Activity::Listing);
        let mut batch = Vec::new();
        let read = |directory: &Directory<'_>| Ok(directory.read_batch(position, &mut batch));
        match self.node.in_directory(read) {
            Ok(next) => self.position = next,
            Err(error) => batch.push(Err(error)),
        }
        self.batch = batch.into_iter();
        Some(())
    }

    /// Whether the next entry names an inode beside this one.
    fn goes_on_beside(&mut self, number: InodeNumber) -> bool {
        if self.batch.as_slice().is_empty() && self.refill().is_none() {
            return false;
        }
        let next = self.batch.as_slice().first();
        matches!(next, Some(Ok(entry)) if word_of(entry.inode) == word_of(number))
    }
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(entry) = self.batch.next() else {
                if matches!(self.audit, Auditing::Due) {
                    self.begin_audit();
                } else if self.refill().is_none() {
                    return self.end_audit();
                }
                continue;
            };
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    self.note_error();
                    return Some(Err(error));
                }
            };
            match self.see(&entry) {
                Ok(()) if matches!(&*entry.name, b"." | b"..") => {}
                Ok(()) => return Some(Ok(DirEntry::new(&self.node, entry))),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// The entries of a directory, without `.` and `..`, each with the metadata of what it names.
///
/// It shows what looking at each of them would. What is not in memory is read from its cluster together with its neighbours,
/// and does not come into memory.
#[doc(alias = "readdirplus")]
pub struct ReadDirPlus {
    entries: ReadDir,
    lot: vec::IntoIter<Result<(DirEntry, Option<Metadata>)>>,
    /// Room for the bytes of a cluster.
    scratch: Vec<u8>,
}

/// Entries whose inodes are looked at together, at least: as many as a cluster mostly has.
const LOT: usize = 32;
/// More than that only as long as they lie beside each other, so that no cluster is read for two lots.
const LARGEST_LOT: usize = 128;

impl ReadDirPlus {
    pub(crate) fn new(entries: ReadDir) -> Self {
        Self { entries, lot: Vec::new().into_iter(), scratch: Vec::new() }
    }

    fn take_together(&mut self) -> Vec<Result<DirEntry>> {
        let mut together: Vec<_> = self.entries.by_ref().take(LOT).collect();
        while together.len() < LARGEST_LOT
            && matches!(together.last(), Some(Ok(last)) if self.entries.goes_on_beside(last.number))
        {
            together.extend(self.entries.next());
        }
        together
    }

    /// Takes the next entries; empty at the end.
    fn next_lot(&mut self) -> Vec<Result<(DirEntry, Option<Metadata>)>> {
        let is_checked = self.entries.node.who().somebody().is_some();
        let entries = match is_checked {
            true => self.entries.by_ref().take(1).collect(),
            false => self.take_together(),
        };
        if is_checked {
            // The name is looked up for whoever asks.
            let with_metadata = |entry: DirEntry| {
                let metadata = entry.node().ok().map(|node| node.metadata());
                (entry, metadata)
            };
            return entries.into_iter().map(|entry| entry.map(with_metadata)).collect();
        }
        let numbers: Vec<_> = entries.iter().flatten().map(DirEntry::number).collect();
        let share = self.entries.node.share();
        let metadata = match share.parts() {
            Ok(parts) => metadata_of(parts, &numbers, &mut self.scratch),
            // Nothing comes into memory for who only reads but the clusters themselves.
            Err(_) => {
                let geometry = share.cache.geometry();
                let inodes = Inode::read_each(&share.cache, &numbers).into_iter();
                inodes.map(|inode| inode.ok().map(|it| Metadata::new(&it, geometry))).collect()
            }
        };
        let mut metadata = metadata.into_iter();
        let mut with_metadata = |entry| (entry, metadata.next().flatten());
        entries.into_iter().map(|entry| entry.map(&mut with_metadata)).collect()
    }
}

impl Iterator for ReadDirPlus {
    /// An entry, and the metadata of what it names: `None` where that is gone or cannot be read, as
    /// [`DirEntry::node`] says.
    type Item = Result<(DirEntry, Option<Metadata>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.lot.as_slice().is_empty() {
            self.lot = self.next_lot().into_iter();
        }
        self.lot.next()
    }
}

/// One entry of a directory.
#[derive(Clone)]
pub struct DirEntry {
    share: Arc<Share>,
    /// Where it was listed, for somebody whose right to look it up has to be asked for.
    directory: Option<Node>,
    name: OsString,
    number: InodeNumber,
    file_type: Option<FileType>,
    cookie: Cookie,
}

impl DirEntry {
    fn new(directory: &Node, entry: xfs_dir::DirEntry) -> Self {
        let is_checked = directory.who().somebody().is_some();
        Self {
            share: Arc::clone(directory.share()),
            directory: is_checked.then(|| directory.clone()),
            name: OsString::from_vec(entry.name.into()),
            number: entry.inode,
            file_type: entry.entry_type.file_type(),
            cookie: entry.cookie,
        }
    }

    /// The name: 1 to 255 bytes, never `/` or NUL.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// The inode that the entry points to.
    #[must_use]
    pub fn number(&self) -> InodeNumber {
        self.number
    }

    /// The type that the entry claims; `None` where it claims none that is known.
    #[must_use]
    pub fn file_type(&self) -> Option<FileType> {
        self.file_type
    }

    /// Where it lies in its directory: [`Node::entries_from`] goes on behind it.
    #[must_use]
    pub fn cookie(&self) -> Cookie {
        self.cookie
    }

    /// Whether the entry claims to be a directory.
    pub(crate) fn may_be_directory(&self) -> bool {
        self.file_type == Some(FileType::Directory)
    }

    /// The inode itself. For somebody else than root it is what the name means now: the number may
    /// have gone to a file that they cannot reach by any name.
    ///
    /// # Errors
    ///
    /// EACCES where the directory may be listed and not searched, ENOENT where the name is gone; what the
    /// volume holds may be corrupt.
    pub fn node(&self) -> Result<Node> {
        match &self.directory {
            Some(directory) => directory.lookup(&self.name),
            None => self.share.node(self.number),
        }
    }
}

impl fmt::Debug for DirEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirEntry")
            .field("name", &self.name)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// The finding that a directory is inside itself.
pub(crate) fn cycle(directory: InodeNumber) -> Corruption {
    Corruption::new(Structure::Directory, StructureAddress::Inode(directory), DirectoryCheck::Cycle)
}

/// The finding that a directory has not exactly one parent.
pub(crate) fn parents_of_directory(directory: InodeNumber) -> Corruption {
    Corruption::new(
        Structure::Directory,
        StructureAddress::Inode(directory),
        DirectoryCheck::Parents,
    )
}
