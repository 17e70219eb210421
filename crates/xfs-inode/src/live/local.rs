//! Contents that are stored in the inode itself, and the offset of the attribute fork.
//!
//! Owns: moving contents into and out of the inode; creating, moving and removing the attribute
//! fork. Does **not** own the meaning of the contents.

use xfs_btree::ForkRoot;
use xfs_buffer::{PosixError, Result};
use xfs_format::Geometry;
use xfs_format::inode::{FORK_OFFSET_BYTES, FileType, ForkFormat, ForkKind};
use xfs_trans::Transaction;

use super::mapping::ForkForm;
use super::{LiveInode, Touched};
use crate::edit::MapChange;
use crate::extent_map::ExtentMap;
use crate::fork::{BtreeFork, Fork, corrupt};
use crate::fork_room::{self, DataUse};
use crate::inode::Inode;

impl LiveInode {
    /// Returns the largest number of bytes that a fork can hold in the inode. For the data fork,
    /// this is its present length. For the attribute fork, it is the length that the fork would
    /// have at the lowest offset that the data fork allows.
    #[must_use]
    pub fn local_room(&self, geometry: &Geometry, kind: ForkKind) -> usize {
        let inode = self.inode();
        match kind {
            ForkKind::Data => fork_room::fork_bytes(inode.core(), kind, geometry),
            ForkKind::Attr => fork_room::attr_room(inode.core(), data_use(&inode), geometry),
        }
    }

    /// Replaces the contents of a fork with `bytes`, stored in the inode. The fork must have no
    /// extents. For the data fork, the size of the file becomes the length of `bytes`. The
    /// attribute fork is created or moved if necessary.
    ///
    /// # Errors
    ///
    /// [`PosixError::NoSpace`] for more bytes than [`local_room`](Self::local_room), with nothing
    /// changed; the errors of moving the fork.
    pub fn set_local(&self, tx: &mut Transaction<'_>, kind: ForkKind, bytes: &[u8]) -> Result<()> {
        if bytes.len() > self.local_room(tx.geometry(), kind) {
            return Err(PosixError::NoSpace.into());
        }
        if kind == ForkKind::Attr {
            self.make_room_for_attrs(tx, bytes.len())?;
        }
        self.update(tx, Touched::Fork(kind), |inode| {
            let (core, fork) = inode.parts_mut(kind);
            assert!(fork.loaded_map().is_none_or(ExtentMap::is_empty), "no extents are left");
            *fork = Fork::Local(bytes.into());
            match kind {
                ForkKind::Data => {
                    core.data_format = ForkFormat::Local;
                    core.size = bytes.len() as u64;
                }
                ForkKind::Attr => core.attr_format = ForkFormat::Local,
            }
        });
        Ok(())
    }

    /// Removes the contents of a fork that are stored in the inode. The fork then has the form of
    /// an empty list of extents.
    ///
    /// # Errors
    ///
    /// None at present; the signature allows for errors.
    #[doc(alias = "xfs_bmap_local_to_extents_empty")]
    pub fn set_empty_extents(&self, tx: &mut Transaction<'_>, kind: ForkKind) -> Result<()> {
        self.update(tx, Touched::Fork(kind), |inode| {
            let (core, fork) = inode.parts_mut(kind);
            *fork = Fork::Extents(ExtentMap::default());
            match kind {
                ForkKind::Data => {
                    core.data_format = ForkFormat::Extents;
                    core.size = 0;
                }
                ForkKind::Attr => core.attr_format = ForkFormat::Extents,
            }
        });
        Ok(())
    }

    /// Creates an attribute fork without extents, if the inode has no attribute fork. The fork has
    /// room for `needed_bytes` in the inode, if the data fork allows that.
    ///
    /// # Errors
    ///
    /// [`PosixError::NoSpace`], with nothing changed, if contents of the data fork in the inode
    /// leave no room. The layer that knows the meaning of these contents must move them out of the
    /// inode first. Only the target of a symbolic link is moved out here. Also the errors of
    /// [`map`](Self::map), because extents of the data fork may have to move out of the inode.
    #[doc(alias = "xfs_bmap_add_attrfork")]
    pub fn add_attr_fork(&self, tx: &mut Transaction<'_>, needed_bytes: usize) -> Result<()> {
        tx.join(self.log_item());
        let (offset, target) = {
            let inode = self.inode();
            if inode.core().has_attr_fork() {
                return Ok(());
            }
            let (data, geometry) = (data_use(&inode), tx.geometry());
            let offset = fork_room::offset_for(inode.core(), data, needed_bytes, geometry)
                .unwrap_or_else(|| fork_room::usual_offset(data.format, geometry));
            let room = usize::from(offset) * FORK_OFFSET_BYTES;
            let is_long = data.format == ForkFormat::Local && data.bytes > room;
            match (is_long, inode.fork(ForkKind::Data)) {
                (true, Fork::Local(target)) if inode.file_type() == FileType::Symlink => {
                    (offset, Some(target.clone()))
                }
                (true, _) => return Err(PosixError::NoSpace.into()),
                (false, _) => (offset, None),
            }
        };
        if let Some(target) = target {
            self.set_empty_extents(tx, ForkKind::Data)?;
            self.set_remote_target(tx, &target)?;
        }
        self.move_attr_fork(tx, offset)
    }

    /// Removes the attribute fork, which must have no extents. If the data fork is a btree, the
    /// attribute fork is emptied but stays. If it were removed, the data fork might have room for
    /// all its extents in the inode, and would have to become a list.
    ///
    /// # Errors
    ///
    /// None at present; the signature allows for errors.
    #[doc(alias = "xfs_attr_fork_remove")]
    pub fn remove_attr_fork(&self, tx: &mut Transaction<'_>) -> Result<()> {
        self.update(tx, Touched::Fork(ForkKind::Attr), |inode| {
            let is_btree = matches!(inode.fork(ForkKind::Data), Fork::Btree(_));
            let (core, attr) = inode.parts_mut(ForkKind::Attr);
            assert!(attr.loaded_map().is_none_or(ExtentMap::is_empty), "no extents are left");
            core.attr_format = ForkFormat::Extents;
            if is_btree {
                *attr = Fork::Extents(ExtentMap::default());
            } else {
                *attr = Fork::Absent;
                core.fork_offset = 0;
            }
        });
        Ok(())
    }

    fn make_room_for_attrs(&self, tx: &mut Transaction<'_>, bytes: usize) -> Result<()> {
        let (now, offset) = {
            let inode = self.inode();
            let core = inode.core();
            let offset = fork_room::offset_for(core, data_use(&inode), bytes, tx.geometry());
            (core.fork_offset, offset.ok_or(PosixError::NoSpace)?)
        };
        if now == offset { Ok(()) } else { self.move_attr_fork(tx, offset) }
    }

    /// Moves the start of the attribute fork to `offset`, in units of 8 bytes. Creates the fork if
    /// the inode does not have it.
    fn move_attr_fork(&self, tx: &mut Transaction<'_>, offset: u8) -> Result<()> {
        self.leave_room(tx, offset)?;
        let root = self.root_for_offset(tx, offset)?;
        self.update(tx, Touched::Both, |inode| {
            let (core, attr) = inode.parts_mut(ForkKind::Attr);
            core.fork_offset = offset;
            if matches!(attr, Fork::Absent) {
                *attr = Fork::Extents(ExtentMap::default());
                core.attr_format = ForkFormat::Extents;
            }
            assert!(!matches!(attr, Fork::Btree(_)), "the root of attributes does not move");
            put_root(inode, root);
        });
        Ok(())
    }

    /// Moves the extents of the data fork out of the inode into a btree, if they do not fit before
    /// `offset`. `offset` counts in units of 8 bytes from the start of the fork.
    fn leave_room(&self, tx: &mut Transaction<'_>, offset: u8) -> Result<()> {
        let bytes = usize::from(offset) * FORK_OFFSET_BYTES;
        let form = ForkForm::of(&self.inode(), ForkKind::Data, tx.geometry())?;
        match form.root {
            None if form.count * xfs_format::extent::EXTENT_BYTES > bytes && form.has_extents => {
                let form = ForkForm { bytes, ..form };
                self.change_form(tx, form, &MapChange::default(), 0)
            }
            _ => Ok(()),
        }
    }

    /// Makes the root of the data fork's btree small enough to end before `offset` (in units of 8
    /// bytes), and returns it. If the root has too many children for that, they move into a new
    /// block, and the btree gets one more level. Returns `None` if the data fork is not a btree.
    fn root_for_offset(&self, tx: &mut Transaction<'_>, offset: u8) -> Result<Option<ForkRoot>> {
        let bytes = usize::from(offset) * FORK_OFFSET_BYTES;
        let form = ForkForm::of(&self.inode(), ForkKind::Data, tx.geometry())?;
        let Some(mut root) = form.root else { return Ok(None) };
        // The map is replaced with the root, and may not have been loaded yet.
        self.load_map(tx.cache(), ForkKind::Data)?;
        let capacity = fork_room::root_capacity(bytes);
        if root.children.len() > capacity {
            self.push_root_down(tx, &mut root, capacity)?;
        }
        root.capacity = capacity;
        Ok(Some(root))
    }
}

/// Returns the form of the data fork and the bytes that it uses. Both limit the offset of the
/// attribute fork.
fn data_use(inode: &Inode) -> DataUse {
    let core = inode.core();
    let bytes = match inode.fork(ForkKind::Data) {
        Fork::Local(bytes) => bytes.len(),
        Fork::Extents(map) => map.count() * xfs_format::extent::EXTENT_BYTES,
        Fork::Btree(btree) => {
            // A root that cannot be decoded keeps its room: the change that needs some fails.
            let root = ForkRoot::decode(btree.root());
            root.map_or(btree.root().len(), |root| fork_room::root_bytes(root.children.len()))
        }
        Fork::Absent | Fork::Device | Fork::MetadataBtree => 0,
    };
    DataUse { format: core.data_format, bytes }
}

/// Replaces the data fork's root with `root`, which has room for another number of children. `None`
/// changes nothing.
fn put_root(inode: &mut Inode, root: Option<ForkRoot>) {
    let (_, fork) = inode.parts_mut(ForkKind::Data);
    let Some(root) = root else { return };
    let map = match core::mem::replace(fork, Fork::Absent) {
        Fork::Btree(btree) => btree.into_map(),
        _ => None,
    };
    let map = map.expect("the map was loaded before the root was changed");
    *fork = Fork::Btree(Box::new(BtreeFork::of_root(&root, map)));
}

/// Returns the error for a corruption of the root of a fork's btree.
pub(super) fn bad_root(inode: &Inode, check: xfs_format::extent::ExtentCheck) -> xfs_buffer::Error {
    corrupt(inode.core(), check).into()
}
