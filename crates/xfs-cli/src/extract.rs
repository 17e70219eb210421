//! Copying files out of an image.
//!
//! Owns: the order in which files are made, hard links, what happens when something fails. Does
//! **not** own: the calls on the host's names ([`place`]) and on its files ([`attributes`]).
//!
//! # Invariants
//!
//! - **I1** Nothing outside the destination is written, whatever the image holds: every name is
//!   checked to be a single component, and used only relative to a descriptor of a directory that
//!   was itself opened without following links.
//! - **I2** A file that stands under its own name is complete: it is made under another name and
//!   renamed. What is run again replaces what it finds.
//! - **I3** A directory gets its times and permissions after everything in it.
//! - **I4** A directory of the image is entered at most once for each source, so that one inside itself ends.

mod attributes;
mod contents;
mod place;
mod project;

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

use crate::exit::Exit;
use crate::facts::{Facts, FileKind};
use crate::failure::Failure;
use crate::interrupt;
use crate::names;
use crate::source::{Origin, Source, Whence, is_safe_name};
use crate::tally::Tally;

use attributes::{Lack, Shortfalls};
use place::Made;
pub(crate) use place::{Directory, Existing};

/// What is carried over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fidelity {
    /// Owners, permissions, times, attributes, hard links and devices too.
    pub(crate) is_archive: bool,
    /// Say nothing of owners that cannot be set, or of attributes that only root may set.
    pub(crate) ignores_owner: bool,
    /// What to do with a file that is there already.
    pub(crate) existing: Existing,
}

/// Flagged files that are kept open at the most; beyond them a further name may become a copy.
const FLAGGED_LIMIT: usize = 256;

/// One run of copying.
pub(crate) struct Extraction<'a> {
    fidelity: Fidelity,
    root: &'a Directory,
    /// Where the sources are that are copied now.
    origin: Origin,
    whence: Option<Whence>,
    /// How long the path is that it gets on the host.
    start_length: usize,
    /// Where the first name of each file with several has been made.
    links: HashMap<(Origin, u64), Made>,
    entered: HashSet<u64>,
    shortfalls: Shortfalls,
    /// Files whose flags would forbid to make their further names.
    flagged: Vec<Flagged>,
    report: &'a mut dyn FnMut(Failure),
    tally: &'a Tally,
}

/// A file that is to get its flags at the end.
struct Flagged {
    file: OwnedFd,
    facts: Facts,
    path: Vec<u8>,
}

/// A directory that is being filled.
struct Level<S: Source> {
    directory: Directory,
    source: S,
    entries: S::Entries,
    /// Whether it was there before: then without `is_archive` its own attributes stay.
    is_new: bool,
}

impl<'a> Extraction<'a> {
    /// Copies into `root` and below. What fails for one file goes to `report`; what is copied is counted by
    /// `tally`.
    pub(crate) fn new(
        fidelity: Fidelity,
        root: &'a Directory,
        report: &'a mut dyn FnMut(Failure),
        tally: &'a Tally,
    ) -> Self {
        Self {
            fidelity,
            root,
            origin: Origin::default(),
            whence: None,
            start_length: 0,
            links: HashMap::new(),
            entered: HashSet::new(),
            shortfalls: Shortfalls::new(fidelity.ignores_owner),
            flagged: Vec::new(),
            report,
            tally,
        }
    }

    /// Begins with the next source, and says where it is. Names of one file there are names of one file here, also where
    /// several sources have them.
    pub(crate) fn turn_to(&mut self, origin: Origin, whence: Whence) {
        self.origin = origin;
        self.whence = Some(whence);
        // One source may lie in another.
        self.entered.clear();
    }

    /// Copies a file, with everything below it, as `name`.
    ///
    /// # Errors
    ///
    /// Only what makes it pointless to go on, such as a full disk.
    pub(crate) fn copy<S: Source>(&mut self, source: S, name: &[u8]) -> Result<(), Failure> {
        let root = self.root;
        self.start_length = root.path_of(name).len();
        match self.make(root, name, source)? {
            None => Ok(()),
            Some(level) => self.fill(level),
        }
    }

    /// Copies what is in a directory into the destination itself.
    ///
    /// # Errors
    ///
    /// As [`copy`](Self::copy).
    pub(crate) fn copy_contents<S: Source>(&mut self, source: S) -> Result<(), Failure> {
        let directory = self.root.duplicate().map_err(|error| failed(self.root, &[], error))?;
        self.start_length = directory.path().len();
        match self.enter(directory, source, false) {
            None => Ok(()),
            Some(level) => self.fill(level),
        }
    }

    /// Ends the run: what could not be set, as a failure.
    pub(crate) fn finish(mut self) -> Option<Failure> {
        self.flush_flagged();
        self.shortfalls.into_failure()
    }

    fn flush_flagged(&mut self) {
        for Flagged { file, facts, path } in self.flagged.drain(..) {
            attributes::apply_flags(file, &facts, (&path, &mut self.shortfalls));
        }
    }

    /// Reports what is wrong with a source, where it is in its image, by the path that it gets on the host.
    fn report_source(&mut self, path: &[u8], failure: Failure) {
        let below = path.get(self.start_length..).unwrap_or_default();
        let failure = match &self.whence {
            Some(whence) => whence.failure(below, failure),
            None => failure.about(&names::in_message(path)),
        };
        (self.report)(failure);
    }

    /// Fills a directory and all below, without recursion: the image decides how deep it goes.
    fn fill<S: Source>(&mut self, level: Level<S>) -> Result<(), Failure> {
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

    /// Makes one file; a directory is returned to be filled.
    fn make<S: Source>(
        &mut self,
        parent: &Directory,
        name: &[u8],
        source: S,
    ) -> Result<Option<Level<S>>, Failure> {
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
                    Err(error) => self.survive(failed(parent, name, error), error),
                };
            }
            FileKind::Regular => self.make_regular(parent, name, &source, &facts),
            FileKind::Symlink => self.make_symlink(parent, name, &source, &facts),
            FileKind::Unknown => {
                let message = format!("mode {:o} is that of no file", facts.mode);
                Err(Stop::Source(Failure::new(Exit::Corrupt, message)))
            }
            _ => self.make_special(parent, name, &source, &facts),
        };
        match made {
            Ok(()) => self.tally.add_file(),
            Err(Stop::Source(failure)) => {
                self.report_source(&parent.path_of(name), failure);
            }
            Err(Stop::Host(error)) => {
                return self.survive(failed(parent, name, error), error);
            }
            Err(Stop::Signal(failure)) => return Err(self.stopped(failure)),
        }
        Ok(None)
    }

    /// Says what is there when a signal has stopped the run.
    fn stopped(&self, failure: Failure) -> Failure {
        let shown = names::in_message(self.root.path());
        interrupt::stopped(&shown)
            .unwrap_or(failure)
            .hint("each file that is there is complete; the others are missing")
    }

    /// Reports a failure of the host, and goes on unless every further file would fail the same way.
    fn survive<T>(&mut self, failure: Failure, error: Errno) -> Result<Option<T>, Failure> {
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
    ) -> Option<Level<S>> {
        if !self.entered.insert(source.facts().inode) {
            let message = format!("directory inode {} is inside itself", source.facts().inode);
            self.report_source(directory.path(), Failure::new(Exit::Corrupt, message));
            return None;
        }
        match source.entries() {
            Ok(entries) => Some(Level { directory, source, entries, is_new }),
            Err(failure) => {
                self.report_source(directory.path(), failure);
                None
            }
        }
    }

    /// Gives a directory its own attributes, after everything in it (I3).
    fn complete<S: Source>(&mut self, level: &Level<S>) {
        let facts = level.source.facts();
        let (directory, path) = (&level.directory, level.directory.path());
        if self.fidelity.is_archive {
            let shortfalls = &mut self.shortfalls;
            attributes::apply_to_open(directory, &level.source, &facts, (path, shortfalls));
            if attributes::has_flags(&facts) {
                attributes::apply_flags(directory, &facts, (path, shortfalls));
            }
            self.report_unreadable(&level.source, path);
        } else if level.is_new {
            directory.restrict_mode(facts.mode);
        }
    }

    /// Attributes that cannot be read are findings of the image.
    fn report_unreadable<S: Source>(&mut self, source: &S, path: &[u8]) {
        for attribute in source.attributes() {
            if let Err(failure) = attribute {
                self.report_source(path, failure);
            }
        }
    }

    fn make_regular<S: Source>(
        &mut self,
        parent: &Directory,
        name: &[u8],
        source: &S,
        facts: &Facts,
    ) -> Result<(), Stop> {
        if self.link_again(parent, name, facts)? {
            return Ok(());
        }
        let mode = if self.fidelity.is_archive { 0o600 } else { facts.mode };
        let (draft, file) = parent.make_file(mode)?;
        if !self.fidelity.is_archive && self.fidelity.existing == Existing::Replace {
            parent.take_after(name, &file);
        }
        contents::copy(source, facts.size, file.as_fd(), self.tally)?;
        let path = parent.path_of(name);
        if self.fidelity.is_archive {
            attributes::apply_to_open(&file, source, facts, (&path, &mut self.shortfalls));
            self.report_unreadable(source, &path);
        }
        draft.publish(name, self.fidelity.existing)?;
        self.remember(parent, name, facts)?;
        if !self.fidelity.is_archive || !attributes::has_flags(facts) {
            return Ok(());
        }
        if facts.links < 2 {
            // It gets no further name.
            attributes::apply_flags(file, facts, (&path, &mut self.shortfalls));
            return Ok(());
        }
        // As many as there are open files would be the end of the run.
        if self.flagged.len() > FLAGGED_LIMIT {
            self.flush_flagged();
        }
        self.flagged.push(Flagged { file, facts: *facts, path });
        Ok(())
    }

    fn make_symlink<S: Source>(
        &mut self,
        parent: &Directory,
        name: &[u8],
        source: &S,
        facts: &Facts,
    ) -> Result<(), Stop> {
        if self.link_again(parent, name, facts)? {
            return Ok(());
        }
        let target = source.target().map_err(Stop::Source)?;
        if target.contains(&0) || target.is_empty() {
            let failure = Failure::new(Exit::Corrupt, "the link's target is no path");
            return Err(Stop::Source(failure));
        }
        let draft = parent.make_symlink(&target)?;
        self.dress_and_publish(draft, (parent, name), source, facts)
    }

    fn make_special<S: Source>(
        &mut self,
        parent: &Directory,
        name: &[u8],
        source: &S,
        facts: &Facts,
    ) -> Result<(), Stop> {
        if self.link_again(parent, name, facts)? {
            return Ok(());
        }
        let draft = match parent.make_special(facts) {
            Err(Errno::PERM) if self.fidelity.is_archive => {
                self.shortfalls.note(Lack::Device, &parent.path_of(name));
                return Ok(());
            }
            draft => draft?,
        };
        self.dress_and_publish(draft, (parent, name), source, facts)
    }

    /// For what cannot be opened: sets attributes by name, under the name of the draft.
    fn dress_and_publish<S: Source>(
        &mut self,
        draft: place::Draft<'_>,
        (parent, name): (&Directory, &[u8]),
        source: &S,
        facts: &Facts,
    ) -> Result<(), Stop> {
        if self.fidelity.is_archive {
            let path = parent.path_of(name);
            attributes::apply_by_name(&draft, source, facts, (&path, &mut self.shortfalls));
            self.report_unreadable(source, &path);
        }
        draft.publish(name, self.fidelity.existing)?;
        self.remember(parent, name, facts)
    }

    /// Makes a further name of a file that has been made; false if this is its first.
    fn link_again(&mut self, parent: &Directory, name: &[u8], facts: &Facts) -> Result<bool, Stop> {
        if !self.fidelity.is_archive || facts.links < 2 {
            return Ok(false);
        }
        match self.links.get(&(self.origin, facts.inode)) {
            None => Ok(false),
            Some(made) => Ok(parent.link(self.root, made, name, self.fidelity.existing)?),
        }
    }

    fn remember(&mut self, parent: &Directory, name: &[u8], facts: &Facts) -> Result<(), Stop> {
        if self.fidelity.is_archive && facts.links > 1 {
            let made = parent.made(name)?;
            self.links.insert((self.origin, facts.inode), made);
        }
        Ok(())
    }
}

/// Why one file could not be made.
enum Stop {
    /// The image.
    Source(Failure),
    /// The host.
    Host(Errno),
    /// A signal.
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
            let message = format!("{path}: is in the way, and no directory; it is left alone");
            Failure::new(Exit::Failed, message)
        }
        Errno::ISDIR => {
            Failure::new(Exit::Failed, format!("{path}: a directory is in the way of a file"))
        }
        Errno::MFILE | Errno::NFILE => {
            let message = format!("{path}: too many directories inside each other");
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
