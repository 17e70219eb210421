//! Users and groups of this host, by name or by number.

use std::fs;

/// Returns the number of a user; `None` for a name that this host does not know.
pub(crate) fn user(name: &[u8]) -> Option<u32> {
    find(name, "/etc/passwd")
}

/// Returns the number of a group; `None` for a name that this host does not know.
pub(crate) fn group(name: &[u8]) -> Option<u32> {
    find(name, "/etc/group")
}

/// Looks a name up in a table of the host, or parses a number.
fn find(name: &[u8], table: &str) -> Option<u32> {
    let named = fs::read(table).ok().and_then(|table| find_id(&table, name));
    let number = || std::str::from_utf8(name).ok()?.parse().ok();
    named.or_else(number).and_then(|id: u64| u32::try_from(id).ok())
}

/// Returns the number in a table like /etc/passwd: `name:password:id:…`.
pub(crate) fn find_id(table: &[u8], name: &[u8]) -> Option<u64> {
    table.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.split(|&byte| byte == b':');
        if fields.next()? != name {
            return None;
        }
        std::str::from_utf8(fields.nth(1)?).ok()?.parse().ok()
    })
}
