//! Counted references to a volume. A thread can make one without writing memory that all threads
//! share.
//!
//! Each clone and each drop of a reference writes a reference count. With one count for the whole
//! volume, every lookup on every thread would contend for one cache line. So a volume has several
//! counts, one for each processor slot ([`Slots`]). A handle uses the count of the slot of the
//! thread that makes the handle.
//!
//! ```text
//!  Volume ──► VolumeShards ──► VolumeRef ┐            Node, File, ReadDir ──► one VolumeRef
//!                         ├──► VolumeRef ├──► VolumeInner
//!                         └──► VolumeRef ┘    and Identity ╌╌► its VolumeRefs, weakly
//! ```
//!
//! The caller of an operation is a property of the `VolumeRef`. A volume on behalf of another user
//! ([`Volume::as_user`](crate::Volume::as_user)) has its own references to the same `VolumeInner`.
//! All handles that come from such a volume act for the same user. A `Node` finds the reference of
//! its thread through `Identity`.
//!
//! # Invariants
//!
//! - **I1** Neither `VolumeInner` nor `Identity` keeps a `VolumeRef` alive, so that dropping the
//!   last handle frees everything.
//! - **I2** While a `Volume` exists, taking the reference of the calling thread's slot writes only
//!   the count of that slot. After the `Volume` was dropped, new handles share the reference of the
//!   handle that they come from.

use std::sync::{Arc, Weak};

use xfs_buffer::BufferCache;
use xfs_format::Superblock;
use xfs_log::LogState;
use xfs_quota::QuotaEngine;
use xfs_sync::{SetOnce, Slots, Volume as VolumeScope};
use xfs_vfs::{CachedInode, Caller, Credentials, Mount, MountHandle, MountThreads};

use crate::{Error, PosixError, Result};

/// Why the state that a volume shows may be out of date, or inconsistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Staleness {
    /// The log is dirty and was not replayed.
    LogNotRecovered,
    /// The volume is mounted elsewhere and may change at any time.
    Live,
}

/// The state that all references to a volume share.
pub(crate) struct VolumeInner {
    superblock: Superblock,
    cache: Arc<BufferCache>,
    log: Option<LogState>,
    staleness: Option<Staleness>,
    threads: Option<MountThreads>,
    /// The quota of a volume that counts usage.
    quota: Option<Arc<QuotaEngine>>,
    /// The state of the realtime section after the replay of the log.
    realtime: RealtimeReplay,
    /// Damage that was found when the volume was opened.
    findings: Vec<Error>,
}

/// The state of a realtime section after the replay of the log in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RealtimeReplay {
    /// Everything about the section is up to date.
    Complete,
    /// The log was replayed, but the free extents of realtime groups were not counted afterwards.
    /// Their counts may be out of date.
    Uncounted,
    /// The log has open work on the section, which was not finished.
    Unfinished,
}

/// The credentials of one caller of the volume, and the references that act for it.
struct Identity {
    /// The credentials to check. `None`: the caller may do everything.
    credentials: Option<Credentials>,
    /// The references to the volume that act for this caller, one for each processor slot. They are
    /// weak, so that an identity keeps no reference alive (I1).
    refs: SetOnce<Slots<Weak<VolumeRef>>, VolumeScope>,
}

impl VolumeInner {
    pub(crate) fn new(
        superblock: Superblock,
        cache: Arc<BufferCache>,
        log: Option<LogState>,
        staleness: Option<Staleness>,
    ) -> Self {
        Self {
            superblock,
            cache,
            log,
            staleness,
            threads: None,
            quota: None,
            realtime: RealtimeReplay::Complete,
            findings: Vec::new(),
        }
    }

    /// Sets the state of the realtime section after the replay of the log.
    pub(crate) fn with_realtime(mut self, realtime: RealtimeReplay) -> Self {
        self.realtime = realtime;
        self
    }

    /// Adds a mount, its threads and its quota to this state, for a volume that is open for
    /// writing.
    pub(crate) fn with_threads(
        mut self,
        threads: MountThreads,
        quota: Option<Arc<QuotaEngine>>,
    ) -> Self {
        (self.threads, self.quota) = (Some(threads), quota);
        self
    }
}

/// A reference to a volume on behalf of one caller. It is the reference of one processor slot, with
/// its own count.
pub(crate) struct VolumeRef {
    inner: Arc<VolumeInner>,
    identity: Arc<Identity>,
}

impl VolumeRef {
    /// Returns the superblock as it was when the volume was opened.
    pub(crate) fn superblock(&self) -> &Superblock {
        &self.inner.superblock
    }

    /// Returns the buffer cache.
    #[inline]
    pub(crate) fn cache(&self) -> &Arc<BufferCache> {
        &self.inner.cache
    }

    /// Returns the state of the log when the volume was opened. `None`: the log is external and its
    /// device was not given.
    pub(crate) fn log_state(&self) -> Option<&LogState> {
        self.inner.log.as_ref()
    }

    /// Returns why the volume may show a state that is out of date or inconsistent. `None`: the
    /// state is current.
    pub(crate) fn staleness(&self) -> Option<Staleness> {
        self.inner.staleness
    }

    /// Returns the mount and its threads. `None`: the volume is open for reading.
    #[inline]
    pub(crate) fn threads(&self) -> Option<&MountThreads> {
        self.inner.threads.as_ref()
    }

    /// Returns the state of the realtime section after the replay of the log.
    pub(crate) fn realtime(&self) -> RealtimeReplay {
        self.inner.realtime
    }

    /// Returns the quota of a volume that counts usage. `None`: the volume counts none.
    pub(crate) fn quota(&self) -> Option<&Arc<QuotaEngine>> {
        self.inner.quota.as_ref()
    }

    /// Returns the reference that belongs to the processor slot of the calling thread. If the
    /// `Volume` was dropped, returns this reference itself (I2).
    pub(crate) fn here(self: &Arc<Self>) -> Arc<Self> {
        let mine = self.identity.refs.value().and_then(|refs| refs.mine().upgrade());
        mine.unwrap_or_else(|| Arc::clone(self))
    }

    /// Returns whether this reference and `other` refer to the same volume. Their callers may
    /// differ.
    pub(crate) fn is_of_volume(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Returns the caller of all operations on handles that come from this reference.
    pub(crate) fn caller(&self) -> Caller<'_> {
        Caller::new(self.identity.credentials.as_ref())
    }

    /// Converts this reference to the type that each reference to a cached inode holds. The volume
    /// must be mounted read-write.
    pub(crate) fn mounted(self: Arc<Self>) -> MountedVolume {
        MountedVolume(self)
    }

    /// Takes a reference to an inode that was found in the cache. `None`: the inode is being
    /// evicted or freed.
    pub(crate) fn inode_ref(self: &Arc<Self>, entry: &Arc<CachedInode>) -> Option<InodeRef> {
        InodeRef::of_cached(MountedVolume(Arc::clone(self)), entry)
    }

    /// Takes another reference to a cached inode of this volume. The new reference holds this
    /// reference to the volume.
    pub(crate) fn share_inode(self: &Arc<Self>, inode: &InodeRef) -> InodeRef {
        inode.share_with(MountedVolume(Arc::clone(self)))
    }

    /// Returns a weak reference to the mount. On a volume that is open for reading it refers to
    /// nothing.
    pub(crate) fn weak_mount(&self) -> Weak<Mount> {
        self.threads().map_or_else(Weak::new, MountThreads::weak_mount)
    }

    /// Returns the mount of a volume that is open for writing.
    ///
    /// # Errors
    ///
    /// EROFS if the volume is open for reading.
    pub(crate) fn mount(&self) -> Result<&Mount> {
        let threads = self.threads().ok_or(PosixError::ReadOnly)?;
        Ok(threads.mount())
    }
}

/// A reference to a volume that is mounted read-write. Each reference to a cached inode holds one
/// such reference.
#[derive(Clone)]
pub(crate) struct MountedVolume(Arc<VolumeRef>);

impl MountedVolume {
    /// Returns the reference to the volume.
    pub(crate) fn volume_ref(&self) -> &Arc<VolumeRef> {
        &self.0
    }
}

impl MountHandle for MountedVolume {
    #[inline]
    fn mount(&self) -> &Mount {
        self.0.threads().expect("cached inodes belong to a mounted volume").mount()
    }
}

/// A reference to a cached inode. It also keeps the volume open.
pub(crate) type InodeRef = xfs_vfs::InodeRef<MountedVolume>;

/// The references of one caller to a volume, one for each processor slot. They live while the
/// `Volume` is open.
pub(crate) struct VolumeShards {
    refs: Slots<Arc<VolumeRef>>,
}

impl VolumeShards {
    pub(crate) fn new(inner: VolumeInner, findings: Vec<Error>) -> Self {
        Self::over(Arc::new(VolumeInner { findings, ..inner }), None)
    }

    /// Makes references to the same volume, for operations on behalf of another user.
    pub(crate) fn acting_as(&self, credentials: Credentials) -> Self {
        Self::over(Arc::clone(&self.here().inner), Some(credentials))
    }

    fn over(inner: Arc<VolumeInner>, credentials: Option<Credentials>) -> Self {
        let identity = Arc::new(Identity { credentials, refs: SetOnce::new() });
        let make = || VolumeRef { inner: Arc::clone(&inner), identity: Arc::clone(&identity) };
        let refs = Slots::new(|| Arc::new(make()));
        let mut weak = refs.iter().map(Arc::downgrade).collect::<Vec<_>>().into_iter();
        let weak =
            Slots::with_count(weak.len(), || weak.next().expect("each slot has its reference"));
        assert!(identity.refs.set(weak).is_ok(), "the references of an identity are made once");
        Self { refs }
    }

    /// Takes the mount and its threads out of the volume. The inner `None`: the volume is open for
    /// reading. The outer `None`: a handle still refers to the volume.
    pub(crate) fn into_threads(self) -> Option<Option<MountThreads>> {
        let mut inner = None;
        for volume in self.refs.into_values() {
            inner = Some(Arc::into_inner(volume)?.inner);
        }
        Some(Arc::into_inner(inner?)?.threads)
    }

    /// Returns the damage that was found when the volume was opened.
    pub(crate) fn findings(&self) -> &[Error] {
        &self.here().inner.findings
    }

    /// Returns the reference that belongs to the processor slot of the calling thread.
    pub(crate) fn here(&self) -> &Arc<VolumeRef> {
        self.refs.mine()
    }
}

#[cfg(test)]
mod tests;
