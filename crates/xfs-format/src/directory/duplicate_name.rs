//! Names that a directory holds twice.
//!
//! A lookup finds one of the two entries, and a listing shows both. Who copies the tree writes the
//! second one through the first, which may be a symbolic link. So readers give out the first entry
//! alone, and report the other.

use alloc::vec::Vec;

use super::{Cookie, DirectoryCheck};

/// An entry whose name another entry has, which lies before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DuplicateName {
    /// The entry.
    pub cookie: Cookie,
    /// The entry of the same name that counts.
    pub first: Cookie,
}

impl DuplicateName {
    /// What is wrong with the entry.
    #[must_use]
    pub const fn check(self) -> DirectoryCheck {
        DirectoryCheck::NameTwice { offset: self.cookie.offset(), first: self.first.offset() }
    }
}

/// The entries among these, by name and cookie, whose name an earlier one has.
#[must_use]
pub fn find_duplicate_names(mut entries: Vec<(&[u8], Cookie)>) -> Vec<DuplicateName> {
    entries.sort_unstable();
    let names = entries.chunk_by(|(a, _), (b, _)| a == b);
    let doubled = names.filter_map(|entries| entries.split_first()).flat_map(|(first, others)| {
        others.iter().map(|(_, cookie)| DuplicateName { cookie: *cookie, first: first.1 })
    });
    doubled.collect()
}
