//! Opening a volume whose first superblock is damaged, to check it.
//!
//! Owns: the overlay in memory that has a sound superblock in place of the damaged one. Does
//! **not** own: the search for a copy (`xfs-evidence`).

use std::path::Path;
use std::sync::Arc;

use xfs_check::{Code, Finding, Place};
use xfs_device::{
    BlockDevice, Contents, Durability, FindError, LocatedVolume, OverlayDevice, Selection,
    SharedDevice, WindowDevice,
};
use xfs_evidence::{SuperblockDoubt, SuperblockEvidence, SuperblockSource, find_superblock};
use xfs_format::DiskAddr;
use xfs_format::superblock::SuperblockError;

use super::{Devices, IoError, OpenError, OpenOptions, read_superblock};
use crate::Error;

/// The most bytes that the overlay may keep. It keeps one superblock, which has at most 32 KiB, the
/// length of the longest sector.
const OVERLAY_BYTES: u64 = 64 << 10;

impl OpenOptions {
    /// Opens and locks the files as [`open_devices`](Self::open_devices) does, even if the first
    /// superblock of the volume is damaged. In that case a copy of the superblock stands in its
    /// place, in memory only, and the returned finding says how the first one is damaged.
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
        let data = self.open_file(path.as_ref())?;
        let found = self.find_damaged(data)?;
        let log = match &self.log_device {
            Some(path) => Some(self.open_file(path)?),
            None => None,
        };
        let devices =
            Devices { data: found.device, start: found.start, log, options: self.clone() };
        devices.with_sound_superblock()
    }

    /// Finds the volume. If nothing is recognised at its start, looks for a copy of its superblock.
    /// The volume then starts where the options say: by default at byte 0.
    fn find_damaged(&self, data: SharedDevice) -> Result<LocatedVolume, FindError> {
        let start = match self.selection {
            Selection::Auto => 0,
            Selection::Offset(start) => start,
            Selection::Partition(_) => return xfs_device::find_filesystem(data, self.selection),
        };
        match xfs_device::find_filesystem(Arc::clone(&data), self.selection) {
            Err(FindError::NotXfs(contents @ (Contents::Zeros | Contents::Unknown))) => {
                let length = data.length_bytes().saturating_sub(start);
                let device: SharedDevice = Arc::new(WindowDevice::new(data, start, length));
                match find_superblock(&*device) {
                    Ok(Some(_)) => Ok(LocatedVolume { device, start, partition: None }),
                    _ => Err(FindError::NotXfs(contents)),
                }
            }
            found => found,
        }
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
        // Sizes from group headers lack the root inode and the log.
        let copy = copy.filter(|copy| copy.source != SuperblockSource::GroupHeaders);
        let Some(copy) = copy else { return Err(damage.into()) };
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

/// Returns the finding about a damaged first superblock, in whose place `copy` stands.
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
        SuperblockSource::Copies { agreeing, found } => {
            finding.expected(format!("the fields of {agreeing} of {found} copies{doubt}"))
        }
        SuperblockSource::GroupHeaders => {
            unreachable!("sizes from group headers were refused before")
        }
    }
}
