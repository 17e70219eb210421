//! An iterator over the extents of a fork, which does not load a whole btree.
//!
//! Owns: the checks of each extent by the rules of the fork, and the check of the number of
//! extents. Does **not** own the descent through the btree ([`xfs_btree`]).
//!
//! # Invariants
//!
//! - **I1** The walk returns at most as many extents as the inode counts. If the btree has fewer,
//!   the walk ends with an error.

use xfs_btree::{Cursor, Leaves};
use xfs_buffer::{BufferCache, Result};
use xfs_format::btree::Extents as Format;
use xfs_format::extent::{Extent, ExtentCheck, ExtentRoot, ExtentRules};
use xfs_format::inode::{ForkKind, InodeCore};

use crate::fork::{Fork, corrupt};
use crate::inode::Inode;

/// An iterator over the extents of a fork, in file order.
pub struct ForkExtents<'a>(ExtentSource<'a>);

enum ExtentSource<'a> {
    Map(Box<dyn Iterator<Item = &'a Extent> + 'a>),
    LeafWalk(Box<LeafWalk<'a>>),
}

impl Iterator for ForkExtents<'_> {
    type Item = Result<Extent>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            ExtentSource::Map(extents) => extents.next().copied().map(Ok),
            ExtentSource::LeafWalk(walk) => walk.next_extent(),
        }
    }
}

impl Inode {
    /// Returns the extents of a fork in file order. A btree is read leaf by leaf. The iterator ends
    /// after an error.
    pub fn extents<'a>(&'a self, cache: &'a BufferCache, kind: ForkKind) -> ForkExtents<'a> {
        ForkExtents(match self.fork(kind) {
            Fork::Extents(map) => ExtentSource::Map(Box::new(map.iter())),
            Fork::Btree(btree) => match btree.map.value() {
                Some(map) => ExtentSource::Map(Box::new(map.iter())),
                None => ExtentSource::LeafWalk(Box::new(LeafWalk::new(
                    self.core(),
                    kind,
                    cache,
                    btree.root(),
                ))),
            },
            _ => ExtentSource::Map(Box::new([].iter())),
        })
    }
}

struct LeafWalk<'a> {
    core: &'a InodeCore,
    rules: ExtentRules<'a>,
    expected: u64,
    found: u64,
    /// The leaves that are still to be read, or the error that the root caused. `None` once the
    /// walk has ended.
    leaves: Option<Result<Leaves<'a, Format>>>,
    leaf: Vec<Extent>,
    /// The index of the next extent in the current leaf.
    index: usize,
}

impl<'a> LeafWalk<'a> {
    fn new(core: &'a InodeCore, kind: ForkKind, cache: &'a BufferCache, root: &[u8]) -> Self {
        let root = ExtentRoot::decode(root).map_err(|check| corrupt(core, check).into());
        let cursor = root.and_then(|root| Cursor::in_fork(cache, core.number, &root));
        Self {
            core,
            rules: ExtentRules::of(core, kind, cache.geometry()),
            expected: core.fork_extents(kind),
            found: 0,
            leaves: Some(cursor.map(Cursor::leaves)),
            leaf: Vec::new(),
            index: 0,
        }
    }

    fn next_extent(&mut self) -> Option<Result<Extent>> {
        if let Some(extent) = self.leaf.get(self.index) {
            self.index += 1;
            return Some(Ok(*extent));
        }
        let next = match self.leaves.take()? {
            Ok(leaves) => self.next_leaf(leaves).transpose(),
            Err(error) => Some(Err(error)),
        };
        self.index = 1;
        if !matches!(next, Some(Ok(_))) {
            self.leaf.clear();
        }
        next
    }

    /// Reads the next leaf and returns its first extent. After the last leaf, compares the number
    /// of extents with the inode's count and returns `None`.
    fn next_leaf(&mut self, mut leaves: Leaves<'a, Format>) -> Result<Option<Extent>> {
        let is_leaf = leaves.read_next(&mut self.leaf)?;
        self.found += self.leaf.len() as u64;
        let (found, expected) = (self.found, self.expected);
        if found > expected || (!is_leaf && found != expected) {
            return Err(corrupt(self.core, ExtentCheck::Count { found, expected }).into());
        }
        if let Some(check) = self.leaf.iter().find_map(|extent| extent.verify(&self.rules).err()) {
            return Err(corrupt(self.core, check).into());
        }
        if is_leaf {
            self.leaves = Some(Ok(leaves));
        }
        Ok(self.leaf.first().copied())
    }
}

#[cfg(test)]
mod tests;
