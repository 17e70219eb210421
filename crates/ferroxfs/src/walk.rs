//! Walking a directory tree, depth first, without recursion.
//!
//! # Invariants
//!
//! - **I1** A walk enters a directory at most once. If directories form a cycle, the walk ends with
//!   an error at the entry that closes it.
//! - Memory grows linearly with the depth of the tree, because all levels share one path, which
//!   each level extends. The depth of a tree is limited only by the number of its inodes.
//! - **I3** An error is an item like any other: the walk continues with everything that can still
//!   be read.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use xfs_format::InodeNumber;

use crate::directory::{DirEntry, ReadDir};
use crate::node::Node;
use crate::{Error, FileType};

/// A file, directory or link that a walk has visited.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WalkEntry {
    /// The path of the file, beginning with the path that the walk was given.
    pub path: PathBuf,
    /// The depth of the file below the start of the walk. The start has depth 0.
    pub depth: usize,
    /// The node of the file.
    pub node: Node,
}

/// An error of a walk.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
#[non_exhaustive]
pub struct WalkError {
    /// The path that the error is about: a file that could not be read, or a directory that could
    /// not be listed completely.
    pub path: PathBuf,
    /// The error.
    #[source]
    pub source: Error,
}

/// Makes an `io::Error` whose source is this error, so that the path is kept.
impl From<WalkError> for io::Error {
    fn from(error: WalkError) -> Self {
        Self::new(Self::from_raw_os_error(error.source.errno()).kind(), error)
    }
}

/// An iterator over a tree; see [`Volume::walk`](crate::Volume::walk).
pub struct Walk {
    start: Option<WalkEntry>,
    open: Vec<Level>,
    /// The path of the innermost directory that is open, as bytes.
    path: Vec<u8>,
    entered: HashSet<InodeNumber>,
    contents_first: bool,
    sorted: bool,
    /// The directory that was returned last, if its entries were not read yet.
    pending: Option<WalkEntry>,
    /// A directory that could not be opened, after its error has been returned. The directory
    /// itself is returned next.
    unopened: Option<WalkEntry>,
}

/// A directory whose entries are being read.
struct Level {
    entries: Entries,
    depth: usize,
    node: Node,
    /// Length in bytes of the path of the directory that is one level above this one in the walk.
    outer_length: usize,
}

enum Entries {
    Streamed(ReadDir),
    Sorted(std::vec::IntoIter<crate::Result<DirEntry>>),
}

impl Entries {
    fn next(&mut self) -> Option<crate::Result<DirEntry>> {
        match self {
            Self::Streamed(entries) => entries.next(),
            Self::Sorted(entries) => entries.next(),
        }
    }
}

impl Walk {
    pub(crate) fn new(path: &Path, node: Node) -> Self {
        Self {
            start: Some(WalkEntry { path: path.to_owned(), depth: 0, node }),
            open: Vec::new(),
            path: Vec::new(),
            entered: HashSet::new(),
            contents_first: false,
            sorted: false,
            pending: None,
            unopened: None,
        }
    }

    /// Makes the walk return each directory after its contents instead of before them.
    #[must_use]
    pub fn contents_first(mut self) -> Self {
        self.contents_first = true;
        self
    }

    /// Makes the walk return the entries of each directory in the order of the bytes of their
    /// names. The walk then keeps the entries of one directory in memory for each level.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.sorted = true;
        self
    }

    /// Makes the walk skip the contents of the directory that it returned last. This has no effect
    /// with [`contents_first`](Self::contents_first), because such a walk has entered the directory
    /// already.
    pub fn skip_subtree(&mut self) {
        self.pending = None;
    }

    /// Visits the entry that the walk has reached. Returns the entry, or the error of opening it,
    /// if it comes next in the walk. `None`: the entry is a directory that is open now, and its
    /// contents come first.
    fn visit(&mut self, entry: WalkEntry) -> Option<Result<WalkEntry, WalkError>> {
        if entry.node.file_type() != FileType::Directory {
            return Some(Ok(entry));
        }
        if self.contents_first {
            let error = self.enter(entry.clone())?;
            self.unopened = Some(entry);
            return Some(Err(error));
        }
        self.pending = Some(entry.clone());
        Some(Ok(entry))
    }

    /// Opens a directory for listing. Returns an error if this fails, or if the walk has entered
    /// the directory before (I1); `None`: the directory is open now.
    fn enter(&mut self, directory: WalkEntry) -> Option<WalkError> {
        if !self.entered.insert(directory.node.number()) {
            return Some(WalkError {
                path: directory.path,
                source: xfs_vfs::cycle(directory.node.number()).into(),
            });
        }
        match directory.node.entries() {
            Ok(entries) => {
                let entries = if self.sorted { sort(entries) } else { Entries::Streamed(entries) };
                let WalkEntry { path, depth, node } = directory;
                let outer_length = self.path.len();
                self.path = path.into_os_string().into_vec();
                self.open.push(Level { entries, depth, node, outer_length });
                None
            }
            Err(source) => Some(WalkError { path: directory.path, source }),
        }
    }

    /// Returns the next entry of the innermost directory. `None`: all directories are read. After
    /// an error, the next call continues (I3).
    fn step(&mut self) -> Option<Result<WalkEntry, WalkError>> {
        loop {
            let level = self.open.last_mut()?;
            let directory = || PathBuf::from(OsString::from_vec(self.path.clone()));
            let item = match level.entries.next() {
                Some(Ok(entry)) => {
                    let (path, depth) = (directory().join(entry.name()), level.depth + 1);
                    match entry.node() {
                        Ok(node) => self.visit(WalkEntry { path, depth, node }),
                        Err(source) => Some(Err(WalkError { path, source })),
                    }
                }
                Some(Err(source)) => Some(Err(WalkError { path: directory(), source })),
                None => {
                    let path = if self.contents_first { directory() } else { PathBuf::new() };
                    let Level { depth, node, outer_length, .. } = self.open.pop()?;
                    self.path.truncate(outer_length);
                    self.contents_first.then_some(Ok(WalkEntry { path, depth, node }))
                }
            };
            if item.is_some() {
                return item;
            }
        }
    }
}

/// Reads all entries and sorts them by name. Errors come first.
fn sort(entries: ReadDir) -> Entries {
    let mut all: Vec<_> = entries.collect();
    all.sort_by_cached_key(|entry| {
        entry.as_ref().map_or_else(|_| OsString::new(), |entry| entry.name().to_owned())
    });
    Entries::Sorted(all.into_iter())
}

impl Iterator for Walk {
    type Item = Result<WalkEntry, WalkError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(directory) = self.unopened.take() {
            return Some(Ok(directory));
        }
        if let Some(start) = self.start.take()
            && let Some(item) = self.visit(start)
        {
            return Some(item);
        }
        if let Some(directory) = self.pending.take()
            && let Some(error) = self.enter(directory)
        {
            return Some(Err(error));
        }
        self.step()
    }
}
