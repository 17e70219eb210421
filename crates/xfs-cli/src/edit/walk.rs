//! A walk over a tree of an image. The tree may change during the walk.
//!
//! Owns: the order of files, the references to inodes, and the path for messages. Does **not** own:
//! the work on each file.
//!
//! # Invariants
//!
//! - **I1** The walk holds only the innermost directory and the current file. For the enclosing
//!   directories, it keeps only inode numbers and listing positions. So the number of inodes in
//!   memory does not grow with the depth of a tree or the size of a directory.
//! - **I2** A listing continues after the current entry. Removing that entry skips no other entry,
//!   and an entry that could not be removed is not visited again.
//! - **I3** A directory is entered at most once: in a volume whose directories form a cycle, the
//!   walk ends with an error at the entry that closes the cycle.
//! - **I4** Symbolic links are not followed.
//! - **I5** After a signal the walk ends, and the command reports the interruption.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::dir::{Cookie, ListingProgress};
use ferroxfs::error::{Structure, StructureAddress};
use ferroxfs::raw::format::directory::DirectoryCheck;
use ferroxfs::{Corruption, InodeNumber};
use ferroxfs::{FileType, Node, ReadDir, Result, Volume};

use crate::interrupt;

/// The next event of a walk: a file, or the end of a directory.
pub(crate) enum WalkEvent {
    /// A file, or a directory before its entries.
    File(Node),
    /// The end of a directory: all its entries have been visited.
    End,
}

/// A walk of a directory tree.
pub(crate) struct TreeWalk {
    volume: Volume,
    /// The file that was visited last, if it is a directory that the walk has not entered yet.
    /// Before the first visit it is the start of the walk.
    pending: Option<Node>,
    has_started: bool,
    levels: Vec<WalkLevel>,
    /// The listing of the innermost directory (**I1**).
    listing: Option<(Node, ReadDir)>,
    /// The path of the current file, for messages.
    path: Vec<u8>,
    entered: HashSet<InodeNumber>,
}

/// A directory that the walk has entered and not left.
struct WalkLevel {
    number: InodeNumber,
    path_length: usize,
    /// The position at which the listing of this directory continues (**I2**).
    from: Cookie,
    /// The state in which the listing of this directory was interrupted, while a directory below it
    /// is listed.
    progress: Option<ListingProgress>,
}

impl TreeWalk {
    /// Starts a walk at the node `start`; `path` is its path in messages.
    pub(crate) fn new(volume: &Volume, start: Node, path: &[u8]) -> Self {
        Self {
            volume: volume.clone(),
            pending: Some(start),
            has_started: false,
            levels: Vec::new(),
            listing: None,
            path: path.to_vec(),
            entered: HashSet::new(),
        }
    }

    /// Returns the path of the current file, or of the file that the last error is about.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// Returns the name of the current file: the last component of its path.
    pub(crate) fn name(&self) -> &OsStr {
        let name = self.path.rsplit(|byte| *byte == b'/').next();
        OsStr::from_bytes(name.unwrap_or_default())
    }

    /// Returns the number of directories that enclose the current file.
    pub(crate) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Returns the innermost directory that encloses the current file; `None` for the start of the
    /// walk.
    pub(crate) fn directory(&self) -> Option<&Node> {
        self.listing.as_ref().map(|(directory, _)| directory)
    }

    /// Returns the next file, or the end of a directory; `None` at the end of the walk. An error
    /// concerns the file at `path`, and the walk continues after it.
    pub(crate) fn next(&mut self) -> Option<Result<WalkEvent>> {
        // I5: the walk ends after a signal.
        if interrupt::check().is_err() {
            // The command makes the same check, and reports the signal.
            return None;
        }
        if !self.has_started {
            self.has_started = true;
            return self.pending.clone().map(|start| Ok(self.meet(start)));
        }
        if let Some(directory) = self.pending.take()
            && let Err(error) = self.enter(directory)
        {
            return Some(Err(error));
        }
        let level = self.levels.last_mut()?;
        self.path.truncate(level.path_length);
        let entry = self.listing.as_mut().and_then(|(_, entries)| entries.next());
        match entry {
            None => self.leave(),
            Some(Err(error)) => Some(Err(error)),
            Some(Ok(entry)) => {
                level.from = entry.cookie().after();
                if !self.path.ends_with(b"/") {
                    self.path.push(b'/');
                }
                self.path.extend_from_slice(entry.name().as_bytes());
                Some(entry.node().map(|node| self.meet(node)))
            }
        }
    }

    fn meet(&mut self, node: Node) -> WalkEvent {
        let is_directory = node.file_type() == FileType::Directory;
        // I4: a symbolic link is no directory, and is not followed.
        self.pending = is_directory.then(|| node.clone());
        WalkEvent::File(node)
    }

    fn enter(&mut self, directory: Node) -> Result<()> {
        let number = directory.number();
        // A second entry into a directory closes a cycle (I3).
        if !self.entered.insert(number) {
            let place = StructureAddress::Inode(number);
            return Err(Corruption::new(Structure::Directory, place, DirectoryCheck::Cycle).into());
        }
        let entries = directory.entries()?;
        let left = self.listing.replace((directory, entries));
        if let (Some(outer), Some((_, entries))) = (self.levels.last_mut(), left) {
            outer.progress = Some(entries.into_progress());
        }
        let path_length = self.path.len();
        self.levels.push(WalkLevel { number, path_length, from: Cookie::START, progress: None });
        Ok(())
    }

    /// Leaves the innermost directory and opens the listing of the enclosing one again. Returns
    /// `WalkEvent::End`, or the error of opening that listing; `None` if no directory is open.
    fn leave(&mut self) -> Option<Result<WalkEvent>> {
        self.levels.pop()?;
        self.listing = None;
        let Some(outer) = self.levels.last_mut() else { return Some(Ok(WalkEvent::End)) };
        let opened = self.volume.node_trusted(outer.number).and_then(|directory| {
            let entries = match outer.progress.take() {
                Some(progress) => directory.entries_again(outer.from, progress)?,
                None => directory.entries_from(outer.from)?,
            };
            Ok((directory, entries))
        });
        match opened {
            Ok(listing) => {
                self.listing = Some(listing);
                Some(Ok(WalkEvent::End))
            }
            // Without a listing it is left at once.
            Err(error) => {
                self.path.truncate(outer.path_length);
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests;
