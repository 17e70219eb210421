//! One step of a walk over cached inodes: the inodes that it shows, and how it ends.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::cached_inode::CachedInode;
use crate::kind::InodeKind;

/// An inode that a walk shows without taking a reference to it. The inode exists at least until the
/// visitor returns. A visitor that needs the inode for longer takes a reference.
pub struct Existing<'guard, K: InodeKind>(pub &'guard Arc<CachedInode<K>>);

/// A function that is called with each inode of a step. The function must not block, because the
/// epoch guard is held.
pub type WalkVisitor<'a, K> = dyn FnMut(Existing<'_, K>) -> ControlFlow<()> + 'a;

/// How one step of a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkStep {
    /// The next step starts at this cursor.
    Next(u64),
    /// The walk is complete.
    End,
    /// The visitor stopped the walk.
    Stopped,
}
