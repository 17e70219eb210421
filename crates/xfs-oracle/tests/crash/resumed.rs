//! Finds the attribute changes that are pending in a dirty log, and that recovery completes.

use std::time::{SystemTime, UNIX_EPOCH};

use ferroxfs::device::SharedDevice;
use xfs_oracle::{Resumed, Time};
use xfs_trans::{IntentPayload, testing};

/// Returns the inodes with a pending attribute change in the log of a device. The result also
/// contains the present time as the start of the recoveries, so call this function before them.
pub(crate) fn resumed(device: &SharedDevice) -> Resumed {
    if testing::superblock(device).has_external_log() {
        // Only parent pointers leave pending attributes, and these tests make no such volume.
        return Resumed { inodes: Default::default(), since: now() };
    }
    let (_, open) = testing::recover(&testing::crashed(device));
    let promises = open.iter().flat_map(|intent| intent.payloads());
    let inodes = promises.filter_map(|promise| match promise {
        IntentPayload::Attr(attribute) => Some(attribute.inode.0),
        _ => None,
    });
    Resumed { inodes: inodes.collect(), since: now() }
}

fn now() -> Time {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { seconds: now.as_secs() as i64, nanoseconds: now.subsec_nanos() }
}
