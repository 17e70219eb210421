//! All names of a salvaged volume in memory, for commands that do not copy files.
//!
//! Owns: the walk that visits each name once, and the paths. Does **not** own: the names
//! ([`Node::entries`]), or the facts and contents of a file, which a [`Node`] reads from the volume
//! when they are needed.
//!
//! A listing or a mount visits directories in any order. The walk of [`Node::entries`] must be
//! depth first, because only its end shows to which inodes no name has led. So the walk is made
//! once, and its names are kept.

use xfs_format::InodeNumber;
use xfs_format::inode::FileType;

use crate::node::{Node, NodeEntries, NodeKind, Position};
use crate::report::Origin;
use crate::survey::{Salvage, Stopped, SurveyProgress};

/// The most names that are kept.
const MOST_NAMES: usize = 1 << 26;
/// The number of names between two reports of progress.
const STEP_NAMES: u64 = 1024;

/// The number of a name in a [`NameTree`]. The number identifies the whole path of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(u32);

impl NameId {
    /// The name ID of the top of the tree.
    pub const TOP: Self = Self(0);

    /// Returns the number of the name, counted from 0 at the top.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the name with the number `index`.
    #[must_use]
    pub fn of_index(index: usize) -> Option<Self> {
        u32::try_from(index).ok().map(Self)
    }
}

/// A name of a file or directory.
struct NameEntry {
    parent: NameId,
    first_child: Option<NameId>,
    next: Option<NameId>,
    name_start: usize,
    name_length: u16,
    mode: u16,
    inode: InodeNumber,
    kind: NodeKind,
    origin: Origin,
}

/// All names of a salvaged volume.
#[derive(Default)]
pub struct NameTree {
    entries: Vec<NameEntry>,
    names: Vec<u8>,
    dropped: u64,
}

/// A directory of the tree to which names are still being added.
struct OpenLevel<'a> {
    id: NameId,
    last: Option<NameId>,
    entries: NodeEntries<'a>,
}

impl<'a> Salvage<'a> {
    /// Walks the whole tree, and returns all names, without those of deleted files. Each file is
    /// reported as if it had been copied. Its contents are not read, so ranges that the device
    /// cannot read are not reported as missing.
    ///
    /// # Errors
    ///
    /// Returns [`Stopped`] if `progress` ended the walk.
    pub fn name_tree(&'a self, progress: &dyn SurveyProgress) -> Result<NameTree, Stopped> {
        let mut tree = NameTree::default();
        let all = self.inode_count();
        let top = self.top();
        let id = tree.add(NameId::TOP, b"", &top).expect("the tree has room for its top");
        let mut levels = vec![OpenLevel { id, last: None, entries: top.entries() }];
        top.set_copied();
        drop(top);
        let mut done = 0;
        while let Some(level) = levels.last_mut() {
            let Some((name, node)) = level.entries.next() else {
                levels.pop();
                continue;
            };
            if done % STEP_NAMES == 0 && progress.step("reading names", done, all).is_break() {
                return Err(Stopped);
            }
            done += 1;
            node.set_copied();
            if node.kind() == NodeKind::DeletedFiles {
                continue;
            }
            let Some(id) = tree.add(level.id, &name, &node) else { continue };
            tree.link(level, id);
            if FileType::from_mode(node.facts().mode) == Some(FileType::Directory) {
                let entries = node.entries();
                levels.push(OpenLevel { id, last: None, entries });
            }
        }
        Ok(tree)
    }
}

impl NameTree {
    /// Adds a name. If the tree is full or the name too long, counts the name as dropped and
    /// returns `None`.
    fn add(&mut self, parent: NameId, name: &[u8], node: &Node<'_>) -> Option<NameId> {
        let length = u16::try_from(name.len()).ok();
        let id = NameId::of_index(self.entries.len()).filter(|id| id.index() < MOST_NAMES);
        let (Some(name_length), Some(id)) = (length, id) else {
            self.dropped += 1;
            return None;
        };
        self.entries.push(NameEntry {
            parent,
            first_child: None,
            next: None,
            name_start: self.names.len(),
            name_length,
            mode: node.chosen_mode(),
            inode: node.number(),
            kind: node.kind(),
            origin: node.origin(),
        });
        self.names.extend_from_slice(name);
        Some(id)
    }

    /// Adds the name `id` to the directory of `level`, after the names that the directory has
    /// already.
    fn link(&mut self, level: &mut OpenLevel<'_>, id: NameId) {
        let before = level.last.replace(id);
        let at = before.unwrap_or(level.id);
        let entry = self.entries.get_mut(at.index()).expect("the tree has the names before");
        match before {
            Some(_) => entry.next = Some(id),
            None => entry.first_child = Some(id),
        }
    }

    fn entry(&self, id: NameId) -> &NameEntry {
        self.entries.get(id.index()).expect("the number of a name comes from its tree")
    }

    /// Returns the number of names in the tree. The top of the tree counts as one name.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Returns how many names were left out, because there are too many.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the last component of the path; an empty one for the top.
    #[must_use]
    pub fn name(&self, id: NameId) -> &[u8] {
        let entry = self.entry(id);
        let end = entry.name_start + usize::from(entry.name_length);
        self.names.get(entry.name_start..end).expect("the names are kept")
    }

    /// Returns the directory of a name. The top is its own directory.
    #[must_use]
    pub fn parent(&self, id: NameId) -> NameId {
        self.entry(id).parent
    }

    /// Returns the inode to which the name leads. `None` for the directory of the orphans, which is
    /// not on the volume, and for a top without a root inode.
    #[must_use]
    pub fn inode(&self, id: NameId) -> Option<InodeNumber> {
        let entry = self.entry(id);
        let is_made = entry.kind == NodeKind::Orphans || entry.inode == InodeNumber(0);
        (!is_made).then_some(entry.inode)
    }

    /// Returns whether every component of the path is a name on the volume. An orphan has its inode
    /// number in place of a name, so its path and all paths below it do not count.
    #[must_use]
    pub fn has_name(&self, id: NameId) -> bool {
        let mut at = id;
        while at != NameId::TOP {
            let entry = self.entry(at);
            if entry.origin == Origin::Orphan {
                return false;
            }
            at = entry.parent;
        }
        true
    }

    /// Returns the path, which starts with a slash.
    #[must_use]
    pub fn path(&self, id: NameId) -> Vec<u8> {
        if id == NameId::TOP {
            return b"/".to_vec();
        }
        let (mut parts, mut at) = (Vec::new(), id);
        while at != NameId::TOP {
            parts.push(self.name(at));
            at = self.parent(at);
        }
        let mut path = Vec::new();
        for name in parts.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        path
    }

    /// Returns the entries of a directory, sorted by name. If there are orphans, the last entry of
    /// the top is the made-up directory `orphans`. The entries of `orphans` are not sorted.
    pub fn children(&self, id: NameId) -> impl Iterator<Item = NameId> {
        let first = self.entry(id).first_child;
        std::iter::successors(first, |id| self.entry(*id).next)
    }

    /// Returns the entry of a directory that has this name, or `None` if there is none.
    #[must_use]
    pub fn child(&self, id: NameId, name: &[u8]) -> Option<NameId> {
        self.children(id).find(|child| self.name(*child) == name)
    }

    /// Returns the name that a path ends in, or `None` if there is no such path. Symbolic links are
    /// not followed.
    #[must_use]
    pub fn find(&self, path: &[u8]) -> Option<NameId> {
        let mut at = NameId::TOP;
        for name in path.split(|byte| *byte == b'/') {
            at = match name {
                b"" | b"." => at,
                b".." => self.parent(at),
                name => self.child(at, name)?,
            };
        }
        Some(at)
    }

    /// Returns a node for the file to which a name leads. The returned node reports nothing.
    #[must_use]
    pub fn node<'a>(&self, salvage: &'a Salvage<'a>, id: NameId) -> Node<'a> {
        let entry = self.entry(id);
        let path = self.path(id).get(1..).expect("a path starts with a slash").to_vec();
        let position = Position::below(&Position::top(), path);
        Node::again(salvage, entry.kind, entry.inode, position).with_mode(entry.mode)
    }
}
