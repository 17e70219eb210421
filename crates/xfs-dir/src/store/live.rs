//! A fork of an in-core inode, in a transaction: the implementation of `ForkStore` for real
//! volumes.

use std::mem::offset_of;
use std::sync::Arc;

use xfs_buffer::{Buffer, Error, PosixError, Result};
use xfs_format::features::VersionFlags;
use xfs_format::inode::{FileType, ForkKind, InodeCore};
use xfs_format::superblock::SuperblockDisk;
use xfs_format::{BlockKind, DiskAddr, FileBlock, Geometry, IncompatFeatures, InodeNumber, attr};
use xfs_inode::{BlockRange, BlockShape, Fork, LiveInode, MapRequest};
use xfs_sync::{AtomicBool, Ordering, Volume};
use xfs_trans::Transaction;

use super::{ForkPlacement, ForkStore, length_blocks};
use crate::directory::DirectoryChange;
use crate::edit::BlockEdit;

/// One fork of `inode`, which is joined to the transaction `tx`.
pub(crate) struct LiveFork<'a, 'journal> {
    tx: &'a mut Transaction<'journal>,
    inode: &'a Arc<LiveInode>,
    fork: ForkKind,
    geometry: &'journal Geometry,
}

impl<'a, 'journal> LiveFork<'a, 'journal> {
    pub(crate) fn new(
        tx: &'a mut Transaction<'journal>,
        inode: &'a Arc<LiveInode>,
        fork: ForkKind,
    ) -> Self {
        tx.join(inode.log_item());
        let geometry = tx.geometry();
        Self { tx, inode, fork, geometry }
    }

    /// Allocates one extent and maps it at the start of `hole`, a range without mappings. Returns
    /// the part of the hole that is still unmapped.
    pub(crate) fn map_head(&mut self, hole: BlockRange) -> Result<BlockRange> {
        if self.tx.blocks_left() < hole.length_blocks {
            return Err(PosixError::NoSpace.into());
        }
        let request = MapRequest { fork: self.fork, range: hole, unwritten: false };
        let extent = self.inode.map(self.tx, &request)?;
        Ok(BlockRange::between(extent.end(), hole.end()))
    }

    /// Sets the superblock's flag that the volume has attributes.
    pub(crate) fn note_attributes(&mut self) -> Result<()> {
        note_attributes(self.tx)
    }

    /// Changes fields of the inode core that do not depend on the forks ([`LiveInode::change`]).
    pub(crate) fn change_core(&mut self, change: impl FnOnce(&mut InodeCore)) {
        self.inode.change(self.tx, change);
    }

    fn is_short_directory(&self) -> bool {
        let inode = self.inode.inode();
        let is_local = matches!(inode.fork(ForkKind::Data), Fork::Local(_));
        is_local && inode.file_type() == FileType::Directory
    }

    fn shape(&self, kind: BlockKind) -> BlockShape {
        BlockShape { length_blocks: length_blocks(self.geometry, kind), kind }
    }
}

/// Whether the superblock's flag for attributes is known to be set.
struct AttributesNoted(AtomicBool<Volume>);

/// Sets the superblock's flag for attributes, when the first inode gets attributes.
///
/// If another transaction holds the superblock, the flag stays as it is, and the next creation of
/// an attribute fork sets it. This transaction must not wait for the superblock, because the other
/// one may be waiting for an object that this transaction holds. No reader depends on the flag.
#[doc(alias = "XFS_SB_VERSION_ATTRBIT")]
fn note_attributes(tx: &mut Transaction<'_>) -> Result<()> {
    let journal = tx.journal();
    let noted = journal.extension(|| {
        let flags = journal.superblock().version_flags;
        AttributesNoted(AtomicBool::new(flags.contains(VersionFlags::ATTR)))
    });
    if noted.0.load(Ordering::Relaxed) {
        return Ok(());
    }
    let length_bytes = journal.geometry().sector_size;
    if let Some(buffer) = tx.try_read(DiskAddr(0), length_bytes, BlockKind::Superblock)? {
        let field = offset_of!(SuperblockDisk, version);
        tx.change(&buffer, field..field + size_of::<u16>(), |version| {
            *version.last_mut().expect("the version has two bytes") |=
                VersionFlags::ATTR.bits() as u8;
        });
        noted.0.store(true, Ordering::Relaxed);
    }
    Ok(())
}

impl ForkStore for LiveFork<'_, '_> {
    type Block = Buffer;

    fn fork(&self) -> ForkKind {
        self.fork
    }

    fn number(&self) -> InodeNumber {
        self.inode.number()
    }

    fn geometry(&self) -> &Geometry {
        self.geometry
    }

    fn contents(&mut self) -> Result<ForkPlacement> {
        let inode = self.inode.inode();
        Ok(match inode.fork(self.fork) {
            Fork::Local(bytes) => ForkPlacement::Inline(Arc::clone(bytes)),
            Fork::Extents(_) | Fork::Btree(_) => {
                let map = inode.extent_map(self.tx.cache(), self.fork)?;
                if map.is_empty() { ForkPlacement::NoBlocks } else { ForkPlacement::Blocks }
            }
            Fork::Absent | Fork::Device | Fork::MetadataBtree => ForkPlacement::Absent,
        })
    }

    fn local_room(&self) -> usize {
        self.inode.local_room(self.geometry, self.fork)
    }

    fn set_local(&mut self, bytes: &[u8]) -> Result<()> {
        self.inode.set_local(self.tx, self.fork, bytes)
    }

    fn set_empty(&mut self) -> Result<()> {
        self.inode.set_empty_extents(self.tx, self.fork)
    }

    /// Creates the attribute fork. A directory in short form may leave the fork too little room;
    /// the directory is then converted to the block form.
    fn make_fork(&mut self, bytes: usize) -> Result<()> {
        match self.inode.add_attr_fork(self.tx, bytes) {
            Err(Error::Posix(PosixError::NoSpace)) if self.is_short_directory() => {
                let mut data = LiveFork::new(self.tx, self.inode, ForkKind::Data);
                DirectoryChange::new(&mut data).leave_short_form()?;
                self.inode.add_attr_fork(self.tx, bytes)
            }
            outcome => outcome,
        }
    }

    /// Removes the attribute fork if possible. On a volume with parent pointers the empty fork
    /// stays, because the next link will use it. The empty fork also stays if the data fork is a
    /// btree, because the root of that btree would have to change.
    fn remove_fork(&mut self) -> Result<()> {
        let keeps = self.geometry.has_incompat(IncompatFeatures::PARENT)
            || matches!(self.inode.inode().fork(ForkKind::Data), Fork::Btree(_));
        match attr::short_form::encode(&[]).filter(|_| keeps) {
            Some(empty) => self.inode.set_local(self.tx, self.fork, &empty),
            None => self.inode.remove_attr_fork(self.tx),
        }
    }

    fn size(&self) -> u64 {
        self.inode.inode().core().size
    }

    fn set_size(&mut self, bytes: u64) {
        self.inode.change(self.tx, |core| core.size = bytes);
    }

    fn read(&mut self, at: FileBlock, kind: BlockKind) -> Result<Buffer> {
        self.inode.fork_block(self.tx, self.fork, at, self.shape(kind))
    }

    fn known(&mut self, at: FileBlock, kind: BlockKind) -> Option<Buffer> {
        match self.fork {
            ForkKind::Data => self.inode.known_block(self.tx, at, self.shape(kind)),
            ForkKind::Attr => None,
        }
    }

    fn grow(&mut self, at: FileBlock, kind: BlockKind) -> Result<Buffer> {
        self.inode.grow_fork(self.tx, self.fork, at, self.shape(kind))
    }

    fn shrink(&mut self, at: FileBlock, block: &Buffer) -> Result<()> {
        self.inode.shrink_fork(self.tx, self.fork, at, block)
    }

    fn first_unused(&mut self, from: FileBlock, blocks: u32) -> Result<FileBlock> {
        self.inode.first_unused(self.tx, self.fork, from, blocks)
    }

    fn last_before(&mut self, limit: FileBlock) -> Result<FileBlock> {
        self.inode.last_before(self.tx, self.fork, limit)
    }

    fn address(&self, block: &Buffer) -> DiskAddr {
        block.at()
    }

    fn view<R>(&self, block: &Buffer, look: impl FnOnce(&[u8]) -> R) -> R {
        look(&block.bytes())
    }

    fn edit<R>(&mut self, block: &Buffer, change: impl FnOnce(&mut BlockEdit<'_>) -> R) -> R {
        let (outcome, touched) = {
            let mut bytes = block.bytes_mut();
            let mut edit = BlockEdit::new(&mut bytes);
            let outcome = change(&mut edit);
            (outcome, edit.into_touched())
        };
        self.tx.log_all(block, touched.ranges());
        outcome
    }
}
