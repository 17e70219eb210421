//! Opening a volume whose first superblock is damaged.
//!
//! Owns: the choice of the byte at which a volume starts if its superblock is not recognised, and
//! the overlay in memory that shows a sound superblock in place of the damaged one. Does **not**
//! own: the search for a copy (`xfs-evidence`).

use std::path::Path;
use std::sync::Arc;

use xfs_check::{Code, Finding, Place};
use xfs_device::{
    BlockDevice, Contents, Durability, FindError, LocatedVolume, OverlayDevice, Selection,
    SharedDevice, WindowDevice, find_filesystem_among,
};
use xfs_evidence::{
    SuperblockDoubt, SuperblockEvidence, SuperblockSource, complete_by_log, find_superblock,
};
use xfs_format::DiskAddr;
use xfs_format::superblock::SuperblockError;

use super::{Devices, IoError, OpenError, OpenOptions, read_superblock};
use crate::Error;

/// The most bytes that the overlay over the device may keep in memory. It keeps one superblock,
/// which has at most 32 KiB, the length of the longest sector.
const OVERLAY_BYTES: u64 = 64 << 10;

/// The kinds of contents that the device may have at the byte where a damaged volume starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamagedStart {
    /// Where the volume starts, the device may hold a volume, zeros, or contents of no known kind.
    Unrecognised,
    /// Where the volume starts, the device may hold anything, such as another filesystem that was
    /// made over the volume.
    Overwritten,
}

impl DamagedStart {
    /// Returns whether a device on which no volume was recognised may still be opened as a damaged
    /// volume. `error` says why no volume was recognised.
    fn accepts(self, error: &FindError) -> bool {
        match self {
            Self::Unrecognised => {
                matches!(error, FindError::NotXfs(Contents::Zeros | Contents::Unknown))
            }
            Self::Overwritten => !matches!(
                error,
                FindError::Several(_)
                    | FindError::SeveralVolumes(_)
                    | FindError::Volume(_)
                    | FindError::ReadOnlyVolume(_)
                    | FindError::Raid(_)
                    | FindError::NoMembers
                    | FindError::NoTable { .. }
                    | FindError::NoSuchPartition { .. }
                    | FindError::SeveralNamed { .. }
                    | FindError::OffsetPastEnd { .. }
            ),
        }
    }
}

impl OpenOptions {
    /// Opens and locks the files as [`open_devices`](Self::open_devices) does, even if no volume is
    /// recognised. The volume then starts where the options say: at the offset, at the start of the
    /// partition, or at byte 0. The returned error says why no volume was recognised.
    ///
    /// # Errors
    ///
    /// [`OpenError::Device`]. [`OpenError::Find`] if the device has contents that `start` does not
    /// accept, or if the options name no place on it.
    pub fn open_unrecognised_devices(
        &self,
        path: impl AsRef<Path>,
        start: DamagedStart,
    ) -> Result<(Devices, Option<FindError>), OpenError> {
        let data = self.open_file(path.as_ref())?;
        let members = self.open_members()?;
        let found = find_filesystem_among(Arc::clone(&data), &members, &self.selection);
        let (found, lack) = match found {
            Ok(found) => (found, None),
            Err(error) if start.accepts(&error) => (self.place_of(data)?, Some(error)),
            Err(error) => return Err(error.into()),
        };
        Ok((self.located_devices(found)?, lack))
    }

    /// Opens and locks the files as [`open_devices`](Self::open_devices) does, even if the first
    /// superblock of the volume is damaged. In that case a copy of the superblock takes the place
    /// of the first one, in memory only. The returned finding says how the first one is damaged.
    /// Reading also continues past a superblock of the realtime device that is damaged or belongs
    /// to another volume.
    ///
    /// The search for a copy can read the whole device.
    ///
    /// # Errors
    ///
    /// [`OpenError::Device`] and [`OpenError::Find`]. [`OpenError::Volume`] if the volume is
    /// refused, or if the superblock is damaged and no copy is sound.
    pub fn open_damaged_devices(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<(Devices, Option<Finding>), OpenError> {
        let options = Self { keeps_realtime_damage: true, ..self.clone() };
        let start = DamagedStart::Unrecognised;
        let (devices, lack) = options.open_unrecognised_devices(path, start)?;
        match lack {
            Some(error) if !matches!(find_superblock(&*devices.data), Ok(Some(_))) => {
                Err(error.into())
            }
            _ => devices.with_sound_superblock(),
        }
    }

    /// Returns the part of a device that the options name (a partition, or everything from an
    /// offset on), whatever this part contains.
    fn place_of(&self, data: SharedDevice) -> Result<LocatedVolume, FindError> {
        let (start, length) = match &self.selection {
            Selection::Auto => (0, data.length_bytes()),
            Selection::Offset(start) => (*start, data.length_bytes().saturating_sub(*start)),
            Selection::Volume(_) => return Err(FindError::NotXfs(Contents::Unknown)),
            Selection::Partition(choice) => {
                let found = xfs_device::find_partition(&*data, choice)?;
                (found.start, found.length_bytes)
            }
        };
        let device = Arc::new(WindowDevice::new(data, start, length));
        Ok(LocatedVolume::whole(device, start))
    }
}

impl Devices {
    /// Puts a copy of the superblock in the place of a damaged one, in memory. Returns the devices
    /// unchanged and no finding if the first superblock is sound.
    ///
    /// # Errors
    ///
    /// The error of the first superblock if no copy is sound, or if the volume is not supported.
    pub fn with_sound_superblock(self) -> Result<(Self, Option<Finding>), OpenError> {
        let damage = match read_superblock(&self.data) {
            Ok(_) => return Ok((self, None)),
            Err(error) => error,
        };
        let copy = find_superblock(&*self.data).map_err(|error| match error {
            SuperblockError::Corrupt(corruption) => Error::from(corruption),
            SuperblockError::Unsupported(reason) => Error::from(reason),
        })?;
        let copy = copy.map(|copy| complete_by_log(&self.data, copy));
        // Without the root inode or the log, most of the volume is not known.
        let is_usable = |copy: &SuperblockEvidence| {
            copy.source != SuperblockSource::GroupHeaders || copy.doubt.is_none()
        };
        let Some(copy) = copy.filter(is_usable) else { return Err(damage.into()) };
        let finding = finding_of(&damage, &copy);
        let overlay = OverlayDevice::new(Arc::clone(&self.data), OVERLAY_BYTES);
        let length = copy.sector.len() as u64;
        overlay
            .write_at(&copy.sector, 0, Durability::Cached)
            .map_err(|source| Error::from(IoError::new("write", DiskAddr(0), length, source)))?;
        let data: SharedDevice = Arc::new(overlay);
        Ok((Self { data, ..self }, Some(finding)))
    }
}

/// Returns the finding about a damaged first superblock. `copy` is the sound copy that is used
/// instead.
fn finding_of(damage: &Error, copy: &SuperblockEvidence) -> Finding {
    let geometry = &copy.superblock.geometry;
    let finding = match damage {
        Error::Corrupt(corruption) => Finding::of(corruption, geometry),
        // A damaged version looks like one that is not supported.
        Error::Unsupported(reason) => {
            let place = Place::of_address(DiskAddr(0), geometry);
            Finding::new(Code::SbField, place, reason.to_string())
        }
        error => {
            let place = Place::of_address(DiskAddr(0), geometry);
            Finding::new(Code::SbUnreadable, place, error.to_string())
        }
    };
    let with_doubt = |doubt: SuperblockDoubt| format!(", which are not certain: {doubt}");
    let doubt = copy.doubt.map_or_else(String::new, with_doubt);
    match copy.source {
        SuperblockSource::Primary => finding,
        SuperblockSource::PrimaryWithoutRoot => {
            finding.expected("the same fields, with another root inode".to_owned())
        }
        SuperblockSource::Copies { agreeing, found } => {
            finding.expected(format!("the fields of {agreeing} of {found} copies{doubt}"))
        }
        SuperblockSource::Log => {
            finding.expected(format!("the newest superblock in the log{doubt}"))
        }
        SuperblockSource::GroupHeaders => {
            finding.expected("the sizes that the headers of groups state".to_owned())
        }
    }
}
