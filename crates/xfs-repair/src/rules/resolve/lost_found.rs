//! Gives each inode in use that has no name a name in `lost+found`.
//!
//! Owns: which inodes go to `lost+found`, and their names there. Does **not** own: the decision
//! which links are dropped, which earlier steps make.

use std::collections::{BTreeMap, BTreeSet};

use xfs_format::InodeNumber;
use xfs_format::directory::{EntryType, MAX_NAME};

use super::{Dropped, Link, Resolver};
use crate::rules::facts::Facts;

/// The name of the directory for inodes without a name.
pub(super) const LOST_AND_FOUND: &[u8] = b"lost+found";

impl Resolver<'_> {
    /// Gives each inode in use that has no name a name in `lost+found`.
    pub(super) fn rescue(&mut self, links: &mut Vec<Link>) {
        let named: BTreeSet<InodeNumber> = links.iter().map(|link| link.child).collect();
        let made = self.tree.made.keys().copied();
        let all: BTreeSet<InodeNumber> = self.facts.members.keys().copied().chain(made).collect();
        let is_lost = |inode: &InodeNumber| {
            let has_links = self.facts.members.get(inode).is_none_or(|member| member.links > 0);
            !named.contains(inode)
                && !self.facts.is_root(*inode)
                && !self.facts.reserved.contains(inode)
                // An inode without links is deleted and waits on an unlinked list.
                && has_links
        };
        let is_metadata = |inode: &InodeNumber| match self.facts.members.get(inode) {
            Some(member) => member.is_metadata,
            None => self.facts.is_metadata_directory(*inode),
        };
        let (own, lost): (Vec<InodeNumber>, Vec<InodeNumber>) =
            all.into_iter().filter(is_lost).partition(is_metadata);
        self.rescue_metadata(&own, links);
        let has_root = self.tree.is_directory(self.facts, self.facts.root);
        if lost.is_empty() || !has_root {
            return;
        }
        // An inode that cannot be read may be the directory that has their names.
        if !self.facts.allows_loss && (self.tree.is_held || !self.facts.has_all_inodes) {
            self.tree.is_held = true;
            return;
        }
        let Some(place) = self.lost_and_found(links) else { return };
        let dropped = std::mem::take(&mut self.tree.dropped);
        let taken = links.iter().filter(|link| link.directory == place);
        let mut taken: BTreeSet<Box<[u8]>> = taken.map(|link| link.name.clone()).collect();
        let known = Self::last_names(&dropped, self.facts);
        for child in lost.into_iter().filter(|child| *child != place) {
            let name = Self::free_name(known.get(&child).copied(), child, &taken);
            taken.insert(name.clone());
            links.push(new_link(place, name, child));
            self.tree.rescued.insert(child);
        }
        self.tree.dropped = dropped;
    }

    /// Gives a name to each file and directory of the metadata directory that has none. None of
    /// them goes to `lost+found`. The name of a file follows from its fields, and that of a
    /// directory from its files.
    fn rescue_metadata(&mut self, lost: &[InodeNumber], links: &mut Vec<Link>) {
        let Some(root) = self.facts.metadata_root else { return };
        let is_directory = |inode: &&InodeNumber| self.tree.is_directory(self.facts, **inode);
        for directory in lost.iter().filter(is_directory) {
            let children = links.iter().filter(|link| link.directory == *directory);
            let names: Vec<&[u8]> = children.map(|link| &*link.name).collect();
            let is_quota =
                names.iter().any(|name| [&b"user"[..], b"group", b"project"].contains(name));
            let name: &[u8] = if is_quota { b"quota" } else { b"rtgroups" };
            push_new(links, root, name, *directory);
        }
        self.make_metadata_directories(root, lost, links);
        for file in lost {
            let member = self.facts.members.get(file);
            let Some((at, name)) = member.and_then(|member| member.metadata_path.clone()) else {
                continue;
            };
            let parent = links
                .iter()
                .find(|link| link.directory == root && &*link.name == at.as_bytes())
                .map(|link| link.child);
            if let Some(parent) = parent {
                push_new(links, parent, name.as_bytes(), *file);
            }
        }
    }

    /// Makes the first directory of the metadata directory that a lost file needs and that does not
    /// exist, if an inode is free for it.
    fn make_metadata_directories(
        &mut self,
        root: InodeNumber,
        lost: &[InodeNumber],
        links: &mut Vec<Link>,
    ) {
        let paths = lost.iter().filter_map(|inode| {
            self.facts.members.get(inode).and_then(|member| member.metadata_path.as_ref())
        });
        let wanted: BTreeSet<&'static str> = paths.map(|(directory, _)| *directory).collect();
        let is_there = |name: &&'static str| {
            links.iter().any(|link| link.directory == root && &*link.name == name.as_bytes())
        };
        let missing = wanted.into_iter().find(|name| !is_there(name));
        let Some((inode, generation)) = self.facts.spare.filter(|_| missing.is_some()) else {
            return;
        };
        if let Some(name) = missing {
            self.tree.made.insert(inode, generation);
            push_new(links, root, name.as_bytes(), inode);
        }
    }

    /// Returns the directory `lost+found`. Adds it to the tree if the root has no entry of this
    /// name. Returns `None` if the entry is not a directory, or if no inode is free for a new
    /// directory.
    fn lost_and_found(&mut self, links: &mut Vec<Link>) -> Option<InodeNumber> {
        let root = self.facts.root;
        let found =
            links.iter().find(|link| link.directory == root && &*link.name == LOST_AND_FOUND);
        if let Some(found) = found {
            let is_directory = self.tree.is_directory(self.facts, found.child);
            return is_directory.then_some(found.child);
        }
        let (inode, generation) = self.facts.spare?;
        // A new metadata directory has taken the free inode: `lost+found` waits for a round.
        if self.tree.made.contains_key(&inode) {
            return None;
        }
        self.tree.made.insert(inode, generation);
        links.push(new_link(root, LOST_AND_FOUND.into(), inode));
        Some(inode)
    }

    /// Returns the last known name of each inode, by inode number: the name in a parent pointer, or
    /// else that of a dropped directory entry.
    fn last_names<'n>(dropped: &'n [Dropped], facts: &'n Facts) -> BTreeMap<InodeNumber, &'n [u8]> {
        let of_entries = dropped.iter().map(|dropped| (dropped.link.child, &*dropped.link.name));
        let of_pointers = facts.pointers.iter().map(|pointer| (pointer.child, &*pointer.name));
        of_entries.chain(of_pointers).collect()
    }

    /// Returns the name that an inode gets in `lost+found`: its last known name, followed by the
    /// inode number if that name is taken, or the inode number alone if no name is known.
    fn free_name(
        known: Option<&[u8]>,
        child: InodeNumber,
        taken: &BTreeSet<Box<[u8]>>,
    ) -> Box<[u8]> {
        let number: Box<[u8]> = child.0.to_string().into_bytes().into();
        let with_number = |name: &[u8]| -> Box<[u8]> {
            let room = MAX_NAME - number.len() - 1;
            let kept = name.iter().take(room).copied();
            kept.chain(*b".").chain(number.iter().copied()).collect()
        };
        match known {
            Some(name) if !taken.contains(name) => name.into(),
            Some(name) => with_number(name),
            None if !taken.contains(&number) => number,
            None => with_number(b"inode"),
        }
    }
}

/// Adds a link, unless the directory has the name already.
fn push_new(links: &mut Vec<Link>, directory: InodeNumber, name: &[u8], child: InodeNumber) {
    if !links.iter().any(|link| link.directory == directory && &*link.name == name) {
        links.push(new_link(directory, name.into(), child));
    }
}

fn new_link(directory: InodeNumber, name: Box<[u8]>, child: InodeNumber) -> Link {
    Link {
        directory,
        position: None,
        name,
        child,
        stated_type: EntryType::Unknown,
        entry_lsn: None,
        is_sound: false,
        has_pointer: false,
    }
}
