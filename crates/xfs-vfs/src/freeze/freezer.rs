//! The state of a freeze: the gate that operations pass, its phase, and the files whose last writer
//! was closed meanwhile.

use std::collections::BTreeMap;

use xfs_sync::{Gate, Mutex, Volume};

use crate::kind::StoredRef;

/// The state of a freeze: the gate, the phase, and the files that wait for the thaw.
#[derive(Default)]
pub(crate) struct Freezer {
    pub(crate) gate: Gate,
    pub(crate) phase: Mutex<FreezePhase, Volume>,
    /// Files, by inode number, whose last writer was closed while the gate was closed. Each file is
    /// referenced, so that its inode stays cached: only the cached inode knows that the file has
    /// preallocated blocks.
    pub(crate) put_off: Mutex<BTreeMap<u64, StoredRef>, Volume>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FreezePhase {
    #[default]
    Thawed,
    /// The volume is being frozen or thawed.
    Changing,
    Frozen,
    /// The volume is frozen, so that it can grow.
    Growing,
    /// The volume is frozen, so that its UUID can change.
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
