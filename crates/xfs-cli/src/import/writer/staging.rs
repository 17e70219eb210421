//! Files of an image that are being written, and how they get their names.
//!
//! Owns: temporary names, and replacing existing files. Does **not** own: the contents of the
//! files.
//!
//! # Invariants
//!
//! - **I1** An existing file keeps its name until the file that replaces it is complete.
//! - **I2** A temporary name is one that was free. A regular file has no temporary name until it is
//!   complete, and then only for the two transactions that link and rename it. A temporary name
//!   that a kill leaves behind is harmless.
//! - **I3** A staged file that is dropped is removed.

use std::ffi::{OsStr, OsString};

use ferroxfs::attr::ExtendedFlags;
use ferroxfs::{CreateOptions, Error, FileType, NewKind, Node, PosixError, RenameMode, Result};

/// The prefix of temporary names.
const PREFIX: &str = ".ferroxfs-put";
/// The number of temporary names to try, because some names may be taken.
const MOST_NAMES: u32 = 1000;

/// The directory and name that a file will get.
pub(super) struct NewName<'a> {
    pub(super) directory: &'a Node,
    pub(super) name: &'a OsStr,
    /// The existing file, which will lose the name to the new file.
    pub(super) present: Option<Node>,
}

/// The name of a file that is replaced, and its path for messages.
pub(crate) struct ReplacedName<'a> {
    pub(crate) directory: &'a Node,
    pub(crate) name: &'a OsStr,
    pub(crate) path: &'a [u8],
}

/// A file that is being written and is not complete yet.
pub(super) struct StagedNode<'a> {
    new_name: &'a NewName<'a>,
    node: Node,
    staged_at: StagedAt,
}

/// Where a staged file is: under its final name or a temporary name, without a name, or published.
enum StagedAt {
    /// The file has its final name already, because that name was free, and is not complete yet.
    FinalName,
    /// The file has no name.
    NoName,
    TemporaryName(OsString),
    /// The file is complete and has its final name.
    Done,
}

impl<'a> NewName<'a> {
    /// Creates a file under its final name or without a name. The caller completes the file, and
    /// then publishes it.
    pub(super) fn begin(
        &'a self,
        kind: &NewKind<'_>,
        creation: &CreateOptions,
    ) -> Result<StagedNode<'a>> {
        let Self { directory, name, present } = self;
        self.check_replaceable(kind.file_type())?;
        let (node, staged_at) = if present.is_none() {
            (directory.create(name, kind, creation)?, StagedAt::FinalName)
        } else if *kind == NewKind::Regular {
            (directory.create_unnamed(creation)?, StagedAt::NoName)
        } else {
            let (node, staged) = fresh(|staged| directory.create(staged, kind, creation))?;
            (node, StagedAt::TemporaryName(staged))
        };
        Ok(StagedNode { new_name: self, node, staged_at })
    }

    /// Gives this name to `file`, which may have other names already.
    pub(super) fn link(&self, file: &Node) -> Result<()> {
        match &self.present {
            None => self.directory.link(file, self.name),
            // Renaming it over itself would leave the temporary name.
            Some(present) if present.number() == file.number() => Ok(()),
            Some(_) => {
                self.check_replaceable(file.file_type())?;
                let ((), staged) = fresh(|staged| self.directory.link(file, staged))?;
                self.rename(&staged, file)
            }
        }
    }

    /// Fails if a later rename of a file of the type `by` to this name would fail. The check comes
    /// before a temporary name is created, because that name could not be removed from an
    /// append-only directory.
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

    /// Renames `file` from the temporary name `staged` to its final name. If that fails, the
    /// temporary name is removed.
    fn rename(&self, staged: &OsStr, file: &Node) -> Result<()> {
        let Self { directory, name, present } = self;
        let rename = |mode| directory.rename(staged, directory, name, mode);
        let is_directory = |node: &Node| node.file_type() == FileType::Directory;
        let other_kind = present.as_ref().filter(|node| is_directory(node) != is_directory(file));
        let renamed = match other_kind {
            None => rename(RenameMode::Replace),
            // A rename cannot replace another file with a directory, nor a directory with another
            // file.
            Some(present) => rename(RenameMode::Exchange).and_then(|()| {
                remove(directory, staged, present).inspect_err(|_| _ = rename(RenameMode::Exchange))
            }),
        };
        renamed.inspect_err(|_| _ = remove(directory, staged, file))
    }
}

/// Removes the name `name` of `node`, which is a file or an empty directory.
fn remove(directory: &Node, name: &OsStr, node: &Node) -> Result<()> {
    match node.file_type() {
        FileType::Directory => directory.remove_dir(name),
        _ => directory.remove_file(name),
    }
}

impl StagedNode<'_> {
    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    /// Gives the complete file its final name. Until this call, an existing file of that name keeps
    /// the name (I1).
    pub(super) fn publish(mut self) -> Result<Node> {
        match std::mem::replace(&mut self.staged_at, StagedAt::Done) {
            StagedAt::FinalName | StagedAt::Done => {}
            StagedAt::NoName => self.new_name.link(&self.node)?,
            StagedAt::TemporaryName(staged) => self.new_name.rename(&staged, &self.node)?,
        }
        Ok(self.node.clone())
    }
}

impl Drop for StagedNode<'_> {
    /// Removes a file that was not published (I3). The error that led here is reported elsewhere.
    fn drop(&mut self) {
        // I3: a file that was not published is removed.
        let name = match &self.staged_at {
            StagedAt::FinalName => self.new_name.name,
            StagedAt::TemporaryName(staged) => staged,
            StagedAt::NoName | StagedAt::Done => return,
        };
        if self.node.file_type() == FileType::Regular {
            // On a full volume its space is freed first: removing a name may need some of it.
            _ = self.node.open().and_then(|file| file.set_len(0));
        }
        _ = remove(self.new_name.directory, name, &self.node);
    }
}

/// Calls `make` with one temporary name after another until one is free (I2), and returns that
/// name. The order is fixed, so that the same run gives the same volume.
fn fresh<T>(mut make: impl FnMut(&OsStr) -> Result<T>) -> Result<(T, OsString)> {
    for number in 0..MOST_NAMES {
        let name = match number {
            0 => OsString::from(PREFIX),
            number => format!("{PREFIX}-{number}").into(),
        };
        // I2: a name that could be made was free.
        match make(&name) {
            Err(Error::Posix(PosixError::Exists)) => {}
            made => return made.map(|made| (made, name)),
        }
    }
    Err(PosixError::Exists.into())
}
