//! Making files: with a name, or without one yet.

use std::sync::Arc;

use xfs_alloc::{AllocatedInode, InodePurpose, allocate_inode, inode_blocks};
use xfs_buffer::{Error, PosixError, Result};
use xfs_dir::{EntryPlace, ParentLink, ParentPath};
use xfs_format::directory::EntryType;
use xfs_format::inode::{DeviceNumber, FileType, InodeCore, InodeFlags, InodeFlags2};
use xfs_format::reservation::TransactionKind;
use xfs_format::{Geometry, InodeNumber};
use xfs_inode::{Live, NewInode, new_attribute_room};
use xfs_trans::Transaction;

use super::access::check_not_immutable;
use super::changes::check_ids;
use super::links::check_gains_link;
use super::lists::{Attempt, NewLists};
use super::{Acting, check_name};
use crate::kind::CachedInode;
use crate::permission::{Access, Who, bits};
use crate::watch::WatchEvents;

/// The longest target of a symbolic link.
#[doc(alias = "XFS_SYMLINK_MAXLEN")]
const MAX_TARGET_BYTES: usize = 1024;

/// What a new file shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewKind<'a> {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice(DeviceNumber),
    /// A block device.
    BlockDevice(DeviceNumber),
    /// A symbolic link with this target of 1 to 1023 bytes.
    Symlink(&'a [u8]),
}

impl NewKind<'_> {
    /// The type of the file.
    #[must_use]
    pub const fn file_type(&self) -> FileType {
        match self {
            Self::Regular => FileType::Regular,
            Self::Directory => FileType::Directory,
            Self::Fifo => FileType::Fifo,
            Self::Socket => FileType::Socket,
            Self::CharacterDevice(_) => FileType::CharDevice,
            Self::BlockDevice(_) => FileType::BlockDevice,
            Self::Symlink(_) => FileType::Symlink,
        }
    }

    const fn device(&self) -> Option<DeviceNumber> {
        match self {
            Self::CharacterDevice(device) | Self::BlockDevice(device) => Some(*device),
            _ => None,
        }
    }

    const fn transaction(&self) -> TransactionKind {
        match self {
            Self::Directory => TransactionKind::MakeDirectory,
            Self::Symlink(_) => TransactionKind::Symlink,
            _ => TransactionKind::Create,
        }
    }
}

/// Whose a new file is, and who may do what with it.
///
/// In a directory with the set-group-ID bit the file gets the directory's group, and a directory that
/// bit as well. In a directory with a default access control list that decides, and the umask does not.
/// Somebody else than root ([`Volume::as_user`](crate::Volume::as_user)) makes files that are theirs:
/// whose this says they are is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creation {
    /// Permission bits, up to 0o7777.
    pub mode: u16,
    /// Owner; not `u32::MAX`, which is nobody's number.
    pub uid: u32,
    /// Group; not `u32::MAX`.
    pub gid: u32,
    /// Permission bits that the file does not get; 0 masks nothing.
    pub umask: u16,
}

/// What a file is made as, once its directory is known.
pub(super) struct Birth<'a> {
    kind: &'a NewKind<'a>,
    /// With the mode that the file has in the end.
    creation: Creation,
    lists: NewLists,
    nlink: u32,
    /// Its first parent pointer, as the inode holds it from the start. `None` where that comes with the
    /// name, or not at all.
    parent: Option<Arc<[u8]>>,
}

impl<'a> Birth<'a> {
    /// What takes nothing from its directory that it does not have to.
    pub(super) fn plain(kind: &'a NewKind<'a>, creation: Creation, nlink: u32) -> Self {
        Self { kind, creation, lists: NewLists::default(), nlink, parent: None }
    }

    /// What takes the access control lists of its directory, which the caller has latched.
    fn inheriting(
        tx: &Transaction<'_>,
        (directory, who): (&CachedInode, Who<'_>),
        (kind, creation): (&'a NewKind<'a>, &Creation),
        nlink: u32,
    ) -> Result<Self> {
        let creation = who.creation(kind.file_type(), creation, || directory.core());
        let (lists, mode) = NewLists::inherited(tx, directory, kind.file_type(), &creation)?;
        Ok(Self { lists, ..Self::plain(kind, Creation { mode, ..creation }, nlink) })
    }
}

impl Acting<'_> {
    /// Makes a file under a name. Returns it with one user.
    pub(crate) fn create(
        &self,
        directory: &CachedInode,
        name: &[u8],
        kind: &NewKind<'_>,
        creation: &Creation,
    ) -> Result<Arc<CachedInode>> {
        check_name(name)?;
        if *kind == NewKind::Symlink(b"") {
            return Err(PosixError::NotFound.into());
        }
        self.check_owner(creation)?;
        if kind.device().is_some_and(|device| device.encode().is_none()) {
            return Err(PosixError::InvalidArgument.into());
        }
        let blocks = inode_blocks(self.geometry())
            + self.reserves.add
            + self.reserves.parent
            + self.target_blocks(kind);
        let made = self.transact_with_lists(kind.transaction(), blocks, |tx, room| {
            tx.join(directory.live().record());
            let place = self.check_is_free(tx, directory, name)?;
            self.check_adds(directory)?;
            self.who.check_kind(kind)?;
            self.dentries.invalidate(directory.number(), name);
            if *kind == NewKind::Directory {
                check_gains_link(directory.live().inode().core())?;
            }
            check_target(directory, kind)?;
            let mut birth = Birth::inheriting(tx, (directory, self.who), (kind, creation), 1)?;
            if let Some(needed) = birth.lists.lacks_room(room) {
                return Ok(Attempt::NeedsRoom(needed));
            }
            birth.parent = self.first_parent(&birth, directory, name);
            let has_parent = birth.parent.is_some();
            let Some(live) = self.make_inode(tx, directory, birth)? else {
                return Ok(Attempt::Done(None));
            };
            self.name_it(tx, directory, &live, place)?;
            if !has_parent {
                self.add_parent(tx, &live, directory, name)?;
            }
            // Before the commit: once the directory is unlatched, others look the number up.
            self.inode_cache.insert(live).map(|entry| Attempt::Done(Some(entry)))
        })?;
        let entry = made.inspect(|entry| entry.set_ready()).ok_or(PosixError::NoSpace)?;
        self.notify_name(directory, WatchEvents::CREATE, name);
        Ok(entry)
    }

    /// Whether there can be such an owner. Somebody else than root owns what he makes himself.
    fn check_owner(&self, creation: &Creation) -> Result<()> {
        match self.who.somebody() {
            Some(_) => Ok(()),
            None => check_ids([Some(creation.uid), Some(creation.gid)]),
        }
    }

    /// Makes a regular file that has no name. It is gone with its last user unless it is linked.
    #[doc(alias = "O_TMPFILE")]
    pub(crate) fn create_unnamed(
        &self,
        directory: &CachedInode,
        creation: &Creation,
    ) -> Result<Arc<CachedInode>> {
        self.check_owner(creation)?;
        let made = self.make_unnamed(directory, |tx| {
            self.check_adds(directory)?;
            Birth::inheriting(tx, (directory, self.who), (&NewKind::Regular, creation), 0)
        })?;
        made.set_awaits_name(true);
        Ok(made)
    }

    pub(super) fn make_unnamed<'a>(
        &self,
        directory: &CachedInode,
        birth: impl Fn(&Transaction<'_>) -> Result<Birth<'a>>,
    ) -> Result<Arc<CachedInode>> {
        let blocks = inode_blocks(self.geometry());
        let made =
            self.transact_with_lists(TransactionKind::CreateUnnamed, blocks, |tx, room| {
                tx.join(directory.live().record());
                check_is_directory(directory)?;
                let birth = birth(tx)?;
                if let Some(needed) = birth.lists.lacks_room(room) {
                    return Ok(Attempt::NeedsRoom(needed));
                }
                let Some(live) = self.make_inode(tx, directory, birth)? else {
                    return Ok(Attempt::Done(None));
                };
                xfs_alloc::add_unlinked(tx, live.record())?;
                self.inode_cache.insert(live).map(|entry| Attempt::Done(Some(entry)))
            })?;
        made.inspect(|entry| entry.set_ready()).ok_or(PosixError::NoSpace.into())
    }

    /// The place of a name that nothing has in a directory, where somebody may look for it.
    pub(super) fn check_is_free<'n>(
        &self,
        tx: &mut Transaction<'_>,
        directory: &CachedInode,
        name: &'n [u8],
    ) -> Result<EntryPlace<'n>> {
        check_is_directory(directory)?;
        self.check(directory, Access::EXECUTE)?;
        let place = xfs_dir::seek_entry(tx, directory.live(), name)?;
        match place.meaning() {
            Some(_) => Err(PosixError::Exists.into()),
            None => Ok(place),
        }
    }

    /// Whether something may get a name in a directory.
    #[doc(alias = "may_create")]
    pub(super) fn check_adds(&self, directory: &CachedInode) -> Result<()> {
        check_not_immutable(directory.live().inode().core())?;
        self.check(directory, Access::CHANGE_NAMES)
    }

    fn target_blocks(&self, kind: &NewKind<'_>) -> u64 {
        match kind {
            NewKind::Symlink(target) => Live::target_blocks(self.geometry(), target.len()),
            _ => 0,
        }
    }

    /// The first parent pointer of a file that is made with it, because nothing else wants that place in
    /// the inode: lists, or the target of a symbolic link.
    fn first_parent(
        &self,
        birth: &Birth<'_>,
        directory: &CachedInode,
        name: &[u8],
    ) -> Option<Arc<[u8]>> {
        let file_type = birth.kind.file_type();
        let is_alone = birth.lists.is_empty() && file_type != FileType::Symlink;
        if !self.has_parents() || self.parents != ParentPath::Direct || !is_alone {
            return None;
        }
        let room = new_attribute_room(file_type, self.geometry());
        let generation = directory.live().inode().core().generation;
        xfs_dir::first_parent((directory.number(), generation), name, room)
    }

    /// Allocates an inode and fills it; `None` if there is no room for one.
    fn make_inode(
        &self,
        tx: &mut Transaction<'_>,
        directory: &CachedInode,
        birth: Birth<'_>,
    ) -> Result<Option<Arc<Live>>> {
        let Birth { kind, creation, lists, nlink, parent: attributes } = birth;
        let Some(inode) = find_inode(tx, directory.number(), kind)? else { return Ok(None) };
        let is_directory = *kind == NewKind::Directory;
        let (heritage, above, from_group) = {
            let inode = directory.live().inode();
            let core = inode.core();
            let heritage = Heritage::of(core, kind.file_type(), self.geometry());
            (heritage, core.gid, core.mode & bits::SET_GROUP_ID != 0)
        };
        let bit = if from_group && is_directory { bits::SET_GROUP_ID } else { 0 };
        let made = NewInode {
            inode,
            mode: kind.file_type().mode_bits() | creation.mode & bits::ALL | bit,
            uid: creation.uid,
            gid: if from_group { above } else { creation.gid },
            project_id: heritage.project_id,
            nlink: if is_directory { 2 } else { nlink },
            now: self.clock.now(),
            flags: heritage.flags,
            flags2: heritage.flags2,
            extent_size_hint_blocks: heritage.extent_size_hint_blocks,
            cow_extent_size_hint_blocks: heritage.cow_extent_size_hint_blocks,
            rdev: kind.device(),
            attr_room: self.has_parents() || !lists.is_empty(),
            attributes,
        };
        let live = Arc::new(Live::create(tx, made)?);
        match kind {
            NewKind::Directory => xfs_dir::init_directory(tx, &live, directory.number())?,
            NewKind::Symlink(target) => live.set_target(tx, target)?,
            _ => {}
        }
        lists.set(tx, &live)?;
        Ok(Some(live))
    }

    /// Gives a new file its first name. The directory changes when the file was made, to the nanosecond.
    fn name_it(
        &self,
        tx: &mut Transaction<'_>,
        directory: &CachedInode,
        live: &Arc<Live>,
        place: EntryPlace<'_>,
    ) -> Result<()> {
        let (file_type, now) = {
            let inode = live.inode();
            (inode.file_type(), inode.core().birth_time)
        };
        let meaning = (live.number(), EntryType::of(file_type));
        xfs_dir::add_entry_at(tx, directory.live(), place, meaning)?;
        directory.live().change(tx, |core| {
            (core.modify_time, core.change_time) = (now, now);
            core.nlink += u32::from(file_type == FileType::Directory);
        });
        Ok(())
    }

    /// Notes in a file that it has this name, where the volume keeps that.
    pub(super) fn add_parent(
        &self,
        tx: &mut Transaction<'_>,
        live: &Arc<Live>,
        directory: &CachedInode,
        name: &[u8],
    ) -> Result<()> {
        if !self.has_parents() {
            return Ok(());
        }
        xfs_dir::add_parent(tx, live, &parent_link(directory, name), self.parents)
    }
}

/// Allocates an inode in or near the group of its directory; `None` if there is no room for one.
/// Then what was done to find that out is consistent, and is committed.
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

/// The parent pointer of a name in a directory.
pub(super) fn parent_link(directory: &CachedInode, name: &[u8]) -> ParentLink {
    let generation = directory.live().inode().core().generation;
    ParentLink { inode: directory.number(), generation, name: name.into() }
}

/// Whether it is a directory that still has a name.
pub(super) fn check_is_directory(directory: &CachedInode) -> Result<()> {
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

/// What a new file gets from its directory.
struct Heritage {
    project_id: u32,
    flags: InodeFlags,
    flags2: InodeFlags2,
    extent_size_hint_blocks: u32,
    cow_extent_size_hint_blocks: u32,
}

impl Heritage {
    #[doc(alias = "xfs_inode_inherit_flags")]
    fn of(parent: &InodeCore, file_type: FileType, geometry: &Geometry) -> Self {
        let always = InodeFlags::NOATIME
            | InodeFlags::NODUMP
            | InodeFlags::SYNC
            | InodeFlags::NODEFRAG
            | InodeFlags::FILESTREAM;
        let mut heritage = Self {
            project_id: 0,
            flags: InodeFlags::empty(),
            flags2: InodeFlags2::empty(),
            extent_size_hint_blocks: 0,
            cow_extent_size_hint_blocks: 0,
        };
        if parent.flags.contains(InodeFlags::PROJINHERIT) {
            heritage.project_id = parent.project_id;
        }
        let (is_directory, is_regular) =
            (file_type == FileType::Directory, file_type == FileType::Regular);
        if !is_directory && !is_regular {
            return heritage;
        }
        heritage.flags = parent.flags & always;
        if is_directory {
            heritage.flags |= parent.flags & (InodeFlags::PROJINHERIT | InodeFlags::RTINHERIT);
        }
        if parent.flags.contains(InodeFlags::EXTSZINHERIT) && !parent.has_misfit_hint(geometry) {
            let flag = if is_directory { InodeFlags::EXTSZINHERIT } else { InodeFlags::EXTSIZE };
            heritage.flags |= flag;
            heritage.extent_size_hint_blocks = parent.extent_size_hint_blocks;
        }
        heritage.flags2 = parent.flags2 & (InodeFlags2::COWEXTSIZE | InodeFlags2::DAX);
        if parent.has_misfit_copy_hint(geometry) {
            heritage.flags2 -= InodeFlags2::COWEXTSIZE;
        } else if parent.flags2.contains(InodeFlags2::COWEXTSIZE) {
            heritage.cow_extent_size_hint_blocks = parent.cow_extent_size_hint_blocks;
        }
        heritage
    }
}
