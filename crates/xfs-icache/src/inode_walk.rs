//! Iteration over all cached inodes.
//!
//! Owns: the two iterators. Does **not** own the inodes: an implementor of [`InodeWalk`] walks over
//! its own cache, or uses the generic walk over a list ([`InodeList`]).
//!
//! | iterator | gives | may block | for |
//! |---|---|---|---|
//! | [`iter_inodes`](InodeWalk::iter_inodes) | a reference to each inode, no lock held | yes | everything else |
//! | [`iter_inodes_unsafe`](InodeWalk::iter_inodes_unsafe) | inodes that exist during the call | no | eviction, statistics |
//!
//! A walk shares no state across the volume, unless the filesystem has a list of all inodes. Both
//! iterators make steps of at most 64 inodes, and each step takes its own guard.
//!
//! # Invariants
//!
//! - **I1** A walk goes forward, and so it ends: its cursor comes from keys that were looked up,
//!   not from numbers that inodes hold.
//! - **I2** A walk shows every inode that is cached from the walk's start to its end. It may also
//!   show other inodes.
//! - **I3** A visitor that stops a walk stops the whole walk, even if parts of it run in parallel.
//! - **I4** Once a filesystem is inactive, a walk takes no reference to an unreferenced inode, and
//!   an inode that loses its last reference is evicted at once.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::cache_ref::{CacheRef, StoredRef};
use crate::cached_inode::CachedInode;
use crate::filter::{Tag, WalkFilter};
use crate::inode_list::InodeList;
use crate::kind::InodeKind;
use crate::walk_step::{Existing, WalkStep, WalkVisitor};

/// A filesystem whose cached inodes can be walked.
pub trait InodeWalk: Sync {
    /// The types of the filesystem's cached inodes.
    type Kind: InodeKind;

    /// Returns the number of parts of the filesystem (such as its groups) that can be walked in
    /// parallel.
    fn parts(&self) -> usize {
        1
    }

    /// Returns the list of all inodes, or `None` if the filesystem has an index instead.
    fn list(&self) -> Option<&InodeList<Self::Kind>>;

    /// Makes one step of a walk over a part of the filesystem, under one epoch guard. The next
    /// cursor lies past the keys that were looked up (I1). A filesystem without a list of all
    /// inodes must implement this method itself.
    #[doc(alias = "iter_vfs_inodes")]
    fn visit(
        &self,
        _part: usize,
        cursor: u64,
        _tag: Tag,
        visit: &mut WalkVisitor<'_, Self::Kind>,
    ) -> WalkStep {
        self.list().map_or(WalkStep::End, |list| list.visit(cursor, visit))
    }

    /// Returns whether the filesystem is in use. Returns `false` if it is being taken down.
    fn is_active(&self) -> bool;

    /// Releases a reference to an inode. A [`CacheRef`] calls this method when it is dropped.
    fn release(&self, held: StoredRef<Self::Kind>);

    /// Removes from the cache an inode that an eviction has chosen.
    fn remove(&self, entry: &Arc<CachedInode<Self::Kind>>);

    /// Calls `f` with a reference to each inode, while no lock is held. `f` may block, and may stop
    /// the walk. An inode that `f` releases may be evicted by another thread.
    #[doc(alias = "super_iter_inodes")]
    fn iter_inodes(
        &self,
        which: WalkFilter,
        mut f: impl FnMut(&CacheRef<'_, Self>) -> ControlFlow<()>,
    ) -> ControlFlow<()>
    where
        Self: Sized,
    {
        (0..self.parts()).try_for_each(|part| iter_part(self, part, which, &mut f))
    }

    /// Calls `f` with a reference to each inode, as [`iter_inodes`](Self::iter_inodes) does. `f`
    /// cannot stop the walk.
    fn for_each_inode(&self, which: WalkFilter, mut f: impl FnMut(&Arc<CachedInode<Self::Kind>>))
    where
        Self: Sized,
    {
        let walked = self.iter_inodes(which, |entry| {
            f(entry);
            ControlFlow::Continue(())
        });
        assert!(walked.is_continue(), "nothing stops this walk");
    }

    /// Calls `f` with each inode in a part of the filesystem that has the tag, without taking
    /// references. `f` must not block, and may only rely on the existence of the inode.
    #[doc(alias = "super_iter_inodes_unsafe")]
    fn iter_inodes_unsafe(
        &self,
        part: usize,
        tag: Tag,
        mut f: impl FnMut(Existing<'_, Self::Kind>) -> ControlFlow<()>,
    ) -> ControlFlow<()>
    where
        Self: Sized,
    {
        let mut cursor = 0;
        loop {
            match self.visit(part, cursor, tag, &mut f) {
                WalkStep::Next(next) => cursor = next,
                WalkStep::End => return ControlFlow::Continue(()),
                WalkStep::Stopped => return ControlFlow::Break(()),
            }
        }
    }
}

/// Walks over one part of the filesystem. Takes references to the inodes of a step under the epoch
/// guard of the step, and calls `f` without the guard.
fn iter_part<F: InodeWalk>(
    filesystem: &F,
    part: usize,
    which: WalkFilter,
    f: &mut impl FnMut(&CacheRef<'_, F>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let (mut cursor, mut taken) = (0, Vec::new());
    loop {
        let is_active = filesystem.is_active();
        let step = filesystem.visit(part, cursor, which.tag(), &mut |Existing(entry)| {
            if entry.take_for_walk(which, is_active) {
                taken.push(CacheRef::new(filesystem, Arc::clone(entry)));
            }
            ControlFlow::Continue(())
        });
        let mut going = ControlFlow::Continue(());
        for entry in taken.drain(..) {
            if going.is_continue() {
                going = f(&entry);
            }
        }
        going?;
        match step {
            WalkStep::Next(next) => cursor = next,
            WalkStep::End | WalkStep::Stopped => return ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests;
