//! Members of a Linux software RAID that hold all data of their array: mirrors of level 1, and the
//! only disk of a linear or striped array.
//!
//! Owns: the superblocks of a member, and which member of an array is up to date. Does **not** own:
//! arrays that spread their data over members.
//!
//! ```text
//! version 1.x, little-endian, 1.0 near the end, 1.1 at byte 0, 1.2 at byte 4096:
//!   0 a92b4efc  4 major 1   8 features   16 UUID of the array   72 level   80 size of the data
//!  92 disks    128 first sector of the data   136 room for data   144 sector of the superblock
//! 152 sectors that are rebuilt   160 number of the member   192 time   200 events   216 sum
//! 220 number of roles   256 roles, 2 bytes each
//! version 0.90, in the order of the CPU, in the last 64 KiB to 128 KiB, as words of 4 bytes:
//!   0 a92b4efc  1 major 0   2 minor 90   5, 13-15 UUID   7 level   8 size in KiB   10 disks
//!  32 time     38 sum   39 events   128 disks of 32 words: 3 role, 4 state
//! 992 this disk
//! ```
//!
//! A member whose superblock is at its end starts with the data itself, so it looks like a plain
//! volume. The superblock is therefore also looked for at the end. If it were missed, a write could
//! reach one member alone and make the mirrors differ.

mod superblock;

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::device::SharedDevice;
use crate::window::WindowDevice;
pub(crate) use superblock::{MemberSuperblock, read, read_at_end};

/// A warning for the user about the array from which the volume is read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VolumeNote {
    /// The volume is read from one mirror of an array, because the user has named no other mirrors.
    OneMirror {
        /// The number of mirrors of the array.
        mirrors: u32,
        /// The number of mirrors that were in the array at the last update of this mirror.
        active: u32,
        /// The event count of the mirror, which rises with each change of the array's state.
        events: u64,
    },
    /// A member is older than the one that the volume is read from.
    StaleMember {
        /// The number of the older member: 0 is the image itself, 1 the first of the other members
        /// that the user named.
        member: usize,
        /// The event count of the older member.
        events: u64,
        /// The event count of the member that the volume is read from.
        newest: u64,
    },
    /// The array was not in sync when the mirror was updated last.
    NotInSync,
}

/// The reason why a member of an array cannot be read by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RaidError {
    /// The array was opened for writing. Writing is refused, because a write to one member would
    /// make the mirrors differ.
    #[error("is one mirror of a software RAID: writing to it alone would make the mirrors differ")]
    Write,
    /// None of the given members is usable: each is a spare or has failed.
    #[error("is a spare or failed member of a software RAID")]
    NotActive,
    /// The data of the member was being rebuilt or reshaped.
    #[error("is a member of a software RAID that was being rebuilt or reshaped")]
    Incomplete,
    /// A device that the user named as another member does not belong to this array.
    #[error("device {member} of the given members belongs to another array or volume group")]
    Stranger {
        /// The number of the device among the other devices that were given, counted from 1.
        member: usize,
    },
}

/// The data of an array, as a device. It is read from one member, which holds all of it.
pub(crate) struct ArrayData {
    pub(crate) device: SharedDevice,
    /// Offset in bytes of the data on the member.
    pub(crate) start: u64,
    pub(crate) notes: Vec<VolumeNote>,
}

/// Opens the data of the array. Its members are `first`, which has this superblock, and those
/// devices among `others` that have a superblock of the same array. The member with the highest
/// event count is read.
pub(crate) fn open(
    first: SharedDevice,
    superblock: MemberSuperblock,
    others: &[SharedDevice],
) -> io::Result<Result<ArrayData, RaidError>> {
    let array = superblock.array;
    let mut members = vec![(0, first, superblock)];
    for (index, device) in others.iter().enumerate() {
        let found = match read(&**device)? {
            Some(member) => Some(member),
            None => read_at_end(&**device)?,
        };
        match found {
            Some(member) if member.array == array => {
                members.push((index + 1, Arc::clone(device), member));
            }
            Some(_) => return Ok(Err(RaidError::Stranger { member: index + 1 })),
            None => {}
        }
    }
    if members.iter().any(|(_, device, _)| !device.is_read_only()) {
        return Ok(Err(RaidError::Write));
    }
    let usable = members.iter().filter(|(_, _, member)| member.is_active && !member.is_incomplete);
    let Some((chosen, device, best)) =
        usable.max_by_key(|(index, _, member)| (member.events, std::cmp::Reverse(*index)))
    else {
        let is_incomplete = members.iter().any(|(_, _, member)| member.is_incomplete);
        return Ok(Err(if is_incomplete { RaidError::Incomplete } else { RaidError::NotActive }));
    };
    let mut notes = Vec::new();
    for (index, _, member) in members.iter().filter(|(index, ..)| index != chosen) {
        if member.events < best.events {
            let (events, newest) = (member.events, best.events);
            notes.push(VolumeNote::StaleMember { member: *index, events, newest });
        }
    }
    if members.len() == 1 && best.disks > 1 {
        let (mirrors, active, events) = (best.disks, best.active_disks, best.events);
        notes.push(VolumeNote::OneMirror { mirrors, active, events });
    }
    if !best.is_in_sync {
        notes.push(VolumeNote::NotInSync);
    }
    let window = WindowDevice::new(Arc::clone(device), best.data_start, best.data_bytes);
    Ok(Ok(ArrayData { device: Arc::new(window), start: best.data_start, notes }))
}

impl fmt::Display for VolumeNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneMirror { mirrors, active, events } => write!(
                f,
                "this is one of {mirrors} mirrors of a software RAID ({active} were active, event \
                 count {events}); if another mirror has a higher count, this one is stale: name the \
                 others with --member"
            ),
            Self::StaleMember { member, events, newest } => {
                match member {
                    0 => f.write_str("the image is a stale mirror")?,
                    number => write!(f, "member {number} is a stale mirror")?,
                }
                write!(f, " with event count {events}; the volume is read from one with {newest}")
            }
            Self::NotInSync => f.write_str(
                "the software RAID was not in sync: its mirrors may differ where they were being \
                 written",
            ),
        }
    }
}

#[cfg(test)]
mod tests;
