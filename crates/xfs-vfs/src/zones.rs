//! The inodes of a mounted volume for the collector of zones.
//!
//! Owns: finding a file in the inode cache by its number. Does **not** own: the collection
//! (`xfs-inode`).

use std::sync::{Arc, Weak};

use xfs_buffer::{Error, PosixError, Result};
use xfs_format::InodeNumber;
use xfs_icache::Keep;
use xfs_inode::{CachedInodes, LiveInode, set_collector_inodes};

use crate::mount::Mount;

/// The inode cache of a mount. The reference is weak: the journal, which the mount has, keeps this
/// value.
struct MountInodes(Weak<Mount>);

impl CachedInodes for MountInodes {
    fn with_inode(
        &self,
        number: InodeNumber,
        work: &mut dyn FnMut(&Arc<LiveInode>) -> Result<()>,
    ) -> Result<bool> {
        let Some(mount) = self.0.upgrade() else { return Ok(false) };
        match mount.inode_cache.take_as(number, Keep::Once) {
            Ok(inode) => work(inode.inode().live()).map(|()| true),
            Err(Error::Posix(PosixError::NotFound)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Lets the collector of the mounted volume find files.
pub(crate) fn serve_collector(mount: &Arc<Mount>) {
    set_collector_inodes(&mount.journal, Box::new(MountInodes(Arc::downgrade(mount))));
}
