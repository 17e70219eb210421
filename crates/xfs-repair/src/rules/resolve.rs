//! Decides which names a volume has: entries and parent pointers together give one tree.
//!
//! Owns: the decision, from this evidence alone. Does **not** own: how directories and attribute
//! forks are written.
//!
//! A *link* is a name of a child in a directory. An entry and a parent pointer are two witnesses of
//! one link. The decisions for contradictions, in this order:
//!
//! 1. All entries of an inode have one type, and the inode has another: the entries are right if
//!    the contents do not fit the type in the inode.
//! 2. Several children have one name: the child with both witnesses gets the name, or else the
//!    child with a parent pointer, or else the child of the first entry.
//! 3. An entry without a pointer: the link is kept, unless the child has other names and the block
//!    is damaged, or the block is older than the inode and the links kept so far already reach the
//!    link count.
//! 4. A pointer without an entry: the link is kept if entries of the directory are lost, if the
//!    child has no other name, or if the links kept so far do not reach the link count. The link
//!    count of an inode that is older than the entries of the directory proves nothing.
//! 5. Several names of a directory: the name with both witnesses is kept, or else the name that
//!    `..` confirms.
//! 6. A ring of directories: the link with fewer witnesses is cut.
//! 7. An inode without a name: it gets its last known name in `lost+found`.
//!
//! # Age
//!
//! A write that was lost leaves an older state of a block or an inode on disk, with a right
//! checksum. A transaction that makes or removes a name changes the entry, the pointer and the link
//! count, and all blocks and inodes of the transaction get its LSN. So if only one of these
//! structures has the change, it has the higher LSN, and the others are older states. Equal or
//! unknown LSNs prove nothing.
//!
//! # Invariants
//!
//! - **I1** The result depends only on the entries, pointers and inodes of the volume, and not on
//!   their order.
//! - **I2** A name is given up only if its inode is not in use and cannot be made again, or if
//!   another child has a better right to it.

mod lost_found;

use std::collections::{BTreeMap, BTreeSet};

use xfs_format::directory::EntryType;
use xfs_format::{InodeNumber, Lsn};

use super::facts::{Facts, Member, Slot};

/// A link: a directory gives a child a name. The evidence is a directory entry, a parent pointer of
/// the child, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// The directory that contains the name.
    pub(crate) directory: InodeNumber,
    /// The index of the entry in its directory; `None` if there is no entry.
    pub(crate) position: Option<usize>,
    /// The name.
    pub(crate) name: Box<[u8]>,
    /// The inode to which the name leads.
    pub(crate) child: InodeNumber,
    /// The file type in the directory entry. It is used only if the child is not in use: then no
    /// inode has the type.
    stated_type: EntryType,
    /// The LSN of the entry's block.
    entry_lsn: Option<Lsn>,
    /// Whether the link has an entry in a sound block.
    is_sound: bool,
    /// Whether the link has a parent pointer.
    has_pointer: bool,
}

impl Link {
    /// Returns how strong the evidence for the link is: 4 for a directory entry and a parent
    /// pointer, 3 for a parent pointer alone, 2 for an entry alone, and 1 for an entry alone in a
    /// damaged block.
    fn rank(&self) -> u8 {
        match (self.position.is_some(), self.has_pointer, self.is_sound) {
            (true, true, _) => 4,
            (false, true, _) => 3,
            (_, false, true) => 2,
            (_, false, false) => 1,
        }
    }
}

/// A link that is given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// The link that is given up.
    pub(crate) link: Link,
    /// Whether the name counts as lost: its child may exist, but cannot be read and is not made
    /// again.
    pub(crate) is_loss: bool,
}

/// The tree of names that the volume gets: the decision of this module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    /// All links, sorted by directory, by the index of the entry in the directory, and by name.
    pub(crate) links: Vec<Link>,
    /// The directories whose lost inodes are made again, each with its generation.
    pub(crate) made: BTreeMap<InodeNumber, u32>,
    /// The directories whose generation must change, each with the new generation.
    pub(crate) generations: BTreeMap<InodeNumber, u32>,
    /// The inodes whose type must change, each with the new type.
    pub(crate) types: BTreeMap<InodeNumber, EntryType>,
    /// The links that are given up.
    pub(crate) dropped: Vec<Dropped>,
    /// The inodes that get a name in `lost+found`, because no other name leads to them.
    pub(crate) rescued: BTreeSet<InodeNumber>,
    /// Whether the tree would lose names or inodes of directories although losses are not allowed.
    /// If so, a directory that would lose names keeps its bytes, no link count changes, and no
    /// inode goes to `lost+found`.
    pub(crate) is_held: bool,
}

impl Tree {
    /// Returns the links of a directory.
    pub(crate) fn links_of(&self, directory: InodeNumber) -> &[Link] {
        let start = self.links.partition_point(|link| link.directory < directory);
        let end = self.links.partition_point(|link| link.directory <= directory);
        self.links.get(start..end).unwrap_or(&[])
    }

    /// Returns the type that the directory entry of a link must have.
    pub(crate) fn entry_type(&self, facts: &Facts, link: &Link) -> EntryType {
        match facts.members.get(&link.child) {
            _ if self.made.contains_key(&link.child) => EntryType::Directory,
            // A whiteout is a character device, and its entries may state either.
            Some(member)
                if member.entry_type == EntryType::CharacterDevice
                    && link.stated_type == EntryType::Whiteout =>
            {
                EntryType::Whiteout
            }
            Some(member) => member.entry_type,
            None => link.stated_type,
        }
    }

    /// Returns whether an inode is a directory of the tree.
    pub(crate) fn is_directory(&self, facts: &Facts, inode: InodeNumber) -> bool {
        self.made.contains_key(&inode)
            || facts.members.get(&inode).is_some_and(Member::is_directory)
    }
}

/// Decides which links the volume has.
pub(crate) fn resolve(facts: &Facts) -> Tree {
    let mut resolver = Resolver { facts, tree: Tree::default() };
    resolver.tree.types = voted_types(facts);
    if !resolver.tree.types.is_empty() {
        // The contents of these inodes are read with their new type in the next round.
        return resolver.tree;
    }
    resolver.tree.generations = voted_generations(facts);
    resolver.make_directories();
    let mut links = resolver.candidates();
    links = resolver.one_child_for_each_name(links);
    links = resolver.believed(links);
    links = resolver.one_name_for_each_directory(links);
    links = resolver.without_rings(links);
    resolver.hold();
    resolver.rescue(&mut links);
    links.sort_by(|a, b| {
        let key = |link: &Link| (link.directory, link.position.unwrap_or(usize::MAX));
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
    resolver.tree.links = links;
    resolver.tree
}

/// Returns whether both LSNs are known and the first is lower.
fn is_before(first: Option<Lsn>, second: Option<Lsn>) -> bool {
    first.zip(second).is_some_and(|(first, second)| first < second)
}

/// Returns the directories whose children agree on a generation other than the one that is stored
/// in the directory's inode. At least two children must agree, because the parent pointer of a
/// single child may itself be wrong.
fn voted_generations(facts: &Facts) -> BTreeMap<InodeNumber, u32> {
    let named: BTreeSet<(InodeNumber, &[u8], InodeNumber)> = facts
        .names
        .iter()
        .filter(|name| name.is_sound)
        .map(|name| (name.directory, &*name.name, name.child))
        .collect();
    let mut votes: BTreeMap<InodeNumber, BTreeMap<u32, u64>> = BTreeMap::new();
    for pointer in facts.pointers.iter().filter(|pointer| pointer.is_sound) {
        if named.contains(&(pointer.directory, &*pointer.name, pointer.child)) {
            let of_directory = votes.entry(pointer.directory).or_default();
            *of_directory.entry(pointer.generation).or_default() += 1;
        }
    }
    let differs = |(directory, votes): (InodeNumber, BTreeMap<u32, u64>)| {
        let stored = facts.members.get(&directory)?.generation;
        let (generation, count) = most_votes(&votes)?;
        (!votes.contains_key(&stored) && count > 1).then_some((directory, generation))
    };
    votes.into_iter().filter_map(differs).collect()
}

/// Returns the inodes whose stored type is wrong, each with its right type. All entries must have
/// that other type. In addition, the contents must not fit the stored type, or parent pointers of
/// children must lead to the inode.
fn voted_types(facts: &Facts) -> BTreeMap<InodeNumber, EntryType> {
    let mut stated: BTreeMap<InodeNumber, BTreeSet<u8>> = BTreeMap::new();
    for name in &facts.names {
        stated.entry(name.child).or_default().insert(name.entry_type.to_disk());
    }
    let parents: BTreeSet<(InodeNumber, u32)> =
        facts.pointers.iter().map(|pointer| (pointer.directory, pointer.generation)).collect();
    let wrong = |(inode, member): (&InodeNumber, &Member)| {
        let types = stated.get(inode)?;
        let stated = types.first().copied().and_then(EntryType::from_disk)?;
        let is_agreed = types.len() == 1 && stated.to_disk() != member.entry_type.to_disk();
        let is_directory =
            stated == EntryType::Directory && parents.contains(&(*inode, member.generation));
        let is_wrong = member.has_other_contents && stated.file_type().is_some();
        (is_agreed && (is_directory || is_wrong)).then_some((*inode, stated))
    };
    facts.members.iter().filter_map(wrong).collect()
}

/// Returns the generation with the most votes, and the number of its votes. `None` if there are no
/// votes.
fn most_votes(votes: &BTreeMap<u32, u64>) -> Option<(u32, u64)> {
    votes.iter().map(|(generation, count)| (*generation, *count)).max_by_key(|(_, count)| *count)
}

struct Resolver<'f> {
    facts: &'f Facts,
    tree: Tree,
}

impl Resolver<'_> {
    fn generation(&self, directory: InodeNumber) -> Option<u32> {
        let changed = self.tree.made.get(&directory).or(self.tree.generations.get(&directory));
        let member = self.facts.members.get(&directory).filter(|member| member.is_directory());
        changed.copied().or(member.map(|member| member.generation))
    }

    /// Sets `is_held` of the tree if losses are not allowed, but names would be lost, or
    /// directories would be made again without their old fields.
    fn hold(&mut self) {
        let facts = self.facts;
        // No field of a metadata directory is lost: all of them are alike.
        let is_user = |inode: &InodeNumber| !facts.is_metadata_directory(*inode);
        let is_lossy = self.tree.made.keys().any(is_user)
            || facts.members.values().any(|member| facts.loses_names(member))
            || self.tree.dropped.iter().any(|dropped| dropped.is_loss);
        self.tree.is_held = !facts.allows_loss && is_lossy;
    }

    /// Finds the lost directories whose inodes can be made again at their old numbers. These are
    /// the root, directories that an entry names, and directories that hold the only name of some
    /// child.
    fn make_directories(&mut self) {
        let mut votes: BTreeMap<InodeNumber, BTreeMap<u32, u64>> = BTreeMap::new();
        for pointer in &self.facts.pointers {
            let of_directory = votes.entry(pointer.directory).or_default();
            *of_directory.entry(pointer.generation).or_default() += 1;
        }
        let named_directories: BTreeSet<InodeNumber> = self
            .facts
            .names
            .iter()
            .filter(|name| name.entry_type == EntryType::Directory)
            .map(|name| name.child)
            .collect();
        let needed = self.needed_directories();
        for (inode, slot) in &self.facts.slots {
            let is_needed = self.facts.is_root(*inode) || needed.contains(inode);
            let is_named = named_directories.contains(inode);
            let votes = votes.get(inode).and_then(most_votes);
            let is_made = match slot {
                Slot::Gone => is_needed || is_named,
                Slot::Free => is_needed,
                Slot::Unknown | Slot::Impossible => false,
            };
            if is_made {
                // Without children, no structure knows the generation, and any will do.
                let generation = votes.map_or(1, |(generation, _)| generation);
                self.tree.made.insert(*inode, generation);
            }
        }
    }

    /// Returns the directories that hold the only name of some child.
    fn needed_directories(&self) -> BTreeSet<InodeNumber> {
        let is_member = |inode: &InodeNumber| self.facts.members.contains_key(inode);
        let named: BTreeSet<InodeNumber> = self
            .facts
            .names
            .iter()
            .filter(|name| is_member(&name.directory))
            .map(|name| name.child)
            .collect();
        let pointers = self.facts.pointers.iter().filter(|pointer| !named.contains(&pointer.child));
        pointers.map(|pointer| pointer.directory).collect()
    }

    /// Returns the possible links: those that a directory entry or a parent pointer gives, without
    /// the impossible ones, which are given up.
    fn candidates(&mut self) -> Vec<Link> {
        let mut links: BTreeMap<(InodeNumber, Box<[u8]>, InodeNumber), Link> = BTreeMap::new();
        for name in &self.facts.names {
            let link = Link {
                directory: name.directory,
                position: Some(name.position),
                name: name.name.clone(),
                child: name.child,
                stated_type: name.entry_type,
                entry_lsn: name.lsn,
                is_sound: name.is_sound,
                has_pointer: false,
            };
            links.entry((name.directory, name.name.clone(), name.child)).or_insert(link);
        }
        for pointer in &self.facts.pointers {
            if self.generation(pointer.directory) != Some(pointer.generation) {
                continue;
            }
            let link = Link {
                directory: pointer.directory,
                position: None,
                name: pointer.name.clone(),
                child: pointer.child,
                stated_type: EntryType::Unknown,
                entry_lsn: None,
                is_sound: false,
                has_pointer: false,
            };
            let key = (pointer.directory, pointer.name.clone(), pointer.child);
            links.entry(key).or_insert(link).has_pointer = true;
        }
        let (possible, impossible): (Vec<Link>, Vec<Link>) =
            links.into_values().partition(|link| self.is_possible(link));
        for link in impossible {
            let is_loss = self.facts.slots.contains_key(&link.child);
            self.tree.dropped.push(Dropped { link, is_loss });
        }
        possible
    }

    /// Returns whether a link is possible: its child exists or may exist, and is neither the root
    /// directory nor a reserved inode. A child whose inode cannot be read may exist, because a
    /// later round can repair it. If losses are not allowed, a child that does not exist is also
    /// accepted, so that its name is kept.
    fn is_possible(&self, link: &Link) -> bool {
        let is_special =
            self.facts.is_root(link.child) || self.facts.reserved.contains(&link.child);
        if is_special || self.crosses(link) {
            return false;
        }
        let exists = self.facts.members.contains_key(&link.child)
            || self.tree.made.contains_key(&link.child);
        exists
            || match self.facts.slot(link.child) {
                Slot::Gone | Slot::Unknown => true,
                Slot::Free | Slot::Impossible => !self.facts.allows_loss,
            }
    }

    /// Returns whether a link leads into the metadata directory or out of it.
    fn crosses(&self, link: &Link) -> bool {
        let child = self.facts.members.get(&link.child).map(|member| member.is_metadata);
        let child = child.or_else(|| {
            let is_made = self.tree.made.contains_key(&link.child);
            is_made.then(|| self.facts.is_metadata_directory(link.child))
        });
        self.facts.metadata_root.is_some()
            && child.is_some_and(|is_metadata| {
                is_metadata != self.facts.is_metadata_directory(link.directory)
            })
    }

    /// Decides between several links with the same name in one directory: one link keeps the name,
    /// and the others are given up.
    fn one_child_for_each_name(&mut self, mut links: Vec<Link>) -> Vec<Link> {
        links.sort_by(|a, b| {
            let place = |link: &Link| (std::cmp::Reverse(link.rank()), link.position, link.child);
            a.directory
                .cmp(&b.directory)
                .then_with(|| a.name.cmp(&b.name))
                .then_with(|| place(a).cmp(&place(b)))
        });
        let mut kept: Vec<Link> = Vec::with_capacity(links.len());
        for link in links {
            let is_same = kept
                .last()
                .is_some_and(|last| last.directory == link.directory && last.name == link.name);
            if is_same {
                self.drop_link(link);
            } else {
                kept.push(link);
            }
        }
        kept
    }

    /// Gives up a link. Its name is reported as lost if the child may exist but cannot be read. If
    /// the child is in use, the name is not reported: the child keeps another name, or gets one in
    /// `lost+found`.
    fn drop_link(&mut self, link: Link) {
        let is_kept = self.tree.made.contains_key(&link.child);
        let is_loss = !is_kept && matches!(self.facts.slot(link.child), Slot::Gone | Slot::Unknown);
        self.tree.dropped.push(Dropped { link, is_loss });
    }

    /// Decides, for each child, which of its doubtful links to keep. A link is doubtful if it has
    /// only a directory entry, or only a parent pointer.
    fn believed(&mut self, mut links: Vec<Link>) -> Vec<Link> {
        links.sort_by(|a, b| a.child.cmp(&b.child).then_with(|| self.order(a).cmp(&self.order(b))));
        let mut kept = Vec::with_capacity(links.len());
        let mut of_child = 0_u32;
        let mut last = None;
        for link in links {
            if last != Some(link.child) {
                (last, of_child) = (Some(link.child), 0);
            }
            if self.is_believed(&link, of_child) {
                of_child += 1;
                kept.push(link);
            } else {
                self.drop_link(link);
            }
        }
        kept
    }

    /// Returns the key by which the links of one child are sorted before it is decided which to
    /// keep. Links with both a directory entry and a parent pointer come first.
    fn order<'l>(&self, link: &'l Link) -> (u8, InodeNumber, &'l [u8]) {
        let class = match link.rank() {
            4 => 0,
            2 => 1,
            3 if self.has_lost_names(link.directory) => 2,
            3 => 3,
            _ => 4,
        };
        (class, link.directory, &link.name)
    }

    fn has_lost_names(&self, directory: InodeNumber) -> bool {
        self.tree.made.contains_key(&directory)
            || self.facts.members.get(&directory).is_some_and(|member| !member.has_all_names)
    }

    /// Returns whether the evidence for a link is strong enough to keep it. `others` is the number
    /// of links of the same child that are already kept. If that number is below the link count of
    /// the child, this is also evidence for the link.
    fn is_believed(&self, link: &Link, others: u32) -> bool {
        let Some(child) = self.facts.members.get(&link.child) else { return true };
        let wants_more = others < child.links && !child.is_directory();
        match link.rank() {
            4 => true,
            // A block of an older state has entries that neither a pointer nor the count knows. An
            // inode of an older state does not know entries that were made since.
            2 if self.facts.has_parents && child.has_all_pointers && !child.is_directory() => {
                others == 0 || wants_more || !is_before(link.entry_lsn, child.lsn)
            }
            2 => true,
            3 => {
                let is_removed_since = is_before(child.lsn, self.names_lsn(link.directory));
                self.has_lost_names(link.directory)
                    || others == 0
                    || (wants_more && !is_removed_since)
            }
            _ => others == 0 || !child.has_all_pointers || !self.facts.has_parents,
        }
    }

    /// Returns the LSN of the block or inode that holds all entries of a directory. `None` if
    /// several blocks hold them, or if there are no entries.
    fn names_lsn(&self, directory: InodeNumber) -> Option<Lsn> {
        self.facts.members.get(&directory).and_then(|member| member.names_lsn)
    }

    /// Decides between several links to one directory: only one is kept.
    fn one_name_for_each_directory(&mut self, mut links: Vec<Link>) -> Vec<Link> {
        let order = |link: &Link| {
            let dotdot = self.facts.members.get(&link.child).and_then(|member| member.dotdot);
            let disagrees = dotdot != Some(link.directory);
            (std::cmp::Reverse(link.rank()), disagrees, link.directory, link.name.clone())
        };
        links.sort_by(|a, b| a.child.cmp(&b.child).then_with(|| order(a).cmp(&order(b))));
        let mut kept: Vec<Link> = Vec::with_capacity(links.len());
        for link in links {
            let is_second = kept.last().is_some_and(|last| last.child == link.child)
                && self.tree.is_directory(self.facts, link.child);
            if is_second {
                self.drop_link(link);
            } else {
                kept.push(link);
            }
        }
        kept
    }

    /// Cuts rings of directories, in which a directory is below itself. In each ring, gives up the
    /// link with the weakest evidence.
    fn without_rings(&mut self, mut links: Vec<Link>) -> Vec<Link> {
        let mut cut = BTreeSet::new();
        let mut reached: BTreeSet<InodeNumber> = BTreeSet::from([self.facts.root]);
        reached.extend(self.facts.metadata_root);
        let up: BTreeMap<InodeNumber, &Link> = links
            .iter()
            .filter(|link| self.tree.is_directory(self.facts, link.child))
            .map(|link| (link.child, link))
            .collect();
        for start in up.keys() {
            let mut path: Vec<InodeNumber> = Vec::new();
            let mut on_path = BTreeSet::new();
            let mut at = *start;
            while !reached.contains(&at) {
                if !on_path.insert(at) {
                    let first = path.iter().position(|inode| *inode == at);
                    let ring = path.iter().skip(first.expect("the directory is on the path"));
                    let links = ring.filter_map(|inode| up.get(inode).copied());
                    let weakest = links.min_by_key(|link| {
                        let dotdot = self.facts.members.get(&link.child).and_then(|m| m.dotdot);
                        (link.rank(), dotdot == Some(link.directory), link.child)
                    });
                    cut.extend(weakest.map(|link| link.child));
                    break;
                }
                path.push(at);
                match up.get(&at) {
                    Some(link) => at = link.directory,
                    None => break,
                }
            }
            reached.extend(path);
        }
        let (kept, gone): (Vec<Link>, Vec<Link>) =
            links.drain(..).partition(|link| !cut.contains(&link.child));
        gone.into_iter().for_each(|link| self.drop_link(link));
        kept
    }
}

#[cfg(test)]
mod tests;
