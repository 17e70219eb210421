//! The errors of failed checks of a node of a directory or attribute btree.

use thiserror::Error;

/// The highest level of a node. Leaves have level 0.
#[doc(alias = "XFS_DA_NODE_MAXDEPTH")]
pub const MAX_DEPTH: u16 = 5;

/// A failed check of a node of a directory or attribute btree, with the values that failed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum DaBtreeCheck {
    #[error("a node has level {level}, outside 1..={MAX_DEPTH}")]
    Level { level: u16 },
    #[error("a node has {count} entries, outside 1..={capacity}")]
    Count { count: u16, capacity: usize },
    #[error("entry {index} has hash {hash:#010x}, below the previous hash {previous:#010x}")]
    HashOrder { index: usize, hash: u32, previous: u32 },
    #[error("entry {index} points to fork block {block}, which cannot be a child")]
    Child { index: usize, block: u32 },
    #[error("level {found}, but the parent requires level {expected}")]
    LevelBelow { found: u16, expected: u16 },
    #[error("the tree leads here a second time, after {visited} blocks: it has a cycle")]
    Cycle { visited: u64 },
    #[error("the first hash is {hash:#010x}, below {lowest:#010x}, the last of the previous block")]
    BelowSibling { hash: u32, lowest: u32 },
    #[error("the last hash is {hash:#010x}, but the parent has {expected:#010x}")]
    LastHash { hash: u32, expected: u32 },
    #[error("the next leaf is fork block {found}, but by the parent it is {expected}")]
    NextLeaf { found: u64, expected: u64 },
    #[error("the leaf has no next leaf, but the parent has another child")]
    NoNextLeaf,
}
