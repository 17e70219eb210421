//! Writing files into an image, from the host or from another image.
//!
//! Owns: the order in which files are created, hard links, the properties that are copied, handling
//! of existing files. Does **not** own: the source of files ([`Source`]), or single changes of a
//! volume (the library).
//!
//! # Invariants
//!
//! - **I1** A file replaces another one only when it is complete ([`staging`]). A file that cannot
//!   be completed is removed, also after a signal.
//! - **I2** A file gets its times and permissions after its contents, a directory after everything
//!   below it.
//! - **I3** The same sources give the same calls in the same order.
//! - **I4** Properties that would prevent further names are set when the file has all its names:
//!   the flags immutable and append-only, and its project.
//! - **I5** With a latest time, the volume depends only on names, metadata and contents of the
//!   sources. The access time of a host file is then its modification time, and it has holes where
//!   it has blocks of zeros.

mod contents;
mod failure;
mod options;
mod properties;
mod staging;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use ferroxfs::DeviceNumber;
use ferroxfs::{CreateOptions, Error, FileType, NewKind, Node, PosixError, SetAttributes};

use crate::exit::Exit;
use crate::export::host::Existing;
use crate::failure::Failure;
use crate::file::facts::{Facts, FileKind};
use crate::file::node;
use crate::file::source::{InodeSpace, NamedValue, Source, SourceLocation, is_safe_name, join};
use crate::interrupt;
use crate::terminal::names;
use crate::terminal::tally::Tally;
use staging::NewName;

pub(crate) use contents::write_all;
pub(crate) use failure::WriteFailure;
pub(crate) use options::WriterOptions;

/// One run of writing files into a volume.
pub(crate) struct ImageWriter<'a> {
    writer_options: WriterOptions,
    /// The inode space of the current source.
    origin: InodeSpace,
    /// Its location for messages, if it is in an image.
    location: Option<SourceLocation>,
    /// The length of the path that the source gets.
    start_length: usize,
    /// The directory that everything goes into, as a prefix of paths in messages.
    to: Vec<u8>,
    /// The first copy of each source file with several names.
    links: HashMap<(InodeSpace, u64), Node>,
    /// Changes that are made after all names exist, with files and paths.
    late: Vec<(Node, SetAttributes, Vec<u8>)>,
    /// Whether a directory may replace another file, and another file an empty directory.
    crosses_kinds: bool,
    tally: Arc<Tally>,
    report: &'a mut dyn FnMut(Failure),
}

/// A directory that is being filled.
pub(crate) struct OpenDirectory {
    pub(crate) directory: Node,
    facts: Facts,
    attributes: Vec<Result<NamedValue, Failure>>,
    /// Whether this run created the directory. An existing one keeps its attributes without
    /// `is_archive`.
    is_new: bool,
}

impl OpenDirectory {
    /// Returns an existing directory.
    pub(crate) fn present<S: Source>(directory: Node, source: &S) -> Self {
        Self { directory, facts: source.facts(), attributes: source.attributes(), is_new: false }
    }
}

/// A directory that is being filled, and its remaining entries.
struct ImageLevel<S: Source> {
    entered: OpenDirectory,
    entries: S::Entries,
    path: Vec<u8>,
}

impl<'a> ImageWriter<'a> {
    /// Creates a writer. A failure of one file goes to `report`, and the other files are written.
    pub(crate) fn new(writer_options: WriterOptions, report: &'a mut dyn FnMut(Failure)) -> Self {
        Self {
            writer_options,
            origin: InodeSpace::default(),
            location: None,
            start_length: 0,
            to: Vec::new(),
            links: HashMap::new(),
            late: Vec::new(),
            crosses_kinds: false,
            tally: Arc::default(),
            report,
        }
    }

    /// Counts the written files in `tally`.
    pub(crate) fn counted_by(mut self, tally: &Arc<Tally>) -> Self {
        self.tally = Arc::clone(tally);
        self
    }

    /// Sets the location of the following sources. Names that share an inode in one `origin` become
    /// names of one file, also across calls.
    pub(crate) fn start_source(&mut self, origin: InodeSpace, location: Option<SourceLocation>) {
        self.origin = origin;
        self.location = location;
    }

    /// Sets the directory that everything goes into. Without it, messages have the paths below it.
    pub(crate) fn name_directory(&mut self, path: &[u8]) {
        self.to = path.to_vec();
    }

    /// Lets a directory replace another file, and another file an empty directory, as in tar(1).
    /// cp(1) refuses both.
    pub(crate) fn cross_kinds(&mut self) {
        self.crosses_kinds = true;
    }

    /// Writes a file into a directory under this name, with everything below it. After the last
    /// file, the caller [seals](Self::seal) the run.
    ///
    /// # Errors
    ///
    /// Failures that would repeat for every further file: a full volume, or one that is shut down.
    pub(crate) fn put<S: Source>(
        &mut self,
        directory: &Node,
        name: &[u8],
        source: S,
    ) -> Result<(), Failure> {
        self.start_length = name.len();
        let level = self.put_one(directory, (name, name.to_vec()), source)?;
        self.fill(level)
    }

    /// Writes the contents of a directory into another directory.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub(crate) fn put_contents<S: Source>(
        &mut self,
        directory: Node,
        source: S,
    ) -> Result<(), Failure> {
        self.start_length = 0;
        let entered = self.entered((directory, false), &source);
        let level = self.check(b"", enter(entered, Vec::new(), &source))?;
        self.fill(level)
    }

    /// Sets the properties that had to wait until all names exist (I4).
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub(crate) fn seal(&mut self) -> Result<(), Failure> {
        for (node, changes, path) in std::mem::take(&mut self.late) {
            if node.metadata().nlink == 0 {
                // A later member has replaced it.
                continue;
            }
            let sealed = node.set_attributes(&changes).map_err(WriteFailure::from);
            self.check(&path, sealed)?;
        }
        Ok(())
    }

    /// Fills a directory and everything below it, in the order of the source (I3). There is no
    /// recursion: the source decides the depth.
    fn fill<S: Source>(&mut self, top: Option<ImageLevel<S>>) -> Result<(), Failure> {
        let mut levels: Vec<ImageLevel<S>> = top.into_iter().collect();
        while let Some(level) = levels.last_mut() {
            let below = match level.entries.next() {
                Some(Ok((name, source))) => {
                    let path = [&level.path, b"/".as_slice(), &name].concat();
                    let directory = level.entered.directory.clone();
                    self.put_one(&directory, (&name, path), source)?
                }
                Some(Err(failure)) => {
                    let path = level.path.clone();
                    self.check::<()>(&path, Err(WriteFailure::Source(failure)))?;
                    continue;
                }
                None => {
                    let Some(ImageLevel { entered, path, .. }) = levels.pop() else { break };
                    self.leave(entered, &path)?;
                    continue;
                }
            };
            levels.extend(below);
        }
        Ok(())
    }

    /// Writes one file. The entries of a directory remain to be written.
    fn put_one<S: Source>(
        &mut self,
        directory: &Node,
        (name, path): (&[u8], Vec<u8>),
        source: S,
    ) -> Result<Option<ImageLevel<S>>, Failure> {
        let made = self.put_member(directory, (name, &path), &source);
        let Some(entered) = self.check(&path, made)?.flatten() else { return Ok(None) };
        let level = enter(entered, path.clone(), &source);
        self.check(&path, level)
    }

    /// Writes one file. Returns a directory, which the caller [leaves](Self::leave) after its last
    /// entry.
    pub(crate) fn put_member<S: Source>(
        &mut self,
        directory: &Node,
        (name, path): (&[u8], &[u8]),
        source: &S,
    ) -> Result<Option<OpenDirectory>, WriteFailure> {
        interrupt::check().map_err(WriteFailure::All)?;
        let made = self.make(directory, (name, path), source)?;
        if made.is_some() {
            self.tally.add_directory();
        }
        Ok(made.map(|made| self.entered(made, source)))
    }

    fn entered<S: Source>(&self, (node, is_new): (Node, bool), source: &S) -> OpenDirectory {
        OpenDirectory { is_new, facts: self.facts(source), ..OpenDirectory::present(node, source) }
    }

    /// Adds a name to a file.
    pub(crate) fn put_link(
        &mut self,
        directory: &Node,
        name: &[u8],
        file: &Node,
    ) -> Result<(), WriteFailure> {
        let name = OsStr::from_bytes(name);
        match directory.link(file, name) {
            Err(Error::Posix(PosixError::Exists))
                if self.writer_options.existing == Existing::Replace =>
            {
                let present = Some(directory.lookup(name)?);
                NewName { directory, name, present }.link(file)?;
            }
            linked => linked?,
        }
        self.tally.add_file();
        Ok(())
    }

    /// Gives these contents to a file with several names: an archive may have them with its last
    /// name.
    pub(crate) fn put_linked_contents<S: Source>(
        &mut self,
        node: &Node,
        source: &S,
    ) -> Result<(), WriteFailure> {
        let file = node.open()?;
        file.set_len(0)?;
        contents::copy(&file, source, self.writer_options.holes(source), &self.tally)?;
        file.close()?;
        Ok(node.set_attributes(&self.times(&source.facts()))?)
    }

    /// Creates a symbolic link, and replaces an existing file of that name.
    pub(crate) fn put_symlink(
        directory: &Node,
        name: &OsStr,
        says: &[u8],
    ) -> Result<(), WriteFailure> {
        let present = directory.lookup(name)?;
        let creation = CreateOptions::new(0o777);
        let new_name = NewName { directory, name, present: Some(present) };
        new_name.begin(&NewKind::Symlink(says), &creation)?.publish()?;
        Ok(())
    }

    /// Replaces a file with a complete unnamed one, which gets all properties of the replaced file.
    pub(crate) fn succeed(
        &mut self,
        (directory, name, path): (&Node, &OsStr, &[u8]),
        staged: &Node,
        present: Node,
    ) -> Result<(), WriteFailure> {
        let facts = Facts { modified: node::facts(staged).modified, ..node::facts(&present) };
        let CreateOptions { uid, gid, .. } = self.creation(&facts);
        staged.set_attributes(&SetAttributes::new().uid(uid).gid(gid))?;
        self.apply((staged, path), &facts, node::attributes(&present))?;
        NewName { directory, name, present: Some(present) }.link(staged)?;
        Ok(staged.set_attributes(&self.late_changes(&facts))?)
    }

    /// Creates a directory that the source does not list, or returns the existing one.
    ///
    /// # Errors
    ///
    /// Errors of the library; ENOTDIR if another file has the name.
    pub(crate) fn make_directory(directory: &Node, name: &[u8]) -> ferroxfs::Result<Node> {
        let creation = CreateOptions::new(0o755);
        let name = OsStr::from_bytes(name);
        let made = match directory.create(name, &NewKind::Directory, &creation) {
            Err(Error::Posix(PosixError::Exists)) => directory.lookup(name),
            made => made,
        }?;
        match made.file_type() {
            FileType::Directory => Ok(made),
            _ => Err(PosixError::NotDirectory.into()),
        }
    }

    /// Reports the failure of one file; passes on a failure of all.
    pub(crate) fn check<T>(
        &mut self,
        path: &[u8],
        outcome: Result<T, WriteFailure>,
    ) -> Result<Option<T>, Failure> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(failed) => match self.locate(path, failed) {
                WriteFailure::One(failure) | WriteFailure::Source(failure) => {
                    (self.report)(failure);
                    Ok(None)
                }
                WriteFailure::All(failure) => Err(failure),
            },
        }
    }

    /// Adds the location of a failure: in the source of this path, or at the destination.
    fn locate(&self, path: &[u8], failed: WriteFailure) -> WriteFailure {
        match (failed, &self.location) {
            (WriteFailure::Source(failure), Some(location)) => {
                let below = path.get(self.start_length..).unwrap_or_default();
                WriteFailure::Source(location.failure(below, failure))
            }
            (failed, _) => failed.about(&names::in_message(&self.shown(path))),
        }
    }

    /// Returns the path of a file for messages.
    fn shown(&self, path: &[u8]) -> Vec<u8> {
        match (self.to.is_empty(), path.is_empty()) {
            (true, true) => b"/".to_vec(),
            (true, false) => path.to_vec(),
            (false, _) => join(&self.to, path),
        }
    }

    /// Creates a file. Returns a directory, to be filled, and whether it is new.
    fn make<S: Source>(
        &mut self,
        directory: &Node,
        (name, path): (&[u8], &[u8]),
        source: &S,
    ) -> Result<Option<(Node, bool)>, WriteFailure> {
        if !is_safe_name(name) {
            let shown = names::in_message(name);
            let failure = Failure::new(Exit::Failed, format!("{shown} is not a name for a file"));
            return Err(WriteFailure::One(failure));
        }
        let facts = self.facts(source);
        let name = OsStr::from_bytes(name);
        let present = match directory.lookup(name) {
            Ok(node) => Some(node),
            Err(Error::Posix(PosixError::NotFound)) => None,
            Err(error) => return Err(error.into()),
        };
        if facts.kind() == FileKind::Directory {
            return match present {
                Some(node) if node.file_type() == FileType::Directory => Ok(Some((node, false))),
                Some(_) if !self.crosses_kinds => Err(PosixError::NotDirectory.into()),
                present => {
                    let new_name = NewName { directory, name, present };
                    let staged = new_name.begin(&NewKind::Directory, &self.creation(&facts))?;
                    Ok(Some((staged.publish()?, true)))
                }
            };
        }
        match present {
            Some(node) if node.file_type() == FileType::Directory && !self.crosses_kinds => {
                Err(PosixError::IsDirectory.into())
            }
            Some(_) if self.writer_options.existing == Existing::Keep => {
                let failure = Failure::new(Exit::Failed, PosixError::Exists.to_string());
                let failure = failure.about(&names::in_message(&self.shown(path)));
                (self.report)(failure);
                Ok(None)
            }
            present => {
                let new_name = NewName { directory, name, present };
                self.make_file(&new_name, path, source)?;
                self.tally.add_file();
                Ok(None)
            }
        }
    }

    /// Creates any file except a directory.
    fn make_file<S: Source>(
        &mut self,
        new_name: &NewName<'_>,
        path: &[u8],
        source: &S,
    ) -> Result<(), WriteFailure> {
        let facts = self.facts(source);
        let has_links = self.writer_options.is_archive && facts.links > 1;
        let source_file = (self.origin, facts.inode);
        // A copy that was replaced since cannot be linked.
        let made = self.links.get(&source_file).filter(|node| node.metadata().nlink > 0);
        if has_links && let Some(node) = made {
            return Ok(new_name.link(node)?);
        }
        let target;
        let device = DeviceNumber { major: facts.device.0, minor: facts.device.1 };
        let kind = match facts.kind() {
            FileKind::Regular => NewKind::Regular,
            FileKind::Symlink => {
                target = source.target().map_err(WriteFailure::Source)?;
                NewKind::Symlink(&target)
            }
            FileKind::Fifo => NewKind::Fifo,
            FileKind::Socket => NewKind::Socket,
            FileKind::CharDevice => NewKind::CharacterDevice(device),
            FileKind::BlockDevice => NewKind::BlockDevice(device),
            FileKind::Directory | FileKind::Unknown => {
                let message = format!("is a {}, which is not copied", facts.kind().name());
                return Err(WriteFailure::One(Failure::new(Exit::Failed, message)));
            }
        };
        let staged = new_name.begin(&kind, &self.creation(&facts))?;
        if kind == NewKind::Regular {
            // Hints cannot be set once there are extents.
            self.hint(staged.node(), &facts)?;
            let file = staged.node().open()?;
            let copied =
                contents::copy(&file, source, self.writer_options.holes(source), &self.tally);
            let copied = copied.and_then(|()| Ok(file.close()?));
            copied.map_err(|failed| failed.needing(source.length()))?;
        }
        self.apply((staged.node(), path), &facts, source.attributes())?;
        let node = staged.publish()?;
        let late = self.late_changes(&facts);
        // In an archive, any file may get further names.
        match (late == SetAttributes::default(), has_links || self.crosses_kinds) {
            (true, _) => {}
            (false, true) => self.late.push((node.clone(), late, path.to_vec())),
            (false, false) => node.set_attributes(&late)?,
        }
        if has_links {
            self.links.insert(source_file, node);
        }
        Ok(())
    }

    /// Sets the properties of a directory after its last entry (I2).
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub(crate) fn leave(&mut self, entered: OpenDirectory, path: &[u8]) -> Result<(), Failure> {
        let left = self.complete(entered, path);
        self.check(path, left).map(drop)
    }

    fn complete(&mut self, entered: OpenDirectory, path: &[u8]) -> Result<(), WriteFailure> {
        if !entered.is_new && !self.writer_options.is_archive {
            return Ok(());
        }
        if !entered.is_new {
            let owned = self.creation(&entered.facts);
            let changes = SetAttributes::new().uid(owned.uid).gid(owned.gid);
            entered.directory.set_attributes(&changes)?;
        }
        // Its entries have their own hints already, and inherit none.
        self.hint(&entered.directory, &entered.facts)?;
        self.apply((&entered.directory, path), &entered.facts, entered.attributes)?;
        Ok(entered.directory.set_attributes(&self.late_changes(&entered.facts))?)
    }
}

fn enter<S: Source>(
    entered: OpenDirectory,
    path: Vec<u8>,
    source: &S,
) -> Result<ImageLevel<S>, WriteFailure> {
    let entries = source.entries().map_err(WriteFailure::Source)?;
    Ok(ImageLevel { entered, entries, path })
}
