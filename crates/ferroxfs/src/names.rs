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
//! - **I4** There are at most [`MOST_NAMES`], and a few more for each thread: a new one takes the place of
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
const MOST_NAMES: usize = 1 << 16;
/// Names that a slot has noticed and not yet put in.
const NOTICED: usize = 1 << 10;
/// Names that an addition looks at, to find one that can go.
const SWEEP_STEPS: usize = 8;

/// A name in a directory.
struct Key {
    directory: InodeNumber,
    name: Box<[u8]>,
}

/// The same, borrowed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct KeyRef<'a> {
    directory: InodeNumber,
    name: &'a [u8],
}

impl Key {
    fn borrowed(&self) -> KeyRef<'_> {
        KeyRef { directory: self.directory, name: &self.name }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.borrowed() == other.borrowed()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.borrowed().hash(state);
    }
}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // In words: hashing is what a lookup costs. The last one tells how long the name is.
        state.write_u64(self.directory.0);
        let (words, rest) = self.name.as_chunks();
        words.iter().for_each(|word| state.write_u64(u64::from_be_bytes(*word)));
        let rest = rest.iter().fold(rest.len() as u64, |word, byte| word << 8 | u64::from(*byte));
        state.write_u64(rest);
    }
}

impl Equivalent<Arc<Key>> for KeyRef<'_> {
    fn equivalent(&self, key: &Arc<Key>) -> bool {
        *self == key.borrowed()
    }
}

/// What a name means.
pub(crate) struct Meaning {
    inode: Option<InodeNumber>,
    /// It was taken out, or is just about to be.
    dead: AtomicBool<Object>,
    /// It was met since the sweep last looked at it.
    used: AtomicBool<Object>,
}

impl Meaning {
    /// The inode, or that there is none of this name.
    pub(crate) fn inode(&self) -> Option<InodeNumber> {
        self.inode
    }

    /// Whether it holds no more (I2).
    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    fn die(&self) {
        self.dead.store(true, Ordering::Release);
    }
}

type Map = HashMap<Arc<Key>, Meaning, AddressHash>;
type PinnedMap<'a> = HashMapRef<'a, Arc<Key>, Meaning, AddressHash, LocalGuard<'a>>;

/// A thread's look at the names: what it finds stays readable as long as it has this.
pub(crate) struct Reader<'a>(PinnedMap<'a>);

impl Reader<'_> {
    /// What a name means, if that is remembered.
    pub(crate) fn find(&self, directory: InodeNumber, name: &[u8]) -> Option<&Meaning> {
        let meaning = self.0.get(&KeyRef { directory, name })?;
        if !meaning.used.load(Ordering::Relaxed) {
            meaning.used.store(true, Ordering::Relaxed);
        }
        Some(meaning)
    }
}

/// The names that are remembered.
pub(crate) struct Names {
    names: Map,
    /// That of the map.
    hasher: AddressHash,
    rings: Slots<Mutex<VecDeque<Arc<Key>>, Slot>>,
    noticed: Slots<Box<[AtomicU64<Slot>]>>,
    most_per_ring: usize,
}

impl Names {
    pub(crate) fn new() -> Self {
        Self::with_most(MOST_NAMES)
    }

    fn with_most(most: usize) -> Self {
        let rings = Slots::new(Mutex::default);
        let most_per_ring = (most / rings.iter().len()).max(1);
        let noticed = Slots::new(|| (0..NOTICED).map(|_| AtomicU64::default()).collect());
        let hasher = AddressHash::new();
        Self { names: Map::with_hasher(hasher.clone()), hasher, rings, noticed, most_per_ring }
    }

    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader(self.names.pin())
    }

    /// Remembers what a name means, if this thread has looked for it before. The caller shares the
    /// directory's latch.
    pub(crate) fn note(&self, directory: InodeNumber, name: &[u8], inode: Option<InodeNumber>) {
        let hash = self.hasher.hash_one(KeyRef { directory, name }) | 1;
        let Some(noticed) = self.noticed.mine().get(hash as usize / 2 % NOTICED) else { return };
        if noticed.load(Ordering::Relaxed) != hash {
            noticed.store(hash, Ordering::Relaxed);
            return;
        }
        let key = Arc::new(Key { directory, name: name.into() });
        let (dead, used) = (AtomicBool::new(false), AtomicBool::new(false));
        let names = self.names.pin();
        if names.try_insert(Arc::clone(&key), Meaning { inode, dead, used }).is_err() {
            return;
        }
        let mut ring = self.rings.mine().lock();
        ring.push_back(key);
        for _ in 0..SWEEP_STEPS {
            if ring.len() <= self.most_per_ring {
                return;
            }
            let Some(oldest) = ring.pop_front() else { return };
            let stays = names.get(&oldest).is_some_and(|name| {
                let was_used = name.used.load(Ordering::Relaxed);
                name.used.store(false, Ordering::Relaxed);
                was_used
            });
            if stays {
                ring.push_back(oldest);
            } else {
                take_out(&names, &oldest.borrowed());
            }
        }
        // All were used: then the oldest goes.
        if let Some(oldest) = ring.pop_front() {
            take_out(&names, &oldest.borrowed());
        }
    }

    /// Takes out a name whose meaning changes. The caller has the directory's exclusive latch, and keeps
    /// it until the change is made.
    pub(crate) fn forget(&self, directory: InodeNumber, name: &[u8]) {
        let names = self.names.pin();
        take_out(&names, &KeyRef { directory, name });
    }

    /// Takes out all names.
    pub(crate) fn forget_all(&self) {
        for ring in self.rings.iter() {
            ring.lock().clear();
        }
        self.names.pin().retain(|_, meaning| {
            meaning.die();
            false
        });
    }

    /// How many are remembered.
    pub(crate) fn count(&self) -> usize {
        self.names.len()
    }

    /// How many of them mean nothing: all names are looked at.
    pub(crate) fn absent_count(&self) -> usize {
        self.names.pin().values().filter(|meaning| meaning.inode.is_none()).count()
    }
}

/// Takes out a name, dead beforehand (I2): it is the one that is looked at that goes.
fn take_out(names: &PinnedMap<'_>, key: &KeyRef<'_>) {
    let _ = names.remove_if(key, |_, meaning| {
        meaning.die();
        true
    });
}

#[cfg(test)]
mod tests;
