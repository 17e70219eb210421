//! Users and groups of this host: conversion of a name or a number to an id.

use std::fs;

/// Returns the id of a user, who is given by name or number. `None` if this host has no such name.
pub(crate) fn user(name: &[u8]) -> Option<u32> {
    find(name, "/etc/passwd")
}

/// Returns the id of a group, which is given by name or number. `None` if this host has no such
/// name.
pub(crate) fn group(name: &[u8]) -> Option<u32> {
    find(name, "/etc/group")
}

/// Looks up a name in a table of the host, such as /etc/passwd. If the table does not have the
/// name, parses the name as a number.
fn find(name: &[u8], table: &str) -> Option<u32> {
    let named = fs::read(table).ok().and_then(|table| find_id(&table, name));
    let number = || std::str::from_utf8(name).ok()?.parse().ok();
    named.or_else(number).and_then(|id: u64| u32::try_from(id).ok())
}

/// Returns the id of a name in a table like /etc/passwd, with lines `name:password:id:…`. `None` if
/// the table does not have the name.
pub(crate) fn find_id(table: &[u8], name: &[u8]) -> Option<u64> {
    table.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.split(|&byte| byte == b':');
        if fields.next()? != name {
            return None;
        }
        std::str::from_utf8(fields.nth(1)?).ok()?.parse().ok()
    })
}
