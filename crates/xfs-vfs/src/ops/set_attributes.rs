//! Changes of mode, owner, times and flags of an inode, and syncs of one inode. Extended attributes
//! are in [`attributes`](super::attributes).

use std::sync::Arc;

use xfs_alloc::RealtimeSpace;
use xfs_buffer::{IoError, PosixError, Result};
use xfs_format::dquot::QuotaKind;
use xfs_format::inode::{ExtendedFlags, FileType, InodeCore, InodeFlags, InodeFlags2};
use xfs_format::reservation::TransactionKind;
use xfs_format::timestamp::Timestamp;
use xfs_format::{DiskAddr, Geometry, RoCompatFeatures};
use xfs_trans::Transaction;

use super::acl::{NewLists, Outcome};
use super::attributes::is_capable;
use crate::credentials::Capabilities;
use crate::inode_flags::{check_mutable, check_not_immutable};
use crate::kind::CachedInode;
use crate::leases::check_undelegated;
use crate::mode_bits;
use crate::mount::Mount;
use crate::op_context::OpContext;
use crate::permission::{Access, Caller};
use crate::requests::SetAttributes;
use crate::watch::WatchEvents;

impl OpContext<'_> {
    /// Sets attributes of an inode, in one transaction.
    pub fn set_attributes(&self, file: &Arc<CachedInode>, changes: &SetAttributes) -> Result<()> {
        check_ids([changes.uid, changes.gid])?;
        // Bytes that are written later would give the file their own time.
        self.mount.contents(file).write_back()?;
        self.drop_capabilities_of_given(file, changes)?;
        if self.mount.journal.ledger().is_some() {
            // A refused change must not allocate dquots.
            {
                let _latch = file.live().log_item().latch().shared();
                self.caller.check_change(&file.core(), changes)?;
            }
            self.mount.ensure_owners(changes.uid, changes.gid, changes.project_id)?;
        }
        self.undelegated(&[file], || {
            // A write that has allocated its blocks must not find the file on another device.
            let moves =
                changes.xflags.is_some() && self.mount.moves_contents(&file.core(), changes);
            let _contents = match moves {
                true => Some(self.mount.contents(file).settle_to_change()?),
                false => None,
            };
            self.change_file(file, changes)
        })
    }

    /// Removes the file's capabilities attribute if `changes` give the file another owner or group.
    fn drop_capabilities_of_given(
        &self,
        file: &CachedInode,
        changes: &SetAttributes,
    ) -> Result<()> {
        let gives = (changes.uid.is_some() || changes.gid.is_some()) && !file.is_directory();
        if !gives {
            return Ok(());
        }
        let is_capable = {
            let _latch = file.live().log_item().latch().shared();
            check_mutable(&file.core())?;
            self.caller.check_change(&file.core(), changes)?;
            is_capable(&self.mount.journal, file)?
        };
        self.drop_privileges(file, false, is_capable).map(drop)
    }

    /// Sets the times of last access and last modification to now.
    pub fn set_times_to_now(&self, file: &Arc<CachedInode>) -> Result<()> {
        self.mount.contents(file).write_back()?;
        self.undelegated(&[file], || {
            self.mount.transact(TransactionKind::ChangeInode, 0, |tx| {
                tx.join(file.live().log_item());
                check_not_immutable(&file.core())?;
                if self.caller.credentials().is_some() {
                    self.caller.check_touch(self.mount.journal.cache(), &file.live().inode())?;
                }
                check_undelegated(file)?;
                let now = self.mount.clock.now();
                file.live().change(tx, |core| {
                    (core.access_time, core.modify_time, core.change_time) = (now, now, now);
                });
                Ok(())
            })
        })?;
        self.mount.notify(file, WatchEvents::ATTRIB);
        Ok(())
    }

    fn change_file(&self, file: &CachedInode, changes: &SetAttributes) -> Result<()> {
        self.mount.transact_with_lists(TransactionKind::ChangeInode, 0, |tx, room| {
            tx.join(file.live().log_item());
            let core = file.core();
            if !changes.are_settings_alone() {
                check_mutable(&core)?;
            }
            let withheld = self.caller.check_change(&core, changes)?;
            check_undelegated(file)?;
            let hints = self.mount.hints(&core, changes)?;
            let lists = match changes.mode {
                Some(mode) => NewLists::changed(tx, file, mode)?,
                None => NewLists::default(),
            };
            if let Some(needed) = lists.lacks_room(room) {
                return Ok(Outcome::RetryWith(needed));
            }
            self.reserve_given(tx, file, changes)?;
            let mode = changed_mode(&core, changes, self.caller) & !withheld;
            let change_time = changes.changed.unwrap_or_else(|| self.mount.clock.now());
            let changes = *changes;
            file.forget_rights();
            lists.set_along(tx, file.live(), move |core| {
                apply(core, &changes);
                hints.apply(core);
                (core.mode, core.change_time) = (mode, change_time);
            })?;
            Ok(Outcome::Done(()))
        })?;
        self.mount.notify(file, WatchEvents::ATTRIB);
        Ok(())
    }

    /// Reserves quota for the new owners of an inode, to which its space will be charged. A caller
    /// that may change the owner of any file is never refused.
    #[doc(alias = "xfs_trans_alloc_ichange")]
    fn reserve_given(
        &self,
        tx: &mut Transaction<'_>,
        file: &CachedInode,
        changes: &SetAttributes,
    ) -> Result<()> {
        if !tx.counts_quota() {
            return Ok(());
        }
        // Also loads the map, from which a change of owner counts realtime blocks.
        let wanted = file.live().quota_usage(tx.cache())?;
        if self.caller.require(Capabilities::FOWNER).is_ok() {
            return Ok(());
        }
        let core = file.core();
        let new = |given: Option<u32>, old: u32| given.filter(|id| *id != old);
        let owners = [
            (QuotaKind::User, new(changes.uid, core.uid)),
            (QuotaKind::Group, new(changes.gid, core.gid)),
            (QuotaKind::Project, new(changes.project_id, core.project_id)),
        ];
        for (kind, id) in owners {
            if let Some(id) = id {
                tx.reserve_quota_of(kind, id, wanted)?;
            }
        }
        Ok(())
    }

    /// Sets only the time of the last access. The caller must be allowed to read the file.
    pub fn note_access(&self, file: &CachedInode, time: Timestamp) -> Result<()> {
        self.mount.transact(TransactionKind::ChangeInode, 0, |tx| {
            tx.join(file.live().log_item());
            self.check(file, Access::READ)?;
            file.live().change_times(tx, |core| core.access_time = time);
            Ok(())
        })
    }

    /// Sets only the times of last modification and last change, after the contents of the file
    /// have changed. The caller must be allowed to write to the file. Its flags are not checked.
    pub fn note_modified(
        &self,
        file: &Arc<CachedInode>,
        modified: Timestamp,
        changed: Timestamp,
    ) -> Result<()> {
        // Bytes that are written later would give the file their own time.
        self.mount.contents(file).write_back()?;
        self.mount.transact(TransactionKind::ChangeInode, 0, |tx| {
            tx.join(file.live().log_item());
            self.check(file, Access::WRITE)?;
            file.live().change_times(tx, |core| {
                (core.modify_time, core.change_time) = (modified, changed);
            });
            Ok(())
        })
    }
}

/// Checks that user and group IDs are valid. `u32::MAX` is not, because it means "leave unchanged"
/// in chown(2).
pub(crate) fn check_ids(ids: impl IntoIterator<Item = Option<u32>>) -> Result<()> {
    match ids.into_iter().flatten().any(|id| id == u32::MAX) {
        true => Err(PosixError::InvalidArgument.into()),
        false => Ok(()),
    }
}

impl Mount {
    fn hints(&self, core: &InodeCore, changes: &SetAttributes) -> Result<ExtentSizeHints> {
        if !changes.has_settings() {
            return Ok(ExtentSizeHints { extent: None, copy: None });
        }
        let geometry = self.geometry();
        let to_blocks = |bytes: u64| {
            if bytes & (u64::from(geometry.block_size) - 1) != 0 {
                return Err(PosixError::InvalidArgument);
            }
            let blocks = bytes >> geometry.block_log;
            // At most the length of an extent, and half a group.
            let most = u64::from(geometry.ag_blocks / 2).min((1 << 21) - 1);
            if blocks > most { Err(PosixError::InvalidArgument) } else { Ok(blocks as u32) }
        };
        let extent = changes.extent_size_hint_bytes.map(to_blocks).transpose()?;
        let copy = changes.cow_extent_size_hint_bytes.map(to_blocks).transpose()?;
        let has_type = |wanted: &[FileType]| {
            core.file_type().is_some_and(|file_type| wanted.contains(&file_type))
        };
        // Without shared blocks nothing is copied, and other readers take an inode with this hint
        // for damaged.
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
        if has(ExtendedFlags::DAX) && !is_sized {
            return Err(PosixError::InvalidArgument.into());
        }
        self.check_realtime_flag(core, changes)?;
        // The extent size cannot change once there are extents.
        let changes_hint = extent.is_some_and(|blocks| blocks != core.extent_size_hint_blocks);
        if changes_hint && has_type(&[FileType::Regular]) && core.extents > 0 {
            return Err(PosixError::InvalidArgument.into());
        }
        let hints = ExtentSizeHints { extent, copy };
        if hints.misfit(core, changes, geometry) {
            return Err(PosixError::InvalidArgument.into());
        }
        Ok(hints)
    }

    /// Returns whether these changes move the contents of a regular file to the realtime section,
    /// or back. Only a file without blocks can move.
    fn moves_contents(&self, core: &InodeCore, changes: &SetAttributes) -> bool {
        let is_realtime = |xflags: ExtendedFlags| xflags.contains(ExtendedFlags::REALTIME);
        self.geometry().realtime.is_present()
            && core.file_type() == Some(FileType::Regular)
            && changes.xflags.is_some_and(|xflags| is_realtime(xflags) != core.is_realtime())
    }

    /// Checks that `changes` may set or clear the realtime flag of a file. Only a regular file on a
    /// volume with a realtime section can have the flag. The flag changes only while the file has
    /// no extents.
    fn check_realtime_flag(&self, core: &InodeCore, changes: &SetAttributes) -> Result<()> {
        let is_wanted =
            changes.xflags.is_some_and(|xflags| xflags.contains(ExtendedFlags::REALTIME));
        let is_regular = core.file_type() == Some(FileType::Regular);
        let is_possible = is_regular && RealtimeSpace::of(&self.journal).is_some();
        let is_refused = is_wanted && !is_possible;
        if is_refused || self.moves_contents(core, changes) && core.extents > 0 {
            return Err(PosixError::InvalidArgument.into());
        }
        Ok(())
    }

    /// Makes the contents of a file and all changes of its inode durable.
    pub fn sync(&self, file: &Arc<CachedInode>) -> Result<()> {
        self.contents(file).flush_for_sync()?;
        self.journal.force(file.live().log_item().sequence())?;
        self.check_length()
    }

    /// Makes the contents of a file durable, and the metadata that is needed to read them.
    pub fn sync_contents(&self, file: &Arc<CachedInode>) -> Result<()> {
        self.contents(file).flush_for_sync()?;
        file.live().sync_contents(&self.journal)?;
        self.check_length()
    }

    /// Returns an error if the data device or the realtime device has become shorter since it was
    /// opened: bytes that were synced before may be lost, and no write restores them.
    fn check_length(&self) -> Result<()> {
        let cache = self.journal.cache();
        let realtime = cache.realtime_device().map_or(Ok(()), |device| device.check_length());
        let checked = realtime.and_then(|()| cache.device().check_length());
        checked.map_err(|source| IoError::new("sync", DiskAddr(0), 0, source).into())
    }
}

/// Extent size hints to set, in blocks. `None` leaves a hint as it is.
struct ExtentSizeHints {
    extent: Option<u32>,
    copy: Option<u32>,
}

impl ExtentSizeHints {
    /// Returns whether these changes would set an extent size hint that is not a multiple of the
    /// realtime extent size, on a realtime file or on a directory whose new files are realtime
    /// files. A hint that the inode already has and that is not such a multiple is removed first,
    /// so it does not make the result `true`.
    fn misfit(&self, core: &InodeCore, changes: &SetAttributes, geometry: &Geometry) -> bool {
        let mut after = core.clone();
        after.drop_misfit_hints(geometry);
        apply(&mut after, changes);
        self.apply(&mut after);
        let unit = geometry.realtime_extent_blocks.max(1);
        let is_misfit = geometry.realtime.is_present()
            && after.is_realtime()
            && !after.extent_size_hint_blocks.is_multiple_of(unit);
        is_misfit || after.has_misfit_hint(geometry)
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

/// Returns the mode that a file gets by these changes.
fn changed_mode(core: &InodeCore, changes: &SetAttributes, caller: Caller<'_>) -> u16 {
    let mode = match changes.mode {
        Some(mode) => core.mode & !mode_bits::ALL | mode & mode_bits::ALL,
        None => core.mode,
    };
    let is_directory = core.file_type() == Some(FileType::Directory);
    if (changes.uid.is_none() && changes.gid.is_none()) || is_directory {
        return mode;
    }
    mode & !caller.lost_set_ids(&InodeCore { mode, ..core.clone() })
}

/// Applies all changes except those of the mode, the change time and the hints.
fn apply(core: &mut InodeCore, changes: &SetAttributes) {
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

/// Flags that a program can set, each as its `FS_XFLAG` bit and its bit in the inode.
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

/// Flags that only directories can have.
const OF_DIRECTORIES: InodeFlags =
    InodeFlags::RTINHERIT.union(InodeFlags::PROJINHERIT).union(InodeFlags::NOSYMLINKS);

fn apply_flags(core: &mut InodeCore, xflags: ExtendedFlags) {
    let is_directory = core.file_type() == Some(FileType::Directory);
    for (wanted, flag) in SETTABLE {
        let applies = is_directory || !OF_DIRECTORIES.contains(flag);
        core.flags.set(flag, applies && xflags.contains(wanted));
    }
    let is_regular = core.file_type() == Some(FileType::Regular);
    core.flags.set(InodeFlags::REALTIME, is_regular && xflags.contains(ExtendedFlags::REALTIME));
    core.flags2.set(InodeFlags2::DAX, xflags.contains(ExtendedFlags::DAX));
}
