//! Removing names.

use std::cell::Cell;
use std::sync::Arc;

use xfs_buffer::{Error, PosixError, Result};
use xfs_dir::EntryPlace;
use xfs_format::InodeNumber;
use xfs_format::reservation::TransactionKind;
use xfs_trans::Transaction;

use super::access::check_mutable;
use super::create::{check_is_directory, parent_link};
use super::links::{check_loses_child, check_loses_name};
use super::{Acting, Parts, check_undelegated, end, join_all};
use crate::kind::CachedInode;
use crate::watch::WatchEvents;

/// What is expected to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// Anything but a directory.
    #[doc(alias = "unlink")]
    File,
    /// An empty directory.
    #[doc(alias = "rmdir")]
    Directory,
}

impl Removal {
    /// Links that the file or directory loses.
    const fn links(self) -> u32 {
        match self {
            Self::File => 1,
            Self::Directory => 2,
        }
    }
}

/// A name that is to be removed, and what it means.
#[derive(Clone, Copy)]
struct Request<'a> {
    directory: &'a CachedInode,
    name: &'a [u8],
    child: &'a Arc<CachedInode>,
    removal: Removal,
}

impl Request<'_> {
    /// Whether the file has no other name, and nothing that would have to be freed before its inode.
    fn is_last(&self) -> bool {
        let live = self.child.live();
        live.is_bare() && live.inode().core().nlink <= self.removal.links()
    }
}

impl Acting<'_> {
    /// Removes a name. What has no other is freed when its last user is gone, and before this returns
    /// if there is none.
    pub(crate) fn remove(
        &self,
        directory: &CachedInode,
        name: &[u8],
        removal: Removal,
    ) -> Result<()> {
        self.check_name(directory, name, removal)?;
        loop {
            let child = self.look_up(directory, name)?;
            let request = Request { directory, name, child: &child, removal };
            let claimed = Cell::new(false);
            let removed = self.undelegated(&[&child], || {
                match self.remove_with_inode(&request, &claimed)? {
                    Some(removed) => Ok(removed),
                    None => self.remove_child(&request),
                }
            });
            if let Ok(true) = removed {
                self.notify_removed(&request);
            }
            match claimed.get() {
                true => self.inode_cache.take_out_freed(&child),
                false => self.finish_with(child),
            }
            if removed? {
                return Ok(());
            }
        }
    }

    /// Removes a name, for who goes on to use what had it: that is not freed before.
    pub(crate) fn detach(
        &self,
        directory: &CachedInode,
        name: &[u8],
        removal: Removal,
    ) -> Result<Arc<CachedInode>> {
        self.check_name(directory, name, removal)?;
        loop {
            let child = self.look_up(directory, name)?;
            let request = Request { directory, name, child: &child, removal };
            let removed = self.undelegated(&[&child], || self.remove_child(&request));
            if let Ok(true) = removed {
                self.notify_removed(&request);
                self.collapse_refs(&child);
                return Ok(child);
            }
            self.finish_with(child);
            removed?;
        }
    }

    fn check_name(&self, directory: &CachedInode, name: &[u8], removal: Removal) -> Result<()> {
        match (name, removal) {
            (b"." | b"..", Removal::File) => Err(PosixError::IsDirectory.into()),
            (b".", Removal::Directory) => Err(PosixError::InvalidArgument.into()),
            (b"..", Removal::Directory) => Err(PosixError::NotEmpty.into()),
            _ => self.check_searchable(directory),
        }
    }

    fn notify_removed(&self, request: &Request<'_>) {
        self.notify_name(request.directory, WatchEvents::DELETE, request.name);
        self.notify(request.child, WatchEvents::ATTRIB);
    }

    /// Removes the only name of what nobody else uses and what has nothing but its inode, and frees
    /// that: in one transaction, without the unlinked list. `None` if it has to go by that, `false` if
    /// the name means something else by now. Once the entry is claimed it is nobody's any more, even
    /// if this fails.
    fn remove_with_inode(
        &self,
        request: &Request<'_>,
        claimed: &Cell<bool>,
    ) -> Result<Option<bool>> {
        let Request { child, .. } = *request;
        if !request.is_last() || !child.is_alone() {
            return Ok(None);
        }
        let blocks =
            self.reserves.remove + self.reserves.parent + xfs_alloc::inode_blocks(self.geometry());
        self.make_room();
        let Some(tx) = self.with_room(|| self.journal.begin_removal(blocks))? else {
            return Ok(None);
        };
        end(tx, |tx| {
            let Some(place) = self.check_request(tx, request)? else { return Ok(Some(false)) };
            if !request.is_last() || !child.claim() {
                return Ok(None);
            }
            claimed.set(true);
            child.live().free_with_name(tx)?;
            self.remove_entry(tx, request, place)?;
            Ok(Some(true))
        })
    }

    /// `false` if the name means something else by now.
    fn remove_child(&self, request: &Request<'_>) -> Result<bool> {
        let Request { directory, name, child, removal } = *request;
        let blocks = self.reserves.remove + self.reserves.parent;
        self.transact(TransactionKind::Remove, blocks, |tx| {
            let Some(place) = self.check_request(tx, request)? else { return Ok(false) };
            self.drop_name(tx, child, removal.links())?;
            self.remove_entry(tx, request, place)?;
            self.remove_parent(tx, child, directory, name)?;
            Ok(true)
        })
    }

    /// Latches both inodes, and where the name is, if it may be removed. `None` if it means something
    /// else by now.
    fn check_request<'a>(
        &self,
        tx: &mut Transaction<'_>,
        request: &Request<'a>,
    ) -> Result<Option<EntryPlace<'a>>> {
        let Request { directory, name, child, removal } = *request;
        join_all(tx, [directory, child]);
        check_is_directory(directory)?;
        let place = xfs_dir::seek_entry(tx, directory.live(), name)?;
        match place.meaning() {
            Some((number, _)) if number == child.number() => {}
            Some(_) => return Ok(None),
            None => return Err(PosixError::NotFound.into()),
        }
        self.check_removes(directory, child)?;
        check_removable(tx, child, removal)?;
        check_undelegated(child)?;
        check_loses_name(child.live().inode().core(), PosixError::NotEmpty)?;
        if removal == Removal::Directory {
            check_loses_child(directory.live().inode().core())?;
        }
        Ok(Some(place))
    }

    fn remove_entry(
        &self,
        tx: &mut Transaction<'_>,
        request: &Request<'_>,
        place: EntryPlace<'_>,
    ) -> Result<()> {
        let Request { directory, name, removal, .. } = *request;
        self.dentries.invalidate(directory.number(), name);
        xfs_dir::remove_entry_at(tx, directory.live(), place)?;
        let now = self.clock.now();
        directory.live().change(tx, |core| {
            (core.modify_time, core.change_time) = (now, now);
            core.nlink -= u32::from(removal == Removal::Directory);
        });
        Ok(())
    }

    /// Takes links off a file; one that has none left goes on its unlinked list.
    ///
    /// The list is in a certain group, so this comes before anything that can choose its group: a
    /// transaction that already holds a header of a higher one would have to be rolled.
    #[doc(alias = "xfs_droplink")]
    pub(super) fn drop_name(
        &self,
        tx: &mut Transaction<'_>,
        child: &CachedInode,
        links: u32,
    ) -> Result<()> {
        let now = self.clock.now();
        child.live().change(tx, |core| {
            core.nlink -= links.min(core.nlink);
            core.change_time = now;
        });
        if child.live().inode().core().nlink == 0 {
            xfs_alloc::add_unlinked(tx, child.live().record())?;
        }
        Ok(())
    }

    pub(super) fn remove_parent(
        &self,
        tx: &mut Transaction<'_>,
        child: &CachedInode,
        directory: &CachedInode,
        name: &[u8],
    ) -> Result<()> {
        if !self.has_parents() {
            return Ok(());
        }
        xfs_dir::remove_parent(tx, child.live(), &parent_link(directory, name), self.parents)
    }
}

impl Parts {
    /// As [`look_up`](Self::look_up), for somebody who may ask again: what is found is remembered.
    pub(crate) fn look_up_and_note(
        &self,
        directory: &CachedInode,
        name: &[u8],
    ) -> Result<Arc<CachedInode>> {
        let note = |inode| self.dentries.note_lookup(directory.number(), name, inode);
        let changes = directory.change_count();
        let number = directory.find_and(&self.journal, name, note)?.0;
        let taken = self.take_named(directory, name, (number, changes))?;
        taken.map_or_else(|| self.look_up(directory, name), Ok)
    }

    /// What a name means now, with one more user.
    pub(crate) fn look_up(&self, directory: &CachedInode, name: &[u8]) -> Result<Arc<CachedInode>> {
        loop {
            let changes = directory.change_count();
            let number = directory.find(&self.journal, name)?.0;
            if let Some(taken) = self.take_named(directory, name, (number, changes))? {
                return Ok(taken);
            }
        }
    }

    /// What a name was seen to mean, with one more user, when the directory had counted so many
    /// changes. `None` if it means something else by now: the name may be removed before the inode is
    /// taken, and its number be given to another file.
    pub(super) fn take_named(
        &self,
        directory: &CachedInode,
        name: &[u8],
        (number, changes): (InodeNumber, u64),
    ) -> Result<Option<Arc<CachedInode>>> {
        let taken = self.take(number);
        let is_gone = matches!(taken, Err(Error::Posix(PosixError::NotFound)));
        if !is_gone && directory.change_count() == changes {
            return taken.map(Some);
        }
        let found = directory.find(&self.journal, name);
        if matches!(found, Ok((found, _)) if found == number) {
            return taken.map(Some);
        }
        if let Ok(taken) = taken {
            // Who only reads does not wait for a log that is frozen.
            self.release(taken);
        }
        found.map(|_| None)
    }
}

/// Whether it may be removed as what it is.
pub(super) fn check_removable(
    tx: &mut Transaction<'_>,
    child: &CachedInode,
    removal: Removal,
) -> Result<()> {
    check_mutable(child.live().inode().core())?;
    let is_directory = child.is_directory();
    match removal {
        Removal::File if is_directory => Err(PosixError::IsDirectory.into()),
        Removal::Directory if !is_directory => Err(PosixError::NotDirectory.into()),
        Removal::Directory if !xfs_dir::directory_is_empty(tx, child.live())? => {
            Err(PosixError::NotEmpty.into())
        }
        _ => Ok(()),
    }
}
