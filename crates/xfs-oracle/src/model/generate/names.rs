//! Generates random operations on names, attributes, modes, owners and times.

use rustix::fs::FileType;

use super::{Generator, WantedNode};
use crate::model::operation::{Durable, Operation, RenameMode, SLOTS, SetMode};
use crate::model::{Body, Model};
use crate::view::Time;

/// Namespaces of attributes, one of which is chosen at random. `user.` is listed twice, so that it
/// is chosen twice as often.
const NAMESPACES: [&str; 4] = ["user.", "user.", "trusted.", "security."];

impl Generator {
    fn mode(&mut self) -> u32 {
        let set_ids = if self.chance(8) { self.random.below(8) << 9 } else { 0 };
        (self.random.below(0o1000) | set_ids) as u32
    }

    pub(super) fn create(&mut self, model: &Model) -> Option<Operation> {
        let path = self.vacant(model)?;
        Some(Operation::Create { path, mode: self.mode() })
    }

    pub(super) fn make_directory(&mut self, model: &Model) -> Option<Operation> {
        let path = self.vacant(model)?;
        Some(Operation::MakeDirectory { path, mode: self.mode() })
    }

    pub(super) fn make_node(&mut self, model: &Model) -> Option<Operation> {
        let kinds =
            [FileType::Fifo, FileType::CharacterDevice, FileType::BlockDevice, FileType::Socket];
        let kind = self.choose(&kinds)?;
        let is_device = matches!(kind, FileType::CharacterDevice | FileType::BlockDevice);
        let device = match is_device {
            true => (self.random.below(1 << 9) as u32, self.random.below(1 << 18) as u32),
            false => (0, 0),
        };
        let path = self.vacant(model)?;
        Some(Operation::MakeNode { path, mode: kind.as_raw_mode() | self.mode(), device })
    }

    pub(super) fn symlink(&mut self, model: &Model) -> Option<Operation> {
        let length = match self.random.below(8) {
            0 => 1000 + self.random.below(30),
            1..=3 => 300 + self.random.below(700),
            _ => 1 + self.random.below(300),
        };
        // No generated name starts with these letters.
        let target = (0..length).map(|_| b'A' + self.random.below(26) as u8).collect();
        Some(Operation::Symlink { target, path: self.vacant(model)? })
    }

    pub(super) fn link(&mut self, model: &Model) -> Option<Operation> {
        let from = self.existing(model, WantedNode::Anything)?;
        Some(Operation::Link { from, to: self.vacant(model)? })
    }

    pub(super) fn unlink(&mut self, model: &Model) -> Option<Operation> {
        let path = match self.chance(12) {
            true => self.vacant(model)?,
            false => self.existing(model, WantedNode::Anything)?,
        };
        Some(Operation::Unlink { path })
    }

    pub(super) fn remove_directory(&mut self, model: &Model) -> Option<Operation> {
        let want = if self.chance(10) { WantedNode::Anything } else { WantedNode::Directory };
        let path = self.existing(model, want)?;
        // The root corresponds to a folder that the test may need.
        (!path.is_empty()).then_some(Operation::RemoveDirectory { path })
    }

    pub(super) fn rename(&mut self, model: &Model) -> Option<Operation> {
        let modes = [
            RenameMode::Replace,
            RenameMode::Replace,
            RenameMode::NoReplace,
            RenameMode::Exchange,
            RenameMode::Whiteout,
        ];
        let from = self.existing(model, WantedNode::Anything)?;
        let to = match self.chance(2) {
            true => self.vacant(model)?,
            false => self.existing(model, WantedNode::Anything)?,
        };
        Some(Operation::Rename { from, to, mode: self.choose(&modes)? })
    }

    pub(super) fn make_temporary(&mut self, model: &Model) -> Option<Operation> {
        let folder = self.existing(model, WantedNode::Directory)?;
        let slot = self.random.below(SLOTS as u64) as usize;
        Some(Operation::MakeTemporary { slot, folder, mode: self.mode() })
    }

    pub(super) fn link_slot(&mut self, model: &Model) -> Option<Operation> {
        let slot = self.random.below(SLOTS as u64) as usize;
        let path = self.vacant(model)?;
        let node = model.node(model.slot(slot)?).ok()?;
        // A file that has lost its last name stays without one.
        let is_lost = node.links == 0 && !node.is_linkable;
        (!is_lost || self.chance(4)).then_some(Operation::LinkSlot { slot, path })
    }

    pub(super) fn list(&mut self, model: &Model) -> Option<Operation> {
        Some(Operation::List { path: self.existing(model, WantedNode::Directory)? })
    }

    pub(super) fn set_attribute(&mut self, model: &Model) -> Option<Operation> {
        let path = self.existing(model, WantedNode::Anything)?;
        let length = match self.random.below(12) {
            0 => self.random.below(65537),
            1 => 2000 + self.random.below(6000),
            2..=4 => self.random.below(1000),
            _ => self.random.below(60),
        };
        let modes = [SetMode::Either, SetMode::Either, SetMode::Create, SetMode::Replace];
        Some(Operation::SetAttribute {
            path,
            name: self.attribute_name()?,
            length: length as usize,
            number: self.number(),
            mode: self.choose(&modes)?,
        })
    }

    pub(super) fn remove_attribute(&mut self, model: &Model) -> Option<Operation> {
        let path = self.existing(model, WantedNode::Anything)?;
        let node = model.node(model.lookup(&path).ok()?).ok()?;
        let index = self.random.below(node.attributes.len() as u64) as usize;
        let name = match node.attributes.keys().nth(index) {
            Some(name) if !self.chance(10) => name.clone(),
            _ => self.attribute_name()?,
        };
        Some(Operation::RemoveAttribute { path, name })
    }

    fn attribute_name(&mut self) -> Option<String> {
        let namespace = self.choose(&NAMESPACES)?;
        let number = self.random.below(12);
        let rest = match self.random.below(8) {
            0 => "y".repeat(self.random.below(235) as usize),
            _ => String::new(),
        };
        Some(format!("{namespace}{number}{rest}"))
    }

    /// Returns a path to a random node, or `None` if that node is a symbolic link: symbolic links
    /// have no mode and cannot be opened.
    fn no_link(&mut self, model: &Model) -> Option<String> {
        let path = self.existing(model, WantedNode::Anything)?;
        let node = model.node(model.lookup(&path).ok()?).ok()?;
        (!matches!(node.body, Body::Symlink(_))).then_some(path)
    }

    pub(super) fn change_mode(&mut self, model: &Model) -> Option<Operation> {
        Some(Operation::ChangeMode { path: self.no_link(model)?, mode: self.mode() })
    }

    pub(super) fn change_owner(&mut self, model: &Model) -> Option<Operation> {
        let path = self.existing(model, WantedNode::Anything)?;
        let (uid, gid) = (self.random.below(70_000) as u32, self.random.below(70_000) as u32);
        Some(Operation::ChangeOwner { path, uid, gid })
    }

    pub(super) fn set_times(&mut self, model: &Model) -> Option<Operation> {
        let path = self.existing(model, WantedNode::Anything)?;
        let mut time = || Time {
            seconds: self.random.below(1 << 31) as i64 - (1 << 30),
            nanoseconds: self.random.below(1_000_000_000) as u32,
        };
        let (accessed, modified) = (Some(time()), Some(time()));
        match self.random.below(3) {
            0 => Some(Operation::SetTimes { path, accessed, modified: None }),
            1 => Some(Operation::SetTimes { path, accessed: None, modified }),
            _ => Some(Operation::SetTimes { path, accessed, modified }),
        }
    }

    pub(super) fn sync(&mut self, model: &Model) -> Option<Operation> {
        let durable = match self.random.below(6) {
            0 => Durable::Volume,
            1 => Durable::Directory(self.existing(model, WantedNode::Directory)?),
            2 => Durable::Contents(self.target(model)?),
            _ => Durable::File(self.target(model)?),
        };
        Some(Operation::Sync(durable))
    }
}
