//! The model's rules for extended attributes.

use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::lists::{LIST_VERSION, LISTS};
use super::operation::{Operation, Outcome, SetMode, pattern};
use super::{Abilities, Answer, Model, NodeId};

/// Length of the longest value that is accepted, in bytes.
const VALUE_MAX: usize = 65536;
/// Length of the longest name that is accepted, in bytes, including its namespace.
const NAME_MAX: usize = 255;

impl Model {
    pub(super) fn perform_on_attributes(&mut self, operation: &Operation) -> Answer {
        match operation {
            Operation::SetAttribute { path, name, length, number, mode } => {
                let id = self.attribute_place(path, name, *length)?;
                let is_there = self.node(id)?.attributes.contains_key(name);
                match (mode, is_there) {
                    (SetMode::Create, true) => return Err(Errno::EXIST),
                    (SetMode::Replace, false) => return Err(Errno::NODATA),
                    _ => {}
                }
                let value = Arc::new(pattern(*number, 0, *length));
                self.change(id)?.attributes.insert(name.clone(), value);
                Ok(Outcome::Done)
            }
            Operation::RemoveAttribute { path, name } => {
                if let Some(kind) = LISTS.into_iter().find(|kind| kind.name() == name) {
                    return self.set_list(path, kind, LIST_VERSION, &[]);
                }
                let id = self.attribute_place(path, name, 0)?;
                if !self.node(id)?.attributes.contains_key(name) {
                    return Err(Errno::NODATA);
                }
                let attributes = &mut self.change(id)?.attributes;
                attributes.remove(name);
                // The attribute that stores a list has a name of its own.
                if let Some(kind) = LISTS.into_iter().find(|kind| kind.kept_name() == name) {
                    attributes.remove(kind.name());
                }
                Ok(Outcome::Done)
            }
            _ => Err(Errno::INVAL),
        }
    }

    /// Returns the ID of the node at `path`, or an error if its attribute `name` must not be set to
    /// a value of `length` bytes.
    fn attribute_place(&self, path: &str, name: &str, length: usize) -> Result<NodeId, Errno> {
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(Errno::RANGE);
        }
        if length > VALUE_MAX {
            return Err(Errno::TOOBIG);
        }
        let id = self.lookup(path)?;
        let node = self.node(id)?;
        let is_user = name.starts_with("user.");
        let holds_user = match node.kind() {
            FileType::RegularFile | FileType::Directory => true,
            FileType::Socket => self.features.abilities.contains(Abilities::SOCKET_ATTRIBUTES),
            _ => false,
        };
        if node.is_fixed() || is_user && !holds_user {
            return Err(Errno::PERM);
        }
        Ok(id)
    }
}
