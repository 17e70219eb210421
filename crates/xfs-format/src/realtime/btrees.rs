//! Btrees of a realtime group: the reverse map and the reference counts, with their roots in inodes
//! of the metadata directory.
//!
//! Owns: the records, which have the form of those of an allocation group, and the layout of a root
//! in an inode. Does **not** own the editing of a btree.
//!
//! ```text
//! root in an inode   0 level  2 count  4 leaf: records; node: room for keys, then pointers
//! root in the log    the long header of a block  72 leaf: records; node: keys, then pointers
//! ```
//!
//! The room for keys ends after as many keys as the root has room for children. The root of a btree
//! of reference counts has room for twice the size of its keys.

use crate::addr::AgBlock;
use crate::btree::{BtreeFormat, BtreeKind, BtreeLayout, verify_root};
use crate::checks::btree::BtreeCheck;
use crate::corruption::Check;
use crate::geometry::Geometry;
use crate::group::Group;
use crate::refcount::{Refcount, RefcountDomain, Refcounts};
use crate::rmap::{ReverseMap, Rmap, RmapFlags, RmapKey, RmapOwner};

/// Returns whether `count` blocks from `start` on lie inside the longest group of the realtime
/// section. The last group may be shorter, but a record does not say to which group it belongs.
fn exists(geometry: &Geometry, start: AgBlock, count: u32) -> bool {
    let end = u64::from(start.0) + u64::from(count);
    count != 0 && end <= geometry.realtime.group_length(0)
}

/// The reverse map of a realtime group.
#[doc(alias = "rtrmapbt")]
#[derive(Clone, Copy, Debug)]
pub enum RealtimeReverseMap {}

impl BtreeFormat for RealtimeReverseMap {
    const KIND: BtreeKind = BtreeKind::RealtimeReverseMap;
    type Record = Rmap;
    type Key = RmapKey;

    fn decode_record(bytes: &[u8], group: &Group<'_>) -> Result<Rmap, Check> {
        let geometry = group.geometry();
        Rmap::decode_with(bytes, group, |rmap| {
            let is_of_section = match rmap.owner {
                RmapOwner::Inode(_) => !rmap.flags.intersects(METADATA_FLAGS),
                RmapOwner::Volume => rmap.start.0 == 0,
                RmapOwner::Staging => true,
                _ => false,
            };
            is_of_section && exists(geometry, rmap.start, rmap.count)
        })
    }

    fn decode_key(bytes: &[u8]) -> Option<RmapKey> {
        ReverseMap::decode_key(bytes)
    }

    fn key(record: &Rmap) -> RmapKey {
        ReverseMap::key(record)
    }

    fn high_key(record: &Rmap) -> RmapKey {
        record.high_key()
    }

    fn encode_record(record: &Rmap, geometry: &Geometry, into: &mut [u8]) {
        ReverseMap::encode_record(record, geometry, into);
    }

    fn encode_key(record: &Rmap, into: &mut [u8]) {
        ReverseMap::encode_key(record, into);
    }

    fn may_follow(record: &Rmap, previous: &Rmap) -> bool {
        ReverseMap::may_follow(record, previous)
    }
}

/// Flags that no block of a realtime section has: its blocks hold contents of files only.
const METADATA_FLAGS: RmapFlags = RmapFlags::ATTR.union(RmapFlags::FORK_BTREE);

/// The reference counts of a realtime group.
#[doc(alias = "rtrefcountbt")]
#[derive(Clone, Copy, Debug)]
pub enum RealtimeRefcounts {}

impl BtreeFormat for RealtimeRefcounts {
    const KIND: BtreeKind = BtreeKind::RealtimeRefcount;
    type Record = Refcount;
    type Key = (RefcountDomain, AgBlock);

    fn decode_record(bytes: &[u8], group: &Group<'_>) -> Result<Refcount, Check> {
        Refcount::decode_with(bytes, |start, count| exists(group.geometry(), start, count))
    }

    fn decode_key(bytes: &[u8]) -> Option<Self::Key> {
        Refcounts::decode_key(bytes)
    }

    fn key(record: &Refcount) -> Self::Key {
        Refcounts::key(record)
    }

    fn encode_record(record: &Refcount, geometry: &Geometry, into: &mut [u8]) {
        Refcounts::encode_record(record, geometry, into);
    }

    fn encode_key(record: &Refcount, into: &mut [u8]) {
        Refcounts::encode_key(record, into);
    }

    fn may_follow(record: &Refcount, previous: &Refcount) -> bool {
        Refcounts::may_follow(record, previous)
    }
}

/// The value of `di_metatype` in the inode of the bitmap of a realtime group.
pub const BITMAP_METATYPE: u16 = 5;
/// The value of `di_metatype` in the inode of the summary of a realtime group.
pub const SUMMARY_METATYPE: u16 = 6;
/// The value of `di_metatype` in the inode that holds the reverse map of a realtime group.
const RMAP_METATYPE: u16 = 7;
/// The value of `di_metatype` in the inode that holds the reference counts of a realtime group.
const REFCOUNT_METATYPE: u16 = 8;

/// Length in bytes of the header of a root in an inode: level and number of entries.
const ROOT_HEADER_BYTES: usize = 4;

/// The layout of the root of a btree of a realtime group in its inode.
#[doc(alias = "xfs_rtrmap_root")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataRootLayout {
    /// The kind of btree.
    pub kind: BtreeKind,
    /// Length in bytes of the fork that holds the root.
    pub fork_bytes: usize,
}

impl MetadataRootLayout {
    /// Returns the layout of the root in an inode with this `di_metatype`, whose data fork has
    /// `fork_bytes` bytes. Returns `None` for an inode without such a btree.
    #[must_use]
    pub const fn of_metatype(metatype: u16, fork_bytes: usize) -> Option<Self> {
        match metatype {
            RMAP_METATYPE => Some(Self { kind: BtreeKind::RealtimeReverseMap, fork_bytes }),
            REFCOUNT_METATYPE => Some(Self { kind: BtreeKind::RealtimeRefcount, fork_bytes }),
            _ => None,
        }
    }

    /// Returns the value of `di_metatype` in the inode of a btree of this kind.
    #[must_use]
    pub const fn metatype(kind: BtreeKind) -> Option<u16> {
        match kind {
            BtreeKind::RealtimeReverseMap => Some(RMAP_METATYPE),
            BtreeKind::RealtimeRefcount => Some(REFCOUNT_METATYPE),
            _ => None,
        }
    }

    const fn layout(&self) -> &'static BtreeLayout {
        self.kind.layout()
    }

    /// Returns the number of entries that the root has room for at this level.
    #[doc(alias = "xfs_rtrmapbt_droot_maxrecs")]
    #[must_use]
    pub const fn capacity(&self, level: u32) -> usize {
        let room = self.fork_bytes.saturating_sub(ROOT_HEADER_BYTES);
        let layout = self.layout();
        let entry = if level == 0 {
            layout.record_bytes
        } else {
            // Both kinds have room for two keys of each child.
            2 * layout.key_bytes + layout.pointer_bytes()
        };
        room / entry
    }

    /// Returns the level and the number of entries in `fork`, the data fork of the inode.
    ///
    /// # Errors
    ///
    /// Returns an error for a root with more entries than it has room for, or for a node without
    /// children.
    pub fn header(&self, fork: &[u8]) -> Result<(u32, usize), BtreeCheck> {
        let word = |at: usize| fork.get(at..).and_then(<[u8]>::first_chunk::<2>).copied();
        let level = word(0).map_or(u16::MAX, u16::from_be_bytes);
        let count = usize::from(word(2).map_or(u16::MAX, u16::from_be_bytes));
        let most = self.capacity(level.into());
        if fork.len() < self.fork_bytes || count > most || (level > 0 && count == 0) {
            return Err(BtreeCheck::Count { count, max: most, level });
        }
        Ok((level.into(), count))
    }

    /// Returns the offsets of the keys or records, and of the pointers, of a root with this level.
    const fn columns(&self, level: u32) -> (usize, usize) {
        let keys = self.capacity(level) * self.layout().node_key_bytes();
        (ROOT_HEADER_BYTES, ROOT_HEADER_BYTES + keys)
    }

    /// Copies the entries of the root in `fork` into `block`, a whole btree block. Its header must
    /// already have the level and the number of entries of the root.
    ///
    /// # Errors
    ///
    /// The errors of [`header`](Self::header).
    pub fn unpack(&self, fork: &[u8], block: &mut [u8]) -> Result<(), BtreeCheck> {
        let (level, count) = self.header(fork)?;
        for (root, whole, bytes) in self.moves(level, count, block.len()) {
            copy(block, whole, fork, root, bytes);
        }
        Ok(())
    }

    /// Writes the root into `fork`, all bytes of the fork. `block` has the root in the form of a
    /// whole block.
    ///
    /// # Panics
    ///
    /// Panics if the fork has no room for the entries.
    pub fn pack(&self, level: u32, count: usize, block: &[u8], fork: &mut [u8]) {
        assert!(count <= self.capacity(level), "the entries of a root fit into its inode");
        fork.fill(0);
        let header = [level as u16, count as u16].map(u16::to_be_bytes).concat();
        copy(fork, 0, &header, 0, ROOT_HEADER_BYTES);
        for (root, whole, bytes) in self.moves(level, count, block.len()) {
            copy(fork, root, block, whole, bytes);
        }
    }

    /// Returns where the two arrays of entries lie: keys or records, and pointers. Each array has
    /// its offset in the fork, its offset in a whole block, and its number of bytes.
    fn moves(&self, level: u32, count: usize, block_bytes: usize) -> [(usize, usize, usize); 2] {
        let layout = self.layout();
        let (first, pointers) = self.columns(level);
        let header = layout.header_bytes();
        if level == 0 {
            return [(first, header, count * layout.record_bytes), (first, header, 0)];
        }
        let whole = layout.pointers_offset(block_bytes as u32);
        [
            (first, header, count * layout.node_key_bytes()),
            (pointers, whole, count * layout.pointer_bytes()),
        ]
    }

    /// Checks the entries of a root. `block` has the root in the form of a whole block.
    ///
    /// # Errors
    ///
    /// Returns the first check that failed.
    pub fn verify(&self, block: &[u8], geometry: &Geometry) -> Result<(), Check> {
        match self.kind {
            BtreeKind::RealtimeReverseMap => verify_root::<RealtimeReverseMap>(block, geometry),
            BtreeKind::RealtimeRefcount => verify_root::<RealtimeRefcounts>(block, geometry),
            _ => Err(BtreeCheck::Outside.into()),
        }
    }

    /// Returns the keys or records, and the pointers, of the root in `fork`: the parts of the root
    /// that are logged after a header.
    ///
    /// # Errors
    ///
    /// The errors of [`header`](Self::header).
    pub fn parts<'a>(&self, fork: &'a [u8]) -> Result<[&'a [u8]; 2], BtreeCheck> {
        let (level, count) = self.header(fork)?;
        let parts = self.moves(level, count, self.fork_bytes);
        let part = |(root, _, bytes): (usize, usize, usize)| {
            fork.get(root..root + bytes).ok_or(BtreeCheck::Outside)
        };
        let [keys, pointers] = parts;
        Ok([part(keys)?, part(pointers)?])
    }
}

fn copy(into: &mut [u8], at: usize, from: &[u8], start: usize, bytes: usize) {
    let target = into.get_mut(at..at + bytes).expect("the entries of a root lie in its room");
    let source = from.get(start..start + bytes).expect("the entries of a root lie in its room");
    target.copy_from_slice(source);
}

#[cfg(test)]
mod tests;
