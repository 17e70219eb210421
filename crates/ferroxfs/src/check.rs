//! Checking a volume for consistency, without changing it.
//!
//! [`Volume::check`] reads every structure of a volume, compares the structures with each other,
//! and returns a [`Report`]. Damage is not an error but a [`Finding`]: it has a stable [`Code`], a
//! [`Severity`], a [`Place`] down to the byte, the value found and the value expected.
//!
//! ```
//! # let device = xfs_trans::testing::make();
//! use ferroxfs::OpenOptions;
//! use ferroxfs::check::CheckOptions;
//!
//! let volume = OpenOptions::new().open_device(device)?;
//! let report = volume.check(CheckOptions::default(), &())?;
//! for finding in &report.findings {
//!     println!("{}: {finding}", finding.severity());
//! }
//! assert!(report.is_clean());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Code::ALL`] lists all codes, and the page `findings.md` of the project's reference has them
//! with their meanings. A code is never renamed.
//!
//! Owns: the check of an open volume, and the paths of inodes with findings. Does **not** own: the
//! checks themselves (`xfs-check`).

use std::collections::BTreeMap;

use thiserror::Error;
use xfs_check::CheckedDevices;
pub use xfs_check::{
    Area, CheckOptions, Code, Coverage, Finding, Place, Progress, Report, Severity, Unchecked,
    Unsupported, Witness,
};
use xfs_device::BlockDevice;
use xfs_format::IncompatFeatures;
use xfs_vfs::Capabilities;

use crate::volume::Volume;
use crate::volume_ref::RealtimeReplay;

/// The largest number of inodes with findings for which a check looks up the paths.
const MOST_PATHS: usize = 1000;

/// The reason why a volume was not checked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The volume is open for writing. Some of its changes are only in memory, so the device alone
    /// does not hold a consistent volume.
    #[error("cannot check a volume that is open for writing: close it first")]
    OpenForWriting,
    /// The volume has a feature that the checker does not know.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The caller may not read the whole volume.
    #[error(transparent)]
    Refused(#[from] crate::Error),
}

impl Volume {
    /// Checks the volume for consistency. Nothing is written. A realtime device that was not named
    /// is reported as unchecked. If the log was dirty when the volume
    /// was opened, the replayed volume is checked: the volume as it will be after a recovery.
    ///
    /// A finding about an inode gets the paths of the inode, for up to 1,000 inodes.
    ///
    /// # Errors
    ///
    /// - [`CheckError::OpenForWriting`] if the volume is open for writing.
    /// - [`CheckError::Unsupported`] if the checker does not know a feature of the volume.
    /// - EPERM without [`Capabilities::SYS_ADMIN`].
    ///
    /// Damage is not an error but a finding of the report.
    pub fn check(
        &self,
        options: CheckOptions,
        progress: &dyn Progress,
    ) -> Result<Report, CheckError> {
        self.require(Capabilities::SYS_ADMIN)?;
        let inner = self.volume_ref();
        if inner.threads().is_some() {
            return Err(CheckError::OpenForWriting);
        }
        let options = match inner.log_state() {
            Some(state) => options.log_head(state.head),
            None => options,
        };
        let has_groups = inner.superblock().has_incompat(IncompatFeatures::METADIR);
        let options = match inner.realtime() {
            RealtimeReplay::Complete => options,
            // Every transaction of a classic section logs the count.
            RealtimeReplay::Uncounted if has_groups => options.stale_realtime_count(),
            RealtimeReplay::Uncounted => options,
            RealtimeReplay::Unfinished => options.unfinished_realtime_work(),
        };
        let realtime = inner.cache().realtime_device().map(|device| &**device as &dyn BlockDevice);
        let devices = CheckedDevices { data: &**inner.cache().device(), realtime };
        let mut report = xfs_check::check_devices(devices, inner.superblock(), &options, progress)?;
        self.find_paths(&mut report);
        Ok(report)
    }

    /// Sets the path in each finding about an inode, if a path can be found. An error of the search
    /// for a path is not reported: a directory that cannot be read has a finding of its own.
    fn find_paths(&self, report: &mut Report) {
        let mut known: BTreeMap<u64, Option<Vec<u8>>> = BTreeMap::new();
        for finding in report.findings.iter_mut().chain(&mut report.consequences) {
            let Some(inode) = finding.place.inode else { continue };
            if !known.contains_key(&inode.0) && known.len() >= MOST_PATHS {
                continue;
            }
            let path = known.entry(inode.0).or_insert_with(|| {
                let paths = self.inode_paths(inode).ok()?;
                paths.paths.first().map(|path| path.as_os_str().as_encoded_bytes().to_vec())
            });
            finding.path.clone_from(path);
        }
    }
}
