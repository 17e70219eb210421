//! Deferred changes of a file's extent map.
//!
//! Owns: mapping or unmapping one extent as deferred work with an intent, and resuming this work
//! after a crash. Does **not** own the reference counts of the blocks, which other intents of the
//! chain change in between.
//!
//! When a file maps the blocks of another, its extent map changes twice and reference counts
//! change. That is too much for one transaction step, so the first step logs the intents of all of
//! these changes.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::extent::{Extent, ExtentCheck, ExtentRules};
use xfs_format::inode::ForkKind;
use xfs_format::log_item::MapExtent;
use xfs_format::{Corruption, InodeNumber, Structure, StructureAddress};
use xfs_trans::{Deferred, Finish, IntentPayload, Journal, Transaction};

use super::LiveInode;
use crate::{BlockRange, Mapping};

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
/// The flag of an intent whose blocks are in the realtime section, as newer kernels set it.
const REALTIME: u32 = 1 << 29;
/// All flags of an intent, and the bits of its kind.
const KNOWN: u32 = KIND_MASK | ATTR_FORK | UNWRITTEN | REALTIME;

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
    /// Whether the blocks are in the realtime section.
    is_realtime: bool,
}

impl MapWork {
    /// Creates the work of mapping `extent`. The extent's range of the file must be a hole by the
    /// time the work is done.
    pub(super) fn map(live: &Arc<LiveInode>, fork: ForkKind, extent: &Extent) -> Self {
        Self::new(live, fork, extent, true)
    }

    /// Creates the work of unmapping `extent`. The blocks of the extent stay allocated.
    pub(super) fn unmap(live: &Arc<LiveInode>, fork: ForkKind, extent: &Extent) -> Self {
        Self::new(live, fork, extent, false)
    }

    fn new(live: &Arc<LiveInode>, fork: ForkKind, extent: &Extent, is_map: bool) -> Self {
        let is_realtime = fork == ForkKind::Data && live.inode().core().is_realtime();
        let file = MappedFile::Live(Arc::clone(live));
        Self { file, fork, extent: *extent, is_map, is_realtime }
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
        if self.is_realtime {
            flags |= REALTIME;
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
        let Self { file, fork, extent, is_map, .. } = *self;
        let is_logged = matches!(file, MappedFile::Number(_));
        let live = file.load(tx.journal())?;
        tx.join(live.log_item());
        live.load_map(tx.cache(), fork)?;
        if is_logged {
            check_logged(&live, tx, fork, &extent, is_map)?;
        }
        if is_map {
            live.put_extent(tx, fork, &extent)?;
        } else {
            live.take_extent(tx, fork, &extent)?;
        }
        Ok(Finish::Done)
    }
}

/// Checks a change that comes from the log. The extent must obey the rules of the fork. If it is to
/// be mapped, its range of the file must be a hole. If it is to be unmapped, the file must map
/// exactly this extent, or a longer one that contains it.
fn check_logged(
    live: &LiveInode,
    tx: &Transaction<'_>,
    fork: ForkKind,
    extent: &Extent,
    is_map: bool,
) -> Result<()> {
    let inode = live.inode();
    extent
        .verify(&ExtentRules::of(inode.core(), fork, tx.geometry()))
        .map_err(|check| corrupt(live.number(), check))?;
    let agrees = match inode.find(tx.cache(), fork, extent.file_block)? {
        Mapping::Hole { end, .. } => is_map && extent.end() <= end,
        Mapping::Extent(held) => !is_map && BlockRange::of(extent).cut(&held) == Some(*extent),
    };
    let check = ExtentCheck::NotMapped { file_block: extent.file_block };
    if agrees { Ok(()) } else { Err(corrupt(live.number(), check).into()) }
}

fn corrupt(inode: InodeNumber, check: ExtentCheck) -> Corruption {
    Corruption::new(Structure::Extent, StructureAddress::Inode(inode), check)
}

/// Returns the work of an open mapping intent (BUI) in the log.
///
/// # Errors
///
/// Returns an error if the kind or a flag of the intent is unknown, or if the extent has a number
/// that no extent can have.
pub(super) fn resume_map(intent: &MapExtent) -> Result<Box<dyn Deferred>> {
    let MapExtent { inode, start, offset: file_block, length_blocks, flags } = *intent;
    let extent = Extent { file_block, start, length_blocks, unwritten: flags & UNWRITTEN != 0 };
    let fork = if flags & ATTR_FORK != 0 { ForkKind::Attr } else { ForkKind::Data };
    let is_known = flags & !KNOWN == 0 && extent.encode().is_some();
    let is_map = match flags & KIND_MASK {
        MAP if is_known => true,
        UNMAP if is_known => false,
        _ => return Err(corrupt(inode, ExtentCheck::NotMapped { file_block }).into()),
    };
    let (file, is_realtime) = (MappedFile::Number(inode), flags & REALTIME != 0);
    Ok(Box::new(MapWork { file, fork, extent, is_map, is_realtime }))
}
