//! A filesystem in memory with one list of its inodes and no index; cache walks use the list.
//!
//! Owns: its inodes, and how much memory they use. Does **not** own the tree of names
//! (`ScratchVolume` of `ferroxfs`). A directory entry is a reference to its inode, so that an inode
//! with a name is never evicted.

use std::collections::BTreeMap;
use std::sync::Arc;

use xfs_buffer::{PosixError, Result};
use xfs_format::InodeNumber;
use xfs_format::inode::FileType;
use xfs_sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, Object, Ordering, RwLock, Volume};

use crate::cache_ref::{CacheRef, StoredRef};
use crate::cached_inode::{CachedInode, Keep, Phase, ReleaseOutcome};
#[cfg(not(shuttle))]
use crate::hints::Hints;
use crate::inode_list::InodeList;
use crate::inode_walk::InodeWalk;
#[cfg(not(test))]
use crate::kind::InodeWatch;
use crate::kind::{CacheableInode, InodeKind};

/// Approximate number of bytes of memory that an inode takes, without its contents.
const INODE_BYTES: u64 = 512;

/// The entries of a directory. Each entry holds a reference to the inode that it names.
pub type SmallNames = BTreeMap<Box<[u8]>, StoredRef<SmallKind>>;

/// The contents of an inode, by its type.
pub enum SmallContents {
    /// The bytes of a regular file.
    File(RwLock<Vec<u8>, Object>),
    /// The names of a directory.
    Directory(Mutex<SmallNames, Object>),
    /// The target of a symbolic link.
    Symlink(Box<[u8]>),
    /// No contents: a special file of this type.
    Special(FileType),
}

/// An inode of a `Small` filesystem.
pub struct SmallInode {
    number: InodeNumber,
    /// Number of names of the inode.
    nlink: AtomicU32<Object>,
    /// The contents of the inode.
    pub contents: SmallContents,
    room: Arc<Room>,
}

impl SmallInode {
    /// Returns the number of names of the inode.
    pub fn nlink(&self) -> u32 {
        self.nlink.load(Ordering::Acquire)
    }

    /// Adds 1 to the link count of the inode, for a new name.
    pub fn link(&self) {
        self.nlink.fetch_add(1, Ordering::AcqRel);
    }

    /// Subtracts 1 from the link count of the inode, for a removed name.
    pub fn unlink(&self) {
        self.nlink.fetch_sub(1, Ordering::AcqRel);
    }

    /// Takes all entries out of a directory, with their references.
    pub fn take_names(&self) -> SmallNames {
        match &self.contents {
            SmallContents::Directory(names) => std::mem::take(&mut names.lock()),
            _ => SmallNames::new(),
        }
    }

    fn length_bytes(&self) -> u64 {
        match &self.contents {
            SmallContents::File(bytes) => bytes.read().len() as u64,
            SmallContents::Symlink(target) => target.len() as u64,
            SmallContents::Directory(_) | SmallContents::Special(_) => 0,
        }
    }
}

impl Drop for SmallInode {
    fn drop(&mut self) {
        self.room.give_back(INODE_BYTES + self.length_bytes());
    }
}

/// The types of the inodes of a `Small` filesystem.
pub enum SmallKind {}

impl InodeKind for SmallKind {
    type Inode = SmallInode;
    type Contents = ();
    #[cfg(not(test))]
    type Watch = NoWatch;
    #[cfg(test)]
    type Watch = crate::testing::RecordedWatch;
}

// A cached inode takes three cache lines: one for its hints, one for the rest, and one for the
// counts of its `Arc`, which the alignment of the hints keeps apart.
#[cfg(not(shuttle))]
const _: () = assert!(size_of::<Hints<SmallKind>>() == 64);
#[cfg(not(shuttle))]
const _: () = assert!(size_of::<CachedInode<SmallKind>>() == 128);

/// The watch type of a filesystem that has no watches.
#[cfg(not(test))]
#[derive(Clone)]
pub enum NoWatch {}

#[cfg(not(test))]
impl InodeWatch for NoWatch {
    fn inode_gone(&self, _: InodeNumber) {
        match *self {}
    }

    fn close(&self) {
        match *self {}
    }
}

impl CacheableInode for SmallInode {
    fn file_type(&self) -> FileType {
        match &self.contents {
            SmallContents::File(_) => FileType::Regular,
            SmallContents::Directory(_) => FileType::Directory,
            SmallContents::Symlink(_) => FileType::Symlink,
            SmallContents::Special(kind) => *kind,
        }
    }

    fn number(&self) -> InodeNumber {
        self.number
    }

    fn has_name(&self) -> bool {
        self.nlink() > 0
    }
}

/// The number of bytes of memory that a filesystem may use, and the number that it uses now.
pub struct Room {
    most_bytes: u64,
    used_bytes: AtomicU64<Volume>,
}

impl Room {
    fn new(most_bytes: u64) -> Arc<Self> {
        Arc::new(Self { most_bytes, used_bytes: AtomicU64::new(0) })
    }

    /// Reserves `bytes` bytes of memory.
    ///
    /// # Errors
    ///
    /// Returns [`PosixError::NoSpace`] if fewer bytes are free.
    pub fn take(&self, bytes: u64) -> Result<()> {
        let mut used = self.used_bytes.load(Ordering::Relaxed);
        loop {
            let wanted = used.checked_add(bytes).filter(|wanted| *wanted <= self.most_bytes);
            let wanted = wanted.ok_or(PosixError::NoSpace)?;
            let (relaxed, word) = (Ordering::Relaxed, &self.used_bytes);
            match word.compare_exchange_weak(used, wanted, relaxed, relaxed) {
                Ok(_) => return Ok(()),
                Err(found) => used = found,
            }
        }
    }

    /// Gives back `bytes` bytes of memory that were [taken](Self::take).
    pub fn give_back(&self, bytes: u64) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the number of bytes in use.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }
}

/// A filesystem that is a list of inodes. It has no device, so an evicted inode is lost.
pub struct Small {
    list: InodeList<SmallKind>,
    active: AtomicBool<Volume>,
    /// The number of bytes of memory that the filesystem may use, and the number that it uses now.
    pub room: Arc<Room>,
}

impl Small {
    /// Makes an empty filesystem that may use about `most_bytes` of memory.
    #[must_use]
    pub fn new(most_bytes: u64) -> Self {
        let active = AtomicBool::new(true);
        Self { list: InodeList::new(), active, room: Room::new(most_bytes) }
    }

    /// Makes an inode with one name, and returns it with one reference.
    ///
    /// # Errors
    ///
    /// Returns [`PosixError::NoSpace`] if there is no memory for the inode.
    pub fn create(
        &self,
        number: InodeNumber,
        contents: SmallContents,
    ) -> Result<CacheRef<'_, Self>> {
        let target_bytes = match &contents {
            SmallContents::Symlink(target) => target.len() as u64,
            _ => 0,
        };
        self.room.take(INODE_BYTES + target_bytes)?;
        let (nlink, room) = (AtomicU32::new(1), Arc::clone(&self.room));
        let inode = Arc::new(SmallInode { number, nlink, contents, room });
        let entry = Arc::new(CachedInode::new(inode, Phase::New, Keep::Cached, None));
        self.list.insert(number.0, Arc::clone(&entry));
        entry.set_ready();
        Ok(CacheRef::new(self, entry))
    }

    /// Begins to take the filesystem down. From now on an inode is evicted when its last reference
    /// is released.
    pub fn deactivate(&self) {
        self.active.store(false, Ordering::SeqCst);
    }
}

impl InodeWalk for Small {
    type Kind = SmallKind;

    fn list(&self) -> Option<&InodeList<SmallKind>> {
        Some(&self.list)
    }

    fn is_active(&self) -> bool {
        self.active.load(Ordering::SeqCst)
    }

    fn release(&self, held: StoredRef<SmallKind>) {
        let entry = held.into_counted();
        match entry.release(self.is_active()) {
            // Marks keep an abandoned inode until the filesystem is taken down.
            ReleaseOutcome::InUse | ReleaseOutcome::Idle | ReleaseOutcome::Abandoned => {}
            // Removing the inode from the list frees it.
            ReleaseOutcome::Evicted | ReleaseOutcome::NeedsInactivation => self.remove(&entry),
        }
    }

    fn remove(&self, entry: &Arc<CachedInode<SmallKind>>) {
        self.list.remove(entry.number().0, entry);
    }
}
