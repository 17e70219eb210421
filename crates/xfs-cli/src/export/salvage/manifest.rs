//! The manifest of a salvage: a line of JSON for each file, and the totals as the last line.
//!
//! The file is written in place, line by line, so that an interrupted run leaves the lines about
//! all files so far. Such a run has a line `stopped` instead of the totals, or no last line if it
//! was killed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;
use xfs_salvage::{FileReport, InodeSource, Totals};

use crate::damaged::volume::DamagedVolume;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::FileKind;
use crate::json::{self, Object};
use crate::output::{check_no_image, check_no_volume};
use crate::terminal::names;

/// The name and version of the manifest's format, which each line has under the key `schema`.
const SCHEMA: &str = "ferroxfs.salvage/1";

/// An open manifest.
pub(super) struct Manifest {
    path: PathBuf,
    out: BufWriter<File>,
    error: Option<io::Error>,
}

impl Manifest {
    /// Creates the manifest at `path`. Fails if that file is one of the files `read`, holds a
    /// volume, or is no regular file.
    pub(super) fn open(path: &Path, read: &[&Path]) -> Result<Self, Failure> {
        check_no_image(path, read.iter().copied())?;
        check_no_volume(path)?;
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            let shown = names::in_message(path.as_os_str().as_encoded_bytes());
            let message = format!("{shown}: the manifest must be a regular file");
            return Err(Failure::new(Exit::Failed, message));
        }
        let file = File::create(path).map_err(|error| Failure::host(path.as_os_str(), &error))?;
        Ok(Self { path: path.to_owned(), out: BufWriter::new(file), error: None })
    }

    /// Writes the line of one file. An error is remembered, and `finish` returns it.
    pub(super) fn write(&mut self, report: &FileReport) {
        if self.error.is_none() {
            self.error = self.line(&describe(report)).err();
        }
    }

    fn line(&mut self, object: &Object) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, object)?;
        self.out.write_all(b"\n")
    }

    /// Writes a line that says that the run was stopped, and why. The caller reports the failure
    /// that stopped the run. An error in writing this line is ignored, because it must not replace
    /// that failure.
    pub(super) fn stop(mut self, why: &str) {
        let mut object = Object::new();
        object.insert("schema".to_owned(), SCHEMA.into());
        object.insert("stopped".to_owned(), why.into());
        if self.error.is_none() {
            _ = self.line(&object).and_then(|()| self.out.flush());
        }
    }

    /// Writes the last line, with the totals that [`totals`] returns, and flushes all lines.
    pub(super) fn finish(mut self, totals: &Object) -> Result<(), Failure> {
        let mut object = Object::new();
        object.insert("schema".to_owned(), SCHEMA.into());
        object.extend(totals.clone());
        let written = match self.error.take() {
            Some(error) => Err(error),
            None => self.line(&object).and_then(|()| self.out.flush()),
        };
        written.map_err(|error| Failure::host(self.path.as_os_str(), &error))
    }
}

/// Returns the totals as JSON: the numbers of files, how much of the log was replayed, and the
/// remarks about the volume.
pub(super) fn totals(totals: &Totals, volume: &DamagedVolume) -> Object {
    let mut object = Object::new();
    for (key, value) in counts(totals) {
        object.insert(key.to_owned(), value.into());
    }
    object.insert("log".to_owned(), volume.replay.word().into());
    let notes = volume.notes.iter().map(|note| Value::from(note.as_str()));
    object.insert("notes".to_owned(), notes.collect());
    object
}

/// Returns the totals, each with its key in the manifest.
fn counts(totals: &Totals) -> [(&'static str, u64); 8] {
    [
        ("complete", totals.complete),
        ("doubtful", totals.doubtful),
        ("partial", totals.partial),
        ("not_copied", totals.not_copied),
        ("lost", totals.lost),
        ("orphans", totals.orphans),
        ("deleted", totals.deleted),
        ("missing_bytes", totals.missing_bytes),
    ]
}

fn describe(report: &FileReport) -> Object {
    let mut object = Object::new();
    object.insert("schema".to_owned(), SCHEMA.into());
    json::insert_name(&mut object, "path", &report.path);
    let mut insert = |key: &str, value: Value| object.insert(key.to_owned(), value);
    insert("ino", report.inode.0.into());
    insert("type", json::kind_name(FileKind::of(report.mode.into())).into());
    insert("size", report.size.into());
    insert("status", report.status.word().into());
    insert("origin", report.origin.word().into());
    insert("inode_source", report.inode_source.map(InodeSource::word).into());
    let missing = report
        .missing
        .iter()
        .map(|range| Value::from(vec![Value::from(range.start), Value::from(range.end)]));
    insert("missing", missing.collect());
    insert("reasons", report.reasons.iter().map(|text| Value::from(text.as_str())).collect());
    if let Some((directory, name)) = &report.last_name {
        insert("last_parent", directory.0.into());
        json::insert_name(&mut object, "last_name", name);
    }
    object
}
