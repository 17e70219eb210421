//! Moving, replacing and exchanging names.
//!
//! All inodes that a rename changes are latched in one transaction, so that no reader ever observes
//! both names missing, or a replaced name absent.

use xfs_buffer::{PosixError, Result};
use xfs_dir::NewEntry;
use xfs_format::InodeNumber;
use xfs_format::directory::EntryType;
use xfs_format::inode::{DeviceNumber, InodeCore};
use xfs_format::reservation::TransactionKind;
use xfs_trans::Transaction;

use super::create::{NewInode, check_is_directory, parent_link};
use super::link::check_project;
use crate::activity::Activity;
use crate::corruption::cycle;
use crate::inode_flags::check_mutable;
use crate::inode_ref::{InodeRef, OperandRef};
use crate::kind::CachedInode;
use crate::leases::check_undelegated;
use crate::link_counts::{check_gains_link, check_loses_child, check_loses_name};
use crate::mount::{Mount, OperationBlocks};
use crate::name::{EntryName, check_name};
use crate::op_context::OpContext;
use crate::permission::Access;
use crate::requests::{CreateOptions, NewKind, RenameMode};
use crate::watch::WatchEvents;

/// A rename, after a lookup has found the inodes to which the old name and the new name lead.
#[derive(Clone, Copy)]
struct KnownRename<'a> {
    from: EntryName<'a>,
    to: EntryName<'a>,
    child: &'a CachedInode,
    /// The inode that has the new name. `None` if the new name does not exist.
    target: Option<&'a CachedInode>,
    /// The whiteout (see `make_whiteout`) that gets the old name. `None` if the rename leaves no
    /// whiteout.
    whiteout: Option<&'a CachedInode>,
    mode: RenameMode,
}

impl<'c> OpContext<'c> {
    /// Moves a name to another name or directory.
    pub fn rename(&self, from: EntryName<'_>, to: EntryName<'_>, mode: RenameMode) -> Result<()> {
        for place in [from, to] {
            match check_name(place.name) {
                Err(xfs_buffer::Error::Posix(PosixError::Exists)) => {
                    return Err(PosixError::Busy.into());
                }
                checked => checked?,
            }
        }
        for place in [from, to] {
            self.check_searchable(place.directory)?;
        }
        loop {
            let child = self.mount.look_up(from.directory, from.name)?;
            let target = match self.mount.look_up(to.directory, to.name) {
                Ok(target) => Some(OperandRef::new(target)),
                Err(xfs_buffer::Error::Posix(PosixError::NotFound)) => None,
                Err(error) => return Err(error),
            };
            let whiteout = match mode {
                RenameMode::Whiteout => self.make_whiteout(to.directory).map(Some),
                _ => Ok(None),
            };
            let replaced = target.as_ref().map(|target| &***target);
            let rename =
                KnownRename { from, to, child: &child, target: replaced, whiteout: None, mode };
            let renamed = whiteout.and_then(|whiteout| {
                let whiteout = whiteout.as_ref().map(|whiteout| &***whiteout);
                let rename = KnownRename { whiteout, ..rename };
                let files = [Some(&**child.inode()), rename.target];
                let files: Vec<_> = files.into_iter().flatten().collect();
                self.undelegated(&files, || self.rename_known(&rename))
            });
            if let Ok(true) = renamed {
                self.count_renamed(&rename);
                self.notify_renamed(&rename);
            }
            // Before the target, which may be the same file.
            drop(child);
            if renamed? {
                return Ok(());
            }
        }
    }

    /// Counts the names that were added and removed. As in the kernel's counters, a name that
    /// exists before and after the rename counts as neither, even if it leads to another file
    /// afterwards.
    fn count_renamed(&self, rename: &KnownRename<'_>) {
        let KnownRename { child, target, mode, .. } = *rename;
        let is_same = target.is_some_and(|target| target.number() == child.number());
        if is_same || mode == RenameMode::Exchange {
            return;
        }
        if target.is_none() {
            self.mount.note(Activity::NameAdded);
        }
        if mode != RenameMode::Whiteout {
            self.mount.note(Activity::NameRemoved);
        }
    }

    /// Sends the events of a rename to watches.
    fn notify_renamed(&self, rename: &KnownRename<'_>) {
        let KnownRename { from, to, child, target, mode, .. } = *rename;
        if target.is_some_and(|target| target.number() == child.number()) {
            return;
        }
        self.mount.notify_move(child, from, to);
        match target {
            Some(target) if mode == RenameMode::Exchange => {
                self.mount.notify_move(target, to, from)
            }
            Some(target) => self.mount.notify(target, WatchEvents::ATTRIB),
            None => {}
        }
    }

    /// Performs a rename. Returns `false` if a name no longer leads to the inode that the lookup
    /// found.
    fn rename_known(&self, rename: &KnownRename<'_>) -> Result<bool> {
        let KnownRename { from, to, child, target, mode, .. } = *rename;
        match target {
            Some(_) if mode == RenameMode::NoReplace => return Err(PosixError::Exists.into()),
            None if mode == RenameMode::Exchange => return Err(PosixError::NotFound.into()),
            // Two names of one file: there is nothing to do.
            Some(target) if target.number() == child.number() => return Ok(true),
            _ => {}
        }
        let apart = from.directory.number() != to.directory.number();
        let exchanged = target.filter(|_| mode == RenameMode::Exchange);
        let moves_directory =
            [Some(child), exchanged].into_iter().flatten().any(CachedInode::is_directory);
        let _moving = (apart && moves_directory).then(|| self.mount.moving.lock());
        if apart {
            self.check_not_below(child, to.directory)?;
            match (target, mode) {
                (Some(target), RenameMode::Exchange) => {
                    self.check_not_below(target, from.directory)?;
                }
                (Some(target), _) if self.is_below(target, from.directory)? => {
                    return Err(PosixError::NotEmpty.into());
                }
                _ => {}
            }
        }
        let OperationBlocks { add, remove, parent, .. } = self.mount.reserves;
        let blocks = add + remove + 4 * parent;
        let operate = |tx: &mut Transaction<'_>| {
            join_known(tx, rename);
            if !still_named(tx, rename)? {
                return Ok(false);
            }
            self.check_rename(tx, rename)?;
            check_links(rename)?;
            // As in the kernel, an exchange of names needs no quota.
            if mode != RenameMode::Exchange {
                let blocks = self.rename_quota_blocks(rename);
                self.mount.reserve_for_name(tx, to, child.number(), blocks)?;
            }
            for place in [from, to] {
                self.mount.dentries.invalidate(place.directory.number(), place.name);
            }
            for file in [Some(child), target].into_iter().flatten() {
                check_undelegated(file)?;
            }
            match (mode, target) {
                (RenameMode::Exchange, Some(target)) => self.exchange(tx, rename, target)?,
                _ => self.replace(tx, rename)?,
            }
            Ok(true)
        };
        self.mount.with_quota_room(|| self.mount.transact(TransactionKind::Rename, blocks, operate))
    }

    /// Returns the number of blocks that the quotas of the target directory's owners must still
    /// permit for a rename. The number is that of the kernel.
    #[doc(alias = "xfs_rename_space_res")]
    fn rename_quota_blocks(&self, rename: &KnownRename<'_>) -> u64 {
        let geometry = self.mount.geometry();
        let (target, whiteout) = (rename.target.is_some(), rename.whiteout.is_some());
        let parents = 2 + u64::from(target) + u64::from(whiteout);
        xfs_dir::blocks_to_remove_quota(geometry)
            + self.mount.reserves.add
            + parents * self.mount.reserves.parent_quota
    }

    /// Checks that the source may be moved and the target replaced.
    fn check_rename(&self, tx: &mut Transaction<'_>, rename: &KnownRename<'_>) -> Result<()> {
        let KnownRename { from, to, child, target, mode, .. } = *rename;
        self.check_removes(from.directory, child)?;
        check_mutable(&child.core())?;
        match target {
            Some(target) => {
                self.check_removes(to.directory, target)?;
                check_mutable(&target.core())?;
            }
            None => self.check_adds(to.directory)?,
        }
        let replaced = target.filter(|_| mode != RenameMode::Exchange);
        match replaced.map(|replaced| (child.is_directory(), replaced.is_directory())) {
            Some((true, false)) => return Err(PosixError::NotDirectory.into()),
            Some((false, true)) => return Err(PosixError::IsDirectory.into()),
            _ => {}
        }
        self.check_moves(rename)?;
        // The target of an exchange is not checked for its project.
        check_project(&to.directory.core(), &child.core())?;
        // XFS has always returned EEXIST here, where others return ENOTEMPTY.
        match replaced.filter(|replaced| replaced.is_directory()) {
            Some(replaced) if !xfs_dir::directory_is_empty(tx, replaced.live())? => {
                Err(PosixError::Exists.into())
            }
            _ => Ok(()),
        }
    }

    /// Checks that the caller may write each directory that moves to another parent, since the `..`
    /// of such a directory changes.
    fn check_moves(&self, rename: &KnownRename<'_>) -> Result<()> {
        let KnownRename { from, to, child, target, mode, .. } = *rename;
        if from.directory.number() == to.directory.number() {
            return Ok(());
        }
        let exchanged = target.filter(|_| mode == RenameMode::Exchange);
        let moved = [Some(child), exchanged].into_iter().flatten();
        moved
            .filter(|file| file.is_directory())
            .try_for_each(|directory| self.check(directory, Access::WRITE))
    }

    fn check_not_below(&self, child: &CachedInode, directory: &CachedInode) -> Result<()> {
        if self.is_below(child, directory)? {
            Err(PosixError::InvalidArgument.into())
        } else {
            Ok(())
        }
    }

    /// Returns whether `directory` is `child`, or is below `child`.
    fn is_below(&self, child: &CachedInode, directory: &CachedInode) -> Result<bool> {
        if !child.is_directory() {
            return Ok(false);
        }
        let mut number = directory.number();
        let most = self.mount.journal.inodes();
        for _ in 0..=most {
            if number == child.number() {
                return Ok(true);
            }
            let entry = self.mount.take(number)?;
            let (above, _) = entry.find(&self.mount.journal, b"..")?;
            if above == number {
                return Ok(false);
            }
            number = above;
        }
        Err(cycle(directory.number()).into())
    }

    fn exchange(
        &self,
        tx: &mut Transaction<'_>,
        rename: &KnownRename<'_>,
        target: &CachedInode,
    ) -> Result<()> {
        let KnownRename { from, to, child, .. } = *rename;
        xfs_dir::replace_entry(tx, from.directory.live(), &entry_of(from.name, target))?;
        xfs_dir::replace_entry(tx, to.directory.live(), &entry_of(to.name, child))?;
        if from.directory.number() != to.directory.number() {
            let (left, right) = (child.is_directory(), target.is_directory());
            if left {
                point_up(tx, child, to.directory.number())?;
            }
            if right {
                point_up(tx, target, from.directory.number())?;
            }
            if left != right {
                let (gains, loses) = if left { (to, from) } else { (from, to) };
                gains.directory.live().change(tx, |core| core.nlink += 1);
                loses.directory.live().change(tx, |core| core.nlink -= 1);
            }
        }
        // A change of `..` counts as a change of the directory's contents.
        let apart = from.directory.number() != to.directory.number();
        let (moved, renamed): (Vec<_>, Vec<_>) =
            [child, target].into_iter().partition(|file| apart && file.is_directory());
        self.touch(tx, &[from.directory, to.directory], &renamed);
        self.touch(tx, &moved, &[]);
        self.replace_parent(tx, child, from, to)?;
        self.replace_parent(tx, target, to, from)
    }

    fn replace(&self, tx: &mut Transaction<'_>, rename: &KnownRename<'_>) -> Result<()> {
        let KnownRename { from, to, child, target, whiteout, .. } = *rename;
        let is_directory = child.is_directory();
        self.change_lists(tx, target, whiteout)?;
        match target {
            Some(_) => {
                xfs_dir::replace_entry(tx, to.directory.live(), &entry_of(to.name, child))?;
            }
            None => xfs_dir::add_entry(tx, to.directory.live(), &entry_of(to.name, child))?,
        }
        match whiteout {
            Some(whiteout) => {
                let entry = entry_of(from.name, whiteout);
                xfs_dir::replace_entry(tx, from.directory.live(), &entry)?;
                self.add_parent(tx, whiteout.live(), from.directory, from.name)?;
            }
            None => drop(xfs_dir::remove_entry(tx, from.directory.live(), from.name)?),
        }
        let apart = from.directory.number() != to.directory.number();
        if is_directory && apart {
            point_up(tx, child, to.directory.number())?;
            from.directory.live().change(tx, |core| core.nlink -= 1);
            to.directory.live().change(tx, |core| core.nlink += 1);
        }
        if target.is_some_and(CachedInode::is_directory) {
            to.directory.live().change(tx, |core| core.nlink -= 1);
        }
        self.touch(tx, &[from.directory, to.directory], &[child]);
        self.replace_parent(tx, child, from, to)?;
        match target {
            Some(target) => self.remove_parent(tx, target, to.directory, to.name),
            None => Ok(()),
        }
    }

    /// Makes a whiteout that has no name yet: the character device 0:0, with which an overlay hides
    /// a name of a lower layer. As in the kernel, the whiteout inherits from the directory to which
    /// the renamed file moves.
    fn make_whiteout(&self, directory: &CachedInode) -> Result<InodeRef<&'c Mount>> {
        let kind = NewKind::CharacterDevice(DeviceNumber { major: 0, minor: 0 });
        let creation = CreateOptions { mode: 0, uid: 0, gid: 0, umask: 0 };
        self.ensure_owners(directory, kind.file_type(), &creation)?;
        self.make_unnamed(directory, |_| {
            let creation = self.caller.creation(kind.file_type(), &creation, || directory.core());
            Ok(NewInode::plain(&kind, creation, 0))
        })
    }

    /// Removes the link of the replaced inode, and puts this inode on an unlinked list if it has no
    /// link left. Takes the whiteout, which gets a name, off its own unlinked list. These two
    /// changes come before all others, in the order of the inode numbers, because each list belongs
    /// to the group of its inode; see `drop_name`.
    fn change_lists(
        &self,
        tx: &mut Transaction<'_>,
        target: Option<&CachedInode>,
        whiteout: Option<&CachedInode>,
    ) -> Result<()> {
        let named = |tx: &mut Transaction<'_>| match whiteout {
            Some(whiteout) => {
                xfs_alloc::remove_unlinked(tx, whiteout.live().log_item())?;
                whiteout.live().change(tx, |core| core.nlink = 1);
                Ok(())
            }
            None => Ok(()),
        };
        let Some(target) = target else { return named(tx) };
        let links = if target.is_directory() { 2 } else { 1 };
        if whiteout.is_some_and(|whiteout| whiteout.number() < target.number()) {
            named(tx)?;
            return self.drop_name(tx, target, links);
        }
        self.drop_name(tx, target, links)?;
        named(tx)
    }

    fn replace_parent(
        &self,
        tx: &mut Transaction<'_>,
        file: &CachedInode,
        from: EntryName<'_>,
        to: EntryName<'_>,
    ) -> Result<()> {
        if !self.mount.has_parents() {
            return Ok(());
        }
        let old = parent_link(from.directory, from.name);
        let new = parent_link(to.directory, to.name);
        xfs_dir::replace_parent(tx, file.live(), &old, &new, self.mount.parents)
    }

    /// Sets the modification and change times of directories, and the change times of files.
    fn touch(
        &self,
        tx: &mut Transaction<'_>,
        directories: &[&CachedInode],
        files: &[&CachedInode],
    ) {
        let now = self.mount.clock.now();
        for directory in directories {
            let change = |core: &mut InodeCore| {
                (core.modify_time, core.change_time) = (now, now);
            };
            directory.live().change(tx, change);
        }
        for file in files {
            file.live().change(tx, |core| core.change_time = now);
        }
    }
}

fn entry_of<'a>(name: &'a [u8], file: &CachedInode) -> NewEntry<'a> {
    let entry_type = EntryType::of(file.live().inode().file_type());
    NewEntry { name, inode: file.number(), entry_type }
}

/// Sets the `..` entry of the directory `child` to the inode number `parent`.
fn point_up(tx: &mut Transaction<'_>, child: &CachedInode, parent: InodeNumber) -> Result<()> {
    let entry_type = EntryType::Directory;
    let entry = NewEntry { name: b"..", inode: parent, entry_type };
    xfs_dir::replace_entry(tx, child.live(), &entry).map(drop)
}

/// Latches all inodes of a rename, in the order of their inode numbers.
fn join_known(tx: &mut Transaction<'_>, rename: &KnownRename<'_>) {
    let KnownRename { from, to, child, target, whiteout, .. } = *rename;
    let mut entries = vec![from.directory, to.directory, child];
    entries.extend(target);
    entries.extend(whiteout);
    entries.sort_by_key(|entry| entry.number());
    for entry in entries {
        tx.join(entry.live().log_item());
    }
}

/// Returns whether the names of a rename still lead to the inodes that the lookup found.
fn still_named(tx: &mut Transaction<'_>, rename: &KnownRename<'_>) -> Result<bool> {
    let KnownRename { from, to, child, target, .. } = *rename;
    check_is_directory(from.directory)?;
    check_is_directory(to.directory)?;
    let mut means = |place: EntryName<'_>| -> Result<Option<InodeNumber>> {
        let found = xfs_dir::find_entry(tx, place.directory.live(), place.name)?;
        Ok(found.map(|(number, _)| number))
    };
    let (source, destination) = (means(from)?, means(to)?);
    match source {
        None => Err(PosixError::NotFound.into()),
        Some(number) => {
            Ok(number == child.number() && destination == target.map(CachedInode::number))
        }
    }
}

/// Checks the link counts of the two directories and of the target: a count that goes down must be
/// high enough to lose a link, and a count that goes up must be below the maximum.
fn check_links(rename: &KnownRename<'_>) -> Result<()> {
    let KnownRename { from, to, child, target, mode, .. } = *rename;
    let moves = child.is_directory();
    let replaces = target.is_some_and(CachedInode::is_directory);
    let apart = from.directory.number() != to.directory.number();
    let (source, destination) = (from.directory.core(), to.directory.core());
    if mode == RenameMode::Exchange {
        return match (apart, moves, replaces) {
            (true, true, false) => check_crosses(&source, &destination),
            (true, false, true) => check_crosses(&destination, &source),
            _ => Ok(()),
        };
    }
    if let Some(target) = target {
        check_loses_name(&target.core(), PosixError::Exists)?;
    }
    if replaces {
        check_loses_child(&destination)?;
    }
    if moves && apart { check_crosses(&source, &destination) } else { Ok(()) }
}

/// Checks the link counts of two directories before a subdirectory moves from `loses` to `gains`.
fn check_crosses(loses: &InodeCore, gains: &InodeCore) -> Result<()> {
    check_loses_child(loses)?;
    check_gains_link(gains)
}
