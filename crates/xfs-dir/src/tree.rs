//! Changing the btree over name hashes that directories and attribute forks share.
//!
//! Owns: the path from the root to a leaf, adding and removing a leaf, the hashes in the nodes and
//! the sibling links. Does **not** own the contents of a leaf. The code that changes a leaf calls
//! this module when it has split or emptied the leaf.
//!
//! # Invariants
//!
//! - **I1** The root stays in its file block. The tree grows when the root's contents move to a new
//!   block below the root. It shrinks when the contents of the root's only child move back.
//! - **I2** The hash of a node's entry is the highest hash in its child. Blocks of one level are
//!   linked in the order of their hashes.
//! - **I3** A node that loses its last entry is freed; a node with few entries stays.

mod node;

use xfs_buffer::{PosixError, Result};
use xfs_format::dabtree::{self, DaBtreeCheck, DaNode, MAX_DEPTH, NODE_MAGIC};
use xfs_format::directory::free_start;
use xfs_format::{BlockKind, Corruption, FileBlock, Structure};

use crate::edit::u32_at;
use crate::store::{ForkStore, length_blocks};

/// The root block of a hash btree, and the kind of its blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeShape {
    pub(crate) root: FileBlock,
    pub(crate) kind: BlockKind,
}

/// A node on the path from the root to a leaf.
#[derive(Clone)]
pub(crate) struct PathNode<B> {
    at: FileBlock,
    block: B,
    /// The index of the entry that leads to the next block on the path.
    index: usize,
}

/// The path from the root of a hash btree to a leaf.
#[derive(Clone)]
pub(crate) struct TreePath<B> {
    shape: TreeShape,
    /// The nodes on the path, from the root down.
    nodes: Vec<PathNode<B>>,
    /// The file block of the leaf.
    pub(crate) at: FileBlock,
    pub(crate) leaf: B,
    /// Number of leaves to which the path has led so far. A number above that of all blocks reveals
    /// a cycle.
    visited: u64,
}

/// The side of a leaf on which its neighbour is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

impl<B: Clone> TreePath<B> {
    /// Descends from the root to the first leaf that may contain `hash`. If all hashes are lower,
    /// descends to the last leaf.
    pub(crate) fn descend<S: ForkStore<Block = B>>(
        store: &mut S,
        shape: TreeShape,
        hash: u32,
    ) -> Result<Self> {
        let root = store.read_owned(shape.root, shape.kind)?;
        Self::descend_from(store, shape, root, hash)
    }

    /// Descends as [`descend`](Self::descend) does, from a root block that was read already.
    pub(crate) fn descend_from<S: ForkStore<Block = B>>(
        store: &mut S,
        shape: TreeShape,
        root: B,
        hash: u32,
    ) -> Result<Self> {
        // Nearly all trees have at most two levels of nodes.
        let nodes = Vec::with_capacity(2);
        let mut path = Self { shape, nodes, at: shape.root, leaf: root, visited: 1 };
        path.continue_down(store, None, |entries| {
            entries.partition_point(|entry| entry.hash.get() < hash)
        })?;
        Ok(path)
    }

    /// Continues the path from its last block down to a leaf. The last block must have level
    /// `level`; `None` allows any level. In each node, `choose` returns the index of the entry to
    /// follow.
    fn continue_down<S: ForkStore<Block = B>>(
        &mut self,
        store: &mut S,
        mut level: Option<u16>,
        choose: impl Fn(&[dabtree::NodeEntryDisk]) -> usize,
    ) -> Result<()> {
        loop {
            let place = store.place(self.at);
            let step = store.view(&self.leaf, |bytes| -> Result<_> {
                let node = match dabtree::is_node(bytes) {
                    true => Some(DaNode::decode(bytes, place)?),
                    false => None,
                };
                let found = node.as_ref().map_or(0, DaNode::level);
                if let Some(expected) = level.filter(|expected| *expected != found) {
                    let check = DaBtreeCheck::LevelBelow { found, expected };
                    return Err(Corruption::new(Structure::DaBtree, place, check).into());
                }
                let Some(node) = node else { return Ok(None) };
                let entries = node.entries();
                let index = choose(entries).min(entries.len() - 1);
                let child = entries.get(index).map(|entry| entry.before.get());
                Ok(child.map(|child| (found, index, FileBlock(child.into()))))
            })?;
            let Some((found, index, child)) = step else { return Ok(()) };
            let block = read_child(store, self.shape, &self.leaf, index)?;
            let node = std::mem::replace(&mut self.leaf, block);
            self.nodes.push(PathNode { at: self.at, block: node, index });
            self.at = child;
            level = Some(found - 1);
        }
    }

    /// Returns whether the leaf at the end of the path is the root.
    pub(crate) fn is_root(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Moves the path to the next leaf. Returns `false`, with the path unchanged, if there is no
    /// next leaf.
    pub(crate) fn advance<S: ForkStore<Block = B>>(&mut self, store: &mut S) -> Result<bool> {
        let mut height = 0;
        let found = loop {
            let Some(step) = self.step(height) else { return Ok(false) };
            let entries = store.view(&step.block, node::count);
            if step.index + 1 < entries {
                break height;
            }
            height += 1;
        };
        self.visited += 1;
        if self.visited > most_blocks(store, self.shape)? {
            let check = DaBtreeCheck::Cycle { visited: self.visited };
            return Err(Corruption::new(Structure::DaBtree, store.place(self.at), check).into());
        }
        let kept = self.nodes.len() - found;
        self.nodes.truncate(kept);
        let step = self.nodes.last_mut().expect("the node found above is kept");
        step.index += 1;
        let index = step.index;
        let child = store.view(&step.block, |bytes| node::child(bytes, index));
        let parent = step.block.clone();
        self.leaf = read_child(store, self.shape, &parent, index)?;
        self.at = child;
        self.continue_down(store, Some(found as u16), |_| 0)?;
        Ok(true)
    }

    /// Returns the node at `height` on the path. Height 0 is the parent of the leaf. `None` if the
    /// height is above the root.
    fn step(&self, height: usize) -> Option<&PathNode<B>> {
        self.nodes.len().checked_sub(height + 1).and_then(|index| self.nodes.get(index))
    }

    fn step_mut(&mut self, height: usize) -> &mut PathNode<B> {
        let index = self.nodes.len().checked_sub(height + 1);
        let step = index.and_then(|index| self.nodes.get_mut(index));
        step.expect("the caller names a level of the path")
    }

    /// Returns the path to the neighbour of the leaf on one side, if it has the same parent;
    /// otherwise returns `None`.
    pub(crate) fn neighbour<S: ForkStore<Block = B>>(
        &self,
        store: &mut S,
        side: Side,
    ) -> Result<Option<Self>> {
        let Some(parent) = self.nodes.last() else { return Ok(None) };
        let count = store.view(&parent.block, node::count);
        let index = match side {
            Side::Left => parent.index.checked_sub(1),
            Side::Right => Some(parent.index + 1).filter(|index| *index < count),
        };
        let Some(index) = index else { return Ok(None) };
        let child = store.view(&parent.block, |bytes| node::child(bytes, index));
        let mut path = self.clone();
        path.step_mut(0).index = index;
        path.leaf = read_child(store, self.shape, &parent.block, index)?;
        path.at = child;
        path.continue_down(store, Some(0), |_| 0)?;
        Ok(Some(path))
    }

    /// Creates a new block that is linked after the leaf. The caller writes the contents of the new
    /// block except the common header, and then calls [`insert_right`](Self::insert_right).
    pub(crate) fn grow_right<S: ForkStore<Block = B>>(
        &mut self,
        store: &mut S,
    ) -> Result<(FileBlock, B)> {
        if self.is_root() {
            self.deepen(store)?;
        }
        let (at, block) = new_block(store, self.shape)?;
        let leaf = self.leaf.clone();
        let left = LevelBlock { at: self.at, block: &leaf };
        chain_after(store, self.shape, left, LevelBlock { at, block: &block })?;
        Ok((at, block))
    }

    /// Adds the block `right`, which has taken the upper entries of the leaf, to the leaf's parent.
    /// The path still leads to the leaf.
    pub(crate) fn insert_right<S: ForkStore<Block = B>>(
        &mut self,
        store: &mut S,
        right_at: FileBlock,
        right: &B,
    ) -> Result<()> {
        let (left_hash, right_hash) = (last_hash(store, &self.leaf), last_hash(store, right));
        self.insert_child(store, 0, SplitChild { left_hash, right_hash, right_at })
    }

    /// Moves the path from the leaf to the new leaf after it, which
    /// [`insert_right`](Self::insert_right) has added.
    pub(crate) fn go_right(&mut self, at: FileBlock, block: B) {
        self.step_mut(0).index += 1;
        self.at = at;
        self.leaf = block;
    }

    /// Inserts a new child into the node at `height` (0 is the parent of the leaf), directly after
    /// the child on the path.
    fn insert_child<S: ForkStore<Block = B>>(
        &mut self,
        store: &mut S,
        height: usize,
        SplitChild { left_hash, right_hash, right_at }: SplitChild,
    ) -> Result<()> {
        let step = self.step(height).expect("the root has been deepened");
        let (count, length) = store.view(&step.block, |bytes| (node::count(bytes), bytes.len()));
        if count == node::capacity(length) {
            self.split_node(store, height)?;
        }
        let step = self.step_mut(height);
        let (block, index) = (step.block.clone(), step.index);
        store.edit(&block, |edit| {
            node::set_hash(edit, index, left_hash);
            node::insert(edit, index + 1, right_hash, right_at);
        });
        self.fix_hashes_from(store, height + 1);
        Ok(())
    }

    /// Splits the node at `height` (0 is the parent of the leaf). The path then goes through the
    /// half that contains the path's entry.
    fn split_node<S: ForkStore<Block = B>>(&mut self, store: &mut S, height: usize) -> Result<()> {
        if height + 1 == self.nodes.len() {
            self.deepen(store)?;
        }
        let (right_at, right) = new_block(store, self.shape)?;
        let step = self.step_mut(height);
        let (left_at, left) = (step.at, step.block.clone());
        let source = store.view(&left, <[u8]>::to_vec);
        let kept = node::count(&source) / 2;
        let identity = identity(store, &right);
        store.edit(&right, |edit| node::initialise(edit, &identity, &source, kept));
        store.edit(&left, |edit| node::truncate(edit, kept));
        let (old, new) =
            (LevelBlock { at: left_at, block: &left }, LevelBlock { at: right_at, block: &right });
        chain_after(store, self.shape, old, new)?;
        let (left_hash, right_hash) = (last_hash(store, &left), last_hash(store, &right));
        self.insert_child(store, height + 1, SplitChild { left_hash, right_hash, right_at })?;
        let step = self.step_mut(height);
        if step.index >= kept {
            step.index -= kept;
            step.at = right_at;
            step.block = right;
            self.step_mut(height + 1).index += 1;
        }
        Ok(())
    }

    /// Moves the contents of the root to a new block, which becomes the only child of the root (I1:
    /// the root stays in its file block).
    fn deepen<S: ForkStore<Block = B>>(&mut self, store: &mut S) -> Result<()> {
        let level = self.nodes.len() as u16;
        if level >= MAX_DEPTH {
            return Err(PosixError::NoSpace.into());
        }
        let (at, block) = new_block(store, self.shape)?;
        let root = self.nodes.first().map_or(&self.leaf, |step| &step.block).clone();
        let (address, bytes) = (store.address(&block), store.view(&root, <[u8]>::to_vec));
        store.edit(&block, |edit| {
            edit.put(0, &bytes);
            node::set_address(edit, address);
        });
        let hash = last_hash(store, &block);
        let identity = identity(store, &root);
        store.edit(&root, |edit| node::make_root(edit, &identity, level + 1, hash, at));
        match self.nodes.first_mut() {
            Some(step) => (step.at, step.block) = (at, block),
            None => (self.at, self.leaf) = (at, block),
        }
        let step = PathNode { at: self.shape.root, block: root, index: 0 };
        self.nodes.insert(0, step);
        Ok(())
    }

    /// Updates the hashes in the nodes above the leaf after the last entry of the leaf has changed
    /// (I2: they are the highest hashes).
    pub(crate) fn fix_hashes<S: ForkStore<Block = B>>(&self, store: &mut S) {
        self.fix_hashes_from(store, 0);
    }

    fn fix_hashes_from<S: ForkStore<Block = B>>(&self, store: &mut S, height: usize) {
        let mut child = match height.checked_sub(1) {
            None => &self.leaf,
            Some(below) => match self.step(below) {
                Some(step) => &step.block,
                None => return,
            },
        };
        for step in self.nodes.iter().rev().skip(height) {
            let hash = last_hash(store, child);
            if store.view(&step.block, |bytes| node::hash(bytes, step.index)) == hash {
                return;
            }
            store.edit(&step.block, |edit| node::set_hash(edit, step.index, hash));
            child = &step.block;
        }
    }

    /// Removes the leaf from the tree, and the nodes that become empty. The leaf must not be the
    /// root, and its entries are lost. If the root then has an only child, the child's contents
    /// move into the root.
    pub(crate) fn remove_leaf<S: ForkStore<Block = B>>(mut self, store: &mut S) -> Result<()> {
        let mut gone = (self.at, self.leaf.clone());
        while let Some(step) = self.nodes.pop() {
            unchain(store, self.shape, &gone.1)?;
            store.shrink(gone.0, &gone.1)?;
            store.edit(&step.block, |edit| node::remove(edit, step.index));
            let left = store.view(&step.block, node::count);
            if left != 0 {
                // The path now ends at the node, whose last hash may have been that of the child.
                (self.at, self.leaf) = (step.at, step.block);
                self.fix_hashes_from(store, 0);
                break;
            }
            assert!(!self.nodes.is_empty(), "I3: the root of a tree has a child");
            gone = (step.at, step.block);
        }
        collapse(store, self.shape)
    }
}

/// Reads the child at entry `index` of a node, and checks the child's hashes against the node.
fn read_child<S: ForkStore>(
    store: &mut S,
    shape: TreeShape,
    node: &S::Block,
    index: usize,
) -> Result<S::Block> {
    let at = store.view(node, |bytes| node::child(bytes, index));
    let bounds = store.view(node, |bytes| node::bounds(bytes, index));
    let child = store.read_owned(at, shape.kind)?;
    let place = store.place(at);
    store.view(&child, |bytes| bounds.verify(bytes, place))?;
    Ok(child)
}

/// Moves the contents of the root's only child into the root, until the root has several children
/// or is a leaf. The root stays in its file block (I1).
fn collapse<S: ForkStore>(store: &mut S, shape: TreeShape) -> Result<()> {
    for _ in 0..MAX_DEPTH {
        let root = store.read_owned(shape.root, shape.kind)?;
        let only = store.view(&root, |bytes| {
            let is_node = dabtree::magic(bytes) == Some(NODE_MAGIC);
            (is_node && node::count(bytes) == 1).then(|| node::child(bytes, 0))
        });
        let Some(at) = only else { break };
        let child = store.read_owned(at, shape.kind)?;
        verify_below(store, &root, at, &child)?;
        let (address, bytes) = (store.address(&root), store.view(&child, <[u8]>::to_vec));
        store.edit(&root, |edit| {
            edit.put(0, &bytes);
            node::set_address(edit, address);
        });
        store.shrink(at, &child)?;
    }
    Ok(())
}

/// Checks that `child` is one level below `root`.
fn verify_below<S: ForkStore>(
    store: &S,
    root: &S::Block,
    at: FileBlock,
    child: &S::Block,
) -> Result<()> {
    let level = |block: &S::Block| store.view(block, node::level);
    let (expected, found) = (level(root) - 1, level(child));
    if found == expected {
        return Ok(());
    }
    let check = DaBtreeCheck::LevelBelow { found, expected };
    Err(Corruption::new(Structure::DaBtree, store.place(at), check).into())
}

/// Returns an upper limit for the number of blocks that the tree can have.
fn most_blocks<S: ForkStore>(store: &mut S, shape: TreeShape) -> Result<u64> {
    let limit = match shape.kind {
        BlockKind::DirectoryIndex => free_start(store.geometry()),
        _ => FileBlock(u64::MAX),
    };
    Ok(store.last_before(limit)?.0.saturating_sub(shape.root.0))
}

/// Allocates a new block of the tree, in the lowest hole after the root. The caller writes the
/// block's address and owner, with [`identity`].
fn new_block<S: ForkStore>(store: &mut S, shape: TreeShape) -> Result<(FileBlock, S::Block)> {
    let length = length_blocks(store.geometry(), shape.kind);
    let at = store.first_unused(shape.root, length)?;
    Ok((at, store.grow(at, shape.kind)?))
}

/// The fields of the common header that identify a block: address, owner and UUID.
pub(crate) struct TreeIdentity {
    pub(crate) address: u64,
    pub(crate) owner: u64,
    pub(crate) uuid: [u8; 16],
}

/// Returns the identifying header fields for a block of this fork.
pub(crate) fn identity<S: ForkStore>(store: &S, block: &S::Block) -> TreeIdentity {
    let uuid = store.geometry().meta_uuid.into_bytes();
    TreeIdentity { address: store.address(block).0, owner: store.number().0, uuid }
}

pub(crate) use node::put_identity;

/// One of two blocks of a level that are linked as siblings, with its file block.
struct LevelBlock<'a, B> {
    at: FileBlock,
    block: &'a B,
}

/// A child that was split: the highest hash in each half, and the file block of the new right half.
struct SplitChild {
    left_hash: u32,
    right_hash: u32,
    right_at: FileBlock,
}

/// Links the block `new` after `left`, on the same level.
fn chain_after<S: ForkStore>(
    store: &mut S,
    shape: TreeShape,
    left: LevelBlock<'_, S::Block>,
    new: LevelBlock<'_, S::Block>,
) -> Result<()> {
    let next = store.view(left.block, |bytes| u32_at(bytes, node::FORWARD));
    if next != 0 {
        let next_block = store.read_owned(FileBlock(next.into()), shape.kind)?;
        store.edit(&next_block, |edit| edit.put_u32(node::BACK, new.at.0 as u32));
    }
    store.edit(new.block, |edit| {
        edit.put_u32(node::FORWARD, next);
        edit.put_u32(node::BACK, left.at.0 as u32);
    });
    store.edit(left.block, |edit| edit.put_u32(node::FORWARD, new.at.0 as u32));
    Ok(())
}

/// Removes a block from the chain of siblings of its level: links its two neighbours with each
/// other.
fn unchain<S: ForkStore>(store: &mut S, shape: TreeShape, block: &S::Block) -> Result<()> {
    let (next, previous) =
        store.view(block, |bytes| (u32_at(bytes, node::FORWARD), u32_at(bytes, node::BACK)));
    for (neighbour, field, other) in [(next, node::BACK, previous), (previous, node::FORWARD, next)]
    {
        if neighbour != 0 {
            let neighbour = store.read_owned(FileBlock(neighbour.into()), shape.kind)?;
            store.edit(&neighbour, |edit| edit.put_u32(field, other));
        }
    }
    Ok(())
}

/// Returns the highest hash in a node or leaf; 0 if the block has no entries.
fn last_hash<S: ForkStore>(store: &S, block: &S::Block) -> u32 {
    store.view(block, node::last_hash)
}
