//! Encoding of btree blocks: the header of any block, and a btree that is a single leaf.

use zerocopy::{FromZeros, Immutable, IntoBytes};

use super::{BtreeKind, LongHeaderDisk, PointerForm, ShortHeaderDisk};
use crate::addr::DiskAddr;
use crate::envelope;
use crate::geometry::Geometry;

/// The fields that identify a block: its btree, owner and address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BtreeIdentity {
    /// The kind of btree.
    pub kind: BtreeKind,
    /// The number of the allocation group, or of the inode, to which the btree belongs.
    pub owner: u64,
    /// The block's own address.
    pub address: DiskAddr,
}

/// The header of a block, without LSN and checksum, which
/// [`BlockKind::seal`](crate::BlockKind::seal) stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BtreeHeader {
    /// The btree, owner and address of the block.
    pub identity: BtreeIdentity,
    /// The level of the block; leaves have level 0.
    pub level: u16,
    /// Number of entries in the block.
    pub count: u16,
    /// The block before this one on the same level; `None` for the first block.
    pub left: Option<u64>,
    /// The block after this one on the same level; `None` for the last block.
    pub right: Option<u64>,
}

impl BtreeHeader {
    /// Writes the header to the start of `block` and zeros after it.
    ///
    /// # Panics
    ///
    /// Panics if this btree has the short form and the owner or a sibling does not fit 32 bits: a
    /// mistake of the caller.
    pub fn encode(&self, geometry: &Geometry, block: &mut [u8]) {
        let layout = self.identity.kind.layout();
        let short = |number| u32::try_from(number).expect("group and block numbers have 32 bits");
        let uuid = geometry.meta_uuid.into_bytes();
        match layout.form {
            PointerForm::Short => {
                let header = ShortHeaderDisk {
                    magic: layout.magic.into(),
                    level: self.level.into(),
                    count: self.count.into(),
                    left: self.left.map_or(u32::MAX, short).into(),
                    right: self.right.map_or(u32::MAX, short).into(),
                    address: self.identity.address.0.into(),
                    uuid,
                    owner: short(self.identity.owner).into(),
                    ..ShortHeaderDisk::new_zeroed()
                };
                envelope::fill(block, &header);
            }
            PointerForm::Long => {
                let header = LongHeaderDisk {
                    magic: layout.magic.into(),
                    level: self.level.into(),
                    count: self.count.into(),
                    left: self.left.unwrap_or(u64::MAX).into(),
                    right: self.right.unwrap_or(u64::MAX).into(),
                    address: self.identity.address.0.into(),
                    uuid,
                    owner: self.identity.owner.into(),
                    ..LongHeaderDisk::new_zeroed()
                };
                envelope::fill(block, &header);
            }
        }
    }
}

/// Writes a btree that consists of one leaf into `block`: header, `records` and zeros after them.
/// [`BlockKind::seal`](crate::BlockKind::seal) stores LSN and checksum.
///
/// # Panics
///
/// Panics if the records do not fit the block, or do not have this btree's record size: a mistake
/// of the caller.
pub fn encode_leaf<R: IntoBytes + Immutable>(
    identity: BtreeIdentity,
    records: &[R],
    geometry: &Geometry,
    block: &mut [u8],
) {
    let layout = identity.kind.layout();
    assert_eq!(size_of::<R>(), layout.record_bytes);
    let count = u16::try_from(records.len()).expect("a block holds fewer than 2^16 records");
    let header = BtreeHeader { identity, level: 0, count, left: None, right: None };
    header.encode(geometry, block);
    let (_, room) = block.split_at_mut(layout.header_bytes());
    records.write_to_prefix(room).expect("the records fit the block");
}
