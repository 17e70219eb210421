//! Blocks of the name hash btree that directories and attribute forks share: the common header and
//! the nodes. The leaves differ: [`directory::leaf`](crate::directory::leaf) and
//! [`attr::leaf`](crate::attr::leaf).
//!
//! Owns: header and node. Does **not** own checks across blocks. The code that follows pointers
//! checks that levels decrease by one from parent to child and that hashes ascend along siblings.
//!
//! ```text
//!  0 forward  4 back  8 magic  10 pad  12 CRC  16 own address  24 LSN  32 UUID  48 owner  (header)
//! 56 count  58 level  60 pad  64 entries { hash, child block } ...                        (node)
//!
//! v4:
//!  0 forward  4 back  8 magic  10 pad                                                    (header)
//! 12 count  14 level  16 entries                                                         (node)
//! ```
//!
//! # Invariants
//!
//! - **I1** The hash of an entry is the highest hash in its child. Entries are therefore sorted.
//!   The first entry whose hash is not below the hash of a name leads to the first leaf that may
//!   hold the name.

use core::mem::{offset_of, size_of};

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::{DiskAddr, FileBlock, InodeNumber};
pub use crate::checks::dabtree::{DaBtreeCheck, MAX_DEPTH};
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::envelope::{self, Envelope};
use crate::features::FormatVersion;
use crate::verify_context::VerifyContext;

/// Magic number of a node.
#[doc(alias = "XFS_DA3_NODE_MAGIC")]
pub const NODE_MAGIC: u16 = 0x3ebe;

/// Magic number of a node on a v4 volume.
#[doc(alias = "XFS_DA_NODE_MAGIC")]
pub const NODE_MAGIC_V4: u16 = 0xfebe;

/// The header of every block of a name hash btree on a v4 volume. The header of v5 volumes starts
/// with the same fields.
#[doc(alias = "xfs_da_blkinfo")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the module's diagram shows the layout")]
pub struct DaLinksDisk {
    pub forward: U32,
    pub back: U32,
    pub magic: U16,
    pub pad: U16,
}

/// The header of a node on a v4 volume.
#[doc(alias = "xfs_da_node_hdr")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct NodeHeaderV4Disk {
    links: DaLinksDisk,
    count: U16,
    level: U16,
}

/// The header of every block of a name hash btree.
#[doc(alias = "xfs_da3_blkinfo")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the module's diagram shows the layout")]
pub struct DaHeaderDisk {
    pub forward: U32,
    pub back: U32,
    pub magic: U16,
    pub pad: U16,
    pub crc: [u8; 4],
    pub block: U64,
    pub lsn: U64,
    pub uuid: [u8; 16],
    pub owner: U64,
}

/// The header of a node.
#[doc(alias = "xfs_da3_node_hdr")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the module's diagram shows the layout")]
pub struct NodeHeaderDisk {
    pub header: DaHeaderDisk,
    pub count: U16,
    pub level: U16,
    pub pad: U32,
}

/// An entry of a node, on disk.
#[doc(alias = "xfs_da_node_entry")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct NodeEntryDisk {
    /// The highest hash in the child.
    pub hash: U32,
    /// The block of the child, counted inside the fork.
    pub before: U32,
}

const _: () = assert!(size_of::<DaLinksDisk>() == 12);
const _: () = assert!(size_of::<NodeHeaderV4Disk>() == 16);
const _: () = assert!(size_of::<DaHeaderDisk>() == 56);
const _: () = assert!(size_of::<NodeHeaderDisk>() == 64);
const _: () = assert!(size_of::<NodeEntryDisk>() == 8);

/// Offsets of the common fields in every block of the tree.
pub(crate) const ENVELOPE: Envelope = Envelope {
    crc: offset_of!(DaHeaderDisk, crc),
    block: Some(offset_of!(DaHeaderDisk, block)),
    lsn: offset_of!(DaHeaderDisk, lsn),
    uuid: offset_of!(DaHeaderDisk, uuid),
};

/// Returns the magic number in the header of a block of the tree, node or leaf. Returns `None` if
/// there are too few bytes.
#[must_use]
pub fn magic(bytes: &[u8]) -> Option<u16> {
    links(bytes).map(|links| links.magic.get())
}

/// Returns whether a block of the tree is a node and not a leaf, by its magic number.
#[must_use]
pub fn is_node(bytes: &[u8]) -> bool {
    matches!(magic(bytes), Some(NODE_MAGIC | NODE_MAGIC_V4))
}

/// Returns the version of the volumes with blocks of this magic number. The first hexadecimal digit
/// of the magic numbers of v5 blocks is 3.
pub(crate) const fn version_of(magic: u16) -> FormatVersion {
    if magic >> 12 == 3 { FormatVersion::V5 } else { FormatVersion::V4 }
}

fn links(bytes: &[u8]) -> Option<&DaLinksDisk> {
    DaLinksDisk::ref_from_prefix(bytes).ok().map(|(links, _)| links)
}

/// Returns the owner inode in the header of any block of the tree. Returns `None` if there are too
/// few bytes, or for a block of a v4 volume, which names no owner.
#[must_use]
pub fn owner(bytes: &[u8]) -> Option<InodeNumber> {
    let (header, _) = DaHeaderDisk::ref_from_prefix(bytes).ok()?;
    let names_owner = version_of(header.magic.get()) == FormatVersion::V5;
    names_owner.then(|| InodeNumber(header.owner.get()))
}

/// Returns the next block on the same level, from the header of any block of the tree. Returns
/// `None` for the last block, or if there are too few bytes.
#[must_use]
pub fn forward(bytes: &[u8]) -> Option<FileBlock> {
    let header = links(bytes)?;
    Some(header.forward.get()).filter(|block| *block != 0).map(|block| FileBlock(block.into()))
}

/// Returns the previous block on the same level, from the header of any block of the tree. Returns
/// `None` for the first block, or if there are too few bytes.
#[must_use]
pub fn back(bytes: &[u8]) -> Option<FileBlock> {
    let header = links(bytes)?;
    Some(header.back.get()).filter(|block| *block != 0).map(|block| FileBlock(block.into()))
}

/// A node, borrowed from its block.
#[doc(alias = "xfs_da3_intnode")]
#[derive(Clone, Copy, Debug)]
pub struct DaNode<'a> {
    level: u16,
    magic: u16,
    owner: Option<InodeNumber>,
    entries: &'a [NodeEntryDisk],
}

impl<'a> DaNode<'a> {
    /// Decodes the node in `bytes`, which are the whole block.
    ///
    /// # Errors
    ///
    /// Returns an error if magic number, level or count are wrong.
    pub fn decode(bytes: &'a [u8], place: StructureAddress) -> Result<Self, Corruption> {
        Self::parse(bytes).map_err(|check| Corruption::new(Structure::DaBtree, place, check))
    }

    fn parse(bytes: &'a [u8]) -> Result<Self, Check> {
        let needed = size_of::<NodeHeaderDisk>();
        let truncated = Check::Truncated { available: bytes.len(), needed };
        let Ok((header, rest)) = NodeHeaderDisk::ref_from_prefix(bytes) else {
            return Err(truncated);
        };
        let magic = header.header.magic.get();
        let (level, count, rest) = match magic {
            NODE_MAGIC => (header.level.get(), header.count.get(), rest),
            NODE_MAGIC_V4 => match NodeHeaderV4Disk::ref_from_prefix(bytes) {
                Ok((header, rest)) => (header.level.get(), header.count.get(), rest),
                Err(_) => return Err(truncated),
            },
            found => {
                return Err(Check::Magic { found: found.into(), expected: NODE_MAGIC.into() });
            }
        };
        if !(1..=MAX_DEPTH).contains(&level) {
            return Err(DaBtreeCheck::Level { level }.into());
        }
        let capacity = rest.len() / size_of::<NodeEntryDisk>();
        match <[NodeEntryDisk]>::ref_from_prefix_with_elems(rest, count.into()) {
            Ok((entries, _)) if count != 0 => {
                Ok(Self { level, magic, owner: owner(bytes), entries })
            }
            _ => Err(DaBtreeCheck::Count { count, capacity }.into()),
        }
    }

    /// Returns the level: 1 for a node above leaves.
    #[must_use]
    pub fn level(&self) -> u16 {
        self.level
    }

    /// Returns the owner inode in the header, or `None` on a v4 volume, whose nodes name no owner.
    #[must_use]
    pub fn owner(&self) -> Option<InodeNumber> {
        self.owner
    }

    /// Returns the entries, in the order of their hashes.
    #[must_use]
    pub fn entries(&self) -> &'a [NodeEntryDisk] {
        self.entries
    }

    /// Returns the first child that may hold entries with this hash, or `None` if the hash is above
    /// the hashes of all children (I1).
    #[must_use]
    pub fn find(&self, hash: u32) -> Option<FileBlock> {
        let index = self.entries.partition_point(|entry| entry.hash.get() < hash);
        self.entries.get(index).map(|entry| FileBlock(entry.before.get().into()))
    }
}

/// Checks the node that was read from `at`: its common fields, and that its hashes ascend (I1).
pub(crate) fn verify(bytes: &[u8], at: DiskAddr, context: &VerifyContext<'_>) -> Result<(), Check> {
    ENVELOPE.verify(bytes, at, context)?;
    let node = DaNode::parse(bytes)?;
    envelope::verify_version(version_of(node.magic), context)?;
    let mut previous = 0;
    for (index, entry) in node.entries.iter().enumerate() {
        let (hash, block) = (entry.hash.get(), entry.before.get());
        // I1: the hashes ascend.
        if hash < previous {
            return Err(DaBtreeCheck::HashOrder { index, hash, previous }.into());
        }
        // Block 0 is the root of an attribute tree. In a directory it is a data block.
        if block == 0 {
            return Err(DaBtreeCheck::Child { index, block }.into());
        }
        previous = hash;
    }
    Ok(())
}
