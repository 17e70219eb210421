//! A filesystem in memory that is too simple to be wrong: what every operation must give.
//!
//! Owns: the tree, and the rules of Linux and XFS for each [`Operation`], errors included. It acts
//! as root. Does **not** own: what is free, how anything lies on disk, what a crash leaves.
//!
//! - **I1** An operation that is refused changes nothing; fallocate may have noted the time.
//! - **I2** A node stays while a name or a slot leads to it.
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
    ListKind, NodeSettings, Operation, Outcome, Path, RenameMode, SLOTS, SetMode, bytes,
    list_value, names, pattern,
};
pub use shrink::shrink;

/// What an operation gives.
pub type Answer = Result<Outcome, Errno>;

/// A number that a node keeps as long as the model lives.
pub type NodeId = u64;

/// The root.
const ROOT: NodeId = 1;

/// What is known of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// It was set.
    Set(Time),
    /// An operation took it from the clock.
    Clock,
    /// No promise.
    Unknown,
}

/// What a node holds.
#[derive(Debug, Clone)]
pub enum Body {
    /// Names, and the directory that holds this one.
    Directory {
        /// Entries without `.` and `..`.
        entries: BTreeMap<String, NodeId>,
        /// Itself for the root.
        parent: NodeId,
    },
    /// A regular file.
    File(Bytes),
    /// The target.
    Symlink(Vec<u8>),
    /// A device, a pipe or a socket.
    Special,
}

/// One inode.
#[derive(Debug, Clone)]
pub struct Node {
    /// With the type.
    pub mode: u32,
    /// Link count.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Time of the last access.
    pub accessed: Stamp,
    /// Time of the last change of contents.
    pub modified: Stamp,
    /// Flags and hints.
    pub settings: NodeSettings,
    /// Extended attributes with their namespaces.
    pub attributes: BTreeMap<String, Arc<Vec<u8>>>,
    /// What it holds.
    pub body: Body,
    /// It never had a name, and may be given one.
    is_linkable: bool,
    /// Space was given to it, so that its extent size hint is fixed.
    has_space: bool,
    /// The operation that last changed it, counted from 1.
    pub changed_by: u64,
}

impl Node {
    /// The type.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory { .. })
    }

    /// Contents of a regular file.
    pub fn contents(&self) -> Option<&Bytes> {
        match &self.body {
            Body::File(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Whether its flags forbid to change it, and the names that lead to it.
    fn is_fixed(&self) -> bool {
        self.settings.flags.intersects(FileFlags::IMMUTABLE | FileFlags::APPEND)
    }

    fn is_immutable(&self) -> bool {
        self.settings.flags.contains(FileFlags::IMMUTABLE)
    }
}

/// A filesystem in memory.
#[derive(Debug, Clone)]
pub struct Model {
    features: Features,
    nodes: BTreeMap<NodeId, Arc<Node>>,
    slots: [Option<NodeId>; SLOTS],
    next: NodeId,
    performed: u64,
}

impl Model {
    /// An empty filesystem.
    pub fn new(features: Features) -> Self {
        let body = Body::Directory { entries: BTreeMap::new(), parent: ROOT };
        let root = Node { links: 2, ..Node::new(FileType::Directory.as_raw_mode() | 0o755, body) };
        Self {
            features,
            nodes: [(ROOT, Arc::new(root))].into(),
            slots: [None; SLOTS],
            next: ROOT + 1,
            performed: 0,
        }
    }

    /// What the volume can do.
    pub fn features(&self) -> Features {
        self.features
    }

    /// How many operations have been performed or refused.
    pub fn performed(&self) -> u64 {
        self.performed
    }

    /// Performs an operation.
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
                self.set_list((path, *kind), *version, entries)
            }
            Operation::ChangeMode { .. }
            | Operation::ChangeOwner { .. }
            | Operation::SetTimes { .. }
            | Operation::SetFlags { .. } => self.perform_on_settings(operation),
            _ => self.perform_on_files(operation),
        }
    }

    /// A node that is there.
    pub fn node(&self, id: NodeId) -> Result<&Node, Errno> {
        self.nodes.get(&id).map(|node| &**node).ok_or(Errno::NOENT)
    }

    /// Every node, those without a name included.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().map(|(id, node)| (*id, &**node))
    }

    /// What stands in a slot.
    pub fn slot(&self, slot: usize) -> Option<NodeId> {
        self.slots.get(slot).copied().flatten()
    }

    /// Every path with its node, in the order of the paths' bytes; the root's is empty.
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

    /// The node, to be changed by this operation.
    fn change(&mut self, id: NodeId) -> Result<&mut Node, Errno> {
        let performed = self.performed;
        let node = self.nodes.get_mut(&id).map(Arc::make_mut).ok_or(Errno::NOENT)?;
        node.changed_by = performed;
        Ok(node)
    }

    /// The node, its contents changed at the time of the clock.
    fn modify(&mut self, id: NodeId) -> Result<&mut Node, Errno> {
        let node = self.change(id)?;
        node.modified = Stamp::Clock;
        Ok(node)
    }

    /// Notes that the node was read.
    fn access(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(&id) {
            Arc::make_mut(node).accessed = Stamp::Unknown;
        }
    }

    /// Notes that an operation was refused after it may have noted the time, as the kernel does. Nothing
    /// has changed that a sync promises.
    fn touch_perhaps(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(&id) {
            Arc::make_mut(node).modified = Stamp::Unknown;
        }
    }

    /// Forgets a node that nothing leads to (I2).
    fn settle(&mut self, id: NodeId) {
        let is_gone = self.nodes.get(&id).is_some_and(|node| node.links == 0);
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
