//! Putting files into an image: from the host, or from another image.
//!
//! Owns: the order in which files are made, hard links, what is carried over, what happens to files
//! that are there already. Does **not** own where files come from ([`Source`]), or what one change of
//! a volume is (the library).
//!
//! # Invariants
//!
//! - **I1** A file that takes the place of another one does so when it is complete ([`draft`]); one that cannot
//!   be completed is gone, as is one at which a signal has come.
//! - **I2** A file gets its times and permissions after its contents, a directory after all below.
//! - **I3** The same sources give the same calls in the same order.
//! - **I4** What keeps a file from getting its names comes when it has them all: that it is immutable or
//!   append-only, and its project.
//! - **I5** Where no time is later than a given one, the volume follows from names, metadata and contents of the sources
//!   alone: a file of the host was last read when it was last changed, and has holes where it has blocks of zeros.

mod contents;
mod draft;
mod properties;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use ferroxfs::format::inode::DeviceNumber;
use ferroxfs::{
    CreateOptions, Error, FileType, NewKind, Node, PosixError, SetAttributes, Timestamp,
};

use crate::exit::Exit;
use crate::extract::Existing;
use crate::facts::{Facts, FileKind};
use crate::failure::Failure;
use crate::interrupt;
use crate::names;
use crate::node;
use crate::source::{NamedValue, Origin, Source, Whence, is_safe_name, join};
use crate::tally::Tally;
use contents::Holes;
use draft::Spot;

pub(crate) use contents::write_all;

/// What is carried over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Owners, times, attributes, hard links and devices too.
    pub(crate) is_archive: bool,
    /// Everything belongs to user and group 0.
    pub(crate) is_all_root: bool,
    /// What to do with a file that is there already.
    pub(crate) existing: Existing,
    /// No time is later than this.
    pub(crate) latest: Option<Timestamp>,
}

impl Manner {
    /// Carries everything over, and replaces what is there.
    pub(crate) const fn faithful(is_all_root: bool, latest: Option<Timestamp>) -> Self {
        Self { is_archive: true, is_all_root, existing: Existing::Replace, latest }
    }

    /// Whether only what a source holds may show, and neither which filesystem of the host holds it nor that it was read
    /// (I5).
    fn is_by_contents<S: Source>(&self, source: &S) -> bool {
        self.latest.is_some() && source.lies_on_host()
    }

    fn holes<S: Source>(&self, source: &S) -> Holes {
        if self.is_by_contents(source) { Holes::OfZeros } else { Holes::OfSource }
    }
}

/// One run of putting files into a volume.
pub(crate) struct Deposit<'a> {
    manner: Manner,
    /// Where the sources are that are put in now.
    origin: Origin,
    /// The same for messages, where that is an image.
    whence: Option<Whence>,
    /// How long the name is that it gets.
    start_length: usize,
    /// The directory that everything goes into, in front of the paths in messages.
    to: Vec<u8>,
    /// The file that stands for each source with several names.
    links: HashMap<(Origin, u64), Node>,
    /// What is left to be set of files that may get further names, and their paths.
    late: Vec<(Node, SetAttributes, Vec<u8>)>,
    /// Whether a directory takes the place of another file, and another file that of an empty directory.
    crosses_kinds: bool,
    tally: Arc<Tally>,
    report: &'a mut dyn FnMut(Failure),
}

/// A directory that is being filled.
pub(crate) struct Entered {
    pub(crate) directory: Node,
    facts: Facts,
    attributes: Vec<Result<NamedValue, Failure>>,
    /// Whether it was there before: then without `is_archive` its own attributes stay.
    is_new: bool,
}

impl Entered {
    /// A directory that was there before.
    pub(crate) fn present<S: Source>(directory: Node, source: &S) -> Self {
        Self { directory, facts: source.facts(), attributes: source.attributes(), is_new: false }
    }
}

/// A directory that is being filled, and what there is to be put into it.
struct Level<S: Source> {
    entered: Entered,
    entries: S::Entries,
    path: Vec<u8>,
}

impl<'a> Deposit<'a> {
    /// What fails for one file goes to `report`, and the others go on.
    pub(crate) fn new(manner: Manner, report: &'a mut dyn FnMut(Failure)) -> Self {
        Self {
            manner,
            origin: Origin::default(),
            whence: None,
            start_length: 0,
            to: Vec::new(),
            links: HashMap::new(),
            late: Vec::new(),
            crosses_kinds: false,
            tally: Arc::default(),
            report,
        }
    }

    /// Counts what is put in there.
    pub(crate) fn counted_by(mut self, tally: &Arc<Tally>) -> Self {
        self.tally = Arc::clone(tally);
        self
    }

    /// Says where the sources are that come now. Names of one file there are names of one file here, whichever of the
    /// calls puts them in.
    pub(crate) fn turn_to(&mut self, origin: Origin, whence: Option<Whence>) {
        self.origin = origin;
        self.whence = whence;
    }

    /// Says which directory everything goes into. Without that, messages have the paths below it.
    pub(crate) fn name_directory(&mut self, path: &[u8]) {
        self.to = path.to_vec();
    }

    /// From now on a directory takes the place of another file, and another file that of an empty directory, as
    /// tar(1) has it; cp(1) refuses both.
    pub(crate) fn cross_kinds(&mut self) {
        self.crosses_kinds = true;
    }

    /// Puts a file, with everything below it, into a directory under this name. Who has put in everything
    /// [seals](Self::seal) it.
    ///
    /// # Errors
    ///
    /// What makes it pointless to go on: a full volume, or one that is shut down.
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

    /// Puts what is in a directory into another one.
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

    /// Sets what had to wait until no file gets a further name (I4).
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub(crate) fn seal(&mut self) -> Result<(), Failure> {
        for (node, changes, path) in std::mem::take(&mut self.late) {
            if node.metadata().nlink == 0 {
                // A later member has taken its place.
                continue;
            }
            let sealed = node.set_attributes(&changes).map_err(Failed::from);
            self.check(&path, sealed)?;
        }
        Ok(())
    }

    /// Fills a directory and all below, without recursion: the source decides how deep it goes.
    fn fill<S: Source>(&mut self, top: Option<Level<S>>) -> Result<(), Failure> {
        let mut levels: Vec<Level<S>> = top.into_iter().collect();
        while let Some(level) = levels.last_mut() {
            let below = match level.entries.next() {
                Some(Ok((name, source))) => {
                    let path = [&level.path, b"/".as_slice(), &name].concat();
                    let directory = level.entered.directory.clone();
                    self.put_one(&directory, (&name, path), source)?
                }
                Some(Err(failure)) => {
                    let path = level.path.clone();
                    self.check::<()>(&path, Err(Failed::Source(failure)))?;
                    continue;
                }
                None => {
                    let Some(Level { entered, path, .. }) = levels.pop() else { break };
                    self.leave(entered, &path)?;
                    continue;
                }
            };
            levels.extend(below);
        }
        Ok(())
    }

    /// Makes one file. Of a directory what is in it is left to do.
    fn put_one<S: Source>(
        &mut self,
        directory: &Node,
        (name, path): (&[u8], Vec<u8>),
        source: S,
    ) -> Result<Option<Level<S>>, Failure> {
        let made = self.put_member(directory, (name, &path), &source);
        let Some(entered) = self.check(&path, made)?.flatten() else { return Ok(None) };
        let level = enter(entered, path.clone(), &source);
        self.check(&path, level)
    }

    /// Makes one file. A directory is returned, to be [left](Self::leave) when all is in it.
    pub(crate) fn put_member<S: Source>(
        &mut self,
        directory: &Node,
        (name, path): (&[u8], &[u8]),
        source: &S,
    ) -> Result<Option<Entered>, Failed> {
        interrupt::check().map_err(Failed::All)?;
        let made = self.make(directory, (name, path), source)?;
        if made.is_some() {
            self.tally.add_directory();
        }
        Ok(made.map(|made| self.entered(made, source)))
    }

    fn entered<S: Source>(&self, (node, is_new): (Node, bool), source: &S) -> Entered {
        Entered { is_new, facts: self.facts(source), ..Entered::present(node, source) }
    }

    /// Gives a file one more name.
    pub(crate) fn put_link(
        &mut self,
        directory: &Node,
        name: &[u8],
        file: &Node,
    ) -> Result<(), Failed> {
        let name = OsStr::from_bytes(name);
        match directory.link(file, name) {
            Err(Error::Posix(PosixError::Exists)) if self.manner.existing == Existing::Replace => {
                let present = Some(directory.lookup(name)?);
                Spot { directory, name, present }.link(file)?;
            }
            linked => linked?,
        }
        self.tally.add_file();
        Ok(())
    }

    /// Gives all names of a file these contents: an archive may have them with its last one.
    pub(crate) fn put_linked_contents<S: Source>(
        &mut self,
        node: &Node,
        source: &S,
    ) -> Result<(), Failed> {
        let file = node.open()?;
        file.set_len(0)?;
        contents::copy(&file, source, self.manner.holes(source), &self.tally)?;
        file.close()?;
        Ok(node.set_attributes(&self.times(&source.facts()))?)
    }

    /// Makes a symbolic link, in the place of what has the name.
    pub(crate) fn put_symlink(directory: &Node, name: &OsStr, says: &[u8]) -> Result<(), Failed> {
        let present = directory.lookup(name)?;
        let creation = CreateOptions { mode: 0o777, uid: 0, gid: 0, umask: 0 };
        let spot = Spot { directory, name, present: Some(present) };
        spot.begin(&NewKind::Symlink(says), &creation)?.publish()?;
        Ok(())
    }

    /// Puts a complete file without a name in the place of another one, and gives it all that that one has besides its
    /// contents.
    pub(crate) fn succeed(
        &mut self,
        (directory, name, path): (&Node, &OsStr, &[u8]),
        draft: &Node,
        present: Node,
    ) -> Result<(), Failed> {
        let facts = Facts { modified: node::facts(draft).modified, ..node::facts(&present) };
        let CreateOptions { uid, gid, .. } = self.creation(&facts);
        draft.set_attributes(&SetAttributes {
            uid: Some(uid),
            gid: Some(gid),
            ..SetAttributes::default()
        })?;
        self.apply((draft, path), &facts, node::attributes(&present))?;
        Spot { directory, name, present: Some(present) }.link(draft)?;
        Ok(draft.set_attributes(&self.late_changes(&facts))?)
    }

    /// Makes a directory that was not said to be there, or returns the one that is.
    ///
    /// # Errors
    ///
    /// What the library meets; ENOTDIR for anything else of the name.
    pub(crate) fn make_directory(directory: &Node, name: &[u8]) -> ferroxfs::Result<Node> {
        let creation = CreateOptions { mode: 0o755, uid: 0, gid: 0, umask: 0 };
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

    /// Reports what failed for one file; passes on what would fail for all.
    pub(crate) fn check<T>(
        &mut self,
        path: &[u8],
        outcome: Result<T, Failed>,
    ) -> Result<Option<T>, Failure> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(failed) => match self.locate(path, failed) {
                Failed::One(failure) | Failed::Source(failure) => {
                    (self.report)(failure);
                    Ok(None)
                }
                Failed::All(failure) => Err(failure),
            },
        }
    }

    /// Says of a failure where it is: in the source of what gets this path, or there.
    fn locate(&self, path: &[u8], failed: Failed) -> Failed {
        match (failed, &self.whence) {
            (Failed::Source(failure), Some(whence)) => {
                let below = path.get(self.start_length..).unwrap_or_default();
                Failed::Source(whence.failure(below, failure))
            }
            (failed, _) => failed.about(&names::in_message(&self.shown(path))),
        }
    }

    /// The path of a file as messages have it.
    fn shown(&self, path: &[u8]) -> Vec<u8> {
        match (self.to.is_empty(), path.is_empty()) {
            (true, true) => b"/".to_vec(),
            (true, false) => path.to_vec(),
            (false, _) => join(&self.to, path),
        }
    }

    /// Makes a file; a directory is returned to be filled, and whether it is new.
    fn make<S: Source>(
        &mut self,
        directory: &Node,
        (name, path): (&[u8], &[u8]),
        source: &S,
    ) -> Result<Option<(Node, bool)>, Failed> {
        if !is_safe_name(name) {
            let shown = names::in_message(name);
            let failure = Failure::new(Exit::Failed, format!("{shown} is no name for a file"));
            return Err(Failed::One(failure));
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
                    let spot = Spot { directory, name, present };
                    let draft = spot.begin(&NewKind::Directory, &self.creation(&facts))?;
                    Ok(Some((draft.publish()?, true)))
                }
            };
        }
        match present {
            Some(node) if node.file_type() == FileType::Directory && !self.crosses_kinds => {
                Err(PosixError::IsDirectory.into())
            }
            Some(_) if self.manner.existing == Existing::Keep => {
                let failure = Failure::new(Exit::Failed, PosixError::Exists.to_string());
                let failure = failure.about(&names::in_message(&self.shown(path)));
                (self.report)(failure);
                Ok(None)
            }
            present => {
                let spot = Spot { directory, name, present };
                self.make_file(&spot, path, source)?;
                self.tally.add_file();
                Ok(None)
            }
        }
    }

    /// Makes anything but a directory.
    fn make_file<S: Source>(
        &mut self,
        spot: &Spot<'_>,
        path: &[u8],
        source: &S,
    ) -> Result<(), Failed> {
        let facts = self.facts(source);
        let has_links = self.manner.is_archive && facts.links > 1;
        let source_file = (self.origin, facts.inode);
        // Of what has been replaced since there is nothing left to link to.
        let made = self.links.get(&source_file).filter(|node| node.metadata().nlink > 0);
        if has_links && let Some(node) = made {
            return Ok(spot.link(node)?);
        }
        let target;
        let device = DeviceNumber { major: facts.device.0, minor: facts.device.1 };
        let kind = match facts.kind() {
            FileKind::Regular => NewKind::Regular,
            FileKind::Symlink => {
                target = source.target().map_err(Failed::Source)?;
                NewKind::Symlink(&target)
            }
            FileKind::Fifo => NewKind::Fifo,
            FileKind::Socket => NewKind::Socket,
            FileKind::CharDevice => NewKind::CharacterDevice(device),
            FileKind::BlockDevice => NewKind::BlockDevice(device),
            FileKind::Directory | FileKind::Unknown => {
                let message = format!("is a {}, which is not copied", facts.kind().name());
                return Err(Failed::One(Failure::new(Exit::Failed, message)));
            }
        };
        let draft = spot.begin(&kind, &self.creation(&facts))?;
        if kind == NewKind::Regular {
            // Once there are extents it is too late.
            self.hint(draft.node(), &facts)?;
            let file = draft.node().open()?;
            let copied = contents::copy(&file, source, self.manner.holes(source), &self.tally);
            let copied = copied.and_then(|()| Ok(file.close()?));
            copied.map_err(|failed| failed.needing(source.length()))?;
        }
        self.apply((draft.node(), path), &facts, source.attributes())?;
        let node = draft.publish()?;
        let late = self.late_changes(&facts);
        // An archive may have further names of any file.
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

    /// Gives a directory what it has besides its entries, which are all in it.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub(crate) fn leave(&mut self, entered: Entered, path: &[u8]) -> Result<(), Failure> {
        let left = self.complete(entered, path);
        self.check(path, left).map(drop)
    }

    fn complete(&mut self, entered: Entered, path: &[u8]) -> Result<(), Failed> {
        if !entered.is_new && !self.manner.is_archive {
            return Ok(());
        }
        if !entered.is_new {
            let owned = self.creation(&entered.facts);
            let changes = SetAttributes {
                uid: Some(owned.uid),
                gid: Some(owned.gid),
                ..SetAttributes::default()
            };
            entered.directory.set_attributes(&changes)?;
        }
        // What is in it has its own already, and takes none over.
        self.hint(&entered.directory, &entered.facts)?;
        self.apply((&entered.directory, path), &entered.facts, entered.attributes)?;
        Ok(entered.directory.set_attributes(&self.late_changes(&entered.facts))?)
    }
}

fn enter<S: Source>(entered: Entered, path: Vec<u8>, source: &S) -> Result<Level<S>, Failed> {
    let entries = source.entries().map_err(Failed::Source)?;
    Ok(Level { entered, entries, path })
}

/// How far a failure reaches.
pub(crate) enum Failed {
    /// To one file.
    One(Failure),
    /// To one file, whose source cannot be read.
    Source(Failure),
    /// To all that come after it too.
    All(Failure),
}

impl Failed {
    /// Says how many bytes were to be written, where there was no room for them.
    fn needing(self, bytes: Option<u64>) -> Self {
        match self {
            Self::One(failure) => Self::One(failure.needing(bytes)),
            Self::Source(failure) => Self::Source(failure),
            Self::All(failure) => Self::All(failure.needing(bytes)),
        }
    }

    /// Says what the failure is about, in front of it.
    pub(crate) fn about(self, subject: &str) -> Self {
        match self {
            Self::One(failure) => Self::One(failure.about(subject)),
            Self::Source(failure) => Self::Source(failure.about(subject)),
            Self::All(failure) => Self::All(failure.about(subject)),
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        match error {
            Error::Posix(PosixError::NoSpace) | Error::Io(_) | Error::Shutdown => {
                Self::All(error.into())
            }
            _ => Self::One(error.into()),
        }
    }
}

impl From<PosixError> for Failed {
    fn from(error: PosixError) -> Self {
        Error::from(error).into()
    }
}
