//! Eviction, counting and taking down, by walks over all cached inodes.

use std::ops::ControlFlow;
use std::sync::Arc;

use xfs_sync::{AtomicUsize, Ordering, Volume};

use crate::cached_inode::{CachedInode, Phase, SweepOutcome};
use crate::filter::{Tag, WalkFilter};
use crate::inode_walk::InodeWalk;
use crate::kind::{InodeKind, InodeWatch};
use crate::marks::Mark;
use crate::walk_step::{Existing, WalkStep, WalkVisitor};

/// The most threads that evict in parallel.
const MOST_THREADS: usize = 16;

/// Cached inodes by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheCounts {
    /// Referenced, or under construction.
    pub live: u64,
    /// Unreferenced: they stay as long as there is room.
    pub reclaimable: u64,
    /// On their way out.
    pub reclaiming: u64,
    /// Without a name and without a reference: they are freed next.
    pub needs_inactivation: u64,
}

impl CacheCounts {
    /// Returns the number of all cached inodes.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.live + self.reclaimable + self.reclaiming + self.needs_inactivation
    }
}

/// Counts the cached inodes.
pub fn count_inodes(filesystem: &impl InodeWalk) -> CacheCounts {
    let mut counts = CacheCounts::default();
    for part in 0..filesystem.parts() {
        let _ = filesystem.iter_inodes_unsafe(part, Tag::Present, |Existing(entry)| {
            *match entry.phase() {
                Phase::New | Phase::Live => &mut counts.live,
                Phase::Reclaimable => &mut counts.reclaimable,
                Phase::Reclaiming => &mut counts.reclaiming,
                Phase::NeedsInactivation => &mut counts.needs_inactivation,
            } += 1;
            ControlFlow::Continue(())
        });
    }
    counts
}

/// Evicts unreferenced inodes among those that one step of a walk shows: all of them, or those that
/// were not used since the last sweep. Returns how the step ended, and how many inodes were
/// evicted.
pub(crate) fn evict_step<F: InodeWalk>(
    filesystem: &F,
    walk: impl FnOnce(&mut WalkVisitor<'_, F::Kind>) -> WalkStep,
    mut sweep: impl FnMut(&CachedInode<F::Kind>) -> SweepOutcome,
) -> (WalkStep, u64) {
    let mut dispose = Vec::new();
    let step = walk(&mut |Existing(entry)| {
        if sweep(entry) == SweepOutcome::Evicted {
            dispose.push(Arc::clone(entry));
        }
        ControlFlow::Continue(())
    });
    dispose.iter().for_each(|entry| filesystem.remove(entry));
    (step, dispose.len() as u64)
}

/// Evicts all unreferenced inodes of a part. Returns how many.
fn evict_part<F: InodeWalk>(filesystem: &F, part: usize) -> u64 {
    let (mut cursor, mut evicted) = (0, 0);
    loop {
        let walk =
            |visit: &mut WalkVisitor<'_, F::Kind>| filesystem.visit(part, cursor, Tag::Idle, visit);
        let (step, count) = evict_step(filesystem, walk, |entry| entry.evict());
        evicted += count;
        match step {
            WalkStep::Next(next) => cursor = next,
            WalkStep::End | WalkStep::Stopped => return evicted,
        }
    }
}

/// Evicts all inodes that are unreferenced now, several parts in parallel. Returns how many.
#[doc(alias = "drop_caches")]
pub fn drop_idle(filesystem: &impl InodeWalk) -> u64 {
    let parts = filesystem.parts();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::<Volume>::new(0);
    let work = || {
        let claim = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|part| *part < parts);
        std::iter::from_fn(claim).map(|part| evict_part(filesystem, part)).sum::<u64>()
    };
    let threads = processors.min(parts).min(MOST_THREADS);
    if threads < 2 {
        return work();
    }
    std::thread::scope(|scope| {
        // If fewer threads start, this thread does the rest.
        let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
        let workers: Vec<_> = (1..threads).map_while(spawn).collect();
        let mine = work();
        let theirs = workers.into_iter().map(|worker| match worker.join() {
            Ok(count) => count,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        mine + theirs.sum::<u64>()
    })
}

/// Evicts until no inode is unreferenced. The filesystem is inactive, so that an inode which loses
/// its last reference does not stay.
#[doc(alias = "evict_inodes")]
pub fn evict_all(filesystem: &impl InodeWalk) -> u64 {
    assert!(!filesystem.is_active(), "eviction of a filesystem that is in use");
    let mut evicted = 0;
    loop {
        match drop_idle(filesystem) {
            0 => return evicted,
            count => evicted += count,
        }
    }
}

/// Releases all marks of one kind, by a walk over referenced inodes.
fn release_marks<F: InodeWalk>(
    filesystem: &F,
    is_wanted: impl Fn(&Mark<<F::Kind as InodeKind>::Watch>) -> bool,
) {
    let _ = filesystem.iter_inodes(WalkFilter::Referenced, |entry| {
        for mark in entry.take_marks(&is_wanted) {
            if let Mark::Watch(watch) = mark {
                watch.close();
            }
            filesystem.release(Arc::clone(entry));
        }
        ControlFlow::Continue(())
    });
}

/// Takes down the inodes of an inactive filesystem: first the unreferenced ones, then those that
/// watches hold, then those that keepers hold. Inodes with other references are left.
#[doc(alias = "generic_shutdown_super")]
pub fn take_down(filesystem: &impl InodeWalk) {
    evict_all(filesystem);
    release_watches(filesystem);
    release_keepers(filesystem);
}

#[doc(alias = "fsnotify_sb_delete")]
pub(crate) fn release_watches(filesystem: &impl InodeWalk) {
    release_marks(filesystem, Mark::is_watch);
}

#[doc(alias = "security_sb_delete")]
pub(crate) fn release_keepers(filesystem: &impl InodeWalk) {
    release_marks(filesystem, |mark| matches!(mark, Mark::Keeper));
}
