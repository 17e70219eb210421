//! The choice of the root directory, and of the inodes that need no name.
//!
//! Owns: the choice of the root, and which inodes are metadata. Does **not** own: the search for
//! inodes and names.

use xfs_format::InodeNumber;
use xfs_format::inode::InodeFlags2;

use super::Survey;
use crate::inventory::Mark;
use crate::names::FoundNames;

impl Survey<'_, '_> {
    /// Returns the root inode that the superblock names. If nothing is left of that inode, returns
    /// another directory that is its own parent. `None` if there is none.
    pub(super) fn root(&mut self, names: &FoundNames) -> Option<InodeNumber> {
        let stated = self.evidence.superblock().root_inode;
        let is_there = |number: InodeNumber| {
            self.inventory.has(number, Mark::Directory)
                || !names.of(number).is_empty()
                || self.strays.contains_key(&number)
                || (self.forks.contains_key(&number) && !number.is_null())
        };
        if is_there(stated) {
            return Some(stated);
        }
        let other = self.roots.first().copied();
        let text = match other {
            Some(root) => format!("the root directory is {root}, not {stated} as stated"),
            None => "the root directory is gone, and no parent pointer names it".to_owned(),
        };
        self.notes.push(text);
        other
    }

    /// Marks the inodes that have no name even on a sound volume, such as quota inodes, so that
    /// they are not taken for orphans.
    pub(super) fn leave_out_metadata(&mut self, root: Option<InodeNumber>) {
        let superblock = self.evidence.superblock();
        let quota = superblock.quota_inodes.iter().flatten().copied();
        let mut others = [superblock.realtime_bitmap_inode, superblock.realtime_summary_inode];
        if let Some(root) = root.filter(|_| others.iter().all(|number| number.is_null())) {
            // mkfs.xfs makes both directly after the root.
            others = [InodeNumber(root.0 + 1), InodeNumber(root.0 + 2)];
        }
        for number in quota.chain(others) {
            self.inventory.mark(number, Mark::Visited);
        }
        if superblock.metadata_directory_inode.is_none() {
            return;
        }
        let used: Vec<InodeNumber> = self.inventory.all(Mark::Used).collect();
        for number in used {
            let inode = self.logged.inode(&self.evidence, number);
            let is_metadata =
                inode.core().is_some_and(|core| core.flags2.contains(InodeFlags2::METADATA));
            if is_metadata {
                self.inventory.mark(number, Mark::Visited);
            }
        }
    }
}
