//! The capabilities of root that a command keeps inside the sandbox.
//!
//! Owns: which those are. A command that works on open files alone needs none: the kernel asks for
//! rights when a file is opened. Does **not** own: when they are dropped ([`give_up`](super::give_up)).

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

use super::{Reach, Rights};

/// To make and replace names in a directory that belongs to another user, and to write a file that
/// keeps its set-ID bits.
const NAMES: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID);

/// To give files their owner, mode, flags and attributes; those of `trusted` and `security` take
/// `CAP_SYS_ADMIN`.
const TREES: CapabilitySet = NAMES
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::LINUX_IMMUTABLE)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::SYS_ADMIN);

/// The capabilities that are needed for this.
pub(super) fn needed(reach: &Reach<'_>) -> CapabilitySet {
    match reach {
        Reach::Nothing | Reach::OpenRings => CapabilitySet::empty(),
        Reach::Beneath(_, Rights::Names) => NAMES,
        Reach::Beneath(_, Rights::Trees) => TREES,
        Reach::Beneath(_, Rights::TreesAndDevices) => TREES | CapabilitySet::MKNOD,
        // These do not enter.
        Reach::Host | Reach::ByThread => CapabilitySet::all(),
    }
}

/// Drops all other capabilities of this thread, from every set and for good.
///
/// # Errors
///
/// The system's.
pub(super) fn keep(needed: CapabilitySet) -> Result<(), Errno> {
    let own = capabilities(None)?;
    // The bounding set matters where programs are run, which the filter forbids too. To reduce it
    // takes a capability, so it comes first; a thread without that one may keep it.
    if own.effective.contains(CapabilitySet::SETPCAP) {
        for capability in (CapabilitySet::all() - needed).iter() {
            match remove_capability_from_bounding_set(capability) {
                // This kernel does not know the capability.
                Ok(()) | Err(Errno::INVAL) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    clear_ambient_capability_set()?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: own.effective & needed,
            permitted: own.permitted & needed,
            inheritable: CapabilitySet::empty(),
        },
    )
}
