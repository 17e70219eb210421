//! Btrees of a realtime group: the reverse map and the reference counts.
//!
//! Owns: the root in the inode, which an edit sees as a whole block, and the blocks below it: they
//! come from the data device. Does **not** own the records ([`mappings`](crate::mappings),
//! [`reference_counts`](crate::reference_counts)), or the lock of the group.
//!
//! ```text
//!  entries of the root block   in the inode
//!  fit into the inode          these entries            the btree has no root block
//!  do not fit                  one child: the block     the block is the root of the edit
//! ```
//!
//! The kernel keeps the same form: a root that becomes too large moves into a block of its own, and
//! the only child of a root moves into the inode as soon as it fits.
//!
//! # Invariants
//!
//! - **I1** The latch of the inode covers all blocks of its btree.
//! - **I2** A block of the btree comes from the reserve of the section, as long as that has blocks.

use std::cell::{Ref, RefCell};
use std::ops::{Deref, Range};
use std::rc::Rc;
use std::sync::Arc;

use xfs_btree::{BtreeStore, Editor, INODE_ROOT, Root, Source, TreeBlock, TreeRoot};
use xfs_buffer::{Buffer, BufferBytes, Error, Result};
use xfs_format::btree::{
    BtreeBlock, BtreeCheck, BtreeFormat, BtreeHeader, BtreeIdentity, BtreeKind, BtreeLayout,
};
use xfs_format::log_item::LoggedFields;
use xfs_format::realtime::MetadataRootLayout;
use xfs_format::{
    AgNumber, BlockKind, Check, Corruption, DiskAddr, FsBlock, Geometry, Group, Structure,
    StructureAddress,
};
use xfs_trans::{ForkBytes, InodeImage, InodeRecord, Transaction};

use super::reserve::BtreeReserve;
use crate::allocate::{AllocationTarget, SpaceRequest, allocate_extent};
use crate::deferred::defer_free;
use crate::extent::BlockExtent;
use crate::owner::{BlockPurpose, ExtentOwner};

/// A block of the btree: in a buffer, or the root in the form of a whole block.
#[derive(Clone)]
pub(super) enum RootedBlock {
    Stored(Buffer),
    InInode(Rc<RefCell<Vec<u8>>>),
}

/// The bytes of a block of the btree.
enum RootedBytes<'a> {
    Stored(BufferBytes<'a>),
    InInode(Ref<'a, Vec<u8>>),
}

impl Deref for RootedBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Stored(bytes) => bytes,
            Self::InInode(bytes) => bytes,
        }
    }
}

impl TreeBlock for RootedBlock {
    fn bytes(&self) -> impl Deref<Target = [u8]> {
        match self {
            Self::Stored(buffer) => RootedBytes::Stored(buffer.bytes()),
            Self::InInode(bytes) => RootedBytes::InInode(bytes.borrow()),
        }
    }
}

/// The blocks of a btree that is edited in a transaction, and its root.
pub(super) struct RootedStore<'t, 'journal> {
    tx: &'t mut Transaction<'journal>,
    reserve: &'t BtreeReserve,
    owner: ExtentOwner,
    root: Rc<RefCell<Vec<u8>>>,
    /// The root at the end of the edit; `None` as long as it is the old one.
    new_root: Option<TreeRoot>,
    /// The block near which new blocks are allocated.
    near: u64,
    /// Number of blocks by which the btree has grown; negative if it has become smaller.
    blocks: i64,
    /// Whether the edit has changed anything. A caller that only reads must leave the inode alone:
    /// the unused bytes of its root may differ from those that an edit would write.
    is_changed: bool,
}

impl Source for RootedStore<'_, '_> {
    type Block = RootedBlock;

    fn geometry(&self) -> &Geometry {
        self.tx.geometry()
    }

    fn read_block(&self, at: DiskAddr, kind: BtreeKind) -> Result<RootedBlock> {
        if at == DiskAddr::NULL {
            return Ok(RootedBlock::InInode(Rc::clone(&self.root)));
        }
        self.tx.cache().read_block(at, kind).map(RootedBlock::Stored)
    }
}

impl BtreeStore for RootedStore<'_, '_> {
    fn change(
        &mut self,
        block: &RootedBlock,
        range: Range<usize>,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        self.is_changed = true;
        match block {
            RootedBlock::Stored(buffer) => {
                self.tx.join_buffer(buffer)?;
                self.tx.change(buffer, range, change);
            }
            RootedBlock::InInode(bytes) => {
                let mut bytes = bytes.borrow_mut();
                change(bytes.get_mut(range).expect("a change lies inside its block"));
            }
        }
        Ok(())
    }

    fn allocate(&mut self, near: u64) -> Result<u64> {
        let near = if near == INODE_ROOT { self.near } else { near };
        self.reserve.draw(self.tx)?;
        let request =
            SpaceRequest::new(AllocationTarget::Near(FsBlock(near)), 1, 1).with_owner(self.owner);
        // I2: the reserve holds the block. Without it the btree stays half changed, which must not
        // look like an ordinary lack of space.
        let block = allocate_extent(self.tx, &request)?.ok_or(Error::Shutdown)?;
        self.blocks += 1;
        Ok(block.start.0)
    }

    fn allocate_root(&mut self, _near: u64) -> Result<u64> {
        Ok(INODE_ROOT)
    }

    fn claim(&mut self, at: DiskAddr, kind: BtreeKind) -> Result<RootedBlock> {
        if at == DiskAddr::NULL {
            self.root.borrow_mut().fill(0);
            return Ok(RootedBlock::InInode(Rc::clone(&self.root)));
        }
        let length_bytes = self.tx.geometry().block_size;
        self.tx.claim(at, length_bytes, BlockKind::Btree(kind)).map(RootedBlock::Stored)
    }

    fn free(&mut self, number: u64, block: &RootedBlock) -> Result<()> {
        let RootedBlock::Stored(buffer) = block else { return Ok(()) };
        self.tx.join_buffer(buffer)?;
        self.tx.invalidate(buffer);
        let extent = BlockExtent { start: FsBlock(number), length_blocks: 1 };
        defer_free(self.tx, extent, Some(self.owner), BlockPurpose::File);
        self.reserve.refill(self.tx);
        self.blocks -= 1;
        Ok(())
    }

    fn set_root(&mut self, root: Root<'_>) -> Result<()> {
        let Root::Tree(root) = root else {
            unreachable!("the root of a btree of a realtime group is in its inode")
        };
        self.new_root = Some(root);
        Ok(())
    }
}

/// The inode with the root of a btree, as it was before an edit.
struct RootInode<'a> {
    record: &'a Arc<InodeRecord>,
    image: InodeImage,
    layout: MetadataRootLayout,
}

impl RootInode<'_> {
    fn corrupt(&self, check: impl Into<Check>) -> Error {
        corrupt(self.record, check)
    }

    /// Returns the root of the edit, and the entries in the inode in the form of a whole block.
    fn unpack(&self, geometry: &Geometry) -> Result<(TreeRoot, Vec<u8>)> {
        let fork: &[u8] = &self.image.data;
        let (level, count) = self.layout.header(fork).map_err(|check| self.corrupt(check))?;
        let mut block = vec![0; geometry.block_size as usize];
        self.put_header(geometry, level, count, &mut block);
        self.layout.unpack(fork, &mut block).map_err(|check| self.corrupt(check))?;
        self.layout.verify(&block, geometry).map_err(|check| self.corrupt(check))?;
        let in_inode = TreeRoot { block: INODE_ROOT, levels: level + 1 };
        let root = match (level, count) {
            (1.., 1) => {
                let view = BtreeBlock::decode(&block, self.layout.kind, DiskAddr::NULL)?;
                let child = view.pointer(0).expect("a verified node has its children");
                TreeRoot { block: child, levels: level }
            }
            _ => in_inode,
        };
        Ok((root, block))
    }

    fn put_header(&self, geometry: &Geometry, level: u32, count: usize, block: &mut [u8]) {
        let owner = self.record.number().0;
        let identity = BtreeIdentity { kind: self.layout.kind, owner, address: DiskAddr::NULL };
        let (level, count) = (level as u16, count as u16);
        BtreeHeader { identity, level, count, left: None, right: None }.encode(geometry, block);
    }
}

fn corrupt(record: &InodeRecord, check: impl Into<Check>) -> Error {
    let place = StructureAddress::Inode(record.number());
    Corruption::new(Structure::Btree, place, check).into()
}

/// Edits the btree whose root is in the inode `record`, which the transaction has latched.
///
/// # Errors
///
/// The errors of `edit`, of the device and of the allocator; a corrupt root.
pub(super) fn edit_tree<F: BtreeFormat, R>(
    tx: &mut Transaction<'_>,
    reserve: &BtreeReserve,
    record: &Arc<InodeRecord>,
    edit: impl FnOnce(&mut Editor<F, RootedStore<'_, '_>>) -> Result<R>,
) -> Result<R> {
    let image = record.image()?;
    let layout = MetadataRootLayout::of_metatype(image.core.metafile_type, image.data.len());
    let layout = layout.filter(|layout| layout.kind == F::KIND);
    let layout = layout.ok_or_else(|| corrupt(record, BtreeCheck::Outside))?;
    let inode = RootInode { record, image, layout };
    let geometry = tx.geometry();
    let (root, block) = inode.unpack(geometry)?;
    let own_block = geometry
        .split_inode(record.number())
        .map(|(group, inode)| geometry.join_block(group, geometry.ag_inode_block(inode)).0);
    let store = RootedStore {
        tx: &mut *tx,
        reserve,
        owner: ExtentOwner::fork_btree(record.number(), false),
        root: Rc::new(RefCell::new(block)),
        new_root: None,
        near: own_block.expect("a loaded inode lies in a group"),
        blocks: 0,
        is_changed: false,
    };
    let mut editor = Editor::in_tree(store, record.number(), root)?;
    let result = edit(&mut editor)?;
    let store = editor.into_store();
    if !store.is_changed {
        return Ok(result);
    }
    let root = store.new_root.unwrap_or(root);
    let (fork, blocks) = settle::<F>(store, &inode, root)?;
    put_root(tx, inode, fork, blocks)?;
    Ok(result)
}

/// Moves the root of the edit into the inode or into a block of its own, as its size requires.
/// Returns the bytes of the fork, and the number of blocks by which the btree has grown.
fn settle<F: BtreeFormat>(
    mut store: RootedStore<'_, '_>,
    inode: &RootInode<'_>,
    root: TreeRoot,
) -> Result<(Vec<u8>, i64)> {
    let geometry = store.tx.geometry();
    let outside = || inode.corrupt(BtreeCheck::Outside);
    let at = match root.block {
        INODE_ROOT => DiskAddr::NULL,
        block => geometry.block_disk_addr(FsBlock(block)).ok_or_else(outside)?,
    };
    let block = store.read_block(at, F::KIND)?;
    let bytes = block.bytes().to_vec();
    let view = BtreeBlock::decode(&bytes, F::KIND, at)?;
    let (level, count) = (view.level(), view.count());
    let mut fork = vec![0; inode.layout.fork_bytes];
    if count <= inode.layout.capacity(level) {
        store.free(root.block, &block)?;
        inode.layout.pack(level, count, &bytes, &mut fork);
        return Ok((fork, store.blocks));
    }
    let number = match root.block {
        INODE_ROOT => move_out::<F>(&mut store, &bytes, inode.record)?,
        block => block,
    };
    let mut node = vec![0; bytes.len()];
    inode.put_header(geometry, level + 1, 1, &mut node);
    let layout = F::KIND.layout();
    let keys = keys_of::<F>(&view, geometry, at)?;
    let pointer = layout.encode_pointer(Some(number));
    for (start, part) in
        [(layout.header_bytes(), &*keys), (layout.pointers_offset(geometry.block_size), &pointer)]
    {
        let place = node.get_mut(start..start + part.len());
        place.expect("a block has room for an entry").copy_from_slice(part);
    }
    inode.layout.pack(level + 1, 1, &node, &mut fork);
    Ok((fork, store.blocks))
}

/// Moves the root from the inode into a block of its own. Returns the number of the block.
fn move_out<F: BtreeFormat>(
    store: &mut RootedStore<'_, '_>,
    root: &[u8],
    record: &InodeRecord,
) -> Result<u64> {
    let number = store.allocate(INODE_ROOT)?;
    let geometry = store.tx.geometry();
    let at = geometry.block_disk_addr(FsBlock(number));
    let at = at.ok_or_else(|| corrupt(record, BtreeCheck::Outside))?;
    let block = store.claim(at, F::KIND)?;
    let view = BtreeBlock::decode(root, F::KIND, DiskAddr::NULL)?;
    let identity = BtreeIdentity { kind: F::KIND, owner: record.number().0, address: at };
    let (level, count) = (view.level() as u16, view.count() as u16);
    let mut whole = root.to_vec();
    BtreeHeader { identity, level, count, left: None, right: None }.encode(geometry, &mut whole);
    // A header is written over all bytes before the entries.
    let header = F::KIND.layout().header_bytes();
    let entries = root.get(header..).expect("a block is longer than its header");
    let place = whole.get_mut(header..).expect("a block is longer than its header");
    place.copy_from_slice(entries);
    store.change(&block, 0..whole.len(), |bytes| bytes.copy_from_slice(&whole))?;
    Ok(number)
}

/// Returns the keys that a node holds for a block: the lowest key and, in the reverse map, the
/// highest one.
fn keys_of<F: BtreeFormat>(
    block: &BtreeBlock<'_>,
    geometry: &Geometry,
    at: DiskAddr,
) -> Result<Vec<u8>> {
    let layout: &BtreeLayout = F::KIND.layout();
    let empty =
        || Corruption::new(Structure::Btree, StructureAddress::Disk(at), BtreeCheck::EmptyLeaf);
    let mut keys = vec![0; layout.node_key_bytes()];
    let (low, high) = keys.split_at_mut(layout.key_bytes);
    if !block.is_leaf() {
        low.copy_from_slice(block.key(0).ok_or_else(empty)?);
        let highs = (0..block.count()).filter_map(|index| block.high_key(index));
        if let Some(highest) = highs.max_by_key(|key| F::decode_key(key)) {
            high.copy_from_slice(highest);
        }
        return Ok(keys);
    }
    let group = Group::new(geometry, AgNumber(0)).ok_or_else(empty)?;
    let mut highest: Option<F::Record> = None;
    for (index, record) in block.records().enumerate() {
        let record = F::decode_record(record, &group).map_err(|check| {
            Corruption::new(Structure::Btree, StructureAddress::Disk(at), check)
        })?;
        let mut of_record = vec![0; layout.node_key_bytes()];
        F::encode_key(&record, &mut of_record);
        let (record_low, record_high) = of_record.split_at(layout.key_bytes);
        if index == 0 {
            low.copy_from_slice(record_low);
        }
        if highest.is_none_or(|known| F::high_key(&record) > F::high_key(&known)) {
            high.copy_from_slice(record_high);
            highest = Some(record);
        }
    }
    highest.map(|_| keys).ok_or_else(|| empty().into())
}

/// Writes the root into its inode if it has changed.
fn put_root(
    tx: &mut Transaction<'_>,
    inode: RootInode<'_>,
    fork: Vec<u8>,
    blocks: i64,
) -> Result<()> {
    if fork == *inode.image.data && blocks == 0 {
        return Ok(());
    }
    let sum = inode.image.core.blocks.checked_add_signed(blocks);
    let sum = sum.ok_or_else(|| inode.corrupt(BtreeCheck::Outside))?;
    let RootInode { record, image, .. } = inode;
    tx.change_inode(
        record,
        LoggedFields::DATA_ROOT,
        || image,
        |image| {
            image.data = ForkBytes::Own(fork);
            image.core.blocks = sum;
        },
    );
    Ok(())
}
