//! Watching an inode, or a tree.
//!
//! ```
//! # let device = xfs_trans::testing::make();
//! # let volume = ferroxfs::OpenOptions::new().write(true).open_device(device)?;
//! use ferroxfs::watch::{Scope, WatchEvents};
//!
//! let watch = volume.root()?.watch(WatchEvents::CREATE, Scope::Inode)?;
//! volume.create_dir("/new")?;
//! let event = watch.try_next().expect("the change was committed");
//! assert_eq!(event.name.as_deref(), Some("new".as_ref()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use xfs_buffer::PosixError;
use xfs_format::IncompatFeatures;
use xfs_format::superblock::Unsupported;
use xfs_icache::Mark;
use xfs_vfs::{Access, Capabilities, begin_watch};

pub use xfs_vfs::{Scope, Watch, WatchEvent, WatchEvents};

use crate::Result;
use crate::node::Node;

impl Node {
    /// Watches this inode, or with [`Scope::Subtree`] also everything below this directory.
    ///
    /// # Errors
    ///
    /// - EACCES if the caller may not read this inode; EPERM for a subtree without
    ///   [`Capabilities::SYS_ADMIN`].
    /// - EROFS on a volume that is open for reading.
    /// - ENOTDIR for a subtree that is not a directory.
    /// - EOPNOTSUPP for a subtree on a volume without parent pointers, where a file does not know
    ///   its directory.
    #[doc(alias = "inotify_add_watch")]
    #[doc(alias = "fanotify_mark")]
    pub fn watch(&self, events: WatchEvents, scope: Scope) -> Result<Watch> {
        let (mount, entry) = self.writable()?;
        if scope == Scope::Inode {
            self.check(Access::READ)?;
        } else {
            // A subtree may hold directories that the caller must not read.
            self.caller().require(Capabilities::SYS_ADMIN)?;
            if !mount.geometry().has_incompat(IncompatFeatures::PARENT) {
                return Err(Unsupported::NoParentPointers.into());
            }
            if !entry.is_directory() {
                return Err(PosixError::NotDirectory.into());
            }
        }
        Ok(begin_watch(self.volume_ref().weak_mount(), entry, events, scope))
    }

    /// Keeps this inode cached until the volume is closed.
    ///
    /// # Errors
    ///
    /// EROFS on a volume that is open for reading.
    pub fn keep_in_memory(&self) -> Result<()> {
        let (_, entry) = self.writable()?;
        entry.mark(Mark::Keeper);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
