//! Golden sectors and blocks for tests: mkfs.xfs and the kernel wrote them (`testdata/groups`).

use std::vec::Vec;

use crate::addr::DiskAddr;
use crate::corruption::{Corruption, StructureAddress};
use crate::geometry::Geometry;
use crate::kind::{BlockKind, VerifyContext};
use crate::superblock::Superblock;

mod round_trip;

macro_rules! golden {
    ($name:expr) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/groups/", $name))
            as &[u8]
    };
}
pub(crate) use golden;

/// Header sectors of several golden volumes, by name: the first four sectors of each, 512 bytes
/// each.
pub(crate) const HEADERS: [(&str, &[u8]); 6] = [
    ("plain", golden!("plain.headers")),
    ("small-blocks", golden!("small-blocks.headers")),
    ("large-blocks", golden!("large-blocks.headers")),
    ("few-features", golden!("few-features.headers")),
    ("changed-uuid", golden!("changed-uuid.headers")),
    ("aged", golden!("aged.headers")),
];

/// Returns header sector `index` of a golden group.
pub(crate) fn sector(headers: &[u8], index: usize) -> Vec<u8> {
    headers[index * 512..(index + 1) * 512].to_vec()
}

/// Returns the geometry of the golden volume with these header sectors.
pub(crate) fn geometry(headers: &[u8]) -> Geometry {
    Superblock::decode(headers, StructureAddress::Disk(DiskAddr(0))).unwrap().geometry
}

/// Verifies a buffer of a volume whose log head is unknown.
pub(crate) fn verify(
    kind: BlockKind,
    bytes: &[u8],
    at: DiskAddr,
    geometry: &Geometry,
) -> Result<(), Corruption> {
    kind.verify(bytes, at, &VerifyContext { geometry, log_head: None })
}

/// Flips every bit of the first `limit` bytes, one at a time. Recomputes the checksum after each
/// flip and calls `check` with the result. Recomputing the checksum undoes a flip in the checksum
/// itself.
pub(crate) fn for_each_flip(
    kind: BlockKind,
    bytes: &[u8],
    limit: usize,
    mut check: impl FnMut(usize, &[u8]),
) {
    for bit in 0..limit * 8 {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        reseal(kind, &mut flipped);
        check(bit / 8, &flipped);
    }
}

/// Recomputes the checksum of a buffer and keeps its LSN.
pub(crate) fn reseal(kind: BlockKind, bytes: &mut [u8]) {
    use crate::btree::BtreeKind;
    let offset = match kind {
        BlockKind::Superblock => crate::superblock::CRC_OFFSET,
        BlockKind::Agf => 216,
        BlockKind::Agi => 312,
        BlockKind::Agfl => 32,
        BlockKind::Btree(BtreeKind::Extent) => 64,
        BlockKind::Btree(_) => 52,
        _ => panic!("there is no golden block of this kind"),
    };
    crate::crc::seal(bytes, offset);
}
