//! The dentry cache. A path walk that finds a name in this cache takes no lock and reads no blocks
//! of a directory.
//!
//! Owns: the meaning of names that were looked up twice, missing names included, and how many
//! dentries stay. Does **not** own the directories, or the permission to search them.
//!
//! ```text
//!  dentries   (directory, name) ─► inode or nothing     read without a lock, under an epoch
//!  rings      keys in order of insertion, one ring for each slot: which dentries stay
//!  seen_once  hashes of names that were looked up once, for each slot
//! ```
//!
//! # Invariants
//!
//! - **I1** A lookup inserts a name under the directory's shared latch, with the meaning that the
//!   directory gives it. A transaction that changes the meaning removes the name under the
//!   exclusive latch. So the cache and the directory agree, except while a change is in progress,
//!   when no caller has learnt of the change yet. Two names that change together are both removed
//!   before either change is committed.
//! - **I2** A dentry is marked dead before it is removed, for whatever reason. An unlink that does
//!   not find its name in the cache relies on this rule. A reader that finds an inode through a
//!   dentry checks, after it has taken a reference, whether the dentry is dead. If the dentry is
//!   not dead, the inode number does not belong to another file yet, since a number is reused only
//!   after all names are removed.
//! - A directory without entries has only negative dentries. These stay true for the next directory
//!   that gets the same inode number.
//! - **I4** There are at most [`MAX_DENTRIES`], and a few more for each thread. A new dentry
//!   replaces a dentry that was not used since the last sweep over it.
//!
//! Lock order: the latch of a directory, then a ring.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use papaya::{Equivalent, HashMap, HashMapRef, LocalGuard};
use xfs_buffer::AddressHash;
use xfs_format::InodeNumber;
use xfs_sync::{AtomicBool, AtomicU64, Mutex, Object, Ordering, Slot, Slots};

/// The most dentries that stay cached. This number of dentries takes about 10 MiB.
const MAX_DENTRIES: usize = 1 << 16;
/// Number of hashes that each processor slot remembers. Each hash is that of a name that was looked
/// up for the first time. A name is cached at its second lookup.
const SEEN_ONCE: usize = 1 << 10;
/// The most dentries that an insertion into a full ring visits to find one that was not used. The
/// insertion evicts that dentry or, if all were used, the oldest one.
const SWEEP_STEPS: usize = 8;

/// The key of a dentry: a directory, and a name in it.
struct DentryKey {
    directory: InodeNumber,
    name: Box<[u8]>,
}

/// A borrowed [`DentryKey`].
#[derive(Clone, Copy, PartialEq, Eq)]
struct DentryKeyRef<'a> {
    directory: InodeNumber,
    name: &'a [u8],
}

impl DentryKey {
    fn borrowed(&self) -> DentryKeyRef<'_> {
        DentryKeyRef { directory: self.directory, name: &self.name }
    }
}

impl PartialEq for DentryKey {
    fn eq(&self, other: &Self) -> bool {
        self.borrowed() == other.borrowed()
    }
}

impl Eq for DentryKey {}

impl Hash for DentryKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.borrowed().hash(state);
    }
}

impl Hash for DentryKeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // In words, because hashing dominates a lookup. The last word holds the length of the
        // name's tail.
        state.write_u64(self.directory.0);
        let (words, rest) = self.name.as_chunks();
        words.iter().for_each(|word| state.write_u64(u64::from_be_bytes(*word)));
        let rest = rest.iter().fold(rest.len() as u64, |word, byte| word << 8 | u64::from(*byte));
        state.write_u64(rest);
    }
}

impl Equivalent<Arc<DentryKey>> for DentryKeyRef<'_> {
    fn equivalent(&self, key: &Arc<DentryKey>) -> bool {
        *self == key.borrowed()
    }
}

/// The cached meaning of a name: its inode, or that the name does not exist.
pub struct Dentry {
    inode: Option<InodeNumber>,
    /// Set before the dentry is removed. A reader that has found the dentry can therefore see that
    /// its meaning may be wrong (I2).
    dead: AtomicBool<Object>,
    /// Whether a lookup used the dentry since the last sweep over it.
    used: AtomicBool<Object>,
}

impl Dentry {
    /// Returns the inode that the name means, or `None` if the name does not exist.
    pub fn inode(&self) -> Option<InodeNumber> {
        self.inode
    }

    /// Returns whether the dentry was removed or is about to be, so that its meaning may be wrong
    /// (I2).
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    fn kill(&self) {
        self.dead.store(true, Ordering::Release);
    }
}

type Map = HashMap<Arc<DentryKey>, Dentry, AddressHash>;
type PinnedMap<'a> = HashMapRef<'a, Arc<DentryKey>, Dentry, AddressHash, LocalGuard<'a>>;

/// A view of the cache for lookups. The view pins an epoch, so the dentries that it finds stay
/// readable while the view exists.
pub struct DentryReader<'a>(PinnedMap<'a>);

impl DentryReader<'_> {
    /// Returns the dentry of a name, or `None` if the name is not cached.
    pub fn find(&self, directory: InodeNumber, name: &[u8]) -> Option<&Dentry> {
        let dentry = self.0.get(&DentryKeyRef { directory, name })?;
        if !dentry.used.load(Ordering::Relaxed) {
            dentry.used.store(true, Ordering::Relaxed);
        }
        Some(dentry)
    }
}

/// The dentry cache of a volume.
pub struct DentryCache {
    dentries: Map,
    /// The hasher of the map, which also hashes names for `seen_once`.
    hasher: AddressHash,
    rings: Slots<Mutex<VecDeque<Arc<DentryKey>>, Slot>>,
    seen_once: Slots<Box<[AtomicU64<Slot>]>>,
    most_per_ring: usize,
}

impl Default for DentryCache {
    fn default() -> Self {
        Self::new()
    }
}

impl DentryCache {
    /// Returns an empty cache of the usual size.
    #[must_use]
    pub fn new() -> Self {
        Self::with_most(MAX_DENTRIES)
    }

    fn with_most(most: usize) -> Self {
        let rings = Slots::new(Mutex::default);
        let most_per_ring = (most / rings.iter().len()).max(1);
        let seen_once = Slots::new(|| (0..SEEN_ONCE).map(|_| AtomicU64::default()).collect());
        let hasher = AddressHash::new();
        Self { dentries: Map::with_hasher(hasher.clone()), hasher, rings, seen_once, most_per_ring }
    }

    /// Returns a view of the cache, for lookups of the calling thread.
    pub fn reader(&self) -> DentryReader<'_> {
        DentryReader(self.dentries.pin())
    }

    /// Caches the result of looking a name up, if the per-CPU slot of this thread remembers an
    /// earlier lookup of the name. Otherwise only remembers this lookup. The caller holds the latch
    /// of the directory in shared mode (I1).
    pub fn note_lookup(&self, directory: InodeNumber, name: &[u8], inode: Option<InodeNumber>) {
        let hash = self.hasher.hash_one(DentryKeyRef { directory, name }) | 1;
        let Some(seen_once) = self.seen_once.mine().get(hash as usize / 2 % SEEN_ONCE) else {
            return;
        };
        if seen_once.load(Ordering::Relaxed) != hash {
            seen_once.store(hash, Ordering::Relaxed);
            return;
        }
        let key = Arc::new(DentryKey { directory, name: name.into() });
        let (dead, used) = (AtomicBool::new(false), AtomicBool::new(false));
        let dentries = self.dentries.pin();
        if dentries.try_insert(Arc::clone(&key), Dentry { inode, dead, used }).is_err() {
            return;
        }
        let mut ring = self.rings.mine().lock();
        ring.push_back(key);
        for _ in 0..SWEEP_STEPS {
            if ring.len() <= self.most_per_ring {
                return;
            }
            let Some(oldest) = ring.pop_front() else { return };
            let stays = dentries.get(&oldest).is_some_and(|name| {
                let was_used = name.used.load(Ordering::Relaxed);
                name.used.store(false, Ordering::Relaxed);
                was_used
            });
            if stays {
                ring.push_back(oldest);
            } else {
                remove(&dentries, &oldest.borrowed());
            }
        }
        // All were used: the oldest goes.
        if let Some(oldest) = ring.pop_front() {
            remove(&dentries, &oldest.borrowed());
        }
    }

    /// Removes the dentry of a name whose meaning changes. The caller holds the exclusive latch of
    /// the directory, and keeps it until the change is made (I1). A directory whose names were all
    /// removed keeps only negative dentries.
    pub fn invalidate(&self, directory: InodeNumber, name: &[u8]) {
        let dentries = self.dentries.pin();
        remove(&dentries, &DentryKeyRef { directory, name });
    }

    /// Removes all names.
    pub fn clear(&self) {
        for ring in self.rings.iter() {
            ring.lock().clear();
        }
        self.dentries.pin().retain(|_, dentry| {
            dentry.kill();
            false
        });
    }

    /// Returns the number of cached names.
    pub fn count(&self) -> usize {
        self.dentries.len()
    }

    /// Returns the number of cached names that do not exist. The call visits every dentry.
    pub fn negative_count(&self) -> usize {
        self.dentries.pin().values().filter(|dentry| dentry.inode.is_none()).count()
    }
}

/// Marks the dentry of a name dead, and removes it (I2). The removed dentry is always the one that
/// was marked, even if another thread replaces the dentry of that name meanwhile.
fn remove(dentries: &PinnedMap<'_>, key: &DentryKeyRef<'_>) {
    let _ = dentries.remove_if(key, |_, dentry| {
        dentry.kill();
        true
    });
}

#[cfg(test)]
mod tests;
