//! The inodes of a filesystem that are in memory, as those see them who have to look at all of them.
//!
//! Owns: the two iterators, and their users. Does **not** own the inodes: a [`Filesystem`] walks over
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

mod evict;
mod list;
mod marks;
mod small;

use std::ops::ControlFlow;
use std::sync::Arc;

pub use evict::CacheCounts;
pub(crate) use evict::{count_inodes, drop_idle, evict_all, evict_step};
pub(crate) use list::InodeList;
pub(crate) use marks::{Mark, Marks, take_down};
pub(crate) use small::{Small, SmallContents, SmallInode, SmallNames};

use crate::table::{Entry, Inode, Tag};

/// Inodes that the safe iterator looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All that are in memory, but for those on their way out.
    Cached,
    /// Those that somebody else uses already.
    #[doc(alias = "INO_ITER_REFERENCED")]
    Referenced,
    /// Those that have something to write, or blocks past their end that they do not need.
    Unsettled,
}

impl Which {
    const fn tag(self) -> Tag {
        match self {
            Self::Cached | Self::Referenced => Tag::Present,
            Self::Unsettled => Tag::Unsettled,
        }
    }
}

/// An inode that exists as long as this is held, which is not beyond the call that gives it: whoever
/// wants more asks the inode.
pub(crate) struct Existing<'guard, I>(pub(crate) &'guard Arc<Entry<I>>);

/// What is done with each inode of a step. It must not block: the guard is held.
pub(crate) type Visit<'a, I> = dyn FnMut(Existing<'_, I>) -> ControlFlow<()> + 'a;

/// What a step of a walk has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The next one starts here.
    On(u64),
    /// There is nothing behind.
    End,
    /// The visitor does not want more.
    Stopped,
}

/// What has inodes in memory.
pub(crate) trait Filesystem: Sync {
    /// What its inodes are.
    type Inode: Inode;

    /// Parts that can be walked beside each other.
    fn parts(&self) -> usize {
        1
    }

    /// The list of all inodes, of a filesystem that has one.
    fn list(&self) -> Option<&InodeList<Self::Inode>>;

    /// One step of a walk over a part, under one guard. A filesystem that finds its inodes by other
    /// means than a list does it itself.
    #[doc(alias = "iter_vfs_inodes")]
    fn visit(
        &self,
        _part: usize,
        cursor: u64,
        _tag: Tag,
        visit: &mut Visit<'_, Self::Inode>,
    ) -> Step {
        self.list().map_or(Step::End, |list| list.visit(cursor, visit))
    }

    /// Whether the filesystem is in use: not being taken down.
    fn is_active(&self) -> bool;

    /// Gives up a use.
    fn release(&self, entry: Arc<Entry<Self::Inode>>);

    /// Takes an inode out that was set to leave.
    fn remove(&self, entry: &Arc<Entry<Self::Inode>>);

    /// Hands each inode to `f`, in use, with no lock held. What `f` gives up, others may evict; `f`
    /// may block. It may stop the walk.
    #[doc(alias = "super_iter_inodes")]
    fn iter_inodes(
        &self,
        which: Which,
        mut f: impl FnMut(&Arc<Entry<Self::Inode>>) -> ControlFlow<()>,
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
        mut f: impl FnMut(Existing<'_, Self::Inode>) -> ControlFlow<()>,
    ) -> ControlFlow<()>
    where
        Self: Sized,
    {
        let mut cursor = 0;
        loop {
            match self.visit(part, cursor, tag, &mut f) {
                Step::On(next) => cursor = next,
                Step::End => return ControlFlow::Continue(()),
                Step::Stopped => return ControlFlow::Break(()),
            }
        }
    }
}

/// The safe walk over one part: the inodes of a step are taken under its guard, and handed on
/// without it.
fn iter_part<F: Filesystem>(
    filesystem: &F,
    part: usize,
    which: Which,
    f: &mut impl FnMut(&Arc<Entry<F::Inode>>) -> ControlFlow<()>,
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
            Step::On(next) => cursor = next,
            Step::End | Step::Stopped => return ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests;
