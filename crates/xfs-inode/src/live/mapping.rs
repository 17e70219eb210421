//! Changes of an extent map, in memory and on disk together.
//!
//! Owns: applying a [`MapChange`] to a fork of any form, converting the fork between the list in
//! the inode and the btree, and allocating and freeing the btree's blocks. Does **not** own the
//! purpose of the change, or the blocks of the extents themselves.
//!
//! ```text
//!            count > what fits: build a leaf, root in the inode
//!   list  ───────────────────────────────────────────────────────▶  btree
//!         ◀───────────────────────────────────────────────────────
//!            count fits again: the only leaf is freed
//! ```
//!
//! The form depends only on the number of extents, as the verifiers of an inode require.

use xfs_alloc::{
    AllocationTarget, BlockExtent, BlockPurpose, ExtentOwner, Section, SpaceRequest,
    allocate_extent, defer_free,
};
use xfs_btree::{Anchor, Anchored, Editor, ForkRoot, Root};
use xfs_buffer::{Error, Result};
use xfs_format::btree::{BtreeKind, Extents};
use xfs_format::extent::{Extent, ExtentCheck};
use xfs_format::inode::{ForkFormat, ForkKind, InodeCheck, InodeCore};
use xfs_format::{
    BlockKind, Corruption, FsBlock, Geometry, InodeNumber, Structure, StructureAddress,
};
use xfs_trans::Transaction;

use super::local::bad_root;
use super::{LiveInode, Touched};
use crate::edit::{MapChange, RecordEdit};
use crate::fork::{BtreeFork, Fork};
use crate::fork_room::{fork_bytes, root_capacity};
use crate::inode::Inode;

/// The form of a fork, with the facts that decide whether the form must change.
#[derive(Clone, Debug)]
pub(super) struct ForkForm {
    /// Which of the two forks this is.
    pub(super) kind: ForkKind,
    /// The root of the fork's btree; `None` if the fork is not a btree.
    pub(super) root: Option<ForkRoot>,
    /// Number of extents in the fork.
    pub(super) count: usize,
    /// Number of bytes that the fork has in the inode.
    pub(super) bytes: usize,
    /// Whether the fork is in a form that holds extents: a list or a btree.
    pub(super) has_extents: bool,
}

impl ForkForm {
    pub(super) fn of(inode: &Inode, kind: ForkKind, geometry: &Geometry) -> Result<Self> {
        let fork = inode.fork(kind);
        let root = match fork {
            Fork::Btree(btree) => {
                Some(ForkRoot::decode(btree.root()).map_err(|check| bad_root(inode, check))?)
            }
            _ => None,
        };
        let has_extents = matches!(fork, Fork::Extents(_) | Fork::Btree(_));
        let count = usize::try_from(inode.core().fork_extents(kind)).unwrap_or(usize::MAX);
        let bytes = fork_bytes(inode.core(), kind, geometry);
        Ok(Self { kind, root, count, bytes, has_extents })
    }
}

/// The anchor of a fork's btree: supplies its blocks and keeps its root.
struct ForkAnchor {
    owner: ExtentOwner,
    root: Option<ForkRoot>,
    /// Number of blocks by which the btree has grown; negative if it has become smaller.
    blocks: i64,
}

impl Anchor for ForkAnchor {
    fn claim_block(&mut self, tx: &mut Transaction<'_>, near: u64) -> Result<u64> {
        let request =
            SpaceRequest::new(AllocationTarget::Near(FsBlock(near)), 1, 1).with_owner(self.owner);
        // The transaction has reserved the block. Without it the btree stays half changed, which
        // must not look like an ordinary lack of space.
        let block = allocate_extent(tx, &request)?.ok_or(Error::Shutdown)?;
        self.blocks += 1;
        Ok(block.start.0)
    }

    fn free_block(&mut self, tx: &mut Transaction<'_>, block: u64) -> Result<()> {
        let extent = BlockExtent { start: FsBlock(block), length_blocks: 1 };
        defer_free(tx, extent, Some(self.owner), BlockPurpose::File);
        self.blocks -= 1;
        Ok(())
    }

    fn set_root(&mut self, _tx: &mut Transaction<'_>, root: Root<'_>) -> Result<()> {
        let Root::Fork(root) = root else {
            unreachable!("the root of a fork's btree is in the inode")
        };
        self.root = Some(root.clone());
        Ok(())
    }
}

/// The new root of a fork, and the number of blocks by which the fork's btree has grown.
type Rebuilt = (Option<ForkRoot>, i64);

impl LiveInode {
    /// Applies a change to an extent map, in memory and on disk. `blocks` is the number of blocks
    /// that the change adds to the extents; it is negative if the change removes blocks. The map
    /// must be loaded.
    pub(crate) fn change_map(
        &self,
        tx: &mut Transaction<'_>,
        kind: ForkKind,
        change: &MapChange,
        blocks: i64,
    ) -> Result<()> {
        if change.is_empty() {
            return Ok(());
        }
        let form = ForkForm::of(&self.inode(), kind, tx.geometry())?;
        self.change_form(tx, form, change, blocks)
    }

    /// Applies a change as [`change_map`](Self::change_map) does. `form` describes the fork, whose
    /// room in the inode (in bytes) may also change.
    pub(super) fn change_form(
        &self,
        tx: &mut Transaction<'_>,
        form: ForkForm,
        change: &MapChange,
        blocks: i64,
    ) -> Result<()> {
        let kind = form.kind;
        let count = form.count.checked_add_signed(change.growth() as isize);
        let count = count.expect("a change removes only extents of its fork");
        let fits = count.saturating_mul(xfs_format::extent::EXTENT_BYTES) <= form.bytes;
        let (root, btree_blocks) = match (form.root, fits) {
            (None, true) => (None, 0),
            (None, false) => self.build_btree(tx, kind, change, root_capacity(form.bytes))?,
            (Some(root), true) => (None, self.drop_btree(tx, kind, &root)?),
            (Some(root), false) => self.edit_btree(tx, kind, root, change)?,
        };
        self.update(tx, Touched::Fork(kind), |inode| {
            put_change(inode, kind, change, root);
            count_blocks(inode.core_mut(), blocks + btree_blocks)
        })?;
        if self.section(tx.geometry(), kind) == Section::Realtime {
            tx.count_realtime(self.log_item(), blocks);
        }
        Ok(())
    }

    fn anchor(&self, kind: ForkKind) -> ForkAnchor {
        let owner = ExtentOwner::fork_btree(self.number(), kind == ForkKind::Attr);
        ForkAnchor { owner, root: None, blocks: 0 }
    }

    /// Applies the change to the list of extents, and moves the resulting extents from the inode
    /// into a new btree.
    fn build_btree(
        &self,
        tx: &mut Transaction<'_>,
        kind: ForkKind,
        change: &MapChange,
        capacity: usize,
    ) -> Result<Rebuilt> {
        let map = self.inode().fork(kind).loaded_map().cloned();
        let mut map = map.expect("extents in the inode are in memory");
        map.replace(&change.old, &change.new);
        let extents: Vec<Extent> = map.iter().copied().collect();
        let mut store = Anchored { tx, anchor: self.anchor(kind) };
        let root = ForkRoot::build(&mut store, self.number(), &extents, capacity)?;
        Ok((Some(root), store.anchor.blocks))
    }

    /// Frees the leaf of a btree whose extents fit in the inode. The leaf must be the only one.
    /// Returns the change of the number of blocks that the fork has, which is negative.
    fn drop_btree(&self, tx: &mut Transaction<'_>, kind: ForkKind, root: &ForkRoot) -> Result<i64> {
        if root.level != 1 {
            return Err(bad_root(&self.inode(), ExtentCheck::RootLevel { level: root.level }));
        }
        let mut anchor = self.anchor(kind);
        for (file_block, child) in &root.children {
            let at = tx.geometry().block_disk_addr(*child).ok_or_else(|| {
                let (file_block, child) = (*file_block, *child);
                bad_root(&self.inode(), ExtentCheck::Child { file_block, child })
            })?;
            let length_bytes = tx.geometry().block_size;
            let buffer = tx.read(at, length_bytes, BlockKind::Btree(BtreeKind::Extent))?;
            tx.invalidate(&buffer);
            anchor.free_block(tx, child.0)?;
        }
        Ok(anchor.blocks)
    }

    fn edit_btree(
        &self,
        tx: &mut Transaction<'_>,
        kind: ForkKind,
        root: ForkRoot,
        change: &MapChange,
    ) -> Result<Rebuilt> {
        let store = Anchored { tx, anchor: self.anchor(kind) };
        let mut editor = Editor::<Extents, _>::in_fork(store, self.number(), root.clone())?;
        for step in change.record_edits() {
            let at = match step {
                RecordEdit::Remove(old) | RecordEdit::Update { old, .. } => Some(old),
                RecordEdit::Insert(_) => None,
            };
            if let Some(old) = at {
                let found = editor.find(old.file_block)?;
                if found != Some(old) {
                    return Err(not_in_btree(self.number(), &old));
                }
            }
            match step {
                RecordEdit::Remove(_) => drop(editor.remove()?),
                RecordEdit::Update { new, .. } => editor.update(new)?,
                RecordEdit::Insert(new) => editor.insert(new)?,
            }
        }
        let anchor = editor.into_store().anchor;
        Ok((Some(anchor.root.unwrap_or(root)), anchor.blocks))
    }

    /// Moves one block of a fork's btree for which `is_misplaced` returns `true` to a newly
    /// allocated block. Returns `false` if there is no such block, or no btree.
    pub(super) fn move_map_block(
        &self,
        tx: &mut Transaction<'_>,
        kind: ForkKind,
        is_misplaced: impl Fn(u64) -> bool,
    ) -> Result<bool> {
        tx.join(self.log_item());
        let form = ForkForm::of(&self.inode(), kind, tx.geometry())?;
        let Some(root) = form.root else { return Ok(false) };
        // The map is replaced with the root, and may not have been loaded yet.
        self.load_map(tx.cache(), kind)?;
        let store = Anchored { tx: &mut *tx, anchor: self.anchor(kind) };
        let mut editor = Editor::<Extents, _>::in_fork(store, self.number(), root.clone())?;
        if !editor.move_block(is_misplaced)? {
            return Ok(false);
        }
        let anchor = editor.into_store().anchor;
        let root = anchor.root.unwrap_or(root);
        self.update(tx, Touched::Fork(kind), |inode| {
            put_change(inode, kind, &MapChange::default(), Some(root));
        });
        Ok(true)
    }

    /// Moves the children of the data fork's root from the inode into a new block, so that the root
    /// has one child. `capacity` is the number of children for which the root has room afterwards.
    pub(super) fn push_root_down(
        &self,
        tx: &mut Transaction<'_>,
        root: &mut ForkRoot,
        capacity: usize,
    ) -> Result<()> {
        self.load_map(tx.cache(), ForkKind::Data)?;
        let blocks = {
            let mut store = Anchored { tx: &mut *tx, anchor: self.anchor(ForkKind::Data) };
            root.push_down(&mut store, self.number(), capacity)?;
            store.anchor.blocks
        };
        self.update(tx, Touched::Core, |inode| count_blocks(inode.core_mut(), blocks))
    }
}

/// Applies the change to the readers' view of the inode. `root` is the new root of the fork's
/// btree, or `None` for a list of extents.
fn put_change(inode: &mut Inode, kind: ForkKind, change: &MapChange, root: Option<ForkRoot>) {
    let (core, fork) = inode.parts_mut(kind);
    let mut map = match core::mem::replace(fork, Fork::Absent) {
        Fork::Extents(map) => map,
        Fork::Btree(btree) => btree.into_map().expect("the map was loaded before the change"),
        other => unreachable!("a fork whose map changes holds extents, not {other:?}"),
    };
    map.replace(&change.old, &change.new);
    let format = if root.is_some() { ForkFormat::Btree } else { ForkFormat::Extents };
    let count = map.count();
    *fork = match root {
        Some(root) => Fork::Btree(Box::new(BtreeFork::of_root(&root, map))),
        None => Fork::Extents(map),
    };
    match kind {
        ForkKind::Data => (core.data_format, core.extents) = (format, count as u64),
        ForkKind::Attr => (core.attr_format, core.attr_extents) = (format, count as u32),
    }
}

/// Adds `blocks`, which may be negative, to the inode's count of blocks.
fn count_blocks(core: &mut InodeCore, blocks: i64) -> Result<()> {
    let Some(sum) = core.blocks.checked_add_signed(blocks) else {
        let (extents, attr_extents, blocks) = (core.extents, core.attr_extents, core.blocks);
        let check = InodeCheck::ExtentsExceedBlocks { extents, attr_extents, blocks };
        return Err(
            Corruption::new(Structure::Inode, StructureAddress::Inode(core.number), check).into()
        );
    };
    core.blocks = sum;
    Ok(())
}

/// Returns the error for an extent that is in the map but no longer in the btree, from which the
/// map was read. Either the blocks have changed on the device, or two trees share blocks.
fn not_in_btree(inode: InodeNumber, extent: &Extent) -> Error {
    let check = ExtentCheck::NotMapped { file_block: extent.file_block };
    Corruption::new(Structure::Extent, StructureAddress::Inode(inode), check).into()
}
