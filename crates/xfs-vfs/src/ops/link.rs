//! Adding a name to an existing file.

use xfs_buffer::{PosixError, Result};
use xfs_format::directory::EntryType;
use xfs_format::inode::{FileType, InodeCore, InodeFlags};
use xfs_format::reservation::TransactionKind;
use xfs_trans::Transaction;

use crate::inode_flags::check_mutable;
use crate::kind::CachedInode;
use crate::leases::check_undelegated;
use crate::link_counts::check_gains_link;
use crate::mount::join_all;
use crate::name::{EntryName, check_name};
use crate::op_context::OpContext;
use crate::watch::WatchEvents;

impl OpContext<'_> {
    /// Adds a name to a file: one more name, or the first name of a file that was created without a
    /// name.
    pub fn link(&self, file: &CachedInode, directory: &CachedInode, name: &[u8]) -> Result<()> {
        check_name(name)?;
        self.undelegated(&[file], || self.link_file(file, directory, name))
    }

    fn link_file(&self, file: &CachedInode, directory: &CachedInode, name: &[u8]) -> Result<()> {
        let blocks = self.mount.reserves.add + self.mount.reserves.parent;
        let operate = |tx: &mut Transaction<'_>| {
            join_all(tx, [file, directory]);
            let place = self.check_is_free(tx, directory, name)?;
            self.check_link(file)?;
            self.check_adds(directory)?;
            self.mount.dentries.invalidate(directory.number(), name);
            let core = file.core();
            check_linkable(file, &core)?;
            check_undelegated(file)?;
            check_project(&directory.core(), &core)?;
            let new = EntryName { directory, name };
            let quota_blocks = self.mount.reserves.add + self.mount.reserves.parent_quota;
            self.mount.reserve_for_name(tx, new, file.number(), quota_blocks)?;
            // The unlinked list belongs to a certain group, so this comes before changes that can
            // choose their group.
            if core.nlink == 0 {
                xfs_alloc::remove_unlinked(tx, file.live().log_item())?;
                file.set_awaits_name(false);
            }
            let entry_type = EntryType::of(file.live().inode().file_type());
            xfs_dir::add_entry_at(tx, directory.live(), place, file.number(), entry_type)?;
            let now = self.mount.clock.now();
            directory.live().change(tx, |core| (core.modify_time, core.change_time) = (now, now));
            file.live().change(tx, |core| {
                core.nlink += 1;
                core.change_time = now;
            });
            self.add_parent(tx, file.live(), directory, name)
        };
        let transact = || self.mount.transact(TransactionKind::Link, blocks, operate);
        self.mount.with_quota_room(transact)?;
        self.mount.notify_name(directory, WatchEvents::CREATE, name);
        self.mount.notify(file, WatchEvents::ATTRIB);
        Ok(())
    }
}

fn check_linkable(file: &CachedInode, core: &InodeCore) -> Result<()> {
    if core.file_type() == Some(FileType::Directory) {
        return Err(PosixError::NotPermitted.into());
    }
    check_mutable(core)?;
    if core.nlink == 0 && !file.awaits_name() {
        return Err(PosixError::NotFound.into());
    }
    check_gains_link(core)
}

/// Checks that the projects of a directory and a file permit an entry for the file. If new files
/// inherit the project of the directory, the file must have the same project. A special file
/// without a project may be in any directory.
pub(crate) fn check_project(directory: &InodeCore, file: &InodeCore) -> Result<()> {
    let hands_down = directory.flags.contains(InodeFlags::PROJINHERIT);
    let has_one = matches!(
        file.file_type(),
        Some(FileType::Regular | FileType::Directory | FileType::Symlink)
    );
    let may_be_anywhere = !has_one && file.project_id == 0;
    if hands_down && directory.project_id != file.project_id && !may_be_anywhere {
        return Err(PosixError::CrossDevice.into());
    }
    Ok(())
}
