//! The fuzz target for blocks of dquots. The golden image has no quota, so the seeds are built.

use std::hint::black_box;

use xfs_format::BlockKind;
use xfs_format::dquot::{
    DQUOT_BLOCK_BYTES, DQUOT_MAGIC, DquotDisk, DquotPlace, QuotaKind, dquot_at, dquots_per_block,
    seal_block,
};
use zerocopy::{FromZeros, IntoBytes};

use super::block;
use crate::seeds;

/// Fuzzes a block of dquots.
pub fn dquots(input: &[u8]) {
    block(input, BlockKind::Dquots, |bytes, _, geometry| {
        for index in 0..=dquots_per_block(geometry) {
            let Some(dquot) = dquot_at(bytes, index) else { continue };
            let id = dquot.id.get();
            drop(black_box(dquot.verify_fields(geometry)));
            black_box(dquot.quota_kind());
            for kind in QuotaKind::ALL {
                drop(black_box(dquot.verify_owner(kind, id.wrapping_add(index))));
            }
            black_box(DquotPlace::of(id, geometry));
        }
    });
}

/// Returns one input for each quota type, with a block of dquots. The dquots of the last block have
/// limits and running timers.
pub(super) fn inputs() -> Vec<Vec<u8>> {
    let address = [0; 8];
    QuotaKind::ALL.iter().map(|kind| [&address[..], &build_block(*kind)].concat()).collect()
}

/// Returns a block of the dquots from ID 0 on, as a kernel makes it.
pub(super) fn build_block(kind: QuotaKind) -> Vec<u8> {
    let geometry = seeds::geometry();
    let mut block = vec![0; geometry.block_size as usize];
    for (slot, id) in block.chunks_exact_mut(DQUOT_BLOCK_BYTES).zip(0_u32..) {
        let mut dquot = DquotDisk::new_zeroed();
        dquot.magic = DQUOT_MAGIC.into();
        (dquot.version, dquot.kind) = (1, kind.bits());
        dquot.id = id.into();
        dquot.uuid = *geometry.meta_uuid.as_bytes();
        if kind == QuotaKind::Project {
            (dquot.blocks, dquot.block_soft_limit) = (9.into(), 8.into());
            (dquot.block_hard_limit, dquot.block_timer) = (20.into(), 1000.into());
        }
        slot.copy_from_slice(dquot.as_bytes());
    }
    seal_block(&mut block);
    block
}
