//! The iterator over the entries of a directory that is salvaged.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::vec;

use xfs_evidence::{InodeEvidence, InodeState, Trust};
use xfs_format::InodeNumber;
use xfs_format::directory::EntryType;
use xfs_format::inode::FileType;

use super::unlisted::UnlistedNames;
use super::{MOST_LEVELS, Node, NodeKind, Position, UNKNOWN_MODE};
use crate::inventory::Mark;
use crate::report::{FileReport, Origin, Remarks, Status};
use crate::survey::Salvage;

/// A name of a directory, with the inode that it leads to, from an entry or a parent pointer.
pub(super) struct Candidate {
    pub(super) name: Vec<u8>,
    child: InodeNumber,
    entry_type: EntryType,
    origin: Origin,
    is_doubtful: bool,
}

impl Candidate {
    /// Returns the candidate for a name from a parent pointer of `child`.
    pub(super) fn of_pointer(name: &[u8], child: InodeNumber) -> Self {
        Self {
            name: name.to_vec(),
            child,
            entry_type: EntryType::Unknown,
            origin: Origin::ParentPointer,
            is_doubtful: false,
        }
    }
}

/// An iterator over the entries of a directory. Each node is made when the iterator reaches it.
pub struct NodeEntries<'a> {
    salvage: &'a Salvage<'a>,
    /// The inode number of the directory. Made-up directories have one that no inode has.
    directory: InodeNumber,
    position: Rc<Position>,
    names: vec::IntoIter<Candidate>,
    /// The names in parent pointers of children that the directory lacks.
    unlisted: UnlistedNames,
    /// The made-up directories, such as `orphans`, that come after the names of the root.
    extra: vec::IntoIter<NodeKind>,
    /// The names of the root that a made-up directory must not get. Empty for other directories.
    taken: BTreeSet<Vec<u8>>,
    rest: Rest,
}

/// The entries that follow the names of the directory itself: the orphans, the deleted files, or
/// none.
enum Rest {
    Nothing,
    Orphans(OrphanPass, InodeNumber),
    Deleted(usize),
}

/// The passes in which orphans are found, in this order, so that a directory is found before its
/// children.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OrphanPass {
    /// Directories whose inode cannot be read.
    Gone,
    /// Orphan directories whose parent directory is not an orphan itself.
    Tops,
    /// The remaining orphan directories. They form rings, in which each is its own ancestor.
    Rings,
    /// All other inodes.
    Files,
    /// Inodes of which only blocks are left: no inode btree lists them, but the reverse map has
    /// blocks of them.
    Blocks,
}

impl<'a> Node<'a> {
    /// Returns the entries of a directory.
    #[must_use]
    pub fn entries(&self) -> NodeEntries<'a> {
        let rest = match self.kind {
            NodeKind::Orphans => Rest::Orphans(OrphanPass::Gone, InodeNumber(0)),
            NodeKind::DeletedFiles => Rest::Deleted(0),
            _ => Rest::Nothing,
        };
        let is_deep = self.position.level >= MOST_LEVELS;
        if is_deep {
            let text = "deeper than 2048 directories: what is in it is salvaged as orphans";
            self.remarks.borrow_mut().lack(text);
        }
        let names = match self.kind {
            NodeKind::Orphans | NodeKind::DeletedFiles => Vec::new(),
            _ if is_deep => Vec::new(),
            _ => self.candidates(),
        };
        let (extra, taken) = match self.kind {
            NodeKind::Top => {
                let taken = names.iter().map(|candidate| candidate.name.clone()).collect();
                (self.salvage.extra(), taken)
            }
            _ => (Vec::new(), BTreeSet::new()),
        };
        NodeEntries {
            salvage: self.salvage,
            directory: self.inode.number,
            position: Rc::clone(&self.position),
            unlisted: UnlistedNames::of(self, &names),
            names: names.into_iter(),
            extra: extra.into_iter(),
            taken,
            rest,
        }
    }

    /// Returns the names of the directory from its entries and from parent pointers. If an entry
    /// and a parent pointer give the same name, the more reliable of the two is used.
    fn candidates(&self) -> Vec<Candidate> {
        let number = self.inode.number;
        let remarks = &mut *self.remarks.borrow_mut();
        let mut candidates = Vec::new();
        if self.inode.core().is_some_and(|core| core.file_type() == Some(FileType::Directory)) {
            let found = self.salvage.directory(&self.inode, remarks);
            if let Some(damage) = found.damages.first() {
                remarks.note(format!("the directory is damaged: {damage}"));
            }
            let is_damaged = !found.damages.is_empty() || !found.missing.is_empty();
            if is_damaged && self.salvage.names.of(number).is_empty() {
                remarks.lack("names may be missing");
            } else if is_damaged {
                remarks.doubt("missing names come from parent pointers");
            }
            candidates.extend(found.names.into_iter().map(|name| Candidate {
                name: name.name.into_vec(),
                child: name.child,
                entry_type: name.entry_type,
                origin: Origin::Entry,
                is_doubtful: name.trust == Trust::Doubtful,
            }));
        } else if self.salvage.root.is_some() || self.kind != NodeKind::Top {
            remarks.doubt("the inode is gone; names come from its blocks and parent pointers");
            let found = self.salvage.names_of_gone(number);
            if found.is_empty() && self.salvage.names.of(number).is_empty() {
                remarks.lack("no name in it is left");
            }
            candidates.extend(found.into_iter().map(|name| Candidate {
                name: name.name.into_vec(),
                child: name.child,
                entry_type: name.entry_type,
                origin: Origin::Entry,
                is_doubtful: name.trust == Trust::Doubtful,
            }));
        }
        let pointers = self.salvage.names.of(number).iter();
        candidates.extend(pointers.map(|name| Candidate::of_pointer(&name.name, name.child)));
        // A sound entry counts before a parent pointer, and that before a doubtful entry.
        let rank = |candidate: &Candidate| {
            (candidate.is_doubtful, candidate.origin == Origin::ParentPointer)
        };
        candidates.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| rank(a).cmp(&rank(b))));
        let mut own_names = BTreeMap::new();
        candidates.dedup_by(|later, first| {
            let is_same = later.name == first.name;
            // An entry with a right checksum can lead to a wrong inode.
            let is_contradicted = is_same
                && later.child != first.child
                && later.origin == Origin::ParentPointer
                && first.origin == Origin::Entry
                && !own_names
                    .entry(first.child)
                    .or_insert_with(|| self.own_names(first.child))
                    .contains(&first.name);
            if is_contradicted {
                remarks.doubt("an entry leads to another inode than a parent pointer says");
                std::mem::swap(later, first);
            }
            is_same
        });
        candidates
    }

    /// Returns the names in this directory that the parent pointers of an inode have.
    fn own_names(&self, child: InodeNumber) -> BTreeSet<Vec<u8>> {
        let pointers = self.salvage.evidence.attributes(&self.salvage.inode(child)).parents;
        let pointers = pointers.into_iter().filter(|one| one.parent == self.inode.number);
        pointers.map(|one| one.name.into_vec()).collect()
    }
}

impl Salvage<'_> {
    /// Returns the made-up directories that come after the names of the root.
    fn extra(&self) -> Vec<NodeKind> {
        let deleted = (!self.deleted.is_empty()).then_some(NodeKind::DeletedFiles);
        [NodeKind::Orphans].into_iter().chain(deleted).collect()
    }
}

/// Returns `name`, or the first of `name~1`, `name~2` … that is not in `taken`.
fn free_name(name: &str, taken: &BTreeSet<Vec<u8>>) -> Vec<u8> {
    let numbered = (1..).map(|number| format!("{name}~{number}").into_bytes());
    let mut all = std::iter::once(name.as_bytes().to_vec()).chain(numbered);
    all.find(|name| !taken.contains(name)).expect("names are finite")
}

impl<'a> Iterator for NodeEntries<'a> {
    type Item = (Vec<u8>, Node<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(candidate) = self.names.next() {
            if let Some(node) = self.child(&candidate) {
                self.unlisted.take(&node);
                return Some((candidate.name, node));
            }
        }
        while let Some(candidate) = self.unlisted.found.pop() {
            if let Some(node) = self.child(&candidate) {
                node.remarks.borrow_mut().doubt("its directory has no entry of the name");
                self.taken.insert(candidate.name.clone());
                return Some((candidate.name, node));
            }
        }
        while let Some(kind) = self.extra.next() {
            if kind == NodeKind::Orphans && !self.has_orphans() {
                continue;
            }
            // The names are chosen here: those from parent pointers were not known before.
            let wanted = if kind == NodeKind::Orphans { "orphans" } else { "deleted" };
            let name = free_name(wanted, &self.taken);
            let inode = self.salvage.evidence.inode(InodeNumber::NULL);
            let position = Position::below(&self.position, name.clone());
            return Some((name, self.salvage.node(kind, inode, Origin::Orphan, position)));
        }
        match self.rest {
            Rest::Nothing => None,
            Rest::Orphans(pass, from) => self.orphan(pass, from),
            Rest::Deleted(index) => {
                self.rest = Rest::Deleted(index + 1);
                let (name, inode, last_name) = self.salvage.deleted_file(index)?;
                let position = Position::below(&self.position, name.clone());
                let mut node = self.salvage.node(NodeKind::Inode, inode, Origin::Deleted, position);
                node.mode = self.salvage.deleted_mode(index);
                node.last_name = last_name;
                node.inode_source = Some(self.salvage.deleted_source(index));
                node.remarks.borrow_mut().note("deleted: the contents are not verified");
                Some((name, node))
            }
        }
    }
}

impl<'a> NodeEntries<'a> {
    /// Returns the entry with this name, and skips the entries before it. Returns `None` if there
    /// is no such entry, or if nothing of its file is left. Does not look at names that only parent
    /// pointers of children have.
    pub(crate) fn find_name(&mut self, name: &[u8]) -> Option<Node<'a>> {
        let candidate = self.names.find(|candidate| candidate.name == name)?;
        self.child(&candidate)
    }

    fn mark(&self, number: InodeNumber) -> bool {
        self.salvage.inventory.borrow_mut().mark(number, Mark::Visited)
    }

    /// Makes the node of a name. If nothing is left of the file, reports it as lost and returns
    /// `None`.
    fn child(&self, candidate: &Candidate) -> Option<Node<'a>> {
        let inode = self.salvage.inode(candidate.child);
        let position = Position::below(&self.position, candidate.name.clone());
        let Some(kind) = self.kind_of(candidate, &inode) else {
            // A doubtful entry whose inode does not exist is taken for garbage.
            if !candidate.is_doubtful {
                self.mark(candidate.child);
                self.lose(candidate, &position, "the inode is gone");
            }
            return None;
        };
        let is_directory = kind == NodeKind::GoneDirectory
            || inode.core().is_some_and(|core| core.file_type() == Some(FileType::Directory));
        let home = self.salvage.homes.get(&candidate.child).filter(|_| is_directory);
        if home.is_some_and(|home| !home.is_entry(self.directory, &candidate.name)) {
            self.lose(candidate, &position, "the directory names another entry as its own");
            return None;
        }
        let is_first = self.mark(candidate.child);
        if is_directory && !is_first {
            self.lose(candidate, &position, "the directory has been salvaged under another name");
            return None;
        }
        let mut node = self.salvage.node(kind, inode, candidate.origin, position);
        let remarks = node.remarks.get_mut();
        if candidate.is_doubtful {
            remarks.doubt("the entry is in a damaged directory block");
        }
        if candidate.origin == Origin::ParentPointer {
            remarks.note("the name comes from a parent pointer");
        }
        let is_used = self.salvage.inventory.borrow().has(candidate.child, Mark::Used);
        if kind == NodeKind::Inode && !is_used {
            remarks.doubt("the inode btree has the inode as free");
        }
        node.mode = match (kind, candidate.entry_type.file_type()) {
            (NodeKind::GoneSpecial, Some(file_type)) => file_type.mode_bits() | UNKNOWN_MODE,
            _ => mode_of(&node.inode, candidate.entry_type),
        };
        Some(node)
    }

    /// Returns the kind of the node for a name, or `None` if nothing is left of its file.
    fn kind_of(&self, candidate: &Candidate, inode: &InodeEvidence) -> Option<NodeKind> {
        let number = candidate.child;
        if inode.core().is_some() {
            return Some(NodeKind::Inode);
        }
        let salvage = self.salvage;
        let has_names =
            !salvage.names.of(number).is_empty() || salvage.strays.contains_key(&number);
        let map = salvage.map_of_gone(number);
        // An entry that leads to a free inode is older than the inode.
        // A doubtful entry proves an inode only together with the inode btree.
        let is_listed = salvage.inventory.borrow().has(number, Mark::Used);
        let is_destroyed = matches!(inode.state, InodeState::Gone(_))
            && salvage.was_used(number)
            && (is_listed || !candidate.is_doubtful);
        match candidate.entry_type {
            // Such an entry proves the directory, even if nothing in it is left.
            EntryType::Directory if map.is_some() || is_destroyed || !candidate.is_doubtful => {
                Some(NodeKind::GoneDirectory)
            }
            EntryType::Regular if map.is_some() => Some(NodeKind::GoneFile),
            EntryType::Symlink if salvage.kind_of_gone(number) == Some(NodeKind::GoneLink) => {
                Some(NodeKind::GoneLink)
            }
            _ if has_names => Some(NodeKind::GoneDirectory),
            // The entry proves the file too. Without a map the file has no known contents.
            EntryType::Regular if is_destroyed => Some(NodeKind::GoneFile),
            // The name and the type are all of a pipe that a user sees. A device without its number
            // would be another device.
            EntryType::Fifo | EntryType::Socket if is_destroyed => Some(NodeKind::GoneSpecial),
            _ => None,
        }
    }

    /// Reports the file of a name as lost: nothing of it is left.
    fn lose(&self, candidate: &Candidate, position: &Position, reason: &str) {
        let file_type = candidate.entry_type.file_type();
        self.salvage.report(&FileReport {
            path: position.path(),
            inode: candidate.child,
            mode: file_type.map_or(0, FileType::mode_bits),
            size: 0,
            status: Status::Lost,
            origin: candidate.origin,
            inode_source: None,
            last_name: None,
            missing: Vec::new(),
            reasons: vec![reason.to_owned()],
        });
    }

    fn has_orphans(&self) -> bool {
        let inventory = self.salvage.inventory.borrow();
        let used = inventory.next(InodeNumber(0), Mark::Used, Some(Mark::Visited));
        let mut gone =
            self.salvage.names.parents(InodeNumber(0)).chain(self.salvage.strays.keys().copied());
        let gone = gone.any(|parent| !inventory.has(parent, Mark::Visited));
        used.is_some() || gone || self.salvage.unlisted_fork(InodeNumber(0)).is_some()
    }

    /// Returns the next orphan and its name. It is the first one of the pass `pass` with an inode
    /// number of at least `from`, or else the first one of a later pass.
    fn orphan(&mut self, pass: OrphanPass, from: InodeNumber) -> Option<(Vec<u8>, Node<'a>)> {
        let (mut pass, mut from) = (pass, from);
        loop {
            let found = match pass {
                OrphanPass::Gone => self.gone_directory(from),
                OrphanPass::Tops | OrphanPass::Rings => self.unvisited(from, Mark::Directory),
                OrphanPass::Files => self.unvisited(from, Mark::Used),
                OrphanPass::Blocks => self.salvage.unlisted_fork(from),
            };
            let Some(number) = found else {
                from = InodeNumber(0);
                pass = match pass {
                    OrphanPass::Gone => OrphanPass::Tops,
                    OrphanPass::Tops => OrphanPass::Rings,
                    OrphanPass::Rings => OrphanPass::Files,
                    OrphanPass::Files => OrphanPass::Blocks,
                    OrphanPass::Blocks => return None,
                };
                continue;
            };
            from = InodeNumber(number.0 + 1);
            self.rest = Rest::Orphans(pass, from);
            let inode = self.salvage.inode(number);
            if pass == OrphanPass::Tops && !self.is_top(&inode) {
                continue;
            }
            if let Some(orphan) = self.orphan_node(pass, inode) {
                return Some(orphan);
            }
        }
    }

    fn unvisited(&self, from: InodeNumber, wanted: Mark) -> Option<InodeNumber> {
        self.salvage.inventory.borrow().next(from, wanted, Some(Mark::Visited))
    }

    fn gone_directory(&self, from: InodeNumber) -> Option<InodeNumber> {
        let inventory = self.salvage.inventory.borrow();
        let is_gone = |parent: &InodeNumber| {
            !inventory.has(*parent, Mark::Directory) && !inventory.has(*parent, Mark::Visited)
        };
        let named = self.salvage.names.parents(from).find(is_gone);
        let stray = self.salvage.strays.range(from..).map(|(owner, _)| *owner).find(is_gone);
        named.into_iter().chain(stray).min()
    }

    /// Returns whether an orphan directory is the top of its tree: its parent is not an orphan
    /// directory.
    fn is_top(&self, inode: &InodeEvidence) -> bool {
        let parent = self.salvage.evidence.entries(inode).parent;
        parent.is_none_or(|parent| {
            let inventory = self.salvage.inventory.borrow();
            parent == inode.number
                || !inventory.has(parent, Mark::Directory)
                || inventory.has(parent, Mark::Visited)
        })
    }

    fn orphan_node(&self, pass: OrphanPass, inode: InodeEvidence) -> Option<(Vec<u8>, Node<'a>)> {
        let number = inode.number;
        self.mark(number);
        let name = number.0.to_string().into_bytes();
        let is_unsure = self.salvage.is_unsure(number);
        let position = Position::orphan(&self.position, name.clone(), is_unsure);
        let kind = match pass {
            OrphanPass::Gone => Some(NodeKind::GoneDirectory),
            _ if inode.core().is_some() => Some(NodeKind::Inode),
            _ => self.salvage.kind_of_gone(number),
        };
        let Some(kind) = kind else {
            self.salvage.report(&FileReport {
                path: position.path(),
                inode: number,
                mode: 0,
                size: 0,
                status: Status::Lost,
                origin: Origin::Orphan,
                inode_source: None,
                last_name: None,
                missing: Vec::new(),
                reasons: vec!["the inode is gone, and no name led to it".to_owned()],
            });
            return None;
        };
        let mut remarks = Remarks::default();
        remarks.note(match inode.core() {
            Some(core) if core.nlink == 0 => "unlinked while it was open: it has no name",
            _ => "no name led to the inode",
        });
        let pointers = self.salvage.evidence.attributes(&inode).parents;
        let last_name = pointers.into_iter().next();
        let mut node = self.salvage.node(kind, inode, Origin::Orphan, position);
        node.mode = mode_of(&node.inode, EntryType::Unknown);
        node.last_name = last_name.map(|found| (found.parent, found.name.into_vec()));
        node.remarks.get_mut().texts.splice(0..0, remarks.texts);
        Some((name, node))
    }
}

/// Returns 0 if the inode has a valid file type. If not, returns a mode to use in place of that of
/// the inode, with the file type from the directory entry.
fn mode_of(inode: &InodeEvidence, entry_type: EntryType) -> u16 {
    let Some(core) = inode.any_core() else { return 0 };
    if core.file_type().is_some() {
        return 0;
    }
    let file_type = entry_type.file_type().unwrap_or(FileType::Regular);
    file_type.mode_bits() | UNKNOWN_MODE
}
