//! Puts logical volumes together from the physical volumes that are at hand.
//!
//! Owns: the choice of the valid metadata, and the list of missing physical volumes. The metadata
//! with the highest sequence number is valid: a physical volume that was absent during a change has
//! an older state of it.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::device::{Column, LogicalDevice, MappedSegment};
use super::group::{LogicalVolume, Segment, SegmentLayout, SnapshotRole, VolumeGroup};
use super::read;
use crate::device::SharedDevice;
use crate::signature::{self, Contents};
use crate::text::printable;

/// A physical volume that is at hand. The first sector of the device is that of the physical
/// volume.
struct PhysicalDevice {
    id: String,
    device: SharedDevice,
}

/// The volume groups of the physical volumes that are at hand.
#[derive(Default)]
pub(crate) struct VolumeGroups {
    devices: Vec<PhysicalDevice>,
    groups: Vec<VolumeGroup>,
}

/// A logical volume that can be read.
pub(crate) struct AssembledVolume {
    /// The name of the volume group and the name of the logical volume: `VG/LV`.
    pub(crate) name: String,
    pub(crate) device: SharedDevice,
    pub(crate) contents: Contents,
}

/// The reason why a logical volume cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// No volume group at hand has the logical volume.
    #[error("has no logical volume {name}; {}", known(.found))]
    NotFound {
        /// The requested name.
        name: String,
        /// The names of the logical volumes that were found instead.
        found: Vec<String>,
    },
    /// The logical volume has a layout that ferroxfs does not read.
    #[error("the logical volume {name} has the layout {layout}, which ferroxfs does not read")]
    Layout {
        /// The name of the logical volume.
        name: String,
        /// The layout, as LVM names it.
        layout: String,
    },
    /// Physical volumes of the logical volume are missing.
    #[error("the logical volume {name} needs other physical volumes: {}", missing.join(", "))]
    Missing {
        /// The name of the logical volume.
        name: String,
        /// The UUIDs of the missing physical volumes.
        missing: Vec<String>,
    },
    /// The metadata of the logical volume has impossible values.
    #[error("the logical volume {name} has damaged metadata")]
    Damaged {
        /// The name of the logical volume.
        name: String,
    },
}

fn known(found: &[String]) -> String {
    if found.is_empty() { "it has none".to_owned() } else { format!("it has {}", found.join(", ")) }
}

impl VolumeGroups {
    /// Adds the physical volume that `device` starts with. Returns `false` if there is none.
    pub(crate) fn add(&mut self, device: SharedDevice) -> io::Result<bool> {
        let Some(volume) = read(&*device, 0)? else { return Ok(false) };
        if self.devices.iter().any(|other| other.id == volume.id) {
            // A second copy of one physical volume, as in a mirror: the first one counts.
            return Ok(true);
        }
        self.devices.push(PhysicalDevice { id: volume.id, device });
        let Some(group) = volume.group else { return Ok(true) };
        match self.groups.iter_mut().find(|other| other.id == group.id) {
            Some(other) if other.sequence >= group.sequence => {}
            Some(other) => *other = group,
            None => self.groups.push(group),
        }
        Ok(true)
    }

    /// Returns the volume groups with a physical volume at hand.
    pub(crate) fn groups(&self) -> &[VolumeGroup] {
        &self.groups
    }

    /// Returns every visible logical volume that can be read, with the kind of data in it.
    pub(crate) fn readable(&self) -> io::Result<Vec<AssembledVolume>> {
        let mut volumes = Vec::new();
        for group in &self.groups {
            for volume in &group.volumes {
                let Ok(mut volume) = self.assemble(group, volume) else { continue };
                // A device that was cut off can lack the start of a volume.
                let Ok(contents) = signature::detect(&*volume.device, 0) else { continue };
                volume.contents = contents;
                volumes.push(volume);
            }
        }
        Ok(volumes)
    }

    /// Returns the logical volume that `name` names: `VG/LV`, or `LV` if only one group has it.
    pub(crate) fn volume(&self, name: &str) -> Result<AssembledVolume, VolumeError> {
        let all = || {
            let pairs = |group: &'_ VolumeGroup| {
                let names = group.volumes.iter().map(|volume| full_name(group, volume));
                names.collect::<Vec<_>>()
            };
            self.groups.iter().flat_map(pairs).collect()
        };
        let name = name.strip_prefix("/dev/").unwrap_or(name);
        let mut matching = self.groups.iter().flat_map(|group| {
            let is_named = move |volume: &&LogicalVolume| match name.split_once('/') {
                Some((of, short)) => group.name == of && volume.name == short,
                None => volume.name == name,
            };
            group.volumes.iter().filter(is_named).map(move |volume| (group, volume))
        });
        match (matching.next(), matching.next()) {
            (Some((group, volume)), None) => self.assemble(group, volume),
            _ => Err(VolumeError::NotFound { name: printable(name), found: all() }),
        }
    }

    fn assemble(
        &self,
        group: &VolumeGroup,
        volume: &LogicalVolume,
    ) -> Result<AssembledVolume, VolumeError> {
        let name = full_name(group, volume);
        if volume.snapshot == SnapshotRole::Store {
            return Err(VolumeError::Layout { name, layout: "snapshot".to_owned() });
        }
        let Some(segments) = &volume.segments else { return Err(VolumeError::Damaged { name }) };
        let (mut pieces, mut missing) = (Vec::new(), Vec::new());
        for segment in segments {
            if let SegmentLayout::Other(layout) = &segment.layout {
                return Err(VolumeError::Layout { name, layout: printable(layout) });
            }
            match self.piece(group, segment, &mut missing) {
                Some(piece) => pieces.push(piece),
                None if missing.is_empty() => return Err(VolumeError::Damaged { name }),
                None => {}
            }
        }
        if !missing.is_empty() {
            return Err(VolumeError::Missing { name, missing });
        }
        let is_origin = volume.snapshot == SnapshotRole::Origin;
        let device = LogicalDevice::new(pieces, volume.is_writable && !is_origin);
        let contents = Contents::Unknown;
        Ok(AssembledVolume { name, device: Arc::new(device), contents })
    }

    /// Converts a segment of the metadata to a segment of the logical device: finds its physical
    /// volumes, and converts extents to bytes. Returns `None` for impossible numbers, and if a
    /// physical volume is missing; the UUID of that physical volume is then added to `missing`.
    fn piece(
        &self,
        group: &VolumeGroup,
        segment: &Segment,
        missing: &mut Vec<String>,
    ) -> Option<MappedSegment> {
        let SegmentLayout::Striped { stripes, stripe_bytes } = &segment.layout else { return None };
        let mut columns = Vec::new();
        for stripe in stripes {
            let member = group.members.iter().find(|member| member.name == stripe.member)?;
            let Some(found) = self.devices.iter().find(|device| device.id == member.id) else {
                let id = printable(&member.id);
                if !missing.contains(&id) {
                    missing.push(id);
                }
                continue;
            };
            let before = stripe.extent.checked_mul(group.extent_bytes)?;
            let start = before.checked_add(member.start)?;
            columns.push(Column { device: Arc::clone(&found.device), start });
        }
        let start = segment.start.checked_mul(group.extent_bytes)?;
        let length_bytes = segment.count.checked_mul(group.extent_bytes)?;
        start.checked_add(length_bytes)?;
        let is_whole = columns.len() == stripes.len();
        is_whole.then_some(MappedSegment {
            start,
            length_bytes,
            stripe_bytes: *stripe_bytes,
            columns,
        })
    }
}

fn full_name(group: &VolumeGroup, volume: &LogicalVolume) -> String {
    format!("{}/{}", printable(&group.name), printable(&volume.name))
}

impl fmt::Debug for VolumeGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VolumeGroups").field("groups", &self.groups).finish_non_exhaustive()
    }
}
