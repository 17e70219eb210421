//! The quarantine: a copy of everything that a repair with losses gives up or overwrites.
//!
//! Owns: the files in the directory. Does **not** own: which parts are lost (the plan says so).
//!
//! | file | contents |
//! |---|---|
//! | `manifest` | JSON lines: the losses of each action, and the place of each run in `blocks` |
//! | `blocks` | the bytes of all runs, one after the other |
//!
//! Both files are durable before the first write to the volume.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use xfs_repair::{Digest, Rehearsal, RepairError, Result};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::terminal::names;

/// The most bytes that are read at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// An open quarantine.
pub(super) struct Quarantine {
    manifest: File,
    blocks: File,
    folder: File,
}

impl Quarantine {
    /// Creates the directory and its files. A directory that is not empty is refused.
    pub(super) fn open(path: &Path) -> std::result::Result<Self, Failure> {
        let failed = |error| Failure::host(path.as_os_str(), &error);
        match fs::create_dir(path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                if fs::read_dir(path).map_err(failed)?.next().is_some() {
                    let shown = names::in_message(path.as_os_str().as_bytes());
                    let message = format!("{shown}: the quarantine is not empty");
                    return Err(Failure::new(Exit::Failed, message).hint("name a new directory"));
                }
            }
            made => made.map_err(failed)?,
        }
        let create = |name: &str| -> std::result::Result<File, Failure> {
            let file: PathBuf = path.join(name);
            File::create_new(&file).map_err(|error| Failure::host(file.as_os_str(), &error))
        };
        let (manifest, blocks) = (create("manifest")?, create("blocks")?);
        Ok(Self { manifest, blocks, folder: File::open(path).map_err(failed)? })
    }

    /// Copies the losses of a repair and the old bytes of every run that it changes.
    pub(super) fn fill(self, rehearsal: &Rehearsal) -> Result<()> {
        let Self { manifest, blocks, folder } = self;
        let mut copy = Copy {
            manifest: BufWriter::new(&manifest),
            blocks: BufWriter::new(&blocks),
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
        for file in [&blocks, &manifest, &folder] {
            flush(file.sync_all())?;
        }
        Ok(())
    }
}

/// A quarantine that is being filled.
struct Copy<'a> {
    manifest: BufWriter<&'a File>,
    blocks: BufWriter<&'a File>,
    /// The end of the file `blocks`.
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
