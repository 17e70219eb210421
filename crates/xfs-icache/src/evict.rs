//! Counts and evicts cached inodes, by walks over all of them. Also evicts all inodes of a volume
//! that is being unmounted.

use std::ops::ControlFlow;
use std::sync::Arc;

use xfs_sync::{AtomicUsize, Ordering, Volume};

use crate::cache_ref::TakenMarks;
use crate::cached_inode::{CachedInode, Phase, SweepOutcome};
use crate::filter::{Tag, WalkFilter};
use crate::inode_walk::InodeWalk;
use crate::kind::{InodeKind, InodeWatch};
use crate::marks::Mark;
use crate::walk_step::{Existing, WalkStep, WalkVisitor};

/// The most threads that evict in parallel.
const MOST_THREADS: usize = 16;

/// Numbers of cached inodes, by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheCounts {
    /// Inodes that have references or are under construction.
    pub live: u64,
    /// Inodes without a reference, which stay as long as the cache has room.
    pub reclaimable: u64,
    /// Inodes that are being evicted.
    pub reclaiming: u64,
    /// Inodes that have neither a name nor a reference, and are freed next.
    pub needs_inactivation: u64,
}

impl CacheCounts {
    /// Returns the number of all cached inodes.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.live + self.reclaimable + self.reclaiming + self.needs_inactivation
    }
}

/// Counts the cached inodes of a filesystem.
pub fn count_inodes(filesystem: &impl InodeWalk) -> CacheCounts {
    let mut counts = CacheCounts::default();
    for part in 0..filesystem.parts() {
        let walked = filesystem.iter_inodes_unsafe(part, Tag::Present, |Existing(entry)| {
            *match entry.phase() {
                Phase::New | Phase::Live => &mut counts.live,
                Phase::Reclaimable => &mut counts.reclaimable,
                Phase::Reclaiming => &mut counts.reclaiming,
                Phase::NeedsInactivation => &mut counts.needs_inactivation,
            } += 1;
            ControlFlow::Continue(())
        });
        assert!(walked.is_continue(), "nothing stops a count");
    }
    counts
}

/// Runs one step of a walk, and evicts each inode for which `sweep` returns `Evicted`. Returns how
/// the step ended, and the number of evicted inodes.
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

/// Evicts all inodes without a reference in one part of the filesystem, such as an allocation
/// group. Returns the number of evicted inodes.
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

/// Evicts all inodes that have no reference now. Threads evict several parts of the filesystem in
/// parallel. Returns the number of evicted inodes.
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

/// Evicts inodes until every cached inode has a reference. Returns the number of evicted inodes.
/// The filesystem must be inactive (it is being taken down), so that an inode is evicted when its
/// last reference is released.
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

/// Removes the marks (watches and keepers) for which `is_wanted` returns `true`, and releases their
/// references. Finds the marks by a walk over referenced inodes.
fn release_marks<F: InodeWalk>(
    filesystem: &F,
    is_wanted: impl Fn(&Mark<<F::Kind as InodeKind>::Watch>) -> bool,
) {
    filesystem.for_each_inode(WalkFilter::Referenced, |entry| {
        for mark in TakenMarks::take(filesystem, entry, &is_wanted).marks() {
            if let Mark::Watch(watch) = mark {
                watch.close();
            }
        }
    });
}

/// Evicts the inodes of an inactive filesystem: first those without a reference, then those that
/// only watches hold, then those that only keepers hold. Inodes with other references stay.
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
