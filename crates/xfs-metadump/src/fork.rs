//! Writes the metadata blocks of forks: extent btrees, directories, attributes, link targets and
//! quota records.
//!
//! Owns: the choice of a fork's blocks, and their order. Does **not** own: how a block is cleaned.

use std::ops::Range;

use xfs_format::btree::BtreeKind;
use xfs_format::extent::{Extent, ExtentRoot};
use xfs_format::inode::{self, CORE_BYTES, FileType, ForkFormat, ForkKind, InodeCore, InodeFlags2};
use xfs_format::{DiskAddr, FsBlock, Geometry, IncompatFeatures, Superblock};

use crate::btree::{Tree, TreeOwner, TreePointer};
use crate::dump::{Dump, DumpError, DumpLocation};
use crate::inode::OpenInode;
use crate::{attributes, directory, quota, symlink};

/// Length of an extent record, in bytes.
const EXTENT_BYTES: usize = 16;

/// The contents of a fork's blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ForkContents {
    /// File contents, which are left out.
    File,
    /// Blocks of a directory.
    Directory,
    /// Blocks of attributes.
    Attributes,
    /// Blocks of a link's target.
    Symlink,
    /// Records of quota.
    Quota,
    /// The bitmap or the summary of the realtime device: numbers without names.
    Realtime,
}

impl Dump<'_> {
    /// Writes the blocks of a fork: the btree of its extents, and the contents if they are
    /// metadata.
    pub(crate) fn dump_fork(&mut self, inode: &OpenInode, kind: ForkKind) -> Result<(), DumpError> {
        let core = &inode.core;
        let fork = inode::fork_after(CORE_BYTES, &inode.bytes, core, kind);
        let contents = self.contents_of(core, kind);
        let mut extents = Vec::new();
        let mut keep = |record: &[u8]| {
            if contents != ForkContents::File {
                extents.extend(Extent::decode_bytes(record));
            }
        };
        match core.fork_format(kind) {
            Some(ForkFormat::Extents) => {
                let count = usize::try_from(core.fork_extents(kind)).unwrap_or(usize::MAX);
                fork.chunks_exact(EXTENT_BYTES).take(count).for_each(&mut keep);
            }
            Some(ForkFormat::Btree) => {
                let spot = DumpLocation { byte: None, inode: Some(core.number) };
                let Ok(root) = ExtentRoot::decode(fork) else {
                    self.note(spot, "the root of the extent btree is damaged");
                    return Ok(());
                };
                let level = u32::from(root.level()) - 1;
                let pointers =
                    root.iter().map(|(_, block)| TreePointer { block: block.0, level }).collect();
                let owner = TreeOwner::Fork(core.number);
                let tree = Tree { owner, kind: BtreeKind::Extent };
                self.walk_tree(&tree, pointers, &mut keep)?;
            }
            _ => return Ok(()),
        }
        extents.sort_by_key(|extent| extent.file_block);
        extents.retain(|extent| self.is_usable(core, extent));
        match contents {
            ForkContents::File => Ok(()),
            ForkContents::Directory => self.dump_directory(core, &extents),
            ForkContents::Attributes => self.dump_attributes(core, &extents),
            ForkContents::Symlink => self.dump_symlink(core, &extents),
            ForkContents::Quota => self.dump_quota(core, &extents),
            ForkContents::Realtime => extents.iter().try_for_each(|extent| {
                let range =
                    bytes_of(&self.superblock.geometry, extent.start, extent_length(extent));
                self.copy(range, Some(core.number))
            }),
        }
    }

    fn contents_of(&mut self, core: &InodeCore, kind: ForkKind) -> ForkContents {
        match (kind, core.file_type()) {
            (ForkKind::Attr, _) => ForkContents::Attributes,
            _ if core.is_realtime() => ForkContents::File,
            (_, Some(FileType::Directory)) => ForkContents::Directory,
            (_, Some(FileType::Symlink)) => ForkContents::Symlink,
            (_, Some(FileType::Regular)) => self.contents_of_regular(core),
            _ => ForkContents::File,
        }
    }

    /// Returns the kind of contents of a regular file. The superblock and the inode may be damaged
    /// and wrongly name a user's file as metadata. So quota records are recognised one by one, and
    /// a realtime file must have the right size.
    fn contents_of_regular(&mut self, core: &InodeCore) -> ForkContents {
        let superblock = self.superblock;
        let is_quota = superblock.quota_inodes.contains(&Some(core.number))
            || superblock.has_incompat(IncompatFeatures::METADIR)
                && core.flags2.contains(InodeFlags2::METADATA);
        if is_quota {
            return ForkContents::Quota;
        }
        let [bitmap, summary] = realtime_bytes(superblock);
        let size = match core.number {
            number if number == superblock.realtime_bitmap_inode => bitmap,
            number if number == superblock.realtime_summary_inode => summary,
            _ => return ForkContents::File,
        };
        if size == Some(core.size) {
            return ForkContents::Realtime;
        }
        if core.size > 0 {
            let spot = DumpLocation { byte: None, inode: Some(core.number) };
            let found = format!(
                "the superblock names the file for the realtime device, but {} ",
                core.size
            );
            self.note(spot, found + "bytes are not its size, and the contents were left out");
        }
        ForkContents::File
    }

    /// Returns whether all blocks of the extent exist and the extent is not too long for metadata.
    fn is_usable(&mut self, core: &InodeCore, extent: &Extent) -> bool {
        let spot = DumpLocation { byte: None, inode: Some(core.number) };
        let length = extent_length(extent);
        let first = extent.start.0;
        if !self.superblock.geometry.contains_extent(extent.start, length) {
            self.note(spot, format!("{length} blocks from block {first} on do not exist"));
            return false;
        }
        if length > u64::from(self.options.max_extent_blocks) {
            let reason = format!("an extent of {length} blocks from block {first} on is too long");
            self.note(spot, reason + " for metadata and was left out");
            return false;
        }
        true
    }

    /// Writes the blocks of a directory. A directory block can consist of several filesystem
    /// blocks, which need not be adjacent on disk.
    fn dump_directory(&mut self, core: &InodeCore, extents: &[Extent]) -> Result<(), DumpError> {
        let geometry = self.superblock.geometry.clone();
        let log = geometry.directory_block_log;
        let (mut current, mut pieces) = (None, Vec::new());
        for extent in extents {
            for index in 0..extent_length(extent) {
                let block = Some((extent.file_block.0 + index) >> log);
                if block != current {
                    self.dump_directory_block(core, std::mem::take(&mut pieces))?;
                    current = block;
                }
                pieces.push(bytes_of(&geometry, FsBlock(extent.start.0 + index), 1));
            }
        }
        self.dump_directory_block(core, pieces)
    }

    fn dump_directory_block(
        &mut self,
        core: &InodeCore,
        pieces: Vec<Range<u64>>,
    ) -> Result<(), DumpError> {
        self.check_stopped()?;
        let Some(first) = pieces.first() else { return Ok(()) };
        let spot = DumpLocation { byte: Some(first.start), inode: Some(core.number) };
        if pieces.iter().any(|piece| self.sink.has(piece)) {
            self.note(spot, "a block of the directory belongs to another structure too");
            return Ok(());
        }
        let (mut bytes, mut read) = (Vec::new(), Vec::new());
        for piece in &pieces {
            if let Some(part) = self.read(piece.clone(), spot)? {
                bytes.extend(part);
                read.push(piece.clone());
            }
        }
        let cleaning = self.cleaning().of_directory(core);
        let size = self.superblock.geometry.directory_block_size();
        let is_whole = usize::try_from(size) == Ok(bytes.len());
        let cleaned = match is_whole {
            true => directory::clean_block(&mut bytes, cleaning),
            false => cleaning.unknown(&mut bytes),
        };
        self.note_cleaned(cleaned, spot);
        let mut rest: &[u8] = &bytes;
        for piece in read {
            let length = usize::try_from(piece.end - piece.start).expect("a block was read whole");
            let (part, after) = rest.split_at(length);
            self.add(piece.start, part)?;
            rest = after;
        }
        Ok(())
    }

    fn dump_attributes(&mut self, core: &InodeCore, extents: &[Extent]) -> Result<(), DumpError> {
        let geometry = self.superblock.geometry.clone();
        for extent in extents {
            for index in 0..extent_length(extent) {
                self.check_stopped()?;
                let range = bytes_of(&geometry, FsBlock(extent.start.0 + index), 1);
                let spot = DumpLocation { byte: Some(range.start), inode: Some(core.number) };
                if self.sink.has(&range) {
                    self.note(spot, "a block of attributes belongs to another structure too");
                    continue;
                }
                let Some(mut bytes) = self.read(range.clone(), spot)? else { continue };
                let cleaned = attributes::clean_block(&mut bytes, self.cleaning());
                self.note_cleaned(cleaned, spot);
                self.add(range.start, &bytes)?;
            }
        }
        Ok(())
    }

    /// Writes the quota records of a file. All bytes that are not quota records of this volume
    /// become zeros.
    fn dump_quota(&mut self, core: &InodeCore, extents: &[Extent]) -> Result<(), DumpError> {
        let geometry = self.superblock.geometry.clone();
        for extent in extents {
            for index in 0..extent_length(extent) {
                let range = bytes_of(&geometry, FsBlock(extent.start.0 + index), 1);
                let spot = DumpLocation { byte: Some(range.start), inode: Some(core.number) };
                if self.sink.has(&range) {
                    self.note(spot, "a block of quota belongs to another structure too");
                    continue;
                }
                let Some(mut bytes) = self.read(range.clone(), spot)? else { continue };
                if !quota::keep_records(&mut bytes, geometry.meta_uuid.as_bytes()) {
                    self.note(spot, "bytes that are not quota records were left out");
                }
                self.add(range.start, &bytes)?;
            }
        }
        Ok(())
    }

    fn dump_symlink(&mut self, core: &InodeCore, extents: &[Extent]) -> Result<(), DumpError> {
        let geometry = self.superblock.geometry.clone();
        let (mut starts, mut buffers) = (Vec::new(), Vec::new());
        // The longest target fits two blocks.
        let mut spot = DumpLocation { byte: None, inode: Some(core.number) };
        for extent in extents.iter().take(MOST_LINK_EXTENTS) {
            let length = extent_length(extent).min(MOST_LINK_EXTENTS as u64);
            let range = bytes_of(&geometry, extent.start, length);
            spot.byte = Some(range.start);
            if self.sink.has(&range) {
                self.note(spot, "a block of the link belongs to another structure too");
                return Ok(());
            }
            let Some(bytes) = self.read(range.clone(), spot)? else { return Ok(()) };
            starts.push(range.start);
            buffers.push(bytes);
        }
        let cleaned = symlink::clean_buffers(&mut buffers, self.cleaning());
        self.note_cleaned(cleaned, spot);
        starts.into_iter().zip(buffers).try_for_each(|(start, bytes)| self.add(start, &bytes))
    }
}

/// The greatest number of blocks that hold a symbolic link's target, and so also the greatest
/// number of their extents. A target has at most 1024 bytes, and each block also has a header.
const MOST_LINK_EXTENTS: usize = 3;

/// Returns the sizes of bitmap and summary of the realtime device, in bytes. `None` if the volume
/// has no such device.
fn realtime_bytes(superblock: &Superblock) -> [Option<u64>; 2] {
    let extents = superblock.realtime_extents;
    let block = u64::from(superblock.geometry.block_size);
    let Some(log) = extents.checked_ilog2().filter(|_| superblock.has_realtime()) else {
        return [None; 2];
    };
    let bitmap_blocks = extents.div_ceil(8).div_ceil(block);
    // The summary has a counter of four bytes for each power of 2 and each block of the bitmap.
    let counters = bitmap_blocks.checked_mul(u64::from(log) + 1);
    let summary = counters.and_then(|count| count.checked_mul(4)?.checked_next_multiple_of(block));
    [bitmap_blocks.checked_mul(block), summary]
}

fn extent_length(extent: &Extent) -> u64 {
    extent.length_blocks.into()
}

/// Returns the byte range on the device of `count` blocks from `start` on, which must exist.
fn bytes_of(geometry: &Geometry, start: FsBlock, count: u64) -> Range<u64> {
    let at = geometry.block_disk_addr(start).and_then(DiskAddr::byte_offset);
    let at = at.expect("the extent was checked");
    at..at + count * u64::from(geometry.block_size)
}
