//! Leaves of the hash index: name hashes and the cookies of their entries.
//!
//! Owns: decoding, search and the checks of one leaf. The only leaf of a directory ("leaf1") ends
//! with the best free length of each data block. Leaves below nodes ("leafn") do not have these
//! lengths.
//!
//! ```text
//!  0 common header (see dabtree)  56 count  58 stale  60 pad  64 { hash, cookie } ...
//! leaf1 only, at the end of the block: best free length (2) of each data block ..., their count
//!
//! v4: 0 links (see dabtree)  12 count  14 stale  16 { hash, cookie } ...
//! ```
//!
//! # Invariants
//!
//! - **I1** Entries are sorted by hash. A stale entry keeps its hash; its cookie is 0.

use core::mem::size_of;

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::DirectoryCheck;
use crate::addr::{DiskAddr, FileBlock, InodeNumber};
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::dabtree::{self, DaHeaderDisk, DaLinksDisk};
use crate::envelope;
use crate::verify_context::VerifyContext;

/// Magic number of the only leaf of a directory.
#[doc(alias = "XFS_DIR3_LEAF1_MAGIC")]
pub const LEAF1_MAGIC: u16 = 0x3df1;

/// Magic number of a leaf below nodes.
#[doc(alias = "XFS_DIR3_LEAFN_MAGIC")]
pub const LEAFN_MAGIC: u16 = 0x3dff;

/// Magic number of the only leaf of a directory on a v4 volume.
#[doc(alias = "XFS_DIR2_LEAF1_MAGIC")]
pub const LEAF1_MAGIC_V4: u16 = 0xd2f1;

/// Magic number of a leaf below nodes on a v4 volume.
#[doc(alias = "XFS_DIR2_LEAFN_MAGIC")]
pub const LEAFN_MAGIC_V4: u16 = 0xd2ff;

/// An entry of the hash index.
#[doc(alias = "xfs_dir2_leaf_entry")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct HashEntryDisk {
    /// The hash of the entry's name.
    pub hash: U32,
    /// The cookie of the entry, or 0 if the entry was removed.
    #[doc(alias = "address")]
    pub cookie: U32,
}

/// The header of a leaf.
#[doc(alias = "xfs_dir3_leaf_hdr")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the module's diagram shows the layout")]
pub struct LeafHeaderDisk {
    pub header: DaHeaderDisk,
    pub count: U16,
    pub stale: U16,
    pub pad: U32,
}

/// The header of a leaf on a v4 volume.
#[doc(alias = "xfs_dir2_leaf_hdr")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct LeafHeaderV4Disk {
    links: DaLinksDisk,
    count: U16,
    stale: U16,
}

const _: () = assert!(size_of::<LeafHeaderV4Disk>() == 16);
const _: () = assert!(size_of::<HashEntryDisk>() == 8);
const _: () = assert!(size_of::<LeafHeaderDisk>() == 64);

/// A leaf of the hash index, of either kind, borrowed from its buffer.
#[derive(Clone, Copy, Debug)]
pub struct LeafBlock<'a> {
    magic: u16,
    stale: u16,
    owner: Option<InodeNumber>,
    forward: Option<FileBlock>,
    entries: &'a [HashEntryDisk],
    best_free: Option<&'a [U16]>,
}

impl<'a> LeafBlock<'a> {
    /// Decodes the leaf in `bytes`, which are the whole block.
    ///
    /// # Errors
    ///
    /// Returns an error if the magic number is wrong or the counts do not fit the block.
    pub fn decode(bytes: &'a [u8], place: StructureAddress) -> Result<Self, Corruption> {
        Self::parse(bytes).map_err(|check| Corruption::new(Structure::Directory, place, check))
    }

    fn parse(bytes: &'a [u8]) -> Result<Self, Check> {
        let needed = size_of::<LeafHeaderDisk>();
        let truncated = Check::Truncated { available: bytes.len(), needed };
        let Ok((header, rest)) = LeafHeaderDisk::ref_from_prefix(bytes) else {
            return Err(truncated);
        };
        let magic = header.header.magic.get();
        let (count, stale, rest) = match magic {
            LEAFN_MAGIC | LEAF1_MAGIC => (header.count.get(), header.stale.get(), rest),
            LEAFN_MAGIC_V4 | LEAF1_MAGIC_V4 => match LeafHeaderV4Disk::ref_from_prefix(bytes) {
                Ok((header, rest)) => (header.count.get(), header.stale.get(), rest),
                Err(_) => return Err(truncated),
            },
            magic => {
                let (found, expected) = (magic.into(), LEAFN_MAGIC.into());
                return Err(Check::Magic { found, expected });
            }
        };
        let (rest, best_free) = match magic {
            LEAF1_MAGIC | LEAF1_MAGIC_V4 => {
                let (rest, best_free) = split_best_free(rest)?;
                (rest, Some(best_free))
            }
            _ => (rest, None),
        };
        match <[HashEntryDisk]>::ref_from_prefix_with_elems(rest, count.into()) {
            Ok((entries, _)) if stale <= count => {
                let (owner, forward) = (dabtree::owner(bytes), dabtree::forward(bytes));
                Ok(Self { magic, stale, owner, forward, entries, best_free })
            }
            _ => {
                let (count, stale) = (count.into(), stale.into());
                Err(DirectoryCheck::IndexCount { count, stale }.into())
            }
        }
    }

    /// Returns the owner inode in the header, or `None` on a v4 volume, whose leaves name no owner.
    #[must_use]
    pub fn owner(&self) -> Option<InodeNumber> {
        self.owner
    }

    /// Returns the next leaf in the order of hashes, or `None` for the last leaf.
    #[must_use]
    pub fn forward(&self) -> Option<FileBlock> {
        self.forward
    }

    /// Returns the entries in the order of their hashes, including stale ones.
    #[must_use]
    pub fn entries(&self) -> &'a [HashEntryDisk] {
        self.entries
    }

    /// Returns the length of the longest free record of each data block, or `None` if this leaf is
    /// below a node.
    #[must_use]
    pub fn best_free(&self) -> Option<&'a [U16]> {
        self.best_free
    }

    /// Returns the entries with this hash, including stale ones.
    pub fn find(&self, hash: u32) -> impl Iterator<Item = &'a HashEntryDisk> + use<'a> {
        equal_hashes(self.entries, hash)
    }
}

/// Returns the entries of `index` with this hash, including stale ones.
pub(crate) fn equal_hashes(
    index: &[HashEntryDisk],
    hash: u32,
) -> impl Iterator<Item = &HashEntryDisk> {
    let start = index.partition_point(|entry| entry.hash.get() < hash);
    let rest = index.get(start..).expect("a partition point lies in its slice");
    rest.iter().take_while(move |entry| entry.hash.get() == hash)
}

/// Checks that the hashes of `index` ascend (I1). Returns the number of stale entries.
pub(crate) fn verify_order(index: &[HashEntryDisk]) -> Result<u32, DirectoryCheck> {
    let (mut previous, mut stale) = (0, 0);
    for (index, entry) in index.iter().enumerate() {
        let hash = entry.hash.get();
        // I1: the hashes ascend.
        if hash < previous {
            return Err(DirectoryCheck::HashOrder { index, hash, previous });
        }
        previous = hash;
        stale += u32::from(entry.cookie.get() == 0);
    }
    Ok(stale)
}

fn split_best_free(rest: &[u8]) -> Result<(&[u8], &[U16]), Check> {
    let truncated = Check::Truncated { available: rest.len(), needed: size_of::<U32>() };
    let Ok((rest, count)) = U32::ref_from_suffix(rest) else {
        return Err(truncated);
    };
    let count = count.get();
    let length = usize::try_from(count).ok();
    match length.map(|length| <[U16]>::ref_from_suffix_with_elems(rest, length)) {
        Some(Ok((rest, best_free))) => Ok((rest, best_free)),
        _ => Err(DirectoryCheck::BestCount { count }.into()),
    }
}

/// Checks a leaf that was read from `at`.
pub(crate) fn verify(bytes: &[u8], at: DiskAddr, context: &VerifyContext<'_>) -> Result<(), Check> {
    let leaf = LeafBlock::parse(bytes)?;
    envelope::verify_version(dabtree::version_of(leaf.magic), context)?;
    dabtree::ENVELOPE.verify(bytes, at, context)?;
    let (count, stale) = (leaf.entries.len() as u32, leaf.stale.into());
    if verify_order(leaf.entries)? != stale {
        return Err(DirectoryCheck::IndexCount { count, stale }.into());
    }
    Ok(())
}
