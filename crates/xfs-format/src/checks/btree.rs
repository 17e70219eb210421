//! The errors of failed checks of a btree block.

use thiserror::Error;

/// A failed check of a btree block, with the values that failed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum BtreeCheck {
    #[error("the block has {count} entries at level {level}, but at most {max} fit")]
    Count { count: usize, max: usize, level: u16 },
    #[error("level {level} is above the highest possible, {max}")]
    Level { level: u32, max: u32 },
    #[error("the block has level {found}, but the path to it requires {expected}")]
    LevelOnPath { found: u32, expected: u32 },
    #[error("a node has no children")]
    EmptyNode,
    #[error("a leaf below a node has no records")]
    EmptyLeaf,
    #[error("entry {index} is not above the previous entry")]
    Order { index: usize },
    #[error("entry {index} is outside the keys of its parent")]
    OutsideParent { index: usize },
    #[error("highest key {index} is below the lowest key of its child")]
    HighKey { index: usize },
    #[error("child {index} is at block {pointer:#x}, which does not exist")]
    Pointer { index: usize, pointer: u64 },
    #[error("sibling at block {sibling:#x} does not exist or is the block itself")]
    Sibling { sibling: u64 },
    #[error("{side} sibling is {found:#x}, not {expected:#x} as on the path")]
    SiblingOnPath { side: &'static str, found: u64, expected: u64 },
    #[error("there is no {side} sibling, but the path has one")]
    SiblingMissing { side: &'static str },
    #[error("the block lies outside the volume")]
    Outside,
}
