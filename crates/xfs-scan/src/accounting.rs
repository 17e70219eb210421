//! Adds up the space of each owner, project or directory, with shared blocks counted once.
//!
//! Owns: the sums, and the rule for shared blocks: a block is charged to the first inode, by
//! number, that maps it. Does **not** own: finding shared extents. The reader looks them up in the
//! reference count btrees, for inodes that may share blocks, and keeps them with the rows.
//!
//! # Memory
//!
//! Each owner, project or directory takes one sum, and each run of shared blocks 40 bytes. Adjacent
//! runs are joined. The memory limit for rows does not count this memory, and it never goes to the
//! spill file.

use std::collections::{BTreeMap, HashMap};

use crate::AccountBy;
use crate::paths::DirectoryTable;
use crate::row::{ByteList, OwnerNames, RowView};

impl AccountBy {
    /// Returns the word for this kind of account in the output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Project => "project",
            Self::Directory => "dir",
        }
    }
}

/// The sums over the inodes of one owner, project or directory, as one row of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The kind of this account.
    pub by: AccountBy,
    /// The user ID, the project ID or the directory's inode number.
    pub key: u64,
    /// The name of the owner; `None` if no table has it, and for a project or a directory.
    pub owner: Option<String>,
    /// Number of inodes charged to the account.
    pub inodes: u64,
    /// Sum of the sizes of these inodes in bytes.
    pub size: u64,
    /// Sum of the allocated space of these inodes in units of 512 bytes. A shared block counts
    /// once.
    pub blocks: u64,
    /// Number of the 512-byte units in `blocks` that are shared with another file.
    pub shared_blocks: u64,
    /// The paths of the directory; empty for an owner or a project.
    pub paths: ByteList,
}

impl Account {
    /// Returns whether the account is shown if directories are shown up to `depth`. An account of a
    /// directory without a path is always shown, because no other account includes it.
    pub(crate) fn is_within(&self, depth: Option<usize>) -> bool {
        let (AccountBy::Directory, Some(depth)) = (self.by, depth) else { return true };
        let slashes = |path: &[u8]| path.iter().filter(|byte| **byte == b'/').count();
        let path = self.paths.iter().next().filter(|path| *path != b"/");
        path.is_none_or(|path| slashes(path) <= depth)
    }
}

/// The sums of one account, without the owner, project or directory that is its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AccountSums {
    inodes: u64,
    size: u64,
    blocks: u64,
    shared_blocks: u64,
}

impl AccountSums {
    fn add(&mut self, other: Self) {
        self.inodes += other.inodes;
        self.size = self.size.saturating_add(other.size);
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.shared_blocks = self.shared_blocks.saturating_add(other.shared_blocks);
    }
}

/// A shared extent of an inode, and the accounts of this inode. The accounts are charged for those
/// blocks of the extent that no earlier inode maps.
#[derive(Clone, Copy, Debug)]
struct SharedClaim {
    /// The keys of the three accounts to which the inode belongs: its owner, its project and its
    /// directory.
    keys: [u64; 3],
    start: u64,
    length: u64,
}

/// Sums over some rows of a volume, and their shared extents in the order of the rows.
#[derive(Debug, Default)]
pub(crate) struct AccountPart {
    sums: [HashMap<u64, AccountSums>; 3],
    claims: Vec<SharedClaim>,
}

const KINDS: [AccountBy; 3] = [AccountBy::Owner, AccountBy::Project, AccountBy::Directory];

impl AccountPart {
    /// Adds the inode of `view` to the sums. `directory` is the inode number of the directory to
    /// which it is charged. `shared` yields the inode's shared extents: first block and number of
    /// blocks.
    pub(crate) fn add(
        &mut self,
        wanted: &[AccountBy],
        view: &RowView<'_>,
        directory: Option<u64>,
        shared: impl Iterator<Item = (u64, u64)>,
    ) {
        let keys = [
            u64::from(view.row.uid),
            u64::from(view.row.project_id),
            directory.unwrap_or(u64::MAX),
        ];
        let one =
            AccountSums { inodes: 1, size: view.row.size, blocks: view.blocks(), shared_blocks: 0 };
        for ((kind, key), sums) in KINDS.into_iter().zip(keys).zip(&mut self.sums) {
            if wanted.contains(&kind) {
                sums.entry(key).or_default().add(one);
            }
        }
        self.claims.extend(shared.map(|(start, length)| SharedClaim { keys, start, length }));
    }
}

/// The sums of all accounts of a volume.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    sums: [HashMap<u64, AccountSums>; 3],
    claimed: ClaimedBlocks,
}

impl Accounts {
    /// Adds the sums of `part`, whose rows come directly after those of the earlier parts.
    /// `block_units_log` is the base-2 logarithm of the number of 512-byte units in a block.
    pub(crate) fn merge(&mut self, part: AccountPart, block_units_log: u8) {
        for (sums, part) in self.sums.iter_mut().zip(part.sums) {
            for (key, other) in part {
                sums.entry(key).or_default().add(other);
            }
        }
        for claim in part.claims {
            let counted_before = self.claimed.claim(claim.start, claim.length);
            let charged = claim.length - counted_before;
            for (sums, key) in self.sums.iter_mut().zip(claim.keys) {
                if let Some(sums) = sums.get_mut(&key) {
                    sums.blocks = sums.blocks.saturating_sub(counted_before << block_units_log);
                    sums.shared_blocks += charged << block_units_log;
                }
            }
        }
    }

    /// Returns one output row per account of the requested kinds, sorted by kind and key. The
    /// account of a directory includes everything below it.
    pub(crate) fn rows(
        self,
        wanted: &[AccountBy],
        directories: &DirectoryTable,
        names: Option<&OwnerNames>,
    ) -> Vec<Account> {
        let owner_of = |by: AccountBy, key: u64| {
            let users = names.filter(|_| by == AccountBy::Owner).map(|names| &names.users)?;
            users.get(&u32::try_from(key).ok()?).cloned()
        };
        let mut rows = Vec::new();
        for (by, mut sums) in KINDS.into_iter().zip(self.sums) {
            if !wanted.contains(&by) {
                continue;
            }
            if by == AccountBy::Directory {
                sums = with_descendants(&sums, directories);
            }
            let mut sums: Vec<_> = sums.into_iter().collect();
            sums.sort_unstable_by_key(|(key, _)| *key);
            for (key, AccountSums { inodes, size, blocks, shared_blocks }) in sums {
                let paths = ByteList::default();
                let owner = owner_of(by, key);
                rows.push(Account { by, key, owner, inodes, size, blocks, shared_blocks, paths });
            }
        }
        for row in rows.iter_mut().filter(|row| row.by == AccountBy::Directory) {
            let path = directories.path(row.key);
            if !path.is_empty() {
                row.paths.push(&path);
            }
        }
        rows
    }
}

/// Returns the sums of each directory, by inode number. They include the sums of all directories
/// below it.
fn with_descendants(
    own: &HashMap<u64, AccountSums>,
    directories: &DirectoryTable,
) -> HashMap<u64, AccountSums> {
    let mut all: Vec<AccountSums> = vec![AccountSums::default(); directories.len()];
    for (position, sums) in all.iter_mut().enumerate() {
        let ino = directories.ino(position);
        *sums = ino.and_then(|ino| own.get(&ino)).copied().unwrap_or_default();
    }
    // A child's path is longer than its parent's. In descending order, each directory is complete
    // when it is added to its parent.
    for position in directories.by_descending_path_length() {
        let sums = all.get(position).copied().unwrap_or_default();
        let parent = directories.parent(position).and_then(|parent| all.get_mut(parent));
        if let Some(parent) = parent {
            parent.add(sums);
        }
    }
    let named = all.into_iter().enumerate();
    named.filter_map(|(position, sums)| Some((directories.ino(position)?, sums))).collect()
}

/// Runs of shared blocks that an earlier inode was charged for: the end of each run by its start.
/// Runs neither overlap nor touch.
#[derive(Debug, Default)]
struct ClaimedBlocks(BTreeMap<u64, u64>);

impl ClaimedBlocks {
    /// Adds a run of blocks. Returns the number of these blocks that an earlier call had added.
    fn claim(&mut self, start: u64, length: u64) -> u64 {
        let (mut run_start, mut run_end) = (start, start.saturating_add(length));
        let end = run_end;
        let mut before = 0;
        while let Some((&other_start, &other_end)) = self.0.range(..=run_end).next_back()
            && other_end >= run_start
        {
            let overlap = other_end.min(end).saturating_sub(other_start.max(start));
            before += overlap;
            run_start = run_start.min(other_start);
            run_end = run_end.max(other_end);
            self.0.remove(&other_start);
        }
        self.0.insert(run_start, run_end);
        before
    }
}

#[cfg(test)]
mod tests;
