//! One generic btree for every XFS btree: a cursor to read it, an editor to change it.
//!
//! Owns: descent from a root, the walk along the leaves in both directions, every check that joins
//! one block to another (level, owner, siblings, keys against the parent's), and the changes of
//! blocks that putting records in and taking them out brings with it. Does **not** own
//! what a record means ([`BtreeFormat`](xfs_format::btree::BtreeFormat)), checks inside one block
//! (the buffer's verifier has made them), where a root stands (the headers of a group, an inode) or
//! where a btree's blocks come from ([`Anchor`]).
//!
//! # Invariants
//!
//! - **I1** Levels fall by one from parent to child, so a path is as long as the root says.
//! - **I2** The keys of a child lie between its key in the parent and the next one. Keys of a
//!   block rise strictly, so no block can be met twice in one direction: a walk ends, whatever the
//!   pointers say.
//! - **I3** A cursor allocates nothing for a record, and at most one short list for a leaf. So does
//!   an editor, as long as it stays in its leaf.

mod anchored;
mod cursor;
mod editor;
#[cfg(test)]
mod memory;
mod path;
mod records;
mod root;
#[cfg(test)]
mod sample;
mod saved_path;
mod source;
mod store;

pub use anchored::{Anchor, Anchored};
pub use cursor::{Cursor, Seek};
pub use editor::Editor;
pub use records::{Leaves, Records};
pub use root::{ForkRoot, Root};
pub use saved_path::SavedPath;
pub use source::{Source, TreeBlock};
pub use store::Store;
