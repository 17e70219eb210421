//! Promised changes of a file's map.
//!
//! Owns: mapping or unmapping one extent as deferred work with an intent, and taking that up after
//! a crash. Does **not** own: the blocks, whose counts change by promises of their own in between.
//!
//! Where a file takes over blocks that others own, the map of it changes twice and reference counts
//! change, too much for one step. Each is promised in the first one.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::extent::Extent;
use xfs_format::inode::ForkKind;
use xfs_format::log_item::MapExtent;
use xfs_format::{Corruption, Place, Structure, extent::ExtentCheck};
use xfs_trans::{Deferred, Finish, Journal, Promise, Transaction};

use super::Live;

/// What is done, in the low byte of the flags.
const MAP: u32 = 1;
const UNMAP: u32 = 2;
const KIND_MASK: u32 = 0xff;
/// Which fork, and whether the extent is unwritten.
const ATTR_FORK: u32 = 1 << 31;
const UNWRITTEN: u32 = 1 << 30;

/// One extent that will be mapped or unmapped.
#[doc(alias = "xfs_bmap_intent")]
pub(super) struct MapWork {
    live: Arc<Live>,
    fork: ForkKind,
    extent: Extent,
    is_map: bool,
}

impl MapWork {
    /// Mapping `extent`, whose place is a hole by then.
    pub(super) fn map(live: &Arc<Live>, fork: ForkKind, extent: &Extent) -> Self {
        Self { live: Arc::clone(live), fork, extent: *extent, is_map: true }
    }

    /// Unmapping `extent`. Its blocks stay.
    pub(super) fn unmap(live: &Arc<Live>, fork: ForkKind, extent: &Extent) -> Self {
        Self { live: Arc::clone(live), fork, extent: *extent, is_map: false }
    }
}

/// Defers the work.
pub(super) fn defer_map_work(tx: &mut Transaction<'_>, work: MapWork) {
    tx.defer(Box::new(work));
}

impl Deferred for MapWork {
    fn promise(&self) -> Option<Promise> {
        let mut flags = if self.is_map { MAP } else { UNMAP };
        if self.fork == ForkKind::Attr {
            flags |= ATTR_FORK;
        }
        if self.extent.unwritten {
            flags |= UNWRITTEN;
        }
        Some(Promise::Map(MapExtent {
            inode: self.live.number(),
            start: self.extent.start,
            offset: self.extent.file_block,
            length_blocks: self.extent.length_blocks,
            flags,
        }))
    }

    fn finish(self: Box<Self>, tx: &mut Transaction<'_>) -> Result<Finish> {
        tx.join(self.live.record());
        self.live.load_map(tx.cache(), self.fork)?;
        if self.is_map {
            self.live.put_extent(tx, self.fork, &self.extent)?;
        } else {
            self.live.take_extent(tx, self.fork, &self.extent)?;
        }
        Ok(Finish::Done)
    }
}

/// The work that an intent of the log promised (a BUI).
///
/// # Errors
///
/// An intent that promises nothing known; what loading the inode fails with.
pub(crate) fn resume_map(journal: &Arc<Journal>, intent: &MapExtent) -> Result<Box<dyn Deferred>> {
    let MapExtent { inode, start, offset: file_block, length_blocks, flags } = *intent;
    let extent = Extent { file_block, start, length_blocks, unwritten: flags & UNWRITTEN != 0 };
    let fork = if flags & ATTR_FORK != 0 { ForkKind::Attr } else { ForkKind::Data };
    let is_map = match flags & KIND_MASK {
        MAP => true,
        UNMAP => false,
        _ => {
            let check = ExtentCheck::NotMapped { file_block };
            return Err(Corruption::new(Structure::Extent, Place::Inode(inode), check).into());
        }
    };
    let live = Arc::new(Live::load(journal, inode)?);
    Ok(Box::new(MapWork { live, fork, extent, is_map }))
}
