//! The tree of names of a scratch volume, and the operations on it.

use std::sync::Arc;

use xfs_buffer::{Error, PosixError};
use xfs_format::InodeNumber;
use xfs_format::inode::FileType;
use xfs_icache::{
    CacheRef, CachedInode, InodeWalk, Small, SmallContents, SmallKind, SmallNames, StoredRef,
    WalkFilter, take_down,
};
use xfs_sync::{AtomicU64, Mutex, MutexGuard, Ordering, RwLock, Volume};
use xfs_vfs::{NewKind, check_name};

use crate::Result;

/// About how many bytes of memory a name takes in addition to its own bytes.
const NAME_BYTES: u64 = 64;

/// The panic message if a name is gone although the thread has held `Tree::changing` since it
/// looked the name up.
const FOUND: &str = "the name was found under the lock";

type Node = Arc<CachedInode<SmallKind>>;

/// The tree of names, with the inodes that the names reference.
pub(super) struct Tree {
    pub(super) inodes: Small,
    /// The reference to the root. `None` once the tree is dropped.
    root: Option<StoredRef<SmallKind>>,
    next_number: AtomicU64<Volume>,
    /// The lock that a thread holds while it changes names (I2).
    changing: Mutex<(), Volume>,
}

/// A directory, and a name in it.
#[derive(Clone, Copy)]
pub(super) struct ScratchName<'a> {
    pub(super) directory: &'a Node,
    pub(super) name: &'a [u8],
}

impl Tree {
    pub(super) fn new(most_bytes: u64) -> Self {
        const ROOT: InodeNumber = InodeNumber(1);
        let inodes = Small::new(most_bytes.max(1 << 10));
        let root = inodes.create(ROOT, SmallContents::Directory(Mutex::default()));
        let Ok(root) = root.map(CacheRef::store) else {
            unreachable!("there is room for the root")
        };
        let root = Some(root);
        Self { inodes, root, next_number: AtomicU64::new(2), changing: Mutex::new(()) }
    }

    pub(super) fn root(&self) -> &StoredRef<SmallKind> {
        self.root.as_ref().expect("the root is held until the tree is dropped")
    }

    /// Takes a reference to the inode that a name means. The name itself holds a reference (I1),
    /// and cannot be removed while the directory is locked.
    pub(super) fn look_up(directory: &Node, name: &[u8]) -> Result<StoredRef<SmallKind>> {
        let names = names_of(directory)?;
        Ok(names.get(name).ok_or(PosixError::NotFound)?.share())
    }

    /// Makes an inode and a name for it in the directory. Returns the inode with a reference for
    /// the caller.
    pub(super) fn create(
        &self,
        directory: &Node,
        name: &[u8],
        kind: &NewKind<'_>,
    ) -> Result<CacheRef<'_, Small>> {
        let contents = match kind {
            NewKind::Regular => SmallContents::File(RwLock::new(Vec::new())),
            NewKind::Directory => SmallContents::Directory(Mutex::default()),
            NewKind::Symlink(target) if (1..1024).contains(&target.len()) => {
                SmallContents::Symlink((*target).into())
            }
            NewKind::Symlink(_) => return Err(PosixError::InvalidArgument.into()),
            other => SmallContents::Special(other.file_type()),
        };
        let _changing = self.changing.lock();
        self.check_free(directory, name)?;
        let number = InodeNumber(self.next_number.fetch_add(1, Ordering::Relaxed));
        self.inodes.room.take(room_of(name))?;
        let made = self.inodes.create(number, contents);
        let node = made.inspect_err(|_| self.inodes.room.give_back(room_of(name)))?;
        names_of(directory)?.insert(name.into(), node.clone().store());
        Ok(node)
    }

    pub(super) fn link(
        &self,
        directory: &Node,
        name: &[u8],
        held: &StoredRef<SmallKind>,
    ) -> Result<()> {
        let file = held.inode();
        let _changing = self.changing.lock();
        self.check_free(directory, name)?;
        if file.file_type() == FileType::Directory {
            return Err(PosixError::NotPermitted.into());
        }
        if file.live().nlink() == 0 {
            return Err(PosixError::NotFound.into());
        }
        self.inodes.room.take(room_of(name))?;
        file.live().link();
        names_of(directory)?.insert(name.into(), held.share());
        Ok(())
    }

    pub(super) fn remove(&self, directory: &Node, name: &[u8]) -> Result<()> {
        let _changing = self.changing.lock();
        check_replaceable(names_of(directory)?.get(name).ok_or(PosixError::NotFound)?.inode())?;
        self.take_out(directory, name)
    }

    pub(super) fn rename(&self, from: ScratchName<'_>, to: ScratchName<'_>) -> Result<()> {
        let _changing = self.changing.lock();
        let named = |place: ScratchName<'_>| -> Result<Option<Node>> {
            let names = names_of(place.directory)?;
            Ok(names.get(place.name).map(|held| Arc::clone(held.inode())))
        };
        let child = named(from)?.ok_or(PosixError::NotFound)?;
        let target = match self.check_free(to.directory, to.name) {
            Err(Error::Posix(PosixError::Exists)) => {
                Some(named(to)?.ok_or(PosixError::InvalidArgument)?)
            }
            free => free.map(|()| None)?,
        };
        if is_below(&child, to.directory) {
            return Err(PosixError::InvalidArgument.into());
        }
        if let Some(target) = &target {
            if Arc::ptr_eq(target, &child) {
                return Ok(());
            }
            match [&child, target].map(|node| node.file_type() == FileType::Directory) {
                [true, false] => return Err(PosixError::NotDirectory.into()),
                [false, true] => return Err(PosixError::IsDirectory.into()),
                _ => check_replaceable(target)?,
            }
        }
        // The new name takes the memory of the old one, and more if it is longer. After this
        // nothing can fail.
        let (old, new) = (room_of(from.name), room_of(to.name));
        self.inodes.room.take(new.saturating_sub(old))?;
        if target.is_some() {
            self.take_out(to.directory, to.name)?;
        }
        let moved = names_of(from.directory)?.remove(from.name).expect(FOUND);
        names_of(to.directory)?.insert(to.name.into(), moved);
        self.inodes.room.give_back(old.saturating_sub(new));
        Ok(())
    }

    /// Removes a name that the caller has looked up. Releases the memory of the name, and its
    /// reference to the inode.
    fn take_out(&self, directory: &Node, name: &[u8]) -> Result<()> {
        let removed = names_of(directory)?.remove(name).expect(FOUND);
        self.inodes.room.give_back(room_of(name));
        removed.inode().live().unlink();
        drop(CacheRef::restore(&self.inodes, removed));
        Ok(())
    }

    /// Checks that a directory can get an entry of this name.
    fn check_free(&self, directory: &Node, name: &[u8]) -> Result<()> {
        check_name(name)?;
        let names = names_of(directory)?;
        if directory.live().nlink() == 0 {
            return Err(PosixError::NotFound.into());
        }
        match names.contains_key(name) {
            true => Err(PosixError::Exists.into()),
            false => Ok(()),
        }
    }
}

/// Frees all inodes when no handle is left: collects the references of all names, and then releases
/// them one after the other. If a directory released its entries itself, the release would recurse
/// down the tree.
impl Drop for Tree {
    fn drop(&mut self) {
        let mut held: Vec<_> = self.root.take().into_iter().collect();
        self.inodes.for_each_inode(WalkFilter::Cached, |entry| {
            held.extend(entry.live().take_names().into_values());
        });
        self.inodes.deactivate();
        held.into_iter().for_each(|held| drop(CacheRef::restore(&self.inodes, held)));
        take_down(&self.inodes);
    }
}

fn room_of(name: &[u8]) -> u64 {
    NAME_BYTES + name.len() as u64
}

fn names_of(directory: &Node) -> Result<MutexGuard<'_, SmallNames>> {
    match &directory.live().contents {
        SmallContents::Directory(names) => Ok(names.lock()),
        _ => Err(PosixError::NotDirectory.into()),
    }
}

/// Checks that the name of an inode can be replaced: a directory must be empty.
fn check_replaceable(node: &Node) -> Result<()> {
    match names_of(node) {
        Ok(names) if !names.is_empty() => Err(PosixError::NotEmpty.into()),
        _ => Ok(()),
    }
}

/// Returns whether `directory` is `top`, or is below `top`. The caller holds the lock that keeps
/// names from changing (I2).
fn is_below(top: &Node, directory: &Node) -> bool {
    let mut pending = vec![Arc::clone(top)];
    while let Some(node) = pending.pop() {
        if Arc::ptr_eq(&node, directory) {
            return true;
        }
        if let Ok(names) = names_of(&node) {
            let below = names.values().map(StoredRef::inode);
            let below = below.filter(|node| node.file_type() == FileType::Directory);
            pending.extend(below.cloned());
        }
    }
    false
}
