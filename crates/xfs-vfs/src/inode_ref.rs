//! References to cached inodes, released when they are dropped.
//!
//! Owns: the guarantee that every reference is released exactly once, on every path out of an
//! operation. Does **not** own the counts. A direct reference is counted in the inode, a sharded
//! reference by its processor slot (`xfs_icache::PerCpuRefs`).

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;

use xfs_icache::{last_ref, release_ref};
use xfs_locks::SlotTally;

use crate::kind::{CacheRef, CachedInode, PerCpuRef, StoredRef};
use crate::mount::Mount;

/// A handle on the mount that an inode belongs to. The mount stays valid as long as the reference
/// that has the handle.
pub trait MountHandle {
    /// Returns the mount.
    fn mount(&self) -> &Mount;
}

impl MountHandle for &Mount {
    fn mount(&self) -> &Mount {
        self
    }
}

/// A reference to a cached inode, released on drop. If the inode then has no name and no other
/// reference, the inactivation thread frees the inode later. [`finish`](Self::finish) releases the
/// reference and frees such an inode at once.
pub struct InodeRef<H: MountHandle> {
    handle: H,
    /// The reference. `None` once it is released.
    held: Option<HeldRef>,
}

/// Where a reference is counted.
enum HeldRef {
    /// The reference is counted in the inode.
    Direct(StoredRef),
    /// The reference is counted by a processor slot: all handles of the slot share one reference to
    /// the inode.
    Sharded(Arc<PerCpuRef>),
}

impl HeldRef {
    #[inline]
    fn inode(&self) -> &Arc<CachedInode> {
        match self {
            Self::Direct(stored) => stored.inode(),
            Self::Sharded(shared) => shared.entry(),
        }
    }
}

impl<H: MountHandle> InodeRef<H> {
    /// Creates a reference from `inode`, a reference to an inode of the mount of `handle`.
    #[inline]
    pub fn new(handle: H, inode: CacheRef<'_>) -> Self {
        Self { handle, held: Some(HeldRef::Direct(inode.store())) }
    }

    /// Takes a reference to an inode that was found in the cache. Returns `None` if the inode is
    /// being evicted or freed.
    #[inline]
    pub fn of_cached(handle: H, inode: &Arc<CachedInode>) -> Option<Self> {
        let mount = handle.mount();
        let held = match mount.refs.acquire(inode, &mount.inode_cache) {
            Some(shared) => HeldRef::Sharded(shared),
            None => HeldRef::Direct(CacheRef::of_found(&mount.inode_cache, inode)?.store()),
        };
        Some(Self { handle, held: Some(held) })
    }

    #[inline]
    fn held(&self) -> &HeldRef {
        self.held.as_ref().expect("a reference is held until it is dropped")
    }

    /// Returns the cached inode.
    #[inline]
    pub fn inode(&self) -> &Arc<CachedInode> {
        self.held().inode()
    }

    /// Returns the handle on the mount.
    #[inline]
    pub fn handle(&self) -> &H {
        &self.handle
    }

    /// Returns the mount.
    #[inline]
    pub fn mount(&self) -> &Mount {
        self.handle.mount()
    }

    /// Returns the counter of opens in the processor slot of a sharded reference. Returns `None`
    /// for a direct reference, whose opens are counted in the inode.
    #[inline]
    pub fn tally(&self) -> Option<&SlotTally> {
        match self.held() {
            HeldRef::Direct(_) => None,
            HeldRef::Sharded(shared) => Some(shared.tally()),
        }
    }

    /// Takes another reference to the inode, and gives the new reference the handle `handle` on the
    /// same mount.
    pub fn share_with<G: MountHandle>(&self, handle: G) -> InodeRef<G> {
        let held = match self.held() {
            HeldRef::Direct(stored) => HeldRef::Direct(stored.share()),
            HeldRef::Sharded(shared) => HeldRef::Sharded(Arc::clone(shared)),
        };
        InodeRef { handle, held: Some(held) }
    }

    /// Moves the reference to another handle on the same mount. If references to the inode are
    /// sharded, the processor slot of the calling thread counts this one from now on.
    #[inline]
    pub fn sharded<G: MountHandle>(mut self, handle: G) -> InodeRef<G> {
        let held = self.held.take().map(|held| {
            let mount = self.handle.mount();
            let HeldRef::Direct(stored) = held else { return held };
            match mount.refs.acquire(stored.inode(), &mount.inode_cache) {
                Some(shared) => {
                    drop(CacheRef::restore(&mount.inode_cache, stored));
                    HeldRef::Sharded(shared)
                }
                None => HeldRef::Direct(stored),
            }
        });
        InodeRef { handle, held }
    }

    /// Releases the reference at the end of an operation. If the inode then has no name and no
    /// other reference, the inode is freed before this function returns.
    pub fn finish(mut self) {
        finish(self.handle.mount(), self.held.take());
    }

    /// Releases the reference as [`finish`](Self::finish) does, for a caller outside of an
    /// operation. On a frozen volume, an inode without names is not freed before this function
    /// returns: the inactivation thread frees it after the thaw.
    pub fn finish_unless_frozen(mut self) {
        if let Some(_guard) = self.handle.mount().try_write_guard() {
            finish(self.handle.mount(), self.held.take());
        }
    }

    /// Gives up the reference in order to free the inode, if the reference is direct and the only
    /// one. Returns whether it was given up. If so, the owner of this `InodeRef` calls
    /// [`take_out_claimed`](Self::take_out_claimed) next.
    fn claim(&self) -> bool {
        match self.held() {
            HeldRef::Direct(stored) => stored.claim(),
            HeldRef::Sharded(_) => false,
        }
    }

    /// Removes an inode from the inode cache. The reference to it was [claimed](Self::claim).
    fn take_out_claimed(mut self) {
        match self.held.take() {
            Some(HeldRef::Direct(stored)) => self.mount().inode_cache.take_out_claimed(stored),
            _ => unreachable!("only a direct reference is claimed"),
        }
    }
}

/// A reference to an inode from which the current operation removes a name. The reference is
/// [finished](InodeRef::finish) on drop, on error paths too: if the inode then has no name and no
/// other reference, the inode is freed before the operation ends.
pub(crate) struct OperandRef<'c> {
    /// The reference. `None` once it is finished or returned.
    inode: Option<InodeRef<&'c Mount>>,
    /// Whether the reference was given up because the operation itself frees the inode.
    is_claimed: Cell<bool>,
}

impl<'c> OperandRef<'c> {
    pub(crate) fn new(inode: InodeRef<&'c Mount>) -> Self {
        Self { inode: Some(inode), is_claimed: Cell::new(false) }
    }

    fn inode_ref(&self) -> &InodeRef<&'c Mount> {
        self.inode.as_ref().expect("an operand is held until it is dropped")
    }

    /// Turns this value into a reference that may live longer than the operation. The reference is
    /// not finished at the end of the operation.
    pub(crate) fn into_inode_ref(mut self) -> InodeRef<&'c Mount> {
        assert!(!self.is_claimed.get(), "a claimed reference was given up");
        self.inode.take().expect("an operand is held until it is dropped")
    }

    /// Gives up the reference in order to free the inode, if no other reference exists. Returns
    /// whether it was given up. If so, no thread can get a reference to the inode any more, even if
    /// the operation fails.
    pub(crate) fn claim(&self) -> bool {
        let is_claimed = self.inode_ref().claim();
        self.is_claimed.set(is_claimed);
        is_claimed
    }
}

impl Deref for OperandRef<'_> {
    type Target = Arc<CachedInode>;

    fn deref(&self) -> &Arc<CachedInode> {
        self.inode_ref().inode()
    }
}

impl Drop for OperandRef<'_> {
    fn drop(&mut self) {
        let Some(inode) = self.inode.take() else { return };
        match self.is_claimed.get() {
            true => inode.take_out_claimed(),
            false => inode.finish(),
        }
    }
}

/// Releases a reference. Frees the inode if that was its last reference and it has no name.
fn finish(mount: &Mount, held: Option<HeldRef>) {
    let last = match held {
        Some(HeldRef::Direct(stored)) => Some(stored),
        Some(HeldRef::Sharded(shared)) => last_ref(shared),
        None => None,
    };
    if let Some(last) = last {
        mount.collapse_refs(last.inode());
        mount.inode_cache.finish_with(last);
    }
}

impl<H: MountHandle + Clone> Clone for InodeRef<H> {
    fn clone(&self) -> Self {
        self.share_with(self.handle.clone())
    }
}

impl<H: MountHandle> Deref for InodeRef<H> {
    type Target = Arc<CachedInode>;

    #[inline]
    fn deref(&self) -> &Arc<CachedInode> {
        self.inode()
    }
}

impl<H: MountHandle> Drop for InodeRef<H> {
    #[inline]
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        let mount = self.handle.mount();
        match held {
            HeldRef::Direct(stored) => drop(CacheRef::restore(&mount.inode_cache, stored)),
            HeldRef::Sharded(shared) => release_ref(shared, &mount.inode_cache),
        }
    }
}
