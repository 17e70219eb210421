//! Making room for an entry: in a sibling, in a new block, or under a new root.

use xfs_buffer::Result;
use xfs_format::btree::{
    BtreeBlock, BtreeCheck, BtreeFormat, BtreeHeader, BtreeIdentity, BtreeKind, BtreeLayout,
    Extents,
};
use xfs_format::extent::{Extent, MAX_EXTENT_LEVELS};
use xfs_format::{Check, DiskAddr, FsBlock, InodeNumber};

use super::Editor;
use super::entries::{BlockEntry, Division, EntryLayout, EntrySlot, MAX_ENTRY_BYTES, Neighbours};
use super::keys::file_block_of;
use crate::path::{PathBlock, Towards, corrupt};
use crate::root::{ForkRoot, TopRoot};
use crate::source::TreeBlock;
use crate::store::BtreeStore;

/// A sibling takes entries only if at least 1/`FREE_PART` of its capacity is free. With less free
/// space, the same two blocks would be redistributed at every insertion.
const FREE_PART: usize = 8;
/// The message of the panic that occurs if the children of a root must move into a new block, but
/// the root has none. Children are moved only if they are too many for the root.
const HAS_CHILDREN: &str = "a root that is moved down has children";
/// Bytes of the longer of the two header formats.
const MAX_HEADER_BYTES: usize = 72;

/// A newly allocated block with a header and no entries.
pub(super) struct NewBlock<B> {
    pub(super) number: u64,
    at: DiskAddr,
    pub(super) buffer: B,
}

/// The contents of the header of a new block.
pub(super) struct Header {
    pub(super) level: u32,
    pub(super) left: Option<u64>,
    pub(super) right: Option<u64>,
}

/// The block that a sibling must name, and the side on which it must name it.
struct BackPointer {
    side: &'static str,
    block: u64,
}

impl<F: BtreeFormat, S: BtreeStore> Editor<F, S> {
    /// Inserts an entry before entry `index` of the block at `depth`. If the block is full, makes
    /// room first. Returns `true` if the path may be out of date after that, so that it must be
    /// rebuilt from the root.
    pub(super) fn insert_entry(
        &mut self,
        mut depth: usize,
        mut index: usize,
        mut entry: BlockEntry,
    ) -> Result<bool> {
        let mut restructured = false;
        // Each round moves up one level, or adds the root above the top level once.
        loop {
            let shape = self.shape(self.level(depth));
            let step = self.path_block_mut(depth);
            if step.count < shape.max {
                let (buffer, count) = (step.buffer.clone(), step.count);
                step.count += 1;
                shape.open_entry(&mut self.store, &buffer, EntrySlot { index, count }, &entry)?;
                if restructured {
                    self.refresh_keys(depth)?;
                } else {
                    self.raise_keys(depth, index, &entry)?;
                }
                return Ok(restructured);
            }
            restructured = true;
            if self.parent(depth).is_none() {
                self.grow_root()?;
                depth += 1;
            }
            if self.fill_sibling(depth, index, &entry)? {
                return Ok(true);
            }
            entry = self.split(depth, index, &entry)?;
            let Some(above) = depth.checked_sub(1) else {
                let Some(place) = self.insert_child_of_inode(&entry)? else { return Ok(true) };
                index = place;
                continue;
            };
            depth = above;
            index = self.path_block(depth).index + 1;
        }
    }

    /// Inserts `entry` into a full block, and redistributes the entries between the block and a
    /// sibling that has room. Changes nothing and returns `false` if no sibling has room.
    fn fill_sibling(&mut self, depth: usize, index: usize, entry: &BlockEntry) -> Result<bool> {
        let Some((own, siblings)) = self.parent(depth) else { return Ok(false) };
        let shape = self.shape(self.level(depth));
        let before = own.checked_sub(1);
        let after = Some(own + 1).filter(|after| *after < siblings);
        for sibling in [before, after].into_iter().flatten() {
            let other = self.sibling(depth, sibling)?;
            if (shape.max - other.count) * FREE_PART < shape.max {
                continue;
            }
            let step = self.path_block(depth).clone();
            let offset = if sibling < own { other.count } else { 0 };
            let (left, right) = if sibling < own { (other, step) } else { (step, other) };
            let total = left.count + right.count + 1;
            let extra = Some((offset + index, entry));
            let division = Division { extra, left_count: total.div_ceil(2) };
            self.redistribute(depth, own.min(sibling), &[left, right], division)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Redistributes the entries of two neighbours, and updates their keys in the blocks above
    /// them. The first neighbour is child `index` of its parent.
    pub(super) fn redistribute(
        &mut self,
        depth: usize,
        index: usize,
        [left, right]: &[PathBlock<F::Key, S::Block>; 2],
        division: Division<'_>,
    ) -> Result<()> {
        let shape = self.shape(self.level(depth));
        let pair = Neighbours {
            left: &left.buffer,
            left_count: left.count,
            right: &right.buffer,
            right_count: right.count,
        };
        shape.redistribute(&mut self.store, &pair, division)?;
        for (index, step) in [(index, left), (index + 1, right)] {
            let key = self.node_key(step)?;
            self.set_parent_key(depth, index, &key)?;
        }
        match depth.checked_sub(1) {
            Some(above) => self.refresh_keys(above),
            None => Ok(()),
        }
    }

    /// Reads child `index` of the parent of the block at `depth`, with all checks of a descent.
    pub(super) fn sibling(
        &self,
        depth: usize,
        index: usize,
    ) -> Result<PathBlock<F::Key, S::Block>> {
        let child = self.path.child(depth, index)?;
        self.path.read_child(&self.store, depth, &child, Towards::First)
    }

    /// Splits the full block at `depth`, and inserts `entry` before entry `index` of that block.
    /// Returns the entry that the parent must get for the new block. This entry belongs directly
    /// after the parent's entry of the old block.
    fn split(&mut self, depth: usize, index: usize, entry: &BlockEntry) -> Result<BlockEntry> {
        let level = self.level(depth);
        let shape = self.shape(level);
        let mut left = self.path_block(depth).clone();
        let right = self.right_sibling(&left)?;
        let new = self.claim(left.block, &Header { level, left: Some(left.block), right })?;
        let left_count = (left.count + 1).div_ceil(2);
        let pair = Neighbours {
            left: &left.buffer,
            left_count: left.count,
            right: &new.buffer,
            right_count: 0,
        };
        let division = Division { extra: Some((index, entry)), left_count };
        shape.redistribute(&mut self.store, &pair, division)?;
        let buffer = left.buffer.clone();
        self.set_sibling(&buffer, BtreeLayout::right_sibling_range, Some(new.number))?;
        if let Some(right) = right {
            let neighbour = self.read_right_neighbour(right, level, left.block)?;
            self.set_sibling(&neighbour, BtreeLayout::left_sibling_range, Some(new.number))?;
        }
        left.count = left_count;
        let key = self.node_key(&left)?;
        if let Some((index, _)) = self.parent(depth) {
            self.set_parent_key(depth, index, &key)?;
        }
        let (count, block) = (shape.max + 1 - left_count, new.number);
        let right =
            PathBlock { buffer: new.buffer, block, at: new.at, index: 0, count, upper: None };
        Ok(BlockEntry::of_child(self.node_key(&right)?, block, F::KIND.layout()))
    }

    /// Returns the number of the block that the block of `step` names as its right sibling; `None`
    /// at the right edge of the btree.
    fn right_sibling(&self, step: &PathBlock<F::Key, S::Block>) -> Result<Option<u64>> {
        let bytes = step.buffer.bytes();
        Ok(BtreeBlock::decode(&bytes, F::KIND, step.at)?.right_sibling())
    }

    /// Reads block `number`, the right sibling of block `left`. The sibling must belong to the same
    /// btree and level, and must name `left` as its left sibling.
    pub(super) fn read_right_neighbour(
        &self,
        number: u64,
        level: u32,
        left: u64,
    ) -> Result<S::Block> {
        self.read_neighbour(number, level, BackPointer { side: "left", block: left })
    }

    /// Reads block `number`, the left sibling of block `right`, as
    /// [`read_right_neighbour`](Self::read_right_neighbour) does on the other side.
    pub(super) fn read_left_neighbour(
        &self,
        number: u64,
        level: u32,
        right: u64,
    ) -> Result<S::Block> {
        self.read_neighbour(number, level, BackPointer { side: "right", block: right })
    }

    fn read_neighbour(&self, number: u64, level: u32, back: BackPointer) -> Result<S::Block> {
        let outside = || corrupt(DiskAddr::NULL, BtreeCheck::Sibling { sibling: number });
        let geometry = self.store.geometry();
        let at = self.path.disk_addr(geometry, number).ok_or_else(outside)?;
        let buffer = self.store.read_block(at, F::KIND)?;
        let bytes = buffer.bytes();
        let block = BtreeBlock::decode(&bytes, F::KIND, at)?;
        let expected = self.path.owner;
        if let Some(found) = block.owner().filter(|found| *found != expected) {
            return Err(corrupt(at, Check::ForeignOwner { found, expected }).into());
        }
        if block.level() != level {
            let check = BtreeCheck::LevelOnPath { found: block.level(), expected: level };
            return Err(corrupt(at, check).into());
        }
        let BackPointer { side, block: expected } = back;
        let found = match side {
            "left" => block.left_sibling(),
            _ => block.right_sibling(),
        };
        let found = found.unwrap_or(u64::MAX);
        if found != expected {
            let check = BtreeCheck::SiblingOnPath { side, found, expected };
            return Err(corrupt(at, check).into());
        }
        drop(bytes);
        Ok(buffer)
    }

    /// Changes the sibling number that a block holds, on the side that `range` selects.
    pub(super) fn set_sibling(
        &mut self,
        block: &S::Block,
        range: impl Fn(&BtreeLayout) -> std::ops::Range<usize>,
        sibling: Option<u64>,
    ) -> Result<()> {
        let layout = F::KIND.layout();
        let pointer = layout.encode_pointer(sibling);
        let (pointer, _) = pointer.split_at(layout.pointer_bytes());
        self.store.change(block, range(layout), |bytes| bytes.copy_from_slice(pointer))
    }

    /// Allocates a new block near block `near`. The block gets the header `header` and no entries.
    pub(super) fn claim(&mut self, near: u64, header: &Header) -> Result<NewBlock<S::Block>> {
        let number = self.store.allocate(near)?;
        self.claim_at(number, header)
    }

    /// Returns the newly allocated block `number`, with the header `header` and no entries.
    fn claim_at(&mut self, number: u64, header: &Header) -> Result<NewBlock<S::Block>> {
        let outside = || corrupt(DiskAddr::NULL, BtreeCheck::Outside);
        let at = self.path.disk_addr(self.store.geometry(), number).ok_or_else(outside)?;
        let identity = BtreeIdentity { kind: F::KIND, owner: self.path.owner, address: at };
        let buffer = claim_block(&mut self.store, identity, header)?;
        Ok(NewBlock { number, at, buffer })
    }

    /// Adds a new root above the present root, which is full. The path then goes through the new
    /// root.
    fn grow_root(&mut self) -> Result<()> {
        let geometry = self.store.geometry();
        let (levels, max) = (self.path.levels, F::KIND.max_levels(geometry));
        let level = u32::try_from(levels).expect("the levels of a btree fit");
        let old = self.path_block(0).clone();
        if level >= max {
            return Err(corrupt(old.at, BtreeCheck::Level { level, max: max - 1 }).into());
        }
        let number = self.store.allocate_root(old.block)?;
        let new = self.claim_at(number, &Header { level, left: None, right: None })?;
        let entry = BlockEntry::of_child(self.node_key(&old)?, old.block, F::KIND.layout());
        self.shape(level).open_entry(&mut self.store, &new.buffer, EntrySlot::after(0), &entry)?;
        let (at, block) = (new.at, new.number);
        let step = PathBlock { buffer: new.buffer, block, at, index: 0, count: 1, upper: None };
        self.path.steps.insert(0, step);
        self.path.levels += 1;
        self.path.top.root = TopRoot::Header(block);
        self.root_changed = true;
        Ok(())
    }

    /// Inserts a child into the root in the inode, after the child that the path goes through.
    ///
    /// If the root is full, its children move into a new block first, and the path then goes
    /// through that block. In that case the method inserts nothing and returns the index that the
    /// entry must get in the new block. Returns `None` if the child has been inserted.
    fn insert_child_of_inode(&mut self, entry: &BlockEntry) -> Result<Option<usize>> {
        let place = self.path.top.index + 1;
        let owner = InodeNumber(self.path.owner);
        let near = self.path.top.block(0).expect("a child of the root was split");
        let TopRoot::Inode(root) = &mut self.path.top.root else {
            unreachable!("a root in a block has no parent, so it was put under a new one");
        };
        self.root_changed = true;
        if root.children.len() < root.capacity {
            let (_, block) = entry.child(F::KIND.layout());
            root.children.insert(place, (file_block_of(&entry.key), FsBlock(block)));
            return Ok(None);
        }
        let count = root.children.len();
        let new = push_children_down(&mut self.store, owner, root, near)?;
        let (buffer, block, at) = (new.buffer, new.number, new.at);
        let step = PathBlock { buffer, block, at, index: place - 1, count, upper: None };
        self.path.steps.insert(0, step);
        self.path.levels += 1;
        self.path.top.index = 0;
        Ok(Some(place))
    }
}

impl ForkRoot {
    /// Moves the children of the root into one new block, which becomes the only child of the root.
    /// Afterwards the root needs room for only one child. `capacity` is the number of children that
    /// the root has room for after the call.
    ///
    /// # Errors
    ///
    /// Returns the errors of the store, or a corruption if the btree would become too high.
    pub fn push_down<S: BtreeStore>(
        &mut self,
        store: &mut S,
        inode: InodeNumber,
        capacity: usize,
    ) -> Result<()> {
        let (_, FsBlock(near)) = *self.children.first().expect(HAS_CHILDREN);
        push_children_down(store, inode, self, near)?;
        self.capacity = capacity;
        Ok(())
    }

    /// Builds a btree from extents that were stored as a list in the inode. There must be at least
    /// one extent, and the extents must be in order. The fork has room for `capacity` children.
    ///
    /// # Errors
    ///
    /// Returns the errors of the store, or a corruption if the extents are out of order.
    pub fn build<S: BtreeStore>(
        store: &mut S,
        inode: InodeNumber,
        extents: &[Extent],
        capacity: usize,
    ) -> Result<Self> {
        let (kind, block_size) = (BtreeKind::Extent, store.geometry().block_size);
        let shape = EntryLayout::new(kind.layout(), 0, block_size);
        let (in_leaf, rest) = extents.split_at(extents.len().min(shape.max));
        let Some(first) = in_leaf.first() else {
            return Err(corrupt(DiskAddr::NULL, BtreeCheck::EmptyLeaf).into());
        };
        let (number, _, buffer) = claim_for_inode(store, inode, 0, first.start.0)?;
        for (index, extent) in in_leaf.iter().enumerate() {
            let entry = BlockEntry::of_record::<Extents>(extent, store.geometry());
            shape.open_entry(store, &buffer, EntrySlot::after(index), &entry)?;
        }
        let children = vec![(first.file_block, FsBlock(number))];
        let root = Self { level: 1, children, capacity };
        if rest.is_empty() {
            return Ok(root);
        }
        let mut editor = Editor::<Extents, _>::in_fork(&mut *store, inode, root)?;
        for extent in rest {
            editor.insert(*extent)?;
        }
        editor
            .fork_root()
            .cloned()
            .ok_or_else(|| corrupt(DiskAddr::NULL, BtreeCheck::Outside).into())
    }
}

/// Allocates a block of a fork's btree. The block gets a header and no entries.
fn claim_for_inode<S: BtreeStore>(
    store: &mut S,
    inode: InodeNumber,
    level: u32,
    near: u64,
) -> Result<(u64, DiskAddr, S::Block)> {
    let number = store.allocate(near)?;
    let outside = || corrupt(DiskAddr::NULL, BtreeCheck::Outside);
    let at = store.geometry().block_disk_addr(FsBlock(number)).ok_or_else(outside)?;
    let identity = BtreeIdentity { kind: BtreeKind::Extent, owner: inode.0, address: at };
    let buffer = claim_block(store, identity, &Header { level, left: None, right: None })?;
    Ok((number, at, buffer))
}

fn push_children_down<S: BtreeStore>(
    store: &mut S,
    inode: InodeNumber,
    root: &mut ForkRoot,
    near: u64,
) -> Result<NewBlock<S::Block>> {
    if root.level + 1 >= MAX_EXTENT_LEVELS {
        let check = BtreeCheck::Level {
            level: u32::from(root.level) + 1,
            max: u32::from(MAX_EXTENT_LEVELS) - 1,
        };
        return Err(corrupt(DiskAddr::NULL, check).into());
    }
    let (kind, level) = (BtreeKind::Extent, u32::from(root.level));
    let (number, at, buffer) = claim_for_inode(store, inode, level, near)?;
    let shape = EntryLayout::new(kind.layout(), level, store.geometry().block_size);
    for (index, (file_block, child)) in root.children.iter().enumerate() {
        let mut key = [0; MAX_ENTRY_BYTES];
        key.split_at_mut(size_of::<u64>()).0.copy_from_slice(&file_block.0.to_be_bytes());
        let entry = BlockEntry::of_child(key, child.0, kind.layout());
        shape.open_entry(store, &buffer, EntrySlot::after(index), &entry)?;
    }
    let (lowest, _) = *root.children.first().expect(HAS_CHILDREN);
    root.children = vec![(lowest, FsBlock(number))];
    root.level += 1;
    Ok(NewBlock { number, at, buffer })
}

/// Writes the header of a newly allocated block, whose address and kind are in `identity`. Returns
/// the block.
fn claim_block<S: BtreeStore>(
    store: &mut S,
    identity: BtreeIdentity,
    header: &Header,
) -> Result<S::Block> {
    let buffer = store.claim(identity.address, identity.kind)?;
    let header = BtreeHeader {
        identity,
        level: u16::try_from(header.level).expect("the level of a btree fits"),
        count: 0,
        left: header.left,
        right: header.right,
    };
    let mut room = [0; MAX_HEADER_BYTES];
    let (encoded, _) = room.split_at_mut(identity.kind.layout().header_bytes());
    header.encode(store.geometry(), encoded);
    store.change(&buffer, 0..encoded.len(), |bytes| bytes.copy_from_slice(encoded))?;
    Ok(buffer)
}
