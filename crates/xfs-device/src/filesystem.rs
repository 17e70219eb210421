//! Finds the XFS volume on a device: the whole device, or a partition of it.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use crate::container::Container;
use crate::device::{BlockDevice, SharedDevice};
use crate::partition::{Partition, PartitionError, PartitionTable, partitions};
use crate::signature::{self, Contents};
use crate::window::WindowDevice;

/// Base-2 logarithms of the sector sizes that XFS supports.
const SECTOR_LOGS: std::ops::RangeInclusive<u32> = 9..=15;
/// Magic numbers of the second and the third sector of an allocation group.
const GROUP_MAGICS: [[u8; 4]; 2] = [*b"XAGF", *b"XAGI"];

/// The part of a device in which to look for the volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// The only XFS volume: the whole device, or the one partition with XFS.
    #[default]
    Auto,
    /// The partition with this number, if it holds XFS.
    Partition(u32),
    /// The bytes from this offset to the end of the device, if an XFS volume starts at the offset.
    Offset(u64),
}

/// A volume found on a device.
pub struct LocatedVolume {
    /// The device that contains exactly the bytes of the volume.
    pub device: SharedDevice,
    /// The offset of the volume on the searched device in bytes.
    pub start: u64,
    /// The partition that contains the volume, or `None`.
    pub partition: Option<Partition>,
}

/// The reason why no volume was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// The device returned an error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The partition table cannot be used.
    #[error(transparent)]
    Table(#[from] PartitionError),
    /// A partition was requested, but the device has no partition table.
    #[error("has no partition table, so there is no partition {number}: it holds {found}")]
    NoTable {
        /// The requested partition number.
        number: u32,
        /// The kind of data on the device.
        found: Contents,
    },
    /// The requested partition is not in the table.
    #[error("has no partition {number}; its {} has {}", table.kind, list(&table.partitions))]
    NoSuchPartition {
        /// The requested partition number.
        number: u32,
        /// The partition table of the device.
        table: PartitionTable,
    },
    /// The requested offset is past the end of the device.
    #[error("byte {offset} is past the end: the device has {length_bytes} bytes")]
    OffsetPastEnd {
        /// The requested offset in bytes.
        offset: u64,
        /// The length of the device in bytes.
        length_bytes: u64,
    },
    /// The device has neither a partition table nor XFS.
    #[error("is not an XFS volume: {}", holds(.0))]
    NotXfs(Contents),
    /// The device is or has a container of volumes, which ferroxfs cannot open by itself.
    #[error("{0}")]
    Container(Box<Container>),
    /// The device has a partition table, but no partition contains XFS.
    #[error("has no XFS partition; its {} has {}", .0.kind, list(&.0.partitions))]
    NoXfsPartition(PartitionTable),
    /// More than one partition contains XFS.
    #[error("has several XFS partitions: {}", list_xfs(.0))]
    Several(PartitionTable),
}

impl FindError {
    /// Returns advice for the user about the error, or `None` if there is none.
    #[must_use]
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Container(container) => Some(container.hint().into()),
            Self::NotXfs(contents) => hint_at(*contents).map(Cow::Borrowed),
            _ => self.plain_hint().map(Cow::Borrowed),
        }
    }

    const fn plain_hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Several(_) => "choose one with --partition N",
            Self::NoSuchPartition { .. } | Self::NoTable { .. } => {
                "choose an existing partition, or give the offset of the volume with --offset BYTES"
            }
            Self::Table(PartitionError::DamagedGpt) => {
                "give the offset of the volume with --offset BYTES"
            }
            Self::NoXfsPartition(_) => {
                "if the first sector of a volume is damaged, choose its partition with --partition \
                 N"
            }
            _ => return None,
        })
    }
}

/// Returns advice for a device that contains `contents` instead of XFS, or `None` if there is none.
const fn hint_at(contents: Contents) -> Option<&'static str> {
    Some(match contents {
        Contents::Ewf => "convert it to a raw image (ewfexport -f raw)",
        contents if contents.is_disk_image() => {
            "convert it (qemu-img convert -O raw) or attach it as a block device (qemu-nbd)"
        }
        Contents::XfsMetadump => "restore it to an image (ferroxfs mdrestore FILE IMAGE)",
        Contents::XfsDump => "restore it into a mounted volume with xfsrestore",
        Contents::Gzip | Contents::Xz | Contents::Zstd | Contents::Bzip2 | Contents::Lz4 => {
            "if it is an archive, ferroxfs mkfs --from or import reads it; decompress an image first"
        }
        Contents::Tar | Contents::Cpio => {
            "make a volume from it (ferroxfs mkfs --from ARCHIVE -d size=BYTES IMAGE), or copy it \
             into one (ferroxfs import ARCHIVE IMAGE)"
        }
        Contents::Luks => "open it (cryptsetup open IMAGE NAME) and use /dev/mapper/NAME",
        Contents::BitLocker => {
            "open it (cryptsetup open --type bitlk IMAGE NAME) and use /dev/mapper/NAME"
        }
        Contents::Empty => "make a volume in it: ferroxfs mkfs -d file,size=BYTES IMAGE",
        Contents::Zeros => {
            "if a volume starts later in the file, give its offset with --offset BYTES; if its first \
             sectors are damaged, ferroxfs check looks for a copy of the superblock, and ferroxfs \
             repair restores it"
        }
        Contents::Unknown => {
            "if the first sectors of a volume are damaged, ferroxfs check looks for a copy of the \
             superblock, and ferroxfs repair restores it"
        }
        _ => return None,
    })
}

fn holds(contents: &Contents) -> String {
    match contents {
        Contents::Empty => "it is empty".to_owned(),
        contents => format!("it holds {contents}"),
    }
}

fn list(partitions: &[Partition]) -> String {
    if partitions.is_empty() {
        return "no partitions".to_owned();
    }
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn list_xfs(table: &PartitionTable) -> String {
    table.xfs_partitions().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Finds the XFS volume on a device.
///
/// # Errors
///
/// A [`FindError`], which says what was found instead.
pub fn find_filesystem(
    device: SharedDevice,
    selection: Selection,
) -> Result<LocatedVolume, FindError> {
    match selection {
        Selection::Auto => find_only(device),
        Selection::Partition(number) => {
            let Some(table) = partitions(&*device)? else {
                let found = signature::detect(&*device, 0)?;
                return Err(FindError::NoTable { number, found });
            };
            match table.find(number).cloned() {
                Some(partition) => refuse_others(partition_of(device, partition)),
                None => Err(FindError::NoSuchPartition { number, table }),
            }
        }
        Selection::Offset(0) => refuse_others(LocatedVolume { device, start: 0, partition: None }),
        Selection::Offset(offset) => {
            let length_bytes = device.length_bytes();
            if offset >= length_bytes {
                return Err(FindError::OffsetPastEnd { offset, length_bytes });
            }
            let window = WindowDevice::new(device, offset, length_bytes - offset);
            refuse_others(LocatedVolume {
                device: Arc::new(window),
                start: offset,
                partition: None,
            })
        }
    }
}

/// Returns an error if the volume does not contain XFS. A volume of which only the first sector is
/// damaged is accepted, because opening it reports the damage.
fn refuse_others(found: LocatedVolume) -> Result<LocatedVolume, FindError> {
    let (device, start) = (&found.device, found.start);
    match signature::detect(&**device, 0)? {
        Contents::Xfs => Ok(found),
        other @ (Contents::Lvm | Contents::Raid | Contents::Bcache) => {
            // Offsets count from the first byte of the image.
            let mut container = Container::read(&**device, 0, other)?;
            for volume in container.iter_mut().flat_map(|container| &mut container.volumes) {
                volume.start = volume.start.and_then(|at| at.checked_add(start));
            }
            Err(container
                .map_or(FindError::NotXfs(other), |found| FindError::Container(Box::new(found))))
        }
        Contents::Zeros | Contents::Unknown if has_group_headers(&*found.device)? => Ok(found),
        other => Err(FindError::NotXfs(other)),
    }
}

/// Returns whether the headers of an allocation group are found after the first sector, as on an
/// XFS volume whose first sector is damaged.
///
/// # Errors
///
/// The error of the device.
pub fn has_group_headers(device: &dyn BlockDevice) -> io::Result<bool> {
    for sector_log in SECTOR_LOGS {
        let sector = 1_u64 << sector_log;
        let mut found = [[0; 4]; 2];
        for (place, magic) in [sector, 2 * sector].into_iter().zip(&mut found) {
            if place + 4 <= device.length_bytes() {
                device.read_at(magic, place)?;
            }
        }
        if found == GROUP_MAGICS {
            return Ok(true);
        }
    }
    Ok(false)
}

fn find_only(device: SharedDevice) -> Result<LocatedVolume, FindError> {
    let contents = signature::detect(&*device, 0)?;
    if contents == Contents::Xfs {
        return Ok(LocatedVolume { device, start: 0, partition: None });
    }
    if contents.is_disk_image() {
        return Err(FindError::NotXfs(contents));
    }
    let Some(table) = partitions(&*device)? else {
        return refuse_others(LocatedVolume { device, start: 0, partition: None });
    };
    let mut candidates: Vec<Partition> = table.xfs_partitions().cloned().collect();
    match (candidates.pop(), candidates.is_empty()) {
        (Some(partition), true) => Ok(partition_of(device, partition)),
        (Some(_), false) => Err(FindError::Several(table)),
        (None, _) => Err(no_xfs(&*device, table)?),
    }
}

/// Returns the error for a disk without an XFS partition. The error names the first container of
/// volumes, or the partition table if no partition is a container.
fn no_xfs(device: &dyn BlockDevice, table: PartitionTable) -> io::Result<FindError> {
    for partition in &table.partitions {
        let number = partition.number;
        if let Some(mut container) = Container::read(device, partition.start, partition.contents)? {
            container.partition = Some((table, number));
            return Ok(FindError::Container(Box::new(container)));
        }
    }
    Ok(FindError::NoXfsPartition(table))
}

fn partition_of(device: SharedDevice, partition: Partition) -> LocatedVolume {
    let window = WindowDevice::new(device, partition.start, partition.length_bytes);
    LocatedVolume { device: Arc::new(window), start: partition.start, partition: Some(partition) }
}

#[cfg(test)]
mod tests;
