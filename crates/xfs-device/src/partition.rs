//! Partition tables: the ranges of a disk that are partitions.
//!
//! Owns: choosing the valid partition table, its form in memory, and writing a new one. Does
//! **not** own the data in a partition, of which only the kind is detected ([`Contents`]), or the
//! choice among partitions ([`find_filesystem`](crate::find_filesystem)).
//!
//! A table is not trusted. The number of entries read is bounded, entries outside the disk are
//! dropped, and a chain of extended partitions ends after [`MAX_PARTITIONS`].

mod gpt;
mod mbr;
mod writing;

use std::fmt;
use std::io;
use std::str::FromStr;

use uuid::Uuid;

use crate::device::BlockDevice;
use crate::signature::{self, Contents};
pub use writing::{NewPartition, NewTable, TableError};

/// The largest number of partitions that are read from a table. Later partitions are ignored.
pub const MAX_PARTITIONS: usize = 1024;

/// The division of a disk into partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionTable {
    /// The kind of table.
    pub kind: TableKind,
    /// The logical sector size in bytes, which is the unit of the table's numbers.
    pub sector_size: u32,
    /// The partitions, sorted by number.
    pub partitions: Vec<Partition>,
}

/// The kind of a partition table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// GUID partition table.
    Gpt,
    /// Master boot record, including extended partitions.
    Mbr,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The partition number. As in the kernel, numbers start at 1.
    pub number: u32,
    /// Offset in bytes of the partition on the disk.
    pub start: u64,
    /// The length of the partition according to the table. On a truncated disk some bytes may be
    /// missing.
    pub length_bytes: u64,
    /// The type of the partition according to the table.
    pub purpose: PartitionType,
    /// The name of the partition in the table; empty in an MBR.
    pub name: String,
    /// The kind of data in the partition, detected by magic number.
    pub contents: Contents,
}

/// The type of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionType {
    /// The GUID that a GPT gives as the type.
    Gpt(Uuid),
    /// The byte that an MBR gives as the type.
    Mbr(u8),
}

/// The way in which a user names a partition of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionChoice {
    /// The number of the partition, counted from 1.
    Number(u32),
    /// The name in the table, which only one partition may have.
    Name(String),
}

/// The reason why a partition table does not have the partition that a user names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChoiceError {
    /// No partition has this number or name.
    Missing,
    /// Several partitions have this name.
    Ambiguous,
}

/// The text is neither a name nor the number of a partition: it is empty, or the number is too
/// large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither the number of a partition nor a name")]
pub struct NotAPartition;

impl From<u32> for PartitionChoice {
    fn from(number: u32) -> Self {
        Self::Number(number)
    }
}

impl FromStr for PartitionChoice {
    type Err = NotAPartition;

    /// Digits are a number, anything else is a name.
    fn from_str(text: &str) -> Result<Self, NotAPartition> {
        if text.is_empty() {
            return Err(NotAPartition);
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().map(Self::Number).map_err(|_| NotAPartition);
        }
        Ok(Self::Name(text.to_owned()))
    }
}

impl fmt::Display for PartitionChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => write!(f, "{name:?}"),
        }
    }
}

impl TableKind {
    /// Returns the name of the table's kind for messages.
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
    /// Returns the partition with this number, or `None` if the table has no such partition.
    #[must_use]
    pub fn find(&self, number: u32) -> Option<&Partition> {
        self.partitions.iter().find(|partition| partition.number == number)
    }

    /// Returns the partition that a user names.
    ///
    /// # Errors
    ///
    /// No partition has the number or name, or several have the name.
    pub fn choose(&self, choice: &PartitionChoice) -> Result<&Partition, ChoiceError> {
        match choice {
            PartitionChoice::Number(number) => self.find(*number).ok_or(ChoiceError::Missing),
            PartitionChoice::Name(name) => {
                let mut named = self.named(name);
                let first = named.next().ok_or(ChoiceError::Missing)?;
                named.next().map_or(Ok(first), |_| Err(ChoiceError::Ambiguous))
            }
        }
    }

    /// Returns the partitions with this name.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &Partition> {
        self.partitions.iter().filter(move |partition| partition.name == name)
    }

    /// Returns the partitions that hold XFS.
    pub fn xfs_partitions(&self) -> impl Iterator<Item = &Partition> {
        self.partitions.iter().filter(|partition| partition.contents == Contents::Xfs)
    }
}

/// The reason why a partition table could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// The device returned an error.
    #[error("the partition table cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The disk is marked as having a GPT, but neither copy of it is valid.
    #[error("the disk has a GUID partition table, but both copies of it are damaged")]
    DamagedGpt,
}

/// Reads the partition table of a disk. Returns `None` if the disk has none.
///
/// # Errors
///
/// The error of the device. `PartitionError::DamagedGpt` for a GPT without a valid copy.
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
        if entries.iter().any(|entry| entry.purpose == PartitionType::Mbr(mbr::PROTECTIVE)) {
            return Err(PartitionError::DamagedGpt);
        }
        let table = PartitionTable::new(device, TableKind::Mbr, sector_size, entries)?;
        // An MBR does not say in which sector size it counts. The size under which XFS appears is
        // right. If it appears under none, the size of the device is used.
        if table.xfs_partitions().next().is_some() {
            return Ok(Some(table));
        }
        first = first.or(Some(table));
    }
    Ok(first)
}

/// An entry of a partition table. Its start and length are in sectors.
struct TableEntry {
    number: u32,
    first_sector: u64,
    sectors: u64,
    purpose: PartitionType,
    name: String,
}

impl PartitionTable {
    /// Creates the table: converts sectors into bytes, detects the contents of each partition, and
    /// leaves out impossible entries.
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
