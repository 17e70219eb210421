//! Detects which restrictions of Landlock (the Linux sandbox) the kernel of this machine supports.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError,
    Scope,
};

/// Returns whether this kernel's Landlock can restrict files, network, signals and sockets. All of
/// these need Linux 6.12 with Landlock enabled.
#[must_use]
pub fn has_landlock() -> bool {
    ask_for_all().is_ok()
}

/// Creates a ruleset with every restriction, without applying it to a process. Fails if the kernel
/// lacks one of the restrictions.
fn ask_for_all() -> Result<(), RulesetError> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let ruleset = ruleset.handle_access(AccessFs::from_all(ABI::V6))?;
    let ruleset = ruleset.handle_access(AccessNet::from_all(ABI::V6))?;
    ruleset.scope(Scope::from_all(ABI::V6))?.create().map(drop)
}
