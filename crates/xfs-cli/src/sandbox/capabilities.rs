//! The capabilities of root that a command keeps inside the sandbox.
//!
//! Owns: the list of these capabilities. A command that works only on open files needs none,
//! because the kernel checks rights when a file is opened. Does **not** own: the decision when all
//! other capabilities are dropped ([`give_up`](super::give_up)).

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

use super::{Reach, Rights};

/// The capabilities for creating and replacing names in a directory of another user, and for
/// writing a file that keeps its set-ID bits.
const NAMES: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID);

/// The capabilities for setting owner, mode, flags and attributes of files. Attributes of `trusted`
/// and `security` need `CAP_SYS_ADMIN`.
const TREES: CapabilitySet = NAMES
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::LINUX_IMMUTABLE)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::SYS_ADMIN);

/// Returns the capabilities that a command with this reach needs.
pub(super) fn needed(reach: &Reach<'_>) -> CapabilitySet {
    match reach {
        Reach::Nothing | Reach::OpenRings => CapabilitySet::empty(),
        Reach::Beneath(_, Rights::Names) | Reach::NamesBeneath(_) => NAMES,
        Reach::Beneath(_, Rights::Trees) => TREES,
        Reach::Beneath(_, Rights::TreesAndDevices) => TREES | CapabilitySet::MKNOD,
        // Commands with this reach do not enter the sandbox.
        Reach::Host | Reach::ByThread => CapabilitySet::all(),
    }
}

/// Drops all capabilities of this thread except `needed`, from every set and for good.
///
/// # Errors
///
/// Errors of the system.
pub(super) fn keep(needed: CapabilitySet) -> Result<(), Errno> {
    let own = capabilities(None)?;
    // The bounding set matters only when programs are run, which the filter also forbids. Reducing
    // it takes a capability, so it comes first. A thread without that capability may keep the set.
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
