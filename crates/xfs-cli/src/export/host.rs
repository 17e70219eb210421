//! Copying files out of an image to the host.
//!
//! Owns: the order in which files are created, hard links, and the handling of failures. Does
//! **not** own: the steps for one file ([`files`]), or the system calls on names ([`directory`])
//! and on files ([`attributes`]).
//!
//! # Invariants
//!
//! - **I1** Nothing outside the destination is written, whatever the image holds. Every name is
//!   checked to be a single component, and is used only relative to a directory descriptor that was
//!   itself opened without following links.
//! - **I2** A file under its final name is complete: it is created under another name and then
//!   renamed. A second run replaces the files of the first run.
//! - **I3** A directory gets its times and permissions after everything in it has been created.
//! - **I4** A directory of the image is entered at most once for each source, so that the copy of a
//!   directory inside itself ends.

mod attributes;
mod contents;
mod directory;
mod files;
mod project;

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::{Facts, FileKind};
use crate::file::source::{InodeSpace, Source, SourceLocation, is_safe_name};
use crate::interrupt;
use crate::terminal::names;
use crate::terminal::tally::Tally;

use attributes::{AttributeNotes, Shortfalls};
use directory::FirstName;
pub(crate) use directory::{Directory, Existing};

/// The choice of the properties that copies keep, and of those whose loss is not reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fidelity {
    /// Whether owners, permissions, times, attributes, hard links and devices are copied too.
    pub(crate) is_archive: bool,
    /// Whether owners, and attributes that only root may set, may be missing without a report.
    pub(crate) ignores_owner: bool,
    /// How an existing file of the same name is handled.
    pub(crate) existing: Existing,
}

/// The largest number of files that are kept open until they get their inode flags at the end. More
/// open files could exceed the limit of the process, which would end the run. Further files are
/// closed. They are opened again at the end by their first names.
const FLAGGED_LIMIT: usize = 256;

/// One run of copying files to the host.
pub(crate) struct HostWriter<'a> {
    fidelity: Fidelity,
    root: &'a Directory,
    /// The inode space of the current source. The same inode number in another space is another
    /// file.
    origin: InodeSpace,
    location: Option<SourceLocation>,
    /// The length in bytes of the host path of the current source's copy. The host path of a file
    /// below the source starts with these bytes. The rest of it is the path of the file inside the
    /// source.
    start_length: usize,
    /// The first name that each file with several names got on the host.
    links: HashMap<(InodeSpace, u64), FirstName>,
    entered: HashSet<u64>,
    shortfalls: Shortfalls,
    /// Files that get their inode flags at the end, because immutable and append-only files can get
    /// no further name.
    flagged: Vec<Flagged>,
    report: &'a mut dyn FnMut(Failure),
    tally: &'a Tally,
}

/// A file that gets its inode flags at the end of the run.
struct Flagged {
    file: FlaggedFile,
    facts: Facts,
    path: Vec<u8>,
}

/// How a file is reached at the end of the run, to set its inode flags: by its open descriptor, or
/// by its first name.
enum FlaggedFile {
    Open(OwnedFd),
    Named(FirstName),
}

/// A directory on the host that is being filled.
struct HostLevel<S: Source> {
    directory: Directory,
    source: S,
    entries: S::Entries,
    /// Whether this run created the directory. A directory that existed before keeps its
    /// attributes, unless `Fidelity::is_archive` is set.
    is_new: bool,
}

impl<'a> HostWriter<'a> {
    /// Starts a run that copies into the directory `root`. Failures for single files go to
    /// `report`, and `tally` counts the copies.
    pub(crate) fn new(
        fidelity: Fidelity,
        root: &'a Directory,
        report: &'a mut dyn FnMut(Failure),
        tally: &'a Tally,
    ) -> Self {
        Self {
            fidelity,
            root,
            origin: InodeSpace::default(),
            location: None,
            start_length: 0,
            links: HashMap::new(),
            entered: HashSet::new(),
            shortfalls: Shortfalls::new(fidelity.ignores_owner),
            flagged: Vec::new(),
            report,
            tally,
        }
    }

    /// Starts the next source. All names of one inode become names of one file on the host, even if
    /// the names are in several sources with the same `origin`.
    pub(crate) fn start_source(&mut self, origin: InodeSpace, location: SourceLocation) {
        self.origin = origin;
        self.location = Some(location);
        // One source may be inside another.
        self.entered.clear();
    }

    /// Copies a file or directory as `name` into the destination, with everything below it.
    ///
    /// # Errors
    ///
    /// Returns only failures that would occur again for every further file, such as a full disk.
    pub(crate) fn copy<S: Source>(&mut self, source: S, name: &[u8]) -> Result<(), Failure> {
        let root = self.root;
        self.start_length = root.path_of(name).len();
        match self.make(root, name, source)? {
            None => Ok(()),
            Some(level) => self.fill(level),
        }
    }

    /// Copies the contents of a directory into the destination itself.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`copy`](Self::copy).
    pub(crate) fn copy_contents<S: Source>(&mut self, source: S) -> Result<(), Failure> {
        let directory = self.root.duplicate().map_err(|error| failed(self.root, &[], error))?;
        self.start_length = directory.path().len();
        match self.enter(directory, source, false) {
            None => Ok(()),
            Some(level) => self.fill(level),
        }
    }

    /// Ends the run: sets the inode flags of the files that wait for them. Returns one failure for
    /// all properties that could not be set; `None` if all were set.
    pub(crate) fn finish(mut self) -> Option<Failure> {
        for Flagged { file, facts, path } in self.flagged.drain(..) {
            let file = match file {
                FlaggedFile::Open(file) => Ok(file),
                FlaggedFile::Named(made) => self.root.reopen(&made),
            };
            let notes = AttributeNotes { path: &path, shortfalls: &mut self.shortfalls };
            match file {
                Ok(file) => attributes::apply_flags(file, &facts, notes),
                Err(error) => attributes::note_flags_missing(error, notes),
            }
        }
        self.shortfalls.into_failure()
    }

    /// Reports a failure of a source. The message names the path in the image instead of the host
    /// path `path`.
    fn report_source(&mut self, path: &[u8], failure: Failure) {
        let below = path.get(self.start_length..).unwrap_or_default();
        let failure = match &self.location {
            Some(location) => location.failure(below, failure),
            None => failure.about(&names::in_message(path)),
        };
        (self.report)(failure);
    }

    /// Fills a directory and everything below it. There is no recursion, because the image decides
    /// the depth.
    fn fill<S: Source>(&mut self, level: HostLevel<S>) -> Result<(), Failure> {
        let mut open = vec![level];
        while let Some(level) = open.last_mut() {
            match level.entries.next() {
                None => {
                    if let Some(level) = open.pop() {
                        self.complete(&level);
                    }
                }
                Some(Err(failure)) => self.report_source(level.directory.path(), failure),
                Some(Ok((name, child))) => {
                    let made = self.make(&level.directory, &name, child)?;
                    open.extend(made);
                }
            }
        }
        Ok(())
    }

    /// Creates one file or directory. If it is a directory, returns it, because it is still to be
    /// filled; otherwise returns `None`.
    fn make<S: Source>(
        &mut self,
        parent: &Directory,
        name: &[u8],
        source: S,
    ) -> Result<Option<HostLevel<S>>, Failure> {
        // A name that is not a single component could lead out of the destination (I1).
        if !is_safe_name(name) {
            let shown = names::in_message(name).into_owned();
            let message = format!("a file is named {shown}, and is not extracted");
            let failure = Failure::new(Exit::Corrupt, message);
            self.report_source(parent.path(), failure);
            return Ok(None);
        }
        interrupt::check().map_err(|failure| self.stopped(failure))?;
        let facts = source.facts();
        let made = match facts.kind() {
            FileKind::Directory => {
                return match parent.make_directory(name, facts.mode) {
                    Ok((directory, is_new)) => {
                        self.tally.add_directory();
                        Ok(self.enter(directory, source, is_new))
                    }
                    Err(error) => self.report_and_continue(failed(parent, name, error), error),
                };
            }
            FileKind::Regular => self.make_regular(parent, name, &source, &facts),
            FileKind::Symlink => self.make_symlink(parent, name, &source, &facts),
            FileKind::Unknown => {
                let message = format!("mode {:o} is not the mode of a file", facts.mode);
                Err(Stop::Source(Failure::new(Exit::Corrupt, message)))
            }
            _ => self.make_special(parent, name, &source, &facts),
        };
        match made {
            Ok(()) => {
                source.set_copied();
                self.tally.add_file();
            }
            Err(Stop::Source(failure)) => {
                self.report_source(&parent.path_of(name), failure);
            }
            Err(Stop::Host(error)) => {
                return self.report_and_continue(failed(parent, name, error), error);
            }
            Err(Stop::Signal(failure)) => return Err(self.stopped(failure)),
        }
        Ok(None)
    }

    /// Returns the failure of a run that a signal has stopped, with a hint about the files that
    /// exist on the host.
    fn stopped(&self, failure: Failure) -> Failure {
        let shown = names::in_message(self.root.path());
        interrupt::stopped(&shown)
            .unwrap_or(failure)
            .hint("existing files are complete; the others are missing")
    }

    /// Reports a failure of the host and returns `None`, so that the run continues. Returns the
    /// failure if every further file would fail in the same way.
    fn report_and_continue<T>(
        &mut self,
        failure: Failure,
        error: Errno,
    ) -> Result<Option<T>, Failure> {
        if matches!(error, Errno::NOSPC | Errno::DQUOT | Errno::ROFS | Errno::IO) {
            return Err(failure);
        }
        (self.report)(failure);
        Ok(None)
    }

    fn enter<S: Source>(
        &mut self,
        directory: Directory,
        source: S,
        is_new: bool,
    ) -> Option<HostLevel<S>> {
        // The second time ends a directory inside itself (I4).
        if !self.entered.insert(source.facts().inode) {
            let message = format!("directory inode {} is its own ancestor", source.facts().inode);
            self.report_source(directory.path(), Failure::new(Exit::Corrupt, message));
            return None;
        }
        match source.entries() {
            Ok(entries) => Some(HostLevel { directory, source, entries, is_new }),
            Err(failure) => {
                self.report_source(directory.path(), failure);
                None
            }
        }
    }

    /// Gives a directory its own attributes after everything in it has been created (I3).
    fn complete<S: Source>(&mut self, level: &HostLevel<S>) {
        let facts = level.source.facts();
        let (directory, path) = (&level.directory, level.directory.path());
        if self.fidelity.is_archive {
            let shortfalls = &mut self.shortfalls;
            attributes::apply_to_open(
                directory,
                &level.source,
                &facts,
                AttributeNotes { path, shortfalls },
            );
            if attributes::has_flags(&facts) {
                attributes::apply_flags(directory, &facts, AttributeNotes { path, shortfalls });
            }
            self.report_unreadable(&level.source, path);
        } else if level.is_new {
            directory.restrict_mode(facts.mode);
        }
        level.source.set_copied();
    }

    /// Reports each attribute of the source that cannot be read, as a failure of the image.
    fn report_unreadable<S: Source>(&mut self, source: &S, path: &[u8]) {
        for attribute in source.attributes() {
            if let Err(failure) = attribute {
                self.report_source(path, failure);
            }
        }
    }
}

/// The reason why a file could not be created.
enum Stop {
    /// A failure to read the file in the image.
    Source(Failure),
    /// A failure to write the file on the host.
    Host(Errno),
    /// A signal stopped the run.
    Signal(Failure),
}

impl From<Errno> for Stop {
    fn from(error: Errno) -> Self {
        Self::Host(error)
    }
}

fn failed(parent: &Directory, name: &[u8], error: Errno) -> Failure {
    let path = parent.path_of(name);
    let path = names::in_message(&path);
    match error {
        Errno::EXIST => Failure::new(Exit::Failed, format!("{path}: exists already")),
        Errno::LOOP | Errno::NOTDIR => {
            let message = format!("{path}: exists and is not a directory; it is left alone");
            Failure::new(Exit::Failed, message)
        }
        Errno::ISDIR => Failure::new(
            Exit::Failed,
            format!("{path}: is a directory, which a file cannot replace"),
        ),
        Errno::MFILE | Errno::NFILE => {
            let message = format!("{path}: directories are nested too deeply");
            Failure::new(Exit::Failed, message).hint("raise the limit of open files (ulimit -n)")
        }
        _ => {
            let error = std::io::Error::from(error);
            Failure::new(Exit::Failed, format!("{path}: {error}"))
        }
    }
}

#[cfg(test)]
mod tests;
