//! The model's rules for access control lists.
//!
//! Linux shows each access control list as two attributes, and so does the model: one in the form
//! for programs, and one in the form of XFS.

use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::operation::{ListEntry, ListKind, Outcome, list_value};
use super::{Answer, Model, Node, NodeId};

pub(super) const LISTS: [ListKind; 2] = [ListKind::Access, ListKind::Default];
/// The version number with which Linux marks access control lists.
pub(super) const LIST_VERSION: u32 = 2;
/// The most entries that fit in an attribute.
const ENTRIES_MAX: usize = (65_536 - 4) / 12;
/// The ID in entries whose tag needs no ID. The kernel writes this value into them.
const NOBODY: u32 = u32::MAX;

const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

const PERMISSIONS: u32 = 0o777;

impl Model {
    /// Sets an access control list. A list without entries removes it.
    pub(super) fn set_list(
        &mut self,
        path: &str,
        kind: ListKind,
        version: u32,
        entries: &[ListEntry],
    ) -> Answer {
        let id = self.lookup(path)?;
        if version != LIST_VERSION {
            return Err(Errno::OPNOTSUPP);
        }
        if !entries.iter().all(is_readable) {
            return Err(Errno::INVAL);
        }
        let node = self.node(id)?;
        if node.is_fixed() {
            return Err(Errno::PERM);
        }
        match node.kind() {
            FileType::Symlink => return Err(Errno::OPNOTSUPP),
            FileType::Directory => {}
            _ if kind == ListKind::Default && !entries.is_empty() => return Err(Errno::ACCESS),
            _ => {}
        }
        if !entries.is_empty() && !is_valid(entries) {
            return Err(Errno::INVAL);
        }
        if entries.len() > ENTRIES_MAX {
            return Err(Errno::TOOBIG);
        }
        let attributes = &self.node(id)?.attributes;
        let has_one =
            [kind.name(), kind.kept_name()].into_iter().any(|name| attributes.contains_key(name));
        if entries.is_empty() && !has_one {
            // Nothing changes, so a sync of the file promises nothing about earlier changes.
            return Ok(Outcome::Done);
        }
        let node = self.change(id)?;
        let is_for_mode = kind == ListKind::Access && !entries.is_empty();
        if is_for_mode {
            node.mode = node.mode & !PERMISSIONS | mode_of(entries);
        }
        // The permission bits have the same information.
        let is_kept = !entries.is_empty() && (!is_for_mode || !is_minimal(entries));
        node.put_list(kind, is_kept.then_some(entries));
        Ok(Outcome::Done)
    }

    /// Returns `node`, a new node, with the access control lists that it inherits from its
    /// directory.
    pub(super) fn inherit_lists(&self, folder: NodeId, mut node: Node) -> Result<Node, Errno> {
        let Some(mut entries) = self.node(folder)?.list(ListKind::Default) else { return Ok(node) };
        if node.kind() == FileType::Symlink {
            return Ok(node);
        }
        if node.is_directory() {
            node.put_list(ListKind::Default, Some(&entries));
        }
        let mode = node.mode;
        for (shift, entry) in shown(&mut entries) {
            entry.permissions &= (mode >> shift) as u16 & 7;
        }
        node.mode = mode & !PERMISSIONS | mode_of(&entries);
        if !is_minimal(&entries) {
            node.put_list(ListKind::Access, Some(&entries));
        }
        Ok(node)
    }
}

impl Node {
    #[allow(clippy::little_endian_bytes, reason = "lists are little-endian in Linux")]
    fn list(&self, kind: ListKind) -> Option<Vec<ListEntry>> {
        let value = self.attributes.get(kind.name())?;
        let (entries, _) = value.get(4..)?.as_chunks::<8>();
        let entry = |[tag, tag_2, permissions, permissions_2, id @ ..]: &[u8; 8]| ListEntry {
            tag: u16::from_le_bytes([*tag, *tag_2]),
            permissions: u16::from_le_bytes([*permissions, *permissions_2]),
            id: u32::from_le_bytes(*id),
        };
        Some(entries.iter().map(entry).collect())
    }

    fn put_list(&mut self, kind: ListKind, entries: Option<&[ListEntry]>) {
        let Some(entries) = entries else {
            self.attributes.remove(kind.name());
            self.attributes.remove(kind.kept_name());
            return;
        };
        let is_named = |entry: &ListEntry| matches!(entry.tag, USER | GROUP);
        let id = |entry: &ListEntry| if is_named(entry) { entry.id } else { NOBODY };
        let entries: Vec<_> = entries.iter().map(|e| ListEntry { id: id(e), ..*e }).collect();
        let mut kept = (entries.len() as u32).to_be_bytes().to_vec();
        for entry in &entries {
            kept.extend(u32::from(entry.tag).to_be_bytes());
            kept.extend(entry.id.to_be_bytes());
            kept.extend(entry.permissions.to_be_bytes());
            kept.extend([0; 2]);
        }
        let value = Arc::new(list_value(LIST_VERSION, &entries));
        self.attributes.insert(kind.name().to_owned(), value);
        self.attributes.insert(kind.kept_name().to_owned(), Arc::new(kept));
    }

    /// Changes the access control list of the node to match the node's permission bits.
    pub(super) fn limit_list(&mut self) {
        let Some(mut entries) = self.list(ListKind::Access) else { return };
        for (shift, entry) in shown(&mut entries) {
            entry.permissions = (self.mode >> shift) as u16 & 7;
        }
        self.put_list(ListKind::Access, Some(&entries));
    }
}

/// Returns whether the kernel can read an entry: its tag is known, and it has an ID if it needs
/// one.
fn is_readable(entry: &ListEntry) -> bool {
    match entry.tag {
        OWNER | OWNING_GROUP | MASK | OTHER => true,
        USER | GROUP => entry.id != NOBODY,
        _ => false,
    }
}

/// Returns whether a list has the required entries, in order. A list with entries for users or
/// groups by ID needs a mask.
fn is_valid(entries: &[ListEntry]) -> bool {
    let tags: Vec<u16> = entries.iter().map(|entry| entry.tag).collect();
    let count = |tag| tags.iter().filter(|found| **found == tag).count();
    let has_named = count(USER) + count(GROUP) > 0;
    tags.is_sorted()
        && entries.iter().all(|entry| entry.permissions <= 7)
        && [OWNER, OWNING_GROUP, OTHER].into_iter().all(|tag| count(tag) == 1)
        && count(MASK) <= 1
        && (count(MASK) == 1 || !has_named)
}

fn is_minimal(entries: &[ListEntry]) -> bool {
    entries.iter().all(|entry| matches!(entry.tag, OWNER | OWNING_GROUP | OTHER))
}

/// Returns the entries whose permissions the mode of the file shows, each with the shift of its
/// three bits in the mode.
fn shown(entries: &mut [ListEntry]) -> impl Iterator<Item = (u32, &mut ListEntry)> {
    let has_mask = entries.iter().any(|entry| entry.tag == MASK);
    entries.iter_mut().filter_map(move |entry| {
        let shift = match entry.tag {
            OWNER => 6,
            MASK => 3,
            OWNING_GROUP if !has_mask => 3,
            OTHER => 0,
            _ => return None,
        };
        Some((shift, entry))
    })
}

fn mode_of(entries: &[ListEntry]) -> u32 {
    let mut entries = entries.to_vec();
    shown(&mut entries).fold(0, |mode, (shift, entry)| mode | u32::from(entry.permissions) << shift)
}
