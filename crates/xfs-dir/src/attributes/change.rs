//! Changing the extended attributes of an inode, in every form.
//!
//! Owns: the form of the attribute fork and the conversions between forms. Does **not** own the
//! steps of a change over several transactions (`work`), or the blocks of remote values (`remote`).
//!
//! ```text
//!           insert                          insert
//! short ──short_to_leaf──► one leaf ──split_leaf──► tree of leaves
//! short ◄────shrink─────── one leaf ◄──remove_leaf── tree of leaves
//! ```
//!
//! # Invariants
//!
//! - **I1** One transaction inserts, removes or exchanges an attribute. No reader sees half of the
//!   change, and no crash leaves half of it. A value in blocks of its own is on disk before the
//!   transaction that names the blocks.
//! - **I2** The blocks of a value are freed after its attribute is gone. If a crash prevents that,
//!   the blocks stay mapped by this fork until the fork is freed. No attribute is marked
//!   incomplete.

mod leaf;
mod short_form;

use xfs_buffer::Result;
use xfs_format::attr::leaf::encode_name;
use xfs_format::attr::{AttrEntry, AttrLeaf, AttrValue, Namespace};
use xfs_format::directory::name_hash;
use xfs_format::parent::ParentDisk;
use xfs_format::{BlockKind, FileBlock};
use zerocopy::FromBytes;

use crate::store::{ForkPlacement, ForkStore};
use crate::tree::{self, Side, TreePath, TreeShape};

use leaf::RawEntry;
use short_form::ShortAttributes;

/// The fill level of a leaf, in percent of its bytes, below which the leaf is joined with a
/// neighbour.
const SPARSE_PERCENT: usize = 37;
/// The highest fill level, in percent, of a leaf that results from joining two leaves. It is below
/// 100, so that the next insertion does not split the leaf again.
const JOINED_PERCENT: usize = 75;

const SHAPE: TreeShape = TreeShape { root: FileBlock(0), kind: BlockKind::Attr };

/// The key by which an attribute is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttributeKey<'a> {
    pub(crate) namespace: Namespace,
    pub(crate) name: &'a [u8],
    /// The value. It is part of the key only for parent pointers, because these may have equal
    /// names.
    pub(crate) value: &'a [u8],
}

impl AttributeKey<'_> {
    fn hash(&self) -> u32 {
        let hash = name_hash(self.name);
        match (self.namespace, ParentDisk::ref_from_bytes(self.value)) {
            (Namespace::Parent, Ok(parent)) => {
                let inode = parent.inode.get();
                hash ^ (inode >> 32) as u32 ^ inode as u32
            }
            _ => hash,
        }
    }

    fn is(&self, entry: &AttrEntry<'_>) -> bool {
        let is_value = match (self.namespace, entry.value) {
            (Namespace::Parent, AttrValue::Local(value)) => value == self.value,
            (Namespace::Parent, AttrValue::Remote { .. }) => false,
            _ => true,
        };
        entry.namespace == self.namespace && entry.name == self.name && is_value
    }
}

/// The blocks of the attribute fork that hold a remote value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueBlocks {
    pub(crate) first: FileBlock,
    pub(crate) length_bytes: u32,
}

/// An attribute that a search has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundAttribute {
    /// The blocks of the value; `None` if the value is stored beside the attribute's name.
    pub(crate) run: Option<ValueBlocks>,
}

/// The path to the leaf that holds an attribute, the index of the attribute in the leaf, and the
/// blocks of its value.
type AttributeInTree<B> = (TreePath<B>, usize, Option<ValueBlocks>);

/// An attribute fork that a transaction changes.
pub(crate) struct AttributeChange<'s, S: ForkStore> {
    store: &'s mut S,
}

impl<'s, S: ForkStore> AttributeChange<'s, S> {
    pub(crate) fn new(store: &'s mut S) -> Self {
        Self { store }
    }

    /// Finds an attribute; returns `None` if it does not exist.
    pub(crate) fn find(&mut self, key: &AttributeKey<'_>) -> Result<Option<FoundAttribute>> {
        match self.store.contents()? {
            ForkPlacement::Absent | ForkPlacement::NoBlocks => Ok(None),
            ForkPlacement::Inline(bytes) => {
                let short = ShortAttributes::decode(&bytes, self.store.inode_place())?;
                Ok(short.find(key).map(|_| FoundAttribute { run: None }))
            }
            ForkPlacement::Blocks => {
                let found = self.find_in_tree(key)?;
                Ok(found.map(|(_, _, run)| FoundAttribute { run }))
            }
        }
    }

    /// Removes an attribute and inserts another one in the short form, in the inode. Returns
    /// `false`, with nothing changed, if the attributes are not in short form or the inode has no
    /// room.
    pub(crate) fn change_short(
        &mut self,
        old: Option<&AttributeKey<'_>>,
        new: Option<&AttrEntry<'_>>,
    ) -> Result<bool> {
        let contents = self.store.contents()?;
        let mut short = match &contents {
            ForkPlacement::Inline(bytes) => {
                ShortAttributes::decode(bytes, self.store.inode_place())?
            }
            ForkPlacement::NoBlocks if new.is_some() => ShortAttributes::default(),
            _ => return Ok(false),
        };
        if let Some(index) = old.and_then(|old| short.find(old)) {
            short.remove(index);
        }
        if new.is_some_and(|new| !short.push(new)) {
            return Ok(false);
        }
        if short.is_empty() {
            self.store.remove_fork()?;
            return Ok(true);
        }
        let Some(bytes) = short.encode().filter(|bytes| bytes.len() <= self.store.local_room())
        else {
            return Ok(false);
        };
        self.store.set_local(&bytes)?;
        Ok(true)
    }

    /// Moves the attributes from the inode to a leaf. A fork without blocks gets an empty leaf.
    pub(crate) fn short_to_leaf(&mut self) -> Result<()> {
        let mut entries = match self.store.contents()? {
            ForkPlacement::Inline(bytes) => {
                let short = ShortAttributes::decode(&bytes, self.store.inode_place())?;
                self.store.set_empty()?;
                short.entries().iter().map(raw).collect()
            }
            _ => Vec::new(),
        };
        entries.sort_by_key(|entry| entry.hash);
        let block = self.store.grow(SHAPE.root, SHAPE.kind)?;
        let identity = tree::identity(self.store, &block);
        self.store.edit(&block, |edit| leaf::initialise(edit, &identity, &entries));
        Ok(())
    }

    /// Removes an attribute from the leaves, if it exists, and inserts another one with the same
    /// hash. Returns the blocks of the old value. The removal and the insertion are in the
    /// transaction of the store (I1: no crash sees half of the change).
    pub(crate) fn exchange(
        &mut self,
        old: Option<&AttributeKey<'_>>,
        new: &AttrEntry<'_>,
    ) -> Result<Option<ValueBlocks>> {
        let entry = raw(new);
        let found = match old {
            Some(old) => self.find_in_tree(old)?,
            None => None,
        };
        let Some((path, index, run)) = found else {
            let path = TreePath::descend(self.store, SHAPE, entry.hash)?;
            return self.insert(path, &entry).map(|()| None);
        };
        // The insertion follows at once, so that the leaf is never left empty.
        let place = self.store.place(path.at);
        self.store.edit(&path.leaf, |edit| leaf::remove(edit, index, place))?;
        self.insert(path, &entry)?;
        Ok(run)
    }

    /// Removes an attribute from the leaves. Returns the attribute with the blocks of its value;
    /// `None` if it did not exist.
    pub(crate) fn remove(&mut self, key: &AttributeKey<'_>) -> Result<Option<FoundAttribute>> {
        let Some((path, index, run)) = self.find_in_tree(key)? else { return Ok(None) };
        let place = self.store.place(path.at);
        self.store.edit(&path.leaf, |edit| leaf::remove(edit, index, place))?;
        path.fix_hashes(self.store);
        self.join_leaf(path)?;
        Ok(Some(FoundAttribute { run }))
    }

    /// Moves the attributes back into the inode if they fit and none has a remote value. A fork
    /// without attributes is removed.
    pub(crate) fn shrink(&mut self) -> Result<()> {
        let ends_at = self.store.last_before(FileBlock(u64::MAX))?;
        if ends_at != FileBlock(1) || !matches!(self.store.contents()?, ForkPlacement::Blocks) {
            return Ok(());
        }
        let (root, place) =
            (self.store.read_owned(SHAPE.root, SHAPE.kind)?, self.store.place(SHAPE.root));
        let short = self.store.view(&root, |bytes| -> Result<_> {
            let mut short = ShortAttributes::default();
            let leaf = AttrLeaf::decode(bytes, place)?;
            for entry in leaf.entries() {
                if !short.push(&entry?) {
                    return Ok(None);
                }
            }
            // An incomplete attribute, which is being inserted or removed, is not allowed in the
            // short form.
            let is_whole = short.len() == leaf.table().len();
            let bytes = short.encode().filter(|_| is_whole);
            Ok(bytes.map(|bytes| (bytes, short.is_empty())))
        })?;
        let Some((bytes, is_empty)) = short else { return Ok(()) };
        if !is_empty && bytes.len() > self.store.local_room() {
            return Ok(());
        }
        self.store.shrink(SHAPE.root, &root)?;
        if is_empty { self.store.remove_fork() } else { self.store.set_local(&bytes) }
    }

    /// Finds the attribute with this key in the leaves; returns `None` if there is no such
    /// attribute.
    ///
    /// Attributes whose names have the same hash may spread over several leaves.
    fn find_in_tree(
        &mut self,
        key: &AttributeKey<'_>,
    ) -> Result<Option<AttributeInTree<S::Block>>> {
        let hash = key.hash();
        let mut path = TreePath::descend(self.store, SHAPE, hash)?;
        loop {
            let place = self.store.place(path.at);
            let (found, continues) = self.store.view(&path.leaf, |bytes| -> Result<_> {
                let leaf = AttrLeaf::decode(bytes, place)?;
                for (index, entry) in leaf.find_indexed(hash) {
                    let entry = entry?;
                    if key.is(&entry) {
                        return Ok((Some((index, run_of(&entry))), false));
                    }
                }
                Ok((None, leaf.hash_range().is_none_or(|(_, last)| last == hash)))
            })?;
            if let Some((index, run)) = found {
                return Ok(Some((path, index, run)));
            }
            if !continues || !path.advance(self.store)? {
                return Ok(None);
            }
        }
    }

    /// Inserts an entry into the leaf at the end of the path. Splits the leaf if it is full.
    fn insert(&mut self, path: TreePath<S::Block>, entry: &RawEntry) -> Result<()> {
        let place = self.store.place(path.at);
        if self.store.edit(&path.leaf, |edit| leaf::insert(edit, entry, place))? {
            path.fix_hashes(self.store);
            return Ok(());
        }
        self.split_leaf(path, entry)
    }

    /// Splits a full leaf into two leaves, which then hold the old entries and the new one. If the
    /// new entry fits neither with the entries before it nor with those after it, it gets a third
    /// leaf.
    fn split_leaf(&mut self, mut path: TreePath<S::Block>, entry: &RawEntry) -> Result<()> {
        let (place, bytes) = (self.store.place(path.at), self.store.geometry().block_size as usize);
        let mut entries = self.store.view(&path.leaf, |bytes| leaf::entries(bytes, place))?;
        let position = entries.partition_point(|other| other.hash < entry.hash);
        entries.insert(position, entry.clone());
        if let Some(kept) = balance(&entries, leaf::capacity(bytes)) {
            let right = entries.split_off(kept);
            return self.put_right(&mut path, Some(&entries), &right);
        }
        let mut right = entries.split_off(position);
        let middle = [right.remove(0)];
        self.put_right(&mut path, Some(&entries), &right)?;
        self.put_right(&mut path, None, &middle)
    }

    /// Adds a new leaf with the entries `right` after the path's leaf. If `left` is given, rewrites
    /// the path's leaf with those entries.
    fn put_right(
        &mut self,
        path: &mut TreePath<S::Block>,
        left: Option<&[RawEntry]>,
        right: &[RawEntry],
    ) -> Result<()> {
        let (at, block) = path.grow_right(self.store)?;
        let identity = tree::identity(self.store, &block);
        self.store.edit(&block, |edit| leaf::initialise(edit, &identity, right));
        if let Some(left) = left {
            self.store.edit(&path.leaf, |edit| leaf::rebuild(edit, left));
        }
        path.insert_right(self.store, at, &block)
    }

    /// Joins a leaf that has few entries with a neighbour, or removes an empty leaf.
    fn join_leaf(&mut self, path: TreePath<S::Block>) -> Result<()> {
        if path.is_root() {
            return Ok(());
        }
        let capacity = leaf::capacity(self.store.geometry().block_size as usize);
        let (count, used) =
            self.store.view(&path.leaf, |bytes| (leaf::count(bytes), leaf::used(bytes)));
        if count == 0 {
            return path.remove_leaf(self.store);
        }
        if used * 100 >= capacity * SPARSE_PERCENT {
            return Ok(());
        }
        for side in [Side::Left, Side::Right] {
            let Some(neighbour) = path.neighbour(self.store, side)? else { continue };
            let other = self.store.view(&neighbour.leaf, leaf::used);
            if (used + other) * 100 > capacity * JOINED_PERCENT {
                continue;
            }
            let (place, other_place) = (self.store.place(path.at), self.store.place(neighbour.at));
            let mine = self.store.view(&path.leaf, |bytes| leaf::entries(bytes, place))?;
            let others =
                self.store.view(&neighbour.leaf, |bytes| leaf::entries(bytes, other_place))?;
            let joined = match side {
                Side::Left => [others, mine].concat(),
                Side::Right => [mine, others].concat(),
            };
            self.store.edit(&neighbour.leaf, |edit| leaf::rebuild(edit, &joined));
            neighbour.fix_hashes(self.store);
            return path.remove_leaf(self.store);
        }
        Ok(())
    }
}

/// Returns the number of entries to keep in the left of two leaves, so that the two are about
/// equally full. Returns `None` if every division makes one of them too full.
fn balance(entries: &[RawEntry], capacity: usize) -> Option<usize> {
    let total: usize = entries.iter().map(RawEntry::length).sum();
    let (mut best, mut left) = (None, 0);
    for (index, entry) in entries.iter().enumerate() {
        if index != 0 && left <= capacity && total - left <= capacity {
            let difference = left.abs_diff(total - left);
            if best.is_none_or(|(least, _)| difference < least) {
                best = Some((difference, index));
            }
        }
        left += entry.length();
    }
    best.map(|(_, index)| index)
}

fn raw(entry: &AttrEntry<'_>) -> RawEntry {
    let value = match entry.value {
        AttrValue::Local(value) => value,
        AttrValue::Remote { .. } => &[],
    };
    let hash = AttributeKey { namespace: entry.namespace, name: entry.name, value }.hash();
    let (name, flags) = encode_name(entry);
    RawEntry { hash, flags: flags.bits(), name }
}

fn run_of(entry: &AttrEntry<'_>) -> Option<ValueBlocks> {
    match entry.value {
        AttrValue::Local(_) => None,
        AttrValue::Remote { first_block, length_bytes } => {
            Some(ValueBlocks { first: first_block, length_bytes })
        }
    }
}

#[cfg(test)]
mod tests;
