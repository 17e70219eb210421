//! Users and groups of this host, by name or by number.

use std::fs;

use crate::predicate::find_id;

/// The number of a user; `None` for a name that this host does not know.
pub(crate) fn user(name: &[u8]) -> Option<u32> {
    find(name, "/etc/passwd")
}

/// The number of a group; `None` for a name that this host does not know.
pub(crate) fn group(name: &[u8]) -> Option<u32> {
    find(name, "/etc/group")
}

/// A name from the host's table, or a number.
fn find(name: &[u8], table: &str) -> Option<u32> {
    let named = fs::read(table).ok().and_then(|table| find_id(&table, name));
    let number = || std::str::from_utf8(name).ok()?.parse().ok();
    named.or_else(number).and_then(|id: u64| u32::try_from(id).ok())
}
