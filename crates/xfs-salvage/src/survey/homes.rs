//! Inodes to which no entry leads, and directories to which several entries lead.
//!
//! Owns: finding the directory in which such an inode belongs. Does **not** own: the choice between
//! an entry and a parent pointer of the same name (`node/entries.rs`).
//!
//! An entry with a right checksum can lead to a wrong inode. If that inode is a directory, two
//! entries lead to it, and none to the inode that lost its entry. Both inodes still name their own
//! entry: by a parent pointer, or, on a volume without parent pointers, the directory by `..`.

use std::collections::{BTreeMap, BTreeSet};

use xfs_format::inode::FileType;
use xfs_format::{IncompatFeatures, InodeNumber};

use super::{Stopped, Survey};
use crate::inventory::Mark;

/// The entry that leads to a directory, as the directory itself says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Home {
    parent: InodeNumber,
    /// `None` on a volume without parent pointers.
    name: Option<Box<[u8]>>,
}

impl Home {
    /// Returns whether the entry `name` of the directory `parent` is the entry of this home.
    pub(crate) fn is_entry(&self, parent: InodeNumber, name: &[u8]) -> bool {
        self.parent == parent && self.name.as_deref().is_none_or(|own| own == name)
    }
}

impl Survey<'_, '_> {
    /// Records that an entry leads to an inode.
    pub(super) fn note_entry(&mut self, child: InodeNumber) {
        // An entry can lead to any number. Only inodes of the volume take memory.
        if self.inventory.has(child, Mark::Used) && !self.inventory.mark(child, Mark::Named) {
            self.inventory.mark(child, Mark::NamedAgain);
        }
    }

    /// Finds the homes of the directories to which several entries lead. Records the directories
    /// that lack an entry as damaged, so that their names are taken from parent pointers.
    pub(super) fn homes(&mut self) -> Result<(), Stopped> {
        if self.evidence.geometry().has_incompat(IncompatFeatures::PARENT) {
            self.homes_by_pointers()
        } else {
            self.homes_by_parents()
        }
    }

    fn homes_by_pointers(&mut self) -> Result<(), Stopped> {
        let all = self.inventory.count(Mark::Readable);
        for (number, done) in self.wrongly_named().zip(0..) {
            if done % 1024 == 0 {
                self.step("looking for lost entries", done, all)?;
            }
            let inode = self.logged.inode(&self.evidence, number);
            if inode.core().is_none_or(|core| core.nlink == 0 || !core.has_attr_fork()) {
                continue;
            }
            let found = self.evidence.attributes(&inode);
            let is_whole = found.is_whole();
            let pointers: Vec<_> =
                found.parents.into_iter().filter(|one| one.parent != number).collect();
            for pointer in &pointers {
                self.note_lost_entry(pointer.parent, pointer.generation);
            }
            if let [pointer] = pointers.as_slice()
                && is_whole
                && self.inventory.has(number, Mark::NamedAgain)
                && self.damaged.contains_key(&pointer.parent)
            {
                let home = Home { parent: pointer.parent, name: Some(pointer.name.clone()) };
                self.homes.insert(number, home);
            }
        }
        Ok(())
    }

    /// Returns the readable directories to which not exactly one entry leads, the files to which no
    /// entry leads, and the files with several links to which only one does. Inodes without an
    /// entry are left out in a group in which free inodes cannot be distinguished from inodes in
    /// use.
    fn wrongly_named(&self) -> impl Iterator<Item = InodeNumber> + use<> {
        let inventory = &self.inventory;
        let geometry = self.evidence.geometry();
        let is_unsure = |number| {
            let group = geometry.split_inode(number).map(|(group, _)| group);
            group.is_none_or(|group| self.unsure.contains(&group))
        };
        let found: Vec<_> = inventory
            .all(Mark::Readable)
            .filter(|number| {
                let has = |mark| inventory.has(*number, mark);
                match (has(Mark::Named), has(Mark::NamedAgain)) {
                    (false, _) => !is_unsure(*number),
                    (true, false) => has(Mark::Linked),
                    (true, true) => has(Mark::Directory),
                }
            })
            .collect();
        found.into_iter()
    }

    /// Records a directory as damaged, if it is the one that a parent pointer names.
    fn note_lost_entry(&mut self, parent: InodeNumber, generation: u32) {
        if !self.inventory.has(parent, Mark::Directory) || self.damaged.contains_key(&parent) {
            return;
        }
        let inode = self.logged.inode(&self.evidence, parent);
        if inode.core().is_some_and(|core| core.generation == generation) {
            self.damaged.insert(parent, generation);
        }
    }

    /// Reads the `..` of the directories to which several entries lead. It is a home only if the
    /// directory that it names has an entry of the other.
    fn homes_by_parents(&mut self) -> Result<(), Stopped> {
        let inventory = &self.inventory;
        let doubled = inventory.all(Mark::NamedAgain);
        let doubled = doubled.filter(|number| inventory.has(*number, Mark::Directory));
        let mut children = BTreeMap::<InodeNumber, BTreeSet<InodeNumber>>::new();
        for number in doubled {
            let inode = self.logged.inode(&self.evidence, number);
            let parent = self.evidence.entries(&inode).parent;
            let parent = parent.filter(|parent| inventory.has(*parent, Mark::Directory));
            if let Some(parent) = parent.filter(|parent| *parent != number) {
                children.entry(parent).or_default().insert(number);
            }
        }
        let all = children.len() as u64;
        for ((parent, children), done) in children.into_iter().zip(0..) {
            self.step("looking for lost entries", done, all)?;
            let inode = self.logged.inode(&self.evidence, parent);
            let is_directory =
                inode.core().is_some_and(|core| core.file_type() == Some(FileType::Directory));
            let names = self.evidence.entries(&inode).names;
            for name in names.into_iter().filter(|_| is_directory) {
                if children.contains(&name.child) {
                    self.homes.insert(name.child, Home { parent, name: None });
                }
            }
        }
        Ok(())
    }
}
