//! The quarantine: a copy of everything that a repair with losses gives up or overwrites.
//!
//! Owns: the files in the directory of the quarantine. Does **not** own: the decision which parts
//! are lost, which the plan has.
//!
//! | file | contents |
//! |---|---|
//! | `manifest` | JSON lines: the losses of each action, and the place of each run in `blocks` |
//! | `blocks` | the bytes of all runs (contiguous byte ranges), one after the other |
//!
//! The files have no names before [`publish`](FilledQuarantine::publish), so a run that writes
//! nothing leaves at most an empty directory, which a later run accepts. Both files, their names
//! and the name of the directory are durable before the first write to the volume. Only the owner
//! may read them, because they have names and contents of the volume.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use serde_json::{Value, json};
use xfs_repair::{Digest, Rehearsal, RepairError, Result};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, StagedFile};
use crate::terminal::names;

/// The largest number of bytes that one read takes.
const CHUNK_BYTES: u64 = 1 << 20;
/// The mode of a new directory.
const FOLDER_MODE: u32 = 0o700;

/// An open quarantine.
pub(super) struct Quarantine {
    manifest: StagedFile,
    blocks: StagedFile,
    /// The directory of the quarantine and its parent. Both are flushed after the files have their
    /// names.
    folders: [File; 2],
}

/// A quarantine whose files are complete and durable, but have no names yet.
pub(super) struct FilledQuarantine(Quarantine);

impl Quarantine {
    /// Creates the directory of the quarantine, and its files. A directory that is not empty is
    /// refused.
    pub(super) fn open(path: &Path) -> std::result::Result<Self, Failure> {
        let failed = |error| Failure::host(path.as_os_str(), &error);
        match DirBuilder::new().mode(FOLDER_MODE).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if fs::read_dir(path).map_err(failed)?.next().is_some() {
                    let shown = names::in_message(path.as_os_str().as_bytes());
                    let message = format!("{shown}: the quarantine is not empty");
                    return Err(Failure::new(Exit::Failed, message).hint("name a new directory"));
                }
            }
            made => made.map_err(failed)?,
        }
        let stage = |name: &str| -> std::result::Result<StagedFile, Failure> {
            let staged = StagedFile::private(&path.join(name)).map_err(failed)?;
            staged.ok_or_else(|| failed(io::ErrorKind::AlreadyExists.into()))
        };
        let (manifest, blocks) = (stage("manifest")?, stage("blocks")?);
        let parent = fs::canonicalize(path).map_err(failed)?;
        let folders = [path, output::parent(&parent)].map(File::open);
        let [folder, parent] = folders;
        Ok(Self { manifest, blocks, folders: [folder.map_err(failed)?, parent.map_err(failed)?] })
    }

    /// Returns the directory of the quarantine.
    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        self.manifest.directory()
    }

    /// Copies all bytes that the repair loses, and the old bytes of every run (a contiguous byte
    /// range) that the repair overwrites.
    pub(super) fn fill(self, rehearsal: &Rehearsal) -> Result<FilledQuarantine> {
        let (manifest, blocks) = (self.manifest.file(), self.blocks.file());
        let mut copy = Copy {
            manifest: BufWriter::new(manifest),
            blocks: BufWriter::new(blocks),
            position: 0,
        };
        let plan = rehearsal.plan();
        copy.line(&json!({"schema": xfs_repair::SCHEMA, "uuid": plan.uuid.to_string()}))?;
        for action in &plan.actions {
            for loss in &action.loses {
                copy.line(&json!({
                    "kind": "loss",
                    "rule": action.rule,
                    "place": xfs_repair::place(&action.place),
                    "inode": loss.inode.map(|inode| inode.0),
                    "what": loss.what,
                }))?;
                for range in &loss.ranges {
                    let mut at = range.start;
                    while at < range.end {
                        let count = (range.end - at).min(CHUNK_BYTES);
                        let mut bytes = vec![0; count as usize];
                        rehearsal.read_before(at, &mut bytes)?;
                        copy.run("freed", at, &bytes)?;
                        at += count;
                    }
                }
            }
        }
        rehearsal.for_each_old_run(&mut |offset, old| copy.run("overwritten", offset, old))?;
        let flush = |result: std::io::Result<()>| result.map_err(RepairError::Quarantine);
        flush(copy.manifest.flush())?;
        flush(copy.blocks.flush())?;
        drop(copy);
        for file in [blocks, manifest] {
            flush(file.sync_all())?;
        }
        Ok(FilledQuarantine(self))
    }
}

impl FilledQuarantine {
    /// Gives the files of the quarantine their names, and makes the names durable.
    pub(super) fn publish(self) -> Result<()> {
        let Quarantine { manifest, blocks, folders } = self.0;
        let published = || -> io::Result<()> {
            blocks.publish_new()?;
            manifest.publish_new()?;
            folders.iter().try_for_each(File::sync_all)
        };
        published().map_err(RepairError::Quarantine)
    }
}

/// A quarantine that is being filled.
struct Copy<'a> {
    manifest: BufWriter<&'a File>,
    blocks: BufWriter<&'a File>,
    /// The length in bytes of the file `blocks` so far, where the next run of bytes is appended.
    position: u64,
}

impl Copy<'_> {
    fn line(&mut self, line: &Value) -> Result<()> {
        writeln!(self.manifest, "{line}").map_err(RepairError::Quarantine)
    }

    fn run(&mut self, kind: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        self.line(&json!({
            "kind": kind,
            "offset": offset,
            "length": bytes.len(),
            "position": self.position,
            "digest": Digest::of(bytes).to_string(),
        }))?;
        self.position += bytes.len() as u64;
        self.blocks.write_all(bytes).map_err(RepairError::Quarantine)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::{FilledQuarantine, Quarantine};

    #[test]
    fn names_of_the_directory_and_in_it_are_flushed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("kept");
        let quarantine = Quarantine::open(&path).unwrap();
        let flushed = quarantine.folders.each_ref().map(|file| file.metadata().unwrap().ino());
        let named = [&path, parent.path()].map(|path| fs::metadata(path).unwrap().ino());
        assert_eq!(flushed, named);
    }

    #[test]
    fn files_have_no_names_before_they_are_published() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("kept");
        drop(Quarantine::open(&path).unwrap());
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        FilledQuarantine(Quarantine::open(&path).unwrap()).publish().unwrap();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 2);
    }
}
