//! Blocks of all kinds of btrees (`xfs_btree_block`).
//!
//! Owns: the two headers, the offsets of records, keys and pointers, and every check of one block
//! against itself, including its records. Does **not** own: checks that need several blocks
//! (descent, siblings, owners), which the cursor makes. The root of a fork's btree lies in the
//! inode and has another form: [`ExtentRoot`](crate::extent::ExtentRoot).
//!
//! ```text
//! short   0 magic  4 level  6 count  8 left   12 right  16 address  24 LSN  32 UUID  48 owner
//!        52 CRC                                                                        .. 56
//! long    0 magic  4 level  6 count  8 left   16 right  24 address  32 LSN  40 UUID  56 owner
//!        64 CRC  68 pad                                                                .. 72
//! v4      the fields up to "right": 16 or 24 bytes
//! leaf    header, then records
//! node    header, then room for the largest number of keys, then pointers
//! ```
//!
//! Btrees of an allocation group are short: pointers are block numbers inside the group, and the
//! owner is the group. The extents of a fork and the btrees of a realtime group are long: pointers
//! are blocks of the volume, and the owner is the inode with the root.

mod block;
mod encode;
mod extents;
pub(crate) mod layout;
mod verify;

pub use crate::checks::btree::BtreeCheck;
pub use block::{BtreeBlock, LongHeaderDisk, ShortHeaderDisk};
pub use encode::{BtreeHeader, BtreeIdentity, encode_leaf};
pub use extents::Extents;
pub use layout::{BtreeKind, BtreeLayout, PointerForm};
pub(crate) use verify::{envelope_of, verify, verify_root};

use core::fmt::Debug;

use zerocopy::{Immutable, IntoBytes};

use crate::corruption::Check;
use crate::geometry::Geometry;
use crate::group::Group;

/// The format of one kind of btree, as a cursor uses it.
pub trait BtreeFormat {
    /// The kind of the btree, which determines its magic number and its sizes.
    const KIND: BtreeKind;
    /// A decoded record.
    type Record: Copy + Debug + PartialEq;
    /// The key by which records are ordered.
    type Key: Copy + Debug + Ord;

    /// Whether the key of a record determines everything that the record covers. If `true`, a
    /// change of a record that does not change its key changes no key in the nodes above.
    const KEY_TELLS_ALL: bool = false;

    /// Decodes a record of this btree and checks it. `group` is the allocation group of the btree.
    /// The btree of a fork's extents ignores it.
    ///
    /// # Errors
    ///
    /// Returns the check that failed.
    fn decode_record(bytes: &[u8], group: &Group<'_>) -> Result<Self::Record, Check>;

    /// Decodes the key at the start of `bytes`: the key of a record, or the lowest key of a node's
    /// child. Returns `None` if there are too few bytes.
    fn decode_key(bytes: &[u8]) -> Option<Self::Key>;

    /// Returns the key of a record.
    fn key(record: &Self::Record) -> Self::Key;

    /// Decodes the key of the record in `bytes`. A kind whose records contain the key unchanged
    /// reads only the key, because the records were checked when the block was read.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`decode_record`](Self::decode_record), and an error if there are too
    /// few bytes.
    fn decode_record_key(bytes: &[u8], group: &Group<'_>) -> Result<Self::Key, Check> {
        Self::decode_record(bytes, group).map(|record| Self::key(&record))
    }

    /// Returns the highest key that a record covers. This key differs from the record's key only in
    /// the reverse map, whose records may overlap.
    fn high_key(record: &Self::Record) -> Self::Key {
        Self::key(record)
    }

    /// Writes a record in its disk form.
    ///
    /// # Panics
    ///
    /// Panics if `into` does not have the length of a record, or a value does not fit its field.
    fn encode_record(record: &Self::Record, geometry: &Geometry, into: &mut [u8]);

    /// Writes the keys of a record as a node stores them: the low key, and then the high key if
    /// this kind of btree has one.
    ///
    /// # Panics
    ///
    /// Panics if `into` does not have the length of the keys of one child.
    fn encode_key(record: &Self::Record, into: &mut [u8]);

    /// Returns whether `record` may directly follow `previous` in a leaf. The key of `record` must
    /// be higher. The two records must not overlap, except in a kind of btree that allows overlaps.
    fn may_follow(record: &Self::Record, previous: &Self::Record) -> bool;
}

/// Writes a record or key in disk form to `into`, which must have the same length.
pub(crate) fn put<T: IntoBytes + Immutable>(disk: &T, into: &mut [u8]) {
    disk.write_to(into).expect("the target has the length of the record or key");
}

#[cfg(test)]
mod tests;
