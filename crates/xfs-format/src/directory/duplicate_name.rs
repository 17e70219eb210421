//! Duplicate names in a directory.
//!
//! If two entries have the same name, a lookup finds one of them, but a listing shows both. A
//! program that copies the tree would open the first copied file to write the second one, and the
//! first may be a symbolic link. Readers therefore return only the first entry, and report the
//! second.

use alloc::vec::Vec;

use super::{Cookie, DirectoryCheck};

/// An entry with the name of an earlier entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DuplicateName {
    /// The position of the entry.
    pub cookie: Cookie,
    /// The position of the first entry with that name, which is the valid one.
    pub first: Cookie,
}

impl DuplicateName {
    /// Returns the check that the entry fails, for a corruption report.
    #[must_use]
    pub const fn check(self) -> DirectoryCheck {
        DirectoryCheck::NameTwice { offset: self.cookie.offset(), first: self.first.offset() }
    }
}

/// Finds the entries with the name of an earlier entry. Each element of `entries` is a name and a
/// cookie.
#[must_use]
pub fn find_duplicate_names(mut entries: Vec<(&[u8], Cookie)>) -> Vec<DuplicateName> {
    entries.sort_unstable();
    let names = entries.chunk_by(|(a, _), (b, _)| a == b);
    let doubled = names.filter_map(|entries| entries.split_first()).flat_map(|(first, others)| {
        others.iter().map(|(_, cookie)| DuplicateName { cookie: *cookie, first: first.1 })
    });
    doubled.collect()
}
