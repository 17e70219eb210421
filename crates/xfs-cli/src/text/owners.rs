//! Users, groups and projects of this host: conversion between names and ids.

use std::collections::HashMap;
use std::fs;

/// Returns the id of a user from a name or a number. `None` if this host has no such name.
pub(crate) fn user(name: &[u8]) -> Option<u32> {
    find(name, "/etc/passwd")
}

/// Returns the id of a group, which is given by name or number. `None` if this host has no such
/// name.
pub(crate) fn group(name: &[u8]) -> Option<u32> {
    find(name, "/etc/group")
}

/// Returns the id of a project, which is given by name or number. `None` if this host has no such
/// name.
pub(crate) fn project(name: &[u8]) -> Option<u32> {
    // A host without the table has no names.
    let table = NameTable::parse(&fs::read("/etc/projid").unwrap_or_default());
    let number = || std::str::from_utf8(name).ok()?.parse().ok();
    table.find_id(name).or_else(number)
}

/// Looks up a name in a table of the host, such as /etc/passwd. If the table does not have the
/// name, parses the name as a number. The number 2^32 - 1 is no id: it means "no change" in system
/// calls.
fn find(name: &[u8], table: &str) -> Option<u32> {
    // A host without the table has no names.
    id_in(&fs::read(table).unwrap_or_default(), name)
}

/// Works as [`user`] and [`group`], with a table like /etc/passwd of another system.
pub(crate) fn id_in(table: &[u8], name: &[u8]) -> Option<u32> {
    let number = || std::str::from_utf8(name).ok()?.parse().ok();
    let id = find_id(table, name).or_else(number).and_then(|id: u64| u32::try_from(id).ok());
    id.filter(|id| *id != u32::MAX)
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

/// The names in a table of the host, by their ids.
#[derive(Debug, Default)]
pub(crate) struct NameTable {
    names: HashMap<u32, Vec<u8>>,
}

impl NameTable {
    /// Reads a table like /etc/passwd, with lines `name:password:id:…`, or like /etc/projid, with
    /// lines `name:id`. If an id has several names, the first one is used.
    pub(crate) fn parse(table: &[u8]) -> Self {
        let mut names = HashMap::new();
        for line in table.split(|&byte| byte == b'\n') {
            let fields: Vec<&[u8]> = line.split(|&byte| byte == b':').collect();
            let (name, id) = match fields.as_slice() {
                [name, id] | [name, _, id, ..] => (*name, *id),
                _ => continue,
            };
            let id = std::str::from_utf8(id).ok().and_then(|id| id.trim().parse().ok());
            if let Some(id) = id.filter(|_| !name.is_empty() && !name.starts_with(b"#")) {
                names.entry(id).or_insert_with(|| name.to_vec());
            }
        }
        Self { names }
    }

    /// Returns the name of an id.
    pub(crate) fn find(&self, id: u32) -> Option<&[u8]> {
        self.names.get(&id).map(Vec::as_slice)
    }

    /// Returns all names by their ids. Bytes that are not UTF-8 are replaced.
    pub(crate) fn into_texts(self) -> HashMap<u32, String> {
        let texts = self.names.into_iter();
        texts.map(|(id, name)| (id, String::from_utf8_lossy(&name).into_owned())).collect()
    }

    /// Returns the id of a name.
    pub(crate) fn find_id(&self, name: &[u8]) -> Option<u32> {
        self.names.iter().find(|(_, known)| *known == name).map(|(id, _)| *id)
    }
}

#[cfg(test)]
mod tests;
