//! A thread's operations on its own files, in shared directories.

use std::collections::BTreeMap;

use ferroxfs::{CreateOptions, NewKind};
use xfs_oracle::Subject;
use xfs_oracle::model::{Durable, FileTarget, Operation, RenameMode};
use xfs_testkit::Prng;

use super::SharedVolume;
use super::life::{FileIdentity, ThreadLife, ThreadStep, length_bytes};
use super::shared::{folder, is_narrow, wide_folder, within};
use crate::library::Library;

/// The greatest number of files that a thread keeps for later renames. It is small, so that the
/// directories with few names keep few names.
const MOST_MOVING: usize = 3;
/// Length of long names in bytes. Directories with such names need blocks outside of their inodes.
const LONG_NAME_BYTES: usize = 150;

/// A thread's own files, and the record of its operations on them.
pub(super) struct OwnFiles<'a> {
    stage: &'a SharedVolume,
    thread: u64,
    subject: Library,
    life: ThreadLife,
    /// The paths of the files that get new names later. All other files keep their names.
    moving: BTreeMap<FileIdentity, Vec<String>>,
    files: u32,
    /// Number of the next name. It grows, so that no name is used twice.
    names: u32,
}

impl<'a> OwnFiles<'a> {
    pub(super) fn new(stage: &'a SharedVolume, thread: u64) -> Self {
        let subject = Library::new(stage.volume.clone());
        let life = ThreadLife::new(thread);
        Self { stage, thread, subject, life, moving: BTreeMap::new(), files: 0, names: 0 }
    }

    pub(super) fn into_life(self) -> ThreadLife {
        self.life
    }

    /// Performs one operation on one or two of the thread's files.
    pub(super) fn step(&mut self, prng: &mut Prng) -> Result<(), String> {
        let (one, other) = (self.any(prng), self.any(prng));
        match (prng.within(0..10), one, other) {
            (0..3, Some(one), _) => self.rename(prng, one),
            (3, Some(one), Some(other)) if one != other => self.replace(one, other),
            (4 | 5, Some(one), Some(other)) if one != other => self.exchange(one, other),
            (6, Some(one), _) => self.link(prng, one),
            (7, Some(one), _) => self.unlink(one),
            (8, Some(one), _) if prng.within(0..4) == 0 => self.fsync(one),
            _ => self.make(prng),
        }
    }

    fn any(&self, prng: &mut Prng) -> Option<FileIdentity> {
        self.moving.keys().nth(prng.within(0..self.moving.len())).copied()
    }

    fn path(&self, file: FileIdentity) -> String {
        let paths = self.moving.get(&file);
        paths.and_then(|paths| paths.first()).cloned().unwrap_or_default()
    }

    /// Returns an unused path in a folder.
    fn vacant(&mut self, folder: &str) -> String {
        self.names += 1;
        let is_long = self.names.is_multiple_of(3) && !is_narrow(folder);
        let tail = "o".repeat(if is_long { LONG_NAME_BYTES } else { 0 });
        within(folder, &format!("{}-{}{tail}", self.thread, self.names))
    }

    /// Performs an operation and records it. `changes` has the affected files, each with all its
    /// paths after the operation.
    fn perform(
        &mut self,
        operation: &Operation,
        changes: Vec<(FileIdentity, Vec<String>)>,
    ) -> Result<(), String> {
        let began = self.stage.device.position();
        let answer = self.subject.perform(operation);
        answer.map_err(|errno| format!("{operation:?} on a thread's own file failed: {errno}"))?;
        for (file, paths) in &changes {
            if paths.is_empty() {
                self.moving.remove(file);
            } else if let Some(known) = self.moving.get_mut(file) {
                known.clone_from(paths);
            }
        }
        self.life.steps.push(ThreadStep {
            began,
            returned: self.stage.tick(),
            changes,
            written: None,
        });
        Ok(())
    }

    /// Creates a file and writes its contents. Some of these files are made durable at once and
    /// never changed again.
    fn make(&mut self, prng: &mut Prng) -> Result<(), String> {
        self.files += 1;
        let file = self.life.identity(self.files);
        let is_moving = self.moving.len() < MOST_MOVING;
        let path = self.vacant(if is_moving { folder(prng) } else { wide_folder(prng) });
        let began = self.stage.device.position();
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let creation = CreateOptions::new(0o600).uid(file);
        let folder = self.stage.volume.lookup(format!("/{folder}"));
        let made = folder.and_then(|folder| folder.create(name, &NewKind::Regular, &creation));
        made.map_err(|error| format!("a thread's own file {path}: {error}"))?;
        let (returned, changes) = (self.stage.tick(), vec![(file, vec![path.clone()])]);
        self.life.steps.push(ThreadStep { began, returned, changes, written: None });
        let number = u64::from(file);
        let write = Operation::Write {
            file: FileTarget::Path(path.clone()),
            offset: 0,
            length: length_bytes(file),
            number,
        };
        self.perform(&write, Vec::new())?;
        if let Some(step) = self.life.steps.last_mut() {
            step.written = Some(file);
        }
        if is_moving {
            self.moving.insert(file, vec![path]);
            return Ok(());
        }
        // Other files become durable with the next sync of the volume.
        if prng.within(0..8) == 0 { self.fsync_at(path, file) } else { Ok(()) }
    }

    fn rename(&mut self, prng: &mut Prng, file: FileIdentity) -> Result<(), String> {
        let mut paths = self.moving.get(&file).cloned().unwrap_or_default();
        let (from, to) = (self.path(file), self.vacant(folder(prng)));
        if let Some(first) = paths.first_mut() {
            first.clone_from(&to);
        }
        let mode = RenameMode::NoReplace;
        self.perform(&Operation::Rename { from, to, mode }, vec![(file, paths)])
    }

    /// Renames `file` to a name of `other`. The rename replaces that name, so `other` loses it.
    fn replace(&mut self, file: FileIdentity, other: FileIdentity) -> Result<(), String> {
        let (from, to) = (self.path(file), self.path(other));
        let mut changes = Vec::new();
        for (file, gone) in [(file, &from), (other, &to)] {
            let mut paths = self.moving.get(&file).cloned().unwrap_or_default();
            paths.retain(|path| path != gone);
            changes.push((file, paths));
        }
        if let Some((_, paths)) = changes.first_mut() {
            paths.push(to.clone());
        }
        self.perform(&Operation::Rename { from, to, mode: RenameMode::Replace }, changes)
    }

    /// Exchanges a name of `one` with a name of `other`.
    fn exchange(&mut self, one: FileIdentity, other: FileIdentity) -> Result<(), String> {
        let (from, to) = (self.path(one), self.path(other));
        let changes = [(one, &to), (other, &from)].map(|(file, name)| {
            let mut paths = self.moving.get(&file).cloned().unwrap_or_default();
            if let Some(first) = paths.first_mut() {
                first.clone_from(name);
            }
            (file, paths)
        });
        let changes = changes.to_vec();
        self.perform(&Operation::Rename { from, to, mode: RenameMode::Exchange }, changes)
    }

    fn link(&mut self, prng: &mut Prng, file: FileIdentity) -> Result<(), String> {
        let (from, to) = (self.path(file), self.vacant(folder(prng)));
        let mut paths = self.moving.get(&file).cloned().unwrap_or_default();
        paths.push(to.clone());
        self.perform(&Operation::Link { from, to }, vec![(file, paths)])
    }

    fn unlink(&mut self, file: FileIdentity) -> Result<(), String> {
        let path = self.path(file);
        let mut paths = self.moving.get(&file).cloned().unwrap_or_default();
        paths.retain(|other| *other != path);
        self.perform(&Operation::Unlink { path }, vec![(file, paths)])
    }

    fn fsync(&mut self, file: FileIdentity) -> Result<(), String> {
        self.fsync_at(self.path(file), file)
    }

    fn fsync_at(&mut self, path: String, file: FileIdentity) -> Result<(), String> {
        let sync = Operation::Sync(Durable::File(FileTarget::Path(path)));
        let answer = self.subject.perform(&sync);
        answer.map_err(|errno| format!("{sync:?} of a thread's own file failed: {errno}"))?;
        self.life.promise(file, self.stage.device.position());
        Ok(())
    }
}
