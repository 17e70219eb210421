//! Blocks of all btrees (`xfs_btree_block`).
//!
//! Owns: the two headers, the places of records, keys and pointers, and every check that one block
//! can make on itself, its records included. Does **not** own descent, siblings or owners: that is
//! the cursor's, which sees more than one block. The root of a fork's btree lies in the inode and
//! has another form: [`ExtentRoot`](crate::extent::ExtentRoot).
//!
//! ```text
//! short   0 magic  4 level  6 count  8 left   12 right  16 address  24 LSN  32 UUID  48 owner
//!        52 CRC                                                                        .. 56
//! long    0 magic  4 level  6 count  8 left   16 right  24 address  32 LSN  40 UUID  56 owner
//!        64 CRC  68 pad                                                                .. 72
//! leaf    header, then records
//! node    header, then places for the most keys a node can hold, then pointers
//! ```
//!
//! Btrees of an allocation group are short: pointers are block numbers inside the group, and the
//! owner is the group. The extents of a fork are long: pointers are blocks of the volume, and the
//! owner is the inode.

mod block;
mod encode;
mod extents;
mod layout;
mod verify;

pub use block::{BtreeBlock, LongHeaderDisk, ShortHeaderDisk};
pub use encode::{BtreeHeader, BtreeIdentity, encode_leaf};
pub use extents::Extents;
pub use layout::{BtreeKind, BtreeLayout, PointerForm};
pub use verify::BtreeCheck;
pub(crate) use verify::{envelope_of, seal, verify};

use core::fmt::Debug;

use zerocopy::{Immutable, IntoBytes};

use crate::corruption::Check;
use crate::geometry::Geometry;
use crate::group::Group;

/// What a cursor has to know of one kind of btree.
pub trait BtreeFormat {
    /// The kind: magic number and sizes follow from it.
    const KIND: BtreeKind;
    /// A decoded record.
    type Record: Copy + Debug + PartialEq;
    /// What records are ordered by.
    type Key: Copy + Debug + Ord;

    /// Whether the key of a record alone says what it covers. Then a record that changes and keeps its key
    /// may stand where it stood.
    const KEY_TELLS_ALL: bool = false;

    /// Decodes a record of this btree and checks it. `group` is the one that the btree belongs to; it
    /// has no meaning for the extents of a fork.
    ///
    /// # Errors
    ///
    /// The check that failed.
    fn decode_record(bytes: &[u8], group: &Group<'_>) -> Result<Self::Record, Check>;

    /// Decodes the (low) key at the start of `bytes`; `None` if there are too few.
    fn decode_key(bytes: &[u8]) -> Option<Self::Key>;

    /// The key of a record.
    fn key(record: &Self::Record) -> Self::Key;

    /// The key of the record in `bytes`. A block's records were checked when it was read: kinds whose
    /// key stands in the record as it is look at nothing else here.
    ///
    /// # Errors
    ///
    /// As [`decode_record`](Self::decode_record), or too few bytes.
    fn decode_record_key(bytes: &[u8], group: &Group<'_>) -> Result<Self::Key, Check> {
        Self::decode_record(bytes, group).map(|record| Self::key(&record))
    }

    /// The highest key that a record covers. Only the reverse map, whose records overlap, has any
    /// other than the key itself.
    fn high_key(record: &Self::Record) -> Self::Key {
        Self::key(record)
    }

    /// Writes a record as it lies on disk.
    ///
    /// # Panics
    ///
    /// If `into` is not as long as a record, or a part of the record does not fit its field.
    fn encode_record(record: &Self::Record, geometry: &Geometry, into: &mut [u8]);

    /// Writes the key of a record as a node holds it: the low one, and behind it the high one where
    /// this kind has any.
    ///
    /// # Panics
    ///
    /// If `into` is not as long as the keys of one child.
    fn encode_key(record: &Self::Record, into: &mut [u8]);

    /// Whether `record` may stand right after `previous`: its key is higher, and the two do not
    /// overlap where this kind forbids it.
    fn may_follow(record: &Self::Record, previous: &Self::Record) -> bool;
}

/// Writes a record or key, which has as many bytes as `into`.
pub(crate) fn put<T: IntoBytes + Immutable>(disk: &T, into: &mut [u8]) {
    disk.write_to(into).expect("the room for a record or key is as long as it is");
}

#[cfg(test)]
mod tests;
