//! Deferred changes of a file's extent map.
//!
//! Owns: mapping or unmapping one extent as deferred work with an intent, and resuming this work
//! after a crash. Does **not** own the reference counts of the blocks, which other intents of the
//! chain change in between.
//!
//! When a file takes over shared blocks, its extent map changes twice and reference counts change.
//! That is too much for one transaction step, so the first step logs the intents of all of these
//! changes.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::extent::Extent;
use xfs_format::inode::ForkKind;
use xfs_format::log_item::MapExtent;
use xfs_format::{Corruption, InodeNumber, Structure, StructureAddress, extent::ExtentCheck};
use xfs_trans::{Deferred, Finish, IntentPayload, Journal, Transaction};

use super::LiveInode;

/// The kind of an intent that maps an extent, in the low byte of the intent's flags.
const MAP: u32 = 1;
/// The kind of an intent that unmaps an extent.
const UNMAP: u32 = 2;
/// The bits of an intent's flags that hold the kind.
const KIND_MASK: u32 = 0xff;
/// The flag of an intent whose extent is in the attribute fork.
const ATTR_FORK: u32 = 1 << 31;
/// The flag of an intent whose extent is unwritten.
const UNWRITTEN: u32 = 1 << 30;

/// The file whose extent map changes.
enum MappedFile {
    Live(Arc<LiveInode>),
    /// A file that is loaded only when the work is done. Other intents of the same chain change the
    /// file before that.
    Number(InodeNumber),
}

impl MappedFile {
    fn number(&self) -> InodeNumber {
        match self {
            Self::Live(live) => live.number(),
            Self::Number(number) => *number,
        }
    }

    fn load(self, journal: &Journal) -> Result<Arc<LiveInode>> {
        match self {
            Self::Live(live) => Ok(live),
            Self::Number(number) => Ok(Arc::new(LiveInode::load(journal, number)?)),
        }
    }
}

/// The deferred work of mapping or unmapping one extent.
#[doc(alias = "xfs_bmap_intent")]
pub(super) struct MapWork {
    file: MappedFile,
    fork: ForkKind,
    extent: Extent,
    is_map: bool,
}

impl MapWork {
    /// Creates the work of mapping `extent`. The extent's range of the file must be a hole by the
    /// time the work is done.
    pub(super) fn map(live: &Arc<LiveInode>, fork: ForkKind, extent: &Extent) -> Self {
        Self { file: MappedFile::Live(Arc::clone(live)), fork, extent: *extent, is_map: true }
    }

    /// Creates the work of unmapping `extent`. The blocks of the extent stay allocated.
    pub(super) fn unmap(live: &Arc<LiveInode>, fork: ForkKind, extent: &Extent) -> Self {
        Self { file: MappedFile::Live(Arc::clone(live)), fork, extent: *extent, is_map: false }
    }
}

/// Adds the work to the deferred work of the transaction.
pub(super) fn defer_map_work(tx: &mut Transaction<'_>, work: MapWork) {
    tx.defer(Box::new(work));
}

impl Deferred for MapWork {
    fn intent_payload(&self) -> Option<IntentPayload> {
        let mut flags = if self.is_map { MAP } else { UNMAP };
        if self.fork == ForkKind::Attr {
            flags |= ATTR_FORK;
        }
        if self.extent.unwritten {
            flags |= UNWRITTEN;
        }
        Some(IntentPayload::Map(MapExtent {
            inode: self.file.number(),
            start: self.extent.start,
            offset: self.extent.file_block,
            length_blocks: self.extent.length_blocks,
            flags,
        }))
    }

    fn finish(self: Box<Self>, tx: &mut Transaction<'_>) -> Result<Finish> {
        let Self { file, fork, extent, is_map } = *self;
        let live = file.load(tx.journal())?;
        tx.join(live.log_item());
        live.load_map(tx.cache(), fork)?;
        if is_map {
            live.put_extent(tx, fork, &extent)?;
        } else {
            live.take_extent(tx, fork, &extent)?;
        }
        Ok(Finish::Done)
    }
}

/// Returns the work of an open mapping intent (BUI) in the log.
///
/// # Errors
///
/// Returns an error if the kind of the intent is unknown.
pub(super) fn resume_map(intent: &MapExtent) -> Result<Box<dyn Deferred>> {
    let MapExtent { inode, start, offset: file_block, length_blocks, flags } = *intent;
    let extent = Extent { file_block, start, length_blocks, unwritten: flags & UNWRITTEN != 0 };
    let fork = if flags & ATTR_FORK != 0 { ForkKind::Attr } else { ForkKind::Data };
    let is_map = match flags & KIND_MASK {
        MAP => true,
        UNMAP => false,
        _ => {
            let check = ExtentCheck::NotMapped { file_block };
            return Err(
                Corruption::new(Structure::Extent, StructureAddress::Inode(inode), check).into()
            );
        }
    };
    Ok(Box::new(MapWork { file: MappedFile::Number(inode), fork, extent, is_map }))
}
