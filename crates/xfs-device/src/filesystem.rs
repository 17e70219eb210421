//! Finds the XFS volume on a device: the whole device, a partition, a logical volume of LVM, or a
//! mirror (a member of a RAID 1 array).
//!
//! Owns: the choice and its errors. Does **not** own: looking through the device ([`finder`]).

mod finder;

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use crate::container::Container;
use crate::device::{BlockDevice, SharedDevice};
use crate::lvm::VolumeError;
use crate::partition::{
    ChoiceError, Partition, PartitionChoice, PartitionError, PartitionTable, partitions,
};
use crate::raid::{RaidError, VolumeNote};
use crate::signature::{self, Contents};
use crate::window::WindowDevice;
use finder::Finder;

/// Base-2 logarithms of the sector sizes that XFS supports.
const SECTOR_LOGS: std::ops::RangeInclusive<u32> = 9..=15;
/// Magic numbers of the second and the third sector of an allocation group.
const GROUP_MAGICS: [[u8; 4]; 2] = [*b"XAGF", *b"XAGI"];

/// The part of a device in which to look for the volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// The only XFS volume: the whole device, the one partition with XFS, or the one logical volume
    /// with XFS.
    #[default]
    Auto,
    /// The partition with this number or name, if it holds XFS.
    Partition(PartitionChoice),
    /// The bytes from this offset to the end of the device, if an XFS volume starts at the offset.
    Offset(u64),
    /// The logical volume of LVM with this name: `VG/LV`, or `LV` if only one group has it.
    Volume(String),
}

/// A volume found on a device.
pub struct LocatedVolume {
    /// The device that contains exactly the bytes of the volume.
    pub device: SharedDevice,
    /// The offset of the volume on the searched device in bytes. 0 for a logical volume, which need
    /// not be contiguous.
    pub start: u64,
    /// The partition that contains the volume; `None` if the volume is not in a partition.
    pub partition: Option<Partition>,
    /// The name, `VG/LV`, of the logical volume of LVM that holds XFS. `None` if the XFS volume is
    /// not in a logical volume.
    pub logical_volume: Option<String>,
    /// Notes that the user must know, such as a stale mirror.
    pub notes: Vec<VolumeNote>,
}

impl LocatedVolume {
    /// Returns the volume that fills all of `device`. This device starts at byte `start` of the
    /// searched device.
    #[must_use]
    pub fn whole(device: SharedDevice, start: u64) -> Self {
        Self { device, start, partition: None, logical_volume: None, notes: Vec::new() }
    }
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
    #[error("has no partition table, so there is no partition {choice}: it holds {found}")]
    NoTable {
        /// The requested partition.
        choice: PartitionChoice,
        /// The kind of data on the device.
        found: Contents,
    },
    /// The requested partition is not in the table.
    #[error("has no partition {choice}; its {} has {}", table.kind, list(&table.partitions))]
    NoSuchPartition {
        /// The requested partition.
        choice: PartitionChoice,
        /// The partition table of the device.
        table: PartitionTable,
    },
    /// Several partitions have the requested name.
    #[error("has several partitions named {name:?}: {}", list_of(table.named(name)))]
    SeveralNamed {
        /// The requested name.
        name: String,
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
    /// The device or a partition is a container of volumes (LVM, RAID, bcache), and ferroxfs cannot
    /// open a volume in it by itself.
    #[error("{0}")]
    Container(Box<Container>),
    /// The device has a partition table, but no partition contains XFS.
    #[error("has no XFS partition; its {} has {}", .0.kind, list(&.0.partitions))]
    NoXfsPartition(PartitionTable),
    /// More than one partition contains XFS.
    #[error("has several XFS partitions: {}", list_xfs(.0))]
    Several(PartitionTable),
    /// More than one logical volume contains XFS.
    #[error("has several XFS logical volumes: {}", .0.join(", "))]
    SeveralVolumes(Vec<String>),
    /// A logical volume cannot be read.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The logical volume must not be written.
    #[error("the logical volume {0} is read-only, or has snapshots, which a write would damage")]
    ReadOnlyVolume(String),
    /// A member of a software RAID cannot be used by itself.
    #[error(transparent)]
    Raid(#[from] RaidError),
    /// Other devices were given, but the volume is in no volume group and no array.
    #[error("is in no volume group and no software RAID, so it has no other members")]
    NoMembers,
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
            Self::Several(_) | Self::SeveralNamed { .. } => "choose one with --partition N",
            Self::SeveralVolumes(_) | Self::Volume(VolumeError::NotFound { .. }) => {
                "choose one with --volume VG/LV"
            }
            Self::Volume(VolumeError::Missing { .. }) => {
                "name the images or disks with the other physical volumes: --member FILE, once for \
                 each"
            }
            Self::Volume(VolumeError::Layout { .. }) => {
                "activate it and open its device: vgchange -ay VG, then /dev/VG/LV (attach an image \
                 file first: losetup -fP IMAGE)"
            }
            Self::ReadOnlyVolume(_) => {
                "activate it and open its device for writing: vgchange -ay VG, then /dev/VG/LV"
            }
            Self::Raid(RaidError::Write) => {
                "assemble the array and open it: mdadm --assemble, then /dev/mdN; if the array is \
                 given up, erase its superblock first: mdadm --zero-superblock"
            }
            Self::Raid(RaidError::NotActive | RaidError::Incomplete) => {
                "open another member of the array, or name it with --member FILE"
            }
            Self::Raid(RaidError::Stranger { .. }) | Self::NoMembers => {
                "leave out --member for devices that do not belong to the volume"
            }
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
        Contents::Parquet => {
            "name the image; ferroxfs diff compares the Parquet file of a scan with an image or \
             another scan"
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
    list_of(partitions)
}

fn list_of<'a>(partitions: impl IntoIterator<Item = &'a Partition>) -> String {
    partitions.into_iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn list_xfs(table: &PartitionTable) -> String {
    list_of(table.xfs_partitions())
}

/// Finds the XFS volume in that part of a device which `selection` names.
///
/// # Errors
///
/// A [`FindError`], which says what was found instead.
pub fn find_filesystem(
    device: SharedDevice,
    selection: &Selection,
) -> Result<LocatedVolume, FindError> {
    find_filesystem_among(device, &[], selection)
}

/// Finds the XFS volume in that part of a device which `selection` names. `members` are the other
/// devices of the volume group or software RAID that `device` belongs to.
///
/// # Errors
///
/// A [`FindError`], which says what was found instead.
pub fn find_filesystem_among(
    device: SharedDevice,
    members: &[SharedDevice],
    selection: &Selection,
) -> Result<LocatedVolume, FindError> {
    let finder = Finder { disk: Arc::clone(&device), members };
    match selection {
        Selection::Auto => finder.find_only(device),
        Selection::Volume(name) => finder.find_volume(name),
        Selection::Partition(choice) => {
            let partition = find_partition(&*device, choice)?;
            finder.enter(partition_of(device, partition))
        }
        Selection::Offset(0) => finder.enter(LocatedVolume::whole(device, 0)),
        Selection::Offset(offset) => {
            let (offset, length_bytes) = (*offset, device.length_bytes());
            if offset >= length_bytes {
                return Err(FindError::OffsetPastEnd { offset, length_bytes });
            }
            let window = WindowDevice::new(device, offset, length_bytes - offset);
            finder.enter(LocatedVolume::whole(Arc::new(window), offset))
        }
    }
}

/// Returns the partition of a device that a user names.
///
/// # Errors
///
/// [`FindError::NoTable`], [`FindError::NoSuchPartition`] and [`FindError::SeveralNamed`]; the
/// errors of the device and of the table.
pub fn find_partition(
    device: &dyn BlockDevice,
    choice: &PartitionChoice,
) -> Result<Partition, FindError> {
    let choice = choice.clone();
    let Some(table) = partitions(device)? else {
        let found = signature::detect(device, 0)?;
        return Err(FindError::NoTable { choice, found });
    };
    match (table.choose(&choice).cloned(), choice) {
        (Ok(partition), _) => Ok(partition),
        (Err(ChoiceError::Ambiguous), PartitionChoice::Name(name)) => {
            Err(FindError::SeveralNamed { name, table })
        }
        (Err(_), choice) => Err(FindError::NoSuchPartition { choice, table }),
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
    let start = partition.start;
    LocatedVolume { partition: Some(partition), ..LocatedVolume::whole(Arc::new(window), start) }
}

#[cfg(test)]
mod tests;
