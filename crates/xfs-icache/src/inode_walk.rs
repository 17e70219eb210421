//! The inodes of a filesystem that are in memory, as those see them who have to look at all of them.
//!
//! Owns: the two iterators, and their users. Does **not** own the inodes: a [`InodeWalk`] walks over
//! its own cache, or has the generic walk over a list ([`InodeList`]).
//!
//! | iterator | gives | may block | for |
//! |---|---|---|---|
//! | [`iter_inodes`](Filesystem::iter_inodes) | a use of each inode, no lock held | yes | everybody |
//! | [`iter_inodes_unsafe`](Filesystem::iter_inodes_unsafe) | inodes that exist while they are looked at | no | eviction, statistics |
//!
//! Nothing here is shared by the volume, unless a filesystem has a list of all inodes. Both iterators
//! go by steps of at most 64 inodes, and each step takes its guard anew.
//!
//! # Invariants
//!
//! - **I1** A walk goes forward: its cursor comes from keys that were looked up, not from what an
//!   inode says. So it ends.
//! - **I2** A walk sees every inode that is in memory from its start to its end. Of others it may see
//!   some.
//! - **I3** Who stops a walk stops all of it, also where its parts run beside each other.
//! - **I4** Once a filesystem is not active any more, an inode without a user gets none by a walk, and
//!   one that loses its last user goes at once.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::cached_inode::CachedInode;
use crate::filter::{Tag, WalkFilter};
use crate::inode_list::InodeList;
use crate::kind::InodeKind;
use crate::walk_step::{Existing, WalkStep, WalkVisitor};

/// What has inodes in memory.
pub trait InodeWalk: Sync {
    /// What it keeps of an inode.
    type Kind: InodeKind;

    /// Parts that can be walked beside each other.
    fn parts(&self) -> usize {
        1
    }

    /// The list of all inodes, of a filesystem that has one.
    fn list(&self) -> Option<&InodeList<Self::Kind>>;

    /// One step of a walk over a part, under one guard. A filesystem that finds its inodes by other
    /// means than a list does it itself.
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

    /// Whether the filesystem is in use: not being taken down.
    fn is_active(&self) -> bool;

    /// Gives up a use.
    fn release(&self, entry: Arc<CachedInode<Self::Kind>>);

    /// Takes an inode out that was set to leave.
    fn remove(&self, entry: &Arc<CachedInode<Self::Kind>>);

    /// Hands each inode to `f`, in use, with no lock held. What `f` gives up, others may evict; `f`
    /// may block. It may stop the walk.
    #[doc(alias = "super_iter_inodes")]
    fn iter_inodes(
        &self,
        which: WalkFilter,
        mut f: impl FnMut(&Arc<CachedInode<Self::Kind>>) -> ControlFlow<()>,
    ) -> ControlFlow<()>
    where
        Self: Sized,
    {
        (0..self.parts()).try_for_each(|part| iter_part(self, part, which, &mut f))
    }

    /// Shows each inode of a part that bears the tag to `f`, which must not block, and knows no more
    /// than that the inode exists.
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

/// The safe walk over one part: the inodes of a step are taken under its guard, and handed on
/// without it.
fn iter_part<F: InodeWalk>(
    filesystem: &F,
    part: usize,
    which: WalkFilter,
    f: &mut impl FnMut(&Arc<CachedInode<F::Kind>>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let (mut cursor, mut taken) = (0, Vec::new());
    loop {
        let is_active = filesystem.is_active();
        let step = filesystem.visit(part, cursor, which.tag(), &mut |Existing(entry)| {
            if entry.take_for_walk(which, is_active) {
                taken.push(Arc::clone(entry));
            }
            ControlFlow::Continue(())
        });
        let mut going = ControlFlow::Continue(());
        for entry in taken.drain(..) {
            if going.is_continue() {
                going = f(&entry);
            }
            filesystem.release(entry);
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
