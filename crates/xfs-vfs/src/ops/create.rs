//! Creating files of all kinds, with a name or without one yet.

use std::sync::Arc;

use xfs_alloc::{AllocatedInode, InodePurpose, allocate_inode};
use xfs_buffer::{Error, PosixError, Result};
use xfs_dir::{EntryLocation, ParentLink, ParentPath};
use xfs_format::directory::EntryType;
use xfs_format::inode::{FileType, InodeCore, InodeFlags, InodeFlags2, pack_device};
use xfs_format::reservation::TransactionKind;
use xfs_format::{Geometry, InodeNumber};
use xfs_inode::{InitialInode, LiveInode, new_attribute_room};
use xfs_trans::{QuotaAmount, QuotaOwners, Transaction};

use super::acl::{NewLists, Outcome};
use super::set_attributes::check_ids;
use crate::inode_flags::check_not_immutable;
use crate::inode_ref::InodeRef;
use crate::kind::CachedInode;
use crate::link_counts::check_gains_link;
use crate::mode_bits;
use crate::mount::{Mount, OperationBlocks};
use crate::name::check_name;
use crate::op_context::OpContext;
use crate::permission::{Access, Caller};
use crate::requests::{CreateOptions, NewKind};
use crate::watch::WatchEvents;

/// The longest target of a symbolic link in bytes, including a zero byte at its end.
#[doc(alias = "XFS_SYMLINK_MAXLEN")]
const MAX_TARGET_BYTES: usize = 1024;

/// The properties of a new inode. These properties are known only after the directory of the file
/// is latched.
pub(crate) struct NewInode<'a> {
    kind: &'a NewKind<'a>,
    /// The owner, group and mode that the file really gets.
    creation: CreateOptions,
    lists: NewLists,
    nlink: u32,
    /// The first parent pointer, if the inode stores it from the start. `None` if the parent
    /// pointer is added later, together with the name, or if the volume has no parent pointers.
    parent: Option<Arc<[u8]>>,
    /// Whether the transaction also gives the inode a name.
    is_named: bool,
}

impl<'a> NewInode<'a> {
    /// Returns the properties of an inode that gets no access control lists.
    pub(crate) fn plain(kind: &'a NewKind<'a>, creation: CreateOptions, nlink: u32) -> Self {
        Self { kind, creation, lists: NewLists::default(), nlink, parent: None, is_named: false }
    }

    /// Returns the properties of an inode that inherits the access control lists of its directory.
    /// The directory is latched.
    fn inheriting(
        tx: &Transaction<'_>,
        directory: &CachedInode,
        caller: Caller<'_>,
        kind: &'a NewKind<'a>,
        creation: &CreateOptions,
    ) -> Result<Self> {
        let creation = caller.creation(kind.file_type(), creation, || directory.core());
        let (lists, mode) = NewLists::inherited(tx, directory, kind.file_type(), &creation)?;
        Ok(Self { lists, ..Self::plain(kind, CreateOptions { mode, ..creation }, 1) })
    }
}

impl<'a> OpContext<'a> {
    /// Creates a file under a name.
    pub fn create(
        &self,
        directory: &CachedInode,
        name: &[u8],
        kind: &NewKind<'_>,
        creation: &CreateOptions,
    ) -> Result<InodeRef<&'a Mount>> {
        check_name(name)?;
        if *kind == NewKind::Symlink(b"") {
            return Err(PosixError::NotFound.into());
        }
        self.check_owner(creation)?;
        if kind.device().is_some_and(|device| pack_device(device).is_none()) {
            return Err(PosixError::InvalidArgument.into());
        }
        self.ensure_owners(directory, kind.file_type(), creation)?;
        let blocks = self.mount.reserves.inode
            + self.mount.reserves.add
            + self.mount.reserves.parent
            + self.target_blocks(kind);
        let operate = |tx: &mut Transaction<'_>, room| {
            tx.join(directory.live().log_item());
            let place = self.check_is_free(tx, directory, name)?;
            self.check_adds(directory)?;
            self.caller.check_kind(kind)?;
            self.mount.dentries.invalidate(directory.number(), name);
            if *kind == NewKind::Directory {
                check_gains_link(directory.live().inode().core())?;
            }
            check_target(directory, kind)?;
            let mut new_inode = NewInode::inheriting(tx, directory, self.caller, kind, creation)?;
            if let Some(needed) = new_inode.lists.lacks_room(room) {
                return Ok(Outcome::RetryWith(needed));
            }
            new_inode.parent = self.first_parent(&new_inode, directory, name);
            new_inode.is_named = true;
            let has_parent = new_inode.parent.is_some();
            let Some(live) = self.make_inode(tx, directory, new_inode)? else {
                return Ok(Outcome::Done(None));
            };
            self.name_it(tx, directory, &live, place)?;
            if !has_parent {
                self.add_parent(tx, &live, directory, name)?;
            }
            // Before the commit: lookups find the inode number once the directory is unlatched.
            let entry = self.mount.inode_cache.insert(live)?;
            Ok(Outcome::Done(Some(InodeRef::new(self.mount, entry))))
        };
        let kind_of = kind.transaction();
        let made = self
            .mount
            .with_quota_room(|| self.mount.transact_with_lists(kind_of, blocks, operate))?;
        let inode = made.inspect(|inode| inode.set_ready()).ok_or(PosixError::NoSpace)?;
        self.mount.notify_name(directory, WatchEvents::CREATE, name);
        Ok(inode)
    }

    /// Checks the owner and the group that root requests for a new file. Any other caller always
    /// owns its new files, so the requested owner is ignored.
    fn check_owner(&self, creation: &CreateOptions) -> Result<()> {
        match self.caller.credentials() {
            Some(_) => Ok(()),
            None => check_ids([Some(creation.uid), Some(creation.gid)]),
        }
    }

    /// Allocates the dquots of the owners that a new file gets. The owners of its directory have
    /// dquots already (Q3 in docs/internals/quota.md).
    pub(crate) fn ensure_owners(
        &self,
        directory: &CachedInode,
        file_type: FileType,
        creation: &CreateOptions,
    ) -> Result<()> {
        if self.mount.journal.ledger().is_none() {
            return Ok(());
        }
        let creation = self.caller.creation(file_type, creation, || directory.core());
        let inode = directory.live().inode();
        let above = inode.core();
        let uid = (creation.uid != above.uid).then_some(creation.uid);
        let gid = (creation.gid != above.gid).then_some(creation.gid);
        drop(inode);
        self.mount.ensure_owners(uid, gid, None)
    }

    /// Creates a regular file without a name. The file is freed when its last reference is
    /// released, unless the file has got a name by then.
    #[doc(alias = "O_TMPFILE")]
    pub fn create_unnamed(
        &self,
        directory: &CachedInode,
        creation: &CreateOptions,
    ) -> Result<InodeRef<&'a Mount>> {
        self.check_owner(creation)?;
        self.ensure_owners(directory, FileType::Regular, creation)?;
        let made = self.make_unnamed(directory, |tx| {
            self.check_adds(directory)?;
            let kind = &NewKind::Regular;
            let new_inode = NewInode::inheriting(tx, directory, self.caller, kind, creation)?;
            Ok(NewInode { nlink: 0, ..new_inode })
        })?;
        made.set_awaits_name(true);
        Ok(made)
    }

    pub(crate) fn make_unnamed<'k>(
        &self,
        directory: &CachedInode,
        new_inode: impl Fn(&Transaction<'_>) -> Result<NewInode<'k>>,
    ) -> Result<InodeRef<&'a Mount>> {
        let blocks = self.mount.reserves.inode;
        let operate = |tx: &mut Transaction<'_>, room| {
            tx.join(directory.live().log_item());
            check_is_directory(directory)?;
            let new_inode = new_inode(tx)?;
            if let Some(needed) = new_inode.lists.lacks_room(room) {
                return Ok(Outcome::RetryWith(needed));
            }
            let Some(live) = self.make_inode(tx, directory, new_inode)? else {
                return Ok(Outcome::Done(None));
            };
            xfs_alloc::add_unlinked(tx, live.log_item())?;
            let entry = self.mount.inode_cache.insert(live)?;
            Ok(Outcome::Done(Some(InodeRef::new(self.mount, entry))))
        };
        let unnamed = TransactionKind::CreateUnnamed;
        let made = self
            .mount
            .with_quota_room(|| self.mount.transact_with_lists(unnamed, blocks, operate))?;
        let inode = made.inspect(|inode| inode.set_ready()).ok_or(PosixError::NoSpace)?;
        Ok(inode)
    }

    /// Checks that the caller may search the directory, and that the directory has no entry `name`.
    /// Returns the location for the new entry.
    pub(crate) fn check_is_free<'n>(
        &self,
        tx: &mut Transaction<'_>,
        directory: &CachedInode,
        name: &'n [u8],
    ) -> Result<EntryLocation<'n>> {
        check_is_directory(directory)?;
        self.check(directory, Access::EXECUTE)?;
        let place = xfs_dir::seek_entry(tx, directory.live(), name)?;
        match place.meaning() {
            Some(_) => Err(PosixError::Exists.into()),
            None => Ok(place),
        }
    }

    /// Checks that the caller may add a name to a directory.
    #[doc(alias = "may_create")]
    pub(crate) fn check_adds(&self, directory: &CachedInode) -> Result<()> {
        check_not_immutable(directory.live().inode().core())?;
        self.check(directory, Access::CHANGE_NAMES)
    }

    fn target_blocks(&self, kind: &NewKind<'_>) -> u64 {
        match kind {
            NewKind::Symlink(target) => {
                LiveInode::target_blocks(self.mount.geometry(), target.len())
            }
            _ => 0,
        }
    }

    /// Returns the number of blocks for the target of a new symbolic link, which are charged to the
    /// quota of its owners; 0 for other files.
    fn target_quota_blocks(&self, kind: &NewKind<'_>) -> u64 {
        match kind {
            NewKind::Symlink(target) => LiveInode::target_quota_blocks(
                self.mount.geometry(),
                target.len(),
                self.mount.has_parents(),
            ),
            _ => 0,
        }
    }

    /// Returns the first parent pointer of a file if its inode can store it from the start. Returns
    /// `None` if access control lists or the target of a symbolic link need the room in the inode.
    fn first_parent(
        &self,
        new_inode: &NewInode<'_>,
        directory: &CachedInode,
        name: &[u8],
    ) -> Option<Arc<[u8]>> {
        let file_type = new_inode.kind.file_type();
        let is_alone = new_inode.lists.is_empty() && file_type != FileType::Symlink;
        if !self.mount.has_parents() || self.mount.parents != ParentPath::Direct || !is_alone {
            return None;
        }
        let room = new_attribute_room(file_type, self.mount.geometry());
        let generation = directory.live().inode().core().generation;
        xfs_dir::first_parent(directory.number(), generation, name, room)
    }

    /// Returns the number of blocks that the quotas of a new inode's owners must still permit. This
    /// is the most that the operation may take. So, as in the kernel, a file that needs no block is
    /// also refused if the quota of an owner is used up.
    fn quota_blocks(&self, tx: &Transaction<'_>, new_inode: &NewInode<'_>) -> u64 {
        let NewInode { kind, is_named, .. } = new_inode;
        let OperationBlocks { parent, parent_quota, .. } = self.mount.reserves;
        let (parent, parent_quota) = if *is_named { (parent, parent_quota) } else { (0, 0) };
        let fixed = tx.blocks_left() - self.target_blocks(kind) - parent;
        fixed + self.target_quota_blocks(kind) + parent_quota
    }

    /// Allocates an inode and fills it. Returns `None` if the volume has no space for an inode.
    fn make_inode(
        &self,
        tx: &mut Transaction<'_>,
        directory: &CachedInode,
        new_inode: NewInode<'_>,
    ) -> Result<Option<Arc<LiveInode>>> {
        let blocks = self.quota_blocks(tx, &new_inode);
        let NewInode { kind, creation, lists, nlink, parent: attributes, .. } = new_inode;
        let is_directory = *kind == NewKind::Directory;
        let (inherited, above, from_group) = {
            let inode = directory.live().inode();
            let core = inode.core();
            let inherited = InheritedAttributes::of(core, kind.file_type(), self.mount.geometry());
            (inherited, core.gid, core.mode & mode_bits::SET_GROUP_ID != 0)
        };
        let gid = if from_group { above } else { creation.gid };
        let owners = QuotaOwners { uid: creation.uid, gid, project_id: inherited.project_id };
        let wanted = QuotaAmount { inodes: 1, ..QuotaAmount::of_blocks(blocks) };
        tx.reserve_quota(owners, wanted)?;
        let Some(inode) = find_inode(tx, directory.number(), kind)? else { return Ok(None) };
        let bit = if from_group && is_directory { mode_bits::SET_GROUP_ID } else { 0 };
        let made = InitialInode {
            inode,
            mode: kind.file_type().mode_bits() | creation.mode & mode_bits::ALL | bit,
            uid: creation.uid,
            gid,
            project_id: inherited.project_id,
            nlink: if is_directory { 2 } else { nlink },
            now: self.mount.clock.now(),
            flags: inherited.flags,
            flags2: inherited.flags2,
            extent_size_hint_blocks: inherited.extent_size_hint_blocks,
            cow_extent_size_hint_blocks: inherited.cow_extent_size_hint_blocks,
            rdev: kind.device(),
            attr_room: self.mount.has_parents() || !lists.is_empty(),
            attributes,
        };
        let live = Arc::new(LiveInode::create(tx, made)?);
        match kind {
            NewKind::Directory => xfs_dir::init_directory(tx, &live, directory.number())?,
            NewKind::Symlink(target) => live.set_target(tx, target)?,
            _ => {}
        }
        lists.set(tx, &live)?;
        Ok(Some(live))
    }

    /// Adds the first name of a new file. Sets the modification and change times of the directory
    /// to the creation time of the file.
    fn name_it(
        &self,
        tx: &mut Transaction<'_>,
        directory: &CachedInode,
        live: &Arc<LiveInode>,
        place: EntryLocation<'_>,
    ) -> Result<()> {
        let (file_type, now) = {
            let inode = live.inode();
            (inode.file_type(), inode.core().birth_time)
        };
        let entry_type = EntryType::of(file_type);
        xfs_dir::add_entry_at(tx, directory.live(), place, live.number(), entry_type)?;
        directory.live().change(tx, |core| {
            (core.modify_time, core.change_time) = (now, now);
            core.nlink += u32::from(file_type == FileType::Directory);
        });
        Ok(())
    }

    /// Adds the parent pointer for a name to a file, if the volume has parent pointers.
    pub(crate) fn add_parent(
        &self,
        tx: &mut Transaction<'_>,
        live: &Arc<LiveInode>,
        directory: &CachedInode,
        name: &[u8],
    ) -> Result<()> {
        if !self.mount.has_parents() {
            return Ok(());
        }
        xfs_dir::add_parent(tx, live, &parent_link(directory, name), self.mount.parents)
    }
}

/// Allocates an inode in or near the group of its directory. Returns `None` if the volume has no
/// space for an inode. The transaction must be committed even then, since the search may have
/// refilled free lists.
fn find_inode(
    tx: &mut Transaction<'_>,
    parent: InodeNumber,
    kind: &NewKind<'_>,
) -> Result<Option<AllocatedInode>> {
    let purpose = match kind {
        NewKind::Directory => InodePurpose::Directory,
        _ => InodePurpose::File,
    };
    match allocate_inode(tx, parent, purpose) {
        Ok(inode) => Ok(Some(inode)),
        Err(Error::Posix(PosixError::NoSpace)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the parent pointer of a name in a directory.
pub(crate) fn parent_link(directory: &CachedInode, name: &[u8]) -> ParentLink {
    let generation = directory.live().inode().core().generation;
    ParentLink { inode: directory.number(), generation, name: name.into() }
}

/// Checks that the inode is a directory that still has a name.
pub(crate) fn check_is_directory(directory: &CachedInode) -> Result<()> {
    let inode = directory.live().inode();
    if inode.file_type() != FileType::Directory {
        return Err(PosixError::NotDirectory.into());
    }
    if inode.core().nlink == 0 { Err(PosixError::NotFound.into()) } else { Ok(()) }
}

fn check_target(directory: &CachedInode, kind: &NewKind<'_>) -> Result<()> {
    let refuses_links = || {
        let flags = directory.live().inode().core().flags;
        flags.contains(InodeFlags::NOSYMLINKS)
    };
    match kind {
        NewKind::Symlink(target) if target.len() >= MAX_TARGET_BYTES => {
            Err(PosixError::NameTooLong.into())
        }
        NewKind::Symlink(target) if target.contains(&0) => Err(PosixError::InvalidArgument.into()),
        NewKind::Symlink(_) if refuses_links() => Err(PosixError::NotPermitted.into()),
        _ => Ok(()),
    }
}

/// The attributes that a new file inherits from its directory.
struct InheritedAttributes {
    project_id: u32,
    flags: InodeFlags,
    flags2: InodeFlags2,
    extent_size_hint_blocks: u32,
    cow_extent_size_hint_blocks: u32,
}

impl InheritedAttributes {
    #[doc(alias = "xfs_inode_inherit_flags")]
    fn of(parent: &InodeCore, file_type: FileType, geometry: &Geometry) -> Self {
        let always = InodeFlags::NOATIME
            | InodeFlags::NODUMP
            | InodeFlags::SYNC
            | InodeFlags::NODEFRAG
            | InodeFlags::FILESTREAM;
        let mut inherited = Self {
            project_id: 0,
            flags: InodeFlags::empty(),
            flags2: InodeFlags2::empty(),
            extent_size_hint_blocks: 0,
            cow_extent_size_hint_blocks: 0,
        };
        if parent.flags.contains(InodeFlags::PROJINHERIT) {
            inherited.project_id = parent.project_id;
        }
        let (is_directory, is_regular) =
            (file_type == FileType::Directory, file_type == FileType::Regular);
        if !is_directory && !is_regular {
            return inherited;
        }
        inherited.flags = parent.flags & always;
        if is_directory {
            inherited.flags |= parent.flags & (InodeFlags::PROJINHERIT | InodeFlags::RTINHERIT);
        }
        let is_realtime =
            parent.flags.contains(InodeFlags::RTINHERIT) && geometry.realtime.is_present();
        if is_regular && is_realtime {
            inherited.flags |= InodeFlags::REALTIME;
        }
        if parent.flags.contains(InodeFlags::EXTSZINHERIT) && !parent.has_misfit_hint(geometry) {
            let flag = if is_directory { InodeFlags::EXTSZINHERIT } else { InodeFlags::EXTSIZE };
            inherited.flags |= flag;
            inherited.extent_size_hint_blocks = parent.extent_size_hint_blocks;
        }
        inherited.flags2 = parent.flags2 & (InodeFlags2::COWEXTSIZE | InodeFlags2::DAX);
        if parent.has_misfit_copy_hint(geometry) {
            inherited.flags2 -= InodeFlags2::COWEXTSIZE;
        } else if parent.flags2.contains(InodeFlags2::COWEXTSIZE) {
            inherited.cow_extent_size_hint_blocks = parent.cow_extent_size_hint_blocks;
        }
        inherited
    }
}
