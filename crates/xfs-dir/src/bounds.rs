//! The limits that a node sets for the hashes of its children, and the check of a child against
//! them.
//!
//! The verifier of a block sees only that block. Two leaves that were exchanged, with correct
//! checksums, pass the verifier. A lookup in these leaves would not find the name, and would report
//! it as missing.

use xfs_format::attr::AttrLeaf;
use xfs_format::attr::leaf::{LEAF_MAGIC, LEAF_MAGIC_V4};
use xfs_format::dabtree::{self, DaBtreeCheck, DaNode, NODE_MAGIC, NODE_MAGIC_V4, NodeEntryDisk};
use xfs_format::directory::LeafBlock;
use xfs_format::directory::leaf::{LEAF1_MAGIC, LEAF1_MAGIC_V4, LEAFN_MAGIC, LEAFN_MAGIC_V4};
use xfs_format::{Corruption, Structure, StructureAddress};

/// The limits that a parent sets for the hashes of a child. A leaf without entries passes with any
/// limits, because the parent still has the last hash that the leaf had before it was emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The lowest hash that the child's first entry may have.
    pub(crate) lowest: u32,
    /// The hash that the child's last entry must have; `None` if no parent gives one.
    pub(crate) last: Option<u32>,
}

impl Bounds {
    /// Returns the bounds of child `index` of a node with these entries. `lowest` is the lowest
    /// hash that the node itself may have.
    pub(crate) fn of_child(lowest: u32, entries: &[NodeEntryDisk], index: usize) -> Self {
        let hash = |index: usize| entries.get(index).map(|entry| entry.hash.get());
        let before = index.checked_sub(1).and_then(hash);
        Self { lowest: before.unwrap_or(lowest), last: hash(index) }
    }

    /// Checks a verified node or leaf against the bounds.
    pub(crate) fn verify(self, bytes: &[u8], place: StructureAddress) -> Result<(), Corruption> {
        let Some((first, last)) = hash_range(bytes, place)? else { return Ok(()) };
        let corrupt = |check| Err(Corruption::new(Structure::DaBtree, place, check));
        if first < self.lowest {
            return corrupt(DaBtreeCheck::BelowSibling { hash: first, lowest: self.lowest });
        }
        match self.last {
            Some(expected) if last != expected => {
                corrupt(DaBtreeCheck::LastHash { hash: last, expected })
            }
            _ => Ok(()),
        }
    }
}

/// Returns the first and the last hash of a node or leaf; `None` if it has no entries.
fn hash_range(bytes: &[u8], place: StructureAddress) -> Result<Option<(u32, u32)>, Corruption> {
    Ok(match dabtree::magic(bytes) {
        Some(NODE_MAGIC | NODE_MAGIC_V4) => {
            let entries = DaNode::decode(bytes, place)?.entries();
            entries.first().zip(entries.last()).map(|(a, b)| (a.hash.get(), b.hash.get()))
        }
        Some(LEAF_MAGIC | LEAF_MAGIC_V4) => AttrLeaf::decode(bytes, place)?.hash_range(),
        Some(LEAF1_MAGIC | LEAFN_MAGIC | LEAF1_MAGIC_V4 | LEAFN_MAGIC_V4) => {
            let entries = LeafBlock::decode(bytes, place)?.entries();
            entries.first().zip(entries.last()).map(|(a, b)| (a.hash.get(), b.hash.get()))
        }
        // Decoding the block as a leaf reports the error.
        _ => None,
    })
}
