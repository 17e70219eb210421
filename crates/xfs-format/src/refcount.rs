//! Record of the reference counts (`xfs_refcount_rec`): first block, length and count, 4 bytes
//! each.
//!
//! Owns: the record and its two domains. Does **not** own: the owners of the references, which the
//! reverse map records.
//!
//! Blocks of a single owner have no record. The top bit of the first block marks extents that are
//! reserved for copy-on-write. Keys are compared including that bit, so those extents sort last.

use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::AgBlock;
use crate::btree::{BtreeFormat, BtreeKind, put};
pub use crate::checks::refcount::RefcountCheck;
use crate::corruption::Check;
use crate::geometry::Geometry;
use crate::group::Group;

/// The bit in the block number of a record that marks blocks reserved for copy-on-write.
#[doc(alias = "XFS_REFC_COWFLAG")]
const STAGING_BIT: u32 = 1 << 31;

/// A reference count on disk.
#[doc(alias = "xfs_refcount_rec")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of `Refcount`, documented there")]
pub struct RefcountDisk {
    pub start: U32,
    pub count: U32,
    pub references: U32,
}

/// Length of a key in bytes. A record starts with its key.
const KEY_BYTES: usize = 4;

const _: () = assert!(size_of::<RefcountDisk>() == 12);

/// Whether the blocks of an extent are shared, or reserved for copy-on-write. The btree has the
/// records of shared extents first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefcountDomain {
    /// Blocks that are shared by several files, or by several offsets of one file.
    Shared,
    /// Blocks that are reserved for copy-on-write and do not belong to a file yet.
    #[doc(alias = "CoW staging")]
    Staging,
}

/// An extent whose blocks have the same number of references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refcount {
    /// Whether the extent is shared or reserved for copy-on-write.
    pub domain: RefcountDomain,
    /// The first block of the extent.
    pub start: AgBlock,
    /// Number of blocks in the extent.
    pub count: u32,
    /// Number of references to each block of the extent. All ones means that the count has
    /// overflowed and is no longer maintained.
    pub references: u32,
}

impl Refcount {
    /// Decodes a record and checks it.
    ///
    /// # Errors
    ///
    /// Returns the check that failed.
    pub fn decode(bytes: &[u8], group: &Group<'_>) -> Result<Self, Check> {
        Self::decode_with(bytes, |start, count| group.contains_extent(start, count))
    }

    /// Decodes a record and checks it. `exists` checks that the blocks exist.
    pub(crate) fn decode_with(
        bytes: &[u8],
        exists: impl FnOnce(AgBlock, u32) -> bool,
    ) -> Result<Self, Check> {
        let disk = RefcountDisk::read_from_bytes(bytes)
            .map_err(|_| crate::envelope::truncated(bytes, size_of::<RefcountDisk>()))?;
        let (domain, block) = split_start(disk.start.get());
        let (start, count, references) = (block.0, disk.count.get(), disk.references.get());
        if !exists(block, count) {
            return Err(RefcountCheck::Range { start, count }.into());
        }
        match domain {
            RefcountDomain::Shared if references < 2 => {
                Err(RefcountCheck::Shared { start, references }.into())
            }
            RefcountDomain::Staging if references != 1 => {
                Err(RefcountCheck::Staging { start, references }.into())
            }
            _ => Ok(Self { domain, start: block, count, references }),
        }
    }

    /// Encodes the record.
    #[must_use]
    pub fn encode(&self) -> RefcountDisk {
        RefcountDisk {
            start: join_start(self.domain, self.start).into(),
            count: self.count.into(),
            references: self.references.into(),
        }
    }

    /// Returns the block after the last block of the extent.
    #[must_use]
    pub const fn end(&self) -> AgBlock {
        AgBlock(self.start.0 + self.count)
    }
}

fn split_start(raw: u32) -> (RefcountDomain, AgBlock) {
    let is_staging = raw & STAGING_BIT != 0;
    let domain = if is_staging { RefcountDomain::Staging } else { RefcountDomain::Shared };
    (domain, AgBlock(raw & !STAGING_BIT))
}

fn join_start(domain: RefcountDomain, start: AgBlock) -> u32 {
    match domain {
        RefcountDomain::Shared => start.0,
        RefcountDomain::Staging => start.0 | STAGING_BIT,
    }
}

/// The btree of reference counts.
#[doc(alias = "refcountbt")]
#[derive(Clone, Copy, Debug)]
pub enum Refcounts {}

impl BtreeFormat for Refcounts {
    const KIND: BtreeKind = BtreeKind::Refcount;
    type Record = Refcount;
    type Key = (RefcountDomain, AgBlock);

    fn decode_record(bytes: &[u8], group: &Group<'_>) -> Result<Refcount, Check> {
        Refcount::decode(bytes, group)
    }

    fn decode_key(bytes: &[u8]) -> Option<Self::Key> {
        U32::read_from_bytes(bytes).ok().map(|raw| split_start(raw.get()))
    }

    fn decode_record_key(bytes: &[u8], _group: &Group<'_>) -> Result<Self::Key, Check> {
        let key = bytes.get(..KEY_BYTES).and_then(Self::decode_key);
        key.ok_or_else(|| crate::envelope::truncated(bytes, KEY_BYTES))
    }

    fn key(record: &Refcount) -> Self::Key {
        (record.domain, record.start)
    }

    fn encode_record(record: &Refcount, _geometry: &Geometry, into: &mut [u8]) {
        put(&record.encode(), into);
    }

    fn encode_key(record: &Refcount, into: &mut [u8]) {
        put(&U32::new(join_start(record.domain, record.start)), into);
    }

    fn may_follow(record: &Refcount, previous: &Refcount) -> bool {
        record.domain > previous.domain
            || (record.domain == previous.domain && record.start >= previous.end())
    }
}

#[cfg(test)]
mod tests;
