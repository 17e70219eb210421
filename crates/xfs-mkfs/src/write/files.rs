//! Writes the blocks of the first files: bitmaps and summaries of the realtime section, and the
//! directory of realtime groups; and the realtime superblock.
//!
//! Owns: the bytes of these blocks. Does **not** own: their places ([`crate::VolumeLayout`]).
//!
//! ```text
//! bitmap    one bit for each realtime extent, in words of 32 bits; 1 means free
//! summary   counter[level][block] of the free runs of 2^level .. extents that start in a block of
//!           the bitmap
//! ```
//!
//! Blocks of groups start with a header, and have big-endian words. A section without groups has
//! neither header nor checksum, and words in the byte order of its machine. ferroxfs writes
//! little-endian words there, whatever the machine, so that a plan decides every byte.

use std::io;

use xfs_device::{BlockDevice, Durability};
use xfs_format::directory::data::{
    BLOCK_MAGIC, BestFreeDisk, BlockTailDisk, DATA_HEADER, DataHeaderDisk, FREE_TAG, entry_length,
};
use xfs_format::directory::{Entry, HashEntryDisk, name_hash};
use xfs_format::realtime::{RealtimeBlockKind, RealtimeSuperblock};
use xfs_format::{BlockKind, DiskAddr, Geometry, InodeNumber};
use zerocopy::{FromZeros, IntoBytes};

use super::bytes::LSN;
use super::inodes::Chunk;
use super::{byte_offset, invalid};
use crate::layout::PlacedFile;
use crate::metadata::RealtimeFileKind;
use crate::plan::{FILE_HEADER_BYTES, Plan};

/// The number of blocks of a file that are encoded at once.
const BATCH_BLOCKS: u32 = 256;
const WORD_BITS: u64 = 32;
const WORD_BYTES: usize = 4;

/// A bitmap or a summary.
#[derive(Clone, Copy)]
struct RealtimeFileForm {
    kind: RealtimeBlockKind,
    owner: InodeNumber,
    /// Whether blocks have a header, and words are big-endian.
    is_of_group: bool,
    /// The first free extent, and the extent after the last free one.
    free: (u64, u64),
    /// The number of blocks of the bitmap.
    bitmap_blocks: u64,
}

/// A block of the bitmap or the summary of a realtime group whose extents are all free.
#[derive(Clone, Copy, Debug)]
pub struct EmptyGroupBlock {
    /// The kind of the file: [`RealtimeBlockKind::Bitmap`] or [`RealtimeBlockKind::Summary`].
    pub kind: RealtimeBlockKind,
    /// The inode of the file.
    pub owner: InodeNumber,
    /// Number of extents of the group.
    pub extents: u64,
    /// Number of blocks of the bitmap.
    pub bitmap_blocks: u64,
    /// The number of the block in its file.
    pub index: u64,
    /// The address of the block.
    pub at: DiskAddr,
}

impl EmptyGroupBlock {
    /// Encodes the block into `block`, a filesystem block of zeros.
    pub fn encode(&self, geometry: &Geometry, block: &mut [u8]) {
        let Self { kind, owner, extents, bitmap_blocks, index, at } = *self;
        let free = (0, extents);
        let form = RealtimeFileForm { kind, owner, is_of_group: true, free, bitmap_blocks };
        form.encode(index, at, geometry, block);
    }
}

/// Writes the blocks of all first files of a chunk.
pub(super) fn write(chunk: &Chunk<'_>, device: &dyn BlockDevice) -> io::Result<()> {
    let geometry = &chunk.plan.superblock.geometry;
    for file in &chunk.group.files {
        let at = geometry.ag_block_disk_addr(chunk.first.group, file.start);
        match form(chunk, file.slot) {
            Some(form) => write_realtime_file(geometry, &form, file, at, device)?,
            None => {
                let block = directory_block(chunk, file.slot, at);
                let block = block.ok_or(invalid("the plan has no such directory"))?;
                device.write_at(&block, byte_offset(at.0), Durability::Cached)?;
            }
        }
    }
    Ok(())
}

/// Writes the superblock of the realtime device.
pub(super) fn write_realtime_superblock(plan: &Plan, device: &dyn BlockDevice) -> io::Result<()> {
    let mut block = vec![0; plan.superblock.geometry.block_size as usize];
    RealtimeSuperblock::of(&plan.superblock).encode(&mut block);
    device.write_at(&block, 0, Durability::Cached)
}

/// Returns the form of the bitmap or summary with this slot. `None` for the directory.
fn form(chunk: &Chunk<'_>, slot: u32) -> Option<RealtimeFileForm> {
    let plan = chunk.plan;
    let (kind, group) = match &plan.groups_directory {
        // A volume without metadata directory has its bitmap in slot 1.
        None if slot == 1 => (RealtimeFileKind::Bitmap, 0),
        None => (RealtimeFileKind::Summary, 0),
        Some(directory) => {
            let index = slot.checked_sub(directory.slot + 1)?;
            let file = directory.files.get(index as usize)?;
            (file.kind, file.group)
        }
    };
    let kind = match kind {
        RealtimeFileKind::Bitmap => RealtimeBlockKind::Bitmap,
        RealtimeFileKind::Summary => RealtimeBlockKind::Summary,
        RealtimeFileKind::ReverseMap | RealtimeFileKind::Refcount => return None,
    };
    let is_of_group = plan.groups_directory.is_some();
    // The first extent of the first group holds the realtime superblock.
    let first = u64::from(is_of_group && group == 0);
    Some(RealtimeFileForm {
        kind,
        owner: chunk.number(slot),
        is_of_group,
        free: (first, plan.realtime.extents_of(group)),
        bitmap_blocks: plan.realtime.bitmap_blocks.into(),
    })
}

fn write_realtime_file(
    geometry: &Geometry,
    form: &RealtimeFileForm,
    file: &PlacedFile,
    at: DiskAddr,
    device: &dyn BlockDevice,
) -> io::Result<()> {
    let block_bytes = geometry.block_size as usize;
    for batch in (0..file.blocks).step_by(BATCH_BLOCKS as usize) {
        let count = BATCH_BLOCKS.min(file.blocks - batch);
        let mut bytes = vec![0; count as usize * block_bytes];
        for (index, block) in (batch..).zip(bytes.chunks_exact_mut(block_bytes)) {
            let address = DiskAddr(at.0 + (u64::from(index) << geometry.block_log) / 512);
            form.encode(u64::from(index), address, geometry, block);
        }
        let offset = byte_offset(at.0) + (u64::from(batch) << geometry.block_log);
        device.write_at(&bytes, offset, Durability::Cached)?;
    }
    Ok(())
}

impl RealtimeFileForm {
    /// Encodes the block with this index in the file.
    fn encode(&self, index: u64, address: DiskAddr, geometry: &Geometry, block: &mut [u8]) {
        let header = if self.is_of_group { FILE_HEADER_BYTES as usize } else { 0 };
        let (head, contents) = block.split_at_mut(header);
        let (words, _) = contents.as_chunks_mut::<WORD_BYTES>();
        let first = index * words.len() as u64;
        for (number, bytes) in (first..).zip(words) {
            let word = match self.kind {
                RealtimeBlockKind::Bitmap => self.bitmap_word(number),
                _ => self.counter(number),
            };
            let word = if self.is_of_group { word } else { word.swap_bytes() };
            *bytes = word.to_be_bytes();
        }
        if self.is_of_group {
            put(head, 0, &self.kind.magic().to_be_bytes());
            put(head, 8, &self.owner.0.to_be_bytes());
            put(head, 16, &address.0.to_be_bytes());
            put(head, 32, &geometry.meta_uuid.into_bytes());
            self.kind.seal(block, LSN);
        }
    }

    /// Returns the word of the bitmap with this number: the bits of the 32 extents from `number`
    /// times 32 on.
    fn bitmap_word(&self, number: u64) -> u32 {
        let (first, end) = self.free;
        let base = number * WORD_BITS;
        let below = |limit: u64| match limit.saturating_sub(base) {
            bits if bits >= WORD_BITS => u32::MAX,
            bits => (1_u32 << bits) - 1,
        };
        below(end) & !below(first)
    }

    /// Returns the counter with this number. All free extents are one run, which starts in the
    /// first block of the bitmap.
    fn counter(&self, number: u64) -> u32 {
        let (first, end) = self.free;
        let level = end.saturating_sub(first).checked_ilog2();
        let counted = level.map(|level| u64::from(level) * self.bitmap_blocks);
        u32::from(counted == Some(number))
    }
}

/// Encodes the only block of the directory `rtgroups`, which has this slot. `None` if the volume
/// has no such directory.
fn directory_block(chunk: &Chunk<'_>, slot: u32, at: DiskAddr) -> Option<Vec<u8>> {
    let directory = chunk.plan.groups_directory.as_ref().filter(|found| found.slot == slot)?;
    let geometry = &chunk.plan.superblock.geometry;
    let owner = chunk.number(slot);
    let parent = InodeNumber(chunk.plan.superblock.root_inode.0 + 1);
    let entries = chunk.entries(directory);
    let mut block = vec![0; geometry.directory_block_size() as usize];
    let mut hashes = Vec::new();
    let mut end = DATA_HEADER;
    let dots = [(b".".as_slice(), owner), (b"..", parent)];
    let dots = dots.map(|(name, inode)| (name, inode, xfs_format::directory::EntryType::Directory));
    let named = entries.iter().map(|entry: &Entry<'_>| (entry.name, entry.inode, entry.entry_type));
    for (name, inode, entry_type) in dots.into_iter().chain(named) {
        hashes.push((name_hash(name), end));
        put(&mut block, end, &inode.0.to_be_bytes());
        put(&mut block, end + 8, &[name.len() as u8]);
        put(&mut block, end + 9, name);
        put(&mut block, end + 9 + name.len(), &[entry_type.to_disk()]);
        let next = end + entry_length(name.len());
        put(&mut block, next - 2, &(end as u16).to_be_bytes());
        end = next;
    }
    put_index(&mut block, end, hashes);
    let index_bytes = (entries.len() + 2) * size_of::<HashEntryDisk>();
    let tail = size_of::<BlockTailDisk>();
    let free_bytes = block.len() - tail - index_bytes - end;
    let mut header = DataHeaderDisk {
        magic: BLOCK_MAGIC.into(),
        block: at.0.into(),
        uuid: geometry.meta_uuid.into_bytes(),
        owner: owner.0.into(),
        ..DataHeaderDisk::new_zeroed()
    };
    let [longest, ..] = &mut header.best_free;
    *longest = BestFreeDisk { offset: (end as u16).into(), length: (free_bytes as u16).into() };
    put(&mut block, 0, header.as_bytes());
    BlockKind::DirectoryData.seal(&mut block, LSN);
    Some(block)
}

/// Writes the free record after the entries, which end at `end`, and the index with its tail.
fn put_index(block: &mut [u8], end: usize, mut hashes: Vec<(u32, usize)>) {
    hashes.sort_unstable();
    let tail_at = block.len() - size_of::<BlockTailDisk>();
    let index_at = tail_at - hashes.len() * size_of::<HashEntryDisk>();
    put(block, end, &FREE_TAG.to_be_bytes());
    put(block, end + 2, &((index_at - end) as u16).to_be_bytes());
    put(block, index_at - 2, &(end as u16).to_be_bytes());
    for (position, (hash, offset)) in hashes.iter().enumerate() {
        let entry = HashEntryDisk { hash: (*hash).into(), cookie: ((offset >> 3) as u32).into() };
        put(block, index_at + position * size_of::<HashEntryDisk>(), entry.as_bytes());
    }
    let tail = BlockTailDisk { count: (hashes.len() as u32).into(), stale: 0.into() };
    put(block, tail_at, tail.as_bytes());
}

/// Copies bytes to this offset of the block.
fn put(block: &mut [u8], at: usize, bytes: &[u8]) {
    let place = block.get_mut(at..at + bytes.len());
    place.expect("the bytes lie inside the block").copy_from_slice(bytes);
}
