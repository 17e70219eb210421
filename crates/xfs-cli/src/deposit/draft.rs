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
use ferroxfs::{CreateOptions, Error, FileType, NewKind, Node, PosixError, RenameMode, Result};

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
    pub(super) fn begin(
        &'a self,
        kind: &NewKind<'_>,
        creation: &CreateOptions,
    ) -> Result<Draft<'a>> {
        let Self { directory, name, present } = self;
        self.check_replaceable(kind.file_type())?;
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
                self.check_replaceable(file.file_type())?;
                let ((), draft) = fresh(|draft| self.directory.link(file, draft))?;
                self.rename(&draft, file)
            }
        }
    }

    /// Refuses what a rename would refuse, before there is a draft: from a directory that can only be added to
    /// that could not be removed again.
    fn check_replaceable(&self, by: FileType) -> Result<()> {
        let fixed = ExtendedFlags::IMMUTABLE | ExtendedFlags::APPEND;
        let Some(present) = &self.present else { return Ok(()) };
        let is_fixed = |node: &Node| node.metadata().xflags.intersects(fixed);
        if is_fixed(present) || is_fixed(self.directory) {
            return Err(PosixError::NotPermitted.into());
        }
        let is_replaced = present.file_type() == FileType::Directory && by != FileType::Directory;
        match is_replaced && present.entries()?.next().is_some() {
            true => Err(PosixError::NotEmpty.into()),
            false => Ok(()),
        }
    }

    /// Gives the name to `file`, which stands under that of a draft.
    fn rename(&self, draft: &OsStr, file: &Node) -> Result<()> {
        let Self { directory, name, present } = self;
        let rename = |mode| directory.rename(draft, directory, name, mode);
        let is_directory = |node: &Node| node.file_type() == FileType::Directory;
        let other_kind = present.as_ref().filter(|node| is_directory(node) != is_directory(file));
        let renamed = match other_kind {
            None => rename(RenameMode::Replace),
            // No rename puts a directory in the place of another file, nor the other way round.
            Some(present) => rename(RenameMode::Exchange).and_then(|()| {
                remove(directory, draft, present).inspect_err(|_| _ = rename(RenameMode::Exchange))
            }),
        };
        renamed.inspect_err(|_| _ = remove(directory, draft, file))
    }
}

/// Removes the name of a file, or of an empty directory.
fn remove(directory: &Node, name: &OsStr, node: &Node) -> Result<()> {
    match node.file_type() {
        FileType::Directory => directory.remove_dir(name),
        _ => directory.remove_file(name),
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
            Stands::Under(draft) => self.spot.rename(&draft, &self.node)?,
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
        _ = remove(self.spot.directory, name, &self.node);
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
