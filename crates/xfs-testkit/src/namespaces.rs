//! Whether a process of this user can have namespaces of its own.

use std::process::{Command, Stdio};

/// Whether a program gets a mount namespace, in a user namespace where this user may make no other: containers
/// often allow neither. Asked of unshare(1).
#[must_use]
pub fn has_namespaces() -> bool {
    let makes = |kinds: &[&str]| {
        let mut unshare = Command::new("unshare");
        unshare.args(kinds).arg("true").stderr(Stdio::null());
        unshare.status().is_ok_and(|status| status.success())
    };
    makes(&["--mount"]) || makes(&["--map-current-user", "--mount"])
}
