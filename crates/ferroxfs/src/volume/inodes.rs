//! The inodes of a volume that are in memory, for its user. A volume that is open for reading keeps
//! none: each [`Node`] has its own.

use std::ops::ControlFlow;

use xfs_buffer::PosixError;
use xfs_format::InodeNumber;
use xfs_icache::{CacheCounts, InodeWalk, WalkFilter, count_inodes, drop_idle};
use xfs_log::Shutdown;

use super::Volume;
use crate::Result;
use crate::credentials::Capabilities;
use crate::node::Node;
use crate::statistics::Statistics;

impl Volume {
    /// Hands each inode that is in memory to `f`, until that stops the walk. No lock is held meanwhile:
    /// `f` may do whatever it likes, on this volume too.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EROFS on a volume that is open for reading.
    #[doc(alias = "super_iter_inodes")]
    pub fn iter_inodes(
        &self,
        which: WalkFilter,
        mut f: impl FnMut(&Node) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        self.require(Capabilities::SYS_ADMIN)?;
        let share = self.share();
        Ok(share.parts()?.inode_cache.iter_inodes(which, |entry| {
            entry.share();
            f(&share.live(entry.clone()))
        }))
    }

    /// Has `tell` hear of each file that shows other blocks than before, or less than was written, though
    /// nobody has just asked for a change: where space ahead of its end is given back, or what was in memory
    /// takes more or fewer blocks than were shown. This is for who keeps what [`Node::metadata`] has said. It
    /// is called with locks held, so it must neither wait nor use this volume.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EROFS on a volume that is open for reading; EBUSY if
    /// somebody hears of them already.
    pub fn tell_of_blocks(&self, tell: impl Fn(InodeNumber) + Send + Sync + 'static) -> Result<()> {
        self.require(Capabilities::SYS_ADMIN)?;
        let is_first = self.share().parts()?.unsettled.listen(Box::new(tell));
        if is_first { Ok(()) } else { Err(PosixError::Busy.into()) }
    }

    /// Lets go of all inodes that nobody uses. Returns how many that were.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EROFS on a volume that is open for reading.
    pub fn drop_caches(&self) -> Result<u64> {
        self.require(Capabilities::SYS_ADMIN)?;
        let parts = self.share().parts()?;
        parts.dentries.clear();
        parts.refs.clear(&parts.inode_cache);
        parts.inode_cache.forget_near();
        Ok(drop_idle(&parts.inode_cache))
    }

    /// Counts the inodes that are in memory, by looking at each: for an overview, not for a hot path.
    ///
    /// # Errors
    ///
    /// EROFS on a volume that is open for reading.
    pub fn cache_counts(&self) -> Result<CacheCounts> {
        Ok(count_inodes(&self.share().parts()?.inode_cache))
    }

    /// Shuts the volume down: every operation that changes something fails from now on
    /// ([`Error::Shutdown`](crate::Error::Shutdown)), and the log is left for the next who opens the volume. What
    /// [waits in memory](crate::File#what-waits-in-memory) of files is lost, also where a flush is asked for.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EROFS on a volume that is open for reading; what kept a flush from
    /// being done, where `how` asks for one: the volume is shut down all the same.
    #[doc(alias = "XFS_IOC_GOINGDOWN")]
    pub fn shut_down(&self, how: Shutdown) -> Result<()> {
        self.require(Capabilities::SYS_ADMIN)?;
        self.share().parts()?.journal.shut_down(how)
    }

    /// What has been counted since the volume was opened.
    ///
    /// # Errors
    ///
    /// EROFS on a volume that is open for reading.
    pub fn statistics(&self) -> Result<Statistics> {
        Ok(Statistics::gather(self.share().parts()?))
    }
}

#[cfg(test)]
mod tests;
