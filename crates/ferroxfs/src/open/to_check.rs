//! Opening a volume so that it can be checked, even if its log cannot be replayed, or the volume is
//! marked as damaged.
//!
//! Owns: the replay of as much of the log as can be replayed, in memory, and the findings about the
//! log. Does **not** own: the check of the volume.
//!
//! ```text
//! open ─ ok ─────────────────────────────────────────────────────────→ the volume
//!   └─ marked NEEDSREPAIR ─→ open without the mark, in memory ─ ok ──→ the volume, a finding
//!        └─ no log: all but what is destroyed ─→ before the damage ─→ as it is; a finding, and
//!                                                                     the log is not checked
//! ```

use std::sync::Arc;

use xfs_check::{CheckOptions, Code, Finding, Place};
use xfs_device::{BlockDevice, Durability, OverlayDevice, SharedDevice};
use xfs_format::superblock::{Superblock, Unsupported, seal};
use xfs_format::{Check, DiskAddr, IncompatFeatures};
use xfs_log::{find_head_and_tail, replay_before_damage, replay_past_damage};

use super::{Devices, OpenError, OpenOptions, read_superblock};
use crate::volume::Volume;
use crate::{Error, IoError};

/// A volume that is open to be checked, and the findings of opening it.
pub struct VolumeToCheck {
    volume: Volume,
    findings: Vec<Finding>,
    /// The part of the log that was not replayed, in words. `None` if the whole log was replayed.
    unreplayed: Option<String>,
}

impl VolumeToCheck {
    /// Returns the volume. If only a part of its log was replayed, the volume may seem more damaged
    /// than it is.
    #[must_use]
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Returns whether no part of the log is missing: the log was clean, or was replayed
    /// completely.
    #[must_use]
    pub fn has_whole_log(&self) -> bool {
        self.unreplayed.is_none()
    }

    /// Adds to the options of a check the findings of opening the volume, and the part of the log
    /// that was not replayed.
    #[must_use]
    pub fn options(&self, options: CheckOptions) -> CheckOptions {
        let findings = self.findings.iter().cloned();
        let options = findings.fold(options, CheckOptions::earlier_finding);
        match &self.unreplayed {
            Some(part) => options.without_log(part.clone()),
            None => options,
        }
    }
}

impl Devices {
    /// Opens the volume to check it. If the log cannot be replayed, replays in memory as much of it
    /// as can be replayed. If the volume is marked with NEEDSREPAIR, opens it nevertheless. Both
    /// are findings.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open) that are about neither the log nor the mark. The error of
    /// a log that belongs to another volume.
    pub fn open_to_check(&self) -> Result<VolumeToCheck, OpenError> {
        let error = match self.open() {
            Ok(volume) => {
                let findings = Vec::new();
                return Ok(VolumeToCheck { volume, findings, unreplayed: None });
            }
            Err(error) => error,
        };
        let is_marked =
            matches!(error, OpenError::Volume(Error::Unsupported(Unsupported::NeedsRepair)));
        if !is_marked && !is_about_own_log(&error) {
            return Err(error);
        }
        let mut findings = Vec::new();
        let mut error = error;
        let mut devices = self.over(Arc::clone(&self.data));
        if is_marked {
            let found = "the flag NEEDSREPAIR is set";
            findings.push(Finding::new(Code::SbNeedsRepair, Place::default(), found));
            devices = self.over(unmarked(&self.data)?);
            error = match devices.open() {
                Ok(volume) => return Ok(VolumeToCheck { volume, findings, unreplayed: None }),
                Err(error) if is_about_own_log(&error) => error,
                Err(error) => return Err(error),
            };
        }
        let found = error.to_string();
        findings.push(Finding::new(Code::LogUnreadable, Place::default(), found));
        let (data, part) = devices.replayed_in_part()?;
        let mut devices = devices.over(data);
        devices.options = OpenOptions { no_recovery: true, ..devices.options.clone() };
        let volume = devices.open_to_read()?;
        Ok(VolumeToCheck { volume, findings, unreplayed: Some(part) })
    }

    /// Returns these devices with `data` in place of the data device.
    fn over(&self, data: SharedDevice) -> Self {
        Self {
            data,
            start: self.start,
            log: self.log.clone(),
            realtime: self.realtime.clone(),
            notes: self.notes.clone(),
            options: self.options.clone(),
            is_in_memory: self.is_in_memory,
        }
    }

    /// Replays in memory the part of the log that can be replayed in spite of damage. Returns the
    /// data device after the replay, and the part that was not replayed, in words.
    fn replayed_in_part(&self) -> Result<(SharedDevice, String), OpenError> {
        let superblock = read_superblock(&self.data)?;
        let nothing = || (Arc::clone(&self.data), "all changes that only the log has".to_owned());
        let Some(Ok(log)) = self.log_of(&superblock) else { return Ok(nothing()) };
        // The log was zeroed or replaced. The changes that the volume lacks were in the old one.
        let is_older =
            find_head_and_tail(&log).is_ok_and(|state| superblock.verify_lsn(state.head).is_err());
        if is_older {
            return Ok(nothing());
        }
        if let Ok(replayed) = replay_past_damage(Arc::clone(&self.data), &log, &superblock) {
            let part = "changes in the log of structures that are destroyed".to_owned();
            return Ok((replayed.device(), part));
        }
        match replay_before_damage(Arc::clone(&self.data), &log, &superblock) {
            Ok(Some(cut)) => {
                let part = format!("changes of the log after its block {}", cut.end_block());
                Ok((cut.replayed.device(), part))
            }
            Ok(None) | Err(_) => Ok(nothing()),
        }
    }
}

/// Returns whether opening failed because of the volume's own log. An error about a log of another
/// volume returns `false`: the caller has given the wrong device.
fn is_about_own_log(error: &OpenError) -> bool {
    let source = match error {
        OpenError::DirtyLog(_) => return true,
        OpenError::Recovery(source) | OpenError::Log(source) => source,
        _ => return false,
    };
    let is_foreign = |error: &Error| match error {
        Error::Corrupt(corruption) => matches!(corruption.check(), Check::ForeignUuid { .. }),
        _ => false,
    };
    !is_foreign(source)
}

/// Returns the device with the mark NEEDSREPAIR cleared, in memory.
fn unmarked(data: &SharedDevice) -> Result<SharedDevice, OpenError> {
    let mut superblock: Superblock = read_superblock(data)?;
    superblock.incompat.remove(IncompatFeatures::NEEDSREPAIR);
    superblock.geometry.incompat.remove(IncompatFeatures::NEEDSREPAIR);
    let length = u64::from(superblock.geometry.sector_size);
    let mut sector = vec![0; superblock.geometry.sector_size as usize];
    let failed = |source| Error::from(IoError::new("read", DiskAddr(0), length, source));
    data.read_at(&mut sector, 0).map_err(failed)?;
    superblock.encode(&mut sector);
    seal(&mut sector);
    let overlay = OverlayDevice::new(Arc::clone(data), xfs_log::MAX_REPLAY_BYTES);
    let failed = |source| Error::from(IoError::new("write", DiskAddr(0), length, source));
    overlay.write_at(&sector, 0, Durability::Cached).map_err(failed)?;
    Ok(Arc::new(overlay))
}
