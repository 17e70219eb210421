//! A filesystem in memory that is too simple to be wrong: it predicts the result of every
//! operation.
//!
//! Owns: the tree, and the rules of Linux and XFS for each [`Operation`], including errors. All
//! operations have root's permissions. Does **not** own: free space, the layout on disk, the result
//! of a crash.
//!
//! - **I1** A refused operation changes nothing, except that fallocate may have updated the time.
//! - **I2** A node exists while a name or an open file of the history (a slot) refers to it.
//!
//! A model is cheap to clone, so that a judge can keep every state of a history.

mod attributes;
mod compare;
mod contents;
mod files;
mod generate;
mod lists;
mod names;
mod operation;
mod settings;
mod shrink;

use std::collections::BTreeMap;
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::ioctl::FileFlags;
use crate::view::Time;

pub use contents::Bytes;
pub use generate::Generator;
pub use operation::{
    Abilities, AllocationMode, Durable, Features, FileRanges, FileTarget, IoMode, ListEntry,
    ListKind, NodeSettings, Operation, Outcome, Path, RealtimeRules, RenameMode, SLOTS, SetMode,
    bytes, list_value, names, pattern,
};
pub use shrink::shrink;

/// The answer to an operation: its outcome, or its error.
pub type Answer = Result<Outcome, Errno>;

/// A number that identifies a node for the lifetime of the model.
pub type NodeId = u64;

/// The ID of the root directory.
const ROOT: NodeId = 1;

/// The expected value of a time of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// An operation set the time to this value.
    Set(Time),
    /// An operation set the time to the current time of the clock.
    Clock,
    /// The time is not specified, so every value is right.
    Unknown,
}

/// The type of a node, with its contents.
#[derive(Debug, Clone)]
pub enum Body {
    /// A directory: its entries, and its parent directory.
    Directory {
        /// Entries without `.` and `..`.
        entries: BTreeMap<String, NodeId>,
        /// ID of the parent directory. The root is its own parent.
        parent: NodeId,
    },
    /// A regular file.
    File(Bytes),
    /// A symbolic link, with its target.
    Symlink(Vec<u8>),
    /// A device, a pipe or a socket.
    Special,
}

/// One inode of the model.
#[derive(Debug, Clone)]
pub struct Node {
    /// Mode bits, including the file type.
    pub mode: u32,
    /// Link count of the inode.
    pub links: u32,
    /// User ID of the owner.
    pub uid: u32,
    /// Group ID.
    pub gid: u32,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Access time.
    pub accessed: Stamp,
    /// Modification time.
    pub modified: Stamp,
    /// Inode flags, project ID and extent size hints.
    pub settings: NodeSettings,
    /// The values of extended attributes, by name. A name begins with its namespace.
    pub attributes: BTreeMap<String, Arc<Vec<u8>>>,
    /// The type-dependent part: entries, bytes or target.
    pub body: Body,
    /// Whether the file was created without a name (O_TMPFILE), has had none since, and may get one
    /// by linkat.
    is_linkable: bool,
    /// Whether space was ever allocated for the file. If so, its extent size hint cannot change.
    has_space: bool,
    /// Number of the operation that last changed the node, counted from 1.
    pub changed_by: u64,
}

impl Node {
    /// Returns the file type.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    /// Returns whether the node is a directory.
    pub fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory { .. })
    }

    /// Returns the contents of a regular file, or `None` for other types.
    pub fn contents(&self) -> Option<&Bytes> {
        match &self.body {
            Body::File(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns whether the flags of the node (immutable, append-only) forbid changes of the node
    /// and of the names that refer to it.
    fn is_fixed(&self) -> bool {
        self.settings.flags.intersects(FileFlags::IMMUTABLE | FileFlags::APPEND)
    }

    fn is_immutable(&self) -> bool {
        self.settings.flags.contains(FileFlags::IMMUTABLE)
    }

    /// Returns whether the contents are in the realtime section.
    fn is_realtime(&self) -> bool {
        self.settings.flags.contains(FileFlags::REALTIME)
    }
}

/// A model of a filesystem, in memory.
#[derive(Debug, Clone)]
pub struct Model {
    features: Features,
    nodes: BTreeMap<NodeId, Arc<Node>>,
    slots: [Option<NodeId>; SLOTS],
    next: NodeId,
    performed: u64,
}

impl Model {
    /// Creates an empty filesystem. If the volume has a realtime section, the root hands the
    /// realtime flag on to new files.
    pub fn new(features: Features) -> Self {
        let body = Body::Directory { entries: BTreeMap::new(), parent: ROOT };
        let mut root = Node::new(FileType::Directory.as_raw_mode() | 0o755, body);
        root.links = 2;
        if features.section.is_some() {
            root.settings.flags |= FileFlags::REALTIME_INHERIT;
        }
        Self {
            features,
            nodes: [(ROOT, Arc::new(root))].into(),
            slots: [None; SLOTS],
            next: ROOT + 1,
            performed: 0,
        }
    }

    /// Returns the features of the volume.
    pub fn features(&self) -> Features {
        self.features
    }

    /// Returns the number of operations that were performed or refused.
    pub fn performed(&self) -> u64 {
        self.performed
    }

    /// Performs an operation. Returns its result or its error, as the kernel's XFS would.
    pub fn perform(&mut self, operation: &Operation) -> Answer {
        self.performed += 1;
        match operation {
            Operation::Create { .. }
            | Operation::MakeDirectory { .. }
            | Operation::MakeNode { .. }
            | Operation::Symlink { .. }
            | Operation::Link { .. }
            | Operation::Unlink { .. }
            | Operation::RemoveDirectory { .. }
            | Operation::Rename { .. }
            | Operation::MakeTemporary { .. }
            | Operation::LinkSlot { .. }
            | Operation::List { .. } => self.perform_on_names(operation),
            Operation::SetAttribute { .. } | Operation::RemoveAttribute { .. } => {
                self.perform_on_attributes(operation)
            }
            Operation::SetList { path, kind, version, entries } => {
                self.set_list(path, *kind, *version, entries)
            }
            Operation::ChangeMode { .. }
            | Operation::ChangeOwner { .. }
            | Operation::SetTimes { .. }
            | Operation::SetFlags { .. } => self.perform_on_settings(operation),
            _ => self.perform_on_files(operation),
        }
    }

    /// Returns the node with this ID, or an error if it does not exist.
    pub fn node(&self, id: NodeId) -> Result<&Node, Errno> {
        self.nodes.get(&id).map(|node| &**node).ok_or(Errno::NOENT)
    }

    /// Returns every node, including those without a name.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().map(|(id, node)| (*id, &**node))
    }

    /// Returns the ID of the file that is open in a slot, or `None` if no file is.
    pub fn slot(&self, slot: usize) -> Option<NodeId> {
        self.slots.get(slot).copied().flatten()
    }

    /// Returns every path with the ID of its node, sorted by the bytes of the path. The root's path
    /// is empty.
    pub fn paths(&self) -> BTreeMap<Path, NodeId> {
        let mut found = BTreeMap::from([(Path::new(), ROOT)]);
        let mut folders = vec![(Path::new(), ROOT)];
        while let Some((path, id)) = folders.pop() {
            let Some(Body::Directory { entries, .. }) = self.nodes.get(&id).map(|node| &node.body)
            else {
                continue;
            };
            for (name, child) in entries {
                let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
                if self.nodes.get(child).is_some_and(|node| node.is_directory()) {
                    folders.push((path.clone(), *child));
                }
                found.insert(path, *child);
            }
        }
        found
    }

    fn add(&mut self, node: Node) -> NodeId {
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, Arc::new(Node { changed_by: self.performed, ..node }));
        id
    }

    /// Returns the node for a change, and records that the current operation changes it.
    fn change(&mut self, id: NodeId) -> Result<&mut Node, Errno> {
        let performed = self.performed;
        let node = self.nodes.get_mut(&id).map(Arc::make_mut).ok_or(Errno::NOENT)?;
        node.changed_by = performed;
        Ok(node)
    }

    /// Returns the node for a change of its contents. The modification time of the node becomes
    /// `Stamp::Clock`.
    fn modify(&mut self, id: NodeId) -> Result<&mut Node, Errno> {
        let node = self.change(id)?;
        node.modified = Stamp::Clock;
        Ok(node)
    }

    /// Records that the node was read, which updates its access time.
    fn access(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(&id) {
            Arc::make_mut(node).accessed = Stamp::Unknown;
        }
    }

    /// Records that a refused operation may have updated the modification time, as the kernel
    /// sometimes does. No sync makes a promise about that time.
    fn touch_perhaps(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(&id) {
            Arc::make_mut(node).modified = Stamp::Unknown;
        }
    }

    /// Removes the node if it has no name any more and no slot of the history (an open file) refers
    /// to it (I2).
    fn settle(&mut self, id: NodeId) {
        let is_gone = self.nodes.get(&id).is_some_and(|node| node.links == 0);
        // I2: neither a name nor a slot refers to the node.
        if is_gone && !self.slots.contains(&Some(id)) {
            self.nodes.remove(&id);
        }
    }

    fn put(&mut self, slot: usize, id: Option<NodeId>) -> Answer {
        let place = self.slots.get_mut(slot).ok_or(Errno::BADF)?;
        if let Some(old) = std::mem::replace(place, id) {
            self.settle(old);
        }
        Ok(Outcome::Done)
    }
}

impl Node {
    fn new(mode: u32, body: Body) -> Self {
        Self {
            mode,
            links: 1,
            uid: 0,
            gid: 0,
            device: (0, 0),
            accessed: Stamp::Unknown,
            modified: Stamp::Clock,
            settings: NodeSettings::default(),
            attributes: BTreeMap::new(),
            body,
            is_linkable: false,
            has_space: false,
            changed_by: 0,
        }
    }
}

#[cfg(test)]
mod tests;
