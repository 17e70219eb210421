//! Entries with damaged fields in a leaf of attributes.
//!
//! Owns: the decision which entries of a leaf can be believed, and corrections of single fields.
//! The hash of an entry confirms its name and two of its flags: with a wrong flag for a parent
//! pointer or for a local value, the hash would differ from the stored one.

use xfs_format::attr::leaf::AttrLeafEntryDisk;
use xfs_format::attr::{AttrEntry, AttrFlags, AttrLeaf, Namespace};
use xfs_format::directory::name_hash;
use xfs_format::parent::Parent;
use xfs_format::{InodeNumber, StructureAddress};

use super::{AttributeDoubt, namespace};
use crate::volume::Trust;

/// A placeholder for the address in errors that are discarded.
const NOWHERE: StructureAddress = StructureAddress::Inode(InodeNumber(0));

/// An attribute of a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafEntry<'a> {
    pub(super) entry: AttrEntry<'a>,
    /// The uncertain part of the attribute.
    pub(super) doubt: Option<AttributeDoubt>,
}

/// Returns the attributes of a leaf, without incomplete ones, which readers ignore. `None` stands
/// for an attribute of which a part is lost.
pub(super) fn entries<'a>(leaf: &AttrLeaf<'a>, trust: Trust) -> Vec<Option<LeafEntry<'a>>> {
    let is_live = |entry: &&AttrLeafEntryDisk| entry.flags & AttrFlags::INCOMPLETE.bits() == 0;
    let stored: Vec<AttrLeafEntryDisk> = leaf.table().iter().filter(is_live).copied().collect();
    let hashes: Vec<u32> = stored.iter().map(|entry| entry.hash.get()).collect();
    let read = leaf.entries().zip(&stored).enumerate();
    read.map(|(index, (entry, stored))| match entry {
        // In a sound leaf the hash is not needed as a proof. A value that is no parent pointer
        // still shows that the flag of one is wrong.
        Ok(entry)
            if (trust == Trust::Sound && hash_of(&entry).is_some())
                || is_believed(&entry, &hashes, index) =>
        {
            Some(LeafEntry { entry, doubt: None })
        }
        _ => corrected(leaf, *stored),
    })
    .collect()
}

/// Returns whether an entry can be believed: its stored hash is the hash of its name, or only the
/// stored hash is damaged. In the second case, the stored hash is out of order among the hashes of
/// the neighbouring entries, and the hash of the name is in order.
fn is_believed(entry: &AttrEntry<'_>, hashes: &[u32], index: usize) -> bool {
    let Some(hash) = hash_of(entry) else { return false };
    let stored = hashes.get(index).copied();
    let before = index.checked_sub(1).and_then(|index| hashes.get(index));
    let after = hashes.get(index + 1);
    let is_between = |hash: u32| {
        before.is_none_or(|before| *before <= hash) && after.is_none_or(|after| hash <= *after)
    };
    stored == Some(hash) || (is_between(hash) && !stored.is_some_and(is_between))
}

/// Returns the hash by which an attribute is sorted. Returns `None` for an impossible parent
/// pointer.
fn hash_of(entry: &AttrEntry<'_>) -> Option<u32> {
    match Parent::decode(entry, NOWHERE) {
        Ok(Some(parent)) => Some(parent.hash()),
        Ok(None) => Some(name_hash(entry.name)),
        Err(_) => None,
    }
}

/// Returns the attribute of a damaged entry with corrected flags: the flags with which the hash of
/// the attribute equals the stored hash. Returns `None` if no flags give that hash.
fn corrected<'a>(leaf: &AttrLeaf<'a>, stored: AttrLeafEntryDisk) -> Option<LeafEntry<'a>> {
    let local = AttrFlags::LOCAL.bits();
    let stated = stored.flags & local;
    [stated, stated ^ local].into_iter().find_map(|form| {
        let with = |namespace: Namespace| {
            let flags = namespace.flags().bits() | form;
            let entry = leaf.attribute(&AttrLeafEntryDisk { flags, ..stored }).ok()?;
            (hash_of(&entry) == Some(stored.hash.get())).then_some(entry)
        };
        let name = with(Namespace::User).map_or(&[][..], |entry| entry.name);
        let meant = namespace::meant(stored.flags, name, |namespace| with(namespace).is_some())?;
        Some(LeafEntry { entry: with(meant.namespace)?, doubt: meant.doubt() })
    })
}

#[cfg(test)]
mod tests;
