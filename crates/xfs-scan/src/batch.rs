//! Batches: the inode rows of one unit of work (some ten thousand inodes), with their names.
//!
//! Owns: the arena, a buffer that holds the items of all rows of a batch (links, target, attribute
//! names), and its format.
//!
//! ```text
//! item:  tag (1)  length (2)  payload (length)
//!   link       payload: parent inode (8), parent generation (4), name
//!   symlink    payload: target
//!   xattr      payload: name with its namespace
//!   shared     payload: first block (8), number of blocks (8)
//!   realtime   payload: number of blocks (8)
//! ```
//!
//! # Invariants
//!
//! - **I1** The items of a row are contiguous, and the row records their range. An arena stays
//!   below 4 GiB.

use crate::row::Row;

/// Number of bytes before the name in a link's payload: parent inode and parent generation.
const LINK_HEAD_BYTES: usize = 12;

/// One item of a row: a link, the target, an attribute name or a run of shared blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowItem<'a> {
    /// A directory entry that names the inode.
    Link(Link<'a>),
    /// The target of a symbolic link.
    Symlink(&'a [u8]),
    /// The name of an extended attribute.
    Xattr(&'a [u8]),
    /// Blocks that are shared with other files.
    Shared(SharedRun),
    /// Number of the inode's filesystem blocks that lie in the realtime section.
    Realtime(u64),
}

/// A run of shared blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedRun {
    /// The first filesystem block.
    pub(crate) start: u64,
    /// Number of blocks.
    pub(crate) length: u64,
}

/// A directory entry that names the row's inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link<'a> {
    /// Inode number of the directory.
    pub(crate) parent: u64,
    /// Generation of the directory, or 0 if unknown.
    pub(crate) parent_generation: u32,
    /// The name of the entry.
    pub(crate) name: &'a [u8],
}

/// The rows of a unit of work in inode order, and the arena with their items.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) rows: Vec<Row>,
    pub(crate) arena: Vec<u8>,
}

impl Batch {
    /// Records in `row` that its items are the bytes of the arena from `start` to the present end.
    /// Returns `false`, and leaves the row without items, if the start or the length does not fit
    /// in 32 bits (**I1**: an arena stays below 4 GiB).
    #[inline]
    pub(crate) fn place_items(&self, row: &mut Row, start: usize) -> bool {
        let length = self.arena.len().saturating_sub(start);
        match (u32::try_from(start), u32::try_from(length)) {
            (Ok(start), Ok(length)) if start.checked_add(length).is_some() => {
                (row.items_start, row.items_length) = (start, length);
                true
            }
            _ => {
                (row.items_start, row.items_length) = (0, 0);
                false
            }
        }
    }

    /// Returns the items of a row of this batch: links, symlink target, attribute names, shared
    /// blocks.
    pub(crate) fn items(&self, row: &Row) -> Items<'_> {
        let start = row.items_start as usize;
        let end = start + row.items_length as usize;
        Items { rest: self.arena.get(start..end).unwrap_or_default() }
    }
}

/// Appends an item to an arena. A payload is cut off after 65,535 bytes. That loses nothing: no
/// name or target of a verified volume is that long.
pub(crate) fn push_item(arena: &mut Vec<u8>, item: RowItem<'_>) {
    match item {
        RowItem::Link(link) => push_link(arena, link),
        RowItem::Symlink(target) => push_parts(arena, 2, &[], target),
        RowItem::Xattr(name) => push_parts(arena, 3, &[], name),
        RowItem::Shared(SharedRun { start, length }) => {
            push_parts(arena, 4, &start.to_be_bytes(), &length.to_be_bytes());
        }
        RowItem::Realtime(blocks) => push_parts(arena, 5, &[], &blocks.to_be_bytes()),
    }
}

fn push_link(arena: &mut Vec<u8>, link: Link<'_>) {
    let mut head = [0; LINK_HEAD_BYTES];
    let (parent, generation) = head.split_at_mut(8);
    parent.copy_from_slice(&link.parent.to_be_bytes());
    generation.copy_from_slice(&link.parent_generation.to_be_bytes());
    push_parts(arena, 1, &head, link.name);
}

fn push_parts(arena: &mut Vec<u8>, tag: u8, head: &[u8], tail: &[u8]) {
    let room = usize::from(u16::MAX) - head.len();
    let tail = tail.get(..room).unwrap_or(tail);
    let length = (head.len() + tail.len()) as u16;
    let [high, low] = length.to_be_bytes();
    arena.extend_from_slice(&[tag, high, low]);
    arena.extend_from_slice(head);
    arena.extend_from_slice(tail);
}

/// Iterates over the items of one row: its links, target, attribute names and shared blocks.
#[derive(Clone, Debug)]
pub(crate) struct Items<'a> {
    rest: &'a [u8],
}

impl<'a> Items<'a> {
    /// Returns only the runs of shared blocks.
    pub(crate) fn shared(self) -> impl Iterator<Item = SharedRun> {
        self.filter_map(|item| if let RowItem::Shared(run) = item { Some(run) } else { None })
    }

    /// Returns only the links.
    pub(crate) fn links(self) -> impl Iterator<Item = Link<'a>> {
        self.filter_map(|item| if let RowItem::Link(link) = item { Some(link) } else { None })
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = RowItem<'a>;

    #[inline]
    fn next(&mut self) -> Option<RowItem<'a>> {
        let (&[tag, high, low], rest) = self.rest.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let (payload, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        match tag {
            1 => {
                let (&parent, after) = payload.split_first_chunk()?;
                let (&generation, name) = after.split_first_chunk()?;
                Some(RowItem::Link(Link {
                    parent: u64::from_be_bytes(parent),
                    parent_generation: u32::from_be_bytes(generation),
                    name,
                }))
            }
            2 => Some(RowItem::Symlink(payload)),
            3 => Some(RowItem::Xattr(payload)),
            5 => Some(RowItem::Realtime(u64::from_be_bytes(*payload.first_chunk()?))),
            _ => {
                let (&start, after) = payload.split_first_chunk()?;
                let (&length, _) = after.split_first_chunk()?;
                let (start, length) = (u64::from_be_bytes(start), u64::from_be_bytes(length));
                Some(RowItem::Shared(SharedRun { start, length }))
            }
        }
    }
}

#[cfg(test)]
mod tests;
