//! Changes of an inode that move no name: mode, owner, times, flags. Attributes have [`attributes`](super::attributes).

use std::sync::Arc;

use xfs_buffer::{IoError, PosixError, Result};
use xfs_format::inode::{ExtendedFlags, FileType, InodeCore, InodeFlags, InodeFlags2};
use xfs_format::reservation::TransactionKind;
use xfs_format::timestamp::Timestamp;
use xfs_format::{DiskAddr, Geometry, RoCompatFeatures};

use super::access::{check_mutable, check_not_immutable};
use super::attributes::is_capable;
use super::lists::{Attempt, NewLists};
use super::{Acting, Parts, check_undelegated};
use crate::kind::CachedInode;
use crate::permission::{Access, Who, bits};
use crate::watch::WatchEvents;

/// What to change of an inode; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Permission bits, up to 0o7777. An access control list follows them.
    pub mode: Option<u16>,
    /// Owner; not `u32::MAX`, which is nobody's number.
    pub uid: Option<u32>,
    /// Group; not `u32::MAX`.
    pub gid: Option<u32>,
    /// Project.
    pub project_id: Option<u32>,
    /// Last read.
    pub accessed: Option<Timestamp>,
    /// Last change of the contents.
    pub modified: Option<Timestamp>,
    /// Last change of anything; now, if none is given.
    pub changed: Option<Timestamp>,
    /// When the inode was made.
    pub created: Option<Timestamp>,
    /// Flags; those that are no property of one file are taken no notice of.
    pub xflags: Option<ExtendedFlags>,
    /// Extent size hint in bytes, a multiple of the block size; 0 for none.
    pub extent_size_hint_bytes: Option<u64>,
    /// The same for copies of shared blocks.
    pub cow_extent_size_hint_bytes: Option<u64>,
}

impl Changes {
    /// Whether anything changes that programs set together: flags, project, hints.
    #[doc(alias = "FS_IOC_FSSETXATTR")]
    pub(crate) fn has_settings(&self) -> bool {
        let has_hints =
            self.extent_size_hint_bytes.is_some() || self.cow_extent_size_hint_bytes.is_some();
        self.xflags.is_some() || self.project_id.is_some() || has_hints
    }

    /// Whether nothing else changes. What an inode is not to change by its flags it keeps also where these
    /// are set along: as if the flags came last.
    fn are_settings_alone(&self) -> bool {
        let Self { mode, uid, gid, accessed, modified, changed, created, .. } = self;
        let has_times = [accessed, modified, changed, created].iter().any(|time| time.is_some());
        let has_more = mode.is_some() || uid.is_some() || gid.is_some() || has_times;
        self.has_settings() && !has_more
    }
}

impl Acting<'_> {
    /// Changes an inode, in one transaction.
    pub(crate) fn change(&self, file: &Arc<CachedInode>, changes: &Changes) -> Result<()> {
        check_ids([changes.uid, changes.gid])?;
        // What is written later would give the file its own time.
        self.contents(file).write_back()?;
        self.drop_capabilities_of_given(file, changes)?;
        self.undelegated(&[file], || self.change_file(file, changes))
    }

    /// A file that somebody gives to another owner loses its capabilities first.
    fn drop_capabilities_of_given(&self, file: &CachedInode, changes: &Changes) -> Result<()> {
        let gives = (changes.uid.is_some() || changes.gid.is_some()) && !file.is_directory();
        if !gives {
            return Ok(());
        }
        let is_capable = {
            let _latch = file.live().record().latch().shared();
            check_mutable(&file.core())?;
            self.who.check_change(&file.core(), changes)?;
            is_capable(&self.journal, file)?
        };
        self.drop_privileges(file, false, is_capable).map(drop)
    }

    /// Sets the times of last access and last change of the contents to now.
    pub(crate) fn set_times_to_now(&self, file: &Arc<CachedInode>) -> Result<()> {
        self.contents(file).write_back()?;
        self.undelegated(&[file], || {
            self.transact(TransactionKind::ChangeInode, 0, |tx| {
                tx.join(file.live().record());
                check_not_immutable(&file.core())?;
                if self.who.somebody().is_some() {
                    self.who.check_touch(self.journal.cache(), &file.live().inode())?;
                }
                check_undelegated(file)?;
                let now = self.clock.now();
                file.live().change(tx, |core| {
                    (core.access_time, core.modify_time, core.change_time) = (now, now, now);
                });
                Ok(())
            })
        })?;
        self.notify(file, WatchEvents::ATTRIB);
        Ok(())
    }

    fn change_file(&self, file: &CachedInode, changes: &Changes) -> Result<()> {
        self.transact_with_lists(TransactionKind::ChangeInode, 0, |tx, room| {
            tx.join(file.live().record());
            let core = file.core();
            if !changes.are_settings_alone() {
                check_mutable(&core)?;
            }
            let withheld = self.who.check_change(&core, changes)?;
            check_undelegated(file)?;
            let hints = self.hints(&core, changes)?;
            let lists = match changes.mode {
                Some(mode) => NewLists::changed(tx, file, mode)?,
                None => NewLists::default(),
            };
            if let Some(needed) = lists.lacks_room(room) {
                return Ok(Attempt::NeedsRoom(needed));
            }
            let mode = changed_mode(&core, changes, self.who) & !withheld;
            let change_time = changes.changed.unwrap_or_else(|| self.clock.now());
            let changes = *changes;
            file.forget_rights();
            lists.set_along(tx, file.live(), move |core| {
                apply(core, &changes);
                hints.apply(core);
                (core.mode, core.change_time) = (mode, change_time);
            })?;
            Ok(Attempt::Done(()))
        })?;
        self.notify(file, WatchEvents::ATTRIB);
        Ok(())
    }

    /// Sets the time of the last access, and nothing else: for who may read the file.
    pub(crate) fn note_access(&self, file: &CachedInode, time: Timestamp) -> Result<()> {
        self.transact(TransactionKind::ChangeInode, 0, |tx| {
            tx.join(file.live().record());
            self.check(file, Access::READ)?;
            file.live().change_times(tx, |core| core.access_time = time);
            Ok(())
        })
    }

    /// Sets the times of the last change of the contents and of anything, and nothing else, whatever the
    /// flags of the file: the contents have changed.
    pub(crate) fn note_modified(
        &self,
        file: &Arc<CachedInode>,
        modified: Timestamp,
        changed: Timestamp,
    ) -> Result<()> {
        // What is written later would give the file its own time.
        self.contents(file).write_back()?;
        self.transact(TransactionKind::ChangeInode, 0, |tx| {
            tx.join(file.live().record());
            self.check(file, Access::WRITE)?;
            file.live().change_times(tx, |core| {
                (core.modify_time, core.change_time) = (modified, changed);
            });
            Ok(())
        })
    }
}

/// Whether there can be such users and groups: the last number is none, by which chown(2) leaves them as they are.
pub(super) fn check_ids(ids: impl IntoIterator<Item = Option<u32>>) -> Result<()> {
    match ids.into_iter().flatten().any(|id| id == u32::MAX) {
        true => Err(PosixError::InvalidArgument.into()),
        false => Ok(()),
    }
}

impl Parts {
    fn hints(&self, core: &InodeCore, changes: &Changes) -> Result<Hints> {
        let geometry = self.geometry();
        let to_blocks = |bytes: u64| {
            if bytes & (u64::from(geometry.block_size) - 1) != 0 {
                return Err(PosixError::InvalidArgument);
            }
            let blocks = bytes >> geometry.block_log;
            // As much as an extent can hold, and half of a group.
            let most = u64::from(geometry.ag_blocks / 2).min((1 << 21) - 1);
            if blocks > most { Err(PosixError::InvalidArgument) } else { Ok(blocks as u32) }
        };
        let extent = changes.extent_size_hint_bytes.map(to_blocks).transpose()?;
        let copy = changes.cow_extent_size_hint_bytes.map(to_blocks).transpose()?;
        let has_type = |wanted: &[FileType]| {
            core.file_type().is_some_and(|file_type| wanted.contains(&file_type))
        };
        // Only where blocks are shared does anybody copy, and an inode with this hint is damaged elsewhere.
        let copies = geometry.has_ro_compat(RoCompatFeatures::REFLINK);
        if copy.is_some_and(|blocks| blocks > 0) && !copies {
            return Err(PosixError::InvalidArgument.into());
        }
        let is_sized = has_type(&[FileType::Regular, FileType::Directory]);
        if (extent.is_some_and(|blocks| blocks > 0) || copy.is_some_and(|blocks| blocks > 0))
            && !is_sized
        {
            return Err(PosixError::InvalidArgument.into());
        }
        let has = |flag| changes.xflags.is_some_and(|xflags| xflags.contains(flag));
        // No volume that is written to has a realtime device, to which the data could go.
        if has(ExtendedFlags::DAX) && !is_sized || has(ExtendedFlags::REALTIME) {
            return Err(PosixError::InvalidArgument.into());
        }
        // The size of extents cannot be told to change once there are some.
        let changes_hint = extent.is_some_and(|blocks| blocks != core.extent_size_hint_blocks);
        if changes_hint && has_type(&[FileType::Regular]) && core.extents > 0 {
            return Err(PosixError::InvalidArgument.into());
        }
        let hints = Hints { extent, copy };
        if changes.has_settings() && hints.misfit(core, changes, geometry) {
            return Err(PosixError::InvalidArgument.into());
        }
        Ok(hints)
    }

    /// Makes what has been changed in this inode durable.
    pub(crate) fn sync(&self, file: &Arc<CachedInode>) -> Result<()> {
        self.contents(file).flush_for_sync()?;
        self.journal.force(file.live().record().sequence())?;
        self.check_length()
    }

    /// Makes the contents of a file durable, and what is needed to read them.
    pub(crate) fn sync_contents(&self, file: &Arc<CachedInode>) -> Result<()> {
        self.contents(file).flush_for_sync()?;
        file.live().sync_contents(&self.journal)?;
        self.check_length()
    }

    /// Fails if the device became shorter. What was synced before is not flushed again, and may be lost.
    fn check_length(&self) -> Result<()> {
        let checked = self.journal.cache().device().check_length();
        checked.map_err(|source| {
            IoError { operation: "sync", at: DiskAddr(0), length_bytes: 0, source }.into()
        })
    }
}

/// Hints in blocks.
struct Hints {
    extent: Option<u32>,
    copy: Option<u32>,
}

impl Hints {
    /// Whether a directory would hand on a hint for the realtime device that does not fit it. One that it has
    /// goes with the change.
    fn misfit(&self, core: &InodeCore, changes: &Changes, geometry: &Geometry) -> bool {
        let mut after = core.clone();
        after.drop_misfit_hints(geometry);
        apply(&mut after, changes);
        self.apply(&mut after);
        after.has_misfit_hint(geometry)
    }

    fn apply(&self, core: &mut InodeCore) {
        let is_directory = core.file_type() == Some(FileType::Directory);
        if let Some(blocks) = self.extent {
            let flag = if is_directory { InodeFlags::EXTSZINHERIT } else { InodeFlags::EXTSIZE };
            core.extent_size_hint_blocks = blocks;
            core.flags.set(flag, blocks > 0);
        }
        if let Some(blocks) = self.copy {
            core.cow_extent_size_hint_blocks = blocks;
            core.flags2.set(InodeFlags2::COWEXTSIZE, blocks > 0);
        }
    }
}

/// The mode that a file has after these changes.
fn changed_mode(core: &InodeCore, changes: &Changes, who: Who<'_>) -> u16 {
    let mut after = core.clone();
    if let Some(mode) = changes.mode {
        after.mode = core.mode & !bits::ALL | mode & bits::ALL;
    }
    let is_directory = core.file_type() == Some(FileType::Directory);
    if (changes.uid.is_some() || changes.gid.is_some()) && !is_directory {
        after.mode &= !who.lost_set_ids(&after);
    }
    after.mode
}

/// Makes the changes of all but the mode.
fn apply(core: &mut InodeCore, changes: &Changes) {
    core.uid = changes.uid.unwrap_or(core.uid);
    core.gid = changes.gid.unwrap_or(core.gid);
    core.project_id = changes.project_id.unwrap_or(core.project_id);
    core.access_time = changes.accessed.unwrap_or(core.access_time);
    core.modify_time = changes.modified.unwrap_or(core.modify_time);
    core.birth_time = changes.created.unwrap_or(core.birth_time);
    if let Some(xflags) = changes.xflags {
        apply_flags(core, xflags);
    }
}

/// Flags that can be set by their `FS_XFLAG` bit, and their bits in the inode.
const SETTABLE: [(ExtendedFlags, InodeFlags); 10] = [
    (ExtendedFlags::IMMUTABLE, InodeFlags::IMMUTABLE),
    (ExtendedFlags::APPEND, InodeFlags::APPEND),
    (ExtendedFlags::SYNC, InodeFlags::SYNC),
    (ExtendedFlags::NOATIME, InodeFlags::NOATIME),
    (ExtendedFlags::NODUMP, InodeFlags::NODUMP),
    (ExtendedFlags::RTINHERIT, InodeFlags::RTINHERIT),
    (ExtendedFlags::PROJINHERIT, InodeFlags::PROJINHERIT),
    (ExtendedFlags::NOSYMLINKS, InodeFlags::NOSYMLINKS),
    (ExtendedFlags::NODEFRAG, InodeFlags::NODEFRAG),
    (ExtendedFlags::FILESTREAM, InodeFlags::FILESTREAM),
];

/// Those that mean something for directories only.
const OF_DIRECTORIES: InodeFlags =
    InodeFlags::RTINHERIT.union(InodeFlags::PROJINHERIT).union(InodeFlags::NOSYMLINKS);

fn apply_flags(core: &mut InodeCore, xflags: ExtendedFlags) {
    let is_directory = core.file_type() == Some(FileType::Directory);
    for (wanted, flag) in SETTABLE {
        let applies = is_directory || !OF_DIRECTORIES.contains(flag);
        core.flags.set(flag, applies && xflags.contains(wanted));
    }
    core.flags2.set(InodeFlags2::DAX, xflags.contains(ExtendedFlags::DAX));
}
