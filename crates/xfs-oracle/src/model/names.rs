//! The model's rules for names: creating, linking, renaming and removing them.

use std::collections::BTreeMap;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::contents::Bytes;
use super::operation::{Operation, Outcome, RenameMode, names};
use super::{Answer, Body, Model, Node, NodeId, NodeSettings, ROOT};
use crate::ioctl::FileFlags;

/// Length of the longest name that is accepted, in bytes.
const NAME_MAX: usize = 255;
/// The smallest length in bytes of a symbolic link's target that is refused.
const TARGET_END: usize = 1024;

const SET_GROUP_ID: u32 = 0o2000;

/// Flags that new inodes inherit from their directory, in addition to project and hints.
const INHERITED: FileFlags =
    FileFlags::SYNC.union(FileFlags::NOATIME).union(FileFlags::NODUMP).union(FileFlags::NODEFRAG);

/// A directory, a name in it, and the node to which the name refers. `node` is `None` if the
/// directory has no such name.
struct EntryLocation {
    folder: NodeId,
    name: String,
    node: Option<NodeId>,
}

/// An existing name, and the node to which it refers.
#[derive(Clone, Copy)]
struct PresentName<'a> {
    location: &'a EntryLocation,
    id: NodeId,
}

impl EntryLocation {
    fn existing(&self) -> Result<NodeId, Errno> {
        self.node.ok_or(Errno::NOENT)
    }
}

impl Model {
    pub(super) fn perform_on_names(&mut self, operation: &Operation) -> Answer {
        match operation {
            Operation::Create { path, mode } => {
                let body = Body::File(Bytes::new(self.features.block_bytes));
                self.make(path, Node::new(FileType::RegularFile.as_raw_mode() | mode, body))
            }
            Operation::MakeDirectory { path, mode } => {
                let body = Body::Directory { entries: BTreeMap::new(), parent: ROOT };
                let mode = FileType::Directory.as_raw_mode() | mode & 0o1777;
                self.make(path, Node { links: 2, ..Node::new(mode, body) })
            }
            Operation::MakeNode { path, mode, device } => {
                self.make(path, Node { device: *device, ..Node::new(*mode, Body::Special) })
            }
            Operation::Symlink { target, path } => self.symlink(target, path),
            Operation::Link { from, to } => {
                let id = self.lookup(from)?;
                self.link(id, to)
            }
            Operation::LinkSlot { slot, path } => {
                let id = self.slot(*slot).ok_or(Errno::BADF)?;
                self.link(id, path)
            }
            Operation::Unlink { path } => self.unlink(path),
            Operation::RemoveDirectory { path } => self.remove_directory(path),
            Operation::Rename { from, to, mode } => self.rename(from, to, *mode),
            Operation::MakeTemporary { slot, folder, mode } => {
                self.make_temporary(*slot, folder, *mode)
            }
            Operation::List { path } => self.list(path),
            _ => Err(Errno::INVAL),
        }
    }

    /// Returns the ID of the node at a path. A symbolic link in the last component is not followed.
    pub(super) fn lookup(&self, path: &str) -> Result<NodeId, Errno> {
        if path.is_empty() { Ok(ROOT) } else { self.location(path)?.existing() }
    }

    fn location(&self, path: &str) -> Result<EntryLocation, Errno> {
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut folder = ROOT;
        for name in folders.split('/').filter(|name| !name.is_empty()) {
            folder = self.find(folder, name)?.ok_or(Errno::NOENT)?;
        }
        let node = self.find(folder, name)?;
        Ok(EntryLocation { folder, name: name.to_owned(), node })
    }

    fn find(&self, folder: NodeId, name: &str) -> Result<Option<NodeId>, Errno> {
        match &self.node(folder)?.body {
            Body::Directory { .. } if name.len() > NAME_MAX => Err(Errno::NAMETOOLONG),
            Body::Directory { entries, .. } => Ok(entries.get(name).copied()),
            // Targets are single names that do not exist.
            Body::Symlink(target) if target.len() > NAME_MAX => Err(Errno::NAMETOOLONG),
            Body::Symlink(_) => Err(Errno::NOENT),
            _ => Err(Errno::NOTDIR),
        }
    }

    /// Returns an error if no name may be added to the directory.
    fn may_add(&self, folder: NodeId) -> Result<(), Errno> {
        let folder = self.node(folder)?;
        if folder.is_immutable() { Err(Errno::PERM) } else { Ok(()) }
    }

    /// Returns an error if the name of `node` may not be removed from the directory.
    fn may_remove(&self, folder: NodeId, node: NodeId) -> Result<(), Errno> {
        let is_fixed = self.node(folder)?.is_fixed() || self.node(node)?.is_fixed();
        if is_fixed { Err(Errno::PERM) } else { Ok(()) }
    }

    /// Returns an error if the directory `folder` passes its project on to new files and `node` has
    /// another project. Special files that never got a project are allowed in any directory.
    fn may_hold(&self, folder: NodeId, node: NodeId) -> Result<(), Errno> {
        let (folder, node) = (&self.node(folder)?.settings, self.node(node)?);
        let project_id = node.settings.project_id;
        let is_projectless = matches!(node.body, Body::Special) && project_id == 0;
        let hands_down = folder.flags.contains(FileFlags::PROJECT_INHERIT);
        if hands_down && folder.project_id != project_id && !is_projectless {
            return Err(Errno::XDEV);
        }
        Ok(())
    }

    fn is_empty(&self, id: NodeId) -> Result<bool, Errno> {
        match &self.node(id)?.body {
            Body::Directory { entries, .. } => Ok(entries.is_empty()),
            _ => Ok(true),
        }
    }

    fn make(&mut self, path: &str, node: Node) -> Answer {
        let location = self.location(path)?;
        if location.node.is_some() {
            return Err(Errno::EXIST);
        }
        self.may_add(location.folder)?;
        let node = self.inherit(location.folder, node)?;
        let node = self.inherit_lists(location.folder, node)?;
        let id = self.add(node);
        self.enter(&location, id)?;
        Ok(Outcome::Done)
    }

    fn symlink(&mut self, target: &[u8], path: &str) -> Answer {
        if target.is_empty() {
            return Err(Errno::NOENT);
        }
        let mode = FileType::Symlink.as_raw_mode() | 0o777;
        let node = Node::new(mode, Body::Symlink(target.to_vec()));
        let location = self.location(path)?;
        if location.node.is_some() {
            return Err(Errno::EXIST);
        }
        self.may_add(location.folder)?;
        if target.len() >= TARGET_END {
            return Err(Errno::NAMETOOLONG);
        }
        let settings = self.node(location.folder)?.settings;
        let is_refused = settings.flags.contains(FileFlags::NOSYMLINKS);
        if is_refused { Err(Errno::PERM) } else { self.make(path, node) }
    }

    /// Returns `node`, a new node, with the attributes that it inherits from its directory.
    fn inherit(&self, folder: NodeId, mut node: Node) -> Result<Node, Errno> {
        let parent = self.node(folder)?;
        if parent.mode & SET_GROUP_ID != 0 {
            node.gid = parent.gid;
            if node.is_directory() {
                node.mode |= SET_GROUP_ID;
            }
        }
        let (from, to) = (&parent.settings, &mut node.settings);
        if from.flags.contains(FileFlags::PROJECT_INHERIT) {
            to.project_id = from.project_id;
        }
        let is_directory = matches!(node.body, Body::Directory { .. });
        if is_directory || matches!(node.body, Body::File(_)) {
            inherit_flags(from, to, is_directory);
            let hands_on = from.flags.contains(FileFlags::REALTIME_INHERIT);
            if hands_on && !is_directory && self.features.section.is_some() {
                to.flags |= FileFlags::REALTIME;
            }
        }
        Ok(node)
    }

    /// Adds the name `location` for the node `id`. The name must be unused. A directory gets the
    /// new parent.
    fn enter(&mut self, location: &EntryLocation, id: NodeId) -> Result<(), Errno> {
        let is_directory = match &mut self.change(id)?.body {
            Body::Directory { parent, .. } => {
                *parent = location.folder;
                true
            }
            _ => false,
        };
        let folder = self.modify(location.folder)?;
        folder.links += u32::from(is_directory);
        if let Body::Directory { entries, .. } = &mut folder.body {
            entries.insert(location.name.clone(), id);
        }
        Ok(())
    }

    /// Removes a name. The link count of its node does not change.
    fn leave(&mut self, location: &EntryLocation, id: NodeId) -> Result<(), Errno> {
        let is_directory = self.node(id)?.is_directory();
        let folder = self.modify(location.folder)?;
        folder.links -= u32::from(is_directory);
        if let Body::Directory { entries, .. } = &mut folder.body {
            entries.remove(&location.name);
        }
        Ok(())
    }

    fn link(&mut self, id: NodeId, path: &str) -> Answer {
        let location = self.location(path)?;
        if location.node.is_some() {
            return Err(Errno::EXIST);
        }
        self.may_add(location.folder)?;
        let node = self.node(id)?;
        if node.is_fixed() || node.is_directory() {
            return Err(Errno::PERM);
        }
        if node.links == 0 && !node.is_linkable {
            return Err(Errno::NOENT);
        }
        self.may_hold(location.folder, id)?;
        let node = self.change(id)?;
        node.links += 1;
        node.is_linkable = false;
        self.enter(&location, id)?;
        Ok(Outcome::Done)
    }

    fn unlink(&mut self, path: &str) -> Answer {
        let location = self.location(path)?;
        let id = location.existing()?;
        self.may_remove(location.folder, id)?;
        if self.node(id)?.is_directory() {
            return Err(Errno::ISDIR);
        }
        self.leave(&location, id)?;
        self.change(id)?.links -= 1;
        self.settle(id);
        Ok(Outcome::Done)
    }

    fn remove_directory(&mut self, path: &str) -> Answer {
        let location = self.location(path)?;
        let id = location.existing()?;
        self.may_remove(location.folder, id)?;
        if !self.node(id)?.is_directory() {
            return Err(Errno::NOTDIR);
        }
        if !self.is_empty(id)? {
            return Err(Errno::NOTEMPTY);
        }
        self.leave(&location, id)?;
        self.change(id)?.links = 0;
        self.settle(id);
        Ok(Outcome::Done)
    }

    fn make_temporary(&mut self, slot: usize, folder: &str, mode: u32) -> Answer {
        let folder = self.lookup(folder)?;
        match self.node(folder)?.body {
            Body::Directory { .. } => {}
            Body::Symlink(_) => return Err(Errno::LOOP),
            _ => return Err(Errno::NOTDIR),
        }
        self.may_add(folder)?;
        let body = Body::File(Bytes::new(self.features.block_bytes));
        let node = Node::new(FileType::RegularFile.as_raw_mode() | mode, body);
        let node = self.inherit(folder, Node { links: 0, is_linkable: true, ..node })?;
        let node = self.inherit_lists(folder, node)?;
        let id = self.add(node);
        self.put(slot, Some(id))
    }

    fn list(&mut self, path: &str) -> Answer {
        let id = self.lookup(path)?;
        let outcome = match &self.node(id)?.body {
            Body::Directory { entries, .. } => names(entries.keys().map(String::as_bytes)),
            Body::Symlink(_) => return Err(Errno::LOOP),
            _ => return Err(Errno::NOTDIR),
        };
        self.access(id);
        Ok(outcome)
    }

    fn rename(&mut self, from: &str, to: &str, mode: RenameMode) -> Answer {
        let (old, new) = (self.location(from)?, self.location(to)?);
        let source = old.existing()?;
        match (mode, new.node) {
            (RenameMode::NoReplace, Some(_)) => return Err(Errno::EXIST),
            (RenameMode::Exchange, None) => return Err(Errno::NOENT),
            _ => {}
        }
        if self.holds(source, new.folder)? {
            return Err(Errno::INVAL);
        }
        if let Some(target) = new.node
            && self.holds(target, old.folder)?
        {
            let is_exchange = mode == RenameMode::Exchange;
            return Err(if is_exchange { Errno::INVAL } else { Errno::NOTEMPTY });
        }
        if new.node == Some(source) {
            return Ok(Outcome::Done);
        }
        self.may_remove(old.folder, source)?;
        match new.node {
            None => self.may_add(new.folder)?,
            Some(target) => self.may_replace(&new, target, source, mode)?,
        }
        self.may_hold(new.folder, source)?;
        match (mode, new.node) {
            (RenameMode::Exchange, Some(target)) => {
                // In an exchange, the project of the replaced node is not checked.
                let old = PresentName { location: &old, id: source };
                self.exchange_names(old, PresentName { location: &new, id: target })
            }
            _ => self.move_name(PresentName { location: &old, id: source }, &new, mode),
        }
    }

    fn may_replace(
        &self,
        new: &EntryLocation,
        target: NodeId,
        source: NodeId,
        mode: RenameMode,
    ) -> Result<(), Errno> {
        self.may_remove(new.folder, target)?;
        if mode == RenameMode::Exchange {
            return Ok(());
        }
        match (self.node(source)?.is_directory(), self.node(target)?.is_directory()) {
            (true, false) => Err(Errno::NOTDIR),
            (false, true) => Err(Errno::ISDIR),
            // XFS returns EEXIST where others return ENOTEMPTY. It checks the project first.
            _ if !self.is_empty(target)? => {
                self.may_hold(new.folder, source)?;
                Err(Errno::EXIST)
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the directory `above` is the directory `below`, or an ancestor of it.
    fn holds(&self, above: NodeId, below: NodeId) -> Result<bool, Errno> {
        let mut at = below;
        loop {
            if at == above {
                return Ok(true);
            }
            match self.node(at)?.body {
                Body::Directory { parent, .. } if parent != at => at = parent,
                _ => return Ok(false),
            }
        }
    }

    fn exchange_names(&mut self, old: PresentName<'_>, new: PresentName<'_>) -> Answer {
        self.leave(old.location, old.id)?;
        self.leave(new.location, new.id)?;
        self.enter(old.location, new.id)?;
        self.enter(new.location, old.id)?;
        for id in [old.id, new.id] {
            // Getting another parent counts as a change of a directory's contents.
            if old.location.folder != new.location.folder && self.node(id)?.is_directory() {
                self.modify(id)?;
            }
        }
        Ok(Outcome::Done)
    }

    fn move_name(&mut self, old: PresentName<'_>, new: &EntryLocation, mode: RenameMode) -> Answer {
        if let Some(target) = new.node {
            self.leave(new, target)?;
            let node = self.change(target)?;
            node.links = if node.is_directory() { 0 } else { node.links - 1 };
            self.settle(target);
        }
        self.leave(old.location, old.id)?;
        self.enter(new, old.id)?;
        if mode == RenameMode::Whiteout {
            let node = Node::new(FileType::CharacterDevice.as_raw_mode(), Body::Special);
            // It inherits from the target's directory, not from its own.
            let node = self.inherit(new.folder, node)?;
            let whiteout = self.add(node);
            self.enter(old.location, whiteout)?;
        }
        Ok(Outcome::Done)
    }
}

fn inherit_flags(from: &NodeSettings, to: &mut NodeSettings, is_directory: bool) {
    to.flags |= from.flags & INHERITED;
    if is_directory {
        to.flags |= from.flags & (FileFlags::PROJECT_INHERIT | FileFlags::REALTIME_INHERIT);
    }
    if from.flags.contains(FileFlags::EXTENT_SIZE_INHERIT) {
        to.extent_size = from.extent_size;
        to.flags |= match is_directory {
            true => FileFlags::EXTENT_SIZE_INHERIT,
            false => FileFlags::EXTENT_SIZE,
        };
    }
    if from.flags.contains(FileFlags::COW_EXTENT_SIZE) {
        to.cow_extent_size = from.cow_extent_size;
        to.flags |= FileFlags::COW_EXTENT_SIZE;
    }
}
