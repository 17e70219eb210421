//! Freezing a volume, so that its device can be copied.

use xfs_vfs::Capabilities;

use super::Volume;
use crate::Result;

impl Volume {
    /// Freezes the volume. Changes wait until it is [thawed](Self::thaw), by any thread. Changes
    /// that are running are completed, and everything is written to the device. Reading continues.
    /// A copy of the device that is taken while the volume is frozen is consistent: its log has
    /// nothing but the superblock to replay, and opening the copy for writing frees the files that
    /// had lost their last name.
    ///
    /// While the volume is frozen, reads do not update access times. Closing the volume thaws it. A
    /// volume that is dropped while it is frozen is left on the device in its frozen state.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EROFS on a volume that is open for reading; EBUSY
    /// if it is frozen already; the error of a [lost](crate::File#buffered-bytes) write; the error
    /// of the log. After the last two errors the volume is not frozen.
    #[doc(alias = "FIFREEZE")]
    pub fn freeze(&self) -> Result<()> {
        self.require(Capabilities::SYS_ADMIN)?;
        self.volume_ref().mount()?.freeze()
    }

    /// Thaws the volume: waiting changes continue.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EROFS on a volume that is open for reading;
    /// EINVAL if it is not frozen.
    #[doc(alias = "FITHAW")]
    pub fn thaw(&self) -> Result<()> {
        self.require(Capabilities::SYS_ADMIN)?;
        self.volume_ref().mount()?.thaw()
    }
}
