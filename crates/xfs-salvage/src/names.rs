//! Collects names from parent pointers, for directories that are damaged or gone.

use std::collections::BTreeMap;

use xfs_evidence::AttributeEvidence;
use xfs_format::InodeNumber;

/// The most names that are kept. Further names are dropped, and their files become orphans.
const MOST_NAMES: u64 = 1 << 26;

/// A name from a parent pointer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PointerName {
    pub(crate) name: Box<[u8]>,
    pub(crate) child: InodeNumber,
}

/// The names of damaged and missing directories.
#[derive(Debug, Default)]
pub(crate) struct FoundNames {
    by_parent: BTreeMap<InodeNumber, Vec<PointerName>>,
    count: u64,
    /// Number of names that were dropped because `MOST_NAMES` were kept already.
    pub(crate) dropped: u64,
}

impl FoundNames {
    /// Keeps those parent pointers of the inode `child` that lead to one of the wanted directories.
    /// `generation_of` returns the generation of a wanted directory: `None` for a directory that is
    /// not wanted, and `Some(None)` for one whose generation is not known because its inode is
    /// gone.
    pub(crate) fn take(
        &mut self,
        child: InodeNumber,
        attributes: &AttributeEvidence,
        generation_of: impl Fn(InodeNumber) -> Option<Option<u32>>,
    ) {
        for pointer in &attributes.parents {
            let Some(generation) = generation_of(pointer.parent) else { continue };
            if generation.is_some_and(|generation| generation != pointer.generation) {
                continue;
            }
            if self.count >= MOST_NAMES {
                self.dropped += 1;
                continue;
            }
            self.count += 1;
            let names = self.by_parent.entry(pointer.parent).or_default();
            names.push(PointerName { name: pointer.name.clone(), child });
        }
    }

    /// Returns the names of the entries of a directory.
    pub(crate) fn of(&self, parent: InodeNumber) -> &[PointerName] {
        self.by_parent.get(&parent).map_or(&[], Vec::as_slice)
    }

    /// Returns the directories for which this collection has the name of at least one entry. They
    /// are in the order of inode numbers, beginning with `from`.
    pub(crate) fn parents(&self, from: InodeNumber) -> impl Iterator<Item = InodeNumber> + '_ {
        self.by_parent.range(from..).map(|(parent, _)| *parent)
    }
}
