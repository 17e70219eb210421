//! The block form of a directory: entries and their index in one block, growing towards each other.
//!
//! Owns: the border between the entries' records and the index. Does **not** own the records
//! (`data`).

use std::mem::offset_of;
use std::ops::Range;

use xfs_format::directory::data::{BLOCK_MAGIC, BlockTailDisk, DATA_HEADER, DataHeaderDisk};
use xfs_format::directory::{Cookie, name_hash};

use super::index::{CompactTo, ENTRY, HashRun};
use super::{NewEntry, data};
use crate::edit::{BlockEdit, u32_at};

const TAIL: usize = size_of::<BlockTailDisk>();

/// The layout of the index at the end of a block in block form.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockLayout {
    tail: usize,
    pub(super) run: HashRun,
    pub(super) stale: usize,
}

impl BlockLayout {
    /// Reads the layout of a verified block.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let tail = bytes.len() - TAIL;
        let count = u32_at(bytes, tail + offset_of!(BlockTailDisk, count)) as usize;
        let stale = u32_at(bytes, tail + offset_of!(BlockTailDisk, stale)) as usize;
        Self { tail, run: HashRun { base: tail - ENTRY * count, count }, stale }
    }

    /// Returns the number of index entries that are not stale, including those of `.` and `..`.
    pub(super) fn live(&self) -> usize {
        self.run.count - self.stale
    }

    fn store(&self, edit: &mut BlockEdit<'_>) {
        edit.put_u32(self.tail + offset_of!(BlockTailDisk, count), self.run.count as u32);
        edit.put_u32(self.tail + offset_of!(BlockTailDisk, stale), self.stale as u32);
    }
}

/// The free records that a new entry and its index entry will use.
struct EntryRoom {
    /// The free record directly before the index. Its last bytes become the new index entry. `None`
    /// if the new entry reuses a stale index entry.
    before_index: Option<Range<usize>>,
    /// The free record, or the part of one, that takes the entry.
    free: Range<usize>,
}

fn find_room(bytes: &[u8], layout: &BlockLayout, length: usize) -> Option<EntryRoom> {
    if layout.stale != 0 {
        let free = data::longest(bytes);
        return (free.len() >= length).then_some(EntryRoom { before_index: None, free });
    }
    let before_index = data::free_before(bytes, layout.run.base)?;
    let left = before_index.start..before_index.end - ENTRY;
    let free = if left.len() >= length {
        left
    } else {
        data::listed(bytes).find(|free| *free != before_index && free.len() >= length)?
    };
    Some(EntryRoom { before_index: Some(before_index), free })
}

/// Returns whether an entry of `length` bytes has room, if need be after the removal of all stale
/// index entries.
pub(super) fn has_room(bytes: &[u8], length: usize) -> bool {
    let layout = BlockLayout::of(bytes);
    find_room(bytes, &layout, length).is_some() || has_room_compacted(bytes, &layout, length)
}

/// Returns whether the removal of all stale index entries gives room for an entry of `length` bytes
/// and its index entry.
fn has_room_compacted(bytes: &[u8], layout: &BlockLayout, length: usize) -> bool {
    let before = data::free_before(bytes, layout.run.base);
    let freed = before.map_or(0, |free| free.len()) + ENTRY * layout.stale;
    layout.stale != 0 && freed >= length + ENTRY
}

/// Adds an entry and returns its cookie. Returns `None`, with nothing changed, if the block has no
/// room.
pub(super) fn add(edit: &mut BlockEdit<'_>, entry: &NewEntry<'_>) -> Option<Cookie> {
    let length = data::length_of(entry.name);
    let mut layout = BlockLayout::of(edit.bytes());
    let room = match find_room(edit.bytes(), &layout, length) {
        Some(room) => room,
        None => {
            if !has_room_compacted(edit.bytes(), &layout, length) {
                return None;
            }
            layout = compact(edit);
            find_room(edit.bytes(), &layout, length)?
        }
    };
    let hash = name_hash(entry.name);
    let cookie = Cookie((room.free.start >> 3) as u32);
    if let Some(free) = room.before_index {
        let position = layout.run.position(edit.bytes(), hash);
        let grown = HashRun { base: layout.run.base - ENTRY, count: layout.run.count + 1 };
        data::cut(edit, free, grown.base..layout.run.base, grown.base);
        edit.shift(layout.run.bytes_of(0..position), grown.base);
        grown.put(edit, position, hash, cookie);
        layout.run = grown;
    } else {
        let reused = layout.run.reuse_stale(edit, hash, cookie);
        assert!(reused, "the count of stale entries was verified");
        layout.stale -= 1;
    }
    layout.store(edit);
    data::put_entry(edit, room.free, entry, layout.run.base);
    Some(cookie)
}

/// Removes the stale index entries, and turns their space into a free record.
fn compact(edit: &mut BlockEdit<'_>) -> BlockLayout {
    let old = BlockLayout::of(edit.bytes());
    let live = old.run.compact(edit, CompactTo::End);
    let base = old.tail - ENTRY * live;
    let layout = BlockLayout { run: HashRun { base, count: live }, stale: 0, ..old };
    data::free(edit, old.run.base..base, base);
    layout.store(edit);
    layout
}

/// Removes the entry at `cookie`; `hash` is the hash of its name. Returns `false`, with nothing
/// changed, if the index does not contain that entry.
pub(super) fn remove(edit: &mut BlockEdit<'_>, hash: u32, cookie: Cookie) -> bool {
    let mut layout = BlockLayout::of(edit.bytes());
    let Some(index) = layout.run.find(edit.bytes(), hash, cookie) else { return false };
    let record = data::entry_range(edit.bytes(), cookie.offset() as usize);
    layout.run.make_stale(edit, index);
    layout.stale += 1;
    layout.store(edit);
    data::free(edit, record, layout.run.base);
    true
}

/// Initializes a new block in block form with these entries, each at its byte offset in the block.
pub(super) fn initialise(
    edit: &mut BlockEdit<'_>,
    identity: &data::BlockIdentity,
    entries: &[(usize, NewEntry<'_>)],
) {
    let tail = edit.length() - TAIL;
    let base = tail - ENTRY * entries.len();
    data::initialise(edit, BLOCK_MAGIC, identity, base);
    data::put_all(edit, entries.iter().map(|(offset, entry)| (*offset, *entry)), base);
    let mut index: Vec<_> = entries
        .iter()
        .map(|(offset, entry)| (name_hash(entry.name), (offset >> 3) as u32))
        .collect();
    index.sort_unstable();
    put_index(edit, &index);
}

/// Writes an index of these entries, which must be sorted by hash, and the tail of the block.
fn put_index(edit: &mut BlockEdit<'_>, entries: &[(u32, u32)]) {
    let tail = edit.length() - TAIL;
    let run = HashRun { base: tail - ENTRY * entries.len(), count: entries.len() };
    for (index, (hash, cookie)) in entries.iter().enumerate() {
        run.put(edit, index, *hash, Cookie(*cookie));
    }
    BlockLayout { tail, run, stale: 0 }.store(edit);
}

/// Converts the only data block of a directory in another form to the block form. `entries` is the
/// index of that block, sorted by hash. Returns `false`, with nothing changed, if the index does
/// not fit at the end of the block.
pub(super) fn from_data(edit: &mut BlockEdit<'_>, entries: &[(u32, u32)]) -> bool {
    let end = edit.length();
    let base = end - TAIL - ENTRY * entries.len();
    let free = data::free_before(edit.bytes(), end).filter(|free| free.start <= base);
    let Some(free) = free.filter(|_| base > DATA_HEADER) else { return false };
    data::cut(edit, free, base..end, base);
    edit.put_u32(offset_of!(DataHeaderDisk, magic), BLOCK_MAGIC);
    put_index(edit, entries);
    true
}

/// Converts a block in block form to a data block with this magic number. The space of the index in
/// the block becomes a free record.
pub(super) fn into_data(edit: &mut BlockEdit<'_>, magic: u32) {
    let (base, end) = (BlockLayout::of(edit.bytes()).run.base, edit.length());
    edit.put_u32(offset_of!(DataHeaderDisk, magic), magic);
    data::free(edit, base..end, end);
}
