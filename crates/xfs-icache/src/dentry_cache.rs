//! What names mean, remembered: so that a path is walked without a lock and without a directory's blocks.
//!
//! Owns: names that were looked up twice, also those that mean nothing, and how many of them stay. Does
//! **not** own the directories, or who may look into them.
//!
//! ```text
//!  names    (directory, name) ─► inode or nothing     read without a lock, under an epoch
//!  rings    keys in the order in which they came, one ring for each slot: who stays
//!  noticed  hashes of names that were looked up once, for each slot
//! ```
//!
//! # Invariants
//!
//! - **I1** A name is put in under the directory's shared latch, with what the directory says; who changes
//!   what it means takes it out in the transaction, under the exclusive latch. So what is in is what the
//!   directory says, but for the moments between a change and its end, in which nobody has been told of
//!   the change. Two names that change together are both taken out before either change is committed.
//! - **I2** A name that is taken out, whatever for, is dead before it is out: who removes a file and does not
//!   find its name here relies on that. A reader that meets an inode by a name looks
//!   whether the name is dead after it has a use of the inode: if it is not, the number has not been given
//!   to another file meanwhile, since that comes after the removal of all names.
//! - **I3** A directory without entries has at most names here that mean nothing, so they are right for
//!   whichever directory gets its number next.
//! - **I4** There are at most [`MAX_DENTRIES`], and a few more for each thread: a new one takes the place of
//!   one that was not used since it was last looked at.
//!
//! Lock order: the latch of a directory, then a ring.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use papaya::{Equivalent, HashMap, HashMapRef, LocalGuard};
use xfs_buffer::AddressHash;
use xfs_format::InodeNumber;
use xfs_sync::{AtomicBool, AtomicU64, Mutex, Object, Ordering, Slot, Slots};

/// Names that are remembered at most: about 10 MiB.
const MAX_DENTRIES: usize = 1 << 16;
/// Names that a slot has noticed and not yet put in.
const SEEN_ONCE: usize = 1 << 10;
/// Names that an addition looks at, to find one that can go.
const SWEEP_STEPS: usize = 8;

/// A name in a directory.
struct DentryKey {
    directory: InodeNumber,
    name: Box<[u8]>,
}

/// The same, borrowed.
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
        // In words: hashing is what a lookup costs. The last one tells how long the name is.
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

/// What a name means.
pub struct Dentry {
    inode: Option<InodeNumber>,
    /// It was taken out, or is just about to be.
    dead: AtomicBool<Object>,
    /// It was met since the sweep last looked at it.
    used: AtomicBool<Object>,
}

impl Dentry {
    /// The inode, or that there is none of this name.
    pub fn inode(&self) -> Option<InodeNumber> {
        self.inode
    }

    /// Whether it holds no more (I2).
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    fn kill(&self) {
        self.dead.store(true, Ordering::Release);
    }
}

type Map = HashMap<Arc<DentryKey>, Dentry, AddressHash>;
type PinnedMap<'a> = HashMapRef<'a, Arc<DentryKey>, Dentry, AddressHash, LocalGuard<'a>>;

/// A thread's look at the names: what it finds stays readable as long as it has this.
pub struct DentryReader<'a>(PinnedMap<'a>);

impl DentryReader<'_> {
    /// What a name means, if that is remembered.
    pub fn find(&self, directory: InodeNumber, name: &[u8]) -> Option<&Dentry> {
        let dentry = self.0.get(&DentryKeyRef { directory, name })?;
        if !dentry.used.load(Ordering::Relaxed) {
            dentry.used.store(true, Ordering::Relaxed);
        }
        Some(dentry)
    }
}

/// The names that are remembered.
pub struct DentryCache {
    dentries: Map,
    /// That of the map.
    hasher: AddressHash,
    rings: Slots<Mutex<VecDeque<Arc<DentryKey>>, Slot>>,
    seen_once: Slots<Box<[AtomicU64<Slot>]>>,
    most_per_ring: usize,
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

    /// Pins the cache for lookups of the calling thread.
    pub fn reader(&self) -> DentryReader<'_> {
        DentryReader(self.dentries.pin())
    }

    /// Remembers what a name means, if this thread has looked for it before. The caller shares the
    /// directory's latch.
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
        // All were used: then the oldest goes.
        if let Some(oldest) = ring.pop_front() {
            remove(&dentries, &oldest.borrowed());
        }
    }

    /// Takes out a name whose meaning changes. The caller has the directory's exclusive latch, and keeps
    /// it until the change is made.
    pub fn invalidate(&self, directory: InodeNumber, name: &[u8]) {
        let dentries = self.dentries.pin();
        remove(&dentries, &DentryKeyRef { directory, name });
    }

    /// Takes out all names.
    pub fn clear(&self) {
        for ring in self.rings.iter() {
            ring.lock().clear();
        }
        self.dentries.pin().retain(|_, dentry| {
            dentry.kill();
            false
        });
    }

    /// How many are remembered.
    pub fn count(&self) -> usize {
        self.dentries.len()
    }

    /// How many of them mean nothing: all names are looked at.
    pub fn negative_count(&self) -> usize {
        self.dentries.pin().values().filter(|dentry| dentry.inode.is_none()).count()
    }
}

/// Takes out a name, dead beforehand (I2): it is the one that is looked at that goes.
fn remove(dentries: &PinnedMap<'_>, key: &DentryKeyRef<'_>) {
    let _ = dentries.remove_if(key, |_, dentry| {
        dentry.kill();
        true
    });
}

#[cfg(test)]
mod tests;
