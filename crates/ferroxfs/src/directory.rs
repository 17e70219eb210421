//! Listing a directory, with or without the metadata of its entries.

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
use xfs_vfs::{Access, Activity, Metadata, metadata_of, metadata_of_inode, word_of};

use crate::node::Node;
use crate::volume_ref::VolumeRef;
use crate::{Error, Result};

/// The entries of a directory, without `.` and `..`.
///
/// A damaged block is an error among the entries; the iterator continues with the next block. The
/// iterator keeps the entries of one block of the directory in memory.
///
/// On a volume that does not change, [`Node::entries`] also reports duplicate names, and an index
/// that differs from the entries. Each of these is an error among the entries. Only the first of
/// several entries with one name is returned.
pub struct ReadDir {
    node: Node,
    position: Option<Position>,
    batch: vec::IntoIter<Result<xfs_dir::OwnedEntry>>,
    audit: Auditing,
}

impl Node {
    /// Returns the entries of this directory, without `.` and `..`, in the order of their place on
    /// disk.
    ///
    /// # Errors
    ///
    /// ENOTDIR, EACCES; damage that shows later is an item of the iterator.
    pub fn entries(&self) -> Result<ReadDir> {
        self.check_listable()?;
        Ok(ReadDir::whole(self.clone()))
    }

    /// Returns the remaining entries of a listing that was [interrupted](ReadDir::into_progress).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`entries`](Self::entries).
    pub fn entries_again(&self, from: Cookie, progress: ListingProgress) -> Result<ReadDir> {
        self.check_listable()?;
        Ok(ReadDir::again(self.clone(), from, progress))
    }

    fn check_listable(&self) -> Result<()> {
        self.in_directory(|_| Ok(()))?;
        self.check(Access::READ)
    }

    /// Returns the entries of this directory from `from` on. A directory can be listed in parts.
    /// Each part begins at the cookie [`Cookie::after`] the last entry of the preceding part. Such
    /// a listing misses no entry that exists all the time, whatever is added and removed between
    /// the parts.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`entries`](Self::entries).
    pub fn entries_from(&self, from: Cookie) -> Result<ReadDir> {
        self.check_listable()?;
        Ok(ReadDir::new(self.clone(), from))
    }

    /// Returns the same entries as [`entries_from`](Self::entries_from), each with the metadata of
    /// its inode.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`entries`](Self::entries).
    pub fn entries_with_metadata_from(&self, from: Cookie) -> Result<ReadDirPlus> {
        self.entries_from(from).map(ReadDirPlus::new)
    }
}

/// Whether a listing compares the entries of a directory with its index.
enum Auditing {
    /// The listing does not compare entries and index: no comparison was requested, the index could
    /// not be read, or the comparison has ended.
    Off,
    /// The listing will compare the entries with the index. It reads the index before the first
    /// entries.
    Due,
    On(Audit),
}

/// How far an interrupted listing has compared the entries of its directory with the index. A later
/// listing continues the comparison; see [`ReadDir::into_progress`].
pub struct ListingProgress(Auditing);

impl ReadDir {
    pub(crate) fn new(node: Node, from: Cookie) -> Self {
        let position = Some(Position::from_cookie(from));
        Self { node, position, batch: Vec::new().into_iter(), audit: Auditing::Off }
    }

    /// Makes a listing of the whole directory. If no program can change the directory, the listing
    /// also compares the entries with the index.
    pub(crate) fn whole(node: Node) -> Self {
        // Another program may change a live volume between the two reads, and this one may change
        // its own.
        let is_still = node.volume_ref().mount().is_err() && node.cache().rereads() == 0;
        let audit = if is_still { Auditing::Due } else { Auditing::Off };
        Self { audit, ..Self::new(node, Cookie::START) }
    }

    /// Continues a listing that was interrupted.
    pub(crate) fn again(node: Node, from: Cookie, progress: ListingProgress) -> Self {
        Self { audit: progress.0, ..Self::new(node, from) }
    }

    /// Interrupts the listing. [`Node::entries_again`] continues it after the last entry that the
    /// listing has returned.
    #[must_use]
    pub fn into_progress(self) -> ListingProgress {
        ListingProgress(self.audit)
    }

    /// Reads the index of the directory before the first entries, and begins the comparison of the
    /// entries with it.
    fn begin_audit(&mut self) {
        let mut findings = Vec::new();
        let audit = self.node.in_directory(|directory| Ok(directory.audit(&mut findings)));
        self.audit = match audit {
            Ok(audit) => Auditing::On(audit),
            Err(error) => {
                // The listing reports damage too. A device may not fail again.
                if !matches!(error, Error::Corrupt(_)) {
                    findings.push(error);
                }
                Auditing::Off
            }
        };
        let findings: Vec<_> = findings.into_iter().map(Err).collect();
        self.batch = findings.into_iter();
    }

    /// Counts an entry for the comparison with the index. Returns an error if an earlier entry has
    /// the same name.
    fn see(&mut self, entry: &xfs_dir::OwnedEntry) -> Result<()> {
        let Auditing::On(audit) = &mut self.audit else { return Ok(()) };
        match audit.see(&entry.name, entry.cookie) {
            None => Ok(()),
            Some(check) => Err(self.finding(check)),
        }
    }

    /// Ends the comparison of entries and index. Returns an error if they differ; `None` if they
    /// agree or were not compared.
    fn end_audit(&mut self) -> Option<Result<DirEntry>> {
        match std::mem::replace(&mut self.audit, Auditing::Off) {
            Auditing::On(audit) => audit.finish().map(|check| Err(self.finding(check))),
            _ => None,
        }
    }

    /// Gives up the comparison of entries and index after an error, because the listing lacks the
    /// entries that cannot be read. Duplicate names are still reported.
    fn note_error(&mut self) {
        if let Auditing::On(audit) = &mut self.audit {
            audit.give_up();
        }
    }

    fn finding(&self, check: DirectoryCheck) -> Error {
        let place = StructureAddress::Inode(self.node.number());
        Corruption::new(Structure::Directory, place, check).into()
    }

    /// Reads the entries of the next block. `None`: the directory has no more blocks.
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

    /// Returns whether the inode of the next entry is a neighbour of inode `number`: both numbers
    /// are in the same aligned range of 64 numbers.
    fn continues_beside(&mut self, number: InodeNumber) -> bool {
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

/// The entries of a directory, without `.` and `..`, each with the metadata of its inode.
///
/// A lookup of each entry would give the same metadata. Inodes that are not cached are read from
/// their clusters together with their neighbours, and are not inserted into the cache.
#[doc(alias = "readdirplus")]
pub struct ReadDirPlus {
    entries: ReadDir,
    lot: vec::IntoIter<Result<(DirEntry, Option<Metadata>)>>,
    /// Memory into which the bytes of a cluster are read.
    scratch: Vec<u8>,
}

/// The least number of entries whose inodes are read together, as one lot. It is the number of
/// inodes in most clusters.
const LOT: usize = 32;
/// The largest number of entries whose inodes are read together, as one lot. A lot grows beyond
/// `LOT` entries as long as the next inode is a neighbour of the last one. So the inodes of one
/// cluster are in one lot, and the cluster is read once.
const LARGEST_LOT: usize = 128;

impl ReadDirPlus {
    pub(crate) fn new(entries: ReadDir) -> Self {
        Self { entries, lot: Vec::new().into_iter(), scratch: Vec::new() }
    }

    fn take_together(&mut self) -> Vec<Result<DirEntry>> {
        let mut together: Vec<_> = self.entries.by_ref().take(LOT).collect();
        while together.len() < LARGEST_LOT
            && matches!(together.last(), Some(Ok(last)) if self.entries.continues_beside(last.number))
        {
            together.extend(self.entries.next());
        }
        together
    }

    /// Reads the next entries with their metadata. The result is empty at the end of the directory.
    fn next_lot(&mut self) -> Vec<Result<(DirEntry, Option<Metadata>)>> {
        let is_checked = self.entries.node.caller().credentials().is_some();
        let entries = match is_checked {
            true => self.entries.by_ref().take(1).collect(),
            false => self.take_together(),
        };
        if is_checked {
            // The name is looked up on behalf of the caller.
            let with_metadata = |entry: DirEntry| {
                let metadata = entry.node().ok().map(|node| node.metadata());
                (entry, metadata)
            };
            return entries.into_iter().map(|entry| entry.map(with_metadata)).collect();
        }
        let numbers: Vec<_> = entries.iter().flatten().map(DirEntry::number).collect();
        let volume = self.entries.node.volume_ref();
        let metadata = match volume.mount() {
            Ok(mount) => metadata_of(mount, &numbers, &mut self.scratch),
            // A volume that is open for reading caches nothing except the clusters themselves.
            Err(_) => {
                let geometry = volume.cache().geometry();
                let inodes = Inode::read_each(volume.cache(), &numbers).into_iter();
                inodes.map(|inode| inode.ok().map(|it| metadata_of_inode(&it, geometry))).collect()
            }
        };
        let mut metadata = metadata.into_iter();
        let mut with_metadata = |entry| (entry, metadata.next().flatten());
        entries.into_iter().map(|entry| entry.map(&mut with_metadata)).collect()
    }
}

impl Iterator for ReadDirPlus {
    /// An entry, and the metadata of its inode. `None`: the inode is gone or cannot be read;
    /// [`DirEntry::node`] then returns the error.
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
    volume: Arc<VolumeRef>,
    /// The directory that holds the entry. `None` for a caller, such as root, whose permission to
    /// look up the name need not be checked.
    directory: Option<Node>,
    name: OsString,
    number: InodeNumber,
    file_type: Option<FileType>,
    cookie: Cookie,
}

impl DirEntry {
    fn new(directory: &Node, entry: xfs_dir::OwnedEntry) -> Self {
        let is_checked = directory.caller().credentials().is_some();
        Self {
            volume: Arc::clone(directory.volume_ref()),
            directory: is_checked.then(|| directory.clone()),
            name: OsString::from_vec(entry.name.into()),
            number: entry.inode,
            file_type: entry.entry_type.file_type(),
            cookie: entry.cookie,
        }
    }

    /// Returns the name: 1 to 255 bytes, never `/` or NUL.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Returns the number of the inode that the entry points to.
    #[must_use]
    pub fn number(&self) -> InodeNumber {
        self.number
    }

    /// Returns the file type that the entry states; `None` if the entry states no known type.
    #[must_use]
    pub fn file_type(&self) -> Option<FileType> {
        self.file_type
    }

    /// Returns the position of the entry in the directory. [`Node::entries_from`] continues after
    /// it.
    #[must_use]
    pub fn cookie(&self) -> Cookie {
        self.cookie
    }

    /// Returns whether the type in the entry is that of a directory.
    pub(crate) fn may_be_directory(&self) -> bool {
        self.file_type == Some(FileType::Directory)
    }

    /// Returns the inode. For a caller other than root the name is looked up again, because the
    /// number may belong by now to a file that the caller cannot reach by any name.
    ///
    /// # Errors
    ///
    /// EACCES if the directory may be listed but not searched, ENOENT if the name is gone; EUCLEAN
    /// for a corrupt volume.
    pub fn node(&self) -> Result<Node> {
        match &self.directory {
            Some(directory) => directory.lookup(&self.name),
            None => self.volume.node(self.number),
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
