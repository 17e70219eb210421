//! The undo file: every run of bytes that a repair changes, with its bytes before and after the
//! repair.
//!
//! Owns: the format, writing it durably, and the checks of a file that is read. Does **not** own:
//! the order of writes to the volume (`apply`).
//!
//! ```text
//!  header     128 bytes: magic, version, superblock_bytes, uuid, device_bytes, runs, body_bytes,
//!             plan digest, digest of all run digests, leaves_damage u32, zeros, digest of the
//!             header
//!  run        offset u64, length u32, zero u32, digest of the run, old bytes, new bytes
//!  …          the runs in ascending order, without overlap
//! ```
//!
//! All numbers are big-endian.
//!
//! # Invariants
//!
//! - **U1** The first run is the sector of the superblock, whether the repair changes this sector
//!   or not.
//! - **U2** The file is made durable and read back completely before the first write to the volume.
//! - **U3** No part of a file is used before the whole file was verified. Each run is verified
//!   again when it is read.
//! - **U4** A run whose old and new bytes are equal is a witness: an apply does not write it. If
//!   the volume differs there, another program has changed the volume.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use uuid::Uuid;
use xfs_device::BlockDevice;

use crate::digest::{DIGEST_BYTES, Digest, Digester};
use crate::error::{RepairError, Result};
use crate::overlay::{Change, MOST_RUN_BYTES, RepairOverlay, SECTOR_BYTES};

const MAGIC: [u8; 8] = *b"FXFSUNDO";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 128;
/// The number of bytes of the header that its digest covers: all those before the digest.
const SEALED_BYTES: usize = HEADER_BYTES - DIGEST_BYTES;
const RUN_HEADER_BYTES: usize = 32;

/// The facts about a volume and its repair that the header of an undo file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) uuid: Uuid,
    pub(crate) device_bytes: u64,
    pub(crate) superblock_bytes: u32,
    pub(crate) plan: Digest,
    /// Whether the plan leaves damage, or parts that could not be checked.
    pub(crate) leaves_damage: bool,
}

/// An undo file that was verified whole.
#[derive(Debug)]
pub struct UndoFile {
    file: File,
    identity: Identity,
    runs: Vec<Entry>,
}

/// The place of one run: its offset on the volume, and that in the undo file.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The byte offset of the run on the volume.
    offset: u64,
    length: u32,
    /// The byte offset of the run's header in the undo file.
    at: u64,
    /// Whether the repair changes bytes of the run. Witnesses and the superblock may stay the same.
    is_changed: bool,
}

/// A run that was read from an undo file.
pub(crate) struct UndoRun {
    pub(crate) offset: u64,
    pub(crate) old: Vec<u8>,
    pub(crate) new: Vec<u8>,
}

impl UndoFile {
    /// Writes the changes of an overlay to `file`, which is empty, and makes the file durable.
    /// `witnesses` are the offsets of sectors from which an apply sees whether another program has
    /// written to the volume since. Sectors that the repair changes are always compared, and need
    /// no witness.
    pub(crate) fn write(
        file: File,
        identity: Identity,
        overlay: &RepairOverlay,
        witnesses: &BTreeSet<u64>,
    ) -> Result<Self> {
        let mut writer = Writer::begin(&file, identity)?;
        writer.superblock(overlay)?;
        let superblock_bytes = u64::from(identity.superblock_bytes);
        let witnesses = witnesses.range(superblock_bytes..);
        let mut witnesses = witnesses.map(|at| *at..*at + SECTOR_BYTES as u64).peekable();
        overlay.for_each_change(superblock_bytes, &mut |change| {
            if change.offset < superblock_bytes {
                return Ok(());
            }
            let end = change.offset + change.old.len() as u64;
            while let Some(range) = witnesses.next_if(|range| range.start < end) {
                // A change that covers the witness is one itself.
                if range.end <= change.offset {
                    writer.witness(overlay, &range)?;
                }
            }
            writer.run(change)
        })?;
        for range in witnesses {
            writer.witness(overlay, &range)?;
        }
        writer.finish()?;
        // U2: durable before the first write to the volume, and read back whole.
        file.sync_all().map_err(RepairError::UndoFile)?;
        Self::open(file)
    }

    /// Opens an undo file and verifies all of it (U3).
    ///
    /// # Errors
    ///
    /// [`RepairError::Refused`] if any byte of the file is damaged or missing, and
    /// [`RepairError::UndoFile`] if the file cannot be read.
    pub fn open(file: File) -> Result<Self> {
        let file_bytes = file.metadata().map_err(RepairError::UndoFile)?.len();
        let header = Header::read(&file)?;
        let mut undo = Self { file, identity: header.identity, runs: Vec::new() };
        let mut digester = Digester::default();
        let mut at = HEADER_BYTES as u64;
        let mut end = 0;
        for number in 0..header.runs {
            if at >= file_bytes {
                return Err(refused("is cut short"));
            }
            let (run, digest) = undo.read_at(at)?;
            digester.add(&digest.0);
            let length = run.old.len() as u64;
            let is_first = number == 0;
            let is_superblock = run.offset == 0 && length == u64::from(header.superblock_bytes());
            // U1: the first run, and no other, is the sector of the superblock.
            if is_first != is_superblock || (!is_first && run.offset < end) {
                return Err(refused("has its runs out of order"));
            }
            end = run.offset + length;
            if end > header.identity.device_bytes {
                return Err(refused("has a run past the end of the volume"));
            }
            let length = u32::try_from(length).expect("a run has at most 64 KiB");
            let is_changed = run.old != run.new;
            undo.runs.push(Entry { offset: run.offset, length, at, is_changed });
            at += RUN_HEADER_BYTES as u64 + 2 * u64::from(length);
        }
        if digester.finish() != header.runs_digest || at != file_bytes || undo.runs.is_empty() {
            return Err(refused("does not have the runs that its header names"));
        }
        Ok(undo)
    }

    /// Returns the UUID of the volume.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.identity.uuid
    }

    /// Returns the length of the device in bytes.
    #[must_use]
    pub fn device_bytes(&self) -> u64 {
        self.identity.device_bytes
    }

    /// Returns the digest of the plan that the file belongs to.
    #[must_use]
    pub fn plan_digest(&self) -> Digest {
        self.identity.plan
    }

    /// Returns whether the volume is clean after the repair.
    #[must_use]
    pub fn leaves_clean(&self) -> bool {
        !self.identity.leaves_damage
    }

    /// Returns the number of runs, that of the superblock included.
    #[must_use]
    pub fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// Returns the number of bytes in the runs that the repair changes. Sectors that are only
    /// compared do not count.
    #[must_use]
    pub fn changed_bytes(&self) -> u64 {
        let changed = self.runs.iter().filter(|run| run.is_changed);
        changed.map(|run| u64::from(run.length)).sum()
    }

    /// Reads a run and verifies it.
    pub(crate) fn run(&self, index: usize) -> Result<UndoRun> {
        let entry = self.runs.get(index).expect("the caller counts the runs");
        let (run, _) = self.read_at(entry.at)?;
        // U3: verified again when it is read.
        if run.offset != entry.offset || run.old.len() as u64 != u64::from(entry.length) {
            return Err(refused("was changed while it was read"));
        }
        Ok(run)
    }

    fn read_at(&self, at: u64) -> Result<(UndoRun, Digest)> {
        let mut header = [0; RUN_HEADER_BYTES];
        read_exact(&self.file, &mut header, at)?;
        let mut fields = Fields(&header);
        let (offset, length, zero) = (fields.u64(), fields.u32(), fields.u32());
        let digest = fields.digest();
        let length = usize::try_from(length).ok().filter(|length| *length <= MOST_RUN_BYTES);
        let length = length.filter(|length| *length > 0 && zero == 0);
        let length = length.ok_or_else(|| refused("has a damaged run"))?;
        let (mut old, mut new) = (vec![0; length], vec![0; length]);
        read_exact(&self.file, &mut old, at + RUN_HEADER_BYTES as u64)?;
        read_exact(&self.file, &mut new, at + (RUN_HEADER_BYTES + length) as u64)?;
        let run = UndoRun { offset, old, new };
        if offset.checked_add(length as u64).is_none()
            || digest_of(Change { offset, old: &run.old, new: &run.new }) != digest
        {
            return Err(refused("has a damaged run"));
        }
        Ok((run, digest))
    }
}

/// The header of an undo file.
struct Header {
    identity: Identity,
    runs: u64,
    body_bytes: u64,
    runs_digest: Digest,
}

impl Header {
    fn superblock_bytes(&self) -> u32 {
        self.identity.superblock_bytes
    }

    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.extend_from_slice(&self.identity.superblock_bytes.to_be_bytes());
        bytes.extend_from_slice(self.identity.uuid.as_bytes());
        for number in [self.identity.device_bytes, self.runs, self.body_bytes] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(&self.identity.plan.0);
        bytes.extend_from_slice(&self.runs_digest.0);
        bytes.extend_from_slice(&u32::from(self.identity.leaves_damage).to_be_bytes());
        bytes.resize(SEALED_BYTES, 0);
        let digest = Digest::of(&bytes);
        bytes.extend_from_slice(&digest.0);
        bytes.try_into().expect("the fields fill the header")
    }

    fn read(file: &File) -> Result<Self> {
        let mut bytes = [0; HEADER_BYTES];
        match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(refused("is not an undo file of ferroxfs"));
            }
            Err(error) => return Err(RepairError::UndoFile(error)),
        }
        let (sealed, digest) = bytes.split_at(SEALED_BYTES);
        let mut fields = Fields(sealed);
        if fields.take(MAGIC.len()) != MAGIC {
            return Err(refused("is not an undo file of ferroxfs"));
        }
        if Digest::of(sealed).0 != digest {
            return Err(refused("has a damaged header"));
        }
        let version = fields.u32();
        if version != VERSION {
            return Err(refused(&format!(
                "has version {version}, which this ferroxfs cannot read"
            )));
        }
        let superblock_bytes = fields.u32();
        let uuid = Uuid::from_slice(fields.take(16)).expect("a UUID has 16 bytes");
        let (device_bytes, runs, body_bytes) = (fields.u64(), fields.u64(), fields.u64());
        let plan = fields.digest();
        let runs_digest = fields.digest();
        let leaves_damage = fields.u32() != 0;
        let identity = Identity { uuid, device_bytes, superblock_bytes, plan, leaves_damage };
        let file_bytes = file.metadata().map_err(RepairError::UndoFile)?.len();
        if body_bytes.checked_add(HEADER_BYTES as u64) != Some(file_bytes) {
            return Err(refused("is cut short"));
        }
        Ok(Self { identity, runs, body_bytes, runs_digest })
    }
}

/// Writes an undo file run by run. The header comes last.
struct Writer<'a> {
    out: io::BufWriter<&'a File>,
    file: &'a File,
    header: Header,
    digester: Digester,
}

impl<'a> Writer<'a> {
    fn begin(file: &'a File, identity: Identity) -> Result<Self> {
        let header =
            Header { identity, runs: 0, body_bytes: 0, runs_digest: Digest([0; DIGEST_BYTES]) };
        let mut writer =
            Self { out: io::BufWriter::new(file), file, header, digester: Digester::default() };
        // The room of the header holds no magic number until all runs are written.
        writer.put(&[0; HEADER_BYTES])?;
        writer.header.body_bytes = 0;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.header.body_bytes += bytes.len() as u64;
        self.out.write_all(bytes).map_err(RepairError::UndoFile)
    }

    fn run(&mut self, change: Change<'_>) -> Result<()> {
        let digest = digest_of(change);
        self.digester.add(&digest.0);
        self.header.runs += 1;
        let length = u32::try_from(change.old.len()).expect("a run has at most 64 KiB");
        self.put(&change.offset.to_be_bytes())?;
        self.put(&length.to_be_bytes())?;
        self.put(&[0; 4])?;
        self.put(&digest.0)?;
        self.put(change.old)?;
        self.put(change.new)
    }

    /// Writes the run of the superblock's sector (U1).
    fn superblock(&mut self, overlay: &RepairOverlay) -> Result<()> {
        let length = self.header.identity.superblock_bytes as usize;
        let (mut old, mut new) = (vec![0; length], vec![0; length]);
        overlay.read_below(0, &mut old)?;
        read_device(overlay, 0, &mut new)?;
        self.run(Change { offset: 0, old: &old, new: &new })
    }

    /// Writes a witness: a run that the repair does not change, and by which a later apply notices
    /// writes of other programs (U4).
    fn witness(&mut self, overlay: &RepairOverlay, range: &Range<u64>) -> Result<()> {
        let mut bytes = [0; SECTOR_BYTES];
        overlay.read_below(range.start, &mut bytes)?;
        self.run(Change { offset: range.start, old: &bytes, new: &bytes })
    }

    fn finish(mut self) -> Result<()> {
        self.out.flush().map_err(RepairError::UndoFile)?;
        self.header.runs_digest = self.digester.finish();
        self.file.write_all_at(&self.header.encode(), 0).map_err(RepairError::UndoFile)
    }
}

/// The fixed fields of a header that are not decoded yet.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at_checked(count).expect("the header has all its fields");
        self.0 = rest;
        taken
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().expect("four bytes were taken"))
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take(8).try_into().expect("eight bytes were taken"))
    }

    fn digest(&mut self) -> Digest {
        Digest(self.take(DIGEST_BYTES).try_into().expect("the bytes of a digest were taken"))
    }
}

fn digest_of(change: Change<'_>) -> Digest {
    let mut digester = Digester::default();
    digester.add(&change.offset.to_be_bytes());
    digester.add(&(change.old.len() as u64).to_be_bytes());
    digester.add(change.old);
    digester.add(change.new);
    digester.finish()
}

/// Reads bytes of a device. An error names the offset.
pub(crate) fn read_device(device: &dyn BlockDevice, offset: u64, buffer: &mut [u8]) -> Result<()> {
    device.read_at(buffer, offset).map_err(|error| RepairError::Io { offset, error })
}

fn read_exact(file: &File, buffer: &mut [u8], at: u64) -> Result<()> {
    file.read_exact_at(buffer, at).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => refused("is cut short"),
        _ => RepairError::UndoFile(error),
    })
}

fn refused(why: &str) -> RepairError {
    RepairError::Refused(format!("the undo file {why}"))
}

#[cfg(test)]
mod tests;
