//! Removing names: unlink and rmdir.

use xfs_buffer::{PosixError, Result};
use xfs_dir::EntryLocation;
use xfs_format::reservation::TransactionKind;
use xfs_trans::Transaction;

use super::create::{check_is_directory, parent_link};
use crate::inode_flags::check_mutable;
use crate::inode_ref::{InodeRef, OperandRef};
use crate::kind::CachedInode;
use crate::leases::check_undelegated;
use crate::link_counts::{check_loses_child, check_loses_name};
use crate::mount::{Mount, join_all};
use crate::op_context::OpContext;
use crate::requests::Removal;
use crate::watch::WatchEvents;

/// The removal of a name, after a lookup has found the inode to which the name leads.
#[derive(Clone, Copy)]
struct RemovalRequest<'a> {
    directory: &'a CachedInode,
    name: &'a [u8],
    child: &'a OperandRef<'a>,
    removal: Removal,
}

impl RemovalRequest<'_> {
    /// Returns whether this is the last name of the file, and the inode has no blocks that must be
    /// freed before the inode itself.
    fn is_last(&self) -> bool {
        let live = self.child.live();
        live.is_bare() && live.inode().core().nlink <= self.removal.links()
    }
}

impl<'c> OpContext<'c> {
    /// Removes a name. If the name was the last name of the file, the file is freed when its last
    /// reference is released. That happens before this function returns, unless another caller has
    /// a reference.
    pub fn remove(&self, directory: &CachedInode, name: &[u8], removal: Removal) -> Result<()> {
        self.check_name(directory, name, removal)?;
        loop {
            let child = OperandRef::new(self.mount.look_up(directory, name)?);
            let request = RemovalRequest { directory, name, child: &child, removal };
            let removed =
                self.undelegated(&[&child], || match self.remove_with_inode(&request)? {
                    Some(removed) => Ok(removed),
                    None => self.remove_child(&request),
                })?;
            if removed {
                self.notify_removed(&request);
                return Ok(());
            }
        }
    }

    /// Removes a name, and returns a reference to the file, which keeps it from being freed.
    pub fn detach(
        &self,
        directory: &CachedInode,
        name: &[u8],
        removal: Removal,
    ) -> Result<InodeRef<&'c Mount>> {
        self.check_name(directory, name, removal)?;
        loop {
            let child = OperandRef::new(self.mount.look_up(directory, name)?);
            let request = RemovalRequest { directory, name, child: &child, removal };
            if self.undelegated(&[&child], || self.remove_child(&request))? {
                self.notify_removed(&request);
                self.mount.collapse_refs(&child);
                return Ok(child.into_inode_ref());
            }
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

    fn notify_removed(&self, request: &RemovalRequest<'_>) {
        self.mount.notify_name(request.directory, WatchEvents::DELETE, request.name);
        self.mount.notify(request.child, WatchEvents::ATTRIB);
    }

    /// Removes the only name of an inode that has no other reference and no contents, and frees the
    /// inode in the same transaction, without the unlinked list. Returns `true` if that was done,
    /// `false` if the name no longer leads to the inode that the lookup found, and `None` if the
    /// inode must go to the unlinked list.
    fn remove_with_inode(&self, request: &RemovalRequest<'_>) -> Result<Option<bool>> {
        let RemovalRequest { child, .. } = *request;
        if !request.is_last() || !child.is_alone() {
            return Ok(None);
        }
        let blocks =
            self.mount.reserves.remove + self.mount.reserves.parent + self.mount.reserves.inode;
        self.mount.make_room();
        let Some(tx) = self.mount.with_room(|| self.mount.journal.begin_removal(blocks))? else {
            return Ok(None);
        };
        tx.commit_or_cancel(|tx| {
            let Some(place) = self.check_request(tx, request)? else { return Ok(Some(false)) };
            if !request.is_last() || !child.claim() {
                return Ok(None);
            }
            child.live().free_with_name(tx)?;
            self.remove_entry(tx, request, place)?;
            Ok(Some(true))
        })
    }

    /// Removes a name. Returns `false` if the name no longer leads to the inode that the lookup
    /// found.
    fn remove_child(&self, request: &RemovalRequest<'_>) -> Result<bool> {
        let RemovalRequest { directory, name, child, removal } = *request;
        let blocks = self.mount.reserves.remove + self.mount.reserves.parent;
        self.mount.transact(TransactionKind::Remove, blocks, |tx| {
            let Some(place) = self.check_request(tx, request)? else { return Ok(false) };
            self.drop_name(tx, child, removal.links())?;
            self.remove_entry(tx, request, place)?;
            self.remove_parent(tx, child, directory, name)?;
            Ok(true)
        })
    }

    /// Latches the directory and the file, and checks that the name may be removed. Returns its
    /// location, or `None` if the name no longer leads to the inode that the lookup found.
    fn check_request<'a>(
        &self,
        tx: &mut Transaction<'_>,
        request: &RemovalRequest<'a>,
    ) -> Result<Option<EntryLocation<'a>>> {
        let RemovalRequest { directory, name, child, removal } = *request;
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
        request: &RemovalRequest<'_>,
        place: EntryLocation<'_>,
    ) -> Result<()> {
        let RemovalRequest { directory, name, removal, .. } = *request;
        self.mount.dentries.invalidate(directory.number(), name);
        xfs_dir::remove_entry_at(tx, directory.live(), place)?;
        let now = self.mount.clock.now();
        directory.live().change(tx, |core| {
            (core.modify_time, core.change_time) = (now, now);
            core.nlink -= u32::from(removal == Removal::Directory);
        });
        Ok(())
    }

    /// Subtracts links from a file. An inode without links is put on its unlinked list.
    ///
    /// The caller must call this function before any change that may latch the header of any group,
    /// such as an allocation. An unlinked list belongs to the group of its inode. A transaction
    /// that already holds the header of a higher group would have to roll before it could latch the
    /// header of that group.
    #[doc(alias = "xfs_droplink")]
    pub(crate) fn drop_name(
        &self,
        tx: &mut Transaction<'_>,
        child: &CachedInode,
        links: u32,
    ) -> Result<()> {
        let now = self.mount.clock.now();
        child.live().change(tx, |core| {
            core.nlink -= links.min(core.nlink);
            core.change_time = now;
        });
        if child.live().inode().core().nlink == 0 {
            xfs_alloc::add_unlinked(tx, child.live().log_item())?;
        }
        Ok(())
    }

    pub(crate) fn remove_parent(
        &self,
        tx: &mut Transaction<'_>,
        child: &CachedInode,
        directory: &CachedInode,
        name: &[u8],
    ) -> Result<()> {
        if !self.mount.has_parents() {
            return Ok(());
        }
        xfs_dir::remove_parent(tx, child.live(), &parent_link(directory, name), self.mount.parents)
    }
}

/// Checks that the inode is what `removal` expects (an empty directory, or any other file), and
/// that its flags permit the removal of a name.
pub(crate) fn check_removable(
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
