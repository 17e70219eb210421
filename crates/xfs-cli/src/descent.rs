//! Going down a tree of an image that changes on the way.
//!
//! Owns: the order in which files are met, what is held meanwhile, and the path that a message names.
//! Does **not** own what is done with them.
//!
//! # Invariants
//!
//! - **I1** The innermost directory and the file that was met are in use, and no other inode: of the directories
//!   around them there are their numbers, and where their listings go on. So neither how deep a
//!   tree is nor how many entries a directory has decides how many inodes are in memory.
//! - **I2** A listing goes on behind the entry that was met last. Who removes that entry misses no other one,
//!   and what could not be removed is not met again.
//! - **I3** A directory is entered at most once: a volume whose directories form a cycle ends it with an
//!   error at the entry that closes it.
//! - **I4** Links are not followed.
//! - **I5** After a signal nothing is met any more: the command reports the interruption.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::format::directory::DirectoryCheck;
use ferroxfs::format::{Corruption, InodeNumber, Structure, StructureAddress};
use ferroxfs::{Cookie, FileType, ListingProgress, Node, ReadDir, Result, Volume};

use crate::interrupt;

/// What comes next in a tree.
pub(crate) enum Met {
    /// A file, or a directory before what is in it.
    File(Node),
    /// The end of a directory.
    End,
}

/// A tree, as far as it has been gone through.
pub(crate) struct Descent {
    volume: Volume,
    /// The start, and then the directory that was met last, as long as it has not been entered.
    pending: Option<Node>,
    has_started: bool,
    levels: Vec<Level>,
    /// The innermost level's (**I1**).
    listing: Option<(Node, ReadDir)>,
    /// Of what was met last.
    path: Vec<u8>,
    entered: HashSet<InodeNumber>,
}

/// A directory that has been entered.
struct Level {
    number: InodeNumber,
    path_length: usize,
    /// Where its listing goes on (**I2**).
    from: Cookie,
    /// What its listing has found out, while another directory is listed.
    progress: Option<ListingProgress>,
}

impl Descent {
    /// Starts with a node, which messages call `path`.
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

    /// The path of what was met last, or of what an error is about.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// The name of what was met last, below the start.
    pub(crate) fn name(&self) -> &OsStr {
        let name = self.path.rsplit(|byte| *byte == b'/').next();
        OsStr::from_bytes(name.unwrap_or_default())
    }

    /// How many directories of the tree are around what was met last.
    pub(crate) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// The innermost of these; `None` for the start.
    pub(crate) fn directory(&self) -> Option<&Node> {
        self.listing.as_ref().map(|(directory, _)| directory)
    }

    /// The next file, or the end of a directory. An error is about the place where the path is, and the others
    /// come behind it.
    pub(crate) fn next(&mut self) -> Option<Result<Met>> {
        if interrupt::check().is_err() {
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

    fn meet(&mut self, node: Node) -> Met {
        let is_directory = node.file_type() == FileType::Directory;
        self.pending = is_directory.then(|| node.clone());
        Met::File(node)
    }

    fn enter(&mut self, directory: Node) -> Result<()> {
        let number = directory.number();
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
        self.levels.push(Level { number, path_length, from: Cookie::START, progress: None });
        Ok(())
    }

    /// Goes back to the directory around the innermost one.
    fn leave(&mut self) -> Option<Result<Met>> {
        self.levels.pop()?;
        self.listing = None;
        let Some(outer) = self.levels.last_mut() else { return Some(Ok(Met::End)) };
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
                Some(Ok(Met::End))
            }
            // Without a listing it is left next.
            Err(error) => {
                self.path.truncate(outer.path_length);
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests;
