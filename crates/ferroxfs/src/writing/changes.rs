//! Changes of an inode that move no name: mode, owner, times, flags, attributes.

use std::sync::Arc;

use xfs_buffer::{Error, PosixError, Result};
use xfs_dir::{Attributes, NewAttribute, SetMode};
use xfs_format::RoCompatFeatures;
use xfs_format::attr::Namespace;
use xfs_format::inode::{ExtendedFlags, FileType, InodeCore, InodeFlags, InodeFlags2};
use xfs_format::reservation::TransactionKind;
use xfs_format::timestamp::Timestamp;
use xfs_trans::{Journal, Transaction};

use super::access::{check_mutable, check_not_immutable};
use super::lists::{Attempt, NewLists};
use super::{Acting, Parts, check_undelegated};
use crate::permission::{Access, AttributeUse, CAPABILITIES, Who, bits};
use crate::table::Entry;
use crate::watch::WatchEvents;

/// The longest value of an attribute.
const MAX_VALUE_BYTES: usize = 64 << 10;
/// The longest name of an attribute, without its namespace.
const MAX_ATTRIBUTE_NAME_BYTES: usize = 255;

/// What to change of an inode; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Permission bits, up to 0o7777. An access control list follows them.
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
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
    pub(crate) fn change(&self, file: &Arc<Entry>, changes: &Changes) -> Result<()> {
        // What is written later would give the file its own time.
        self.contents(file).write_back()?;
        self.drop_capabilities_of_given(file, changes)?;
        self.undelegated(&[file], || self.change_file(file, changes))
    }

    /// A file that somebody gives to another owner loses its capabilities first.
    fn drop_capabilities_of_given(&self, file: &Entry, changes: &Changes) -> Result<()> {
        let gives = (changes.uid.is_some() || changes.gid.is_some()) && !file.is_directory();
        if !gives || self.who.somebody().is_none() {
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
    pub(crate) fn set_times_to_now(&self, file: &Arc<Entry>) -> Result<()> {
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

    fn change_file(&self, file: &Entry, changes: &Changes) -> Result<()> {
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
    pub(crate) fn note_access(&self, file: &Entry, time: Timestamp) -> Result<()> {
        self.transact(TransactionKind::ChangeInode, 0, |tx| {
            tx.join(file.live().record());
            self.check(file, Access::READ)?;
            file.live().change(tx, |core| core.access_time = time);
            Ok(())
        })
    }

    /// Sets the times of the last change of the contents and of anything, and nothing else, whatever the
    /// flags of the file: the contents have changed.
    pub(crate) fn note_modified(
        &self,
        file: &Arc<Entry>,
        modified: Timestamp,
        changed: Timestamp,
    ) -> Result<()> {
        // What is written later would give the file its own time.
        self.contents(file).write_back()?;
        self.transact(TransactionKind::ChangeInode, 0, |tx| {
            tx.join(file.live().record());
            self.check(file, Access::WRITE)?;
            file.live().change(tx, |core| {
                (core.modify_time, core.change_time) = (modified, changed);
            });
            Ok(())
        })
    }

    /// Sets an attribute under its name on disk.
    pub(crate) fn set_attribute(
        &self,
        file: &Entry,
        attribute: &NewAttribute<'_>,
        mode: SetMode,
    ) -> Result<()> {
        self.put_attribute(file, attribute, mode, Purpose::Value)
    }

    /// Sets an attribute, and changes the inode with it.
    pub(super) fn put_attribute(
        &self,
        file: &Entry,
        attribute: &NewAttribute<'_>,
        mode: SetMode,
        purpose: Purpose,
    ) -> Result<()> {
        if attribute.name.is_empty() {
            return Err(PosixError::InvalidArgument.into());
        }
        if attribute.name.len() > MAX_ATTRIBUTE_NAME_BYTES {
            return Err(PosixError::OutOfRange.into());
        }
        if attribute.value.len() > MAX_VALUE_BYTES {
            return Err(PosixError::ValueTooLong.into());
        }
        self.undelegated(&[file], || self.put_checked(file, attribute, mode, purpose))
    }

    /// Sets an attribute whose name and value are such as there can be.
    fn put_checked(
        &self,
        file: &Entry,
        attribute: &NewAttribute<'_>,
        mode: SetMode,
        purpose: Purpose,
    ) -> Result<()> {
        let geometry = self.geometry();
        let (name, value) = (attribute.name.len(), attribute.value.len());
        let blocks = xfs_dir::attribute_blocks(geometry, name, value);
        let mut tx = self.with_room(|| self.journal.begin(TransactionKind::SetAttr, blocks))?;
        tx.join(file.live().record());
        let mode_after = purpose.changed_mode(&file.core(), self.who);
        let now = self.clock.now();
        file.forget_rights();
        let along = move |core: &mut InodeCore| (core.mode, core.change_time) = (mode_after, now);
        let set = self
            .check_attribute(file, (attribute.namespace, attribute.name), purpose)
            .and_then(|()| check_undelegated(file))
            .and_then(|()| {
                xfs_dir::set_attribute_along(&mut tx, file.live(), attribute, mode, along)
            });
        if let Err(error) = set {
            tx.cancel();
            return Err(error);
        }
        tx.commit()?;
        self.notify(file, WatchEvents::ATTRIB);
        Ok(())
    }

    /// Whether an attribute may be set or removed: programs have theirs on files and directories only.
    /// The caller has latched the file.
    pub(super) fn check_attribute(
        &self,
        file: &Entry,
        (namespace, name): (Namespace, &[u8]),
        purpose: Purpose,
    ) -> Result<()> {
        let core = file.core();
        let holds_user = matches!(core.file_type(), Some(FileType::Regular | FileType::Directory));
        if namespace == Namespace::User && !holds_user {
            return Err(PosixError::NotPermitted.into());
        }
        check_mutable(&core)?;
        if self.who.somebody().is_none() {
            return Ok(());
        }
        match purpose {
            Purpose::Value => self.who.check_attribute(
                (self.journal.cache(), &file.live().inode()),
                (namespace, name),
                AttributeUse::Change,
            ),
            Purpose::List { .. } => self.who.check_owner(&core),
        }
    }

    /// Removes an attribute by its name on disk.
    pub(crate) fn remove_attribute(
        &self,
        file: &Entry,
        namespace: Namespace,
        name: &[u8],
    ) -> Result<()> {
        let blocks = xfs_dir::attribute_blocks(self.geometry(), name.len(), 0);
        self.undelegated(&[file], || {
            self.transact(TransactionKind::RemoveAttr, blocks, |tx| {
                tx.join(file.live().record());
                self.check_attribute(file, (namespace, name), Purpose::Value)?;
                check_undelegated(file)?;
                if !take_attribute(tx, file, namespace, name)? {
                    return Err(PosixError::NoAttribute.into());
                }
                let now = self.clock.now();
                file.live().change(tx, |core| core.change_time = now);
                Ok(())
            })
        })?;
        self.notify(file, WatchEvents::ATTRIB);
        Ok(())
    }

    /// Takes off what lets a program act in the name of the owner: capabilities, and set-ID bits if
    /// `set_ids`. Returns whether there was anything.
    pub(crate) fn shed_privileges(&self, file: &Entry, set_ids: bool) -> Result<bool> {
        // Most files have none, and looking takes no transaction.
        let is_capable = {
            let _latch = file.live().record().latch().shared();
            is_capable(&self.journal, file)?
        };
        self.drop_privileges(file, set_ids, is_capable)
    }

    fn drop_privileges(&self, file: &Entry, set_ids: bool, is_capable: bool) -> Result<bool> {
        let lost = |core: &InodeCore| if set_ids { self.who.lost_set_ids(core) } else { 0 };
        if !is_capable && lost(&file.core()) == 0 {
            return Ok(false);
        }
        let blocks = xfs_dir::attribute_blocks(self.geometry(), CAPABILITIES.len(), 0);
        let has_changed = self.transact(TransactionKind::RemoveAttr, blocks, |tx| {
            tx.join(file.live().record());
            let core = file.core();
            check_not_immutable(&core)?;
            let was_capable =
                is_capable && take_attribute(tx, file, Namespace::Security, CAPABILITIES)?;
            let lost = lost(&core);
            let has_changed = was_capable || lost != 0;
            if has_changed {
                let now = self.clock.now();
                file.live().change(tx, |core| {
                    core.mode &= !lost;
                    core.change_time = now;
                });
            }
            Ok(has_changed)
        })?;
        if has_changed {
            self.notify(file, WatchEvents::ATTRIB);
        }
        Ok(has_changed)
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
        Ok(Hints { extent, copy })
    }

    /// Makes what has been changed in this inode durable.
    pub(crate) fn sync(&self, file: &Arc<Entry>) -> Result<()> {
        self.contents(file).flush_for_sync()?;
        self.journal.force(file.live().record().sequence())
    }
}

/// Hints in blocks.
struct Hints {
    extent: Option<u32>,
    copy: Option<u32>,
}

impl Hints {
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

/// Why an attribute changes: who may do that, and what changes with it.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// It is what somebody calls by its name.
    Value,
    /// It holds an access control list, which the owner sets; that for access has these permission bits.
    List { bits: Option<u16> },
}

impl Purpose {
    /// Whether the permission bits change with it.
    pub(super) fn sets_bits(self) -> bool {
        matches!(self, Self::List { bits: Some(_) })
    }

    /// The mode that the file has then.
    pub(super) fn changed_mode(self, core: &InodeCore, who: Who<'_>) -> u16 {
        let Self::List { bits: Some(bits) } = self else { return core.mode };
        (core.mode & !bits::CLASSES | bits) & !who.withheld_set_group_id(core.gid)
    }
}

/// Whether the file has capabilities that whoever executes it gets. The caller has latched it.
fn is_capable(journal: &Journal, file: &Entry) -> Result<bool> {
    let inode = file.live().inode();
    if !inode.core().has_attr_fork() {
        return Ok(false);
    }
    match Attributes::new(journal.cache(), &inode).lookup(Namespace::Security, CAPABILITIES) {
        Ok(_) => Ok(true),
        Err(Error::Posix(PosixError::NoAttribute)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Takes an attribute away; `false`, and nothing has changed, if there is none.
pub(super) fn take_attribute(
    tx: &mut Transaction<'_>,
    file: &Entry,
    namespace: Namespace,
    name: &[u8],
) -> Result<bool> {
    file.forget_rights();
    match xfs_dir::remove_attribute(tx, file.live(), namespace, name) {
        Ok(()) => Ok(true),
        Err(Error::Posix(PosixError::NoAttribute)) => Ok(false),
        Err(error) => Err(error),
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
