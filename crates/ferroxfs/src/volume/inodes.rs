//! Access to the inode cache of a volume: counting, evicting and walking over cached inodes. A
//! volume that is open for reading has no inode cache: each [`Node`] has its own inode.

use std::ops::ControlFlow;

use xfs_buffer::PosixError;
use xfs_format::InodeNumber;
use xfs_icache::{CacheCounts, InodeWalk, WalkFilter, count_inodes, drop_idle};
use xfs_log::Shutdown;
use xfs_vfs::Capabilities;
use xfs_vfs::InodeRef;

use super::Volume;
use crate::Result;
use crate::node::Node;
use crate::stats::VolumeStats;

impl Volume {
    /// Calls `f` with each cached inode, until `f` stops the walk. No lock is held: `f` may use
    /// this volume too.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EROFS on a volume that is open for reading.
    #[doc(alias = "super_iter_inodes")]
    pub fn iter_inodes(
        &self,
        filter: WalkFilter,
        mut f: impl FnMut(&Node) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        self.require(Capabilities::SYS_ADMIN)?;
        let (volume, mount) = (self.volume_ref(), self.volume_ref().mount()?);
        Ok(mount
            .inode_cache
            .iter_inodes(filter, |entry| f(&volume.node_of(InodeRef::new(mount, entry.clone())))))
    }

    /// Registers a listener for changes of a file's number of blocks or size that no call
    /// requested. Such a change occurs when preallocated blocks are freed, or when the write of
    /// buffered bytes uses more or fewer blocks than [`Node::metadata`] has reported. Callers that
    /// cache metadata need such a listener. The listener is called with locks held, so it must
    /// neither wait nor use this volume.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EROFS on a volume that is open for reading; EBUSY
    /// if there is a listener already.
    pub fn on_blocks_changed(
        &self,
        listener: impl Fn(InodeNumber) + Send + Sync + 'static,
    ) -> Result<()> {
        self.require(Capabilities::SYS_ADMIN)?;
        let is_first = self.volume_ref().mount()?.flusher.listen(Box::new(listener));
        if is_first { Ok(()) } else { Err(PosixError::Busy.into()) }
    }

    /// Evicts all unreferenced inodes from the inode cache, and returns their number.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EROFS on a volume that is open for reading.
    pub fn drop_caches(&self) -> Result<u64> {
        self.require(Capabilities::SYS_ADMIN)?;
        let mount = self.volume_ref().mount()?;
        mount.dentries.clear();
        mount.refs.clear(&mount.inode_cache);
        let dropped = drop_idle(&mount.inode_cache);
        mount.inode_cache.forget_near();
        Ok(dropped)
    }

    /// Returns counts of the cached inodes. The call visits each cached inode, so it is meant for
    /// an overview and not for a hot path.
    ///
    /// # Errors
    ///
    /// EROFS on a volume that is open for reading.
    pub fn cache_counts(&self) -> Result<CacheCounts> {
        Ok(count_inodes(&self.volume_ref().mount()?.inode_cache))
    }

    /// Shuts the volume down. Every later change fails
    /// ([`Error::Shutdown`](crate::Error::Shutdown)), and the log is left for the next open.
    /// [Buffered bytes](crate::File#buffered-bytes) of files are lost, even if `how` requests a
    /// flush.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EROFS on a volume that is open for reading; the
    /// error of a flush, if `how` requests one: the volume is shut down nevertheless.
    #[doc(alias = "XFS_IOC_GOINGDOWN")]
    pub fn shut_down(&self, how: Shutdown) -> Result<()> {
        self.require(Capabilities::SYS_ADMIN)?;
        self.volume_ref().mount()?.journal.shut_down(how)
    }

    /// Returns the counters since the volume was opened.
    ///
    /// # Errors
    ///
    /// EROFS on a volume that is open for reading.
    pub fn statistics(&self) -> Result<VolumeStats> {
        Ok(VolumeStats::gather(self.volume_ref().mount()?))
    }
}

#[cfg(test)]
mod tests;
