//! The usage of all owners, counted by reading all inodes.

use std::ops::ControlFlow;

use xfs_quota::UsageCounts;
use xfs_vfs::Capabilities;

use super::{QuotaType, Quotas};
use crate::{PosixError, Result};

impl Quotas {
    /// Counts the usage of all users, groups and projects by reading all inodes. This shows whether
    /// the usage that [`get`](Self::get) and [`iter`](Self::iter) return is right. Nothing is
    /// written.
    ///
    /// `step` is called repeatedly with the number of inodes counted so far, and for each damaged
    /// structure. `step` can end the count. Damaged inodes are not counted.
    ///
    /// ```
    /// # let device = xfs_trans::testing::make();
    /// # let volume = ferroxfs::OpenOptions::new().open_device(device)?;
    /// use std::ops::ControlFlow;
    ///
    /// use ferroxfs::quota::QuotaType;
    ///
    /// let mut counts = volume.quota().count(|_| ControlFlow::Continue(()))?;
    /// // The root directory, and the inodes of the realtime bitmap and summary.
    /// assert_eq!(counts.take(QuotaType::User, 0).inodes, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EBUSY on a volume that is open for writing, whose
    /// inodes on disk may be old; EUCLEAN for a damaged superblock or metadata directory; the
    /// device's error.
    #[doc(alias = "quotacheck")]
    pub fn count(
        &self,
        mut step: impl FnMut(Result<u64>) -> ControlFlow<()>,
    ) -> Result<UsageCounts> {
        self.volume.require(Capabilities::SYS_ADMIN)?;
        if self.volume_ref().mount().is_ok() {
            return Err(PosixError::Busy.into());
        }
        let mut exempt = Vec::new();
        for kind in QuotaType::ALL {
            exempt.extend(self.number(kind)?);
        }
        Ok(UsageCounts::of_volume(self.volume_ref().cache(), &exempt, &mut step))
    }
}
