//! The state of a freeze: the gate that operations pass, and the end of writing that was put off.

use std::collections::BTreeMap;
use std::sync::Arc;

use xfs_sync::{Gate, Mutex, Volume};

use crate::kind::CachedInode;

/// The state of a freeze.
#[derive(Default)]
pub(crate) struct Freezer {
    pub(crate) gate: Gate,
    pub(crate) phase: Mutex<FreezePhase, Volume>,
    /// Files by number whose end of writing was put off. Each is referenced and so stays cached,
    /// because only the cached inode knows of its preallocated blocks.
    pub(crate) put_off: Mutex<BTreeMap<u64, Arc<CachedInode>>, Volume>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FreezePhase {
    #[default]
    Thawed,
    /// On the way to rest, or from it.
    Changing,
    Frozen,
    /// At rest, while the volume grows.
    Growing,
    /// At rest, while the UUID changes.
    Renaming,
}

impl Freezer {
    pub(crate) fn is_frozen(&self) -> bool {
        *self.phase.lock() == FreezePhase::Frozen
    }

    pub(crate) fn change_phase(&self, from: FreezePhase, to: FreezePhase) -> bool {
        let mut phase = self.phase.lock();
        let is_so = *phase == from;
        if is_so {
            *phase = to;
        }
        is_so
    }
}
