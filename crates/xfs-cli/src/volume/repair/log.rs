//! Recovery of a dirty log as the first part of a repair.

use ferroxfs::{OpenOptions, Timestamp};
use xfs_device::SharedDevice;
use xfs_repair::{LogOutcome, LogReplay};

/// The recovery that `ferroxfs recover` makes, with a fixed time: the same image must give the same
/// plan.
pub(super) struct Recovery;

impl LogReplay for Recovery {
    fn replay(&self, device: SharedDevice) -> Result<LogOutcome, String> {
        let open = OpenOptions::new().write(true).fixed_time(Timestamp::default());
        match open.with_devices(device, None).recover() {
            Ok(None) => Ok(LogOutcome::Clean),
            Ok(Some(summary)) if summary.unlinked_damaged == 0 => Ok(LogOutcome::Replayed),
            Ok(Some(_)) => Ok(LogOutcome::ReplayedInPart),
            Err(error) => Err(error.to_string()),
        }
    }
}
