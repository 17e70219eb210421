//! References to cached inodes. Each reference is a value that gives its count back exactly once.
//!
//! Owns: the rule that each counted reference is one value. Does **not** own the counts
//! (`cached_inode`), or the work that follows a release ([`InodeCache`], [`Small`](crate::Small)).
//!
//! ```text
//!  InodeCache::take, insert, iter_inodes …
//!        │
//!        ▼          store              in an inode of a handle, a processor slot, a directory
//!   CacheRef ─────────────────► StoredRef
//!        │   ◄─────────────────     │
//!        │ drop    restore          │ finish_with
//!        ▼                          ▼
//!   InodeWalk::release         InodeCache::finish_with
//! ```
//!
//! # Invariants
//!
//! - **I1** Each reference that is counted in an inode is one value: a [`CacheRef`], a
//!   [`StoredRef`], a [`MarkRef`], or a mark of the inode. Code outside of this crate cannot count
//!   a reference without such a value.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::cached_inode::{CachedInode, Keep};
use crate::inode_cache::InodeCache;
use crate::inode_walk::InodeWalk;
use crate::kind::InodeKind;
use crate::marks::Mark;
use crate::store::InodeStore;

/// A reference to a cached inode, released on drop. The inode stays cached at least until the
/// reference is released.
pub struct CacheRef<'a, W: InodeWalk> {
    cache: &'a W,
    /// The inode. `None` once the reference was stored or finished.
    entry: Option<Arc<CachedInode<W::Kind>>>,
}

/// A reference to a cached inode, stored where no borrow of the cache can be, such as in the state
/// of the mount that owns the cache. [`CacheRef::restore`] turns it into a reference that is
/// released on drop.
///
/// Dropping a `StoredRef` does not release the reference. So a `StoredRef` is dropped only together
/// with the cache. The test `stored_reference_keeps_its_inode_until_it_is_restored` shows that no
/// other drop releases it. A closed mount has released each stored reference:
/// `MountThreads::close` of `xfs_vfs` evicts all inodes and then drops the cache.
#[must_use = "a stored reference keeps its inode cached until it is restored"]
pub struct StoredRef<K: InodeKind>(Arc<CachedInode<K>>);

impl<K: InodeKind> StoredRef<K> {
    /// Returns the inode.
    #[inline]
    pub fn inode(&self) -> &Arc<CachedInode<K>> {
        &self.0
    }

    /// Takes another reference to the inode.
    pub fn share(&self) -> Self {
        self.0.share();
        Self(Arc::clone(&self.0))
    }

    /// If this reference is the only one, gives up the reference in order to free the inode.
    /// Returns whether the reference was given up. If so, the owner passes this value to
    /// [`InodeCache::take_out_claimed`], and no thread gets a reference to the inode any more.
    pub fn claim(&self) -> bool {
        self.0.claim()
    }

    /// Returns the inode, and leaves the release of the reference to the caller.
    pub(crate) fn into_counted(self) -> Arc<CachedInode<K>> {
        self.0
    }
}

impl<'a, W: InodeWalk> CacheRef<'a, W> {
    /// Makes a reference from a count that the caller has taken in the inode.
    #[inline]
    pub(crate) fn new(cache: &'a W, entry: Arc<CachedInode<W::Kind>>) -> Self {
        Self { cache, entry: Some(entry) }
    }

    /// Takes a reference to an inode that was found in the cache. Returns `None` if the inode is
    /// being evicted or freed.
    #[inline]
    pub fn of_found(cache: &'a W, entry: &Arc<CachedInode<W::Kind>>) -> Option<Self> {
        entry.take(Keep::Cached).is_here().then(|| Self::new(cache, Arc::clone(entry)))
    }

    /// Takes another reference to an inode to which the caller has a reference.
    pub fn of_referenced(cache: &'a W, entry: &Arc<CachedInode<W::Kind>>) -> Self {
        entry.share();
        Self::new(cache, Arc::clone(entry))
    }

    /// Turns a stored reference into one that is released on drop. `cache` is the cache of the
    /// inode.
    #[inline]
    pub fn restore(cache: &'a W, stored: StoredRef<W::Kind>) -> Self {
        Self::new(cache, stored.0)
    }

    /// Stores the reference without a borrow of the cache.
    #[inline]
    pub fn store(mut self) -> StoredRef<W::Kind> {
        StoredRef(self.entry.take().expect(IS_HELD))
    }

    /// Returns the inode.
    #[inline]
    pub fn inode(&self) -> &Arc<CachedInode<W::Kind>> {
        self.entry.as_ref().expect(IS_HELD)
    }
}

/// The message of the panic that occurs if a reference is used after its release.
const IS_HELD: &str = "a reference is held until it is dropped (I1 of `xfs_icache::cache_ref`)";

impl<S: InodeStore> CacheRef<'_, InodeCache<S>> {
    /// Releases the reference at the end of an operation. If the inode must then be freed, this
    /// function frees it before it returns.
    pub fn finish(self) {
        let cache = self.cache;
        cache.finish_with(self.store());
    }
}

impl<W: InodeWalk> Clone for CacheRef<'_, W> {
    fn clone(&self) -> Self {
        Self::of_referenced(self.cache, self.inode())
    }
}

impl<W: InodeWalk> Deref for CacheRef<'_, W> {
    type Target = Arc<CachedInode<W::Kind>>;

    #[inline]
    fn deref(&self) -> &Arc<CachedInode<W::Kind>> {
        self.inode()
    }
}

impl<W: InodeWalk> Drop for CacheRef<'_, W> {
    #[inline]
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            self.cache.release(StoredRef(entry));
        }
    }
}

impl<W: InodeWalk> fmt::Debug for CacheRef<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CacheRef").field(&self.inode().number()).finish()
    }
}

impl<K: InodeKind> fmt::Debug for StoredRef<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoredRef").field(&self.0.number()).finish()
    }
}

/// A reference that keeps an inode cached, but does not delay its deletion: an inode without a name
/// is freed when only such references are left. Marks (watches and keepers) hold references of this
/// kind, and the record locks of a file together hold one. Dropping this value releases the
/// reference.
pub struct MarkRef<'a, W: InodeWalk> {
    cache: &'a W,
    /// The inode. `None` once the reference was [left](MarkRef::leave) with the locks, or became an
    /// [ordinary](MarkRef::into_reference) one.
    entry: Option<&'a Arc<CachedInode<W::Kind>>>,
}

impl<'a, W: InodeWalk> MarkRef<'a, W> {
    /// Takes a reference. The caller has a reference to the inode.
    pub fn take(cache: &'a W, entry: &'a Arc<CachedInode<W::Kind>>) -> Self {
        entry.share_as_mark();
        Self { cache, entry: Some(entry) }
    }

    /// Leaves the reference with the file locks of the inode, which own it from now on.
    pub fn leave(mut self) {
        self.entry = None;
    }

    /// Turns the reference of a mark into an ordinary reference, released on drop.
    pub(crate) fn into_reference(mut self) -> CacheRef<'a, W> {
        let entry = self.entry.take().expect(IS_HELD);
        entry.unmark();
        CacheRef::new(self.cache, Arc::clone(entry))
    }

    /// Owns again the reference that was [left](Self::leave) with the file locks of the inode. The
    /// locks have just reported that they no longer need the reference.
    pub fn resume(cache: &'a W, entry: &'a Arc<CachedInode<W::Kind>>) -> Self {
        Self { cache, entry: Some(entry) }
    }
}

impl<W: InodeWalk> Drop for MarkRef<'_, W> {
    fn drop(&mut self) {
        if let Some(entry) = self.entry {
            entry.unmark();
            drop(CacheRef::new(self.cache, Arc::clone(entry)));
        }
    }
}

/// Marks that were removed from their inode. Dropping this value releases the references that the
/// marks held.
pub struct TakenMarks<'a, W: InodeWalk> {
    cache: &'a W,
    entry: &'a Arc<CachedInode<W::Kind>>,
    marks: Vec<Mark<<W::Kind as InodeKind>::Watch>>,
}

impl<'a, W: InodeWalk> TakenMarks<'a, W> {
    /// Removes the marks of an inode for which `is_wanted` returns `true`.
    pub fn take(
        cache: &'a W,
        entry: &'a Arc<CachedInode<W::Kind>>,
        is_wanted: impl Fn(&Mark<<W::Kind as InodeKind>::Watch>) -> bool,
    ) -> Self {
        Self { cache, entry, marks: entry.take_marks(is_wanted) }
    }

    /// Returns the removed marks.
    pub fn marks(&self) -> &[Mark<<W::Kind as InodeKind>::Watch>] {
        &self.marks
    }

    /// Removes the last of the marks, and returns the reference that it held.
    pub(crate) fn pop_reference(&mut self) -> Option<CacheRef<'a, W>> {
        self.marks.pop().map(|_| CacheRef::new(self.cache, Arc::clone(self.entry)))
    }
}

impl<W: InodeWalk> Drop for TakenMarks<'_, W> {
    fn drop(&mut self) {
        while let Some(reference) = self.pop_reference() {
            drop(reference);
        }
    }
}

#[cfg(test)]
mod tests;
