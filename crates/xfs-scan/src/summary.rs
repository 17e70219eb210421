//! A summary of volumes for people: the owners that use the space, the sizes and the ages of files.
//!
//! Owns: the figures, and printing them. Does **not** own: exact accounting of shared blocks
//! ([`accounting`](crate::accounting)). Here a shared block counts for each inode that uses it.
//!
//! # Memory
//!
//! Constant, except for one sum per owner and account, and 12 bytes per directory during the scan
//! of a volume.

mod describe;
mod report;

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use xfs_format::inode::FileType;

use crate::accounting::Account;
use crate::row::{ByteList, OwnerNames, RowView};

/// Number of inodes in each list of the largest inodes.
const BIGGEST: usize = 10;
/// Number of classes into which inodes are sorted by size, number of extents or number of entries:
/// one class for 0, then one per power of two.
const CLASSES: usize = 65;
/// Upper bounds of the classes of ages, in days, with the names of the classes. The last class has
/// no bound.
const AGES: [(u64, &str); 7] = [
    (1, "a day"),
    (7, "a week"),
    (30, "30 days"),
    (90, "90 days"),
    (365, "a year"),
    (3 * 365, "3 years"),
    (u64::MAX, "older"),
];
const SECONDS_PER_DAY: u64 = 86_400;

/// Totals over a set of inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InodeTotals {
    /// Number of inodes.
    pub inodes: u64,
    /// Sum of the sizes of these inodes in bytes.
    pub size: u64,
    /// Sum of the allocated space of these inodes in bytes.
    pub allocated: u64,
}

impl InodeTotals {
    fn add(&mut self, other: Self) {
        self.inodes += other.inodes;
        self.size = self.size.saturating_add(other.size);
        self.allocated = self.allocated.saturating_add(other.allocated);
    }
}

/// An inode in one of the lists of largest inodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankedInode {
    /// The value by which the list ranks inodes: bytes, entries or extents.
    pub measure: u64,
    /// The inode number.
    pub ino: u64,
    /// The first path of the inode, empty for an orphan.
    pub path: Vec<u8>,
}

/// Orders inodes by the measure of their list (bytes, entries or extents). Of two inodes with equal
/// measures, that with the lower number ranks higher.
impl Ord for RankedInode {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |big: &Self| (big.measure, Reverse(big.ino));
        key(self).cmp(&key(other)).then_with(|| self.path.cmp(&other.path))
    }
}

impl PartialOrd for RankedInode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The inodes that rank highest by size in bytes, number of entries or number of extents.
#[derive(Clone, Debug, Default)]
struct TopInodes(BinaryHeap<Reverse<RankedInode>>);

impl TopInodes {
    fn add(&mut self, measure: u64, ino: u64, path: impl FnOnce() -> Vec<u8>) {
        let is_full = self.0.len() == BIGGEST;
        let least = self.0.peek().map_or((0, u64::MAX), |Reverse(big)| (big.measure, big.ino));
        // The same order as that of `RankedInode`, so that the order of arrival does not matter.
        let is_bigger = (measure, Reverse(ino)) > (least.0, Reverse(least.1));
        if measure == 0 || (is_full && !is_bigger) {
            return;
        }
        if is_full {
            self.0.pop();
        }
        self.0.push(Reverse(RankedInode { measure, ino, path: path() }));
    }

    fn sorted(&self) -> Vec<&RankedInode> {
        let mut all: Vec<_> = self.0.iter().map(|Reverse(big)| big).collect();
        all.sort_by_key(|big| (Reverse(big.measure), big.ino));
        all
    }
}

/// The summary of all volumes of a scan.
#[derive(Clone, Debug)]
pub struct Summary {
    now_seconds: i64,
    total: InodeTotals,
    by_type: BTreeMap<&'static str, InodeTotals>,
    by_owner: HashMap<u32, InodeTotals>,
    /// The names of users by uid. `None` for a uid that has different names in different volumes.
    owner_names: HashMap<u32, Option<String>>,
    by_size: [InodeTotals; CLASSES],
    by_age: [InodeTotals; AGES.len()],
    by_extents: [InodeTotals; CLASSES],
    by_fan_out: [u64; CLASSES],
    hard_linked: u64,
    orphans: InodeTotals,
    with_attributes: u64,
    biggest_files: TopInodes,
    most_extents: TopInodes,
    biggest_directories: TopInodes,
    /// The accounts that were asked for, volume after volume.
    accounts: Vec<Account>,
    /// Number of entries of each directory, by inode number. The numbers are complete at the end of
    /// the volume.
    entries: HashMap<u64, u32>,
}

impl Summary {
    /// Creates an empty summary. `now_seconds`, in seconds since 1970, is the current time, from
    /// which the ages of files are computed.
    #[must_use]
    pub(crate) fn new(now_seconds: i64) -> Self {
        Self {
            now_seconds,
            total: InodeTotals::default(),
            by_type: BTreeMap::new(),
            by_owner: HashMap::new(),
            owner_names: HashMap::new(),
            by_size: [InodeTotals::default(); CLASSES],
            by_age: [InodeTotals::default(); AGES.len()],
            by_extents: [InodeTotals::default(); CLASSES],
            by_fan_out: [0; CLASSES],
            hard_linked: 0,
            orphans: InodeTotals::default(),
            with_attributes: 0,
            biggest_files: TopInodes::default(),
            most_extents: TopInodes::default(),
            biggest_directories: TopInodes::default(),
            accounts: Vec::new(),
            entries: HashMap::new(),
        }
    }

    /// Counts the inode of `view`. `parents` yields the inode number of the parent directory for
    /// each link of this inode.
    pub(crate) fn add(&mut self, view: &RowView<'_>, parents: impl Iterator<Item = u64>) {
        let row = view.row;
        let share = InodeTotals { inodes: 1, size: row.size, allocated: view.blocks() << 9 };
        self.total.add(share);
        self.by_type.entry(row.type_name()).or_default().add(share);
        self.by_owner.entry(row.uid).or_default().add(share);
        let age = self.now_seconds.saturating_sub(row.mtime.seconds()).max(0).cast_unsigned();
        let class = AGES.iter().position(|(days, _)| age / SECONDS_PER_DAY < *days);
        add_to(&mut self.by_age, class.unwrap_or(AGES.len() - 1), share);
        if view.is_orphan {
            self.orphans.add(share);
        }
        if row.attr_extents != 0 {
            self.with_attributes += 1;
        }
        for parent in parents {
            *self.entries.entry(parent).or_default() += 1;
        }
        match row.file_type() {
            Some(FileType::Regular) => {
                add_to(&mut self.by_size, class_of(row.size), share);
                add_to(&mut self.by_extents, class_of(row.extents), share);
                self.hard_linked += u64::from(row.nlink > 1);
                self.biggest_files.add(row.size, row.ino, || first_path(view.paths));
                if row.extents > 1 {
                    self.most_extents.add(row.extents, row.ino, || first_path(view.paths));
                }
            }
            Some(FileType::Directory) => {
                self.entries.entry(row.ino).or_default();
            }
            _ => {}
        }
    }

    /// Adds the figures of another summary, which was computed from other rows of the same volume.
    pub(crate) fn merge(&mut self, other: Self) {
        self.total.add(other.total);
        for (name, share) in other.by_type {
            self.by_type.entry(name).or_default().add(share);
        }
        for (uid, share) in other.by_owner {
            self.by_owner.entry(uid).or_default().add(share);
        }
        let classes = self.by_size.iter_mut().zip(other.by_size);
        let classes = classes.chain(self.by_extents.iter_mut().zip(other.by_extents));
        for (class, share) in classes.chain(self.by_age.iter_mut().zip(other.by_age)) {
            class.add(share);
        }
        self.hard_linked += other.hard_linked;
        self.orphans.add(other.orphans);
        self.with_attributes += other.with_attributes;
        let tops = [
            (&mut self.biggest_files, other.biggest_files),
            (&mut self.most_extents, other.most_extents),
        ];
        for (top, other) in tops {
            for Reverse(big) in other.0 {
                top.add(big.measure, big.ino, || big.path);
            }
        }
        for (directory, count) in other.entries {
            let entries = self.entries.entry(directory).or_default();
            *entries = entries.saturating_add(count);
        }
    }

    /// Ranks the directories of a volume by their entry counts, which are now complete. `path`
    /// returns the path of a directory.
    pub(crate) fn finish_volume(&mut self, path: impl Fn(u64) -> Vec<u8>) {
        for (ino, count) in std::mem::take(&mut self.entries) {
            if let Some(class) = self.by_fan_out.get_mut(class_of(count.into())) {
                *class += 1;
            }
            self.biggest_directories.add(count.into(), ino, || path(ino));
        }
    }

    /// Adds the accounts of a volume.
    pub(crate) fn add_accounts(&mut self, accounts: &[Account]) {
        self.accounts.extend_from_slice(accounts);
    }

    /// Adds the names of the owners of a volume.
    pub(crate) fn add_owner_names(&mut self, names: &OwnerNames) {
        for (uid, name) in &names.users {
            let known = self.owner_names.entry(*uid).or_insert_with(|| Some(name.clone()));
            if known.as_ref() != Some(name) {
                *known = None;
            }
        }
    }

    /// Returns the name of a user. `None` if no table has it, or if the volumes disagree.
    fn owner_name(&self, uid: u32) -> Option<&str> {
        self.owner_names.get(&uid)?.as_deref()
    }

    /// Returns the accounts, volume after volume, sorted by kind and key.
    #[must_use]
    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// Returns the totals over all inodes.
    #[must_use]
    pub const fn total(&self) -> InodeTotals {
        self.total
    }

    /// Returns the user ID and the totals of each owner, sorted by allocated space.
    #[must_use]
    pub fn by_owner(&self) -> Vec<(u32, InodeTotals)> {
        let mut owners: Vec<_> = self.by_owner.iter().map(|(uid, share)| (*uid, *share)).collect();
        owners.sort_by_key(|(uid, share)| (Reverse(share.allocated), *uid));
        owners
    }

    /// Returns the largest files, in descending order.
    #[must_use]
    pub fn biggest_files(&self) -> Vec<&RankedInode> {
        self.biggest_files.sorted()
    }

    /// Returns the directories with the most entries, in descending order.
    #[must_use]
    pub fn biggest_directories(&self) -> Vec<&RankedInode> {
        self.biggest_directories.sorted()
    }
}

fn add_to(classes: &mut [InodeTotals], class: usize, share: InodeTotals) {
    if let Some(class) = classes.get_mut(class) {
        class.add(share);
    }
}

/// Returns the class of a value: 0 for 0, and n for values from 2ⁿ⁻¹ up to, but not including, 2ⁿ.
const fn class_of(measure: u64) -> usize {
    (u64::BITS - measure.leading_zeros()) as usize
}

fn first_path(paths: &ByteList) -> Vec<u8> {
    paths.iter().next().unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests;
