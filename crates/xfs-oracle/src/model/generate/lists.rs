//! Generates access control lists, most of which are valid.

use super::{Generator, WantedNode};
use crate::model::operation::{ListEntry, ListKind, Operation};
use crate::model::{Body, Model, lists};

impl Generator {
    pub(super) fn set_list(&mut self, model: &Model) -> Option<Operation> {
        // Directories, whose lists are inherited, are few.
        let want = if self.chance(2) { WantedNode::Directory } else { WantedNode::Anything };
        let path = self.existing(model, want)?;
        let node = model.node(model.lookup(&path).ok()?).ok()?;
        let is_default = if node.is_directory() { self.chance(2) } else { self.chance(12) };
        let is_default = is_default && self.has_default_lists;
        let kind = if is_default { ListKind::Default } else { ListKind::Access };
        if self.chance(5) {
            return Some(Operation::RemoveAttribute { path, name: kind.name().to_owned() });
        }
        let mut entries = self.list_entries();
        let mut version = lists::LIST_VERSION;
        // If a list can be refused for two reasons, the library and the kernel report different
        // ones.
        let has_other_fault = node.is_fixed()
            || matches!(node.body, Body::Symlink(_))
            || is_default && !node.is_directory();
        if !has_other_fault && self.chance(12) {
            self.spoil(&mut entries, &mut version);
        }
        Some(Operation::SetList { path, kind, version, entries })
    }

    fn list_entries(&mut self) -> Vec<ListEntry> {
        // Many entries leave the inode, and then the attribute blocks.
        let named = match self.random.below(60) {
            0 => self.random.below(6000),
            1..=4 => self.random.below(300),
            5..=20 => 0,
            _ => self.random.below(6),
        };
        let users = self.random.below(named + 1);
        // The kernel accepts a user twice in a list, but xfs_repair calls that list damaged.
        let first = self.random.below(70_000);
        let mut entries = vec![self.list_entry(0x01, first)];
        entries.extend((0..users).map(|number| self.list_entry(0x02, first + number)));
        entries.push(self.list_entry(0x04, first));
        entries.extend((users..named).map(|number| self.list_entry(0x08, first + number)));
        if named > 0 || self.chance(4) {
            entries.push(self.list_entry(0x10, first));
        }
        entries.push(self.list_entry(0x20, first));
        entries
    }

    fn list_entry(&mut self, tag: u16, id: u64) -> ListEntry {
        ListEntry { tag, permissions: self.random.below(8) as u16, id: id as u32 }
    }

    /// Makes a random change to the entries or the version of an access control list, after which
    /// it is usually invalid.
    fn spoil(&mut self, entries: &mut Vec<ListEntry>, version: &mut u32) {
        let index = self.random.below(entries.len() as u64) as usize;
        match self.random.below(7) {
            0 => entries.clear(),
            1 => *version = self.random.below(4) as u32,
            2 => drop(entries.remove(index)),
            3 => entries.reverse(),
            other => {
                let Some(entry) = entries.get_mut(index) else { return };
                match other {
                    4 => entry.permissions = 8,
                    5 => entry.id = u32::MAX,
                    _ => entry.tag = 1 << self.random.below(8),
                }
            }
        }
    }
}
