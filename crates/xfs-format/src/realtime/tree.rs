//! The btrees of a realtime group: the reverse map and the reference counts.
//!
//! Owns: the root in a metadata inode, the blocks outside of it, their records, and the checks of
//! one root or block. Does **not** own: checks across blocks, or changes.
//!
//! ```text
//! root    0 level  2 count  4 records, or keys and then pointers
//! block   the long header of a btree block (72 bytes), then the same
//! record  as in allocation groups; blocks are counted in the realtime group
//! key     low, and in the reverse map also high: 40 or 4 bytes
//! ```
//!
//! Unlike the root of a fork's extents, a root of level 0 holds records. A root has room for fewer
//! children than its bytes could hold in the btree of reference counts: each child counts as two
//! keys and a pointer there.

use zerocopy::FromBytes;
use zerocopy::big_endian::{U32, U64};

use super::RealtimeBlockKind;
use crate::addr::{AgBlock, AgNumber, DiskAddr, FileBlock, FsBlock};
use crate::btree::{BtreeCheck, BtreeFormat, LongHeaderDisk};
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::envelope;
use crate::extent::FILE_BLOCK_LIMIT;
use crate::geometry::Geometry;
use crate::group::Group;
use crate::refcount::{Refcount, RefcountCheck, RefcountDisk, RefcountDomain, Refcounts};
use crate::rmap::{ReverseMap, Rmap, RmapCheck, RmapDisk, RmapFlags, RmapOwner};
use crate::verify_context::VerifyContext;

/// Length in bytes of the header of a root in an inode.
const ROOT_HEADER_BYTES: usize = 4;
/// Length in bytes of the header of a block.
const BLOCK_HEADER_BYTES: usize = size_of::<LongHeaderDisk>();
const POINTER_BYTES: usize = size_of::<U64>();
/// Limit on the level of a root: more levels than any btree of a group has.
const LEVELS_LIMIT: u16 = 16;
/// The bit in the block number of a reference-count record that marks blocks reserved for
/// copy-on-write.
const STAGING_BIT: u32 = 1 << 31;

/// A realtime group, as the records of its btrees need it.
#[derive(Clone, Copy, Debug)]
pub struct RealtimeGroup<'a> {
    /// The geometry of the volume.
    pub geometry: &'a Geometry,
    /// The number of the group.
    pub number: u32,
    /// Whether the section begins with a superblock, which takes the first realtime extent.
    pub has_superblock: bool,
}

impl RealtimeGroup<'_> {
    /// Returns the number of blocks that the superblock of the realtime device takes from this
    /// group: a realtime extent of the first group, or none.
    #[must_use]
    pub const fn superblock_blocks(&self) -> u32 {
        if self.has_superblock && self.number == 0 {
            self.geometry.realtime_extent_blocks
        } else {
            0
        }
    }

    fn contains(&self, start: u32, count: u32) -> bool {
        let length = self.geometry.realtime.group_length(self.number);
        count != 0 && u64::from(start) + u64::from(count) <= length
    }
}

/// A kind of btree of a realtime group.
pub trait RealtimeTree {
    /// The btree of allocation groups whose records and keys have the same form.
    type Format: BtreeFormat;
    /// The kind of the blocks.
    const KIND: RealtimeBlockKind;
    /// Length of a record in bytes.
    const RECORD_BYTES: usize;
    /// Length in bytes of the keys of one child.
    const KEY_BYTES: usize;
    /// Whether a node also holds the highest key of each child.
    const HAS_HIGH_KEYS: bool;
    /// Length in bytes of the room that a root has for each child.
    const ROOT_CHILD_BYTES: usize;

    /// Decodes a record and checks it.
    ///
    /// # Errors
    ///
    /// Returns the check that failed.
    fn decode(
        bytes: &[u8],
        group: &RealtimeGroup<'_>,
    ) -> Result<<Self::Format as BtreeFormat>::Record, Check>;
}

/// The reverse map of a realtime group.
#[doc(alias = "rtrmapbt")]
#[derive(Clone, Copy, Debug)]
pub enum RealtimeReverseMapTree {}

impl RealtimeTree for RealtimeReverseMapTree {
    type Format = ReverseMap;
    const KIND: RealtimeBlockKind = RealtimeBlockKind::ReverseMap;
    const RECORD_BYTES: usize = size_of::<RmapDisk>();
    const KEY_BYTES: usize = 40;
    const HAS_HIGH_KEYS: bool = true;
    const ROOT_CHILD_BYTES: usize = Self::KEY_BYTES + POINTER_BYTES;

    fn decode(bytes: &[u8], group: &RealtimeGroup<'_>) -> Result<Rmap, Check> {
        let disk = RmapDisk::read_from_bytes(bytes)
            .map_err(|_| envelope::truncated(bytes, Self::RECORD_BYTES))?;
        let (start, count, word) = (disk.start.get(), disk.count.get(), disk.offset.get());
        let raw_owner = disk.owner.get();
        let any = Group::new(group.geometry, AgNumber(0));
        let owner = any.and_then(|any| RmapOwner::from_raw(raw_owner, &any));
        let Some(owner) = owner.filter(|owner| {
            matches!(owner, RmapOwner::Inode(_) | RmapOwner::Volume | RmapOwner::Staging)
        }) else {
            return Err(RmapCheck::Owner { start, owner: raw_owner }.into());
        };
        let offset = word & !RmapFlags::all().bits();
        let rmap = Rmap {
            start: AgBlock(start),
            count,
            owner,
            offset: FileBlock(offset),
            flags: RmapFlags::from_bits_truncate(word),
        };
        let fixed = group.superblock_blocks();
        let is_fixed = owner == RmapOwner::Volume;
        let is_placed = match is_fixed {
            true => fixed != 0 && (start, count) == (0, fixed),
            false => start >= fixed,
        };
        if !is_placed || !group.contains(start, count) {
            return Err(RmapCheck::Range { start, count }.into());
        }
        let is_valid = match owner {
            // Attributes and btree blocks of forks are on the data device.
            RmapOwner::Inode(_) => {
                !rmap.flags.intersects(RmapFlags::ATTR | RmapFlags::FORK_BTREE)
                    && offset + u64::from(count) <= FILE_BLOCK_LIMIT
            }
            _ => word == 0,
        };
        if is_valid { Ok(rmap) } else { Err(RmapCheck::Offset { start, offset: word }.into()) }
    }
}

/// The reference counts of a realtime group.
#[doc(alias = "rtrefcountbt")]
#[derive(Clone, Copy, Debug)]
pub enum RealtimeRefcountTree {}

impl RealtimeTree for RealtimeRefcountTree {
    type Format = Refcounts;
    const KIND: RealtimeBlockKind = RealtimeBlockKind::Refcount;
    const RECORD_BYTES: usize = size_of::<RefcountDisk>();
    const KEY_BYTES: usize = size_of::<U32>();
    const HAS_HIGH_KEYS: bool = false;
    const ROOT_CHILD_BYTES: usize = 2 * Self::KEY_BYTES + POINTER_BYTES;

    fn decode(bytes: &[u8], group: &RealtimeGroup<'_>) -> Result<Refcount, Check> {
        let disk = RefcountDisk::read_from_bytes(bytes)
            .map_err(|_| envelope::truncated(bytes, Self::RECORD_BYTES))?;
        let (raw, count, references) = (disk.start.get(), disk.count.get(), disk.references.get());
        let is_staging = raw & STAGING_BIT != 0;
        let start = raw & !STAGING_BIT;
        if start < group.superblock_blocks() || !group.contains(start, count) {
            return Err(RefcountCheck::Range { start: raw, count }.into());
        }
        match is_staging {
            false if references < 2 => Err(RefcountCheck::Shared { start, references }.into()),
            true if references != 1 => Err(RefcountCheck::Staging { start, references }.into()),
            _ => Ok(Refcount {
                domain: if is_staging { RefcountDomain::Staging } else { RefcountDomain::Shared },
                start: AgBlock(start),
                count,
                references,
            }),
        }
    }
}

/// The entries of a root or a block: records, or keys and pointers.
#[derive(Clone, Copy, Debug)]
pub struct RealtimeTreeEntries<'a> {
    level: u16,
    count: usize,
    key_bytes: usize,
    records: &'a [u8],
    record_bytes: usize,
    keys: &'a [u8],
    pointers: &'a [u8],
}

impl<'a> RealtimeTreeEntries<'a> {
    /// Decodes the root in `fork`, which must be the whole fork.
    ///
    /// # Errors
    ///
    /// Returns the check that failed: too few bytes, or an impossible level or count.
    pub fn of_root<T: RealtimeTree>(fork: &'a [u8]) -> Result<Self, Check> {
        let word = |offset: usize| fork.get(offset..).and_then(<[u8]>::first_chunk::<2>);
        let (Some(level), Some(count)) = (word(0), word(2)) else {
            return Err(envelope::truncated(fork, ROOT_HEADER_BYTES));
        };
        let (level, count) = (u16::from_be_bytes(*level), u16::from_be_bytes(*count));
        let body = fork.get(ROOT_HEADER_BYTES..).unwrap_or_default();
        Self::of::<T>(level, count.into(), body, T::ROOT_CHILD_BYTES)
    }

    /// Views the entries in `body`, after a header.
    fn of<T: RealtimeTree>(
        level: u16,
        count: usize,
        body: &'a [u8],
        child_bytes: usize,
    ) -> Result<Self, Check> {
        if level >= LEVELS_LIMIT {
            return Err(
                BtreeCheck::Level { level: level.into(), max: LEVELS_LIMIT as u32 - 1 }.into()
            );
        }
        let entry_bytes = if level == 0 { T::RECORD_BYTES } else { child_bytes };
        let max = body.len() / entry_bytes;
        if count > max {
            return Err(BtreeCheck::Count { count, max, level }.into());
        }
        if level > 0 && count == 0 {
            return Err(BtreeCheck::EmptyNode.into());
        }
        let part =
            |start: usize, length: usize| body.get(start..start + length).unwrap_or_default();
        let (records, keys, pointers) = match level {
            0 => (part(0, count * T::RECORD_BYTES), part(0, 0), part(0, 0)),
            _ => {
                let pointers = part(max * T::KEY_BYTES, count * POINTER_BYTES);
                (part(0, 0), part(0, count * T::KEY_BYTES), pointers)
            }
        };
        let (key_bytes, record_bytes) = (T::KEY_BYTES, T::RECORD_BYTES);
        Ok(Self { level, count, key_bytes, records, record_bytes, keys, pointers })
    }

    /// Returns the level. Leaves have level 0.
    #[must_use]
    pub const fn level(&self) -> u16 {
        self.level
    }

    /// Returns the number of records of a leaf, or of children of a node.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Returns the records of a leaf, in order. A node has none.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        self.records.chunks_exact(self.record_bytes)
    }

    /// Returns the keys and the block of each child of a node. The keys are the low key and, in the
    /// reverse map, the high key after it. A leaf has none.
    pub fn children(&self) -> impl ExactSizeIterator<Item = (&'a [u8], FsBlock)> + use<'a> {
        let pointers = self
            .pointers
            .chunks_exact(POINTER_BYTES)
            .map(|raw| FsBlock(raw.first_chunk().map_or(u64::MAX, |raw| u64::from_be_bytes(*raw))));
        self.keys.chunks_exact(self.key_bytes).zip(pointers)
    }
}

/// A verified block of a btree of a realtime group.
#[derive(Clone, Copy, Debug)]
pub struct RealtimeTreeBlock<'a> {
    /// The entries of the block.
    pub entries: RealtimeTreeEntries<'a>,
    /// The block before this one on the same level.
    pub left: Option<FsBlock>,
    /// The block after this one on the same level.
    pub right: Option<FsBlock>,
    /// The inode that the block belongs to.
    pub owner: u64,
}

impl<'a> RealtimeTreeBlock<'a> {
    /// Views `bytes`, one whole block read from `at`: magic number, level and count are checked.
    ///
    /// # Errors
    ///
    /// Returns the check that failed.
    pub fn decode<T: RealtimeTree>(bytes: &'a [u8], at: DiskAddr) -> Result<Self, Corruption> {
        Self::view::<T>(bytes).map_err(|check| corrupt(at, check))
    }

    fn view<T: RealtimeTree>(bytes: &'a [u8]) -> Result<Self, Check> {
        let (disk, body) = LongHeaderDisk::ref_from_prefix(bytes)
            .map_err(|_| envelope::truncated(bytes, BLOCK_HEADER_BYTES))?;
        envelope::verify_magic(disk.magic.get(), T::KIND.magic())?;
        let child_bytes = T::KEY_BYTES + POINTER_BYTES;
        let count = disk.count.get().into();
        let entries = RealtimeTreeEntries::of::<T>(disk.level.get(), count, body, child_bytes)?;
        let present = |raw: U64| (raw.get() != u64::MAX).then(|| FsBlock(raw.get()));
        let (left, right) = (present(disk.left), present(disk.right));
        Ok(Self { entries, left, right, owner: disk.owner.get() })
    }
}

/// Checks a block of a btree of a realtime group against itself: its header and its records.
///
/// # Errors
///
/// Returns the first check that failed.
pub fn verify_tree_block<T: RealtimeTree>(
    bytes: &[u8],
    at: DiskAddr,
    group: &RealtimeGroup<'_>,
    context: &VerifyContext<'_>,
) -> Result<(), Corruption> {
    let block = RealtimeTreeBlock::decode::<T>(bytes, at)?;
    T::KIND.verify(bytes, at, context)?;
    verify_entries::<T>(&block.entries, group).map_err(|check| corrupt(at, check))
}

/// Checks the records of a leaf, or the keys and pointers of a node, and their order.
///
/// # Errors
///
/// Returns the first check that failed.
pub fn verify_entries<T: RealtimeTree>(
    entries: &RealtimeTreeEntries<'_>,
    group: &RealtimeGroup<'_>,
) -> Result<(), Check> {
    let mut previous = None;
    for (index, bytes) in entries.records().enumerate() {
        let record = T::decode(bytes, group)?;
        let follows = previous.is_none_or(|last| T::Format::may_follow(&record, &last));
        if !follows {
            return Err(BtreeCheck::Order { index }.into());
        }
        previous = Some(record);
    }
    let mut last = None;
    for (index, (keys, pointer)) in entries.children().enumerate() {
        let (low, high) = decode_keys::<T>(keys);
        if last >= low {
            return Err(BtreeCheck::Order { index }.into());
        }
        if high.is_some() && high < low {
            return Err(BtreeCheck::HighKey { index }.into());
        }
        let split = group.geometry.split_block(pointer);
        if split.is_none_or(|(_, block)| block.0 < group.geometry.header_blocks()) {
            return Err(BtreeCheck::Pointer { index, pointer: pointer.0 }.into());
        }
        last = low;
    }
    Ok(())
}

/// The key of a btree.
pub type KeyOf<T> = <<T as RealtimeTree>::Format as BtreeFormat>::Key;

/// Decodes the keys of a child: the low key, and the high key where there is one.
#[must_use]
pub fn decode_keys<T: RealtimeTree>(keys: &[u8]) -> (Option<KeyOf<T>>, Option<KeyOf<T>>) {
    let one = if T::HAS_HIGH_KEYS { T::KEY_BYTES / 2 } else { T::KEY_BYTES };
    let decode = |bytes: Option<&[u8]>| bytes.and_then(T::Format::decode_key);
    let low = decode(keys.get(..one));
    let high = decode(keys.get(one..2 * one)).filter(|_| T::HAS_HIGH_KEYS);
    (low, high)
}

fn corrupt(at: DiskAddr, check: Check) -> Corruption {
    Corruption::new(Structure::RealtimeMetadata, StructureAddress::Disk(at), check)
}

#[cfg(test)]
mod tests;
