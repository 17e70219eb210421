//! Reading blocks of the volume, and collecting findings.
//!
//! Owns: the device, the geometry and the head of the log, as every pass needs them; and the list
//! of findings of one thread.

use std::io;

use xfs_device::BlockDevice;
use xfs_format::{
    AgNumber, BlockKind, Check, Corruption, DiskAddr, Geometry, InodeNumber, Lsn, Structure,
    Superblock, VerifyContext,
};

use crate::budget::ReadBudget;
use crate::code::Code;
use crate::finding::{Finding, Place};
use crate::hash::Keyed;
use crate::metadata_files::MetadataFiles;

/// The volume that is checked. Nothing here writes (C2 of the crate).
#[derive(Clone, Copy)]
pub(crate) struct Volume<'a> {
    pub(crate) device: &'a dyn BlockDevice,
    /// The device of a realtime section that does not lie on the data device, if it was given.
    pub(crate) realtime: Option<&'a dyn BlockDevice>,
    pub(crate) superblock: &'a Superblock,
    /// The LSN of the end of the log; `None` if the log could not be read.
    pub(crate) log_head: Option<Lsn>,
    /// The keyed hash function for facts. The sums of such hashes show whether two structures hold
    /// the same facts (`sums.rs`).
    pub(crate) hash: Keyed,
    /// The budget of reads: how many more blocks of forks the check may read.
    pub(crate) reads: &'a ReadBudget,
    /// The files of the realtime section and of quota.
    pub(crate) metadata: &'a MetadataFiles,
}

impl<'a> Volume<'a> {
    pub(crate) fn geometry(&self) -> &'a Geometry {
        &self.superblock.geometry
    }

    /// Returns the inodes of quota of users, groups and projects.
    pub(crate) fn quota_inodes(&self) -> [Option<InodeNumber>; 3] {
        self.metadata.quota
    }

    /// Returns the groups that begin before the end of the device. If the device is too short, the
    /// superblock has more groups.
    pub(crate) fn groups(&self) -> impl Iterator<Item = AgNumber> + use<> {
        let count = self.geometry().count_groups_on_device(self.device.length_bytes());
        (0..count).map(AgNumber)
    }

    pub(crate) fn context(&self) -> VerifyContext<'a> {
        VerifyContext { geometry: self.geometry(), log_head: self.log_head }
    }

    /// Reads bytes from a disk address.
    pub(crate) fn read(&self, at: DiskAddr, bytes: &mut [u8]) -> io::Result<()> {
        let offset = at.byte_offset().ok_or(io::ErrorKind::UnexpectedEof)?;
        self.device.read_at(bytes, offset)
    }

    /// Announces to the device that these bytes will be read soon.
    pub(crate) fn prefetch(&self, at: DiskAddr, length_bytes: u64) {
        if let Some(offset) = at.byte_offset() {
            self.device.prefetch(offset, length_bytes);
        }
    }

    /// Reads and verifies a block, and reports a finding if the block is damaged. Returns how far
    /// the contents can be used: if only a field is wrong, the rest of the block is still evidence.
    pub(crate) fn read_block(
        &self,
        at: DiskAddr,
        kind: BlockKind,
        bytes: &mut [u8],
        findings: &mut Findings,
    ) -> Evidence {
        if let Err(error) = self.read(at, bytes) {
            findings.unreadable(kind.structure(), Place::of_address(at, self.geometry()), &error);
            return Evidence::None;
        }
        match kind.verify(bytes, at, &self.context()) {
            Ok(()) => Evidence::Sound,
            Err(corruption) => {
                let evidence = Evidence::left_by(&corruption);
                findings.corrupt(&corruption, self.geometry());
                evidence
            }
        }
    }
}

/// How far the contents of a block can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// All contents of the block can be used.
    Sound,
    /// The block is the right one and has its checksum, but a field is wrong. The other fields can
    /// be used.
    Doubtful,
    /// No contents of the block can be used.
    None,
}

impl Evidence {
    /// Returns how far the contents of a block can be used after a check of the block has failed
    /// with `corruption`.
    pub(crate) fn left_by(corruption: &Corruption) -> Self {
        match corruption.check() {
            Check::Magic { .. }
            | Check::Checksum { .. }
            | Check::ForeignUuid { .. }
            | Check::MisplacedBlock { .. }
            | Check::Truncated { .. } => Self::None,
            _ => Self::Doubtful,
        }
    }
}

/// The findings of one thread.
#[derive(Default)]
pub(crate) struct Findings {
    list: Vec<Finding>,
    /// Number of findings that were left out because the list was full.
    dropped: u64,
    /// Whether the list keeps no findings. It keeps none in the second pass over the volume,
    /// because the first pass has reported them.
    is_silent: bool,
}

/// The most findings that one thread keeps.
const MOST_FINDINGS: usize = 1 << 17;

impl Findings {
    /// Creates a list that keeps no findings.
    pub(crate) fn silent() -> Self {
        Self { is_silent: true, ..Self::default() }
    }

    pub(crate) fn push(&mut self, finding: Finding) {
        if self.is_silent {
            return;
        }
        if self.list.len() < MOST_FINDINGS {
            self.list.push(finding);
        } else {
            self.dropped += 1;
        }
    }

    pub(crate) fn corrupt(&mut self, corruption: &Corruption, geometry: &Geometry) {
        self.push(Finding::of(corruption, geometry));
    }

    pub(crate) fn unreadable(&mut self, structure: Structure, place: Place, error: &io::Error) {
        self.push(Finding::new(Code::unreadable(structure), place, error.to_string()));
    }

    /// Returns an empty list that keeps findings if this list does.
    pub(crate) fn empty_alike(&self) -> Self {
        Self { is_silent: self.is_silent, ..Self::default() }
    }

    /// Takes all findings out of this list and returns them. A silent list, which keeps no
    /// findings, stays silent.
    pub(crate) fn take(&mut self) -> Self {
        let empty = self.empty_alike();
        std::mem::replace(self, empty)
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.list.append(&mut other.list);
        self.dropped += other.dropped;
    }

    /// Returns the findings, and the number of findings that were left out because the list was
    /// full.
    pub(crate) fn into_parts(self) -> (Vec<Finding>, u64) {
        (self.list, self.dropped)
    }
}
