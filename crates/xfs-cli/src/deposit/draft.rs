//! Where a file stands until it is complete, and how it comes to its name.
//!
//! Owns: names of drafts, and putting a file in the place of another one. Does **not** own: what is in it.
//!
//! # Invariants
//!
//! - **I1** What has a name keeps it until the file that takes its place is complete.
//! - **I2** A name of a draft is one that nothing had. Regular files have none until they are complete, and then
//!   for the two transactions that link and rename them: what a kill leaves there hurts nobody.
//! - **I3** A draft that is dropped is gone.

use std::ffi::{OsStr, OsString};

use ferroxfs::format::inode::ExtendedFlags;
use ferroxfs::{Creation, Error, FileType, NewKind, Node, PosixError, RenameMode, Result};

/// Names of drafts begin so.
const DRAFT: &str = ".ferroxfs-put";
/// So many names of drafts are tried, of which others may have some.
const MOST_DRAFTS: u32 = 1000;

/// The name that a file is to get.
pub(super) struct Spot<'a> {
    pub(super) directory: &'a Node,
    pub(super) name: &'a OsStr,
    /// What has the name, and loses it.
    pub(super) present: Option<Node>,
}

/// A file that is not complete.
pub(super) struct Draft<'a> {
    spot: &'a Spot<'a>,
    node: Node,
    stands: Stands,
}

/// Where a draft is.
enum Stands {
    /// Under the name that it is to have, which nothing had.
    Here,
    /// It has no name.
    Nowhere,
    Under(OsString),
    /// It is complete.
    Done,
}

impl<'a> Spot<'a> {
    /// Makes a file that is not complete yet.
    pub(super) fn begin(&'a self, kind: &NewKind<'_>, creation: &Creation) -> Result<Draft<'a>> {
        let Self { directory, name, present } = self;
        self.check_replaceable()?;
        let (node, stands) = if present.is_none() {
            (directory.create(name, kind, creation)?, Stands::Here)
        } else if *kind == NewKind::Regular {
            (directory.create_unnamed(creation)?, Stands::Nowhere)
        } else {
            let (node, draft) = fresh(|draft| directory.create(draft, kind, creation))?;
            (node, Stands::Under(draft))
        };
        Ok(Draft { spot: self, node, stands })
    }

    /// Gives the name to a file, which may have others.
    pub(super) fn link(&self, file: &Node) -> Result<()> {
        match &self.present {
            None => self.directory.link(file, self.name),
            // To rename it over itself would leave the draft.
            Some(present) if present.number() == file.number() => Ok(()),
            Some(_) => {
                self.check_replaceable()?;
                let ((), draft) = fresh(|draft| self.directory.link(file, draft))?;
                self.rename(&draft)
            }
        }
    }

    /// Refuses what a rename would refuse, before there is a draft: from a directory that can only be added to
    /// that could not be removed again.
    fn check_replaceable(&self) -> Result<()> {
        let fixed = ExtendedFlags::IMMUTABLE | ExtendedFlags::APPEND;
        let Some(present) = &self.present else { return Ok(()) };
        let is_fixed = |node: &Node| node.metadata().xflags.intersects(fixed);
        match is_fixed(present) || is_fixed(self.directory) {
            true => Err(PosixError::NotPermitted.into()),
            false => Ok(()),
        }
    }

    fn rename(&self, draft: &OsStr) -> Result<()> {
        let Self { directory, name, .. } = self;
        let renamed = directory.rename(draft, directory, name, RenameMode::Replace);
        renamed.inspect_err(|_| _ = directory.remove_file(draft))
    }
}

impl Draft<'_> {
    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    /// Has it stand under its name.
    pub(super) fn publish(mut self) -> Result<Node> {
        match std::mem::replace(&mut self.stands, Stands::Done) {
            Stands::Here | Stands::Done => {}
            Stands::Nowhere => self.spot.link(&self.node)?,
            Stands::Under(draft) => self.spot.rename(&draft)?,
        }
        Ok(self.node.clone())
    }
}

impl Drop for Draft<'_> {
    /// No file rather than half of one. There is another error to tell.
    fn drop(&mut self) {
        let name = match &self.stands {
            Stands::Here => self.spot.name,
            Stands::Under(draft) => draft,
            Stands::Nowhere | Stands::Done => return,
        };
        if self.node.file_type() == FileType::Regular {
            // Where the volume is full, what it holds is given back first: removing a name may need some of it.
            _ = self.node.open().and_then(|file| file.set_len(0));
        }
        _ = self.spot.directory.remove_file(name);
    }
}

/// Makes something under a name that nothing has. Names are tried in order: the same run gives the same volume.
fn fresh<T>(mut make: impl FnMut(&OsStr) -> Result<T>) -> Result<(T, OsString)> {
    for number in 0..MOST_DRAFTS {
        let name = match number {
            0 => OsString::from(DRAFT),
            number => format!("{DRAFT}-{number}").into(),
        };
        match make(&name) {
            Err(Error::Posix(PosixError::Exists)) => {}
            made => return made.map(|made| (made, name)),
        }
    }
    Err(PosixError::Exists.into())
}
