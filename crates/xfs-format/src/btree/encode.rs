//! Writing a leaf.

use zerocopy::{FromZeros, Immutable, IntoBytes};

use super::{BtreeKind, LongHeaderDisk, PointerForm, ShortHeaderDisk};
use crate::addr::DiskAddr;
use crate::envelope;
use crate::geometry::Geometry;

/// Whose block it is, and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BtreeIdentity {
    /// Which btree.
    pub kind: BtreeKind,
    /// The allocation group, or the inode.
    pub owner: u64,
    /// The block's own address.
    pub address: DiskAddr,
}

/// Writes a btree that is one leaf, its root, into `block`: header, `records` and zeros behind
/// them. LSN and checksum are [`BlockKind::seal`](crate::BlockKind::seal)'s.
///
/// # Panics
///
/// If the records do not fit the block, or are not of this btree's size: the caller chose them.
pub fn encode_leaf<R: IntoBytes + Immutable>(
    identity: BtreeIdentity,
    records: &[R],
    geometry: &Geometry,
    block: &mut [u8],
) {
    let layout = identity.kind.layout();
    assert_eq!(size_of::<R>(), layout.record_bytes);
    let count = u16::try_from(records.len()).expect("a block holds fewer records than this");
    let uuid = geometry.meta_uuid.into_bytes();
    match layout.form {
        PointerForm::Short => {
            let owner = u32::try_from(identity.owner).expect("a group has a number of 32 bits");
            let header = ShortHeaderDisk {
                magic: layout.magic.into(),
                count: count.into(),
                left: u32::MAX.into(),
                right: u32::MAX.into(),
                address: identity.address.0.into(),
                uuid,
                owner: owner.into(),
                ..ShortHeaderDisk::new_zeroed()
            };
            envelope::fill(block, &header);
        }
        PointerForm::Long => {
            let header = LongHeaderDisk {
                magic: layout.magic.into(),
                count: count.into(),
                left: u64::MAX.into(),
                right: u64::MAX.into(),
                address: identity.address.0.into(),
                uuid,
                owner: identity.owner.into(),
                ..LongHeaderDisk::new_zeroed()
            };
            envelope::fill(block, &header);
        }
    }
    let (_, room) = block.split_at_mut(layout.header_bytes());
    records.write_to_prefix(room).expect("the records fit the block");
}
