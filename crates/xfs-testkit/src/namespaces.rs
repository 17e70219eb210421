//! Detects whether the tests may create mount namespaces.

use std::process::{Command, Stdio};

/// Returns whether this user can create a mount namespace, directly or inside a new user namespace.
/// Containers often allow neither. The function runs unshare(1) to find out.
#[must_use]
pub fn has_namespaces() -> bool {
    let makes = |kinds: &[&str]| {
        let mut unshare = Command::new("unshare");
        unshare.args(kinds).arg("true").stderr(Stdio::null());
        unshare.status().is_ok_and(|status| status.success())
    };
    makes(&["--mount"]) || makes(&["--map-current-user", "--mount"])
}
