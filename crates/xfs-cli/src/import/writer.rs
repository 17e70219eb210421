//! Writing files into an image, from the host or from another image.
//!
//! Owns: the order in which files are created, hard links, the properties that are copied, and the
//! handling of existing files. Does **not** own: the source of files ([`Source`]), or single
//! changes of a volume (the library).
//!
//! # Invariants
//!
//! - **I1** A file replaces another one only when it is complete ([`staging`]). A file that cannot
//!   be completed is removed, also after a signal.
//! - **I2** A file gets its times and permissions after its contents, a directory after everything
//!   below it.
//! - **I3** The same sources lead to the same calls of the library, in the same order.
//! - **I4** Properties that would prevent further names are set after the file has all its names:
//!   the flags immutable and append-only, and the project.
//! - **I5** With a latest time (an option of the writer), the volume depends only on names,
//!   metadata and contents of the sources. A copy of a host file then has its modification time
//!   also as its access time, and holes in place of blocks of zeros.

mod contents;
mod failure;
mod layers;
mod open_directory;
mod options;
mod properties;
mod staging;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::Arc;

use ferroxfs::DeviceNumber;
use ferroxfs::attr::SetMode;
use ferroxfs::{CreateOptions, Error, FileType, NewKind, Node, PosixError, SetAttributes};

use crate::exit::Exit;
use crate::export::host::Existing;
use crate::failure::Failure;
use crate::file::facts::{Facts, FileKind};
use crate::file::node;
use crate::file::source::{InodeSpace, NamedValue, Source, SourceLocation, is_safe_name, join};
use crate::import::chunks::Holes;
use crate::import::policy::Policy;
use crate::interrupt;
use crate::terminal::names;
use crate::terminal::tally::Tally;
use layers::LayerNames;
use staging::NewName;
pub(crate) use staging::ReplacedName;

pub(crate) use contents::write_all;
pub(crate) use failure::WriteFailure;
use open_directory::ImageLevel;
pub(crate) use open_directory::OpenDirectory;
pub(crate) use options::WriterOptions;

/// The mode of a directory that a source does not list, but puts files into.
const MISSING_DIRECTORY_MODE: u32 = 0o040_755;

/// A writer of files into a volume, for one run of a command. The *target directory* is the
/// directory of the image that all files of the run go into.
pub(crate) struct ImageWriter<'a> {
    writer_options: WriterOptions,
    /// The inode space of the current source. An inode number identifies a file only within its
    /// space.
    origin: InodeSpace,
    /// The location of the current source, for messages; `None` if the source is not in an image.
    location: Option<SourceLocation>,
    /// The length in bytes of the path of the current source's copy. The path of a file below the
    /// source starts with these bytes. The rest of it is the path of the file inside the source.
    start_length: usize,
    /// The path of the target directory with which paths in messages begin.
    to: Vec<u8>,
    /// The path of the target directory in the image. SELinux labels depend on it.
    base: Vec<u8>,
    /// The first copy of each source file with several names, by inode.
    links: HashMap<(InodeSpace, u64), Node>,
    /// Changes that are made after all names exist: the file, the change, and the path of the file.
    late: Vec<(Node, SetAttributes, Vec<u8>)>,
    /// Whether a directory may replace a file, and a file may replace an empty directory.
    crosses_kinds: bool,
    /// The names that the current layer has written; `None` if the sources are not layers.
    layer: Option<LayerNames>,
    /// The changes of the user to the files of the sources.
    policy: Rc<Policy>,
    tally: Arc<Tally>,
    /// The memory of the last chunk of contents. One is enough for all files of a run: to allocate
    /// it for each file would take longer than to copy a small file.
    chunk: Vec<u8>,
    report: &'a mut dyn FnMut(Failure),
    /// Called when a layer begins, after the earlier ones are complete.
    at_layer: Option<&'a mut dyn FnMut() -> Result<(), Failure>>,
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
            base: b"/".to_vec(),
            links: HashMap::new(),
            late: Vec::new(),
            crosses_kinds: false,
            layer: None,
            policy: Rc::default(),
            tally: Arc::default(),
            chunk: Vec::new(),
            report,
            at_layer: None,
        }
    }

    /// Calls `at_layer` when a layer begins.
    pub(crate) fn watched_by(
        mut self,
        at_layer: &'a mut dyn FnMut() -> Result<(), Failure>,
    ) -> Self {
        self.at_layer = Some(at_layer);
        self
    }

    /// Lets `tally` count the files that are written.
    pub(crate) fn counted_by(mut self, tally: &Arc<Tally>) -> Self {
        self.tally = Arc::clone(tally);
        self
    }

    /// Lets `policy` change the files of the sources, and leave some of them out.
    pub(crate) fn governed_by(mut self, policy: &Rc<Policy>) -> Self {
        self.policy = Rc::clone(policy);
        self
    }

    /// Returns the holes of files that lie on the host.
    pub(crate) fn holes_of_host(&self) -> Holes {
        self.writer_options.holes(true)
    }

    /// Returns whether the file at `path`, below the target directory, is copied.
    pub(crate) fn takes(&self, path: &[u8], is_directory: bool) -> bool {
        self.policy.filter.takes(path, is_directory)
    }

    /// Sets the inode space (`origin`) and the location of the sources that follow. Names with the
    /// same inode number in one inode space become names of one file.
    pub(crate) fn start_source(&mut self, origin: InodeSpace, location: Option<SourceLocation>) {
        self.origin = origin;
        self.location = location;
    }

    /// Sets the path of the target directory for messages. Without it, messages show only the paths
    /// below that directory.
    pub(crate) fn name_directory(&mut self, path: &[u8]) {
        self.to = path.to_vec();
    }

    /// Sets the path of the target directory in the image, on which SELinux labels depend.
    pub(crate) fn start_at(&mut self, path: &[u8]) {
        self.base = join(b"/", path);
    }

    /// Returns the path of the target directory in the image.
    pub(crate) fn base(&self) -> &[u8] {
        &self.base
    }

    /// Lets a directory replace a file, and a file replace an empty directory, as in tar(1). cp(1)
    /// refuses both.
    pub(crate) fn cross_kinds(&mut self) {
        self.crosses_kinds = true;
    }

    /// Writes a file or directory under `name` into a directory, with everything below it. After
    /// the last file, the caller calls [`seal`](Self::seal).
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
        let level = self.put_one(directory, name, name.to_vec(), source)?;
        self.fill(level)
    }

    /// Writes everything in the directory `source` into the directory `directory`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`put`](Self::put).
    pub(crate) fn put_contents<S: Source>(
        &mut self,
        directory: Node,
        source: S,
    ) -> Result<(), Failure> {
        self.start_length = 0;
        let entered = self.present_directory(directory, b"", &source);
        let level = self.check(b"", ImageLevel::enter(entered, Vec::new(), &source))?;
        if level.is_some() {
            source.set_copied();
        }
        // The source is not needed while its entries are written.
        drop(source);
        self.fill(level)
    }

    /// Sets the properties that had to wait until all names existed (I4).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`put`](Self::put).
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

    /// Reports each tree of `--project` of which no file was written, and each pattern that no file
    /// matches.
    pub(crate) fn report_unused(&mut self) {
        let policy = Rc::clone(&self.policy);
        policy.unused().for_each(|failure| (self.report)(failure));
    }

    /// Fills a directory and everything below it, in the order of the source (I3). There is no
    /// recursion, because the source decides the depth.
    fn fill<S: Source>(&mut self, top: Option<ImageLevel<S>>) -> Result<(), Failure> {
        let mut levels: Vec<ImageLevel<S>> = top.into_iter().collect();
        while let Some(level) = levels.last_mut() {
            let below = match level.entries.next() {
                Some(Ok((name, source))) => {
                    let path = [&level.path, b"/".as_slice(), &name].concat();
                    if !self.takes(&path, source.facts().kind() == FileKind::Directory) {
                        continue;
                    }
                    let directory = level.entered.directory.clone();
                    self.put_one(&directory, &name, path, source)?
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

    /// Writes one file or directory, and reports a failure for `path`. If it is a directory,
    /// returns it: its entries are still to be written. Otherwise returns `None`.
    fn put_one<S: Source>(
        &mut self,
        directory: &Node,
        name: &[u8],
        path: Vec<u8>,
        source: S,
    ) -> Result<Option<ImageLevel<S>>, Failure> {
        let made = self.put_member(directory, name, &path, &source);
        let Some(entered) = self.check(&path, made)?.flatten() else { return Ok(None) };
        let level = ImageLevel::enter(entered, path.clone(), &source);
        let level = self.check(&path, level)?;
        if level.is_some() {
            source.set_copied();
        }
        Ok(level)
    }

    /// Writes one file or directory. If it is a directory, returns it, and the caller
    /// [leaves](Self::leave) it after its last entry. Otherwise returns `None`.
    pub(crate) fn put_member<S: Source>(
        &mut self,
        directory: &Node,
        name: &[u8],
        path: &[u8],
        source: &S,
    ) -> Result<Option<OpenDirectory>, WriteFailure> {
        interrupt::check().map_err(WriteFailure::All)?;
        let made = self.make(directory, name, path, source)?;
        self.note_name(directory, name);
        if made.is_some() {
            self.tally.add_directory();
        }
        Ok(made.map(|(node, is_new)| OpenDirectory {
            is_new,
            ..self.present_directory(node, path, source)
        }))
    }

    /// Begins to fill a directory that existed before this run, from the directory `source`. `path`
    /// is its path below the target directory.
    pub(crate) fn present_directory<S: Source>(
        &self,
        directory: Node,
        path: &[u8],
        source: &S,
    ) -> OpenDirectory {
        let attributes = self.attributes(source, path);
        let facts = self.facts(source, path);
        OpenDirectory { directory, facts, attributes, is_new: false, keeps_all_but_times: false }
    }

    /// Gives an existing file one more name: `name` in `directory`.
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
                self.clear_replaced(present.as_ref())?;
                NewName { directory, name, present }.link(file)?;
            }
            linked => linked?,
        }
        self.note_name(directory, name.as_bytes());
        self.tally.add_file();
        Ok(())
    }

    /// Replaces the contents of a file that was created under an earlier name. An archive may have
    /// the contents of a file with several names only at the last name.
    pub(crate) fn put_linked_contents<S: Source>(
        &mut self,
        node: &Node,
        path: &[u8],
        source: &S,
    ) -> Result<(), WriteFailure> {
        let file = node.open()?;
        file.set_len(0)?;
        let holes = self.writer_options.holes(source.lies_on_host());
        contents::copy(&file, source, &mut self.chunk, holes, &self.tally)?;
        file.close()?;
        Ok(node.set_attributes(&self.times(&self.facts(source, path)))?)
    }

    /// Creates the symbolic link `name` with the target `says`, in place of an existing file of
    /// that name.
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

    /// Replaces the file `present` by the complete unnamed file `staged`. The new file gets all
    /// properties of the old one.
    pub(crate) fn succeed(
        &mut self,
        ReplacedName { directory, name, path }: ReplacedName<'_>,
        staged: &Node,
        present: Node,
    ) -> Result<(), WriteFailure> {
        let facts = Facts { modified: node::facts(staged).modified, ..node::facts(&present) };
        let CreateOptions { uid, gid, .. } = self.creation(&facts);
        staged.set_attributes(&SetAttributes::new().uid(uid).gid(gid))?;
        self.apply(staged, path, &facts, node::attributes(&present))?;
        NewName { directory, name, present: Some(present) }.link(staged)?;
        Ok(staged.set_attributes(&self.late_changes(&facts))?)
    }

    /// Creates a directory that the source does not list, or returns the existing one. `path` is
    /// its path below the target directory.
    ///
    /// # Errors
    ///
    /// Errors of the library; ENOTDIR if another file has the name.
    pub(crate) fn make_directory(
        &mut self,
        directory: &Node,
        name: &[u8],
        path: &[u8],
    ) -> Result<Node, WriteFailure> {
        let facts = Facts { mode: MISSING_DIRECTORY_MODE, ..Facts::default() };
        let facts = self.governed(path, facts);
        let name = OsStr::from_bytes(name);
        let made = match directory.create(name, &NewKind::Directory, &self.creation(&facts)) {
            Err(Error::Posix(PosixError::Exists)) => directory.lookup(name)?,
            made => {
                let made = made?;
                for NamedValue { name, value } in self.labels(path, facts.kind()) {
                    made.set_attribute(OsStr::from_bytes(&name), &value, SetMode::Either)?;
                }
                if facts.project != 0 {
                    self.place(&made, path, facts.project, facts.xflags)?;
                }
                made
            }
        };
        match made.file_type() {
            FileType::Directory => Ok(made),
            _ => Err(PosixError::NotDirectory.into()),
        }
    }

    /// Reports a failure that concerns only one file, and returns `None` for it. Returns a failure
    /// that concerns all further files as an error.
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

    /// Adds the location to the failure of the file at `path`: the path in the source if the source
    /// could not be read, otherwise the path at the destination.
    fn locate(&self, path: &[u8], failed: WriteFailure) -> WriteFailure {
        match (failed, &self.location) {
            (WriteFailure::Source(failure), Some(location)) => {
                let below = path.get(self.start_length..).unwrap_or_default();
                WriteFailure::Source(location.failure(below, failure))
            }
            (failed, _) => failed.about(&names::in_message(&self.shown(path))),
        }
    }

    /// Returns the path of a file at the destination, for messages. `path` is the path of the file
    /// below the target directory.
    fn shown(&self, path: &[u8]) -> Vec<u8> {
        match (self.to.is_empty(), path.is_empty()) {
            (true, true) => b"/".to_vec(),
            (true, false) => path.to_vec(),
            (false, _) => join(&self.to, path),
        }
    }

    /// Creates one file or directory. If it is a directory, returns it, and whether it is new;
    /// otherwise returns `None`.
    fn make<S: Source>(
        &mut self,
        directory: &Node,
        name: &[u8],
        path: &[u8],
        source: &S,
    ) -> Result<Option<(Node, bool)>, WriteFailure> {
        if !is_safe_name(name) {
            let shown = names::in_message(name);
            let failure = Failure::new(Exit::Failed, format!("{shown} is not a name for a file"));
            return Err(WriteFailure::One(failure));
        }
        let facts = self.facts(source, path);
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
                self.clear_replaced(present.as_ref())?;
                let new_name = NewName { directory, name, present };
                self.make_file(&new_name, path, source)?;
                self.tally.add_file();
                Ok(None)
            }
        }
    }

    /// Creates a file that is not a directory, with its contents and properties.
    fn make_file<S: Source>(
        &mut self,
        new_name: &NewName<'_>,
        path: &[u8],
        source: &S,
    ) -> Result<(), WriteFailure> {
        let facts = self.facts(source, path);
        let has_links = self.writer_options.is_archive && facts.links > 1;
        let source_file = (self.origin, facts.inode);
        // A copy that was replaced since cannot be linked.
        let made = self.links.get(&source_file).filter(|node| node.metadata().nlink > 0);
        if has_links && let Some(node) = made {
            new_name.link(node)?;
            source.set_copied();
            return Ok(());
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
            let holes = self.writer_options.holes(source.lies_on_host());
            let copied = contents::copy(&file, source, &mut self.chunk, holes, &self.tally);
            let copied = copied.and_then(|()| Ok(file.close()?));
            copied.map_err(|failed| failed.needing(source.length()))?;
        }
        self.apply(staged.node(), path, &facts, self.attributes(source, path))?;
        let node = staged.publish()?;
        source.set_copied();
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

    /// Sets the properties of a directory after its last entry has been written (I2).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`put`](Self::put).
    pub(crate) fn leave(&mut self, entered: OpenDirectory, path: &[u8]) -> Result<(), Failure> {
        let left = self.complete(entered, path);
        self.check(path, left).map(drop)
    }

    fn complete(&mut self, entered: OpenDirectory, path: &[u8]) -> Result<(), WriteFailure> {
        if entered.keeps_all_but_times {
            return Ok(entered.directory.set_attributes(&self.times(&entered.facts))?);
        }
        if !entered.is_new && !self.writer_options.is_archive {
            return Ok(());
        }
        if !entered.is_new {
            self.drop_lower_attributes(&entered)?;
            let owned = self.creation(&entered.facts);
            let changes = SetAttributes::new().uid(owned.uid).gid(owned.gid);
            entered.directory.set_attributes(&changes)?;
        }
        // Its entries have their own hints already, and inherit none.
        self.hint(&entered.directory, &entered.facts)?;
        self.apply(&entered.directory, path, &entered.facts, entered.attributes)?;
        let late = self.late_changes(&entered.facts);
        if self.is_layered() && late != SetAttributes::default() {
            // A later layer may still change the entries.
            self.late.push((entered.directory, late, path.to_vec()));
            return Ok(());
        }
        Ok(entered.directory.set_attributes(&late)?)
    }
}
