//! Quota of a volume: the usage and the limits of users, groups and projects.
//!
//! ```
//! # let device = xfs_trans::testing::make();
//! # let volume = ferroxfs::OpenOptions::new().open_device(device)?;
//! use ferroxfs::quota::QuotaType;
//!
//! // This volume was never mounted with quota.
//! let quota = volume.quota();
//! assert!(quota.get(QuotaType::User, 1000)?.is_none());
//! assert_eq!(quota.iter(QuotaType::Group)?.count(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Owns: finding the quota inodes of a volume, and the right to see quota. Does **not** own: dquots
//! (`xfs-quota`).

mod count;

use std::ffi::OsStr;
use std::sync::Arc;

use xfs_quota::{DquotIds, QuotaEngine, QuotaFile};
use xfs_trans::QuotaLedger;
use xfs_vfs::{Capabilities, Mount};

use crate::volume_ref::VolumeRef;
use crate::{Error, InodeNumber, PosixError, Result, Volume};

pub use xfs_format::dquot::QuotaFlags;
pub use xfs_quota::{CountedUsage, UsageCounts};
pub use xfs_quota::{Limit, Limits, Quota, QuotaMode, QuotaOptions, QuotaState, QuotaType, Usage};

/// Access to the quota of a volume.
#[derive(Clone)]
pub struct Quotas {
    volume: Volume,
}

impl Volume {
    /// Returns access to the usage and the limits of users, groups and projects.
    #[doc(alias = "quotactl")]
    #[must_use]
    pub fn quota(&self) -> Quotas {
        Quotas { volume: self.clone() }
    }
}

impl Quotas {
    /// Returns the state of quota that the superblock stores: which types are counted, enforced and
    /// checked.
    ///
    /// # Errors
    ///
    /// The device's error.
    #[doc(alias = "Q_XGETQSTAT")]
    pub fn state(&self) -> Result<QuotaState> {
        QuotaState::read(self.volume_ref().cache())
    }

    /// Returns the usage and the limits of a user, group or project. Returns `None` if the volume
    /// has none: it counts no usage, and has no limits for this ID.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EUCLEAN for damaged dquots.
    #[doc(alias = "Q_XGETQUOTA")]
    pub fn get(&self, kind: QuotaType, id: u32) -> Result<Option<Quota>> {
        self.volume.require(Capabilities::SYS_ADMIN)?;
        if let Some((engine, mount)) = self.engine(kind)? {
            return engine.quota(&mount.journal, kind, id);
        }
        match self.file(kind)? {
            Some(file) => read(self.volume_ref(), &file, kind, id),
            None => Ok(None),
        }
    }

    /// Returns the usage and the limits of all users, groups or projects that have any, in
    /// ascending order of their IDs. The iterator continues after damaged dquots.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EUCLEAN for a damaged quota inode.
    #[doc(alias = "Q_XGETNEXTQUOTA")]
    pub fn iter(&self, kind: QuotaType) -> Result<QuotaIter> {
        self.volume.require(Capabilities::SYS_ADMIN)?;
        let counted = self.engine(kind)?.map(|(engine, mount)| engine.ids(&mount.journal, kind));
        let (file, ids) = match counted {
            Some(ids) => (None, Some(ids?)),
            None => {
                let file = self.file(kind)?;
                let ids = file.as_ref().map(|file| file.ids(self.volume_ref().cache()));
                (file, ids.transpose()?)
            }
        };
        Ok(QuotaIter { quotas: self.clone(), kind, file, ids })
    }

    /// Changes limits and timers of a user, group or project. ID 0 has a special meaning: its
    /// limits are the default limits of the type, and its timers are the grace periods.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EROFS on a volume that is open for reading; ESRCH
    /// if the volume does not count this type.
    #[doc(alias = "Q_XSETQLIM")]
    pub fn set(&self, kind: QuotaType, id: u32, limits: &Limits) -> Result<()> {
        self.volume.require(Capabilities::SYS_ADMIN)?;
        let _writer = self.volume_ref().mount()?.write_guard();
        let (engine, mount) = self.engine(kind)?.ok_or(PosixError::NoQuota)?;
        mount.with_room(|| engine.set(&mount.journal, kind, id, limits))
    }

    /// Returns the quota engine, which has the dquots in memory, and the mount, if the volume
    /// counts this type. Returns `None` otherwise: the dquots on disk are current then.
    fn engine(&self, kind: QuotaType) -> Result<Option<(&Arc<QuotaEngine>, &Mount)>> {
        let Some(engine) = self.volume_ref().quota() else { return Ok(None) };
        let mount = self.volume_ref().mount()?;
        Ok(engine.counts(kind).then_some((engine, mount)))
    }

    fn volume_ref(&self) -> &Arc<VolumeRef> {
        self.volume.volume_ref()
    }

    /// Returns the quota inode of a type, or `None` if the volume has none.
    fn file(&self, kind: QuotaType) -> Result<Option<QuotaFile>> {
        let cache = self.volume_ref().cache();
        let number = self.number(kind)?;
        number.map(|number| QuotaFile::open(cache, kind, number)).transpose()
    }

    fn number(&self, kind: QuotaType) -> Result<Option<InodeNumber>> {
        if self.volume_ref().superblock().metadata_directory_inode.is_none() {
            return Ok(self.state()?.inode(kind));
        }
        let find = || {
            let directory = self.volume.metadata_root()?.lookup(OsStr::new("quota"))?;
            directory.lookup(OsStr::new(kind.name())).map(|node| node.number())
        };
        match find() {
            Ok(number) => Ok(Some(number)),
            Err(Error::Posix(PosixError::NotFound)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Reads the usage and the limits of an owner from the disk.
fn read(volume: &VolumeRef, file: &QuotaFile, kind: QuotaType, id: u32) -> Result<Option<Quota>> {
    let disk = file.dquot(volume.cache(), id)?;
    let used = disk.filter(xfs_format::dquot::DquotDisk::is_used);
    Ok(used.map(|disk| Quota::of_disk(kind, &disk)))
}

impl std::fmt::Debug for Quotas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Quotas").field("volume", &self.volume).finish_non_exhaustive()
    }
}

/// The usage and the limits of all users, groups or projects that have any.
#[derive(Debug)]
pub struct QuotaIter {
    quotas: Quotas,
    kind: QuotaType,
    file: Option<QuotaFile>,
    ids: Option<DquotIds>,
}

impl Iterator for QuotaIter {
    type Item = Result<Quota>;

    fn next(&mut self) -> Option<Result<Quota>> {
        let (quotas, kind) = (&self.quotas, self.kind);
        let file = self.file.as_ref();
        self.ids.as_mut()?.find_map(|id| {
            let found = match file {
                Some(file) => read(quotas.volume_ref(), file, kind, id),
                None => quotas.get(kind, id),
            };
            found.transpose()
        })
    }
}
