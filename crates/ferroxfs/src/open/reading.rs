//! Opening a volume for reading: as it is, after a replay of its log in memory, or after a complete
//! recovery in memory.
//!
//! Owns: the choice between these three ways, and the findings about a volume that can still be
//! read. Nothing is written to the devices. Does **not** own: the replay and the recovery.

use std::sync::Arc;

use xfs_buffer::Liveness;
use xfs_device::{OverlayDevice, SharedDevice};
use xfs_format::superblock::{Superblock, Unsupported, VolumeAccess};
use xfs_format::{FormatVersion, IncompatFeatures};
use xfs_log::{RecoveryError, Replayed};

use super::{Description, Devices, OpenError, check_age};
use crate::Error;
use crate::volume::Volume;
use crate::volume_ref::{RealtimeReplay, Staleness, VolumeInner};

impl Devices {
    pub(super) fn open_to_read(&self) -> Result<Volume, OpenError> {
        let Description { superblock, refusal, log, .. } = self.description()?;
        let as_it_is = self.options.no_recovery || self.options.live;
        match refusal {
            Some(Unsupported::NeedsRepair) if self.options.no_recovery => {}
            Some(reason) => return Err(OpenError::Volume(reason.into())),
            None => {}
        }
        let cut_short = self.cut_short(&superblock).filter(|_| !as_it_is);
        let mut findings: Vec<Error> = cut_short.map(Error::from).into_iter().collect();
        findings.extend(self.realtime_damage(&superblock)?);
        let log = match log {
            Some(Ok(state)) if as_it_is => Some(state),
            Some(Ok(state)) if state.clean => {
                check_age(&superblock, &state)?;
                Some(state)
            }
            Some(Ok(_)) => return self.replayed_volume(&superblock, findings),
            Some(Err(_)) | None if as_it_is => None,
            // The missing part may be the log; the rest is shown nevertheless.
            Some(Err(source)) if !findings.is_empty() => {
                findings.push(source);
                None
            }
            Some(Err(source)) => return Err(OpenError::Log(source)),
            None => return Err(OpenError::LogDeviceMissing),
        };
        let staleness = if self.options.live {
            Some(Staleness::Live)
        } else if log.as_ref().is_none_or(|state| !state.clean) {
            Some(Staleness::LogNotRecovered)
        } else {
            None
        };
        let liveness = if self.options.live { Liveness::Live } else { Liveness::Quiet };
        let cache = self.cache(self.data.clone(), &superblock).with_liveness(liveness);
        if let Some(state) = log.as_ref().filter(|_| staleness.is_none() && !as_it_is) {
            cache.set_log_head(state.head);
        }
        Ok(Volume::new(VolumeInner::new(superblock, Arc::new(cache), log, staleness), findings))
    }

    /// Replays the log in memory, and opens the volume for reading with the result. If the log has
    /// work that a replay does not finish, calls `recovered_volume`.
    fn replayed_volume(
        &self,
        superblock: &Superblock,
        findings: Vec<Error>,
    ) -> Result<Volume, OpenError> {
        let replayed = match self.replay(superblock) {
            Err(OpenError::DirtyLog(_)) => return self.recovered_volume(superblock, findings),
            replayed => replayed?,
        };
        // A replay alone does not count the free extents of realtime groups.
        if superblock.has_realtime_groups() {
            return self.recovered_volume(superblock, findings);
        }
        check_age(superblock, replayed.log_state())?;
        let (superblock, state) = (replayed.superblock().clone(), *replayed.log_state());
        let cache = self.cache(replayed.device(), &superblock);
        cache.set_log_head(state.head);
        let realtime = match replayed.has_left_realtime_work() {
            true => RealtimeReplay::Unfinished,
            false => RealtimeReplay::Uncounted,
        };
        let inner = VolumeInner::new(superblock, Arc::new(cache), Some(state), None);
        Ok(Volume::new(inner.with_realtime(realtime), findings))
    }

    /// Recovers the volume completely, with writes into memory only, and opens it for reading. This
    /// is needed if the crash left intents open, because a replay of the log does not finish them.
    fn recovered_volume(
        &self,
        superblock: &Superblock,
        findings: Vec<Error>,
    ) -> Result<Volume, OpenError> {
        let (recovered, realtime) = self.recover_in_memory(superblock)?;
        let Description { superblock, log, .. } = recovered.description()?;
        let state = log.ok_or(OpenError::LogDeviceMissing)?.map_err(OpenError::Log)?;
        let cache = recovered.cache(recovered.data.clone(), &superblock);
        cache.set_log_head(state.head);
        let inner = VolumeInner::new(superblock, Arc::new(cache), Some(state), None);
        Ok(Volume::new(inner.with_realtime(realtime), findings))
    }

    /// Recovers the volume, with writes into memory only. Work on realtime groups that the crash
    /// left open is finished, except on zoned volumes, and except where damage of a group prevents
    /// it. Files can be read without this work.
    fn recover_in_memory(
        &self,
        superblock: &Superblock,
    ) -> Result<(Self, RealtimeReplay), OpenError> {
        if superblock.has_realtime_groups() {
            let recovered = self.overlaid();
            match recovered.recover_for(VolumeAccess::Recover) {
                Err(OpenError::Recovery(Error::Corrupt(damage))) => {
                    tracing::warn!(%damage, "the work on realtime groups stays open");
                }
                done => return done.map(|_| (recovered, RealtimeReplay::Complete)),
            }
        }
        let recovered = self.overlaid();
        recovered.recover_for(VolumeAccess::Replay)?;
        let realtime = match superblock.has_incompat(IncompatFeatures::METADIR) {
            true if superblock.has_realtime() => RealtimeReplay::Unfinished,
            _ => RealtimeReplay::Complete,
        };
        Ok((recovered, realtime))
    }

    /// Returns devices that read from these devices, and keep all writes in memory.
    fn overlaid(&self) -> Self {
        let over = |device: &SharedDevice| -> SharedDevice {
            Arc::new(OverlayDevice::new(Arc::clone(device), xfs_log::MAX_REPLAY_BYTES))
        };
        Self {
            data: over(&self.data),
            start: self.start,
            log: self.log.as_ref().map(over),
            realtime: self.realtime.clone(),
            notes: Vec::new(),
            options: self.options.clone(),
            is_in_memory: true,
        }
    }

    fn replay(&self, superblock: &Superblock) -> Result<Replayed, OpenError> {
        let log = self.log_of(superblock).ok_or(OpenError::LogDeviceMissing)?;
        let log = log.map_err(OpenError::Log)?;
        let _span = tracing::info_span!("replay").entered();
        // A reader of a v4 volume needs no more than the replayed blocks: only a writer can finish
        // what the crash left open, and no reader sees it.
        let replay = match superblock.geometry.version {
            FormatVersion::V4 => xfs_log::replay_all,
            FormatVersion::V5 => xfs_log::replay,
        };
        replay(self.data.clone(), &log, superblock).map_err(|error| match error {
            RecoveryError::Refused(refusal) => OpenError::DirtyLog(refusal),
            RecoveryError::Failed(source) => OpenError::Recovery(source),
        })
    }
}
