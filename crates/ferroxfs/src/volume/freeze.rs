//! Standing still, so that the device can be copied.

use super::Volume;
use crate::Result;
use crate::credentials::Capabilities;

impl Volume {
    /// Brings the volume to rest: who wants to change something waits until it is [thawed](Self::thaw), from
    /// whatever thread; what is under way ends, and everything is written to the device. Reading goes on. A
    /// copy of the device that is taken meanwhile is whole; who opens it finds a log with nothing but the
    /// superblock, and frees the files in it that had lost their last name.
    ///
    /// The time of an access is not noted meanwhile. Closing the volume thaws it; one that is dropped is
    /// left as it stands.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EROFS on a volume that is open for reading; EBUSY if it is frozen
    /// already; the error of a write that was [lost](crate::File#what-waits-in-memory), and what stopped the log. It is
    /// not frozen then.
    #[doc(alias = "FIFREEZE")]
    pub fn freeze(&self) -> Result<()> {
        self.require(Capabilities::SYS_ADMIN)?;
        self.share().parts()?.freeze()
    }

    /// Lets those go on who wait.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EROFS on a volume that is open for reading; EINVAL if it is not
    /// frozen.
    #[doc(alias = "FITHAW")]
    pub fn thaw(&self) -> Result<()> {
        self.require(Capabilities::SYS_ADMIN)?;
        self.share().parts()?.thaw()
    }
}
