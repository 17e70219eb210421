//! The layers below the API: the on-disk format, the log, the buffer cache, in-core inodes.
//!
//! **No stability is promised.** A new version may change or remove anything here. This module
//! needs the feature `raw`, which also adds methods to [`Volume`], [`Node`] and [`Devices`].
//!
//! This module is for programs that read structures below files, such as a checker. Nothing here
//! checks permissions.

use std::sync::Arc;

pub use xfs_buffer::BufferCache;
pub use xfs_format as format;
pub use xfs_format::Superblock;
pub use xfs_log as log;

pub use crate::node::InodeView;
pub use crate::open::Description;

use crate::device::Devices;
use crate::{Error, Node, Volume};

impl Volume {
    /// Returns the superblock as it was read when the volume was opened.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        self.volume_ref().superblock()
    }

    /// Returns the buffer cache, which finds blocks of metadata by their disk address. Tools that
    /// read structures below files use it.
    #[must_use]
    pub fn cache(&self) -> &Arc<BufferCache> {
        self.volume_ref().cache()
    }

    /// Returns the state of the log when the volume was opened. `None`: the log is external and its
    /// device was not given.
    #[must_use]
    pub fn log_state(&self) -> Option<&xfs_log::LogState> {
        self.volume_ref().log_state()
    }
}

impl Node {
    /// Returns a view of the in-core inode.
    #[must_use]
    pub fn inode(&self) -> InodeView<'_> {
        self.view()
    }
}

impl Devices {
    /// Returns the superblock and the state of the log, even if opening the volume would be
    /// refused.
    ///
    /// # Errors
    ///
    /// The superblock may be unreadable, corrupt, or of a version before 4.
    pub fn describe(&self) -> Result<Description, Error> {
        self.description()
    }

    /// Returns the log of the volume with this superblock, for reading. `None`: the log is external
    /// and its device was not given.
    pub fn log(&self, superblock: &Superblock) -> Option<Result<xfs_log::LogDevice, Error>> {
        self.log_of(superblock)
    }
}
