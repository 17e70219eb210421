//! Partition tables: which ranges of a disk are partitions.
//!
//! Owns: choosing the table that counts and the form in which it is told. Does **not** own what a
//! partition holds beyond its [`Contents`], or the choice among partitions
//! ([`find_filesystem`](crate::find_filesystem)).
//!
//! A table is an allegation: the number of entries read is bounded, entries that do not lie on the
//! disk are dropped, and a chain of extended partitions ends after [`MAX_PARTITIONS`].

mod gpt;
mod mbr;

use std::fmt;
use std::io;

use uuid::Uuid;

use crate::device::BlockDevice;
use crate::signature::{self, Contents};

/// Partitions that are read from a table; what comes after them is not looked at.
pub const MAX_PARTITIONS: usize = 1024;

/// How the disk is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionTable {
    /// The kind of table.
    pub kind: TableKind,
    /// The logical sector size that it counts in.
    pub sector_size: u32,
    /// The partitions, by number.
    pub partitions: Vec<Partition>,
}

/// The kind of a partition table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// GUID partition table.
    Gpt,
    /// Master boot record, extended partitions included.
    Mbr,
}

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number as the kernel counts: from 1.
    pub number: u32,
    /// First byte on the disk.
    pub start: u64,
    /// Bytes, as the table has it: on a truncated disk they may not all be there.
    pub length_bytes: u64,
    /// What the table says that it is for.
    pub purpose: Purpose,
    /// The name in the table; empty in an MBR.
    pub name: String,
    /// What it seems to hold.
    pub contents: Contents,
}

/// The type that a table gives a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The GUID of its type.
    Gpt(Uuid),
    /// The byte of its type.
    Mbr(u8),
}

impl TableKind {
    /// The name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gpt => "GPT",
            Self::Mbr => "MBR",
        }
    }
}

impl fmt::Display for TableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, start, length_bytes, contents, .. } = self;
        write!(f, "partition {number}: {length_bytes} bytes at {start}, {contents}")?;
        if self.name.is_empty() { Ok(()) } else { write!(f, ", named {:?}", self.name) }
    }
}

impl PartitionTable {
    /// The partition of this number.
    #[must_use]
    pub fn find(&self, number: u32) -> Option<&Partition> {
        self.partitions.iter().find(|partition| partition.number == number)
    }

    /// The partitions that hold XFS.
    pub fn xfs_partitions(&self) -> impl Iterator<Item = &Partition> {
        self.partitions.iter().filter(|partition| partition.contents == Contents::Xfs)
    }
}

/// Why a disk's partition table could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// The device failed.
    #[error("the partition table cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The disk is marked as having a GPT, but neither copy of it is sound.
    #[error("the disk has a GUID partition table, but both copies of it are damaged")]
    DamagedGpt,
}

/// Reads the partition table of a disk, or `None` if it has none.
///
/// # Errors
///
/// What the device says, and a GPT of which no copy is sound.
pub fn partitions(device: &dyn BlockDevice) -> Result<Option<PartitionTable>, PartitionError> {
    let mut sizes = vec![device.sector_size()];
    if device.sector_size() == 512 {
        sizes.push(4096);
    }
    for &sector_size in &sizes {
        if let Some(entries) = gpt::read(device, sector_size)? {
            return Ok(Some(PartitionTable::new(device, TableKind::Gpt, sector_size, entries)?));
        }
    }
    let mut first = None;
    for &sector_size in &sizes {
        let Some(entries) = mbr::read(device, sector_size)? else { break };
        if entries.iter().any(|entry| entry.purpose == Purpose::Mbr(mbr::PROTECTIVE)) {
            return Err(PartitionError::DamagedGpt);
        }
        let table = PartitionTable::new(device, TableKind::Mbr, sector_size, entries)?;
        // An MBR does not say what it counts in. The sector size under which XFS appears is right;
        // where it appears under none, the device's own is as good as any.
        if table.xfs_partitions().next().is_some() {
            return Ok(Some(table));
        }
        first = first.or(Some(table));
    }
    Ok(first)
}

/// An entry of a table, in sectors.
struct TableEntry {
    number: u32,
    first_sector: u64,
    sectors: u64,
    purpose: Purpose,
    name: String,
}

impl PartitionTable {
    /// Turns sectors into bytes, looks into each partition, and drops what is not on the disk.
    fn new(
        device: &dyn BlockDevice,
        kind: TableKind,
        sector_size: u32,
        entries: Vec<TableEntry>,
    ) -> io::Result<Self> {
        let mut partitions = Vec::with_capacity(entries.len());
        for entry in entries {
            let start = entry.first_sector.checked_mul(sector_size.into());
            let length = entry.sectors.checked_mul(sector_size.into());
            let (Some(start), Some(length_bytes)) = (start, length) else { continue };
            if start.checked_add(length_bytes).is_none() {
                continue;
            }
            partitions.push(Partition {
                number: entry.number,
                start,
                length_bytes,
                purpose: entry.purpose,
                name: entry.name,
                contents: signature::detect(device, start)?,
            });
        }
        Ok(Self { kind, sector_size, partitions })
    }
}

#[cfg(test)]
pub(crate) mod tests;
