//! The entries of one block: records of a leaf, keys and pointers of a node.

use std::ops::Range;

use xfs_buffer::Result;
use xfs_format::Geometry;
use xfs_format::btree::{BtreeFormat, BtreeLayout};

use crate::source::TreeBlock;
use crate::store::BtreeStore;

/// The largest number of bytes of a record, or of the keys that a node holds for one child.
pub(super) const MAX_ENTRY_BYTES: usize = 40;
/// The message of the panic that occurs if a range of entries does not lie inside its block. The
/// verifier of a block limits the block's count of entries, and the editor checks that there is
/// room before it adds an entry.
const IN_BLOCK: &str = "the entries that a block counts lie inside it";
/// The largest number of bytes that a pointer takes.
const MAX_POINTER_BYTES: usize = 8;

/// The keys that a node holds for one child, at the front of the array.
pub(super) type NodeKey = [u8; MAX_ENTRY_BYTES];

/// One entry of a block: a record of a leaf, or a child of a node.
#[derive(Clone, Debug)]
pub(super) struct BlockEntry {
    /// The keys that a parent would hold for a block with only this entry.
    pub(super) key: NodeKey,
    /// The bytes of the record, or of the keys of the child.
    body: [u8; MAX_ENTRY_BYTES],
    /// The bytes of the pointer to the child.
    pointer: [u8; MAX_POINTER_BYTES],
}

impl BlockEntry {
    /// Creates the entry of a record of a leaf.
    pub(super) fn of_record<F: BtreeFormat>(record: &F::Record, geometry: &Geometry) -> Self {
        let layout = F::KIND.layout();
        let mut entry = Self {
            key: [0; MAX_ENTRY_BYTES],
            body: [0; MAX_ENTRY_BYTES],
            pointer: [0; MAX_POINTER_BYTES],
        };
        let (body, _) = entry.body.split_at_mut(layout.record_bytes);
        F::encode_record(record, geometry, body);
        let (key, _) = entry.key.split_at_mut(layout.node_key_bytes());
        F::encode_key(record, key);
        entry
    }

    /// Returns the keys and the block number of the child. The entry must be an entry of a node.
    pub(super) fn child(&self, layout: &BtreeLayout) -> (NodeKey, u64) {
        let block = layout.decode_pointer(&self.pointer);
        (self.key, block.expect("the entry of a child points to its block"))
    }

    /// Creates the entry of a child of a node.
    pub(super) fn of_child(key: NodeKey, block: u64, layout: &BtreeLayout) -> Self {
        Self { key, body: key, pointer: layout.encode_pointer(Some(block)) }
    }
}

/// A column of a block: values of one width in bytes, one after another.
#[derive(Clone, Copy, Debug)]
struct Column {
    start: usize,
    width: usize,
}

impl Column {
    fn range(self, entries: Range<usize>) -> Range<usize> {
        self.start + entries.start * self.width..self.start + entries.end * self.width
    }
}

/// The layout of the entries in the blocks of one level.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryLayout {
    /// The largest number of entries in a block.
    pub(super) max: usize,
    /// The smallest number of entries in a block that is not the root.
    pub(super) min: usize,
    /// In a node, the column of the keys and the column of the pointers. In a leaf, the column of
    /// the records, and a second column of width 0.
    columns: [Column; 2],
}

impl EntryLayout {
    pub(super) fn new(layout: &BtreeLayout, level: u32, block_size: u32) -> Self {
        let start = layout.header_bytes();
        let columns = if level == 0 {
            [Column { start, width: layout.record_bytes }, Column { start, width: 0 }]
        } else {
            let pointers = layout.pointers_offset(block_size);
            [
                Column { start, width: layout.node_key_bytes() },
                Column { start: pointers, width: layout.pointer_bytes() },
            ]
        };
        let max = layout.max_entries(level, block_size);
        Self { max, min: layout.min_entries(level, block_size), columns }
    }

    fn columns(&self) -> impl Iterator<Item = (usize, Column)> + use<> {
        self.columns.into_iter().enumerate().filter(|(_, column)| column.width != 0)
    }

    /// Inserts an entry into a block that has room for one more.
    pub(super) fn open_entry<S: BtreeStore>(
        &self,
        store: &mut S,
        block: &S::Block,
        EntrySlot { index, count }: EntrySlot,
        entry: &BlockEntry,
    ) -> Result<()> {
        assert!(index <= count);
        assert!(count < self.max);
        for ((_, column), part) in self.columns().zip([&entry.body[..], &entry.pointer[..]]) {
            let width = column.width;
            store.change(block, column.range(index..count + 1), |bytes| {
                bytes.copy_within(..bytes.len() - width, width);
                copy_front(bytes, part, width);
            })?;
        }
        set_count(store, block, count + 1)
    }

    /// Removes entry `index` from a block that has `count` entries.
    pub(super) fn close_entry<S: BtreeStore>(
        &self,
        store: &mut S,
        block: &S::Block,
        index: usize,
        count: usize,
    ) -> Result<()> {
        assert!(index < count);
        for (_, column) in self.columns() {
            // Removing the last entry moves nothing; its bytes stay after the rest.
            let after = column.range(index..count);
            if index + 1 < count {
                store.change(block, after, |bytes| bytes.copy_within(column.width.., 0))?;
            }
        }
        set_count(store, block, count - 1)
    }

    /// Replaces the keys of a child of a node.
    pub(super) fn put_key<S: BtreeStore>(
        &self,
        store: &mut S,
        block: &S::Block,
        index: usize,
        key: &NodeKey,
    ) -> Result<()> {
        let [column, _] = self.columns;
        let range = column.range(index..index + 1);
        store.change(block, range, |bytes| copy_front(bytes, key, column.width))
    }

    /// Replaces the pointer to child `index` of a node. `pointer` is the encoded pointer.
    pub(super) fn put_pointer<S: BtreeStore>(
        &self,
        store: &mut S,
        block: &S::Block,
        index: usize,
        pointer: &[u8],
    ) -> Result<()> {
        let [_, column] = self.columns;
        let range = column.range(index..index + 1);
        store.change(block, range, |bytes| copy_front(bytes, pointer, column.width))
    }

    /// Moves all entries of two neighbours into the left one. The bytes of the right block stay as
    /// they are, because that block is freed next.
    pub(super) fn gather<S: BtreeStore>(
        &self,
        store: &mut S,
        pair: &Neighbours<'_, S::Block>,
    ) -> Result<()> {
        let total = pair.left_count + pair.right_count;
        assert!(total <= self.max);
        for (_, column) in self.columns() {
            let moved = {
                let bytes = pair.right.bytes();
                bytes.get(column.range(0..pair.right_count)).expect(IN_BLOCK).to_vec()
            };
            let range = column.range(pair.left_count..total);
            store.change(pair.left, range, |bytes| bytes.copy_from_slice(&moved))?;
        }
        set_count(store, pair.left, total)
    }

    /// Redistributes the entries of two neighbours: `left_count` entries go to the left one, and
    /// `extra` is added. Writes only bytes that differ.
    pub(super) fn redistribute<S: BtreeStore>(
        &self,
        store: &mut S,
        pair: &Neighbours<'_, S::Block>,
        Division { extra, left_count }: Division<'_>,
    ) -> Result<()> {
        let total = pair.left_count + pair.right_count + usize::from(extra.is_some());
        assert!(left_count <= self.max);
        assert!(total - left_count <= self.max);
        for (number, column) in self.columns() {
            let mut all = Vec::with_capacity(total * column.width);
            for (block, count) in [(pair.left, pair.left_count), (pair.right, pair.right_count)] {
                let bytes = block.bytes();
                all.extend_from_slice(bytes.get(column.range(0..count)).expect(IN_BLOCK));
            }
            if let Some((index, entry)) = extra {
                let part = if number == 0 { &entry.body[..] } else { &entry.pointer[..] };
                let at = index * column.width;
                all.splice(at..at, part.iter().copied().take(column.width));
            }
            let (left, right) = all.split_at(left_count * column.width);
            overwrite(store, pair.left, column.start, left)?;
            overwrite(store, pair.right, column.start, right)?;
        }
        set_count(store, pair.left, left_count)?;
        set_count(store, pair.right, total - left_count)
    }
}

/// The place of a new entry in a block that has room for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntrySlot {
    /// Number of entries before the new one.
    pub(super) index: usize,
    /// Number of entries that the block has without the new one.
    pub(super) count: usize,
}

impl EntrySlot {
    /// Returns the slot at the end of a block that has `count` entries.
    pub(super) const fn after(count: usize) -> Self {
        Self { index: count, count }
    }
}

/// The way in which a redistribution divides the entries of two neighbours.
#[derive(Clone, Copy)]
pub(super) struct Division<'a> {
    /// A new entry and the index before which it is inserted. The index counts the entries of the
    /// left neighbour first, then those of the right one. `None` if no entry is added.
    pub(super) extra: Option<(usize, &'a BlockEntry)>,
    /// Number of entries that the left neighbour gets.
    pub(super) left_count: usize,
}

/// Two neighbours and the number of entries in each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbours<'a, B> {
    pub(super) left: &'a B,
    pub(super) left_count: usize,
    pub(super) right: &'a B,
    pub(super) right_count: usize,
}

fn copy_front(bytes: &mut [u8], part: &[u8], width: usize) {
    let (front, part) = (bytes.get_mut(..width), part.get(..width));
    front.expect(IN_BLOCK).copy_from_slice(part.expect("an entry is as wide as its column"));
}

fn set_count<S: BtreeStore>(store: &mut S, block: &S::Block, count: usize) -> Result<()> {
    let count = u16::try_from(count).expect("a block holds fewer entries than this");
    let range = BtreeLayout::COUNT_RANGE;
    store.change(block, range, |bytes| bytes.copy_from_slice(&count.to_be_bytes()))
}

/// Replaces the bytes from `start` on with `new`, and writes only the range that differs.
fn overwrite<S: BtreeStore>(
    store: &mut S,
    block: &S::Block,
    start: usize,
    new: &[u8],
) -> Result<()> {
    let (first, last) = {
        let bytes = block.bytes();
        let old = bytes.get(start..start + new.len()).expect(IN_BLOCK);
        let differs = |(old, new): (&u8, &u8)| old != new;
        let Some(first) = old.iter().zip(new).position(differs) else { return Ok(()) };
        let last = old.iter().zip(new).enumerate().rev().find(|(_, pair)| differs(*pair));
        (first, last.map_or(first, |(last, _)| last))
    };
    let part = new.get(first..=last).expect("both positions are of new bytes");
    store.change(block, start + first..start + last + 1, |bytes| bytes.copy_from_slice(part))
}
