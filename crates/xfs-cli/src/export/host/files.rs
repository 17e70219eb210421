//! Copies one file other than a directory: creates it, writes its contents, sets its attributes,
//! and gives it its name.
//!
//! Owns: the steps for each type of file, and further names of one file. Does **not** own: the
//! order of the files ([`super`]), or the system calls.

use std::os::fd::AsFd;

use rustix::io::Errno;

use super::attributes::{self, AttributeNotes, Property};
use super::directory::{Directory, Existing, StagedEntry};
use super::{FLAGGED_LIMIT, Flagged, FlaggedFile, HostWriter, Stop, contents};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::Facts;
use crate::file::source::Source;

impl HostWriter<'_> {
    pub(super) fn make_regular<S: Source>(
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
        let (staged, file) = parent.make_file(mode)?;
        if !self.fidelity.is_archive && self.fidelity.existing == Existing::Replace {
            parent.copy_owner_and_mode(name, &file);
        }
        contents::copy(source, facts.size, file.as_fd(), self.tally)?;
        let path = parent.path_of(name);
        if self.fidelity.is_archive {
            attributes::apply_to_open(
                &file,
                source,
                facts,
                AttributeNotes { path: &path, shortfalls: &mut self.shortfalls },
            );
            self.report_unreadable(source, &path);
        }
        // The file is complete, and gets its own name (I2).
        staged.publish(name, self.fidelity.existing)?;
        self.remember(parent, name, facts)?;
        if !self.fidelity.is_archive || !attributes::has_flags(facts) {
            return Ok(());
        }
        if facts.links < 2 {
            // The file gets no further name.
            attributes::apply_flags(
                file,
                facts,
                AttributeNotes { path: &path, shortfalls: &mut self.shortfalls },
            );
            return Ok(());
        }
        let made = self.links.get(&(self.origin, facts.inode));
        let file = match made.filter(|_| self.flagged.len() >= FLAGGED_LIMIT) {
            Some(made) => FlaggedFile::Named(made.clone()),
            None => FlaggedFile::Open(file),
        };
        self.flagged.push(Flagged { file, facts: *facts, path });
        Ok(())
    }

    pub(super) fn make_symlink<S: Source>(
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
            let failure = Failure::new(Exit::Corrupt, "the target of the link is not a path");
            return Err(Stop::Source(failure));
        }
        let staged = parent.make_symlink(&target)?;
        self.set_attributes_and_publish(staged, NewEntry { parent, name }, source, facts)
    }

    pub(super) fn make_special<S: Source>(
        &mut self,
        parent: &Directory,
        name: &[u8],
        source: &S,
        facts: &Facts,
    ) -> Result<(), Stop> {
        if self.link_again(parent, name, facts)? {
            return Ok(());
        }
        let staged = match parent.make_special(facts) {
            Err(Errno::PERM) if self.fidelity.is_archive => {
                self.shortfalls.note(Property::Device, &parent.path_of(name));
                return Ok(());
            }
            staged => staged?,
        };
        self.set_attributes_and_publish(staged, NewEntry { parent, name }, source, facts)
    }

    /// Sets attributes through the temporary name, for a file that cannot be opened. Then gives the
    /// file its own name.
    fn set_attributes_and_publish<S: Source>(
        &mut self,
        staged: StagedEntry<'_>,
        NewEntry { parent, name }: NewEntry<'_>,
        source: &S,
        facts: &Facts,
    ) -> Result<(), Stop> {
        if self.fidelity.is_archive {
            let path = parent.path_of(name);
            attributes::apply_by_name(
                &staged,
                source,
                facts,
                AttributeNotes { path: &path, shortfalls: &mut self.shortfalls },
            );
            self.report_unreadable(source, &path);
        }
        staged.publish(name, self.fidelity.existing)?;
        self.remember(parent, name, facts)
    }

    /// Adds `name` to the file that the run has created for an earlier name of the same inode.
    /// Returns `false` if the inode has no earlier name in this run, or if its file can get no
    /// further name.
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

/// The directory and the name that a file gets on the host.
#[derive(Clone, Copy)]
struct NewEntry<'a> {
    parent: &'a Directory,
    name: &'a [u8],
}
