//! Facts about the inodes of the volume, one bit for each fact: 72 bytes for every 64 inodes.

use std::collections::BTreeMap;

use xfs_format::InodeNumber;

/// The facts about 64 consecutive inodes: for each kind of fact a mask with one bit for each inode.
#[derive(Clone, Copy, Debug, Default)]
struct Masks {
    used: u64,
    free: u64,
    readable: u64,
    directory: u64,
    visited: u64,
    named: u64,
    named_again: u64,
    linked: u64,
}

/// A fact about an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// An inode btree, or a sweep (a search of all blocks), says that the inode is in use.
    Used,
    /// An inode btree says that the inode is free.
    Free,
    /// The core of the inode can be read.
    Readable,
    /// The inode is a directory that can be read.
    Directory,
    /// A name has led to the inode, or the inode needs no name: it was reported without one.
    Visited,
    /// An entry of a directory leads to the inode.
    Named,
    /// A second entry of a directory leads to the inode.
    NamedAgain,
    /// The inode is no directory and has several links.
    Linked,
}

/// The facts about all inodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inventory {
    masks: BTreeMap<u64, Masks>,
}

const fn split(number: InodeNumber) -> (u64, u64) {
    (number.0 >> 6, 1 << (number.0 & 63))
}

impl Masks {
    const fn of(&self, mark: Mark) -> u64 {
        match mark {
            Mark::Used => self.used,
            Mark::Free => self.free,
            Mark::Readable => self.readable,
            Mark::Directory => self.directory,
            Mark::Visited => self.visited,
            Mark::Named => self.named,
            Mark::NamedAgain => self.named_again,
            Mark::Linked => self.linked,
        }
    }
}

impl Inventory {
    /// Marks an inode. Returns whether the mark is new.
    pub(crate) fn mark(&mut self, number: InodeNumber, mark: Mark) -> bool {
        let (key, bit) = split(number);
        let masks = self.masks.entry(key).or_default();
        let mask = match mark {
            Mark::Used => &mut masks.used,
            Mark::Free => &mut masks.free,
            Mark::Readable => &mut masks.readable,
            Mark::Directory => &mut masks.directory,
            Mark::Visited => &mut masks.visited,
            Mark::Named => &mut masks.named,
            Mark::NamedAgain => &mut masks.named_again,
            Mark::Linked => &mut masks.linked,
        };
        let is_new = *mask & bit == 0;
        *mask |= bit;
        is_new
    }

    pub(crate) fn has(&self, number: InodeNumber, mark: Mark) -> bool {
        let (key, bit) = split(number);
        self.masks.get(&key).is_some_and(|masks| masks.of(mark) & bit != 0)
    }

    pub(crate) fn count(&self, mark: Mark) -> u64 {
        self.masks.values().map(|masks| u64::from(masks.of(mark).count_ones())).sum()
    }

    /// Returns the lowest inode from `from` on that has the mark `wanted` and not the mark
    /// `without`.
    pub(crate) fn next(
        &self,
        from: InodeNumber,
        wanted: Mark,
        without: Option<Mark>,
    ) -> Option<InodeNumber> {
        let (first, _) = split(from);
        self.masks.range(first..).find_map(|(key, masks)| {
            let skipped = without.map_or(0, |mark| masks.of(mark));
            let low = if *key == first { (1_u64 << (from.0 & 63)) - 1 } else { 0 };
            let left = masks.of(wanted) & !skipped & !low;
            (left != 0).then(|| InodeNumber((key << 6) + u64::from(left.trailing_zeros())))
        })
    }

    /// Returns all inodes that have a mark, in the order of their numbers.
    pub(crate) fn all(&self, mark: Mark) -> impl Iterator<Item = InodeNumber> + '_ {
        self.masks.iter().flat_map(move |(key, masks)| {
            let mask = masks.of(mark);
            let bits = (0..64).filter(move |bit| mask & (1 << bit) != 0);
            bits.map(move |bit| InodeNumber((key << 6) + bit))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{InodeNumber, Inventory, Mark};

    #[test]
    fn marks_are_kept_apart_and_found_in_order() {
        let mut inventory = Inventory::default();
        for number in [3, 64, 1000] {
            assert!(inventory.mark(InodeNumber(number), Mark::Used));
        }
        assert!(!inventory.mark(InodeNumber(64), Mark::Used));
        inventory.mark(InodeNumber(64), Mark::Visited);
        assert_eq!(inventory.count(Mark::Used), 3);
        let next = |from, without| inventory.next(InodeNumber(from), Mark::Used, without);
        assert_eq!(next(0, None), Some(InodeNumber(3)));
        assert_eq!(next(4, None), Some(InodeNumber(64)));
        assert_eq!(next(4, Some(Mark::Visited)), Some(InodeNumber(1000)));
        assert_eq!(next(1001, None), None);
        assert_eq!(inventory.all(Mark::Used).count(), 3);
        assert!(!inventory.has(InodeNumber(3), Mark::Visited));
    }
}
