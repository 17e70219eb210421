//! What this machine's kernel can take away from a process.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError,
    Scope,
};

/// Whether the kernel has a Landlock that keeps files, network, signals and sockets: Linux 6.12 with Landlock.
#[must_use]
pub fn has_landlock() -> bool {
    ask_for_all().is_ok()
}

/// Makes a set of rules that nobody is put under.
fn ask_for_all() -> Result<(), RulesetError> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let ruleset = ruleset.handle_access(AccessFs::from_all(ABI::V6))?;
    let ruleset = ruleset.handle_access(AccessNet::from_all(ABI::V6))?;
    ruleset.scope(Scope::from_all(ABI::V6))?.create().map(drop)
}
