//! Removing names.

use std::sync::Arc;

use xfs_buffer::{PosixError, Result};
use xfs_format::inode::FileType;
use xfs_format::reservation::TransactionKind;
use xfs_trans::Transaction;

use super::access::check_mutable;
use super::create::{check_is_directory, parent_link};
use super::links::{check_loses_child, check_loses_name};
use super::{Parts, check_undelegated, join_all};
use crate::table::Entry;
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

impl Parts {
    /// Removes a name. What has no other is freed when its last user is gone, and before this returns
    /// if there is none.
    pub(crate) fn remove(&self, directory: &Entry, name: &[u8], removal: Removal) -> Result<()> {
        match (name, removal) {
            (b"." | b"..", Removal::File) => return Err(PosixError::IsDirectory.into()),
            (b".", Removal::Directory) => return Err(PosixError::InvalidArgument.into()),
            (b"..", Removal::Directory) => return Err(PosixError::NotEmpty.into()),
            _ => {}
        }
        loop {
            let child = self.look_up(directory, name)?;
            let removed =
                self.undelegated(&[&child], || self.remove_child(directory, name, &child, removal));
            if let Ok(true) = removed {
                self.notify_name(directory, WatchEvents::DELETE, name);
                self.notify(&child, WatchEvents::ATTRIB);
            }
            self.finish_with(child);
            if removed? {
                return Ok(());
            }
        }
    }

    /// What a name means now, with one more user.
    pub(crate) fn look_up(&self, directory: &Entry, name: &[u8]) -> Result<Arc<Entry>> {
        loop {
            let number = directory.find(&self.journal, name)?.0;
            match self.take(number) {
                // Between the two looks the name was removed, and the file with it.
                Err(xfs_buffer::Error::Posix(PosixError::NotFound))
                    if directory.find(&self.journal, name)?.0 != number => {}
                taken => return taken,
            }
        }
    }

    /// `false` if the name means something else by now.
    fn remove_child(
        &self,
        directory: &Entry,
        name: &[u8],
        child: &Arc<Entry>,
        removal: Removal,
    ) -> Result<bool> {
        let blocks = xfs_dir::blocks_to_remove(self.geometry()) + self.parent_blocks(name);
        self.transact(TransactionKind::Remove, blocks, |tx| {
            join_all(tx, [directory, child]);
            check_is_directory(directory)?;
            match xfs_dir::find_entry(tx, directory.live(), name)? {
                Some((number, _)) if number == child.number() => {}
                Some(_) => return Ok(false),
                None => return Err(PosixError::NotFound.into()),
            }
            check_mutable(&directory.core())?;
            check_removable(tx, child, removal)?;
            check_undelegated(child, self.lease_grace)?;
            let is_directory = removal == Removal::Directory;
            check_loses_name(&child.core(), PosixError::NotEmpty)?;
            if is_directory {
                check_loses_child(&directory.core())?;
            }
            self.drop_name(tx, child, if is_directory { 2 } else { 1 })?;
            xfs_dir::remove_entry(tx, directory.live(), name)?;
            let now = self.clock.now();
            directory.live().change(tx, |core| {
                (core.modify_time, core.change_time) = (now, now);
                core.nlink -= u32::from(is_directory);
            });
            self.remove_parent(tx, child, directory, name)?;
            Ok(true)
        })
    }

    /// Takes links off a file; one that has none left goes on its unlinked list.
    ///
    /// The list is in a certain group, so this comes before anything that can choose its group: a
    /// transaction that already holds a header of a higher one would have to be rolled.
    #[doc(alias = "xfs_droplink")]
    pub(super) fn drop_name(
        &self,
        tx: &mut Transaction<'_>,
        child: &Entry,
        links: u32,
    ) -> Result<()> {
        let now = self.clock.now();
        child.live().change(tx, |core| {
            core.nlink -= links.min(core.nlink);
            core.change_time = now;
        });
        if child.core().nlink == 0 {
            xfs_alloc::add_unlinked(tx, child.live().record())?;
        }
        Ok(())
    }

    pub(super) fn remove_parent(
        &self,
        tx: &mut Transaction<'_>,
        child: &Entry,
        directory: &Entry,
        name: &[u8],
    ) -> Result<()> {
        if !self.has_parents() {
            return Ok(());
        }
        xfs_dir::remove_parent(tx, child.live(), &parent_link(directory, name), self.parents)
    }
}

/// Whether it may be removed as what it is.
pub(super) fn check_removable(
    tx: &mut Transaction<'_>,
    child: &Entry,
    removal: Removal,
) -> Result<()> {
    let core = child.core();
    check_mutable(&core)?;
    let is_directory = core.file_type() == Some(FileType::Directory);
    match removal {
        Removal::File if is_directory => Err(PosixError::IsDirectory.into()),
        Removal::Directory if !is_directory => Err(PosixError::NotDirectory.into()),
        Removal::Directory if !xfs_dir::directory_is_empty(tx, child.live())? => {
            Err(PosixError::NotEmpty.into())
        }
        _ => Ok(()),
    }
}
