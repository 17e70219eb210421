//! One generic btree for every XFS btree: a cursor to read it, an editor to change it.
//!
//! Owns: the descent from a root, the walk along the leaves in both directions, and every check
//! that relates one block to another (level, owner, siblings, keys of a block against the keys in
//! its parent). Also owns all changes of blocks that follow from inserting and removing records.
//!
//! Does **not** own the meaning of a record ([`BtreeFormat`](xfs_format::btree::BtreeFormat)), the
//! checks inside one block (the buffer's verifier has made them), the location of a root (the
//! header of a group, an inode) or the source of a btree's blocks ([`Anchor`]).
//!
//! # Invariants
//!
//! - **I1** Levels fall by one from parent to child, so the root's level gives the length of every
//!   path.
//! - **I2** The keys of a child lie between its key in the parent and the next key in the parent.
//!   The keys of a block rise strictly, so a walk in one direction never meets a block twice. A
//!   walk therefore ends, whatever the pointers in the blocks are.
//! - **I3** A cursor allocates nothing for a record, and at most one short list for a leaf. The
//!   same holds for an editor that stays in its leaf.

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
pub use root::{ForkRoot, INODE_ROOT, Root, TreeRoot};
pub use saved_path::SavedPath;
pub use source::{Source, TreeBlock};
pub use store::BtreeStore;
