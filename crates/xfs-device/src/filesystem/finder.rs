//! Looks for the volume on a disk and on the other members of its volume group or array.
//!
//! If the disk or a partition is a mirror (a member of a RAID 1 array), the search continues in its
//! data, and then in a logical volume in that data. Deeper nesting is ignored.

use std::sync::Arc;

use super::{FindError, LocatedVolume, has_group_headers, no_xfs, partition_of};
use crate::container::Container;
use crate::device::{BlockDevice, SharedDevice};
use crate::lvm::{AssembledVolume, VolumeGroups};
use crate::partition::{Partition, partitions};
use crate::raid::{self, RaidError};
use crate::signature::{self, Contents};

/// The search for a volume on a disk.
pub(super) struct Finder<'a> {
    pub(super) disk: SharedDevice,
    /// The other devices of the volume group or of the array.
    pub(super) members: &'a [SharedDevice],
}

impl Finder<'_> {
    /// Finds the only XFS volume of the disk.
    pub(super) fn find_only(&self, device: SharedDevice) -> Result<LocatedVolume, FindError> {
        let contents = signature::detect(&*device, 0)?;
        if contents.is_disk_image() {
            return Err(FindError::NotXfs(contents));
        }
        if contents == Contents::Xfs {
            return self.enter(LocatedVolume::whole(device, 0));
        }
        let Some(table) = partitions(&*device)? else {
            return self.enter(LocatedVolume::whole(device, 0));
        };
        let mut candidates: Vec<Partition> = table.xfs_partitions().cloned().collect();
        match (candidates.pop(), candidates.is_empty()) {
            (Some(partition), true) => self.enter(partition_of(device, partition)),
            (Some(_), false) => Err(FindError::Several(table)),
            (None, _) => match self.in_partition(&device, &table.partitions)? {
                Some(found) => Ok(found),
                None => Err(no_xfs(&*device, table)?),
            },
        }
    }

    /// Finds the only XFS volume in the first partition that is a mirror or a physical volume.
    /// Returns `None` if there is no such partition, or if it is a container without a volume that
    /// can be opened.
    fn in_partition(
        &self,
        device: &SharedDevice,
        partitions: &[Partition],
    ) -> Result<Option<LocatedVolume>, FindError> {
        let is_container = |contents| matches!(contents, Contents::Lvm | Contents::Raid);
        let first = partitions.iter().find(|partition| is_container(partition.contents));
        let Some(partition) = first else { return Ok(None) };
        match self.enter(partition_of(Arc::clone(device), partition.clone())) {
            // The caller's error also names the partition.
            Err(FindError::Container(_)) => Ok(None),
            found => found.map(Some),
        }
    }

    /// If `found` is a mirror or a physical volume, returns the volume inside; otherwise returns
    /// `found`. Fails if the result does not contain XFS. A volume of which only the first sector
    /// is damaged is accepted, because opening it reports the damage.
    pub(super) fn enter(&self, found: LocatedVolume) -> Result<LocatedVolume, FindError> {
        let outer = Arc::clone(&found.device);
        let found = self.enter_mirror(found)?;
        let is_mirror = !Arc::ptr_eq(&outer, &found.device);
        match signature::detect(&*found.device, 0)? {
            Contents::Xfs if self.members.is_empty() || is_mirror => Ok(found),
            Contents::Xfs => Err(FindError::NoMembers),
            Contents::Lvm => self.enter_group(found),
            other @ (Contents::Raid | Contents::Bcache) => Err(container_error(&found, other)?),
            Contents::Zeros | Contents::Unknown if has_group_headers(&*found.device)? => Ok(found),
            other => Err(FindError::NotXfs(other)),
        }
    }

    /// If `found` is a mirror, returns the data of the mirror; otherwise returns `found`.
    fn enter_mirror(&self, found: LocatedVolume) -> Result<LocatedVolume, FindError> {
        let device = &found.device;
        let superblock = match signature::detect(&**device, 0)? {
            Contents::Raid => raid::read(&**device)?,
            contents @ (Contents::Xfs | Contents::Lvm | Contents::Zeros | Contents::Unknown) => {
                let superblock = raid::read_at_end(&**device)?;
                let volume_bytes = match contents {
                    Contents::Xfs => stated_bytes(&**device)?,
                    _ => 0,
                };
                // A volume over these bytes owns them: they are the contents of a file.
                superblock.filter(|superblock| superblock.data_bytes >= volume_bytes)
            }
            _ => None,
        };
        let Some(superblock) = superblock else { return Ok(found) };
        let data = raid::open(Arc::clone(device), superblock, self.members)??;
        let start = found.start.saturating_add(data.start);
        Ok(LocatedVolume { device: data.device, start, notes: data.notes, ..found })
    }

    /// Looks for logical volumes with XFS in all volume groups at hand: the group of the physical
    /// volume `found`, and the groups of the other physical volumes. Returns the only such logical
    /// volume. It is an error if there is none, or if there are several.
    fn enter_group(&self, found: LocatedVolume) -> Result<LocatedVolume, FindError> {
        let mut groups = VolumeGroups::default();
        groups.add(Arc::clone(&found.device))?;
        self.add_all(&mut groups)?;
        let mut volumes = groups.readable()?;
        volumes.retain(|volume| volume.contents == Contents::Xfs);
        match (volumes.pop(), volumes.is_empty()) {
            (Some(volume), true) => self.take(found, volume),
            (Some(last), false) => {
                let mut names: Vec<_> = volumes.into_iter().map(|volume| volume.name).collect();
                names.push(last.name);
                Err(FindError::SeveralVolumes(names))
            }
            (None, _) => Err(container_error(&found, Contents::Lvm)?),
        }
    }

    /// Finds the logical volume with this name.
    pub(super) fn find_volume(&self, name: &str) -> Result<LocatedVolume, FindError> {
        let mut groups = VolumeGroups::default();
        let whole = self.enter_mirror(LocatedVolume::whole(Arc::clone(&self.disk), 0))?;
        groups.add(Arc::clone(&whole.device))?;
        self.add_all(&mut groups)?;
        if groups.groups().is_empty() {
            return Err(FindError::NotXfs(signature::detect(&*self.disk, 0)?));
        }
        let mut volume = groups.volume(name)?;
        volume.contents = signature::detect(&*volume.device, 0)?;
        let is_volume = match volume.contents {
            Contents::Xfs => true,
            Contents::Zeros | Contents::Unknown => has_group_headers(&*volume.device)?,
            _ => false,
        };
        if !is_volume {
            return Err(FindError::NotXfs(volume.contents));
        }
        self.take(whole, volume)
    }

    /// Returns the logical volume `volume` as the result of the search, with the partition and the
    /// notes of `found`. Fails if the disk is open for writing and the logical volume is read-only.
    fn take(
        &self,
        found: LocatedVolume,
        volume: AssembledVolume,
    ) -> Result<LocatedVolume, FindError> {
        if !self.disk.is_read_only() && volume.device.is_read_only() {
            return Err(FindError::ReadOnlyVolume(volume.name));
        }
        let logical_volume = Some(volume.name);
        Ok(LocatedVolume { device: volume.device, start: 0, logical_volume, ..found })
    }

    /// Adds to `groups` the physical volumes in the partitions of the disk, and those on the other
    /// devices in `members`. Fails if a device in `members` is neither a physical volume nor a RAID
    /// member, and none of its partitions is one.
    fn add_all(&self, groups: &mut VolumeGroups) -> Result<(), FindError> {
        self.add_partitions(groups, &self.disk)?;
        for (index, member) in self.members.iter().enumerate() {
            let is_physical = self.add_whole(groups, member)?;
            if !is_physical && !self.add_partitions(groups, member)? {
                return Err(RaidError::Stranger { member: index + 1 }.into());
            }
        }
        Ok(())
    }

    /// Adds the physical volume that fills the device to `groups`. If the device is a mirror, adds
    /// the physical volume that fills the mirror's data. Returns whether the device is a physical
    /// volume or a RAID member.
    fn add_whole(
        &self,
        groups: &mut VolumeGroups,
        device: &SharedDevice,
    ) -> Result<bool, FindError> {
        if groups.add(Arc::clone(device))? {
            return Ok(true);
        }
        match raid::read(&**device)? {
            Some(superblock) => {
                let data = raid::open(Arc::clone(device), superblock, &[])??;
                groups.add(data.device)?;
                Ok(true)
            }
            None => Ok(raid::read_at_end(&**device)?.is_some()),
        }
    }

    /// Adds the physical volumes in the partitions of a device to `groups`. Returns whether at
    /// least one partition is a physical volume or a RAID member.
    fn add_partitions(
        &self,
        groups: &mut VolumeGroups,
        device: &SharedDevice,
    ) -> Result<bool, FindError> {
        let mut has_one = false;
        for partition in partitions(&**device)?.into_iter().flat_map(|table| table.partitions) {
            if matches!(partition.contents, Contents::Lvm | Contents::Raid) {
                let part = partition_of(Arc::clone(device), partition).device;
                has_one |= self.add_whole(groups, &part)?;
            }
        }
        Ok(has_one)
    }
}

/// Returns the error for `found`, a container of the kind `contents` without a volume that can be
/// opened.
fn container_error(found: &LocatedVolume, contents: Contents) -> Result<FindError, FindError> {
    let Some(mut container) = Container::read(&*found.device, 0, contents)? else {
        return Ok(FindError::NotXfs(contents));
    };
    // Offsets count from the first byte of the image.
    for volume in &mut container.volumes {
        volume.start = volume.start.and_then(|at| at.checked_add(found.start));
    }
    Ok(FindError::Container(Box::new(container)))
}

/// Returns the length in bytes that the superblock of the XFS volume at byte 0 states.
fn stated_bytes(device: &dyn BlockDevice) -> std::io::Result<u64> {
    let mut superblock = [0; 16];
    device.read_at(&mut superblock, 0)?;
    let number = |bytes: &[u8]| bytes.iter().fold(0, |n, byte| (n << 8) | u64::from(*byte));
    let [_, _, _, _, block @ .., _, _, _, _, _, _, _, _] = superblock;
    let [_, _, _, _, _, _, _, _, blocks @ ..] = superblock;
    Ok(number(&block).saturating_mul(number(&blocks)))
}
