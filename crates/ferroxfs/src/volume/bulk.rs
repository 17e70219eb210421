//! Bulkstat: all inodes of a volume that is mounted read-write, in the order of their numbers.

use std::ops::ControlFlow;

use xfs_format::{AgInode, AgNumber, InodeNumber};
use xfs_vfs::{BulkPath, Capabilities, InodeChunkUse, Metadata, groups_from};

use super::Volume;
use crate::Result;

impl Volume {
    /// Calls `f` with each inode in use from number `from` on, in order, until `f` stops the
    /// listing. For a damaged inode, `f` gets an error instead.
    ///
    /// If an inode is cached, `f` gets the cached state, so that it sees all earlier changes.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EROFS on a volume that is open for reading;
    /// damage of the inode btrees; the device's error.
    #[doc(alias = "XFS_IOC_BULKSTAT")]
    pub fn bulkstat(
        &self,
        from: InodeNumber,
        path: BulkPath,
        mut f: impl FnMut(InodeNumber, Result<Metadata>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let geometry = self.geometry();
        for (group, from) in groups_from(geometry, from) {
            if self.bulkstat_group(group, from, path, &mut f)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Lists inodes as [`bulkstat`](Self::bulkstat) does, but only those of one allocation group,
    /// from the inode `from` of this group on. A caller that reads several groups in parallel needs
    /// this function.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`bulkstat`](Self::bulkstat).
    #[doc(alias = "XFS_BULK_IREQ_AGNO")]
    pub fn bulkstat_group(
        &self,
        group: AgNumber,
        from: AgInode,
        path: BulkPath,
        mut f: impl FnMut(InodeNumber, Result<Metadata>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        self.require(Capabilities::SYS_ADMIN)?;
        self.volume_ref().mount()?.bulkstat_group(group, from, path, &mut f)
    }

    /// Calls `f` with each chunk of inodes from number `from` on, until `f` stops the listing. A
    /// chunk says which of its inodes exist and which are in use.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`bulkstat`](Self::bulkstat).
    #[doc(alias = "XFS_IOC_INUMBERS")]
    pub fn inumbers(
        &self,
        from: InodeNumber,
        f: impl FnMut(InodeChunkUse) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        self.require(Capabilities::SYS_ADMIN)?;
        self.volume_ref().mount()?.inumbers(from, f)
    }
}

#[cfg(test)]
mod tests;
