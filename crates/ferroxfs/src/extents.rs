//! Listing the extents of a file: where its contents are on the device.
//!
//! An extent is cut where sharing begins or ends, as FIEMAP does. So an extent is either shared as
//! a whole or not shared at all.

use xfs_alloc::SharingRun;
use xfs_format::extent::Extent;
use xfs_format::inode::{ForkKind, InodeFlags2};
use xfs_format::{FileBlock, FsBlock, Geometry, RoCompatFeatures};

use crate::Result;
use crate::node::Node;

/// A part of a file whose blocks are contiguous, in the file and on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileExtent {
    /// Start of the extent in the file, in bytes.
    pub offset_bytes: u64,
    /// Length of the extent in bytes.
    pub length_bytes: u64,
    /// Start of the extent on its device, in bytes: the data device, or the realtime device.
    pub device_offset_bytes: u64,
    /// First block of the extent on the volume.
    pub block: FsBlock,
    /// Whether the extent is allocated but not written. An unwritten extent reads as zeros.
    pub unwritten: bool,
    /// Whether other files, or other parts of the same file, use the same blocks.
    pub shared: bool,
    /// Whether the extent is in the realtime section. The section lies on the realtime device, or
    /// on the data device if it is internal.
    pub realtime: bool,
}

/// The extents of one fork in the order of their offsets; holes are left out.
pub struct FileExtents<'a> {
    node: &'a Node,
    may_share: bool,
    is_realtime: bool,
    extents: ListedExtents<'a>,
    /// The rest of an extent that was cut where sharing begins or ends. The rest is returned next.
    rest: Option<Extent>,
    failed: bool,
}

/// The source from which the extents are read.
enum ListedExtents<'a> {
    /// The extents are read from the inode itself. The inode does not change, because the volume is
    /// open for reading.
    Still(xfs_inode::ForkExtents<'a>),
    /// The extents are read from a copy, made at the start because the file may change.
    Taken(std::vec::IntoIter<Result<Extent>>),
}

impl Iterator for ListedExtents<'_> {
    type Item = Result<Extent>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Still(extents) => extents.next(),
            Self::Taken(extents) => extents.next(),
        }
    }
}

impl Node {
    /// Returns the extents of the data fork or of the attribute fork. Holes are left out.
    #[must_use]
    pub fn extents(&self, fork: ForkKind) -> FileExtents<'_> {
        FileExtents::new(self, fork)
    }
}

impl<'a> FileExtents<'a> {
    pub(crate) fn new(node: &'a Node, fork: ForkKind) -> Self {
        let reflinked = node.view().core().flags2.contains(InodeFlags2::REFLINK);
        let is_realtime = fork == ForkKind::Data && node.view().core().is_realtime();
        let counted = node.cache().geometry().has_ro_compat(RoCompatFeatures::REFLINK);
        let may_share = fork == ForkKind::Data && reflinked && counted;
        let extents = match node.still_inode() {
            Some(inode) => ListedExtents::Still(inode.extents(node.cache(), fork)),
            None => {
                if let Ok((mount, entry)) = node.writable() {
                    // The next sync of the file returns the error.
                    let _ = mount.contents(entry).write_back();
                    mount.note_map_read();
                }
                let extents: Vec<_> = node.view().extents(node.cache(), fork).collect();
                ListedExtents::Taken(extents.into_iter())
            }
        };
        Self { node, may_share, is_realtime, extents, rest: None, failed: false }
    }

    /// Returns the longest part at the start of `extent` that is shared as a whole or not at all,
    /// and keeps the rest of `extent` for the next call.
    fn cut(&mut self, extent: Extent) -> Result<FileExtent> {
        let cache = self.node.cache();
        let SharingRun { shared, length_blocks } = if self.may_share && !self.is_realtime {
            xfs_alloc::sharing_run(cache, extent.start, extent.length_blocks)?
        } else {
            SharingRun { shared: false, length_blocks: extent.length_blocks }
        };
        let rest_blocks = extent.length_blocks.saturating_sub(length_blocks);
        self.rest = (rest_blocks > 0).then(|| Extent {
            file_block: FileBlock(extent.file_block.0 + u64::from(length_blocks)),
            start: FsBlock(extent.start.0 + u64::from(length_blocks)),
            length_blocks: rest_blocks,
            unwritten: extent.unwritten,
        });
        let extent = Extent { length_blocks, ..extent };
        Ok(FileExtent { shared, ..describe(cache.geometry(), &extent, self.is_realtime) })
    }
}

fn describe(geometry: &Geometry, extent: &Extent, realtime: bool) -> FileExtent {
    let address = xfs_inode::extent_address(geometry, extent.start, realtime);
    FileExtent {
        offset_bytes: extent.file_block.0 << geometry.block_log,
        length_bytes: u64::from(extent.length_blocks) << geometry.block_log,
        device_offset_bytes: address.unwrap_or(u64::MAX),
        block: extent.start,
        unwritten: extent.unwritten,
        shared: false,
        realtime,
    }
}

impl Iterator for FileExtents<'_> {
    type Item = Result<FileExtent>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let extent = match self.rest.take() {
            Some(rest) => Ok(rest),
            None => self.extents.next()?,
        };
        let item = extent.and_then(|extent| self.cut(extent));
        self.failed = item.is_err();
        Some(item)
    }
}
