//! What this machine's kernel can take away from a process.

use std::fs;

/// Whether the kernel has a Landlock that keeps files, network, signals and sockets: Linux 6.12, with Landlock
/// among its security modules.
#[must_use]
pub fn has_landlock() -> bool {
    let modules = fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let numbers: Vec<u32> = release.split('.').map_while(|part| part.parse().ok()).collect();
    modules.contains("landlock") && numbers >= vec![6, 12]
}
