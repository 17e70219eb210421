//! Volumes inside containers that are not partitions: LVM, software RAID, bcache.
//!
//! Owns: the names of these volumes, and the advice how to open them. This module is for volumes
//! that ferroxfs cannot open by itself. ferroxfs opens linear and striped logical volumes of LVM
//! (`lvm`), and RAID members that hold all data of their array.

use std::fmt;
use std::io;

use crate::device::BlockDevice;
use crate::lvm;
use crate::partition::PartitionTable;
use crate::signature::{self, Contents};
use crate::text::printable;

/// The largest number of volumes that a message about a container names.
const MAX_NAMED: usize = 16;

/// A container of volumes that ferroxfs cannot open by itself.
#[derive(Clone, Debug)]
pub struct Container {
    /// The kind of container: LVM, a member of a RAID, or a backing device of bcache.
    pub contents: Contents,
    /// The name of the LVM volume group. `None` if the container is not LVM, or the name is
    /// unknown.
    pub group: Option<String>,
    /// The known volumes in the container.
    pub volumes: Vec<InnerVolume>,
    /// The partition table, and the number of the partition that is the container. `None` if the
    /// container is not in a partition.
    pub partition: Option<(PartitionTable, u32)>,
    is_described_elsewhere: bool,
}

/// A volume in a container.
#[derive(Clone, Debug)]
pub struct InnerVolume {
    /// The name of the volume.
    pub name: String,
    /// Offset in bytes of the volume on the device. `None` if the volume is not contiguous there.
    pub start: Option<u64>,
    /// The kind of data in the volume; only known for a volume that is contiguous on the device.
    pub contents: Contents,
}

impl Container {
    /// Reads the container at byte `start`, whose kind is `contents`. Returns `None` if there is no
    /// container of this kind.
    pub(crate) fn read(
        device: &dyn BlockDevice,
        start: u64,
        contents: Contents,
    ) -> io::Result<Option<Self>> {
        let mut container = Self {
            contents,
            group: None,
            volumes: Vec::new(),
            partition: None,
            is_described_elsewhere: false,
        };
        match contents {
            Contents::Lvm => {
                let Some(volume) = lvm::read(device, start)? else { return Ok(None) };
                container.is_described_elsewhere = volume.is_described_elsewhere;
                if let Some(group) = volume.group {
                    container.group = Some(printable(&group.name));
                    let inner = group.volumes.iter().map(|inner| {
                        let at = group.contiguous_start(inner, &volume.id);
                        let at = at.and_then(|at| at.checked_add(start));
                        InnerVolume::inspect(device, printable(&inner.name), at)
                    });
                    container.volumes = inner.collect::<io::Result<_>>()?;
                }
            }
            Contents::Raid | Contents::Bcache => {
                let at = data_of(device, start, contents)?;
                container.volumes.push(InnerVolume::inspect(device, "its data".to_owned(), at)?);
            }
            _ => return Ok(None),
        }
        Ok(Some(container))
    }

    /// Returns the volumes that contain XFS and are contiguous, each with its offset in bytes.
    fn xfs(&self) -> impl Iterator<Item = (&InnerVolume, u64)> {
        let is_xfs = self.volumes.iter().filter(|volume| volume.contents == Contents::Xfs);
        is_xfs.filter_map(|volume| Some((volume, volume.start?)))
    }

    /// Returns advice for the user how to open a volume of the container.
    #[must_use]
    pub fn hint(&self) -> String {
        let mut readable = self.xfs();
        if let Some((volume, start)) = readable.next() {
            let others = if readable.next().is_some() {
                " (each of the other volumes has its own offset)"
            } else {
                ""
            };
            let name = self.path_of(volume);
            return match self.contents {
                Contents::Lvm => {
                    format!("open the logical volume {name} with --offset {start}{others}")
                }
                Contents::Raid => format!(
                    "assemble the array (mdadm --assemble) and open it, or open this copy of its \
                     data with --offset {start}"
                ),
                _ => format!(
                    "open /dev/bcacheN, or open the data without the contents of the cache with \
                     --offset {start}"
                ),
            };
        }
        match (&self.group, self.contents) {
            (Some(_), _) if self.volumes.is_empty() => {
                "the volume group has no logical volumes; create one (lvcreate) and make XFS in it"
                    .to_owned()
            }
            (Some(group), _) => {
                let volume = self.volumes.first().map_or("NAME", |volume| &volume.name);
                format!(
                    "activate the volume group and open a logical volume: vgchange -ay {group}, \
                     then /dev/{group}/{volume} (attach an image file first: losetup -fP IMAGE)"
                )
            }
            (None, Contents::Lvm) if self.is_described_elsewhere => {
                "activate its volume group (vgchange -ay) and open a logical volume, \
                 /dev/GROUP/NAME"
                    .to_owned()
            }
            (None, Contents::Lvm) => {
                "open a logical volume (/dev/GROUP/NAME); this physical volume belongs to no \
                 volume group, or its metadata is lost (vgcfgrestore)"
                    .to_owned()
            }
            (None, Contents::Raid) => {
                "assemble the array (mdadm --assemble) and open it: /dev/mdN".to_owned()
            }
            (None, _) => "register it and open /dev/bcacheN".to_owned(),
        }
    }

    fn path_of(&self, volume: &InnerVolume) -> String {
        match &self.group {
            Some(group) => format!("{group}/{}", volume.name),
            None => volume.name.clone(),
        }
    }
}

impl InnerVolume {
    fn inspect(device: &dyn BlockDevice, name: String, start: Option<u64>) -> io::Result<Self> {
        let start = start.filter(|start| *start < device.length_bytes());
        let contents = match start {
            Some(start) => signature::detect(device, start)?,
            None => Contents::Unknown,
        };
        Ok(Self { name, start, contents })
    }
}

impl fmt::Display for InnerVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, start, contents } = self;
        match start {
            Some(start) => write!(f, "{name}: {contents} at {start}"),
            None => write!(f, "{name}: not in one piece, or on another device"),
        }
    }
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.partition {
            Some((table, number)) => {
                write!(f, "has no XFS partition; partition {number} of its {} is ", table.kind)?;
            }
            None => f.write_str("is not an XFS volume: it holds ")?,
        }
        write!(f, "{}", self.contents)?;
        match (&self.group, self.contents) {
            (Some(group), _) => write!(f, " of the volume group {group}, with ")?,
            (None, Contents::Lvm) => return Ok(()),
            (None, _) => f.write_str("; ")?,
        }
        if self.volumes.is_empty() {
            return f.write_str("no logical volumes");
        }
        for (index, volume) in self.volumes.iter().take(MAX_NAMED).enumerate() {
            let before = if index == 0 { "" } else { "; " };
            write!(f, "{before}{volume}")?;
        }
        match self.volumes.len().saturating_sub(MAX_NAMED) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// Returns the offset of the data inside a bcache backing device, or inside a RAID member that
/// contains all data of the array. Returns `None` for other containers.
fn data_of(device: &dyn BlockDevice, start: u64, contents: Contents) -> io::Result<Option<u64>> {
    let place = start.saturating_add(4096);
    let mut block = [0; 256];
    if place.saturating_add(256) > device.length_bytes() {
        return Ok(None);
    }
    device.read_at(&mut block, place)?;
    let number = |at: usize, length: usize| {
        let bytes = block.get(at..).and_then(|rest| rest.get(..length)).unwrap_or_default();
        bytes.iter().rev().fold(0_u64, |number, byte| (number << 8) | u64::from(*byte))
    };
    let sectors = match contents {
        // Only members of level 1 have all of the data, and those of levels linear and 0 with one
        // disk.
        Contents::Raid => {
            let (level, disks) = (number(72, 4) as u32, number(92, 4));
            let is_whole = level == 1 || (disks == 1 && matches!(level, 0 | u32::MAX));
            is_whole.then(|| number(128, 8))
        }
        // The data of version 1 starts after 16 sectors, that of version 4 where the header says.
        _ => match number(16, 8) {
            1 => Some(16),
            4 => Some(number(200, 8)),
            _ => None,
        },
    };
    let bytes = sectors.and_then(|sectors| sectors.checked_mul(512));
    Ok(bytes.and_then(|bytes| bytes.checked_add(start)))
}
