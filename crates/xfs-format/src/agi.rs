//! AG inode header (AGI, `xfs_agi`): sector 2 of every allocation group.
//!
//! Owns: decoding, and every check of the AGI against itself and against the group's size. Does
//! **not** own the comparison of the AGI's counters with the btrees.
//!
//! ```text
//!   0 magic  4 version  8 group  12 length  16 inodes  20 root  24 levels  28 free inodes
//!  32 newest chunk  36 unused  40 unlinked lists (64)  296 UUID  312 CRC  320 LSN
//! 328 root, levels of free inodes  336 blocks of the two btrees                          .. 344
//! ```

use core::mem::offset_of;
use core::ops::Range;

use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::{AgBlock, AgInode, AgNumber, DiskAddr, Lsn};
use crate::agf::BtreeRoot;
use crate::btree::BtreeKind;
pub use crate::checks::agi::AgiCheck;
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::envelope::{self, Envelope, HeaderSector};
use crate::features::RoCompatFeatures;
use crate::geometry::Geometry;
use crate::group::Group;
use crate::verify_context::VerifyContext;

/// Magic number of the AGI: "XAGI".
pub const AGI_MAGIC: u32 = 0x5841_4749;
/// Index of the AGI's sector in its group.
pub const AGI_SECTOR: u32 = 2;
/// Number of unlinked lists in a group. They hold inodes that have no name and are still open. The
/// inode number modulo this number gives the list of an inode.
#[doc(alias = "XFS_AGI_UNLINKED_BUCKETS")]
pub const UNLINKED_BUCKETS: usize = 64;
const VERSION: u32 = 1;

/// The AGI on disk.
#[doc(alias = "xfs_agi")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of `Agi`, documented there")]
pub struct AgiDisk {
    pub magic: U32,
    pub version: U32,
    pub group: U32,
    pub length: U32,
    pub count: U32,
    pub root: U32,
    pub levels: U32,
    pub free_count: U32,
    pub newest_inode: U32,
    pub unused_directory_inode: U32,
    pub unlinked: [U32; UNLINKED_BUCKETS],
    pub uuid: [u8; 16],
    pub crc: [u8; 4],
    pub pad: U32,
    pub lsn: U64,
    pub free_root: U32,
    pub free_levels: U32,
    pub inode_btree_blocks: U32,
    pub free_inode_btree_blocks: U32,
}

const _: () = assert!(size_of::<AgiDisk>() == 344);
const _: () = assert!(offset_of!(AgiDisk, uuid) == 296);
const _: () = assert!(offset_of!(AgiDisk, lsn) == 320);

pub(crate) const ENVELOPE: Envelope = Envelope {
    crc: offset_of!(AgiDisk, crc),
    uuid: offset_of!(AgiDisk, uuid),
    lsn: offset_of!(AgiDisk, lsn),
    block: None,
};

/// The AGI in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agi {
    /// The number of the allocation group.
    #[doc(alias = "seqno")]
    pub group: AgNumber,
    /// Number of blocks in the group.
    pub length_blocks: u32,
    /// Number of inodes that are on disk in the group, including free ones.
    pub count: u32,
    /// Number of free inodes that are on disk in the group.
    #[doc(alias = "freecount")]
    pub free_count: u32,
    /// Root of the btree of inode chunks.
    #[doc(alias = "inobt")]
    pub inode_btree: BtreeRoot,
    /// Root of the btree of inode chunks with free inodes, if the volume has that btree.
    #[doc(alias = "finobt")]
    pub free_inode_btree: Option<BtreeRoot>,
    /// First inode of the newest chunk, or `None` if no chunk is stored. The field is only a hint.
    #[doc(alias = "newino")]
    pub newest_inode: Option<AgInode>,
    /// First inode of each unlinked list, or `None` if the list is empty.
    pub unlinked: [Option<AgInode>; UNLINKED_BUCKETS],
    /// Number of blocks of the inode btree, if the volume counts them.
    #[doc(alias = "iblocks")]
    pub inode_btree_blocks: Option<u32>,
    /// Number of blocks of the free-inode btree, if the volume counts them.
    #[doc(alias = "fblocks")]
    pub free_inode_btree_blocks: Option<u32>,
    /// The LSN of the last logged change of the AGI.
    pub lsn: Lsn,
}

/// The AGI without its unlinked lists: the fields that each allocation of an inode reads or
/// changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of `Agi`, documented there")]
pub struct AgiFields {
    pub length_blocks: u32,
    pub count: u32,
    pub free_count: u32,
    pub inode_btree: BtreeRoot,
    pub free_inode_btree: Option<BtreeRoot>,
    pub newest_inode: Option<AgInode>,
    pub inode_btree_blocks: Option<u32>,
    pub free_inode_btree_blocks: Option<u32>,
    pub lsn: Lsn,
}

impl AgiFields {
    /// Decodes the fields of an AGI without its unlinked lists, like [`Agi::decode`].
    ///
    /// # Errors
    ///
    /// See [`Agi::decode`].
    pub fn decode(sector: &[u8], at: DiskAddr, geometry: &Geometry) -> Result<Self, Corruption> {
        envelope::header_form::<AgiDisk>(sector)
            .map(|disk| Self::from_disk(disk, geometry))
            .map_err(|check| Corruption::new(Structure::Agi, StructureAddress::Disk(at), check))
    }

    fn from_disk(disk: &AgiDisk, geometry: &Geometry) -> Self {
        let has_free_btree = geometry.has_ro_compat(RoCompatFeatures::FINOBT);
        let has_counts = geometry.has_ro_compat(RoCompatFeatures::INOBTCNT);
        let root = |block: U32, levels: U32| BtreeRoot {
            block: AgBlock(block.get()),
            levels: levels.get(),
        };
        Self {
            length_blocks: disk.length.get(),
            count: disk.count.get(),
            free_count: disk.free_count.get(),
            inode_btree: root(disk.root, disk.levels),
            free_inode_btree: has_free_btree.then(|| root(disk.free_root, disk.free_levels)),
            newest_inode: present(disk.newest_inode),
            inode_btree_blocks: has_counts.then(|| disk.inode_btree_blocks.get()),
            free_inode_btree_blocks: (has_counts && has_free_btree)
                .then(|| disk.free_inode_btree_blocks.get()),
            lsn: Lsn(disk.lsn.get()),
        }
    }

    /// Returns the byte ranges of the fields that differ from `stored`, each with its new contents.
    /// The length of the group and the LSN are left out, because other code changes these fields.
    pub fn changes_since(&self, stored: &Self) -> impl Iterator<Item = (Range<usize>, [u8; 4])> {
        let changed = self.words().into_iter().zip(stored.words());
        changed.filter(|(new, old)| new != old).map(|((offset, word), _)| {
            let bytes = word.to_be_bytes();
            (offset..offset + bytes.len(), bytes)
        })
    }

    fn words(&self) -> [(usize, u32); 9] {
        let absent = BtreeRoot { block: AgBlock(0), levels: 0 };
        let free_inode_btree = self.free_inode_btree.unwrap_or(absent);
        let blocks = self.free_inode_btree_blocks.unwrap_or(0);
        [
            (offset_of!(AgiDisk, count), self.count),
            (offset_of!(AgiDisk, root), self.inode_btree.block.0),
            (offset_of!(AgiDisk, levels), self.inode_btree.levels),
            (offset_of!(AgiDisk, free_count), self.free_count),
            (offset_of!(AgiDisk, newest_inode), self.newest_inode.unwrap_or(AgInode::NULL).0),
            (offset_of!(AgiDisk, free_root), free_inode_btree.block.0),
            (offset_of!(AgiDisk, free_levels), free_inode_btree.levels),
            (offset_of!(AgiDisk, inode_btree_blocks), self.inode_btree_blocks.unwrap_or(0)),
            (offset_of!(AgiDisk, free_inode_btree_blocks), blocks),
        ]
    }
}

/// Returns the range of bytes in the sector that holds the first inode of unlinked list `bucket`.
#[must_use]
pub const fn unlinked_range(bucket: usize) -> Range<usize> {
    let start = offset_of!(AgiDisk, unlinked) + bucket * size_of::<U32>();
    start..start + size_of::<U32>()
}

/// Decodes the first inode of an unlinked list from the bytes at [`unlinked_range`]. Returns `None`
/// if the list is empty.
#[must_use]
pub fn decode_unlinked(bytes: &[u8]) -> Option<AgInode> {
    U32::read_from_bytes(bytes).ok().and_then(present)
}

/// Encodes the first inode of an unlinked list for the bytes at [`unlinked_range`].
#[must_use]
pub fn encode_unlinked(first: Option<AgInode>) -> [u8; 4] {
    first.unwrap_or(AgInode::NULL).0.to_be_bytes()
}

impl Agi {
    /// Decodes the AGI at the start of `sector`, which was read from `at`. The volume's features
    /// decide which optional fields exist. Values are not checked: [`BlockKind::verify`] does that.
    ///
    /// [`BlockKind::verify`]: crate::BlockKind::verify
    ///
    /// # Errors
    ///
    /// Returns an error for a wrong magic number, or too few bytes.
    pub fn decode(sector: &[u8], at: DiskAddr, geometry: &Geometry) -> Result<Self, Corruption> {
        envelope::header_form::<AgiDisk>(sector)
            .map(|disk| Self::from_disk(disk, geometry))
            .map_err(|check| Corruption::new(Structure::Agi, StructureAddress::Disk(at), check))
    }

    fn from_disk(disk: &AgiDisk, geometry: &Geometry) -> Self {
        let fields = AgiFields::from_disk(disk, geometry);
        Self {
            group: AgNumber(disk.group.get()),
            length_blocks: fields.length_blocks,
            count: fields.count,
            free_count: fields.free_count,
            inode_btree: fields.inode_btree,
            free_inode_btree: fields.free_inode_btree,
            newest_inode: fields.newest_inode,
            unlinked: disk.unlinked.map(present),
            inode_btree_blocks: fields.inode_btree_blocks,
            free_inode_btree_blocks: fields.free_inode_btree_blocks,
            lsn: fields.lsn,
        }
    }

    /// Writes the AGI into `sector` and zeros after it.
    /// [`BlockKind::seal`](crate::BlockKind::seal) stores LSN and checksum.
    ///
    /// # Panics
    ///
    /// Panics if `sector` is too short, which is a mistake of the caller.
    pub fn encode(&self, geometry: &Geometry, sector: &mut [u8]) {
        let absent = BtreeRoot { block: AgBlock(0), levels: 0 };
        let free_inode_btree = self.free_inode_btree.unwrap_or(absent);
        let inode = |inode: Option<AgInode>| U32::new(inode.unwrap_or(AgInode::NULL).0);
        let disk = AgiDisk {
            magic: AGI_MAGIC.into(),
            version: VERSION.into(),
            group: self.group.0.into(),
            length: self.length_blocks.into(),
            count: self.count.into(),
            root: self.inode_btree.block.0.into(),
            levels: self.inode_btree.levels.into(),
            free_count: self.free_count.into(),
            newest_inode: inode(self.newest_inode),
            unused_directory_inode: inode(None),
            unlinked: self.unlinked.map(inode),
            uuid: geometry.meta_uuid.into_bytes(),
            free_root: free_inode_btree.block.0.into(),
            free_levels: free_inode_btree.levels.into(),
            inode_btree_blocks: self.inode_btree_blocks.unwrap_or(0).into(),
            free_inode_btree_blocks: self.free_inode_btree_blocks.unwrap_or(0).into(),
            ..AgiDisk::new_zeroed()
        };
        envelope::fill(sector, &disk);
    }

    fn verify(&self, group: &Group<'_>) -> Result<(), AgiCheck> {
        let (found, expected) = (self.group.0, group.number().0);
        if found != expected {
            return Err(AgiCheck::GroupNumber { found, expected });
        }
        let (found, expected) = (self.length_blocks, group.length_blocks());
        if found != expected {
            return Err(AgiCheck::Length { found, expected });
        }
        self.verify_btrees(group)?;
        let max = u64::from(group.length_blocks()) << group.geometry().inodes_per_block_log;
        let (free, count) = (self.free_count, self.count);
        if free > count || u64::from(count) > max {
            return Err(AgiCheck::Inodes { free, count, max });
        }
        for (bucket, inode) in self.unlinked.iter().enumerate() {
            let Some(inode) = inode else { continue };
            if inode.0 as usize % UNLINKED_BUCKETS != bucket || !group.contains_inode(*inode) {
                return Err(AgiCheck::Unlinked { bucket, inode: inode.0 });
            }
        }
        Ok(())
    }

    fn verify_btrees(&self, group: &Group<'_>) -> Result<(), AgiCheck> {
        let trees = [
            (BtreeKind::Inode, Some(self.inode_btree), self.inode_btree_blocks),
            (BtreeKind::FreeInode, self.free_inode_btree, self.free_inode_btree_blocks),
        ];
        for (kind, root, blocks) in trees {
            let Some(BtreeRoot { block, levels }) = root else { continue };
            let (tree, max) = (kind.name(), kind.max_levels(group.geometry()));
            if !group.contains_block(block) {
                return Err(AgiCheck::Root { tree, block: block.0 });
            }
            if levels == 0 || levels > max {
                return Err(AgiCheck::Levels { tree, levels, max });
            }
            let length = group.length_blocks();
            if let Some(blocks) = blocks.filter(|blocks| *blocks < levels || *blocks > length) {
                return Err(AgiCheck::Blocks { tree, blocks, length });
            }
        }
        Ok(())
    }

    /// Returns the unlinked lists that are not empty: the index and the first inode of each.
    pub fn unlinked_heads(&self) -> impl Iterator<Item = (usize, AgInode)> + '_ {
        let heads = self.unlinked.iter().enumerate();
        heads.filter_map(|(bucket, inode)| inode.map(|inode| (bucket, inode)))
    }
}

fn present(raw: U32) -> Option<AgInode> {
    let inode = AgInode(raw.get());
    (!inode.is_null()).then_some(inode)
}

impl HeaderSector for AgiDisk {
    const MAGIC: u32 = AGI_MAGIC;
    const VERSION: u32 = VERSION;
    const INDEX: u32 = AGI_SECTOR;
    const ENVELOPE: Envelope = ENVELOPE;

    #[inline]
    fn magic(&self) -> u32 {
        self.magic.get()
    }

    #[inline]
    fn version(&self) -> u32 {
        self.version.get()
    }

    fn wrong_version(version: u32) -> Check {
        AgiCheck::Version { version }.into()
    }

    fn verify_fields(&self, group: &Group<'_>) -> Result<(), Check> {
        Ok(Agi::from_disk(self, group.geometry()).verify(group)?)
    }
}

/// Checks the AGI in `sector`, which was read from `at`.
pub(crate) fn verify(
    sector: &[u8],
    at: DiskAddr,
    context: &VerifyContext<'_>,
) -> Result<(), Check> {
    envelope::verify_header::<AgiDisk>(sector, at, context)
}

#[cfg(test)]
mod tests;
